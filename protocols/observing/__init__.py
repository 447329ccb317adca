"""What is looked at from outside in a run of any protocol, and what came out of it."""
