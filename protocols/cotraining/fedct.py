"""FedCT: clients share hard labels, and learn from the consensus.

Paper: Abourayya et al., Little is enough: boosting privacy by sharing only hard labels in federated semi-supervised
learning, Algorithm 1. Every client labels the public points, the server takes a consensus over the labels received, and
each client adds the public points with it to its own until the next.

- `majority`: the label that most clients gave, ties go to the lowest. Every point has one.
- `qualified`: the same where at least ceil(quorum m) of the m clients whose labels were received gave it; points
  without are left out until the next consensus (section 5, appendix D.6).

A message up is ceil(log2 C) bits a point. So is one down by majority; the qualified consensus has a symbol for "none"
and takes ceil(log2 (C + 1)).

Revealed: the server sees which label each client gives each public point; clients see the consensus.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.cotraining import packing
from tacit.protocols.cotraining.consensus import NO_LABEL, majority, majority_of, needed, qualified, qualified_of
from tacit.protocols.cotraining.sharing import Needs, Sharing, Targets
from tacit.protocols.privacy.xor_mechanism import perturb
from tacit.sim.compute import Work
from tacit.sim.setting_error import SettingError
from tacit.sim.streams import Entropy

__all__ = ["HardLabels", "NoisyLabels"]


@dataclass(frozen=True)
class HardLabels(Sharing):
    """Shares labels; the server sends the consensus. Raises ValueError."""

    consensus: Literal["majority", "qualified"] = "majority"
    quorum: float = 0.9
    needs: ClassVar[Needs] = "labels"
    countable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.consensus not in ("majority", "qualified"):
            raise SettingError("consensus", self.consensus, "must be majority or qualified")
        if not 0.0 < self.quorum <= 1.0:
            raise SettingError("quorum", self.quorum, "must be above 0, at most 1")

    @property
    def gaps(self) -> bool:
        """True if points may have no consensus."""
        return self.consensus == "qualified"

    def size(self, points: int, classes: int) -> int:
        return packing.packed_bytes(points, classes)

    def merged_size(self, points: int, classes: int) -> int:
        return packing.packed_bytes(points, classes, self.gaps)

    def send(
        self, labels: NDArray[np.int64], probabilities: NDArray[np.float32] | None, classes: int, seed: bytes
    ) -> bytes:
        return packing.pack(labels, classes)

    def check(self, sent: bytes, points: int, classes: int) -> None:
        packing.unpack(sent, points, classes)

    def merge(self, sent: Sequence[bytes], points: int, classes: int, seed: bytes) -> bytes:
        labels = np.stack([packing.unpack(one, points, classes) for one in sent])
        agreed = qualified(labels, classes, self.quorum) if self.gaps else majority(labels, classes)
        return packing.pack(agreed, classes, self.gaps)

    def agree(self, counts: NDArray[np.int64], voters: int, classes: int, seed: bytes) -> bytes:
        agreed = qualified_of(counts, voters, self.quorum) if self.gaps else majority_of(counts, voters)
        return packing.pack(agreed, classes, self.gaps)

    def receive(self, merged: bytes, points: int, classes: int) -> Targets:
        return Targets(packing.unpack(merged, points, classes, self.gaps))

    def canonical(self, merged: bytes, points: int, classes: int) -> bytes:
        return packing.pack(packing.unpack(merged, points, classes, self.gaps), classes, self.gaps)

    def send_work(self, points: int, classes: int) -> Work:
        return {"fields.pack": points}

    def merge_work(self, clients: int, points: int, classes: int) -> Work:
        """The work of `merge`; labels are unpacked twice, for checking and for counting."""
        return {
            "fields.unpack": 2 * clients * points,
            "vector.add": (clients + classes) * points,
            "fields.pack": points,
        }


# --- DP-FedCT: FedCT whose labels are randomised at the client, by the XOR mechanism.
#
# Paper: Abourayya et al., Little is enough, Section 4; Ji et al., VLDB 2021. A client writes its labels of the n
# public points as one-hot rows of C bits and flips each bit with probability p = 1 / (1 + e^(epsilon / s)),
# independently, from its own entropy, again in every round (`tacit.protocols.privacy.xor_mechanism` explains why bits
# are independent). The upload is n C bits, in whole bytes; the download is the consensus, packed as FedCT's.
#
# Consensus: the server adds up the bits received, k(c) of m clients for each class c, and takes v(c) = (k(c) - m p) /
# (1 - 2 p) for the votes, which is unbiased.
#
# - `majority`: the class with the largest v, which is the one with the largest k. Noisy counts often tie, and the
#   lowest class would win nearly all of it: ties are drawn by lot from the server's entropy, without noise (p = 0)
#   they go to the lowest class as in FedCT.
# - `qualified`: the same where its v is at least ceil(quorum m); at p = 1/2 no point has a consensus.
#
# Guarantee for each client's messages alone, hence also against the server: epsilon-differential privacy in each round.
# Neighbours differ in one element of a client's local data, and s bounds the number of bits that then differ, for any
# earlier consensus. The client reports its numbers of points and labels to the server when it enrolls, so they are not
# covered. Rounds add up: T of them are T epsilon, or less with a delta (`privacy.accounting.random_bits`). An s that is
# estimated guarantees nothing (`privacy.sensitivity`).
#
# Revealed: the server sees the noisy bits; clients see the consensus.


@dataclass(frozen=True)
class NoisyLabels(HardLabels):
    """Shares one-hot labels, each bit flipped with probability `flip` in [0, 1/2]; the server sends the consensus."""

    flip: float = 0.0
    countable: ClassVar[bool] = False  # what is counted has no noise

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.flip <= 0.5:
            raise ValueError(f"flip(={self.flip}) must be in [0, 0.5]")

    def size(self, points: int, classes: int) -> int:
        return -(-points * classes // 8)

    def send(
        self, labels: NDArray[np.int64], probabilities: NDArray[np.float32] | None, classes: int, seed: bytes
    ) -> bytes:
        """Encode the labels. Raises ValueError if they are out of range."""
        if labels.size and not 0 <= labels.min() <= labels.max() < classes:
            raise ValueError(f"labels are in [{labels.min()}, {labels.max()}], not in [0, {classes - 1}]")
        one_hot = labels[:, None] == np.arange(classes)
        return np.packbits(perturb(one_hot, self.flip, Entropy(seed)), bitorder="little").tobytes()

    def check(self, sent: bytes, points: int, classes: int) -> None:
        """Check the length, because any bits of the right number are valid."""
        if len(sent) != self.size(points, classes):
            raise ValueError(f"{len(sent)} bytes, not the {self.size(points, classes)} of {points} x {classes} bits")

    def merge(self, sent: Sequence[bytes], points: int, classes: int, seed: bytes) -> bytes:
        if not sent:
            raise ValueError("there is nobody to agree")
        counts = np.zeros((points, classes), np.int64)
        for one in sent:
            bits = np.unpackbits(np.frombuffer(one, np.uint8), count=points * classes, bitorder="little")
            counts += bits.reshape(points, classes)
        return packing.pack(self._agreed(counts, len(sent), Entropy(seed)), classes, self.gaps)

    def _agreed(self, counts: NDArray[np.int64], clients: int, entropy: Entropy) -> NDArray[np.int64]:
        if self.flip == 0.0:
            chosen = counts.argmax(1)
        else:
            lots = entropy.array(counts.shape) >> np.uint64(1)
            chosen = np.where(counts == counts.max(1, keepdims=True), lots.astype(np.int64), -1).argmax(1)
        if not self.gaps:
            return chosen
        if self.flip == 0.5:
            return np.full(len(counts), NO_LABEL)
        votes = (counts.max(1) - clients * self.flip) / (1 - 2 * self.flip)
        return np.where(votes >= needed(self.quorum, clients) - 1e-9, chosen, NO_LABEL)

    def send_work(self, points: int, classes: int) -> Work:
        return {"fields.pack": points * classes, "aes.byte": 8 * points * classes}

    def merge_work(self, clients: int, points: int, classes: int) -> Work:
        return {
            "fields.unpack": clients * points * classes,
            "vector.add": (clients + 1) * points * classes,
            "fields.pack": points,
        }
