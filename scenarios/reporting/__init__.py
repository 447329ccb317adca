"""Describes runs, on a terminal and as pages of HTML."""
