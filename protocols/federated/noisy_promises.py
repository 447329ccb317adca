"""The promises of training with noise of the clients that is removed, which chaos checks, and what observers compare.

The oracle adds the rounded changes of clients with the noise that is left, and never removes any.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.vectors import decode
from tacit.protocols.federated.promises import CLOSE, Numbers, again, begun, close, layout_of
from tacit.protocols.outcome import Reason
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.removable import Seeds
from tacit.protocols.promises import Affected, Promise, Trial
from tacit.protocols.rounds.rounds import SPENT

__all__ = ["NOISY", "NoisyWords", "noisy_mean", "noisy_total", "wrapped"]


class NoisyWords(NamedTuple):
    """The words of a client's change, still without noise, and the seeds of the noise that it adds to them."""

    words: NDArray[np.uint64]
    seeds: Seeds


def noisy_total(noise: Distributed, added: Sequence[NoisyWords], revealed: Collection[bytes]) -> NDArray[np.int64]:
    """The sum of what was `added` in whole numbers, (numbers,), with the noise that is left, not reduced to words.

    `revealed`: the seeds that the server used. The noise that is left is added alone: nothing is removed.
    """
    total = np.zeros(noise.numbers, np.int64)
    for words, seeds in added:
        parts = seeds.parts
        lost = noise.removable(parts.clients, len(added))
        gone = parts.removed(lost) if seeds.revealed(lost) in revealed else ()
        left = [part for part in range(len(parts.variances)) if part not in gone]
        total += _nearest_to_zero(words.astype(np.int64), noise.modulus) + seeds.noise_of(left, noise.numbers)
    return total


def noisy_mean(noise: Distributed, run: bytes, number: int, total: NDArray[np.int64], clients: int) -> Numbers:
    """The mean change of this number of `clients` in round `number` of the run with the id `run`, from its
    `noisy_total`."""
    return noise.rounding.unrounded(_nearest_to_zero(total, noise.modulus), noise.rotation(run, number), clients)


def wrapped(noise: Distributed, total: NDArray[np.int64]) -> float:
    """The share of the numbers of a sum, `total`, that are read as others: that do not fit its words."""
    return float((_nearest_to_zero(total, noise.modulus) != total).mean())


