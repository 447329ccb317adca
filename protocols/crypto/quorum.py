"""How many clients of a sum may collude and be lost, and how many must be left to open it and to hide each of them.

A round calls a number of clients that the scenario states. C = ceil(corrupt called) of them collude with the server,
and L = floor(tolerated called) may be lost. Whoever is lost may be honest: all C count as having joined, however few
did. Of n that joined, L' = max(0, L - (called - n)) may still be lost. Shares of n instead would fall with each honest
client that does not come, and fewer than C would be withstood.

Where masks are dealt in shares (`sums.dealing`), t of them restore a secret (`threshold_of`), and the least size of the
set U3 of survivors follows from t and C (`fewest_left`).
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from tacit.sim.shares import rounded_down, rounded_up

__all__ = [
    "NOBODY", "NOT_CARRIED", "Assumed", "Least", "NotCarried", "always_left", "fewest_left", "limit_of", "threshold_of",
    "too_few_for",
]  # fmt: skip

NOT_CARRIED = "no sum: {problem}"
"""The kind of the reason of a round in which too few clients joined to carry those that may collude."""


class NotCarried(ValueError):
    """Too few clients joined for a sum that withstands C; the message names C, the called and the joined clients."""


@dataclass(frozen=True)
class Assumed:
    """The clients that a round has `called`: C of them are `colluding` with the server, and L, `lost`, may be lost."""

    called: int
    colluding: int
    lost: int

    @classmethod
    def of(cls, called: int, corrupt: float, tolerated: float = 0.0) -> "Assumed":
        """The numbers of the shares `corrupt`, rounded up, and `tolerated`, rounded down, of those `called`."""
        return cls(called, rounded_up(corrupt, called), rounded_down(tolerated, called))

    def left_to_lose(self, joined: int) -> int:
        """L': how many of those that `joined` may still be lost."""
        return max(0, self.lost - max(0, self.called - joined))

    @property
    def fewest(self) -> int:
        """The fewest clients of a set that may be opened: C and two others."""
        return self.colluding + 2

    def refused(self, joined: int, why: str) -> NotCarried:
        """The error of a sum among those that `joined`, with the reason `why` there can be none."""
        return NotCarried(
            f"{self.colluding} of {self.called} clients that were called may collude, and {joined} joined: {why}"
        )

    def require_fewest(self, joined: int) -> None:
        """Raise NotCarried if those that `joined` are fewer than a set that may be opened."""
        if joined < self.fewest:
            raise self.refused(joined, f"a sum needs {self.fewest}")


NOBODY = Assumed(0, 0, 0)
"""The assumption of a sum in which no client colludes with the server."""


@dataclass(frozen=True)
class Least:
    """The smallest number of `clients`, of those that are `counted`, among which a client lets its values be summed.

    None counts all. `colluding`: C, how many of those that were called may collude with the server; a sum has two more.
    """

    clients: int
    counted: Container[str] | None = None
    colluding: int = 0

    @property
    def fewest(self) -> int:
        """The fewest counted clients of a sum."""
        return max(self.clients, self.colluding + 2) if self.colluding else self.clients

    def problem(self, names: Sequence[str]) -> str:
        """The problem of a sum over `names`; "" if they are enough."""
        count = sum(self.counted is None or name in self.counted for name in set(names))
        if count >= self.fewest:
            return ""
        what = f"{count} clients{'' if self.counted is None else ' with labels'} are fewer than {self.fewest}"
        return what + too_few_for(self.fewest, self.colluding)


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
