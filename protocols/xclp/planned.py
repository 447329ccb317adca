"""A round of XCLP, planned, where nobody is lost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from protocols.crypto import sizes
from protocols.crypto.fields import field_bytes
from protocols.planned import SERVER, setup_plan
from protocols.xclp.choices import options_of
from protocols.xclp.hamming import Members, OwnBlock
from protocols.xclp.influence import Columns, LabeledPoints, Rows, solve_works
from protocols.xclp.keys import ProtocolKeys
from protocols.xclp.lsh import hash_work
from protocols.xclp.own_blocks import own_work
from protocols.xclp.recipe import RECIPES
from protocols.xclp.rowsums import Summing
from protocols.xclp.variants import ROW_SUMS, VARIANTS
from sim.planned import Blank, Planned, PlannedMessage, PlannedWork
from sim.setting_error import Problem
from sim.toml_text import toml

__all__ = ["Among", "round_plan"]


@dataclass(frozen=True)
class Among:
    """The clients of a round with n_j `points`, l_j of them `labeled`, of that many `features` and `classes`."""

    points: Mapping[str, int]
    labeled: Mapping[str, int]
    classes: int
    features: int


def round_plan(keys: ProtocolKeys, among: Among, number: int = 1, *, flipped: bool = False) -> Iterator[Planned]:
    """Round `number` of XCLP; `flipped`: hash bits are under randomised response.

    Raises Problem for a variant or a strategy, of a plugin, that has no plan.
    """
    points, variant, sums = among.points, VARIANTS[keys.hamming], ROW_SUMS[keys.recovery]
    names = list(points)
    if variant.planned is None:
        raise Problem("protocol.hamming", f"{toml(keys.hamming)} has no formula of its messages")
    if sums.planned is None:
        raise Problem("protocol.recovery", f"{toml(keys.recovery)} has no formula of its messages")
    options, signed = options_of(keys), keys.identity == "signed"
    drawn = {"flipped": flipped, "orthogonal": keys.planes == "orthogonal"}
    yield from setup_plan(points, number, variant.contribution(options), signed=signed)
    for name, count in points.items():
        yield PlannedWork("lsh.hash", name, hash_work(count, among.features, keys.bits, **drawn))
        if variant.pairs:
            own = Blank(field_bytes(count * (count - 1) // 2, keys.bits.bit_length()))
            yield PlannedWork("hamming.encode", name, own_work(count, keys.bits))
            yield PlannedMessage("hamming.encode", name, [SERVER], OwnBlock(own), number)
    yield from variant.planned(options, points, number)
    if variant.pairs:
        yield PlannedMessage("hamming.collect", SERVER, names, Members(names), number)
    yield from _influence(among, number)
    balanced, hidden = RECIPES[keys.recipe].class_balanced, {} if keys.rows == "paper" else among.labeled
    rows = {name: count - hidden.get(name, 0) + balanced for name, count in points.items()}
    yield PlannedMessage("rowsums.sum", SERVER, names, Summing(names), number)
    yield from sums.planned(rows, among.classes, keys.threshold, number, **({"signed": True} if signed else {}))
    for name in names:
        yield PlannedWork("xclp.label", name, {"ring.add": rows[name] * among.classes})


def _influence(among: Among, number: int) -> Iterator[Planned]:
    names: Sequence[str] = list(among.points)
    flags = [Blank(field_bytes(count, 1)) for count in among.points.values()]
    for name, own in zip(names, flags, strict=True):
        yield PlannedMessage("influence.request", name, [SERVER], LabeledPoints(own), number)
    n = sum(among.points.values())
    for work, whose in solve_works(n, among.labeled):
        yield PlannedWork("influence.solve", SERVER, work)
        for name in whose:
            values = n * among.labeled[name]
            yield PlannedMessage("influence.solve", SERVER, [name], Rows(list(names), list(flags)), number)
            yield PlannedMessage("influence.solve", SERVER, [name], Columns(Blank(sizes.FLOAT_BYTES * values)), number)
            yield PlannedWork("influence.request", name, {"ring.add": values})
