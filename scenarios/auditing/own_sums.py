"""Audits the sums of Tacit's protocols and of plugins: each is compared with the plaintext sum over its survivors.

For a protocol of parts (`Phases`, `OneShot`) each part's value is compared with its oracle, over the clients that the
server reports. For training, each round's model is compared with the exact average of its survivors' models, which are
computed again. For any other protocol the result is compared with its oracle, as in runs.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import structs

from tacit.parties.learning.vectors import decode
from tacit.protocols.auditing.judging import Verdict, judge
from tacit.protocols.auditing.sums import Input, RoundSum, Rule, Vector
from tacit.protocols.federated.promises import (
    SentModel,
    again,
    begun,
    layout_of,
    next_model,
    plain_average,
    points_of,
)  # fmt: skip
from tacit.protocols.federated.round import TrainingServer
from tacit.protocols.federated.server_update import State
from tacit.protocols.one_shot import OneShot, Phases
from tacit.protocols.parts import Found
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.auditing.runs import CALM, Audit, Losses, Row, Watch, losses, perform
from tacit.scenarios.chaos.excused import Affected
from tacit.scenarios.chaos.memory import Remembering
from tacit.scenarios.chaos.promises import promises_of
from tacit.scenarios.chaos.trial import Calm, Trial
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim.faults import AnyFault

__all__ = ["audit_scenario"]

_CLOSE = 1e-6
"""The error of float32 and of the fixed point of a secure sum, relative to the largest number or to 1."""

_SMALL = 2e-3
"""The largest error of float16, relative to the largest number, with a margin."""


def audit_scenario(
    scenario: Scenario, faults: Sequence[AnyFault] = (), *, at_once: int = 1, watch: Watch | None = None
) -> Audit:
    """Audit a scenario: without faults, under `faults` together, and with `at_once` clients lost at each step.

    `faults` are those of the scenario's file, and may be empty. Raises ScenarioError if the run without faults has no
    result.
    """
    watch = watch or (lambda done, of, words: None)
    engine = Remembering()
    watch(0, 0, CALM)
    first = perform(scenario, (), None, engine)
    name = scenario.protocol.name
    if first.error is not None:
        raise ScenarioError(scenario.title or name, "", f"it does not run: {first.reason}") from first.error
    rows_of = _rows_of(scenario)
    audit = Audit(subject=scenario.title or name, rule=_rule(scenario))
    audit.rows += rows_of(first, CALM)
    clients = [client.name for client in first.simulation.clients]
    steps = dict.fromkeys(event.step for event in first.events if event.kind == "enter" and event.party in clients)
    own = [Losses(tuple(faults), "the scenario's own faults")] if faults else []
    tried = [*own, *losses(first.events, list(steps), clients, at_once, _steps_of_summands(scenario))]
    calm = Calm(len(first.events), first.simulation.now)
    for number, one in enumerate(tried):
        watch(1 + number, 1 + len(tried), one.words)
        audit.rows += rows_of(perform(scenario, one.faults, calm, engine), one.words)
    return audit


def _steps_of_summands(scenario: Scenario) -> list[str]:
    """The steps in which clients compute summands: those in which they mask values come first."""
    taken = PROTOCOLS[scenario.protocol.name].steps_with(scenario)
    return [step.name for stage in ("mask", "train") for step in taken if step.stage == stage]


def _rule(scenario: Scenario) -> str:
    if _trains(scenario):
        weighted = "weighted mean" if scenario.training.weighting == "points" else "mean"
        return f"{weighted} of the survivors' models, computed again in plaintext"
    return f"the oracle of {scenario.protocol.name}, over the survivors' inputs"


def _trains(scenario: Scenario) -> bool:
    return any(one.compares == "model" for one in promises_of(scenario).values())


def _rows_of(scenario: Scenario) -> Callable[[Trial, str], Iterator[Row]]:
    if isinstance(PROTOCOLS[scenario.protocol.name], Phases):
        return _part_rows
    return _training_rows if _trains(scenario) else _result_rows


def _row(trial: Trial, words: str, number: int, what: str, survivors: int) -> Row:
    called = len(trial.simulation.clients)
    return Row(losses=words, mod="", round=number, aggregate=what, called=called, survivors=survivors, status="no sum")


def _ended(trial: Trial) -> str:
    return f"{trial.outcome}{': ' * bool(trial.reason)}{trial.reason}"


# Protocols of parts


def _part_rows(trial: Trial, words: str) -> Iterator[Row]:
    protocol = PROTOCOLS[trial.scenario.protocol.name]
    assert isinstance(protocol, Phases)
    found: Mapping[str, Found] = trial.simulation.server.found
    affected = Affected(trial)
    names = [part.name for part in protocol.parts]
    for number, name in enumerate(names, 1):
        row = _row(trial, words, number, name, len(found[name].over) if name in found else 0)
        if name not in found:
            yield structs.replace(row, reason=_ended(trial))
            continue
        verdict = _part_verdict(trial, protocol, found, name)
        if verdict.status == "ok" and "server" not in affected:
            last = [*found].index(name) == 0  # a client that crashed and is back may miss later parts
            missing = [
                one.name
                for one in trial.simulation.clients
                if one.name not in found[name].over and one.name not in affected and last
            ]
            if missing:
                verdict = Verdict("wrong", f"{', '.join(missing)} not counted, though nothing affected it")
        yield row.judged(verdict)


def _part_verdict(trial: Trial, protocol: Phases, found: Mapping[str, Found], name: str) -> Verdict:
    """Compare a part's value with the oracle's over the clients that the server reports, and find the real ones if they
    differ."""
    keys, shards = trial.scenario.protocol, trial.simulation.setting[-1]

    def exact(names: Sequence[str]) -> Vector | None:
        chosen = {one: shards[one] for one in names}
        try:
            if isinstance(protocol, OneShot):
                wanted = protocol.oracle(keys, chosen)
            else:
                over = {part: {each: shards[each] for each in one.over} for part, one in found.items()}
                wanted = protocol.oracle(keys, over | {name: chosen}).get(name)
        except (ValueError, ArithmeticError, LookupError):  # an oracle may need more clients
            return None
        return None if wanted is None else np.asarray(wanted, np.float64).ravel()

    over, value = found[name].over, np.ravel(found[name].value)
    wanted = exact(over)
    if wanted is None:
        return Verdict("unknown", f"the oracle says nothing of {name}")
    if wanted.shape != value.shape:
        return Verdict("wrong", f"{len(value)} numbers instead of {len(wanted)}")
    error, bound = float(np.abs(value - wanted).max(initial=0.0)), float(protocol.tolerance)
    if error <= bound and not wanted.any():
        return Verdict("unknown", "the exact one is 0, which hides mistakes: set other keys or data by --set")
    if error <= bound:
        return Verdict("ok", "", error, bound)
    if not math.isfinite(error):
        return Verdict("wrong", "numbers of the result are infinite or not a number", None, bound)
    return Verdict("wrong", _explanation(value, wanted, exact, over, list(shards), bound, error), error, bound)


def _explanation(
    value: Vector,
    wanted: Vector,
    exact: Callable[[Sequence[str]], Vector | None],
    over: Sequence[str],
    names: Sequence[str],
    bound: float,
    error: float,
) -> str:
    """The explanation of a wrong value: the clients that it really covers, or the factor by which it is wrong; "" if
    unknown."""

    def near(other: Vector | None) -> bool:
        same = other is not None and other.shape == value.shape
        return same and other is not None and float(np.abs(other - value).max()) <= max(bound, 1e-6 * error)

    absent = [one for one in names if one not in over]
    for count in (1, 2):
        for out in itertools.combinations(over, count):
            if count < len(over) and near(exact([one for one in over if one not in out])):
                return f"{', '.join(out)} not counted, though the server says so"
        for more in itertools.combinations(absent, count):
            if near(exact([one for one in names if one in over or one in more])):
                return f"{', '.join(more)} counted, though the server says not"
    if near(-wanted):
        return "the sign is flipped"
    if near(np.zeros_like(value)):
        return "all numbers are 0"
    if near(wanted * len(over) / len(names)):
        return f"it is divided by all {len(names)} clients instead of the {len(over)} survivors"
    narrow = value.astype(np.float16).astype(np.float64)
    if np.array_equal(narrow, value) and error < _SMALL * np.abs(wanted).max():
        return "precision: it is rounded to float16"
    size = float(wanted @ wanted)
    factor = float(wanted @ value) / size if size else 0.0
    if factor and near(factor * wanted):
        return f"it is {factor:.4g} times the exact one"
    return f"it is wrong by up to {error:.3g}; no known mistake gives that"


# Training


def _training_rows(trial: Trial, words: str) -> Iterator[Row]:
    kept: State = ()
    earlier: dict[int, Vector] = {}
    server = trial.simulation.server
    assert isinstance(server, TrainingServer)
    for record, before, after in zip(trial.records, trial.models, trial.models[1:], strict=False):
        row = _row(trial, words, record.number, "model", len(record.averaged) if not record.lost else 0)
        if record.lost:
            moved = "the model has changed, though the round was lost" if after != before else ""
            status = "wrong" if moved else "no sum"
            yield structs.replace(row, status=status, reason=moved or str(record.lost))
            continue
        found = decode(after, layout_of(trial)).astype(np.float64)
        verdict, kept = _round_verdict(trial, server.settings, kept, record, before, found, earlier)
        earlier[record.number] = found
        yield row.judged(verdict)
    if not trial.records:
        yield structs.replace(_row(trial, words, 1, "model", 0), reason=_ended(trial))


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


# Other protocols


def _result_rows(trial: Trial, words: str) -> Iterator[Row]:
    survivors = len(trial.simulation.clients) - len({loss.party for loss in getattr(trial.simulated, "lost", ())})
    row = _row(trial, words, 1, "result", survivors)
    promises = [one for one in promises_of(trial.scenario).values() if one.compares]
    compared = getattr(trial.simulated, "equals_plaintext", None)
    if trial.simulated is None or trial.outcome != "completed":
        yield structs.replace(row, reason=_ended(trial))
        return
    broken = [how for one in promises for how in one.broken(trial, Affected(trial))]
    if compared is False or broken:
        yield structs.replace(row, status="wrong", reason=broken[0] if broken else "it is not the oracle's")
    elif compared or promises:
        yield structs.replace(row, status="ok")
    else:
        yield structs.replace(row, status="unknown", reason=f"{trial.scenario.protocol.name} has no plaintext oracle")
