"""Co-training: clients share their predictions for public points, and learn from the consensus."""
