"""The messages of a round of XCLP, where nobody is lost."""

from collections.abc import Iterator, Mapping, Sequence

from protocols.crypto import sizes
from protocols.crypto.fields import field_bytes
from protocols.crypto.key_proof import proved_bytes
from protocols.foreseen import SERVER, setup_mails
from protocols.xclp.choices import options_of
from protocols.xclp.hamming import Members, OwnBlock
from protocols.xclp.influence import Columns, LabeledPoints, Rows
from protocols.xclp.keys import ProtocolKeys
from protocols.xclp.recipe import RECIPES
from protocols.xclp.rowsums import MaskedRows, SummedRows, Summing
from protocols.xclp.variants import ROW_SUMS, VARIANTS
from sim.foreseen import Blank, Mail
from sim.setting_error import Problem
from sim.toml_text import toml

__all__ = ["round_mails"]


def round_mails(
    keys: ProtocolKeys, points: Mapping[str, int], labeled: Mapping[str, int], classes: int, number: int = 1
) -> Iterator[Mail]:
    """The messages of round `number` among clients with n_j `points`, l_j of them `labeled`.

    Raises Problem for a variant or a strategy, of a plugin, whose messages have no formula.
    """
    names, variant, sums = list(points), VARIANTS[keys.hamming], ROW_SUMS[keys.recovery]
    if variant.mails is None:
        raise Problem("protocol.hamming", f"{toml(keys.hamming)} has no formula of its messages")
    if sums.mails is None:
        raise Problem("protocol.recovery", f"{toml(keys.recovery)} has no formula of its messages")
    contribution = proved_bytes(keys.key_bits) if keys.hamming == "paillier" else 0
    yield from setup_mails(points, number, contribution)
    for name, count in points.items():
        own = Blank(field_bytes(count * (count - 1) // 2, keys.bits.bit_length()))
        yield Mail("hamming.encode", name, [SERVER], OwnBlock(own), number)
    yield from variant.mails(options_of(keys), points, number)
    yield Mail("hamming.collect", SERVER, names, Members(names), number)
    yield from _influence(points, labeled, number)
    yield Mail("rowsums.sum", SERVER, names, Summing(names), number)
    before, after = sums.mails(names, number)
    yield from before
    balanced, hidden = RECIPES[keys.recipe].class_balanced, {} if keys.rows == "paper" else labeled
    rows = {name: count - hidden.get(name, 0) + balanced for name, count in points.items()}
    row, every = sizes.RING_BYTES * classes, sum(rows.values())
    for name in names:
        yield Mail("rowsums.mask", name, [SERVER], MaskedRows(Blank(row * (every - rows[name]))), number)
    yield from after
    for name in names:
        yield Mail("rowsums.sum", SERVER, [name], SummedRows(Blank(row * rows[name])), number)


def _influence(points: Mapping[str, int], labeled: Mapping[str, int], number: int) -> Iterator[Mail]:
    names: Sequence[str] = list(points)
    flags = [Blank(field_bytes(count, 1)) for count in points.values()]
    for name, own in zip(names, flags, strict=True):
        yield Mail("influence.request", name, [SERVER], LabeledPoints(own), number)
    yield Mail("influence.solve", SERVER, names, Rows(list(names), list(flags)), number)
    n = sum(points.values())
    for name in names:
        columns = Columns(Blank(sizes.FLOAT_BYTES * n * labeled[name]))
        yield Mail("influence.solve", SERVER, [name], columns, number)
