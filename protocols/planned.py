"""What several protocols share, planned, where nobody is lost: set-up, dealing, a secure sum, enrolment.

The messages are those of the message tables in `setup`, `dealing`, `secure_sum` and `rounds`. What a relay carries is
listed once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from protocols import consistency, dealing, neighbours, quorum, rounds, secure_sum, setup
from protocols.crypto import shamir, sizes
from protocols.crypto.regular_graph import Degree, Graph, answers_needed, degree_of
from protocols.crypto.sealing import OVERHEAD
from protocols.masking import masks_work
from sim.compute import Work
from sim.planned import Blank, Planned, PlannedMessage, PlannedWait, PlannedWork

__all__ = [
    "SERVER",
    "PlannedContribution",
    "agreeing_plan",
    "around_of",
    "dealing_plan",
    "enrolment_plan",
    "revealed_in_graph",
    "revealing_plan",
    "second_keys_plan",
    "secure_sum_plan",
    "setup_plan",
    "shares_taken_in",
]

SERVER = "server"


@dataclass(frozen=True)
class PlannedContribution:
    """A `setup.Contribution` of `size` bytes: the jobs that make it, and the work of examining that number of them."""

    size: int = 0
    made: Sequence[Work] = ()
    examine: Callable[[int], Work] | None = None


_NOTHING = PlannedContribution()


def setup_plan(
    points: Mapping[str, int], number: int, contribution: PlannedContribution = _NOTHING, *, signed: bool = False
) -> Iterator[Planned]:
    """Keys and the group seed among clients with n_j `points`; `signed`: what each publishes is."""
    names, key = list(points), Blank(sizes.X25519_BYTES)
    published = Blank(contribution.size + signed * sizes.SIGNATURE_BYTES)
    yield PlannedMessage("setup.keys", SERVER, names, setup.RoundStart(), number)
    for name, count in points.items():
        yield PlannedWork("setup.keys", name, {"x25519.keygen": 1})
        for work in contribution.made:
            yield PlannedWork("setup.keys", name, work)
        if signed:
            yield PlannedWork("setup.keys", name, _SIGN)
        yield PlannedMessage("setup.keys", name, [SERVER], setup.Join(key, published, count), number)
    yield PlannedWork("setup.keys", SERVER, {"x25519.agree": len(names)})
    if signed:
        yield PlannedWork("setup.keys", SERVER, _verify(len(names)))
    if contribution.examine:
        yield PlannedWork("setup.keys", SERVER, contribution.examine(len(names)))
    roster = setup.Roster(
        names, [1] * len(names), list(points.values()), [key] * len(names), [published] * len(names), names[0]
    )
    yield PlannedMessage("setup.seed", SERVER, names, roster, number)
    for name in names:
        if signed:
            yield PlannedWork("setup.seed", name, _verify(len(names)))
        if contribution.examine:
            yield PlannedWork("setup.seed", name, contribution.examine(len(names)))
        yield PlannedWork("setup.seed", name, {"x25519.agree": len(names) - 1})
    seed = setup.Seed(Blank(sizes.SEED_BYTES))
    yield PlannedMessage("setup.seed", names[0], names[1:], seed, number, sealing=OVERHEAD)
    for name in names:
        yield PlannedMessage("setup.seed", name, [SERVER], setup.SeedCheck(Blank(sizes.CHECK_BYTES)), number)
    yield PlannedMessage("setup.seed", SERVER, names, setup.SeedAgreed(names), number)


def dealing_plan(
    names: Sequence[str],
    number: int,
    deal: str,
    collect: str,
    chosen: int | None,
    *,
    awaited: bool,
    signed: bool = False,
) -> Iterator[Planned]:
    """Second keys and shares among `names` = A, dealt in the step `deal`, gathered in the step `collect`.

    `chosen`: t, where more than a majority; `awaited`: whether each waits for the others' shares at once; `signed`:
    keys are, and t is the number of signatures.
    """
    shares, everybody = dealing.DealtShares(Blank(2 * sizes.SHARE_BYTES)), len(names)
    key = Blank(sizes.X25519_BYTES + signed * sizes.SIGNATURE_BYTES)
    yield from second_keys_plan(names, number, deal, collect, signed=signed)
    yield PlannedMessage(collect, SERVER, names, dealing.DealtKeys(list(names), [key] * everybody), number)
    threshold = _threshold(chosen, everybody, signed)
    for name in names:
        if signed:
            yield PlannedWork(deal, name, _verify(everybody))
        work = {"x25519.agree": everybody - 1} | shamir.split_work(dealing.KEY_BYTES, 2, threshold, everybody)
        yield PlannedWork(deal, name, work)
        others = [other for other in names if other != name]
        yield PlannedMessage(deal, name, others, shares, number, sealing=OVERHEAD, awaited=False)
    if awaited:
        yield from shares_taken_in(names, number, deal, len(names) - 1)


def second_keys_plan(
    names: Sequence[str], number: int, deal: str, collect: str, *, signed: bool = False
) -> Iterator[Planned]:
    """Each one's second key, on its way to the server."""
    key = Blank(sizes.X25519_BYTES + signed * sizes.SIGNATURE_BYTES)
    for name in names:
        yield PlannedWork(deal, name, {"x25519.keygen": 1})
        if signed:
            yield PlannedWork(deal, name, _SIGN)
        yield PlannedMessage(deal, name, [SERVER], dealing.DealtKey(key), number)
    yield PlannedWork(collect, SERVER, {"x25519.agree": len(names)})
    if signed:
        yield PlannedWork(collect, SERVER, _verify(len(names)))


