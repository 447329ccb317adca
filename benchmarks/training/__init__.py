"""The speed of federated training."""
