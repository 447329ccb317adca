"""Ways to solve (I - alpha W) x = b for many b, W a normalised neighbour graph: symmetric, with a spectral radius <= 1.

| way | for | result |
| --- | --- | --- |
| `Factors` | up to 4,096 points | SuperLU with its defaults, to the same bits as an oracle that calls it |
| `Elimination` | more, while the fill-in is at most 2^27 entries (1 GiB) | to rounding, some 1e-14 |
| `ConjugateGradients` | more fill-in | each entry to 1e-10 |

The choice depends on W only. So do the bits of a solution on one machine, for any number of cores: columns are cut into
blocks of a fixed size, each block is solved by one thread.

The matrix is positive definite with eigenvalues in [1 - alpha, 1 + alpha].
"""

from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from tacit.sim.compute import in_threads

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

__all__ = ["FACTORED", "ConjugateGradients", "Elimination", "Factors", "Solver", "solver_of", "system_of"]

Floats = NDArray[np.float64]

FACTORED = 4096
"""The most points that SuperLU factors with its defaults."""

FILL = 1 << 27
"""The most entries of factors, of 8 bytes each; with more, columns are found by iteration."""

TOLERANCE = 1e-10
"""The largest error of an entry that is found by iteration."""

_COLUMNS = 128
"""The number of columns of an `Elimination` solved at a time."""

_SPARSE_COLUMNS = 4
"""The number of columns that SuperLU solves at a time in `Elimination`; more do not fit the cache."""

_ITERATED = 32
"""The number of columns of `ConjugateGradients` solved at a time."""

_TILE = 256
"""The number of rows and columns of a tile of a dense factor."""

_SHARES = (0.5, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01)
"""The candidate shares of points in the dense part."""

_SPARSE_COST = 40
"""The time for an entry of a sparse factor, relative to an entry of a dense factor."""

_SYMMETRIC = {"SymmetricMode": True, "DiagPivotThresh": 0.0}


class Solver(Protocol):
    """A way to solve the system."""

    def solve(self, right: Floats) -> Floats:
        """Solve for x (n, l), given right-hand sides b (n, l)."""


def system_of(graph: "csc_array[np.float64]", alpha: float) -> "csc_array[np.float64]":
    """The matrix I - alpha `graph`, with sorted indices."""
    system = scipy.sparse.csc_array(scipy.sparse.eye_array(graph.shape[0], format="csc") - alpha * graph)
    system.sort_indices()
    return system


def solver_of(graph: "csc_array[np.float64]", alpha: float) -> Solver:
    """The solver of I - alpha `graph`, chosen by size and fill-in (see above)."""
    system = system_of(graph, alpha)
    if system.shape[0] <= FACTORED:
        return Factors(system)
    order = _fill_reducing(system)
    # What costs least: the factor of the part that is eliminated first, and half of the dense rest.
    dense = _dense_part(system[order][:, order])
    if dense**2 > FILL:
        return ConjugateGradients(system, alpha)
    return Elimination(system, order, dense)


class Factors:
    """SuperLU with its defaults, which an oracle can call as well."""

    def __init__(self, system: "csc_array[np.float64]") -> None:
        self._factors = scipy.sparse.linalg.splu(system)

    def solve(self, right: Floats) -> Floats:
        return self._factors.solve(right)


class Elimination:
    """Symmetric block elimination: a sparse part by SuperLU, and the Schur complement by a dense Cholesky factor.

    In the `order` that keeps the fill-in low the last points, `dense` of them, depend on each other nearly all. With

        A = [P  Q^T]     S = R - Q P^-1 Q^T = L L^T
            [Q  R  ]

    x of the dense part is S^-1 (b_2 - Q P^-1 b_1), and that of the other P^-1 (b_1 - Q^T x_2). Dense sums run at many
    times the speed of sparse ones, which is why the dense part is larger than it would have to be.
    """

    def __init__(self, system: "csc_array[np.float64]", order: NDArray[np.int64], dense: int) -> None:
        first = len(order) - dense
        self._parts = order[:first], order[first:]
        ordered = system[order][:, order]
        self._above = scipy.sparse.csr_array(ordered[:first, first:])
        self._below = scipy.sparse.csr_array(self._above.T)
        self._factors = scipy.sparse.linalg.splu(
            scipy.sparse.csc_array(ordered[:first, :first]), permc_spec="NATURAL", options=_SYMMETRIC
        )
        schur = ordered[first:, first:].toarray()
        columns = scipy.sparse.csc_array(self._above)

        def reduced(start: int) -> None:
            some = columns[:, start : start + _COLUMNS].toarray()
            schur[:, start : start + _COLUMNS] -= _product(self._below, self._sparse(some))

        for _ in in_threads(reduced, range(0, dense, _COLUMNS)):
            pass
        self._factor = _cholesky(schur)

    def solve(self, right: Floats) -> Floats:
        found = np.empty(right.shape)

        def solved(start: int) -> None:
            found[:, start : start + _COLUMNS] = self._block(right[:, start : start + _COLUMNS])

        for _ in in_threads(solved, range(0, right.shape[1], _COLUMNS)):
            pass
        return found

    def _block(self, right: Floats) -> Floats:
        first, last = self._parts
        found = np.empty(right.shape)
        early = self._sparse(right[first]) if right[first].any() else np.zeros((len(first), right.shape[1]))
        found[last] = _substituted(self._factor, right[last] - _product(self._below, early))
        found[first] = early - self._sparse(_product(self._above, found[last]))
        return found

    def _sparse(self, right: Floats) -> Floats:
        """Compute P^-1 times `right`."""
        found = np.empty(right.shape)
        for start in range(0, right.shape[1], _SPARSE_COLUMNS):
            some = slice(start, start + _SPARSE_COLUMNS)
            found[:, some] = self._factors.solve(np.asfortranarray(right[:, some]))
        return found


