"""The faults that the [[fault]] tables of a scenario stand for, and the parties that they name."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from tacit.sim.faults import Fault

__all__ = ["faults_of", "matching", "parties"]


def faults_of(fault: Fault, clients: int) -> tuple[Fault, ...]:
    """The faults that `fault` stands for, with that number of `clients`: one, or a crash each time a trace says down.

    Raises ValueError in one line.
    """
    return fault.stands_for(parties(clients))


def parties(clients: int) -> list[str]:
    """The names of all parties, in their order."""
    return ["server", *(f"client/{number}" for number in range(clients))]


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Those of `names` that are meant by a name or a pattern."""
    return [name for name in names if fnmatchcase(name, pattern)]
