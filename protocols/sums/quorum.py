"""The smallest sizes of sums whose masks are dealt in shares (`dealing`): for opening, and for hiding each client."""

__all__ = ["FEW_NEIGHBOURS", "FEW_VALUES", "NOT_CARRIED", "STAYS_MASKED", "always_left", "fewest_left", "threshold_of"]

STAYS_MASKED = "the sum stays masked: {why}"
"""The kind of the reason of a sum that nobody may open."""

NOT_CARRIED = "no sum: {problem}"
"""The kind of the reason of a round in which too few clients joined to carry those that may collude."""

FEW_VALUES = "masked values of {count} clients were received; {needed} are needed"
FEW_NEIGHBOURS = "{count} neighbours of {client} are left; {needed} are needed"
"""Kinds of the reason behind it."""


def threshold_of(chosen: int | None, members: int) -> int:
    """The threshold t for `members` = |A|: `chosen`, but always a majority.

    With less, two sets could uncover one client.
    """
    return max(members // 2 + 1, chosen or 0)


def fewest_left(members: int, threshold: int, least: int) -> int:
    """The least size of U3 of `members` = |A|, so that no server opens a sum over fewer than `least` of them.

    The server may show each of g <= |A| clients a different U3, with u in it. A client whose seed is revealed is in g
    of them at most; each other one, of which t reveal the key, in g - t. So g u <= s g + (g - s) (g - t) for the s
    clients that are summed: s >= g (u + t - g) / t, the least where g = |A|.
    """
    if not members:  # nobody is left, and nothing is opened
        return max(threshold, least)
    return max(threshold, least, members - threshold + (least - 1) * threshold // members + 1)


def always_left(members: int, threshold: int) -> int:
    """The largest `least` for which `fewest_left` is `threshold`: a sum with any t survivors is over at least these."""
    return -(-(2 * threshold - members) * members // threshold)