def _threshold(chosen: int | None, members: int, signed: bool) -> int:
    return max(quorum.threshold_of(chosen, members), consistency.needed(members) if signed else 0)


_SIGN = {"ed25519.sign": 1}


def _verify(count: int) -> Work:
    return {"ed25519.verify": count}


def agreeing_plan(names: Sequence[str], number: int, agree: str, collect: str) -> Iterator[Planned]:
    """Who takes part and who is left, all of `names`, signed in the step `agree`."""
    least, signature = consistency.needed(len(names)), Blank(sizes.SIGNATURE_BYTES)
    for name in names:
        yield PlannedWork(agree, name, _SIGN)
        yield PlannedMessage(agree, name, [SERVER], consistency.Agreed(signature), number, awaited=False)
    yield PlannedWait(agree, SERVER, consistency.Agreed, number, least)
    for _ in range(least):
        yield PlannedWork(collect, SERVER, _verify(1))
    agreement = consistency.Agreement([*range(least)], [signature] * least)
    yield PlannedMessage(collect, SERVER, names, agreement, number)
    for name in names:
        yield PlannedWork(agree.replace(".agree", ".reveal"), name, _verify(least))


def shares_taken_in(names: Sequence[str], number: int, deal: str, others: int) -> Iterator[Planned]:
    """Each of `names` waits for the shares of `others` in number."""
    for name in names:
        yield PlannedWait(deal, name, dealing.DealtShares, number, others)


def revealing_plan(
    names: Sequence[str],
    number: int,
    reveal: str,
    collect: str,
    chosen: int | None,
    dealt_in: str = "",
    *,
    signed: bool = False,
) -> Iterator[Planned]:
    """The survivors, all of `names` = A, and the shares that they reveal; t of them are enough.

    `dealt_in`: the step in which the shares were dealt, if each waits for the others' only now; `signed`: sets are.
    """
    everybody, threshold = len(names), _threshold(chosen, len(names), signed)
    yield PlannedMessage(collect, SERVER, names, dealing.Survivors(list(names)), number)
    if signed:
        yield from agreeing_plan(names, number, reveal.replace(".reveal", ".agree"), collect)
    if dealt_in:
        yield from shares_taken_in(names, number, dealt_in, len(names) - 1)
    revealed = dealing.Revealed([Blank(sizes.SHARE_BYTES)] * everybody)
    for name in names:
        yield PlannedMessage(reveal, name, [SERVER], revealed, number, awaited=False)
    yield PlannedWait(reveal, SERVER, dealing.Revealed, number, threshold)
    work = {"x25519.keygen": 0, "x25519.agree": 0} | shamir.combine_work(dealing.KEY_BYTES, everybody, threshold)
    yield PlannedWork(collect, SERVER, work)


