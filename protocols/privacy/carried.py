"""The noise that the sum of a round carried."""

from collections.abc import Sequence

from msgspec import Struct

__all__ = ["Carried", "carried_line"]


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


def carried_line(sums: Sequence[Carried]) -> str:
    """The line that a run prints about the noise in its opened `sums`, at least one."""
    removed, removable = (sum(getattr(one, name) for one in sums) for name in ("removed", "removable"))
    parts = f"; {removed:,} of {removable:,} removable parts were removed" if removable else ""
    certain, carried = _range([one.certain for one in sums]), _range([one.carried for one in sums])
    return f"noise in each sum: {carried}, of which {certain} counts, and {sums[0].planned:.4g} was planned{parts}"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.4g}", f"{max(values):.4g}"
    return low if low == high else f"{low} to {high}"
