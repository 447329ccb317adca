"""Flower apps that are measured."""
