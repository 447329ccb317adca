"""The expansion of a scenario's [[fault]] tables, and the parties that they name."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.faults import Fault

__all__ = ["faults_of", "matching", "parties", "parties_of"]


def faults_of(fault: Fault, clients: int) -> tuple[Fault, ...]:
    """The faults that `fault` expands to with `clients` clients: one, or a crash for each down time of a trace.

    Raises ValueError in one line.
    """
    return fault.stands_for(parties(clients))


def parties(clients: int, helpers: Iterable[str] = ()) -> list[str]:
    """The names of all parties in order: the server, `helpers` and clients."""
    return ["server", *helpers, *(f"client/{number}" for number in range(clients))]


def parties_of(scenario: Scenario) -> list[str]:
    """The names of all parties of a run of `scenario`."""
    return parties(scenario.data.clients, PROTOCOLS[scenario.protocol.name].helpers(scenario))


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The elements of `names` that match a name or pattern."""
    return [name for name in names if fnmatchcase(name, pattern)]
