"""Printing, on a terminal and into a file alike."""
