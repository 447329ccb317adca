"""PATE: teachers learn alone until they have converged, and label the public points once; a student learns from the
votes.

Paper: Papernot et al., Semi-supervised knowledge transfer for deep learning from private training data, ICLR 2017, as
Abourayya et al., Little is enough, Appendix D.3, compare it with FedCT: clients are the teachers, each with its local
data. In a single round each takes as many fits as a client of FedCT takes over all of its rounds, which is assumed to
converge, and sends its labels, as FedCT packs them; the server takes the class with the most votes, of several the
lowest. The student belongs to the server: it is trained there, on the public points with these labels alone, with as
many fits, and its test accuracy is the run's. Nothing is sent back.

Departure: the paper's student learns by a semi-supervised GAN from some labelled queries; here, as in Appendix D.3,
every public point is labelled and the student is the same kind of learner as the teachers.

Revealed: the server sees which label each teacher gives each public point, and holds the student.
"""

from dataclasses import dataclass
from typing import ClassVar

from tacit.protocols.cotraining.fedct import HardLabels

__all__ = ["Teachers"]


@dataclass(frozen=True)
class Teachers(HardLabels):
    """Shares labels once; the student learns from the majority."""

    collaborative: ClassVar[bool] = False
