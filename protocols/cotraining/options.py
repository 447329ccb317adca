"""What the algorithms of co-training can be told."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """`consensus` and `quorum` of those that share labels: see `fedct`."""

    consensus: Literal["majority", "qualified"] = "majority"
    quorum: float = 0.9
