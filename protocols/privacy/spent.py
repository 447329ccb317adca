"""The privacy that a run of a differentially private protocol spends."""

import math
from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, Context, Decimal
from typing import Protocol

from msgspec import Struct, structs

from tacit.protocols.privacy.carried import Carried, carried_line
from tacit.sim.labelled import Labelled

__all__ = ["Spending", "Spent", "after_resuming", "caveats_of", "privacy_lines"]


class Spent(Struct, kw_only=True, frozen=True):
    """The differential privacy of a run's releases.

    `rounds` of `planned` ones are charged: each to which clients were called, whether or not it had a result. `epsilon`
    is that of all charged rounds with `delta`, by Renyi accounting; `epsilon_pure` the same with delta = 0, by
    addition, if finite; `epsilon_round` that of each single round, with `delta_round`. None means no bound. It is
    `guaranteed` unless `caveats` has reasons against it. `neighbours` describes neighbouring data, `covers` the
    observers covered. `flip` is the probability that a bit flips, for `sensitivity` bits that may change, with the
    source `sensitivity_from`; `noise` the standard deviation of Gaussian noise, in votes or in units of `clip`.
    `cohort` describes how sampling is counted, if not all clients are drawn. `carried`: the noise in each opened sum,
    where clients remove a part of it.
    """

    mechanism: str
    neighbours: str
    covers: str
    guaranteed: bool
    caveats: tuple[str, ...] = ()
    rounds: int
    planned: int = 0
    delta: float
    delta_round: float
    epsilon: float | None
    epsilon_pure: float | None = None
    epsilon_round: float | None
    flip: float | None = None
    sensitivity: int | None = None
    sensitivity_from: str = ""
    noise: float | None = None
    clip: float | None = None
    cohort: str = ""
    carried: tuple[Carried, ...] = ()

    @property
    def bound(self) -> float:
        """`epsilon` as a number, infinite without a bound."""
        return math.inf if self.epsilon is None else self.epsilon


Spending = Callable[[int], Spent]
"""Maps the number of charged rounds to the privacy spent; the noise is always that of all planned rounds."""


def after_resuming(spent: Spent, *, seeded: bool) -> Spent:
    """The budget `spent` by a resumed run: unchanged with seeded noise, otherwise without a guarantee."""
    if seeded:
        return spent
    caveat = "the run was broken off and went on: rounds that it held twice had fresh noise, and are charged once"
    return structs.replace(spent, guaranteed=False, caveats=(*spent.caveats, caveat))


class Guaranteed(Protocol):
    """A statement about the privacy that a run spends."""

    @property
    def caveats(self) -> tuple[str, ...]: ...


def caveats_of(spent: Iterable[Guaranteed | None]) -> list[str]:
    """The reasons why the epsilons of several runs are no guarantee, each once."""
    return list(dict.fromkeys(caveat for one in spent if one is not None for caveat in one.caveats))


def privacy_lines(spent: Spent | None) -> list[Labelled]:
    """The lines that a run prints about its privacy."""
    if spent is None:
        return []
    once = f", delta = {spent.delta:g}"
    pure = f"; {_shown(spent.epsilon_pure)} with delta = 0" if spent.epsilon_pure is not None else ""
    lines = [Labelled("privacy", f"epsilon = {_shown(spent.epsilon)}{once}{pure}, of the run")]
    if spent.rounds < spent.planned or spent.planned > 1:
        charged = f"{spent.rounds} of {spent.planned} rounds, each that clients were called to, lost or not"
        lines.append(Labelled("", f"charged: {charged}"))
    if spent.rounds > 1:
        each = f", delta = {spent.delta_round:g}" if spent.delta_round else ", delta = 0"
        lines.append(Labelled("", f"epsilon = {_shown(spent.epsilon_round)}{each}, of each of {spent.rounds} rounds"))
    if spent.flip is not None:
        known = f"{spent.sensitivity:,} of them may change ({spent.sensitivity_from})"
        lines.append(Labelled("", f"{spent.mechanism}: each bit flips with probability {spent.flip:.6g}; {known}"))
    else:
        clip = f" of the clip {spent.clip:g}" if spent.clip is not None else " votes"
        lines.append(Labelled("", f"{spent.mechanism}: standard deviation {spent.noise:.4g}{clip}"))
    if spent.carried:
        lines.append(Labelled("", carried_line(spent.carried)))
    if spent.cohort:
        lines.append(Labelled("", f"cohort {spent.cohort}"))
    lines.append(Labelled("", f"between data that differ in {spent.neighbours}"))
    lines.append(Labelled("", f"against {spent.covers}"))
    return lines + [Labelled("", f"NO guarantee: {caveat}", warns=True) for caveat in spent.caveats]


def _shown(epsilon: float | None) -> str:
    """`epsilon` with four digits, rounded up: no less is printed than is spent."""
    if epsilon is None:
        return "inf"
    nearest = f"{epsilon:.4g}"
    if float(nearest) >= epsilon * (1 - 1e-9):  # sums of floats are no more exact
        return nearest
    return f"{Context(prec=4, rounding=ROUND_CEILING).create_decimal(Decimal(epsilon)):.4g}"
