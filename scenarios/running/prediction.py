"""The payloads of a run by formula; `tacit bytes` shows them beside the measured ones."""

import json
from collections.abc import Collection
from pathlib import Path

from parties.data.splits import named
from protocols.registry import PROTOCOLS
from scenarios.files.reading import read
from scenarios.observing.splits import parts_of, split
from scenarios.schema.scenario import ScenarioError
from sim.setting_error import Problem

__all__ = ["predicted"]


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
