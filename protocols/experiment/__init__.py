"""What is looked at from outside in a run of any protocol, and its results."""
