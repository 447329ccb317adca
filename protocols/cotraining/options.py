"""The options of the algorithms of co-training."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """`consensus` and `quorum` of those that share labels: see `fedct`.

    Of the differentially private ones `flip`, the probability that a bit flips (`dp_fedct`), and `sigma`, the noise in
    votes (`dp_pate`).
    """

    consensus: Literal["majority", "qualified"] = "majority"
    quorum: float = 0.9
    flip: float = 0.0
    sigma: float = 0.0
