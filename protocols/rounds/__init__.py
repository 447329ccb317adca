"""Rounds: the call of clients, waits, returning parties, and promises of every round."""
