"""Inference of membership from what the parties of a run really sent."""
