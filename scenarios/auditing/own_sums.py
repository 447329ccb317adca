"""Audits the sums of Tacit's protocols and of plugins: each is compared with the plaintext sum over its survivors.

For a protocol of parts (`Phases`, `OneShot`) each part's value is compared with its oracle, over the clients that the
server reports. A protocol may compare its aggregates in its own way (`Declaration.audited`), as training does. For any
other protocol the result is compared with its oracle, as in runs.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import structs

from tacit.protocols.auditing.findings import CALM, Audit, Losses, Row, Watch, ended, losses
from tacit.protocols.auditing.judging import Verdict
from tacit.protocols.auditing.sums import Vector
from tacit.protocols.one_shot import OneShot, Phases
from tacit.protocols.parts import Found
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.chaos.excused import Affected
from tacit.scenarios.chaos.memory import Remembering
from tacit.scenarios.chaos.promises import promises_of
from tacit.scenarios.chaos.trial import Calm, Limits, Trial, observed
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim.compute import Engine
from tacit.sim.faults import AnyFault

__all__ = ["audit_scenario", "perform"]

_SMALL = 2e-3
"""The largest error of float16, relative to the largest number, with a margin."""


def perform(scenario: Scenario, faults: Sequence[AnyFault], calm: Trial | None, engine: Engine | None = None) -> Trial:
    """Run `scenario` under `faults` in this process, with its jobs in the given `engine`.

    `calm`: the run without faults, which limits this one; None for that run itself.
    """
    struck = structs.replace(scenario, fault=list(faults))
    waits = PROTOCOLS[scenario.protocol.name].waits(scenario)
    numbers = None if calm is None else Calm(len(calm.events), calm.simulation.now)
    return observed(struck, Limits.of(struck, waits, numbers), engine)


def audit_scenario(scenario: Scenario, faults: Sequence[AnyFault] = (), *, at_once: int = 1, watch: Watch) -> Audit:
    """Audit a scenario: without faults, under `faults` together, and with `at_once` clients lost at each step.

    `faults` are those of the scenario's file, and may be empty. Raises ScenarioError if the run without faults has no
    result.
    """
    protocol = PROTOCOLS[scenario.protocol.name]
    engine = Remembering()
    watch(0, 0, CALM)
    first = perform(scenario, (), None, engine)
    name = scenario.protocol.name
    if first.error is not None:
        raise ScenarioError(scenario.title or name, "", f"it does not run: {first.reason}") from first.error
    audit = Audit(subject=scenario.title or name, rule=protocol.audited_rule(scenario))
    audit.rows += _rows(first, CALM)
    clients = [client.name for client in first.simulation.clients]
    steps = dict.fromkeys(event.step for event in first.events if event.kind == "enter" and event.party in clients)
    own = [Losses(tuple(faults), "the scenario's own faults")] if faults else []
    tried = [*own, *losses(first.events, list(steps), clients, at_once, _steps_of_summands(scenario))]
    for number, one in enumerate(tried):
        watch(1 + number, 1 + len(tried), one.words)
        audit.rows += _rows(perform(scenario, one.faults, first, engine), one.words)
    return audit


def _steps_of_summands(scenario: Scenario) -> list[str]:
    """The steps in which clients compute summands: those in which they mask values come first."""
    taken = PROTOCOLS[scenario.protocol.name].steps_with(scenario)
    return [step.name for stage in ("mask", "train") for step in taken if step.stage == stage]


def _rows(trial: Trial, words: str) -> Iterator[Row]:
    protocol, called = PROTOCOLS[trial.scenario.protocol.name], len(trial.simulation.clients)
    row = Row(losses=words, mod="", round=1, aggregate="", called=called, survivors=0, status="no sum")
    own = protocol.audited(trial, row)
    if own is not None:
        return own
    return _part_rows(trial, protocol, row) if isinstance(protocol, Phases) else _result_rows(trial, row)


# Protocols of parts


def _part_rows(trial: Trial, protocol: Phases, row: Row) -> Iterator[Row]:
    found: Mapping[str, Found] = trial.simulation.server.found
    affected = Affected(trial)
    names = [part.name for part in protocol.parts]
    for number, name in enumerate(names, 1):
        survivors = len(found[name].over) if name in found else 0
        one = structs.replace(row, round=number, aggregate=name, survivors=survivors)
        if name not in found:
            yield structs.replace(one, reason=ended(trial))
            continue
        verdict = _part_verdict(trial, protocol, found, name)
        if verdict.status == "ok" and "server" not in affected and name == next(iter(found)):
            # a client that crashed and is back may miss later parts
            over, clients = found[name].over, [client.name for client in trial.simulation.clients]
            if missing := [client for client in clients if client not in over and client not in affected]:
                verdict = Verdict("wrong", f"{', '.join(missing)} not counted, though nothing affected it")
        yield one.judged(verdict)


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


# Other protocols


def _result_rows(trial: Trial, row: Row) -> Iterator[Row]:
    survivors = row.called - len({loss.party for loss in getattr(trial.simulated, "lost", ())})
    row = structs.replace(row, aggregate="result", survivors=survivors)
    promises = [one for one in promises_of(trial.scenario).values() if one.compares]
    compared = getattr(trial.simulated, "equals_plaintext", None)
    if trial.simulated is None or trial.outcome != "completed":
        yield structs.replace(row, reason=ended(trial))
        return
    broken = [how for one in promises for how in one.broken(trial, Affected(trial))]
    if compared is False or broken:
        yield structs.replace(row, status="wrong", reason=broken[0] if broken else "it is not the oracle's")
    elif compared or promises:
        yield structs.replace(row, status="ok")
    else:
        yield structs.replace(row, status="unknown", reason=f"{trial.scenario.protocol.name} has no plaintext oracle")
