"""Bytes on the wire, beside formulas and other systems."""
