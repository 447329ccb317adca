"""Lying servers of all sums, by the label of the sum in a miniature."""

from tacit.protocols.sums.committee import ByCommittee
from tacit.protocols.sums.flamingo import Flamingo
from tacit.protocols.sums.lightsecagg import LightSecAgg
from tacit.protocols.sums.lying.base import Lying, Setting
from tacit.protocols.sums.lying.coded import LyingWithCodes
from tacit.protocols.sums.lying.committee import LyingToCommittee
from tacit.protocols.sums.lying.dealing import LyingInGraph, LyingToAll
from tacit.protocols.sums.lying.reports import LyingAggregator
from tacit.protocols.sums.lying.rounds import LyingInRounds
from tacit.protocols.sums.registry import SUMS
from tacit.protocols.sums.reports import Reports
from tacit.protocols.sums.secure_sum import SecAgg, SecAggPlus
from tacit.protocols.sums.sum import Sum
from tacit.protocols.xclp.lying import LyingAfterDealing, LyingAfterDealingInGraph, LyingWithRestarts

__all__ = ["is_judged", "lying_in"]

_VECTORS: dict[type[Sum], type[Lying]] = {
    SecAgg: LyingToAll,
    SecAggPlus: LyingInGraph,
    ByCommittee: LyingToCommittee,
    LightSecAgg: LyingWithCodes,
    Flamingo: LyingInRounds,
    Reports: LyingAggregator,
}

_ROWS: dict[str, type[Lying]] = {
    "restart": LyingWithRestarts,
    "secure rows": LyingAfterDealing,
    "secagg+ rows": LyingAfterDealingInGraph,
}


def lying_in(label: str, setting: Setting) -> Lying:
    """The lying server of the sum with this `label` in the miniature `setting`; without a view if it `is_judged` not.

    Raises KeyError for an unknown label.
    """
    if label in _ROWS:
        return _ROWS[label](setting)
    kind = SUMS[label.replace(",", " ").partition(" ")[0]]
    return (_VECTORS.get(kind) or kind.lying or Lying)(setting, kind)


def is_judged(label: str) -> bool:
    """True if a lying server of the sum with this `label` is known: it comes with Tacit, or has `Sum.lying`."""
    return label in _ROWS or (kind := SUMS[label]) in _VECTORS or kind.lying is not None
