"""Attacks on a secure sum by a server that reads a client's vector from too many openings, or from too small a sum.

Each weakening removes one refusal of the clients. What follows for them is decided by the rank of what the server
receives (`finding.by_rank`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from tacit.benchmarks.attacks.finding import Finding, by_rank
from tacit.benchmarks.attacks.weakened import Forgetful, any_number_of_times
from tacit.parties.client import Client
from tacit.protocols.crypto import quorum
from tacit.protocols.crypto.dealt_secrets import SHARE
from tacit.protocols.sums import dealing, secure_sum
from tacit.protocols.sums.dealing import Dealt, Revealed
from tacit.scenarios.chaos.server_world import Miniature

__all__ = [
    "both_shares_in_one_answer", "one_attempt_begun_twice", "sum_of_one", "two_answers_an_attempt",
    "two_attempts_over_one_vector",
]  # fmt: skip

_FOUR, _FIVE = Miniature("secure", 4, min_clients=2), Miniature("secure", 5, min_clients=3)
_NUMBERS, _VECTOR = "server: the numbers of one client", "server: the vector of one client"


def _summed(names: str, start: str = "start") -> str:
    """The moves of a sum among the clients `names`, up to the masked values of all."""
    return f"{start} {names}; keys {names}; want {names}"


class _Generous(Dealt):
    """A weakened client that reveals its shares of both secrets at once."""

    async def reveal(self, me: Client, survivors: Sequence[str], deadline: float) -> None:
        await self.take_in(me, self.names, deadline / 2)
        for kind in (slice(SHARE), slice(SHARE, 2 * SHARE)):
            me.send(me.server, Revealed([self.shares[name][kind] for name in self.names]))


def two_answers_an_attempt(quick: bool = False) -> Finding:
    """The server names client/1 as a survivor, to get its seed, and then as lost, to get its dealt key."""
    program = f"{_summed('0 1 2 3 4')}; left 0 1 2 3 4; left 0 2 3 4 to 0 1 2 3 4"
    weakened = patch.object(dealing, "Dealt", Forgetful)
    return by_rank("both kinds of share, one after the other", _NUMBERS, _FIVE, program, weakened)


def both_shares_in_one_answer(quick: bool = False) -> Finding:
    """Clients reveal shares of the personal seed and of the dealt key together."""
    program, weakened = f"{_summed('0 1 2 3 4')}; left 0 1 2 3 4", patch.object(dealing, "Dealt", _Generous)
    return by_rank("personal seed together with the dealt key", _NUMBERS, _FIVE, program, weakened)


def two_attempts_over_one_vector(quick: bool = False) -> Finding:
    """client/3 is lost before it masks, and client/2 answers Survivors too late, so a new attempt begins.

    The late answer also opens the first sum, and the difference of the two sums is client/2's vector.
    """
    program = f"start 0 1 2 3; keys 0 1 2 3; want 0 1 2; left 0 1 2; {_summed('0 1')}; left 0 1"
    weakened = patch.object(secure_sum, "_may_begin", lambda me, number: True)
    return by_rank("a second attempt over the same vectors", _VECTOR, _FOUR, program, weakened)


def one_attempt_begun_twice(quick: bool = False) -> Finding:
    """The server begins one attempt twice, and opens it first over all, then over all but client/2."""
    program = f"{_summed('0 1 2 3')}; left 0 1 2 3; {_summed('0 1 2 3', 'again')}; left 0 1 3"
    return by_rank("one attempt begun twice", _VECTOR, _FOUR, program, any_number_of_times())


def sum_of_one(quick: bool = False) -> Finding:
    """The server asks only client/2 for a sum: with one member, one share is a majority."""
    return by_rank("a sum over one client", _VECTOR, _FOUR, f"{_summed('2')}; left 2", _among_any())


@contextmanager
def _among_any() -> Iterator[None]:
    """Make clients accept any number of members."""
    with (
        patch.object(quorum.Least, "problem", lambda self, names: ""),
        patch.object(quorum, "fewest_left", lambda members, threshold, *_: threshold),
    ):
        yield
