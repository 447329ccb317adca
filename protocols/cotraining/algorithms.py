"""The algorithms of co-training by the names that scenarios give them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tacit.protocols.cotraining.dd import SoftLabels
from tacit.protocols.cotraining.dp_fedct import NoisyLabels
from tacit.protocols.cotraining.dp_pate import NoisyTeachers
from tacit.protocols.cotraining.fedct import HardLabels
from tacit.protocols.cotraining.fedmd import DigestAndRevisit
from tacit.protocols.cotraining.local_training import CotrainingMethod, LocalTraining
from tacit.protocols.cotraining.pate import Teachers
from tacit.protocols.cotraining.sharing import Sharing

__all__ = ["ALGORITHMS", "Options"]


@dataclass(frozen=True)
class Options:
    """`consensus` and `quorum` of those that share labels: see `fedct`; and their `batches`: see `local_training`.

    Of the differentially private ones `flip`, the probability that a bit flips (`dp_fedct`), and `sigma`, the noise in
    votes (`dp_pate`), and which noise that is.
    """

    consensus: Literal["majority", "qualified"] = "majority"
    quorum: float = 0.9
    batches: Literal["halves", "joined"] = "halves"
    flip: float = 0.0
    sigma: float = 0.0
    votes_noise: Literal["gaussian", "laplace"] = "gaussian"


def _hard(options: Options, sharing: Sharing) -> CotrainingMethod:
    return CotrainingMethod(sharing, LocalTraining(halves=options.batches == "halves"))


ALGORITHMS: dict[str, Callable[[Options], CotrainingMethod]] = {
    "fedct": lambda options: _hard(options, HardLabels(options.consensus, options.quorum)),
    "dp-fedct": lambda options: _hard(options, NoisyLabels(options.consensus, options.quorum, options.flip)),
    "dd": lambda options: CotrainingMethod(SoftLabels()),
    "fedmd": lambda options: CotrainingMethod(SoftLabels(), DigestAndRevisit()),
    "pate": lambda options: CotrainingMethod(Teachers()),
    "dp-pate": lambda options: CotrainingMethod(NoisyTeachers(sigma=options.sigma, noise=options.votes_noise)),
    # Every client learns by itself. The server still opens rounds and clients answer, without any content.
    "local": lambda options: CotrainingMethod(Sharing()),
    # The same with a single client, which scenarios make of all clients (`declaration.Cotraining.alone`).
    "centralised": lambda options: CotrainingMethod(Sharing()),
}
