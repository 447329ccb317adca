"""Shares of a number of parties as whole numbers, exactly: a share is the decimal number that its file states.

In floating point 0.07 x 100 is 7.000000000000001 and 0.29 x 100 is 28.999999999999996; here they are 7 and 29.
"""

import math
from fractions import Fraction

__all__ = ["rounded_down", "rounded_up"]


def rounded_up(share: float, whole: int) -> int:
    """The least integer that is at least `share` of `whole`."""
    return math.ceil(_of(share, whole))


def rounded_down(share: float, whole: int) -> int:
    """The largest integer that is at most `share` of `whole`."""
    return math.floor(_of(share, whole))


def _of(share: float, whole: int) -> Fraction:
    return Fraction(str(float(share))) * whole  # the shortest decimal number that is read as this float
