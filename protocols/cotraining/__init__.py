"""Co-training: clients share what they predict for public points, and learn from what they agree on."""
