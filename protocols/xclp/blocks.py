"""The Hamming matrix H as the blocks in which the server learns it: each once, in the narrowest type.

It takes n^2 (1 + 1/p) / 2 entries of one or two bytes for p clients of the same size, and never n^2 of 4 or 8 bytes.
Users of H take some rows at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tacit.protocols.xclp.lsh import distance_type, distances

__all__ = ["NO_POINTS", "Blocks", "Hashes", "Rows", "some_rows"]

AT_ONCE = 1 << 22
"""The number of matrix entries that are processed at a time."""


class Rows(Protocol):
    """A square matrix of distances, or an array, whose rows can be read in parts."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, rows: slice, /) -> NDArray[np.integer]: ...


def some_rows(size: int) -> Iterator[slice]:
    """Yield slices of the rows of a matrix (size, size), with the rows to process at a time."""
    step = max(1, AT_ONCE // max(1, size))
    return (slice(start, min(start + step, size)) for start in range(0, size, step))


class _Matrix:
    """A matrix (n, n) that is read by rows."""

    def __init__(self, size: int, dtype: DTypeLike) -> None:
        self.shape = size, size
        self.dtype = np.dtype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[np.integer]:
        raise NotImplementedError

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """The whole matrix as one array; only for few points."""
        return self[:].astype(dtype or self.dtype)


class Blocks(_Matrix):
    """The symmetric matrix (n, n) of points in consecutive groups of `sizes`.

    `own` are the blocks (n_i, n_i) of each group, `between` those of group k with an earlier j, (n_k, n_j), at (j, k).
    A slice of it is an array (rows, n).
    """

    def __init__(
        self,
        sizes: Sequence[int],
        own: Sequence[NDArray[np.integer]],
        between: Mapping[tuple[int, int], NDArray[np.integer]],
        dtype: DTypeLike = np.uint16,
    ) -> None:
        super().__init__(sum(sizes), dtype)
        self._ends = np.cumsum([0, *sizes]).tolist()
        self._own, self._between = own, between

    def __getitem__(self, rows: slice) -> NDArray[np.integer]:
        start, stop, _ = rows.indices(len(self))
        if (start, stop) == (0, len(self)) and 0 < stop * stop <= AT_ONCE:
            return self._whole()
        found = np.empty((max(0, stop - start), len(self)), self.dtype)
        places = list(zip(self._ends, self._ends[1:], strict=False))
        for i, (first, end) in enumerate(places):
            low, high = max(first, start), min(end, stop)
            if low >= high:
                continue
            some = slice(low - first, high - first)
            for j, (left, right) in enumerate(places):
                if i == j:
                    block = self._own[i][some]
                else:
                    block = self._between[j, i][some] if j < i else self._between[i, j][:, some].T
                found[low - start : high - start, left:right] = block
        return found

    def _whole(self) -> NDArray[np.integer]:
        """All rows: each block is copied once, as one of a row of blocks, and the part above is that below."""
        below = np.zeros(self.shape, self.dtype)
        for i, (first, end) in enumerate(zip(self._ends, self._ends[1:], strict=False)):
            if i:
                row = [self._between[j, i] for j in range(i)]
                np.concatenate(row, axis=1, out=below[first:end, :first], casting="unsafe")
        found = below + below.T
        for own, first, end in zip(self._own, self._ends, self._ends[1:], strict=False):
            found[first:end, first:end] = own
        return found


NO_POINTS = Blocks((), (), {})
"""The matrix of no points."""


class Hashes(_Matrix):
    """The distances among the rows of `bits` (n, L), computed on access."""

    def __init__(self, bits: NDArray[np.bool_]) -> None:
        super().__init__(len(bits), distance_type(bits.shape[1]))
        self._bits = bits

    def __getitem__(self, rows: slice) -> NDArray[np.integer]:
        return distances(self._bits[rows], self._bits)
