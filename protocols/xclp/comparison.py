"""A round beside the plaintext oracle: what each client must have got, and whether it did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.xclp import oracle
from tacit.protocols.xclp.blocks import Rows, some_rows
from tacit.protocols.xclp.xclp import Labels, Parameters, RoundRecord

__all__ = ["Truth", "truth_of"]


@dataclass(frozen=True, eq=False)
class Truth:
    """The oracle's values of a round: whether H is right, and what each member must have got, of all of its points.

    `tolerance`: by how much scores may differ, of which that many labels of each class `counts`.
    """

    same_distances: bool = True
    labels: Mapping[str, Labels] = field(default_factory=dict)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    tolerance: float = 0.0

    def agrees(self, found: Mapping[str, Labels], parameters: Parameters) -> bool:
        """True if H, and what clients have `found`, are what they must be."""
        return self.same_distances and all(
            name in self.labels and self._equal(own, self.labels[name], parameters) for name, own in found.items()
        )

    def _equal(self, own: Labels, truth: Labels, parameters: Parameters) -> bool:
        if not self.tolerance:
            labels, confidence = truth.labels[own.rows], truth.confidence[own.rows]
            same_scores = np.array_equal(own.z, truth.z[own.rows])
        else:
            bits, recipe = parameters.fraction_bits, parameters.recipe
            off = np.abs((own.z - truth.z[own.rows]).view(np.int64))
            same_scores = bool((off <= self.tolerance * 2.0**bits).all())
            labels, confidence = oracle.judged(own.z, self.counts, bits, recipe.name)
            if recipe.relative:
                confidence = confidence / (confidence.max(initial=0.0) or 1.0)
        return same_scores and np.array_equal(own.labels, labels) and np.array_equal(own.confidence, confidence)


def truth_of(
    record: RoundRecord,
    bits: Sequence[NDArray[np.bool_]],
    known: Sequence[NDArray[np.int64]],
    parameters: Parameters,
) -> Truth:
    """The truth about a round, from the `bits` of its members and the labels that they use, -1 elsewhere."""
    if not record.members:
        return Truth()
    if not record.contributors:
        return Truth(_same(record.h, oracle.hamming(np.concatenate(list(bits)))))
    plain = oracle.xclp(
        bits,
        known,
        [record.members.index(name) for name in record.contributors],
        parameters.classes,
        parameters.k,
        parameters.alpha,
        parameters.fraction_bits,
        parameters.recipe.name,
        parameters.rows,
        parameters.flip,
    )
    labels = {}
    for name, part in zip(record.members, plain.slices, strict=True):
        rows = np.arange(part.stop - part.start)
        labels[name] = Labels(rows, plain.z[part], plain.labels[part], plain.confidence[part])
    return Truth(_same(record.h, plain.distances), labels, plain.counts, plain.tolerance)


def _same(one: Rows, other: Rows) -> bool:
    """True if two matrices are equal."""
    return one.shape == other.shape and all(np.array_equal(one[rows], other[rows]) for rows in some_rows(one.shape[0]))
