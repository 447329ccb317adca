"""Attacks on the protocols and on weakened copies of them."""
