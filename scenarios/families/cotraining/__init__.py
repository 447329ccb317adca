"""Co-training."""
