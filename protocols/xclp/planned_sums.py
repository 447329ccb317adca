"""Each strategy of SecureRowSums, planned, where nobody is lost: all that follows `Summing`.

A client j has |R_j| `rows` of numbers for `classes`; t, where more than a majority, is `chosen`.
"""

from collections.abc import Iterator, Mapping

from protocols.crypto import sizes
from protocols.masking import masks_work
from protocols.planned import SERVER, dealing_plan, revealing_plan
from protocols.xclp.rowsums import MaskedRows, SummedRows, blocks_of
from sim.planned import Blank, Planned, PlannedMessage, PlannedWork

__all__ = ["restart", "shamir"]

Rows = Mapping[str, int]


def restart(rows: Rows, classes: int, chosen: int | None, number: int) -> Iterator[Planned]:
    """Masked once, under a key for each pair."""
    names = list(rows)
    blocks = blocks_of(names, rows, classes)
    for name in names:
        yield PlannedWork("rowsums.mask", name, masks_work(len(names) - 1, blocks))
        yield _masked(name, rows, classes, number)
    yield from _summed(rows, classes, number)


def shamir(rows: Rows, classes: int, chosen: int | None, number: int) -> Iterator[Planned]:
    """Masked under dealt keys, too, which the server takes out, and clients those of their own block."""
    names = list(rows)
    blocks = dict(zip(names, blocks_of(names, rows, classes), strict=True))
    yield from dealing_plan(names, number, "rowsums.deal", "rowsums.sum", chosen, awaited=False)
    for name in names:
        others = [block for other, block in blocks.items() if other != name]
        yield PlannedWork("rowsums.mask", name, masks_work(len(names) + 1, others))
        yield _masked(name, rows, classes, number)
    yield from revealing_plan(names, number, "rowsums.reveal", "rowsums.sum", chosen, "rowsums.deal")
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
