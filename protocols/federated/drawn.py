"""The sizes of the cohorts of a run, and the number of corrupt clients that a draw of a cohort may have."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tacit.parties.data.splits import Shard
from tacit.protocols.sums.members import above, exceeded_by
from tacit.sim.shares import rounded_up

__all__ = ["cohorts_of", "drawn_notes"]


def _populations(shards: Mapping[str, Shard]) -> list[int]:
    """The numbers of clients from which cohorts are drawn: those with labels, or all."""
    able = sum(1 for shard in shards.values() if shard.labeled.any())
    return sorted({many for many in (able, len(shards)) if many})


def cohorts_of(tables: Any, shards: Mapping[str, Shard]) -> list[int]:
    """The sizes of the cohorts of a run: drawn from the clients with labels, or from all."""
    return sorted({rounded_up(tables.training.share, many) for many in _populations(shards)})


_TAIL = 40
"""The exponent of the probability with which a cohort has more colluding clients than is printed."""


def drawn_notes(tables: Any, shards: Mapping[str, Shard], share: float) -> list[str]:
    """A line for each cohort that is drawn from more clients: `sum.corrupt_clients` is assumed of the cohort.

    `share`: the value of that key, or its default.
    """
    found = []
    for many in _populations(shards):
        cohort, marked = rounded_up(tables.training.share, many), rounded_up(share, many)
        assumed = rounded_up(share, cohort)
        if not assumed or cohort == many:
            continue
        tail, _ = exceeded_by(many, marked, cohort, Fraction(1, 2**_TAIL))
        more = above(many, marked, cohort, assumed)
        found.append(
            f"sum.corrupt_clients(={share:g}) is assumed of each cohort: {assumed} of {cohort} clients. "
            f"With {marked} of all {many} corrupt, an honest draw has more than {assumed} with probability {more:.2g}, "
            f"and more than {tail} with at most 2^-{_TAIL}; a server that draws may call all of them"
        )
    return found
