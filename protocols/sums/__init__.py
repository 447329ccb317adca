"""Secure sums: what clients send, check and refuse, and what the server opens."""
