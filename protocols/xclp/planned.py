"""The messages of a round of XCLP, where nobody is lost."""

from collections.abc import Iterator, Mapping, Sequence

from protocols.crypto import sizes
from protocols.crypto.fields import field_bytes
from protocols.planned import SERVER, setup_messages
from protocols.xclp.choices import options_of
from protocols.xclp.hamming import Members, OwnBlock
from protocols.xclp.influence import Columns, LabeledPoints, Rows
from protocols.xclp.keys import ProtocolKeys
from protocols.xclp.recipe import RECIPES
from protocols.xclp.rowsums import MaskedRows, SummedRows, Summing
from protocols.xclp.variants import ROW_SUMS, VARIANTS
from sim.planned import Blank, PlannedMessage
from sim.setting_error import Problem
from sim.toml_text import toml

__all__ = ["round_messages"]


def round_messages(
    keys: ProtocolKeys, points: Mapping[str, int], labeled: Mapping[str, int], classes: int, number: int = 1
) -> Iterator[PlannedMessage]:
    """The messages of round `number` among clients with n_j `points`, l_j of them `labeled`.

    Raises Problem for a variant or a strategy, of a plugin, whose messages have no formula.
    """
    names, variant, sums = list(points), VARIANTS[keys.hamming], ROW_SUMS[keys.recovery]
    if variant.planned is None:
        raise Problem("protocol.hamming", f"{toml(keys.hamming)} has no formula of its messages")
    if sums.planned is None:
        raise Problem("protocol.recovery", f"{toml(keys.recovery)} has no formula of its messages")
    options = options_of(keys)
    yield from setup_messages(points, number, variant.contribution(options))
    for name, count in points.items():
        own = Blank(field_bytes(count * (count - 1) // 2, keys.bits.bit_length()))
        yield PlannedMessage("hamming.encode", name, [SERVER], OwnBlock(own), number)
    yield from variant.planned(options, points, number)
    yield PlannedMessage("hamming.collect", SERVER, names, Members(names), number)
    yield from _influence(points, labeled, number)
    yield PlannedMessage("rowsums.sum", SERVER, names, Summing(names), number)
    before, after = sums.planned(names, number)
    yield from before
    balanced, hidden = RECIPES[keys.recipe].class_balanced, {} if keys.rows == "paper" else labeled
    rows = {name: count - hidden.get(name, 0) + balanced for name, count in points.items()}
    row, every = sizes.RING_BYTES * classes, sum(rows.values())
    for name in names:
        yield PlannedMessage("rowsums.mask", name, [SERVER], MaskedRows(Blank(row * (every - rows[name]))), number)
    yield from after
    for name in names:
        yield PlannedMessage("rowsums.sum", SERVER, [name], SummedRows(Blank(row * rows[name])), number)


def _influence(points: Mapping[str, int], labeled: Mapping[str, int], number: int) -> Iterator[PlannedMessage]:
    names: Sequence[str] = list(points)
    flags = [Blank(field_bytes(count, 1)) for count in points.values()]
    for name, own in zip(names, flags, strict=True):
        yield PlannedMessage("influence.request", name, [SERVER], LabeledPoints(own), number)
    yield PlannedMessage("influence.solve", SERVER, names, Rows(list(names), list(flags)), number)
    n = sum(points.values())
    for name in names:
        columns = Columns(Blank(sizes.FLOAT_BYTES * n * labeled[name]))
        yield PlannedMessage("influence.solve", SERVER, [name], columns, number)
