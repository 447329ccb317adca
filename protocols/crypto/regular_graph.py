"""The neighbours in a secure sum of many clients: a random k-regular graph, and the choice of k and t.

Paper: Bell, Bonawitz, Gascon, Lepoint, Raykova, Secure Single-Server Aggregation with (Poly)Logarithmic Overhead, CCS
2020, Algorithm 1 (the graph), Definition 3.1 and Lemmas 3.5 to 3.7 (k and t). Each of n clients has k neighbours: the
k/2 before and the k/2 behind it in a random order of all, which is closed to a ring, and for odd k the one opposite
(Harary). It deals its secrets in k shares, of which t restore them.

Of the clients that were called, C collude with the server, and L may be lost (`quorum`). The order of the n that
joined is uniform and independent of both. Bad events, over all clients (X ~ Hypergeometric(n - 1, m, k): k of the n - 1
others, of whom m are counted):

    some client has t or more corrupt neighbours                n P[X >= t],          m = C
    fewer than t neighbours of some client answer               n P[X >= k - t + 1],  m = L
    those who are honest and left are not connected             n prod_{i < h} (r - i) / (n - i),  r = C + L

The third is the union bound for h = floor(k/2) clients in a row, at some place of the ring, that are all corrupt or
lost: without such a gap the others are connected. (It takes two of them to part the ring; chords are left out of
account.) L stays, however many never joined: with fewer, t would be k, and one more loss would end the sum. `degree_of`
takes the smallest k for which some t > k/2 makes the sum of the three, in all graphs that a run draws, at most
2^-exponent, and of these t the best. They are computed exactly, in whole numbers. t > k/2, so that t neighbours who
take a client for lost and t who take it for left have one in common.

Where no k < n - 1 is enough the graph is complete, and each client holds a share of its own secrets, too:
t = floor((n + C)/2) + 1 of n: two sets of t share more than C clients, so an honest one. There is no sum among fewer
than C + 2 clients, and in a complete graph none where half of the clients or more may collude.
"""

import math
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import accumulate

from tacit.protocols.crypto.quorum import Assumed
from tacit.sim.streams import Entropy

__all__ = ["MOST_CLIENTS", "Degree", "Graph", "Tolerance", "degree_of", "shuffled"]

MOST_CLIENTS = 1 << 20
"""The most clients of a graph."""


@dataclass(frozen=True)
class Tolerance:
    """The losses that a sum tolerates: shares of `corrupt` clients and of `dropouts`, less than 1 together.

    The shares are of the clients that a round calls. A run, which makes up to `draws` draws, fails with a probability
    of at most 2^-exponent, if these clients are chosen before each draw.
    """

    corrupt: float = 0.1
    dropouts: float = 0.1
    exponent: int = 40
    draws: int = 1

    def __post_init__(self) -> None:
        if not (self.corrupt >= 0 and self.dropouts >= 0 and self.corrupt + self.dropouts < 1):
            problem = "must be >= 0 and less than 1 together."
            raise ValueError(f"corrupt(={self.corrupt}) and dropouts(={self.dropouts}) {problem}")
        if self.exponent < 1 or self.draws < 1:
            raise ValueError(f"exponent(={self.exponent}) and draws(={self.draws}) must be >= 1.")

    @property
    def allowed(self) -> Fraction:
        """The probability with which one draw may fail."""
        return Fraction(1, 2**self.exponent * self.draws)

    def of(self, called: int) -> Assumed:
        """The numbers of colluding and of lost clients among those that were `called`."""
        return Assumed.of(called, self.corrupt, self.dropouts)


@dataclass(frozen=True)
class Degree:
    """The k neighbours of each of n `clients`, the `threshold` t, and the bound on the probability of failure in a run.

    `failure` is its logarithm to base 2; -inf means that tolerated losses never make a sum fail. `colluding`: C.
    """

    clients: int
    k: int
    threshold: int
    failure: float
    colluding: int = 0

    @property
    def complete(self) -> bool:
        """True if all clients are neighbours of each other."""
        return self.k == self.clients - 1

    @property
    def holders(self) -> int:
        """The number of shares of a client's secret: k, or k + 1 in a complete graph, where the client holds one
        itself."""
        return self.k + self.complete

    def __str__(self) -> str:
        with_server = f"{self.colluding} may collude with the server"
        if self.complete:
            return f"complete graph of {self.clients} clients, t = {self.threshold}; {with_server}"
        fails = f"a sum of the run fails with a probability of at most 2^{self.failure:.1f}"
        often = "tolerated losses never make a sum fail" if math.isinf(self.failure) else fails
        return f"{self.clients} clients with k = {self.k} neighbours each, t = {self.threshold}; {with_server}; {often}"


