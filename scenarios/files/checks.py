"""Checks that a scenario's types cannot make: values that contradict each other, the data or the protocol's steps.

Each check raises `ScenarioError` without a file's name; `check` adds it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from tacit.parties.data.sets import READERS, DataError, Own
from tacit.parties.data.splits import Shard, counted, named, parse_partition
from tacit.parties.learning.extras import MissingExtra, require
from tacit.protocols.crypto.quorum import fewest_left, threshold_of
from tacit.protocols.experiment.experiment import Dealt
from tacit.protocols.parts import SumBounds
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.fault_checks import (
    check_fault_places,
    check_party,
    fault_cautions,
    read_text,
    steps_of,
)
from tacit.scenarios.files.splits import Material, alpha_of, at_data_key, dealt, fleet_of, material_of, split_data
from tacit.scenarios.schema.keys import similar, toml
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim.compute import CostTable
from tacit.sim.engines import ON_RAY
from tacit.sim.latency import parse_latency
from tacit.sim.setting_error import Problem
from tacit.sim.shares import rounded_up
from tacit.sim.streams import generator
from tacit.sim.units import duration, format_duration, rate

__all__ = ["MOST_POINTS", "cautions", "check", "is_hollow", "notes"]


def check(
    scenario: Scenario,
    where: str,
    *,
    clients_given: bool = True,
    evaluation_given: bool = True,
    to_run: bool = True,
) -> Scenario:
    """Check a scenario, and return it with the values that the data determine.

    `clients_given`: the user wrote `data.clients`; if not, the partition `natural` takes all clients of the data.
    `evaluation_given`: the user wrote `training.evaluation`; if not, clients test the models of a study whose points
    nobody else has, and that has no test points.
    `to_run`: the run must fit into this machine's memory. Raises ScenarioError naming `where` if the scenario is
    invalid.
    """
    try:
        scenario = PROTOCOLS[scenario.protocol.name].prepared(scenario)
        for test in _WITHOUT_DATA:
            test(scenario)
        scenario, material = dealt(scenario, clients_given=clients_given, evaluation_given=evaluation_given)
        _check_data(scenario, material, to_run=to_run)
        check_fault_places(scenario)
        _check_expect(scenario)
    except (Problem, ScenarioError) as error:
        raise ScenarioError(where, error.key, error.problem) from None
    return scenario


# --- sized runs


MOST_POINTS = 20_000
"""The most points with which a sized run computes everything but the cryptography, and has results."""

_SIZED = (
    'fidelity = "sized": sizes and modelled times are real, but SecureHamming is not run; '
    "results are those of the plaintext protocol"
)


def is_hollow(scenario: Scenario, shards: Mapping[str, Shard]) -> bool:
    """Return true if a run of `scenario`, among clients with `shards`, uses hollow values (`tacit.sim.hollow`).

    Such a run trains nothing, uses modelled times only, and its results under faults are not observed.
    """
    if scenario.fidelity != "sized":
        return False
    large = sum(counted(shards)[0].values()) > MOST_POINTS
    calm = not (scenario.fault or scenario.attack.kind or scenario.network.loss)
    return large and calm and scenario.cost.startswith("modelled") and not PROTOCOLS[scenario.protocol.name].learns


def _sized_caution(scenario: Scenario, shards: Mapping[str, Shard]) -> str:
    """A caution about the numbers of a sized run."""
    if not is_hollow(scenario, shards):
        return _SIZED
    return (
        f"fidelity = {toml(scenario.fidelity)}: with more than {MOST_POINTS:,} points, only messages, bytes and "
        "modelled times are computed, and these are real; no point gets a label"
    )


# --- notes and cautions about a valid scenario


def cautions(scenario: Scenario) -> list[str]:
    """A line for each choice that gives the run less secrecy than it seems to have, or too little time."""
    sized, others = _cautions_by_parties(scenario)
    return [*_cautions_of_data(scenario), *sized, *fault_cautions(scenario), *others]


_DRAWS = 1001
"""The latencies that are drawn for a median."""


def _deadline_cautions(scenario: Scenario) -> list[str]:
    """A line if a deadline is not longer than a round trip, by the median latency, of some clients with the server."""
    deadline, fleet = duration(scenario.protocol.deadline), fleet_of(scenario)
    medians: dict[str, float] = {}
    slow = []
    for numbers, _ in fleet.groups():
        latency, _ = fleet.between("server", f"client/{numbers[0]}")
        if latency.text not in medians:
            drawn = latency.draw(generator(0, "median latency"), _DRAWS)
            medians[latency.text] = 2 * float(np.median(drawn))
        if medians[latency.text] >= deadline:
            slow.append((len(numbers), medians[latency.text]))
    if not slow:
        return []
    clients, trip = sum(count for count, _ in slow), max(trip for _, trip in slow)
    key = f"protocol.deadline = {toml(scenario.protocol.deadline)}"
    return [
        f"{key} is not longer than the round trip of {clients} of {scenario.data.clients} clients "
        f"({format_duration(trip)}): their answers come too late"
    ]


def _cautions_of_data(scenario: Scenario) -> Sequence[str]:
    """The cautions that the user's own data have."""
    needs, data = PROTOCOLS[scenario.protocol.name].needs, scenario.data
    if not needs.points or not (data.path or isinstance(READERS.defined(data.name), Own)):
        return ()
    key = repr((data, needs))
    if key not in _kept_of_data:
        try:
            found = material_of(scenario).parts.held.cautions
        except (ValueError, MissingExtra):  # the run itself reports the error
            return ()
        _kept_of_data.clear()
        _kept_of_data[key] = found
    return _kept_of_data[key]


