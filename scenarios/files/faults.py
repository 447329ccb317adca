"""The expansion of a scenario's [[fault]] tables, and the parties that they name."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.rounds.rounds import ENROLL
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.faults import Fault
from tacit.sim.triggers import Population

__all__ = ["faults_of", "matching", "parties", "parties_of", "population_of", "steps_of"]


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


def steps_of(scenario: Scenario, roles: Iterable[str] = ("client", "server", "helper")) -> list[str]:
    """The steps that parties of these roles take in a run with these choices."""
    steps = PROTOCOLS[scenario.protocol.name].steps_with(scenario)
    return list(dict.fromkeys(step.name for step in steps if step.role in roles))


def population_of(scenario: Scenario) -> Population:
    """The clients of a run of `scenario`, and the steps that they take in rounds, without enrolment."""
    enrolment = {step.name for step in ENROLL}
    steps = [step for step in steps_of(scenario, ("client",)) if step not in enrolment]
    return Population(parties(scenario.data.clients)[1:], steps)


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The elements of `names` that match a name or pattern."""
    return [name for name in names if fnmatchcase(name, pattern)]
