"""Secure sums compared under equal losses, on equal networks."""
