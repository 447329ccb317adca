"""Differential privacy as pure mathematics: mechanisms, sensitivities and their accounting; no messages."""
