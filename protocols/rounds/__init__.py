"""Rounds: who is called, how long is waited, who returns, and what holds in every round."""
