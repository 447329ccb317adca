"""Secure sums under the same losses, on the same networks."""