_kept_of_data: dict[str, Sequence[str]] = {}


_kept: dict[str, tuple[list[str], list[str]]] = {}


def _cautions_by_parties(scenario: Scenario) -> tuple[list[str], list[str]]:
    """The cautions of a sized run, and those of the deadline and the protocol, which depend on devices and data.

    They are cached without these, because they are needed before and after a run.
    """

    @cache
    def dealt() -> Dealt:
        material = material_of(scenario)
        return Dealt(named(material.shards), material.fleet, material.parts)

    text = repr(scenario)  # a plugin's key may be a list, which has no hash
    if text not in _kept:
        if len(_kept) == 4:
            del _kept[next(iter(_kept))]
        sized = [_sized_caution(scenario, dealt().shards)] if scenario.fidelity == "sized" else []
        of_protocol = PROTOCOLS[scenario.protocol.name].cautions(scenario, dealt)
        _kept[text] = sized, [*_deadline_cautions(scenario), *of_protocol]
    return _kept[text]


def notes(scenario: Scenario) -> list[str]:
    """A line for each consequence of the protocol's keys, such as the failure probability of its sums."""
    protocol = PROTOCOLS[scenario.protocol.name]
    clients = rounded_up(protocol.share(scenario), scenario.data.clients)
    of_sums = [_left_note(one, clients) for one in protocol.sums(scenario, clients)]
    opened = [_opened_note(one, clients) for one in protocol.sums(scenario, clients)]
    own = protocol.notes(scenario, lambda: named(split_data(scenario)[1]))
    return list(dict.fromkeys([*own, *filter(None, (*of_sums, *opened))]))  # a protocol may take several sums alike


def _opened_note(one: SumBounds, clients: int) -> str:
    """A line for a sum whose fewest clients follow from those that may collude; otherwise ""."""
    if not one.colluding or one.fewest != one.colluding + 2:
        return ""
    return (
        f"{clients} clients, of which {one.colluding} may collude with the server: a sum is opened over {one.fewest} "
        "clients or more, so that it never has the input of one other client alone"
    )


def _left_note(one: SumBounds, clients: int) -> str:
    """A line for a sum that needs more survivors than `min_clients` and the threshold state; otherwise ""."""
    if one.kind not in ("secure", "secure rows"):  # other sums need no more survivors, or have their own notes
        return ""
    threshold = threshold_of(one.threshold, clients, one.colluding)
    left = fewest_left(clients, threshold, one.fewest, one.colluding)
    if left <= max(threshold, one.fewest):
        return ""
    return (
        f"{clients} clients: a sum needs {left} survivors, more than min_clients = {one.fewest} and the threshold of "
        f"{threshold}. With fewer survivors, a server that shows clients different member lists could reveal a sum "
        f"over fewer than {one.fewest} clients"
    )


