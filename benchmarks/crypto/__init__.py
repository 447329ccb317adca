"""The speed of the cryptography, and the cost table."""
