"""The promises of federated training under any faults; chaos checks them with those of every protocol.

The oracle knows which models a round was made of, as the server announces it to observers, and which updates clients
began. It computes these again in the clear and averages them in numpy.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import Trained
from tacit.parties.learning.vectors import Layout, decode, encode
from tacit.protocols.federated.byzantine import sent_model
from tacit.protocols.federated.server_update import State, updated
from tacit.protocols.outcome import Reason
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.removable import Seeds
from tacit.protocols.promises import Affected, Promise, Trial
from tacit.protocols.rounds.rounds import SPENT

__all__ = [
    "NOISY",
    "PROMISES",
    "NoisyWords",
    "Numbers",
    "SentModel",
    "again",
    "begun",
    "close",
    "layout_of",
    "next_model",
    "noisy_mean",
    "noisy_total",
    "plain_average",
    "plain_move",
    "points_of",
    "quantising",
    "wrapped",
]

Numbers = NDArray[np.float64]

Quantising = tuple[int, float, int, int]
"""The bits of a summed number, the magnitude to which it is clipped, the largest weight, and the modulus of a sum."""

_CLOSE = 1e-6
"""The error of float32 and of the fixed point of a secure sum, relative to the number or to 1."""


def equals_plain_average(trial: Trial, affected: Affected) -> Iterator[str]:
    """Each round's model is the plain average of its contributors' trained models; a lost round leaves it unchanged.

    With a server update, it is the result of that step from the average.
    """
    kept: State = ()
    for record, before, after in zip(trial.records, trial.models, trial.models[1:], strict=False):
        if record.lost:
            if after != before:
                yield f"round {record.number} was lost ({record.lost}), and the model has changed"
            continue
        updates = [begun(trial, name, record.number, before) for name in record.averaged]
        layout = layout_of(trial)
        found = decode(after, layout).astype(np.float64)
        # One that crashed and rejoined in the round has begun twice.
        averages = (_average(trial, chosen) for chosen in itertools.product(*updates))
        settings = trial.simulation.server.settings
        wanted = [next_model(settings, kept, before, average) for average in averages]
        kept = next((state for model, state in wanted if close(found, model, layout)), kept)
        if not any(close(found, model, layout) for model, _ in wanted):
            yield f"the model of round {record.number} is not the average of {', '.join(record.averaged)}"


def layout_of(trial: Trial) -> Layout:
    """The layout of the models of a run of federated training."""
    return jobs.layout(trial.simulation.server.settings.spec)


def begun(trial: Trial, name: str, number: int, model: bytes) -> list[Any]:
    """The updates that the client `name` began in round `number` with this `model`."""
    return [one for one in trial.updates if (one.party, one.round) == (name, number) and one.arguments[1] == model]


class SentModel(NamedTuple):
    """A model that a client sent with its `weight`; `in_range`: its numbers are clipped where they are quantised."""

    vector: NDArray[np.floating]
    weight: int
    in_range: bool = True


def _average(trial: Trial, updates: tuple[Any, ...]) -> Numbers:
    """The average of models that were trained with points, weighted equally or by the points of an epoch."""
    models = []
    for one in updates:
        trained, in_range = again(trial, one)
        if trained.steps:
            weight = points_of(one.arguments) if trial.scenario.training.weighting == "points" else 1
            models.append(SentModel(decode(trained.parameters, layout_of(trial)), weight, in_range))
    return plain_average(models, quantising(trial.simulation.server.settings))


def again(trial: Trial, update: Any) -> tuple[Trained, bool]:
    """An update that is trained again, with the model that its client sent, and `SentModel.in_range`."""
    trained: Trained = trial.again(jobs.train, *update.arguments)
    if not trained.steps:
        return trained, True
    false = trial.simulation.server.settings.byzantine
    sent, in_range = sent_model(false, update.party, update.round, update.arguments[1], trained.parameters)
    return replace(trained, parameters=sent), in_range


def plain_average(models: Sequence[SentModel], quantised: Quantising | None = None) -> Numbers:
    """The plain average of models with their weights, after quantising them by `quantised` if given."""
    weights = [one.weight for one in models]
    if quantised is None:
        sums: Numbers = np.zeros(len(models[0].vector))
        for one in models:  # a factor of 1 would take as long as the sum
            sums += one.vector if one.weight == 1 else np.multiply(one.vector, one.weight, dtype=np.float64)
        return sums / sum(weights)
    bits, clip, heaviest, modulus = quantised
    levels, weights = 2**bits - 1, [min(weight, heaviest) for weight in weights]
    total = np.zeros(len(models[0].vector), np.int64)
    for one, weight in zip(models, weights, strict=True):
        numbers = one.vector.astype(np.float64)
        numbers = np.clip(numbers, -clip, clip) if one.in_range else numbers
        most = 2**62 // weight  # the magnitude that a Byzantine client sends at most
        scaled = np.rint((numbers + clip) * (levels / (2 * clip)))
        integers = np.where(np.abs(scaled) < most, scaled, 0.0).astype(np.int64)
        integers += np.where(np.abs(scaled) < most, 0, most) * np.sign(scaled).astype(np.int64)
        total = (total + weight * integers % modulus) % modulus
    return (total.astype(np.float64) * (2 * clip / levels) - clip * sum(weights)) / sum(weights)


def plain_move(
    before: Numbers, changes: Sequence[tuple[Numbers, Numbers, float, int]], rate: float, exponent: float
) -> Numbers:
    """The model `before`, moved by a buffer of `changes`: w + eta_g sum n_i (1 + tau_i)^-a (y_i - w_i) / sum n_i.

    A change has y_i and w_i, the trained model and the one that it began with, the weight n_i, and tau_i, the number of
    moves between. `rate`: eta_g; `exponent`: a.
    """
    total = sum(weight for _, _, weight, _ in changes)
    mean: Numbers = sum(
        (weight * (1 + tau) ** -exponent * (trained - began) for trained, began, weight, tau in changes),
        np.zeros(len(before)),
    )
    return before + rate * mean / total


def quantising(settings: Any) -> Quantising | None:
    """The quantisation in a secure average by the `settings` of the training; None without one."""
    one = getattr(settings.averaging, "quantised", None)
    return None if one is None else (one.bits, one.clip, one.weight, settings.averaging.modulus)


def points_of(arguments: tuple[Any, ...]) -> int:
    """The points of an epoch of an update, from the `arguments` of `jobs.train`."""
    _, _, data, update, *_ = arguments
    points: int = update.batches(*map(len, update.usable(data))).points
    return points


def next_model(settings: Any, kept: State, before: bytes, average: Numbers) -> tuple[Numbers, State]:
    """The next model and the server's state for the following step, by the `settings` of the training."""
    if settings.method.server is None:
        return average, kept
    layout = jobs.layout(settings.spec)
    mean = encode(average, layout)
    model, kept = updated(settings.method.server, kept, before, mean, jobs.trained_size(settings.spec), layout)
    return decode(model, layout).astype(np.float64), kept


def close(found: Numbers, wanted: Numbers, layout: Layout) -> bool:
    """Return true if the numbers are equal except for rounding to the types of `layout`."""
    magnitudes = np.abs(wanted)
    allowed = _CLOSE * np.maximum(1.0, magnitudes) + layout.rounding * magnitudes
    return bool((np.abs(found - wanted) <= allowed).all())


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
    if epsilon < noise.spent_on(really) * (1 - _CLOSE):
        yield f"epsilon is {epsilon}, and the sums alone that were opened take {noise.spent_on(really)}"
    if noise.excess != "charge" and epsilon > noise.epsilon:
        yield f"epsilon is {epsilon}, above {noise.epsilon}"


NOISY = {
    "epsilon counts the noise that is left": Promise(counts_noise),
    "the model equals the oracle's": Promise(equals_noisy_mean, compares="model"),
    "seeds of noise are revealed for one set": Promise(seeds_of_one_set),
}
"""The promises of training with noise of the clients that is removed."""

PROMISES = {"the model equals the oracle's": Promise(equals_plain_average, compares="model")}
