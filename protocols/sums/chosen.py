"""The sum that a scenario chooses by its name, among the clients that a round calls."""

from dataclasses import replace
from typing import Any

from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.identities import identities_of
from tacit.protocols.sums.registry import SUMS
from tacit.protocols.sums.sum import Sum
from tacit.sim.setting_error import Problem

__all__ = ["check_sum_among", "sum_among"]


def sum_among(tables: Any, name: str, called: int, rounds: int = 1) -> Sum:
    """The sum `name` with the values of its keys, in each of the `rounds` of a run, which call this number of clients.

    Where clients sign, it has the keys for that. Raises UnknownNameError, and Problem for shares that leave nobody.
    """
    one = SUMS[name].of(tables)
    tolerance = replace(one.tolerance, draws=rounds)
    identities = identities_of(tables, called) if one.takes_identities() else None
    of_run = Assumed(called, tolerance.of(called).colluding, 0)
    return replace(one, tolerance=tolerance, identities=identities, of_run=of_run)


def check_sum_among(one: Sum, called: int, key: str) -> None:
    """Raise Problem if a round that calls this number of clients cannot take the sum that `key` names."""
    try:
        one.check(called)
    except Problem as error:
        named = key if error.key == "share" else f"sum.{error.key}"
        raise Problem(named, error.problem) from None
    except ValueError as error:
        raise Problem(key, f'"{one.name}": {error}') from None