@cache
def degree_of(clients: int, tolerance: Tolerance, called: int = 0) -> Degree:
    """Choose k and t for n = `clients`, 1 to `MOST_CLIENTS`, that joined of those that were `called` (0: all joined).

    Raises ValueError for another number, and NotCarried where these clients cannot carry C.
    """
    if not 1 <= clients <= MOST_CLIENTS:
        raise ValueError(f"clients(={clients}) must be 1 to {MOST_CLIENTS}.")
    assumed = tolerance.of(max(called, clients))
    corrupt, lost = assumed.colluding, min(assumed.lost, clients - 1)
    assumed.require_fewest(clients)
    for k in range(2, clients - 1):
        if clients * k % 2 or (apart := _apart(clients, corrupt + lost, k)) > tolerance.allowed:
            continue
        of, exposed, unheard = math.comb(clients - 1, k), _tails(clients, corrupt, k), _tails(clients, lost, k)
        ways, t = min((exposed[t] + unheard[k - t + 1], t) for t in range(k // 2 + 1, k + 1))
        failure = Fraction(clients * ways, of) + apart
        if failure <= tolerance.allowed:
            return Degree(clients, k, t, _log2(failure * tolerance.draws), corrupt)
    if 2 * corrupt >= clients:
        raise assumed.refused(clients, "in a complete graph fewer than half may collude")
    return Degree(clients, clients - 1, (clients + corrupt) // 2 + 1, -math.inf, corrupt)


def _apart(n: int, removed: int, k: int) -> Fraction:
    """Compute n prod_{i < h} (r - i) / (n - i), the bound for a disconnected graph."""
    product = Fraction(n)
    for i in range(k // 2):
        product *= Fraction(max(0, removed - i), n - i)
    return product


def _tails(n: int, marked: int, k: int) -> list[int]:
    """Compute comb(n - 1, k) P[X >= x] for x = 0 to k + 1, X ~ Hypergeometric(n - 1, marked, k)."""
    ways = [math.comb(marked, x) * math.comb(n - 1 - marked, k - x) for x in range(k + 1)]
    return [*reversed([*accumulate(reversed(ways))]), 0]


def _log2(number: Fraction) -> float:
    return math.log2(number.numerator) - math.log2(number.denominator) if number else -math.inf


def shuffled(names: Sequence[str], entropy: Entropy) -> tuple[str, ...]:
    """Shuffle `names` into a uniform order (Fisher and Yates)."""
    order = list(names)
    for i in range(len(order) - 1, 0, -1):
        j = entropy.below(i + 1)
        order[i], order[j] = order[j], order[i]
    return tuple(order)


@dataclass(frozen=True)
class Graph:
    """The k-regular graph over `names`, arranged in the ring `order`; 2 <= k < n - 1, k even where n is odd."""

    names: tuple[str, ...]
    order: tuple[str, ...]
    k: int
    _neighbours: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _around: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        n = len(self.names)
        if not 2 <= self.k < n - 1 or n * self.k % 2:
            raise ValueError(f"there is no graph of {n} clients with k(={self.k}) neighbours each, 2 <= k < n - 1.")
        if sorted(self.names) != sorted(self.order) or len(set(self.names)) != n:
            raise ValueError("order must have the same clients as names, each once.")
        half = self.k // 2
        steps = [0, *range(1, half + 1), *range(n - half, n), *([n // 2] if self.k % 2 else [])]
        place = {name: i for i, name in enumerate(self.names)}
        around = {
            name: tuple(sorted((self.order[(at + step) % n] for step in steps), key=place.__getitem__))
            for at, name in enumerate(self.order)
        }
        neighbours = {name: tuple(one for one in near if one != name) for name, near in around.items()}
        object.__setattr__(self, "_around", around)
        object.__setattr__(self, "_neighbours", neighbours)

    def neighbours(self, name: str) -> tuple[str, ...]:
        """The k neighbours of `name`, in the order of `names`."""
        return self._neighbours[name]

    def around(self, name: str) -> tuple[str, ...]:
        """The name and its neighbours, in the order of `names`."""
        return self._around[name]

    def smallest_part(self, left: Collection[str], removed: int, fewest: int) -> int:
        """The fewest clients, below `fewest`, of which a sum is exposed if `removed` of those that are `left` collude.

        Clients that collude can part the ring at two gaps of floor(k/2) places in a row if nobody else is left in
        these. Counted are the clients that are left in both gaps and between them. 0: there is no such part. Chords of
        odd k are left out of account. It takes time in proportion to the clients of the graph.
        """
        there, n, half = frozenset(left), len(self.order), self.k // 2
        inside = [name in there for name in self.order]
        count = [0, *accumulate(inside * 3)]
        if not count[n]:
            return 0
        following = [0] * (2 * n + 1)  # the first place from here on with a client that is left
        after = next(place for place in range(2 * n, 3 * n) if inside[place % n])
        for place in range(2 * n, -1, -1):
            after = following[place] = place if inside[place % n] else after
        best, second, gaps = 0, 0, deque[int]()  # begins of second gaps, those with fewer clients first
        for first in range(n):
            most = removed - count[first + half] + count[first]
            if most < 0:
                continue
            least = following[first + half] + 1  # so that somebody is left between the gaps
            second = max(second, least)
            while second + half <= first + n and count[second + half] - count[first] < fewest:
                while gaps and count[gaps[-1] + half] - count[gaps[-1]] >= count[second + half] - count[second]:
                    gaps.pop()
                gaps.append(second)
                second += 1
            while gaps and gaps[0] < least:
                gaps.popleft()
            if gaps and count[gaps[0] + half] - count[gaps[0]] <= most:
                found = count[gaps[0] + half] - count[first]
                best = min(best or found, found)
        return best
