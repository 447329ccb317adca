"""The privacy that a run spends, by noise or by randomised answers, and the lines that it prints about it."""

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import Protocol

from msgspec import Struct, structs

from tacit.protocols.privacy.keys import Privacy
from tacit.sim.grammar import Labelled

__all__ = [
    "DELTA", "SEEDED", "Carried", "Randomised", "Releasing", "Spending", "Spent", "after_resuming", "carried_line",
    "caveats_of", "nothing_released", "privacy_lines", "randomised_cautions", "randomised_lines",
]  # fmt: skip


SEEDED = (
    'entropy = "seeded": all noise and all cohorts follow from the seed in the file, so anyone who has the file can '
    'remove the noise; the guarantee needs entropy = "os"'
)

DELTA = 1e-6
"""The probability over the planes that more bits differ than counted."""


class Carried(Struct, frozen=True, kw_only=True):
    """The noise in an opened sum over `survivors` of the `clients` that agreed to it.

    `removed`: the parts of noise that were removed, of the `removable` parts of all survivors. `planned`, `certain` and
    `carried` are standard deviations of a number of the sum, as shares of the clip: of the honest clients' noise that
    `privacy.epsilon` needs; of that which was certain to be left, whose `variance` in units of the sum counts; and of
    all noise, of colluding clients and of parts that nobody revealed, too.
    """

    clients: int
    survivors: int
    removed: int
    removable: int
    variance: int
    planned: float
    certain: float
    carried: float


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


class Randomised(Struct, kw_only=True, frozen=True):
    """The privacy that labels and hash bits under randomised response spend; None for what is not randomised.

    `label_epsilon` is the epsilon of each label, `hash_epsilon` that of each bit; each of `rounds` rounds has
    `hash_bits` bits with new planes. `angles` maps the degrees between two points to epsilon at `delta` over all
    rounds; `differing` maps them to the most bits that differ. `whole_vector`: epsilon between any two points, with
    delta = 0. `reconstruction`: the cosine to each point that an attacker with the planes reaches, by `opened`. It is
    `guaranteed` unless `caveats` has reasons against it.
    """

    label_epsilon: float | None = None
    label_kept: float | None = None
    hash_epsilon: float | None = None
    hash_flip: float | None = None
    hash_bits: int = 0
    rounds: int = 0
    delta: float = DELTA
    angles: dict[str, float] = {}
    differing: dict[str, int] = {}
    whole_vector: float | None = None
    reconstruction: float | None = None
    guaranteed: bool = True
    caveats: tuple[str, ...] = ()


Spending = Callable[[int], Spent]
"""Maps the number of charged rounds to the privacy spent; the noise is always that of all planned rounds."""


Releasing = Callable[[int], Randomised | None]
"""A function from the number of rounds with separate planes to the privacy that randomised answers spend."""


def nothing_released(rounds: int) -> None:
    """Return None: nothing is randomised."""


def randomised_cautions(privacy: Privacy, entropy: str, *, hashes: bool = True) -> list[str]:
    """A line if labels or `hashes` are under randomised response with coins that follow from the file."""
    asked_for = privacy.label_epsilon != "none" or (hashes and privacy.hash_epsilon != "none")
    return [f"{SEEDED}. No epsilon of this run is a guarantee"] if asked_for and entropy == "seeded" else []


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


def randomised_lines(found: Randomised | None) -> list[Labelled]:
    """The lines that a run prints about randomised answers."""
    if found is None:
        return []
    lines = []
    if found.label_epsilon is not None:
        once = f"kept with probability {found.label_kept:.4g}, once for all rounds and uses"
        lines.append(Labelled("labels", f"epsilon = {found.label_epsilon:g} each, delta = 0; {once}"))
    if found.hash_epsilon is not None:
        many = f"{found.rounds} round{'s' * (found.rounds != 1)} of {found.hash_bits:,} bits"
        flip = f"each flips with probability {found.hash_flip:.4g}"
        lines.append(Labelled("hashes", f"epsilon = {found.hash_epsilon:g} a bit, {many}; {flip}"))
        shown = ", ".join(f"{value:,.4g} at {angle}°" for angle, value in found.angles.items())
        lines.append(Labelled("", f"between two points an angle apart, delta = {found.delta:g}: epsilon = {shown}"))
        whole = f"epsilon = {found.whole_vector:,.4g}: none is hidden as such"
        lines.append(Labelled("", f"of one point against any other {whole}"))
        if found.reconstruction is not None:
            cosine = f"{found.reconstruction:.3f} to each point, or better"
            known = "hashes with the planes, which every client knows"
            lines.append(Labelled("", f"{known}, give vectors of cosine {cosine}"))
        lines.append(Labelled("", "against whoever sees the hashes, the server among them; not of what else is sent"))
    return lines + [Labelled("", f"NO guarantee: {caveat}", warns=True) for caveat in found.caveats]


def carried_line(sums: Sequence[Carried]) -> str:
    """The line that a run prints about the noise in its opened `sums`, at least one."""
    removed, removable = (sum(getattr(one, name) for one in sums) for name in ("removed", "removable"))
    parts = f"; {removed:,} of {removable:,} removable parts were removed" if removable else ""
    certain, carried = _range([one.certain for one in sums]), _range([one.carried for one in sums])
    return f"noise in each sum: {carried}, of which {certain} counts, and {sums[0].planned:.4g} was planned{parts}"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.4g}", f"{max(values):.4g}"
    return low if low == high else f"{low} to {high}"


def _shown(epsilon: float | None) -> str:
    """`epsilon` with four digits, rounded up: no less is printed than is spent."""
    if epsilon is None:
        return "inf"
    nearest = f"{epsilon:.4g}"
    if float(nearest) >= epsilon * (1 - 1e-9):  # sums of floats are no more exact
        return nearest
    return f"{Context(prec=4, rounding=ROUND_CEILING).create_decimal(Decimal(epsilon)):.4g}"
