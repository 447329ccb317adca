"""Flower apps on Tacit's network and clock."""
