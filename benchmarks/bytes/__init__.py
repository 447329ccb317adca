"""Bytes on the wire, compared with formulas and with other systems."""
