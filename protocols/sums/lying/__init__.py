"""Lying servers of secure sums: what they can ask of honest clients, and what they learn from the answers."""
