"""Each strategy of SecureRowSums, planned, where nobody is lost: all that follows `Summing`.

A client j has |R_j| `rows` of numbers for `classes`; t, where more than a majority, is `chosen`.
"""

from collections.abc import Iterator, Mapping, Sequence

from protocols import dealing
from protocols.crypto import shamir as shamir_sharing
from protocols.crypto import sizes
from protocols.crypto.regular_graph import Degree, degree_of
from protocols.crypto.sealing import OVERHEAD
from protocols.masking import masks_work
from protocols.planned import (
    SERVER,
    agreeing_plan,
    around_of,
    dealing_plan,
    revealed_in_graph,
    revealing_plan,
    second_keys_plan,
    shares_taken_in,
)  # fmt: skip
from protocols.xclp.rowsums import MaskedRows, SummedRows, blocks_of
from protocols.xclp.rowsums_graph import Adjacent, InGraph
from sim.planned import Blank, Planned, PlannedMessage, PlannedWork

__all__ = ["in_graph", "restart", "shamir"]

Rows = Mapping[str, int]


def restart(rows: Rows, classes: int, chosen: int | None, number: int, signed: bool = False) -> Iterator[Planned]:
    """Masked once, under a key for each pair."""
    names = list(rows)
    blocks = blocks_of(names, rows, classes)
    for name in names:
        yield PlannedWork("rowsums.mask", name, masks_work(len(names) - 1, blocks))
        yield _masked(name, rows, classes, number)
    yield from _summed(rows, classes, number)


def shamir(rows: Rows, classes: int, chosen: int | None, number: int, signed: bool = False) -> Iterator[Planned]:
    """Masked under dealt keys, too, which the server takes out, and clients those of their own block."""
    names = list(rows)
    yield from dealing_plan(names, number, "rowsums.deal", "rowsums.sum", chosen, awaited=False, signed=signed)
    revealed = revealing_plan(names, number, "rowsums.reveal", "rowsums.sum", chosen, "rowsums.deal", signed=signed)
    yield from _doubly_masked(rows, classes, number, len(names) - 1, revealed)


def in_graph(rows: Rows, classes: int, chosen: int | None, number: int, signed: bool = False) -> Iterator[Planned]:
    """As `shamir`, with dealt keys of neighbours alone."""
    names, key = list(rows), Blank(sizes.X25519_BYTES + signed * sizes.SIGNATURE_BYTES)
    degree = degree_of(len(names), InGraph().tolerance)
    around, places = around_of(names, degree), {name: place for place, name in enumerate(names)}
    yield from second_keys_plan(names, number, "rowsums.deal", "rowsums.sum", signed=signed)
    for name, near in around.items():
        shown = Adjacent(names, [places[one] for one in near], [key] * len(near))
        yield PlannedMessage("rowsums.sum", SERVER, [name], shown, number)
    split = shamir_sharing.split_work(dealing.KEY_BYTES, 2, degree.threshold, degree.holders)
    shares = dealing.DealtShares(Blank(2 * sizes.SHARE_BYTES))
    for name, near in around.items():
        if signed:
            yield PlannedWork("rowsums.deal", name, {"ed25519.verify": len(near)})
        yield PlannedWork("rowsums.deal", name, {"x25519.agree": degree.k} | split)
        others = [other for other in near if other != name]
        yield PlannedMessage("rowsums.deal", name, others, shares, number, sealing=OVERHEAD, awaited=False)
    yield from _doubly_masked(rows, classes, number, degree.k, _revealed_in_graph(names, number, degree, signed))


def _revealed_in_graph(names: Sequence[str], number: int, degree: Degree, signed: bool) -> Iterator[Planned]:
    yield PlannedMessage("rowsums.sum", SERVER, names, dealing.Survivors(list(names)), number)
    if signed:
        yield from agreeing_plan(names, number, "rowsums.agree", "rowsums.sum")
    yield from shares_taken_in(names, number, "rowsums.deal", degree.k)
    yield from revealed_in_graph(names, number, "rowsums.reveal", "rowsums.sum", degree)


def _doubly_masked(rows: Rows, classes: int, number: int, pairs: int, revealed: Iterator[Planned]) -> Iterator[Planned]:
    """The sum under personal keys, those of owners, and the dealt keys of each client with `pairs` others."""
    names = list(rows)
    blocks = dict(zip(names, blocks_of(names, rows, classes), strict=True))
    for name in names:
        others = [block for other, block in blocks.items() if other != name]
        yield PlannedWork("rowsums.mask", name, masks_work(pairs + 2, others))
        yield _masked(name, rows, classes, number)
    yield from revealed
    for name in names:
        others = [block for other, block in blocks.items() if other != name]
        yield PlannedWork("rowsums.sum", SERVER, masks_work(1, others), name)
    yield from _summed(rows, classes, number)
    for name in names:
        yield PlannedWork("rowsums.unmask", name, masks_work(len(names) - 1, [blocks[name]]))


def _masked(name: str, rows: Rows, classes: int, number: int) -> PlannedMessage:
    others = sum(rows.values()) - rows[name]
    values = MaskedRows(Blank(sizes.RING_BYTES * classes * others))
    return PlannedMessage("rowsums.mask", name, [SERVER], values, number)


def _summed(rows: Rows, classes: int, number: int) -> Iterator[Planned]:
    for name, count in rows.items():
        values = SummedRows(Blank(sizes.RING_BYTES * classes * count))
        yield PlannedMessage("rowsums.sum", SERVER, [name], values, number)
