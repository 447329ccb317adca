"""The simulator's predictions compared with real machines and links."""