def _nearest_to_zero(numbers: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    return (numbers + modulus // 2) % modulus - modulus // 2


def equals_noisy_mean(trial: Trial, affected: Affected) -> Iterator[str]:
    """Each round's model is that before, moved by the mean of its contributors' rounded changes and the noise that is
    left; a lost round leaves it unchanged. Each of these changes is that of a model trained again, rounded.
    """
    noise, run = trial.simulation.server.settings.private.noise, trial.simulation.server.world.run_id
    layout = layout_of(trial)
    for record, before, after in zip(trial.records, trial.models, trial.models[1:], strict=False):
        if record.lost:
            if after != before:
                yield f"round {record.number} was lost ({record.lost}), and the model has changed"
            continue
        own = [
            [NoisyWords(*one.arguments) for one in trial.noisy if (one.party, one.round) == (name, record.number)]
            for name in record.averaged
        ]
        revealed = {seed for one in trial.removals if one.round == record.number for seed in one.arguments[3]}
        start = decode(before, layout).astype(np.float64)
        found = decode(after, layout).astype(np.float64)
        totals = (noisy_total(noise, chosen, revealed) for chosen in itertools.product(*own))
        means = (noisy_mean(noise, run, record.number, total, len(own)) for total in totals)
        if not any(close(found, start + mean, layout) for mean in means):
            names = ", ".join(record.averaged)
            yield f"the model of round {record.number} is not moved by the changes of {names} and what noise is left"
        rotation = noise.rotation(run, record.number)
        for name, sent in zip(record.averaged, own, strict=True):
            changes = [
                noise.rounding.clipped(decode(again(trial, one)[0].parameters, layout).astype(np.float64) - start)
                for one in begun(trial, name, record.number, before)
            ]
            exact = [rotation.forward(change) * noise.rounding.units for change in changes]
            whole = [_nearest_to_zero(one.words.astype(np.int64), noise.modulus) for one in sent]
            if not any((np.abs(one - other) <= 1).all() for one in whole for other in exact):
                yield f"{name} adds another change in round {record.number} than that of its training"


def seeds_of_one_set(trial: Trial, affected: Affected) -> Iterator[str]:
    """A client reveals seeds of noise once a round at most, those of parts that are not needed among who was lost."""
    for party, number in dict.fromkeys((one.party, one.round) for one in trial.revealed):
        shown = {one.seeds for one in trial.revealed if (one.party, one.round) == (party, number)}
        if len(shown) > 1:
            yield f"{party} reveals seeds of noise for {len(shown)} sets in round {number}"
        drawn = [one.arguments[1] for one in trial.noisy if (one.party, one.round) == (party, number)]
        counted = next((len(one.averaged) for one in trial.records if one.number == number and not one.lost), None)
        for seeds in drawn if counted is not None else ():
            lost = seeds.parts.clients - counted
            kept = seeds.parts.tolerated > lost and seeds.revealed(lost)
            if len(drawn) == 1 and not shown <= {kept}:
                yield f"{party} reveals other seeds in round {number} than those of {counted} survivors"


def _left_in(noise: Distributed, seeds: Seeds, survivors: int, revealed: Collection[bytes]) -> Fraction:
    """The variance that is left of a client's noise of these `seeds`, of which the server removed the `revealed`."""
    parts = seeds.parts
    lost = noise.removable(parts.clients, survivors)
    gone = parts.removed(lost) if seeds.revealed(lost) in revealed else ()
    return sum((one for part, one in enumerate(parts.variances) if part not in gone), Fraction(0))


def counts_noise(trial: Trial, affected: Affected) -> Iterator[str]:
    """Each opened sum counts with at most the variance that the parts of its honest contributors left in it, whoever of
    them collude, and each round with masked values counts; epsilon is at least that of what was left, and is not above
    the scenario's unless its sums may be charged.
    """
    noise, counted = trial.simulation.server.settings.private.noise, trial.simulation.server.noise_counted
    spent = trial.simulated.privacy if trial.simulated is not None else None
    really = []
    for record in trial.records:
        if Reason.of(record.lost).kind == SPENT and not noise.after(counted[: record.number - 1]).ends:
            yield f"round {record.number} is not opened for its epsilon, which would not be above {noise.epsilon}"
        masked = [one for one in trial.noisy if one.round == record.number]
        if not masked:
            continue
        if spent is not None and spent.rounds < record.number:
            yield f"round {record.number} has masked values, and {spent.rounds} rounds count"
        if record.lost:
            continue
        revealed = {seed for one in trial.removals if one.round == record.number for seed in one.arguments[3]}
        survivors = len(record.averaged)
        left = sorted(
            min(_left_in(noise, one.arguments[1], survivors, revealed) for one in masked if one.party == name)
            for name in record.averaged
        )
        honest = sum(left[: survivors - noise.colluding], Fraction(0))
        really.append(int(honest))
        found = counted[record.number - 1] if len(counted) >= record.number else math.inf
        if found > honest:
            yield f"round {record.number} counts with the variance {found}, and {honest} is left"
    if spent is None:
        return
    epsilon = math.inf if spent.epsilon is None else spent.epsilon
    if epsilon < noise.spent_on(really) * (1 - CLOSE):
        yield f"epsilon is {epsilon}, and the sums alone that were opened take {noise.spent_on(really)}"
    if noise.excess != "charge" and epsilon > noise.epsilon:
        yield f"epsilon is {epsilon}, above {noise.epsilon}"


NOISY = {
    "epsilon counts the noise that is left": Promise(counts_noise),
    "the model equals the oracle's": Promise(equals_noisy_mean, compares="model"),
    "seeds of noise are revealed for one set": Promise(seeds_of_one_set),
}
"""The promises of training with noise of the clients that is removed."""
