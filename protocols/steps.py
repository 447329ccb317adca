"""The named steps of a protocol, at which faults strike and by which bytes are counted."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Stage", "Step"]

Stage = Literal["", "early", "train", "deal", "mask", "reveal"]
"""The place of a client's step in a round: for the odds that a round completes if clients are lost before the step, and
for audits, which slow a client down where it computes its summand.

``early``: before any sum begins, once a round; ``train``: the only step of a round without a secure sum; and those of a
secure sum: ``deal`` keys, ``mask`` values, ``reveal`` shares. "" for all other steps.
"""


@dataclass(frozen=True)
class Step:
    """A step of every party of one `role` (client, server or helper), once a round unless `what` says otherwise.

    `stage`: see `Stage`.
    """

    role: str
    name: str
    what: str
    stage: Stage = ""
