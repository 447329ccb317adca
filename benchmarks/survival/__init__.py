"""Predicted survival compared with real runs."""
