"""Federated training."""
