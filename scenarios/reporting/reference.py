"""Lists the keys of scenario files and the steps of a protocol, without loading code that runs or shows."""

import re
from pathlib import Path

from tacit.protocols.parts import Step
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.plugins import load_plugins
from tacit.scenarios.schema.keys import EACH, Key
from tacit.scenarios.schema.keys import keys as all_keys
from tacit.scenarios.schema.option_names import either
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim.registry import similar

__all__ = ["keys", "protocol_of", "steps"]


def keys(prefix: str = "") -> list[Key]:
    """Return all keys of scenario files, or those that begin with `prefix`: type, unit, default, protocols that use
    them.

    A key of a list has one entry, such as ``fault.N.at``; `prefix` may also name one table, such as ``fault.0.at``.
    Raises ScenarioError if no key begins with `prefix`.
    """
    load_plugins()
    of_any = re.sub(r"^(\w+)(?:\.\d+|\[\d*\])(?=\.|$)", rf"\1.{EACH}", prefix)
    found = [key for key in all_keys() if key.name.startswith((prefix, of_any))]
    if not found:
        begins = dict.fromkeys(part for key in all_keys() for part in (key.name.partition(".")[0], key.name))
        raise ScenarioError(
            prefix,
            "",
            "no key begins so" + (similar(prefix, begins) or f"; `{either('tacit keys', 'tacit.keys()')}` lists all"),
        )
    return found


def steps(name: str | Scenario) -> tuple[Step, ...]:
    """Return the steps of a protocol, which faults can name; `name` is a protocol's name, or a scenario.

    Raises ScenarioError if `name` is neither.
    """
    load_plugins()
    return tuple(PROTOCOLS[name.protocol.name if isinstance(name, Scenario) else protocol_of(name)].steps)


def protocol_of(name: str) -> str:
    """The protocol named `name`, or the protocol of the scenario named `name`. Raises ScenarioError."""
    from tacit.scenarios.files.reading import read
    from tacit.scenarios.files.source import find
    from tacit.scenarios.running.whole import check_whole

    if name in PROTOCOLS:
        return name
    try:
        find(name)
    except ScenarioError:
        problem = f"neither a protocol ({', '.join(PROTOCOLS)}) nor a scenario"
        raise ScenarioError(name, "", problem + similar(name, PROTOCOLS)) from None
    check_whole(Path(name))
    return read(name).scenario.protocol.name
