"""The clients that a sum counts as colluding and as lost: shares of those called, not of those that joined.

A round calls a number of clients that the scenario states. C = ceil(corrupt called) of them collude with the server,
and L = floor(tolerated called) may be lost. Whoever is lost may be honest: all C count as having joined, however few
did. Of n that joined, L' = max(0, L - (called - n)) may still be lost. Shares of n instead would fall with each honest
client that does not come, and fewer than C would be withstood.
"""

from dataclasses import dataclass

from tacit.sim.shares import rounded_down, rounded_up

__all__ = ["Assumed", "NotCarried"]


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
