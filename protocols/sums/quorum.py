"""The smallest sizes of sums whose masks are dealt in shares (`dealing`): for opening, and for hiding each client."""

from tacit.protocols.crypto.assumed import Assumed

__all__ = [
    "FEW_NEIGHBOURS", "FEW_VALUES", "NOBODY", "NOT_CARRIED", "SPLIT", "STAYS_MASKED", "always_left", "fewest_left",
    "limit_of", "threshold_of", "too_few_for",
]  # fmt: skip

STAYS_MASKED = "the sum stays masked: {why}"
"""The kind of the reason of a sum that nobody may open."""

NOT_CARRIED = "no sum: {problem}"
"""The kind of the reason of a round in which too few clients joined to carry those that may collude."""

FEW_VALUES = "masked values of {count} clients were received; {needed} are needed"
FEW_NEIGHBOURS = "{count} neighbours of {client} are left; {needed} are needed"
SPLIT = "if {colluding} clients collude, a part of {count} clients has a sum of its own; {least} are needed"
"""Kinds of the reason behind it."""


NOBODY = Assumed(0, 0, 0)
"""The assumption of a sum in which no client colludes with the server."""


def threshold_of(chosen: int | None, members: int, colluding: int = 0) -> int:
    """The threshold t for `members` = |A|: `chosen`, but always more than half of |A| + C, with C `colluding` clients.

    With less, two sets could uncover one client: those that collude give both kinds of share.
    """
    return max((members + colluding) // 2 + 1, chosen or 0)


def fewest_left(members: int, threshold: int, least: int, colluding: int = 0) -> int:
    """The least size of U3 of `members` = |A|, so that no server opens a sum over fewer than `least` of them.

    C of A are `colluding` with the server and give it all that they hold; w = `least` - C is the least number of honest
    clients in a sum. The server may show each of g <= |A| - C honest clients a different U3, with u in it. A client
    whose seed is revealed is in all g of them at most. For each other one t shares reveal the key, C of them those of
    the colluding, so t - C honest clients take it for lost, and it is in g - (t - C). With u - C honest clients in each
    of g sets, g (u - C) <= s g + (g - s) (g - t + C) for the s honest clients that are summed, so s >= g (u + t - 2 C
    - g) / (t - C), the least where g = |A| - C. Hence u > |A| + C - t + (w - 1) (t - C) / (|A| - C).
    """
    honest, shares = members - colluding, threshold - colluding
    if honest < 1:  # nobody is left, and nothing is opened
        return max(threshold, least)
    summed = max(1, least - colluding)
    return max(threshold, least, members + colluding - threshold + (summed - 1) * shares // honest + 1)


def always_left(members: int, threshold: int, colluding: int = 0) -> int:
    """The largest `least` for which `fewest_left` is `threshold`: a sum with any t survivors is over at least these."""
    honest, shares = members - colluding, threshold - colluding
    if honest < 1 or shares < 1:  # it cannot carry C
        return colluding
    return colluding + -(-(2 * threshold - members - colluding) * honest // shares)


def too_few_for(least: int, colluding: int) -> str:
    """A sentence's end that names C where `least` clients are needed because that many are `colluding`; else ""."""
    return f", as {colluding} may collude with the server" if colluding and least >= colluding + 2 else ""


def limit_of(min_clients: int, colluding: int) -> str:
    """The name of the limit on the clients of a sum, for `outcome.require`."""
    if not colluding or min_clients > colluding + 2:
        return "min_clients"
    return f"the least, with C = {colluding} clients that may collude with the server,"
