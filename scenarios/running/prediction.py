"""The payloads of a run by formula, which `tacit bytes` shows beside the measured ones; what one to come will take."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from parties.data.splits import Shard, named
from parties.fleet.fleet import Fleet
from protocols.observing.parts import Parts
from protocols.planned import SERVER
from protocols.registry import PROTOCOLS
from scenarios.files.reading import read
from scenarios.observing.splits import parts_of, split
from scenarios.running.memory import predicted_memory
from scenarios.running.simulation import conditions_of
from scenarios.schema.scenario import Scenario, ScenarioError
from sim.compute import CostTable
from sim.planned import Counts, Onlook, counts
from sim.planned_course import Course, planned_course
from sim.setting_error import Problem
from sim.toml_text import toml

__all__ = ["Prediction", "course_of", "predict_run", "predicted"]


def predicted(folder: Path, types: Collection[str] = ()) -> dict[str, int]:
    """The payload of each message type in the run in `folder`, by formula; 0 for those of `types` that carry none.

    Types of which the number depends on the run are left out.
    Empty if the formulas do not apply or lack a value: a party was lost, the run did not complete, its
    protocol has no formula here, or its scenario or data can no longer be read. Raises ScenarioError
    where a plugin's formula fails.
    """
    try:
        result = json.loads((folder / "result.json").read_bytes())
        if result["outcome"] != "completed" or result["lost"]:
            return {}
        scenario = read(folder).scenario
        parts = parts_of(scenario)
        shards = named(split(parts.held, scenario.data, scenario.seed))
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    try:
        found = PROTOCOLS[scenario.protocol.name].sent_bytes(scenario, parts, shards)
    except LookupError:  # what a plugin adds has no formula
        return {}
    except Problem as error:
        raise ScenarioError(str(folder), error.key, error.problem) from error
    whole = {} if found is None else {**dict.fromkeys(types, 0), **found}
    return {kind: size for kind, size in whole.items() if size is not None}


@dataclass(frozen=True)
class Prediction:
    """What a run of which nobody is lost will take: messages and bytes by step and type, virtual seconds, memory."""

    counts: dict[tuple[str, str], Counts]
    virtual_seconds: float
    peak_memory: int


def predict_run(scenario: Scenario, where: str = "") -> Prediction:
    """What a run of `scenario` will take with nobody lost and nothing sent again. Nothing is run.

    Raises ScenarioError, naming `where`, if the protocol or one of its choices is not planned.
    """
    parts = parts_of(scenario)
    shards = named(split(parts.held, scenario.data, scenario.seed))
    course = course_of(scenario, parts, shards, where=where)
    relay = SERVER if scenario.network.topology == "star" else ""
    found = counts(course.messages, relay, tcp=scenario.network.transport == "tcp")
    memory = predicted_memory(scenario, parts, shards, course.most_held)
    return Prediction(found, course.seconds, memory)


def course_of(
    scenario: Scenario, parts: Parts, shards: Mapping[str, Shard], onlook: Onlook | None = None, where: str = ""
) -> Course:
    """The course of what is planned of a run of `scenario`, with nobody lost. Raises ScenarioError as `predict_run`."""
    try:
        planned = PROTOCOLS[scenario.protocol.name].planned(scenario, parts, shards)
        if planned is None:
            raise ScenarioError(
                where, "protocol.name", f"{toml(scenario.protocol.name)} has no formula of its messages"
            )
        everything = list(planned)
    except Problem as error:
        raise ScenarioError(where, error.key, error.problem) from error
    fleet = Fleet(scenario)
    table, free = CostTable.load(), scenario.cost == "free"
    return planned_course(
        everything,
        fleet.of,
        conditions_of(scenario.network, fleet),
        lambda work: 0.0 if free else table.duration(work),
        scenario.seed,
        onlook=onlook,
    )
