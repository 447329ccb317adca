"""Secret votes: clients' labels of public points as one-hot counters in a secure sum.

A vote for n points and C classes is 1 + n C counters: the first says that there is a vote, the others which class each
point gets. Counters are in Z_2^16, four in a word of Z_2^64, lowest first, words of zeros for a client that has no
opinion. With fewer than 2^16 clients no counter carries into the next, so the sum of the words, by any secure sum, is
the words of the counts, and the consensus is exactly that of plain votes (Abourayya et al., Algorithm 1; PATE).

A vote takes 8 ceil((1 + n C) / 4) bytes in place of ceil(n ceil(log2 C) / 8), and keys and shares come on top.

Revealed: the server learns how many clients gave each class to each point, and who took part in the sum; no client's
labels, unless all others' are known. A majority of one shows as one: with few clients a count says much of each.

What a sum of counters checks of Byzantine clients: that each point has as many labels as there are votes (`counted`);
else the round ends without a consensus, and nobody can say because of whom. What it cannot check: a client that adds 2
to one class and takes 1 from another's count, so that points still add up, or that counts itself as several voters. It
has the weight of several clients then, where plain votes give it one. Proofs that votes are one-hot prevent it: in a
sum that `proves`, such as `prio3`, a vote is the labels themselves, and the sum has a count of each class.

With an epsilon (`privacy.votes_epsilon`) the two aggregators of such a sum add noise to the counts, each enough by
itself (`privacy.aggregated`). The consensus is made of noisy counts. Replacing a client's data changes at most its
class of each of n points, in each round; that it votes is not covered. It takes many clients: with n points and R
rounds the deviation is about 3 sqrt(n R ln(1 / delta)) / epsilon votes.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.masking import Ring
from tacit.protocols.privacy.aggregated import AggregatorNoise
from tacit.protocols.sums.registry import WithSums
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.sums.sum import Sum, SumSettings
from tacit.protocols.sums.whole import Whole

__all__ = ["COUNTINGS", "SecureVotes", "counted", "packed", "words_of"]

_COUNTERS = 4


@dataclass(frozen=True)
class SecureVotes:
    """Votes that a `sum` adds among the `called` clients. `least`: the fewest clients in a sum that is opened, C + 2 or
    more. `noise`: that which the server and the helper each add to the counts, if any."""

    least: int
    called: int
    sum: Sum = field(default_factory=SecAgg)
    noise: AggregatorNoise | None = None

    @property
    def whole(self) -> Whole:
        """How the sum carries the words of votes."""
        return Whole.of(self.sum, self.called)

    def waits(self, clients: int) -> int:
        """The most deadlines that the sum takes, including its set-up."""
        return self.sum.waits_among(clients) + 2 * (self.noise is not None)

    def settings(self, points: int, classes: int, deadline: float, figures: int = 0) -> SumSettings:
        """The settings of the sum. `figures`: the further words that it adds (`evaluation`)."""
        if (task := self.sum.labels(points, classes)) is not None:
            sizes = points * classes, self.called, self.least, deadline
            return SumSettings(*sizes, task=task, noise=self.noise)
        words = words_of(points, classes) + figures
        return self.whole.settings(SumSettings(words, self.called, self.least, deadline))


@dataclass(frozen=True)
class _Described:
    """A way to count votes that is no secure sum, in words."""

    description: str


COUNTINGS: WithSums[Any] = WithSums(
    {"plain": lambda: _Described("the server sees each client's labels")}, lambda one: one, {}
)
"""The values of `cotraining.votes`, each with its description."""


def words_of(points: int, classes: int) -> int:
    """The number of words of a vote."""
    return -(-(1 + points * classes) // _COUNTERS)


def packed(labels: NDArray[np.int64] | None, points: int, classes: int) -> Ring:
    """The words of a vote for `labels` (n,), uint64; zeros for None. Raises ValueError for labels out of range."""
    counters = np.zeros(_COUNTERS * words_of(points, classes), "<u2")
    if labels is not None:
        if len(labels) != points or (points and not 0 <= labels.min() <= labels.max() < classes):
            raise ValueError(f"{points} labels in [0, {classes - 1}] make a vote")
        counters[0] = 1
        counters[1 + np.arange(points) * classes + labels] = 1
    return counters.view("<u8").astype(np.uint64)


def counted(ring: Ring, points: int, classes: int) -> tuple[NDArray[np.int64], int]:
    """Unpack the counts, int64 (n, C), and the number of votes from a sum of words.

    Raises ValueError if they are inconsistent.
    """
    counters = ring.astype("<u8").view("<u2").astype(np.int64)
    voters, counts = int(counters[0]), counters[1 : 1 + points * classes].reshape(points, classes)
    wrong = counts.sum(1) != voters  # no count is below 0, so none is above the sum
    if wrong.any() or counters[1 + points * classes :].any():
        raise ValueError(f"{int(wrong.sum())} of {points} points have other counts than {voters} votes can give them")
    return counts, voters
