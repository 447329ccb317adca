"""Checks that a scenario's types cannot make: values that contradict each other, the data or the protocol's steps.

Each check raises `ScenarioError` without a file's name; `check` adds it.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tacit.parties.data.sets import DataError
from tacit.parties.data.splits import Shard, alpha_of, counted, parse_partition
from tacit.parties.learning.extras import MissingExtra, require
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.fault_checks import check_expect, check_fault_places
from tacit.scenarios.files.source import inputs_of
from tacit.scenarios.files.splits import at_data_key, checked_material, dealt
from tacit.scenarios.schema.keys import toml
from tacit.scenarios.schema.scenario import Scenario, ScenarioError, as_table
from tacit.sim.compute import CostTable
from tacit.sim.engines import ON_RAY
from tacit.sim.latency import parse_latency
from tacit.sim.setting_error import Problem
from tacit.sim.units import duration, rate

__all__ = ["MOST_POINTS", "check", "is_hollow", "still_holds"]


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
    protocol = PROTOCOLS[scenario.protocol.name]
    try:
        _check_cost(scenario)
        _check_specs(scenario)
        scenario = protocol.prepared(scenario)
        protocol.check_tables(scenario)
        if scenario.attack.kind:
            protocol.attacked(scenario)
        scenario, material = dealt(scenario, clients_given=clients_given, evaluation_given=evaluation_given)
        in_memory = to_run and not is_hollow(scenario, material.named)
        places = protocol.places(scenario)
        protocol.check_data(scenario, material.parts, material.named, in_memory=in_memory)
        check_fault_places(scenario, places)
        check_expect(scenario, places)
    except (Problem, ScenarioError) as error:
        raise ScenarioError(where, error.key, error.problem) from None
    return scenario


def still_holds(scenario: Scenario) -> bool:
    """Return true if this scenario was the last to be checked, its data are in memory, and it names no files.

    Then nothing that the check read can have changed, but for the memory of this machine, which is checked again.
    Raises ScenarioError if the run does not fit any more.
    """
    material = checked_material(scenario)
    if material is None or scenario.plugins or any(inputs_of(as_table(scenario))):
        return False
    try:
        if not is_hollow(scenario, material.named):
            PROTOCOLS[scenario.protocol.name].check_memory(scenario, material.parts, material.named)
    except (Problem, ScenarioError) as error:
        raise ScenarioError("scenario", error.key, error.problem) from None
    return True


# --- checks that need no data


def _check_specs(scenario: Scenario) -> None:
    """Check all texts that have a grammar, such as durations and rates."""
    network, protocol = scenario.network, scenario.protocol
    if scenario.data.name and scenario.data.path:
        raise ScenarioError("", "data", "name and path are both given; allowed: exactly one of them")
    _read_text("network.latency", parse_latency, network.latency)
    _read_text("network.jitter", duration, network.jitter)
    _read_text("network.retransmission_timeout", duration, network.retransmission_timeout)
    if duration(network.retransmission_timeout) == 0:
        problem = "0 s sends again before any answer can come; allowed: above 0 s"
        raise ScenarioError("", "network.retransmission_timeout", problem)
    for name in ("bandwidth", "up", "down", "server_bandwidth", "helper_bandwidth"):
        value = getattr(network, name)
        if value is not None:
            _read_text(f"network.{name}", rate, value)
    try:
        parse_partition(scenario.data.partition)
    except DataError as error:
        raise at_data_key(error, "partition") from None
    _read_text("public.distribution", alpha_of, scenario.public.distribution)
    _read_text("protocol.deadline", duration, protocol.deadline)
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


def _read_text(key: str, parse: Callable[[str], object], value: str | float) -> None:
    """Raise ScenarioError at `key` if `parse` cannot read `value`."""
    try:
        parse(value)  # type: ignore[arg-type]
    except ValueError as error:
        raise ScenarioError("", key, str(error)) from None


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


# --- sized runs


MOST_POINTS = 20_000
"""The most points with which a sized run computes everything but the cryptography, and has results."""


def is_hollow(scenario: Scenario, shards: Mapping[str, Shard]) -> bool:
    """Return true if a run of `scenario`, among clients with `shards`, uses hollow values (`tacit.sim.hollow`).

    Such a run trains nothing, uses modelled times only, and its results under faults are not observed.
    """
    if scenario.fidelity != "sized":
        return False
    large = sum(counted(shards)[0].values()) > MOST_POINTS
    calm = not (scenario.fault or scenario.attack.kind or scenario.network.loss)
    return large and calm and scenario.cost.startswith("modelled") and not PROTOCOLS[scenario.protocol.name].learns
