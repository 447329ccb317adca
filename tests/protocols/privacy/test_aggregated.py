"""Noise of aggregators: the shift of votes, epsilon of one aggregator's noise, and what an audit finds of it."""

import math

import numpy as np
import pytest

from tacit.protocols.crypto.vdaf import FIELD64
from tacit.protocols.privacy.aggregated import AggregatorNoise, votes_shift
from tacit.protocols.privacy.skellam_accounting import Shift, epsilon_of
from tacit.protocols.sums.batch import Batch, Task, noised, unsharded

DELTA = 1e-5


def test_a_client_that_votes_otherwise_for_all_points_moves_counts_by_the_shift() -> None:
    points, classes = 5, 4
    before, after = (np.eye(classes)[[(i + j) % classes for i in range(points)]] for j in (0, 1))
    moved = after - before
    assert votes_shift(points) == Shift(int((moved**2).sum()), float(np.abs(moved).sum()))


@pytest.mark.parametrize("rounds", [1, 20])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_variance_is_the_least_for_epsilon_of_all_rounds(epsilon: float, rounds: int) -> None:
    noise = AggregatorNoise(epsilon, DELTA, rounds, 100, votes_shift(10))
    assert noise.spent(rounds) <= epsilon < epsilon_of(noise.variance * 0.999 - 1, noise.shift, rounds, DELTA)
    assert noise.spent(0) == 0 and (rounds == 1 or noise.spent(1) < noise.spent(rounds))


def test_noise_that_is_too_large_for_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 2\\^36"):
        AggregatorNoise(1e-3, 1e-9, 1, 10, votes_shift(100_000))


def test_shares_with_noise_add_up_to_the_sum_and_both_noises_in_numbers_around_zero() -> None:
    task = Task("votes", (3, 4))
    batch, noise = Batch(task, b"context"), AggregatorNoise(1.0, DELTA, 1, 12, votes_shift(3))
    drawn = [noise.drawn(bytes([i]) * 32, 12) for i in range(2)]
    shares = [noised(batch, FIELD64.encode(FIELD64.from_ints([i] * 12)), noise, bytes([i]) * 32) for i in range(2)]
    found = unsharded(batch, *shares, 1, noise)
    assert found is not None and np.array_equal(found.ravel(), drawn[0] + drawn[1] + 1) and found.min() < 0
    far = FIELD64.encode(FIELD64.from_ints([1 << 40] * 12))
    assert unsharded(batch, far, shares[1], 1, noise) is None


@pytest.mark.parametrize(("part", "refuted"), [(1.0, False), (1 / 9, True)])
def test_an_audit_of_one_aggregators_noise_finds_no_more_than_is_stated(part: float, refuted: bool) -> None:
    """200,000 games of a replaced vote on 8 points, the best test of one threshold, with 95% confidence.

    With a third of its deviation the stated epsilon of 1 is refuted.
    """
    noise = AggregatorNoise(1.0, DELTA, 1, 16, votes_shift(8))
    games, shift = 200_000, np.tile([1, -1], 8)
    drawn = noise.drawn(b"audit" + bytes(27), games * 16).reshape(games, 16) * math.sqrt(part)
    alone = drawn @ shift  # the projection on what moves is all that a test needs
    with_vote = alone + 16
    best = 0.0
    for threshold in np.quantile(with_vote, np.linspace(0.5, 0.999, 30)):
        hits, misses = (with_vote > threshold).mean(), (alone > threshold).mean()
        slack = 1.645 * math.sqrt(0.25 / games)
        if misses + slack < hits - slack - DELTA:
            best = max(best, math.log((hits - slack - DELTA) / (misses + slack)))
    assert noise.variance > 8 and (best > 1.0) == refuted