def _check_specs(scenario: Scenario) -> None:
    """Check all texts that have a grammar, such as durations and rates."""
    network, protocol = scenario.network, scenario.protocol
    if scenario.data.name and scenario.data.path:
        raise ScenarioError("", "data", "name and path are both given; allowed: exactly one of them")
    read_text("network.latency", parse_latency, network.latency)
    read_text("network.jitter", duration, network.jitter)
    read_text("network.retransmission_timeout", duration, network.retransmission_timeout)
    if duration(network.retransmission_timeout) == 0:
        problem = "0 s sends again before any answer can come; allowed: above 0 s"
        raise ScenarioError("", "network.retransmission_timeout", problem)
    for name in ("bandwidth", "up", "down", "server_bandwidth", "helper_bandwidth"):
        value = getattr(network, name)
        if value is not None:
            read_text(f"network.{name}", rate, value)
    try:
        parse_partition(scenario.data.partition)
    except DataError as error:
        raise at_data_key(error, "partition") from None
    read_text("public.distribution", alpha_of, scenario.public.distribution)
    read_text("protocol.deadline", duration, protocol.deadline)
    if duration(protocol.deadline) == 0:
        raise ScenarioError("", "protocol.deadline", "0 s lets no answer arrive; allowed: above 0 s")
    if not re.fullmatch(r"[\w-][\w.-]*|", scenario.name):
        raise ScenarioError("", "name", f"{toml(scenario.name)} names no folder; allowed: letters, digits, - _ .")
    if not re.fullmatch(rf"auto|inline|pool:([1-9]|[1-5][0-9]|6[0-4])|{ON_RAY}", scenario.engine):
        allowed = "auto, inline, pool:N with N from 1 to 64, ray, ray:HOST:PORT, ray:auto"
        raise ScenarioError("", "engine", f"{toml(scenario.engine)} is not an engine; allowed: {allowed}")
    if scenario.engine.startswith("ray"):
        try:
            require("ray", "ray", "the engine ray")
        except MissingExtra as error:
            raise ScenarioError("", "engine", str(error)) from None


def _check_cost(scenario: Scenario) -> None:
    kind, colon, folder = scenario.cost.partition(":")
    if colon and kind == "replayed":
        if not (Path(folder) / "run.sqlite").is_file():
            raise ScenarioError("", "cost", f"{folder} holds no run.sqlite; allowed: replayed:FOLDER of a run")
    elif kind == "modelled" and folder in CostTable.processors():
        pass
    elif colon or kind not in ("free", "modelled", "measured"):
        of_processors = "".join(f", modelled:{processor}" for processor in CostTable.processors())
        allowed = f"free, modelled{of_processors}, measured, replayed:RUN_DIR"
        raise ScenarioError("", "cost", f"{toml(scenario.cost)} is not known; allowed: {allowed}")
    if scenario.fidelity == "sized" and kind not in ("modelled", "replayed"):
        problem = f'{toml(scenario.cost)} does not go with fidelity = "sized"; allowed: modelled, replayed:RUN_DIR'
        raise ScenarioError("", "cost", problem)


def _check_protocol(scenario: Scenario) -> None:
    protocol = PROTOCOLS[scenario.protocol.name]
    protocol.check_tables(scenario)
    if scenario.attack.kind:
        protocol.attacked(scenario)


_WITHOUT_DATA = (_check_protocol, _check_specs, _check_cost)


def _check_data(scenario: Scenario, material: Material, *, to_run: bool) -> None:
    """Check what a protocol needs of the data, and with `to_run` if this machine has the memory for the run."""
    protocol, shards = PROTOCOLS[scenario.protocol.name], named(material.shards)
    protocol.check_data(scenario, material.parts, shards)
    if to_run and not is_hollow(scenario, shards):
        protocol.check_memory(scenario, material.parts, shards)


def _check_expect(scenario: Scenario) -> None:
    known = steps_of(scenario)
    expect, included = scenario.expect, {party for key, party, _ in scenario.expect.losses if key == "lost_includes"}
    for name in ("lost_at_most", "lost_includes"):
        if expect.lost is not None and getattr(expect, name) is not None:
            problem = "does not go with expect.lost, which says exactly who is lost; allowed: one of the two"
            raise ScenarioError("", f"expect.{name}", problem)
    if expect.lost_at_most is not None and expect.lost_at_most < len(included):
        problem = f"{expect.lost_at_most} is too small, for expect.lost_includes names {len(included)} parties"
        raise ScenarioError("", "expect.lost_at_most", f"{problem}; allowed: {len(included)} or more")
    for key, party, step in expect.losses:
        check_party(f"expect.{key}", party, scenario.data.clients, patterns=False)
        if step and step not in known:
            problem = f"{toml(step)} is not a step of {scenario.protocol.name}{similar(step, known)}"
            raise ScenarioError("", f"expect.{key}", f"{problem}; allowed: {', '.join(known)}")
