"""Federated training: the shared round, and each algorithm in a file of its own."""
