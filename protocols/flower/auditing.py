"""Audits a Flower app: compares each round's aggregate with that of its survivors' updates without the secure mod.

The app runs with its secure mod and without it, calm and under losses, with the same seed. Local updates differ from
round 2 on, as models do by their rounding. The comparison is therefore exact within each run: updates are recorded as
they go into the mod, and the aggregate is compared with their exact combination over the clients whose replies arrived.
The run without the mod shows which combination the app computes: its `Rule`. If the strategy is no such combination,
like FedAdam, the strategy itself is repeated on the updates.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs

from tacit.protocols.auditing.findings import CALM, Audit, Losses, Row, Watch, losses
from tacit.protocols.auditing.judging import Verdict, fitting, judge
from tacit.protocols.auditing.sums import RULES, Input, Quantiser, RoundSum, Rule, Vector
from tacit.protocols.flower.exchanges import IN_ROUND, TRAINING, RoundRecord
from tacit.protocols.flower.flower import Nodes
from tacit.protocols.promises import Perform, Trial
from tacit.sim.setting_error import Problem

if TYPE_CHECKING:
    from tacit.protocols.flower.recording import Aggregation, Recorder, Update

__all__ = ["audit_app"]

_REPEATED = 1e-3
"""The relative error allowed for a repeated strategy, which may divide by small numbers."""

_SUM, _STRATEGY, _MODEL = "secure sum", "strategy", "next model"


@dataclass(eq=False)
class _Run:
    """A run of the app, and its records."""

    trial: Trial
    recorder: "Recorder"
    names: Mapping[int, str]
    losses: str
    mod: str

    @property
    def numbers(self) -> list[int]:
        """The rounds in which clients trained."""
        return sorted(set(self.recorder.rounds.values()))


@dataclass(frozen=True, eq=False)
class _Round:
    """A round of a run: the inputs by client, the survivors, the number of clients called, and the aggregates by place.

    `updates` are keyed by Flower node. `absent` has the clients that were called and computed nothing, each with the
    weight that it has in other rounds.
    """

    number: int
    inputs: Mapping[str, Input]
    survivors: tuple[str, ...]
    called: int
    layers: Mapping[str, slice]
    before: Vector | None
    seen: Mapping[str, Vector]
    quantiser: Quantiser | None
    aggregation: "Aggregation | None"
    updates: Mapping[int, "Update"] = field(default_factory=dict)
    absent: Mapping[str, float] = field(default_factory=dict)
    previous: Mapping[str, Vector] = field(default_factory=dict)

    def sum_of(self, place: str, rule: Rule, earlier: Mapping[int, Vector]) -> RoundSum:
        """The aggregate seen at a `place`, to be judged by `rule`."""
        return RoundSum(
            self.seen[place],
            self.inputs,
            self.survivors,
            rule,
            self.before,
            earlier,
            self.layers,
            self.quantiser,
            absent=self.absent,
            previous=self.previous,
        )


def audit_app(
    tables: Any, perform: Perform, *, mod: str | None, rule: Rule | None, at_once: int, watch: Watch
) -> Audit:
    """Audit the app of the scenario in `tables`, which `perform` runs.

    `mod`: the name of the app's secure mod, "none", or None for the outermost mod that hides updates. `rule`: the app's
    rule of aggregation; None to infer it from the run without the mod. `at_once`: the number of clients that are lost
    at a time. The scenario's own faults, if any, are tried first. Raises Problem if the app does not run, or has no
    such mod.
    """
    watch(0, 0, CALM)
    first = _run(perform, Losses((), CALM), "", frozenset(), None)
    if not first.numbers:
        why = first.trial.reason or "no client was asked to train"
        raise Problem("protocol.app", f"nothing to compare: {first.trial.outcome}: {why}")
    try:
        name = first.recorder.secure_mod(mod) or ""
    except LookupError:
        allowed = ", ".join(first.recorder.mods) or "none, as the app has no mods"
        raise Problem("--mod", f"the app has no mod {mod}; allowed: {allowed}") from None
    first.mod = name
    audit = Audit(subject=tables.title or tables.protocol.app, mod=name)
    trial = first.trial
    own = [Losses(tuple(tables.fault), "the scenario's own faults")] if tables.fault else []
    tried = [*own, *losses(trial.events, IN_ROUND, list(first.names.values()), at_once, TRAINING[::-1])]
    plain = _run(perform, Losses((), CALM), "", frozenset({name}), trial) if name else first
    meant = _Aggregating(audit, plain, rule)
    audit.rows += meant.rows(first)
    if plain is not first:
        audit.rows += meant.rows(plain)
    with_plain = tried[:1] if name else []
    count = 2 + len(tried) + len(with_plain)
    for number, one in enumerate(tried):
        watch(2 + number, count, one.words)
        audit.rows += meant.rows(_run(perform, one, name, frozenset(), trial))
    for one in with_plain:
        watch(count - 1, count, one.words)
        audit.rows += meant.rows(_run(perform, one, "", frozenset({name}), trial))
    return audit


def _run(perform: Perform, struck: Losses, mod: str, without: frozenset[str], calm: Trial | None) -> _Run:
    from tacit.protocols.flower.recording import Recorder

    recorder = Recorder(without=without)
    with recorder.installed(), redirect_stdout(io.StringIO()):  # the app prints the same in each of a dozen runs
        trial = perform(struck.faults, calm)
    if isinstance(trial.error, ImportError | SyntaxError):
        raise Problem("protocol.app", f"the app cannot be imported: {trial.error}") from trial.error
    clients = [client.name for client in trial.simulation.clients]
    names = {number: name for name, number in Nodes.numbers_of(trial.scenario.seed, clients).items()}
    return _Run(trial, recorder, names, struck.words, mod)


class _Aggregating:
    """The app's rule of aggregation, inferred from its run without faults and without the secure mod, or its strategy
    itself."""

    def __init__(self, audit: Audit, plain: _Run, rule: Rule | None) -> None:
        self._given = rule
        self._rules: dict[str, Rule | None] = {}
        rounds = list(_rounds(plain))
        places = dict.fromkeys(place for one in rounds for place in one.seen)
        for place in places:
            self._rules[place] = rule or _fitting(rounds, place)
        if rule is None and plain.recorder.without:
            if not places:
                why = plain.trial.reason or "it aggregates nothing"
                audit.notes.append(f"Without its secure mod the app gives no sum ({why}): {RULES[0].words} is assumed.")
            elif not any(self._rules.values()):
                audit.notes.append(_no_rule_note(rounds, places))
        found = next(filter(None, self._rules.values()), None)
        if rule is None and not places:
            found = RULES[0]
        self._assumed = found or (RULES[0] if not places else None)
        audit.rule = found.words if found else "the strategy, repeated on the survivors' updates"

    def rows(self, run: _Run) -> Iterator[Row]:
        """Yield the rows of a run, one for each round."""
        earlier: dict[str, dict[int, Vector]] = {}
        for one in _rounds(run):
            row = Row(
                losses=run.losses,
                mod=run.mod,
                round=one.number,
                aggregate="",
                called=one.called,
                survivors=len(one.survivors),
                status="no sum",
            )
            yield self._judged(row, run, one, earlier)
            for place, vector in one.seen.items():
                earlier.setdefault(place, {})[one.number] = vector
        if not run.numbers:
            why = f"{run.trial.outcome}: {run.trial.reason}"
            yield Row(
                losses=run.losses,
                mod=run.mod,
                round=1,
                aggregate="",
                called=0,
                survivors=0,
                status="no sum",
                reason=why,
            )

    def _judged(self, row: Row, run: _Run, one: _Round, earlier: Mapping[str, Mapping[int, Vector]]) -> Row:
        if not one.seen:
            return structs.replace(row, reason=_no_sum(run, one))
        if len({len(each.vector) for each in one.inputs.values()}) > 1:
            return structs.replace(row, status="unknown", reason="clients' updates have different sizes")
        found: list[tuple[str, Verdict]] = []
        for place in one.seen:
            rule = self._given or (RULES[0] if place == _SUM and one.quantiser else self._rules.get(place))
            if rule is None and (place == _SUM or place not in self._rules):
                rule = self._assumed
            if rule is not None:
                found.append((place, judge(one.sum_of(place, rule, earlier.get(place, {})))))
        if not found and _STRATEGY in one.seen:
            found.append((f"{_STRATEGY}, repeated", _strategy_verdict(one, run)))
        wrong = [each for each in found if each[1].status == "wrong"]
        if not found:
            return structs.replace(
                row, status="unknown", reason="no rule gives the aggregate without the mod: set --rule"
            )
        place, verdict = (wrong or found)[0]
        return structs.replace(row, aggregate=place).judged(verdict)


def _fitting(rounds: Sequence[_Round], place: str) -> Rule | None:
    """The rule of the aggregates at a `place`. Rounds that repeat an earlier aggregate are ignored."""
    earlier: dict[int, Vector] = {}
    usable = []
    for one in rounds:
        if place in one.seen and one.survivors:
            vector = one.seen[place]
            if not any(np.array_equal(vector, other) for other in earlier.values()):
                usable.append(one.sum_of(place, RULES[0], dict(earlier)))
            earlier[one.number] = vector
    return fitting(usable)


def _no_rule_note(rounds: Sequence[_Round], places: Mapping[str, None]) -> str:
    place = next(iter(places))
    reasons = [
        verdict.reason
        for one in rounds
        if place in one.seen and one.survivors
        for verdict in [judge(one.sum_of(place, RULES[0], {}))]
        if verdict.status == "wrong"
    ]
    seen = f" (as a weighted mean: {reasons[0]})" if reasons else ""
    return (
        f"Without its secure mod, too, the aggregate is no mean or sum of the updates{seen}. It is compared with what "
        "the same strategy makes of the survivors' updates. If it is meant to be a mean, set --rule weighted-mean."
    )


def _no_sum(run: _Run, one: _Round) -> str:
    last = one.number == run.numbers[-1]
    if run.trial.outcome != "completed" and last:
        return f"{run.trial.outcome}: {run.trial.reason}"
    if run.recorder.watched:
        errors = [(name, error) for of in run.trial.records if of.number == one.number for name, error in _errors(of)]
        first = f"; {errors[0][0]}: {errors[0][1]}" if errors else ""
        return f"the app aggregated nothing in this round{first}"
    return "no model was seen after this round" if last else "the app sent no model after this round"


def _errors(record: RoundRecord) -> list[tuple[str, str]]:
    """The errors that clients replied in a round, with their names."""
    return [(name, error) for one in record.exchanges for name, error in one.errors.items()]


def _strategy_verdict(one: _Round, run: _Run) -> Verdict:
    """Compare the aggregate with that of the same strategy on the survivors' updates."""
    assert one.aggregation is not None
    numbers = {name: number for number, name in run.names.items()}
    arrays = {numbers[name]: one.updates[numbers[name]].arrays for name in one.survivors}
    again = one.aggregation.repeat(arrays)
    if again is None:
        return Verdict("unknown", "the strategy cannot be repeated on the survivors' updates: set --rule")
    wanted, found = _flat(again), one.seen[_STRATEGY]
    if wanted.shape != found.shape:
        return Verdict("wrong", f"{len(found)} numbers instead of {len(wanted)}")
    error, bound = np.abs(found - wanted), _REPEATED * max(float(np.abs(wanted).max(initial=0.0)), 1e-6)
    largest = float(error.max(initial=0.0))
    if largest <= bound:
        return Verdict("ok", "", largest, bound)
    text = f"{int((error > bound).sum())} of {len(found)} numbers are not those that the strategy gives without the mod"
    return Verdict("wrong", text, largest, bound)


