"""The payloads of a run by formula, which `tacit bytes` shows beside the measured ones; all bytes of one to come."""

import json
from collections.abc import Collection
from pathlib import Path

from parties.data.splits import named
from protocols.planned import SERVER
from protocols.registry import PROTOCOLS
from scenarios.files.reading import read
from scenarios.observing.splits import parts_of, split
from scenarios.schema.scenario import Scenario, ScenarioError
from sim.planned import Counts, counts
from sim.setting_error import Problem
from sim.toml_text import toml

__all__ = ["predicted", "predicted_counts"]


def predicted(folder: Path, types: Collection[str] = ()) -> dict[str, int]:
    """The payload of each message type in the run in `folder`, by formula; 0 for those of `types` that carry none.

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
    return {} if found is None else {**dict.fromkeys(types, 0), **found}


def predicted_counts(scenario: Scenario, where: str = "") -> dict[tuple[str, str], Counts]:
    """Messages and bytes of a run of `scenario` with nobody lost, by step and type, over all hops.

    Raises ScenarioError, naming `where`, if the protocol or one of its choices has no formula of its messages.
    """
    try:
        parts = parts_of(scenario)
        shards = named(split(parts.held, scenario.data, scenario.seed))
        messages = PROTOCOLS[scenario.protocol.name].sent_messages(scenario, parts, shards)
        if messages is None:
            raise ScenarioError(
                where, "protocol.name", f"{toml(scenario.protocol.name)} has no formula of its messages"
            )
        return counts(messages, SERVER if scenario.network.topology == "star" else "")
    except Problem as error:
        raise ScenarioError(where, error.key, error.problem) from error