class ConjugateGradients:
    """Conjugate gradients for a block of columns, in single precision, refined in double precision.

    Each refinement takes the residual down to a thousandth. An error is at most the residual's norm times the norm of
    the inverse, 1 / (1 - alpha), so a column is done when its residual is below (1 - alpha) 1e-10 of its right-hand
    side; or, with alpha next to 1, when rounding lets it fall no further.
    (Hestenes, Stiefel 1952; Carson, Higham, Accelerating the solution of linear systems by iterative refinement in
    three precisions, SIAM J. Sci. Comput. 2018.)
    """

    def __init__(self, system: "csc_array[np.float64]", alpha: float) -> None:
        self._system = scipy.sparse.csr_array(system)
        self._single = self._system.astype(np.float32)
        self._residual = (1.0 - alpha) * TOLERANCE

    def solve(self, right: Floats) -> Floats:
        found = np.empty(right.shape)

        def solved(start: int) -> None:
            found[:, start : start + _ITERATED] = self._block(right[:, start : start + _ITERATED])

        for _ in in_threads(solved, range(0, right.shape[1], _ITERATED)):
            pass
        return found

    def _block(self, right: Floats) -> Floats:
        found, residual = np.zeros(right.shape), np.ascontiguousarray(right)
        norms = np.sqrt(_dots(right, right))
        enough, before = norms * self._residual, np.full(len(norms), np.inf)
        while ((norms > enough) & (norms < before / 2)).any():
            scale = np.where(norms > 0.0, norms, 1.0)
            found += self._rough((residual / scale).astype(np.float32)) * scale
            residual = right - _product(self._system, found)
            before, norms = norms, np.sqrt(_dots(residual, residual))
        return found

    def _rough(self, residual: NDArray[np.float32]) -> NDArray[np.float64]:
        """Solve for right-hand sides of norm 1 (or 0), to a residual of 1e-3."""
        found = np.zeros_like(residual)
        direction = residual.copy()
        squares = _dots(residual, residual)
        part = np.empty_like(residual)
        while (squares > 1e-6).any():
            product = self._single @ direction
            with np.errstate(divide="ignore", invalid="ignore"):
                length = np.nan_to_num(squares / _dots(direction, product))
                found += np.multiply(direction, length, out=part)
                residual -= np.multiply(product, length, out=part)
                before, squares = squares, _dots(residual, residual)
                direction *= np.nan_to_num(squares / before)
            direction += residual
        return found.astype(np.float64)


def _product(matrix: "csr_array[np.float64]", columns: Floats) -> Floats:
    return np.asarray(matrix @ columns)


def _dots(left: NDArray[np.floating], right: NDArray[np.floating]) -> NDArray[np.floating]:
    """The dot product of each column of `left` with the same column of `right`."""
    return np.einsum("ij,ij->j", left, right)


def _fill_reducing(system: "csc_array[np.float64]") -> NDArray[np.int64]:
    """An order of elimination with little fill-in: minimum degree, as SuperLU finds it; nothing is factored here."""
    nothing = scipy.sparse.linalg.spilu(
        system, drop_tol=1e300, fill_factor=1, permc_spec="MMD_AT_PLUS_A", options=_SYMMETRIC
    )
    return np.argsort(nothing.perm_c, kind="stable")


def _dense_part(ordered: "csc_array[np.float64]") -> int:
    """The best number of last points of an `ordered` system in the dense part."""
    best, least = 0, float("inf")
    for share in _SHARES:
        dense = max(1, int(share * ordered.shape[0]))
        first = ordered.shape[0] - dense
        factors = scipy.sparse.linalg.splu(
            scipy.sparse.csc_array(ordered[:first, :first]), permc_spec="NATURAL", options=_SYMMETRIC
        )
        cost = dense**2 + _SPARSE_COST * factors.nnz / 2
        if cost > least:
            break
        best, least = dense, cost
    return best


def _cholesky(matrix: Floats) -> tuple[Floats, list[Floats]]:
    """Factor a positive definite `matrix` in place. Returns L and the inverses of its tiles on the diagonal.

    Only entries on and below the diagonal are read and written.
    """
    size = len(matrix)
    inverses = []
    for start in range(0, size, _TILE):
        tile = slice(start, start + _TILE)
        done = matrix[tile, :start]
        matrix[tile, tile] -= done @ done.T
        inverses.append(np.linalg.inv(np.linalg.cholesky(matrix[tile, tile])))
        rows = range(start + _TILE, size, 2 * _TILE)
        for _ in in_threads(partial(_eliminated, matrix, tile, inverses[-1]), rows):
            pass
    return matrix, inverses


def _eliminated(matrix: Floats, tile: slice, inverse: Floats, row: int) -> None:
    """Compute the entries of L in `tile` for some rows from `row` on."""
    rows = slice(row, row + 2 * _TILE)
    left = matrix[rows, tile] - matrix[rows, : tile.start] @ matrix[tile, : tile.start].T
    matrix[rows, tile] = left @ inverse.T


def _substituted(factor: tuple[Floats, list[Floats]], right: Floats) -> Floats:
    """Compute (L L^T)^-1 times `right`, in place."""
    matrix, inverses = factor
    starts = range(0, len(matrix), _TILE)
    for start, inverse in zip(starts, inverses, strict=True):
        tile = slice(start, start + _TILE)
        right[tile] = inverse @ (right[tile] - matrix[tile, :start] @ right[:start])
    for start, inverse in zip(reversed(starts), reversed(inverses), strict=True):
        tile, end = slice(start, start + _TILE), start + _TILE
        right[tile] = inverse.T @ (right[tile] - matrix[end:, tile].T @ right[end:])
    return right