# Rounds, made from the recorder's messages


def _rounds(run: _Run) -> Iterator[_Round]:
    recorder = run.recorder
    before, sent = recorder.before(run.mod or None), recorder.sent_arrays()
    previous: dict[str, Vector] = {}
    weights = {one.node: one.weight for one in before.values() if one.weight is not None}
    for place, number in enumerate(run.numbers):
        messages = [one for one, its_round in recorder.rounds.items() if its_round == number]
        updates: dict[int, Update] = {}
        survivors: set[int] = set()
        for message in messages:
            one = before.get(message)
            if one is not None and one.arrays and (message in recorder.arrived or one.node not in survivors):
                updates[one.node] = one
                if message in recorder.arrived:
                    survivors.add(one.node)
        following = run.numbers[place + 1] if place + 1 < len(run.numbers) else None
        aggregation = next((one for one in reversed(recorder.aggregations) if one.round == number), None)
        ordered = [node for node in run.names if node in updates]
        settings = recorder.settings.get(number)
        called = {recorder.nodes[message] for message in messages}
        inputs = {run.names[node]: _input(updates[node], sent[updates[node].message]) for node in ordered}
        yield _Round(
            number=number,
            inputs=inputs,
            survivors=tuple(run.names[node] for node in ordered if node in survivors),
            called=len(called),
            layers=_layers(next(iter(updates.values())).arrays) if updates else {},
            before=_flat(recorder.models[number]) if number in recorder.models else None,
            seen=dict(_aggregates(recorder, number, following, aggregation)),
            quantiser=_quantiser(settings) if settings and run.mod else None,
            aggregation=aggregation,
            updates=updates,
            absent={run.names[node]: weights[node] for node in run.names if node in called & {*weights} - {*updates}},
            previous=dict(previous),
        )
        previous |= {name: each.vector for name, each in inputs.items()}


