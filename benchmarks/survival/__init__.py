"""Predicted survival beside real runs."""
