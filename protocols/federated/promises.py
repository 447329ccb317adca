"""The promises of federated training under any faults; chaos checks them with those of every protocol.

The oracle knows which models a round was made of, as the server announces it to observers, and which updates clients
began. It computes these again in the clear and averages them in numpy.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import Trained
from tacit.parties.learning.vectors import Layout, decode, encode
from tacit.protocols.federated.byzantine import sent_model
from tacit.protocols.federated.method import State, updated
from tacit.protocols.promises import Affected, Promise, Trial

__all__ = [
    "CLOSE", "PROMISES", "Numbers", "SentModel", "again", "begun", "close", "layout_of", "next_model", "plain_average",
    "plain_move", "points_of", "quantising",
]  # fmt: skip

Numbers = NDArray[np.float64]

Quantising = tuple[int, float, int, int]
"""The bits of a summed number, the magnitude to which it is clipped, the largest weight, and the modulus of a sum."""

CLOSE = 1e-6
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
    allowed = CLOSE * np.maximum(1.0, magnitudes) + layout.rounding * magnitudes
    return bool((np.abs(found - wanted) <= allowed).all())


PROMISES = {"the model equals the oracle's": Promise(equals_plain_average, compares="model")}
