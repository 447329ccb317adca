"""How many of the clients that were called collude and are lost, and how many an opened set therefore needs.

A scenario states shares. They are of the clients that a round CALLS: C = ceil(corrupt n) of n called clients may
collude with the server, whoever of the others does not come. A rule that counts only those that came would lower C with
every honest client that is lost, and the clients that collude are never lost.
"""

import math
from fractions import Fraction

__all__ = ["assumed_third", "colluding_of", "fewest_opened", "lost_of"]


def colluding_of(corrupt: float, called: int) -> int:
    """C = ceil(`corrupt` * `called`): how many clients may collude with the server, where `called` clients are called.

    `corrupt` is the share as written in decimals, so .07 of 100 clients are 7, not the 8 of floating point.
    """
    return math.ceil(Fraction(repr(float(corrupt))) * called)


def lost_of(tolerated: float, called: int) -> int:
    """L = floor(`tolerated` * `called`): how many clients may be lost, where `called` clients are called."""
    return math.floor(Fraction(repr(float(tolerated))) * called)


def assumed_third(called: int) -> int:
    """C of a signed sum whose scenario states no share: a third of the `called` clients, rounded down."""
    return called // 3


def fewest_opened(min_clients: int, colluding: int) -> int:
    """The fewest clients of a sum that may be opened: `min_clients`, and two more than the C that are `colluding`.

    Those that collude know their own inputs. With C + 1 clients the sum would show the input of the only other one.
    """
    return max(min_clients, colluding + 2)