def secure_sum_plan(names: Sequence[str], number: int, settings: secure_sum.Settings) -> Iterator[Planned]:
    """A secure sum of vectors of `names`, after the set-up, or with the keys of its own."""
    chosen, signed = settings.threshold, settings.identities is not None
    degree = None if settings.tolerance is None else degree_of(len(names), settings.tolerance)
    yield PlannedMessage("sum.collect", SERVER, names, secure_sum.SumStart(), number)
    if degree is None:
        yield from dealing_plan(names, number, "sum.deal", "sum.collect", chosen, awaited=True, signed=signed)
    else:
        yield from _neighbours_plan(names, number, degree)
    for name in names:
        yield PlannedMessage("sum.deal", name, [SERVER], secure_sum.SharesMissing([]), number)
    keys = len(names) if degree is None else degree.k + 1
    for block in settings.blocks:
        chunk, size = block
        yield PlannedMessage("sum.collect", SERVER, names, secure_sum.ChunkWanted(chunk), number)
        for name in names:
            yield PlannedWork("sum.mask", name, masks_work(keys, [block]))
            values = Blank(sizes.RING_BYTES * size)
            yield PlannedMessage("sum.mask", name, [SERVER], secure_sum.MaskedChunk(chunk, values), number)
    if degree is None or degree.complete:
        yield from revealing_plan(names, number, "sum.reveal", "sum.collect", chosen, signed=signed)
    else:
        yield from _neighbours_revealing_plan(names, number, degree)
    for block in settings.blocks:
        for name in names:
            yield PlannedWork("sum.collect", SERVER, masks_work(1, [block]), name)
    yield PlannedMessage("sum.collect", SERVER, names, secure_sum.SumDone(), number)


def around_of(names: Sequence[str], degree: Degree) -> dict[str, tuple[str, ...]]:
    """Each client and its neighbours, where the ring is in order: which graph is drawn changes no sizes in all."""
    everybody = tuple(names)
    if degree.complete:
        return dict.fromkeys(everybody, everybody)
    graph = Graph(everybody, everybody, degree.k)
    return {name: graph.around(name) for name in everybody}


def _neighbours_plan(names: Sequence[str], number: int, degree: Degree) -> Iterator[Planned]:
    """Fresh keys, the neighbours of each, and the shares that they deal."""
    key, shares = Blank(sizes.X25519_BYTES), dealing.DealtShares(Blank(2 * sizes.SHARE_BYTES))
    for name in names:
        for _ in range(2):
            yield PlannedWork("sum.deal", name, {"x25519.keygen": 1})
        yield PlannedMessage("sum.deal", name, [SERVER], neighbours.FreshKeys(key, key), number)
    yield PlannedWork("sum.collect", SERVER, {"x25519.agree": 2 * len(names)})
    around = around_of(names, degree)
    for name, near in around.items():
        size = len(near)
        shown = neighbours.Neighbours(len(names), list(near), [1] * size, [key] * size, [key] * size)
        yield PlannedMessage("sum.collect", SERVER, [name], shown, number)
    for name, near in around.items():
        yield PlannedWork("sum.deal", name, {"x25519.agree": degree.k})
        split = shamir.split_work(dealing.KEY_BYTES, 2, degree.threshold, degree.holders)
        yield PlannedWork("sum.deal", name, {"x25519.agree": degree.k} | split)
        others = [other for other in near if other != name]
        yield PlannedMessage("sum.deal", name, others, shares, number, sealing=OVERHEAD, awaited=False)
    yield from shares_taken_in(names, number, "sum.deal", degree.k)


def _neighbours_revealing_plan(names: Sequence[str], number: int, degree: Degree) -> Iterator[Planned]:
    """The survivors, and the shares that they reveal."""
    for name, near in around_of(names, degree).items():
        yield PlannedMessage("sum.collect", SERVER, [name], dealing.Survivors(list(near)), number)
    yield from revealed_in_graph(names, number, "sum.reveal", "sum.collect", degree)


def revealed_in_graph(
    names: Sequence[str], number: int, reveal: str, collect: str, degree: Degree
) -> Iterator[Planned]:
    """Shares that all of `names` reveal, until t neighbours of each have."""
    revealed = dealing.Revealed([Blank(sizes.SHARE_BYTES)] * degree.holders)
    for name in names:
        yield PlannedMessage(reveal, name, [SERVER], revealed, number, awaited=False)
    yield PlannedWait(reveal, SERVER, dealing.Revealed, number, answers_needed(degree))
    work = {"x25519.keygen": 0, "x25519.agree": 0}
    work |= shamir.combine_work(dealing.KEY_BYTES, len(names), degree.threshold)
    yield PlannedWork(collect, SERVER, work)


def enrolment_plan(points: Mapping[str, int], labeled: Mapping[str, int]) -> Iterator[Planned]:
    """Who is there, with how many points and labels, before the first round."""
    yield PlannedMessage("train.enroll", SERVER, list(points), rounds.Enroll())
    for name, count in points.items():
        yield PlannedMessage("train.enroll", name, [SERVER], rounds.Enrolled(count, labeled[name]))