def _aggregates(
    recorder: "Recorder", number: int, following: int | None, aggregation: "Aggregation | None"
) -> Iterator[tuple[str, Vector]]:
    """Yield the aggregates of a round, by the places where they were seen."""
    if aggregation is not None:
        given = list(aggregation.given.values())
        alike = all(_are_equal(one, given[0]) for one in given)
        if given and alike and (len(given) > 1 or number in recorder.settings) and not recorder.without:
            yield _SUM, _flat(given[0])
        if aggregation.found is not None:
            yield _STRATEGY, _flat(aggregation.found)
    if recorder.watched and (aggregation is None or aggregation.found is None):
        return  # the strategy aggregated nothing, so the next model is the earlier one
    after = recorder.evaluated.get(number)
    if after is None and following is not None:
        after = recorder.models.get(following)
    if after is not None:
        yield _MODEL, _flat(after)


def _are_equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(a, b) for a, b in zip(one.values(), other.values(), strict=True)
    )


def _flat(arrays: Mapping[str, Any]) -> Vector:
    parts = [np.asarray(one, np.float64).ravel() for one in arrays.values()]
    return np.concatenate(parts) if parts else np.zeros(0)


def _layers(arrays: Mapping[str, Any]) -> dict[str, slice]:
    ends = np.cumsum([np.size(one) for one in arrays.values()]).tolist()
    names = [f"array {name}" if name.isdigit() else name for name in arrays]
    return {name: slice(end - np.size(one), end) for name, one, end in zip(names, arrays.values(), ends, strict=True)}


def _input(before: "Update", sent: "Update") -> Input:
    floats = [np.abs(one).max() for one in sent.arrays.values() if one.dtype.kind == "f" and one.size]
    largest = float(max(floats, default=0.0))
    weight = 1.0 if before.weight is None else before.weight
    return Input(_flat(before.arrays), weight, largest if np.isfinite(largest) else 0.0)


def _quantiser(settings: Mapping[str, Any]) -> Quantiser | None:
    try:
        return Quantiser(
            float(settings["clipping_range"]),
            int(settings["target_range"]),
            int(settings["mod_range"]),
            float(settings["max_weight"]),
        )
    except KeyError:
        return None
