"""Audits training: each round's model is compared with the exact average of its survivors' models, computed again."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import structs

from tacit.parties.learning.vectors import decode
from tacit.protocols.auditing.findings import Row, ended
from tacit.protocols.auditing.judging import Verdict, judge
from tacit.protocols.auditing.sums import Input, RoundSum, Rule, Vector
from tacit.protocols.federated.method import State
from tacit.protocols.federated.promises import SentModel, again, begun, layout_of, next_model, plain_average, points_of
from tacit.protocols.promises import Trial

__all__ = ["audited_rounds", "audited_rule"]

_CLOSE = 1e-6
"""The error of float32 and of the fixed point of a secure sum, relative to the largest number or to 1."""


def audited_rule(tables: Any) -> str:
    """What a round's model is compared with, in words."""
    weighted = "weighted mean" if tables.training.weighting == "points" else "mean"
    return f"{weighted} of the survivors' models, computed again in plaintext"


def audited_rounds(trial: Trial, row: Row) -> Iterator[Row]:
    """Judge the model of each round of a run; rows are made from `row`."""
    kept: State = ()
    earlier: dict[int, Vector] = {}
    settings = trial.simulation.server.settings
    for record, before, after in zip(trial.records, trial.models, trial.models[1:], strict=False):
        count = len(record.averaged) if not record.lost else 0
        one = structs.replace(row, round=record.number, aggregate="model", survivors=count)
        if record.lost:
            moved = "the model has changed, though the round was lost" if after != before else ""
            status = "wrong" if moved else "no sum"
            yield structs.replace(one, status=status, reason=moved or str(record.lost))
            continue
        found = decode(after, layout_of(trial)).astype(np.float64)
        verdict, kept = _round_verdict(trial, settings, kept, record, before, found, earlier)
        earlier[record.number] = found
        yield one.judged(verdict)
    if not trial.records:
        yield structs.replace(row, aggregate="model", reason=ended(trial))


def _round_verdict(
    trial: Trial, settings: Any, kept: State, record: Any, before: bytes, found: Vector, earlier: Mapping[int, Vector]
) -> tuple[Verdict, State]:
    """Compare a round's model with the average of its survivors' models, testing each update of clients that trained
    twice."""
    weighted = trial.scenario.training.weighting == "points"
    started = decode(before, layout_of(trial)).astype(np.float64)
    verdict, state = Verdict("unknown", "no update of a survivor was recorded"), kept
    for chosen in itertools.product(*(begun(trial, name, record.number, before) for name in record.averaged)):
        inputs = _inputs(trial, chosen)
        others = [one for one in trial.updates if one.round == record.number and one.arguments[1] == before]
        lost = _inputs(trial, [one for one in others if one.party not in record.averaged])
        if not inputs:
            continue
        weights = {name: int(each.weight) if weighted else 1 for name, each in inputs.items()}
        models = [SentModel(each.vector, weights[name]) for name, each in inputs.items()]
        mean = plain_average(models)
        wanted, state = next_model(settings, kept, before, mean)
        largest, rounding = float(np.abs(wanted).max(initial=0.0)), float(layout_of(trial).rounding.max(initial=0.0))
        bound = _CLOSE * max(1.0, largest) + rounding * largest
        if settings.method.server is None:
            rule = Rule(weighted, divided=True, added=False)
            one = RoundSum(found, {**lost, **inputs}, tuple(inputs), rule, started, earlier, bound=bound)
            verdict = judge(one)
        else:
            error = float(np.abs(found - wanted).max(initial=0.0))
            text = "" if error <= bound else "it is not what the server's update makes of the survivors' mean"
            verdict = Verdict("wrong" if text else "ok", text, error, bound)
        if verdict.status == "ok":
            break
    return verdict, state


def _inputs(trial: Trial, updates: Sequence[Any]) -> dict[str, Input]:
    """The models of updates, trained again, with their points; without clients that had nothing to train on."""
    found = {}
    for one in updates:
        trained, _ = again(trial, one)
        if trained.steps:
            vector = decode(trained.parameters, layout_of(trial)).astype(np.float64)
            found[one.party] = Input(vector, float(points_of(one.arguments)))
    return found
