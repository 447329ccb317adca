"""The payloads of a run by formula; `tacit bytes` shows them beside the measured ones."""

import json
from collections.abc import Collection
from pathlib import Path

from scenarios.families.payloads import payloads_of
from scenarios.files.reading import read
from scenarios.observing.deals import dealt

__all__ = ["predicted"]


def predicted(folder: Path, types: Collection[str] = ()) -> dict[str, int]:
    """The payload of each message type in the run in `folder`, by formula; 0 for those of `types` that carry none.

    Empty if the formulas do not apply or lack a value: a party was lost, the run did not complete, its
    protocol has no formula here, or its scenario or data can no longer be read.
    """
    try:
        result = json.loads((folder / "result.json").read_bytes())
        if result["outcome"] != "completed" or result["lost"]:
            return {}
        scenario = read(folder).scenario
        held, shards = dealt(scenario)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    found = payloads_of(scenario, held, shards)
    return {} if found is None else {**dict.fromkeys(types, 0), **found}
