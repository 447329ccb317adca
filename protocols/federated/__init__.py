"""Federated training: the shared round, and each algorithm in a separate file."""
