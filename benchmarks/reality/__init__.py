"""The simulator's predictions beside real machines and links."""
