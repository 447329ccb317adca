"""Secure sums: sending, checks and refusals of clients, and opening by the server."""
