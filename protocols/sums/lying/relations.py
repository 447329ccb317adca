"""Linear relations of clients' inputs that a server knows, and the rank test that judges them.

The unknowns are the clients' inputs and the masks. There is one input for each client, block and model that a round
begins with: it is the same in all rounds that begin with the same model. There is one mask for each key and block. A
view of a sum turns every message that the server received into relations of these.

The promise is a rank test. Eliminating all masks that the server does not know leaves the space B of combinations of
inputs that it knows. For a set S of clients some nonzero combination is supported on S alone exactly if

    rank(B) > rank(B without the columns of S),

which must hold for no S of fewer than `min_clients` clients, and, with the inputs of C colluding clients known, for
none of fewer than `min_clients` - C, or 2, honest ones. Ranks are taken modulo 2 as well as modulo a large prime,
because in Z_{2^64} a combination with even coefficients still shows a value's lowest bits.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.masking import Ring
from tacit.protocols.crypto.mersenne import Elements
from tacit.protocols.crypto.words import WHOLE

__all__ = [
    "Input", "Judged", "Mask", "Relation", "coefficients", "coefficients_modulo", "exposed", "exposed_to", "in_each",
    "joined",
]  # fmt: skip

Input = tuple[str, int, int]
"""A block of a client's input: the client, the number of the model that the input was made from, and the block's
number."""

Mask = tuple[bytes, int]
"""A mask's key, and the number of the block in the key's stream."""

_PRIMES = (2, 2**31 - 1)


@dataclass(frozen=True)
class Relation:
    """One received block: the sum of `inputs` and `masks` with these coefficients."""

    inputs: Mapping[Input, int]
    masks: Mapping[Mask, int] = field(repr=False)


def exposed(
    relations: Sequence[Relation], known: Iterable[Mask], least: int, primes: Sequence[int] = _PRIMES
) -> tuple[str, ...]:
    """The smallest set of fewer than `least` clients such that a combination of their inputs alone is known; () if none
    is.

    `known`: the masks that are known in addition to the relations. Ranks are taken modulo each of `primes`.
    """
    opened = set(known)
    masks = list(dict.fromkeys(mask for one in relations for mask in one.masks if mask not in opened))
    inputs = list(dict.fromkeys(name for one in relations for name in one.inputs))
    clients = sorted({client for client, _, _ in inputs})
    rows = [[*(one.masks.get(m, 0) for m in masks), *(one.inputs.get(i, 0) for i in inputs)] for one in relations]
    table = np.array(rows, np.int64).reshape(len(rows), len(masks) + len(inputs))
    for prime in primes:
        rank, reduced = _echelon(table, prime, len(masks))
        free = reduced[rank:, len(masks) :]  # these rows have no unknown mask
        full, free = _echelon(free, prime)
        free = free[:full]
        if not full:  # no combination of inputs is known
            continue
        for size in range(1, least):
            for chosen in combinations(clients, size):
                others = [place for place, (client, _, _) in enumerate(inputs) if client not in chosen]
                if full > _echelon(free[:, others], prime)[0]:
                    return chosen
    return ()


def exposed_to(
    relations: Sequence[Relation],
    known: Iterable[Mask],
    least: int,
    colluding: Collection[tuple[str, int]],
    primes: Sequence[int] = _PRIMES,
) -> tuple[str, ...]:
    """`exposed`, where colluding clients give the server their inputs: the honest clients of fewer than `least`.

    `colluding`: each of these clients with the number of a model. Sets of two honest clients and all that collude may
    be known.
    """
    if not colluding:
        return exposed(relations, known, least, primes)
    most = max(Counter(model for _, model in colluding).values())
    honest = [
        Relation({name: value for name, value in one.inputs.items() if name[:2] not in colluding}, one.masks)
        for one in relations
    ]
    return exposed(honest, known, max(2, least - most), primes)


def _echelon(table: NDArray[np.int64], prime: int, columns: int | None = None) -> tuple[int, NDArray[np.int64]]:
    """Eliminate `columns` of `table` modulo `prime`. Returns their rank and the resulting table."""
    rows, rank = table % prime, 0
    for column in range(rows.shape[1] if columns is None else columns):
        if rank == len(rows):
            break
        pivots = np.flatnonzero(rows[rank:, column])
        if not len(pivots):
            continue
        first = rank + int(pivots[0])
        rows[[rank, first]] = rows[[first, rank]]
        rows[rank] = rows[rank] * pow(int(rows[rank, column]), -1, prime) % prime
        below = rank + 1 + np.flatnonzero(rows[rank + 1 :, column])
        rows[below] = (rows[below] - rows[below, column][:, None] * rows[rank]) % prime
        rank += 1
    return rank, rows


class Judged(NamedTuple):
    """The clients whose inputs are `exposed`, and the numbers of masked blocks received (`relations`) and of masks
    known.

    `opened` masks follow from what was received, `guessed` masks from keys that do not depend on clients' randomness.
    """

    exposed: tuple[str, ...]
    relations: int
    opened: int
    guessed: int


def coefficients(columns: Sequence[Ring], value: Ring, bits: int) -> list[int] | None:
    """The c_i with `value` = sum_i c_i columns[i] modulo 2^bits, each -1, 0 or 1; None if there are none.

    The system is solved modulo 2^64, and the solution is checked modulo 2^bits.
    """
    count = len(columns)
    table = np.column_stack([*columns, value]).astype(np.uint64)
    for place in range(count):
        odd = place + np.flatnonzero(table[place:, place] & np.uint64(1))
        if not len(odd):  # too few words, or linearly dependent columns
            return None
        table[[place, odd[0]]] = table[[odd[0], place]]
        table[place] *= np.uint64(pow(int(table[place, place]), -1, 2**64))
        factors = table[:, place].copy()
        factors[place] = 0
        table -= factors[:, None] * table[place]
    above = np.uint64(WHOLE - bits)  # a shift to the top and back extends the sign
    solved = (table[:count, count] << above).astype(np.int64) >> np.int64(above)
    if (table[count:, count] << above).any() or np.abs(solved).max(initial=0) > 1:
        return None
    return [int(one) for one in solved]


def in_each(colluding: Iterable[tuple[int, Sequence[str]]]) -> set[tuple[str, int]]:
    """The clients that collude in all of the sets of a model; clients that are shown different ones draw different
    members."""
    found: dict[int, set[str]] = {}
    for model, names in colluding:
        found.setdefault(model, {*names}).intersection_update(names)
    return {(name, model) for model, names in found.items() for name in names}


def joined(parts: Sequence[tuple[int, dict[Input, int], dict[Mask, int]]]) -> Relation:
    """The sum of relations, each given by its factor, inputs and masks; parts with factor 0 are left out."""
    inputs: dict[Input, int] = {}
    masks: dict[Mask, int] = {}
    for factor, some, others in parts:
        if factor:
            inputs |= {name: factor * value for name, value in some.items()}
            masks |= {name: factor * value for name, value in others.items()}
    return Relation(inputs, masks)


def coefficients_modulo(columns: Sequence[Elements], value: NDArray[Any], prime: int) -> list[int] | None:
    """The c_i of 0 and 1 with `value` = sum_i c_i columns[i] modulo p; None if there are none."""
    count = len(columns)
    table = np.column_stack([*columns, value]).astype(np.int64)
    if count >= len(table):  # too few numbers to determine the coefficients
        return None
    for place in range(count):
        rows = place + np.flatnonzero(table[place:, place])
        if not len(rows):
            return None
        table[[place, rows[0]]] = table[[rows[0], place]]
        table[place] = table[place] * pow(int(table[place, place]), -1, prime) % prime
        factors = table[:, place].copy()
        factors[place] = 0
        table = (table - factors[:, None] * table[place] % prime) % prime
    solved = table[:count, count]
    if table[count:, count].any() or int(solved.max(initial=0)) > 1:
        return None
    return [int(one) for one in solved]
