"""What several protocols share, planned, where nobody is lost: set-up, dealing, a secure sum, enrolment.

The messages are those of the message tables in `setup`, `dealing`, `secure_sum` and `rounds`. What a relay carries is
listed once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from protocols import dealing, neighbours, quorum, rounds, secure_sum, setup
from protocols.crypto import shamir, sizes
from protocols.crypto.regular_graph import Degree, Graph, answers_needed, degree_of
from protocols.crypto.sealing import OVERHEAD
from protocols.masking import masks_work
from sim.compute import Work
from sim.planned import Blank, Planned, PlannedMessage, PlannedWait, PlannedWork

__all__ = [
    "SERVER",
    "PlannedContribution",
    "dealing_plan",
    "enrolment_plan",
    "revealing_plan",
    "secure_sum_plan",
    "setup_plan",
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
    points: Mapping[str, int], number: int, contribution: PlannedContribution = _NOTHING
) -> Iterator[Planned]:
    """Keys and the group seed among clients with n_j `points`."""
    names, key = list(points), Blank(sizes.X25519_BYTES)
    published = Blank(contribution.size)
    yield PlannedMessage("setup.keys", SERVER, names, setup.RoundStart(), number)
    for name, count in points.items():
        yield PlannedWork("setup.keys", name, {"x25519.keygen": 1})
        for work in contribution.made:
            yield PlannedWork("setup.keys", name, work)
        yield PlannedMessage("setup.keys", name, [SERVER], setup.Join(key, published, count), number)
    yield PlannedWork("setup.keys", SERVER, {"x25519.agree": len(names)})
    if contribution.examine:
        yield PlannedWork("setup.keys", SERVER, contribution.examine(len(names)))
    roster = setup.Roster(
        names, [1] * len(names), list(points.values()), [key] * len(names), [published] * len(names), names[0]
    )
    yield PlannedMessage("setup.seed", SERVER, names, roster, number)
    for name in names:
        if contribution.examine:
            yield PlannedWork("setup.seed", name, contribution.examine(len(names)))
        yield PlannedWork("setup.seed", name, {"x25519.agree": len(names) - 1})
    seed = setup.Seed(Blank(sizes.SEED_BYTES))
    yield PlannedMessage("setup.seed", names[0], names[1:], seed, number, sealing=OVERHEAD)
    for name in names:
        yield PlannedMessage("setup.seed", name, [SERVER], setup.SeedCheck(Blank(sizes.CHECK_BYTES)), number)
    yield PlannedMessage("setup.seed", SERVER, names, setup.SeedAgreed(names), number)


def dealing_plan(
    names: Sequence[str], number: int, deal: str, collect: str, chosen: int | None, *, awaited: bool
) -> Iterator[Planned]:
    """Second keys and shares among `names` = A, dealt in the step `deal`, gathered in the step `collect`.

    `chosen`: t, where more than a majority; `awaited`: whether each waits for the others' shares at once.
    """
    key, shares, everybody = Blank(sizes.X25519_BYTES), dealing.DealtShares(Blank(2 * sizes.SHARE_BYTES)), len(names)
    for name in names:
        yield PlannedWork(deal, name, {"x25519.keygen": 1})
        yield PlannedMessage(deal, name, [SERVER], dealing.DealtKey(key), number)
    yield PlannedWork(collect, SERVER, {"x25519.agree": everybody})
    yield PlannedMessage(collect, SERVER, names, dealing.DealtKeys(list(names), [key] * everybody), number)
    threshold = quorum.threshold_of(chosen, everybody)
    for name in names:
        work = {"x25519.agree": everybody - 1} | shamir.split_work(dealing.KEY_BYTES, 2, threshold, everybody)
        yield PlannedWork(deal, name, work)
        others = [other for other in names if other != name]
        yield PlannedMessage(deal, name, others, shares, number, sealing=OVERHEAD, awaited=False)
    if awaited:
        yield from _shares_taken_in(names, number, deal)


def _shares_taken_in(names: Sequence[str], number: int, deal: str) -> Iterator[Planned]:
    for name in names:
        yield PlannedWait(deal, name, dealing.DealtShares, number, len(names) - 1)


def revealing_plan(
    names: Sequence[str], number: int, reveal: str, collect: str, chosen: int | None, dealt_in: str = ""
) -> Iterator[Planned]:
    """The survivors, all of `names` = A, and the shares that they reveal; t of them are enough.

    `dealt_in`: the step in which the shares were dealt, if each waits for the others' only now.
    """
    everybody, threshold = len(names), quorum.threshold_of(chosen, len(names))
    yield PlannedMessage(collect, SERVER, names, dealing.Survivors(list(names)), number)
    if dealt_in:
        yield from _shares_taken_in(names, number, dealt_in)
    revealed = dealing.Revealed([Blank(sizes.SHARE_BYTES)] * everybody)
    for name in names:
        yield PlannedMessage(reveal, name, [SERVER], revealed, number, awaited=False)
    yield PlannedWait(reveal, SERVER, dealing.Revealed, number, threshold)
    work = {"x25519.keygen": 0, "x25519.agree": 0} | shamir.combine_work(dealing.KEY_BYTES, everybody, threshold)
    yield PlannedWork(collect, SERVER, work)


def secure_sum_plan(names: Sequence[str], number: int, settings: secure_sum.Settings) -> Iterator[Planned]:
    """A secure sum of vectors of `names`, after the set-up, or with the keys of its own."""
    chosen = settings.threshold
    degree = None if settings.tolerance is None else degree_of(len(names), settings.tolerance)
    yield PlannedMessage("sum.collect", SERVER, names, secure_sum.SumStart(), number)
    if degree is None:
        yield from dealing_plan(names, number, "sum.deal", "sum.collect", chosen, awaited=True)
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
        yield from revealing_plan(names, number, "sum.reveal", "sum.collect", chosen)
    else:
        yield from _neighbours_revealing_plan(names, number, degree)
    for block in settings.blocks:
        for name in names:
            yield PlannedWork("sum.collect", SERVER, masks_work(1, [block]), name)
    yield PlannedMessage("sum.collect", SERVER, names, secure_sum.SumDone(), number)


def _around(names: Sequence[str], degree: Degree) -> dict[str, tuple[str, ...]]:
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
    around = _around(names, degree)
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
    for name in names:
        yield PlannedWait("sum.deal", name, dealing.DealtShares, number, degree.k)


def _neighbours_revealing_plan(names: Sequence[str], number: int, degree: Degree) -> Iterator[Planned]:
    """The survivors, and the shares that they reveal, until t neighbours of each have."""
    for name, near in _around(names, degree).items():
        yield PlannedMessage("sum.collect", SERVER, [name], dealing.Survivors(list(near)), number)
    revealed = dealing.Revealed([Blank(sizes.SHARE_BYTES)] * degree.holders)
    for name in names:
        yield PlannedMessage("sum.reveal", name, [SERVER], revealed, number, awaited=False)
    yield PlannedWait("sum.reveal", SERVER, dealing.Revealed, number, answers_needed(degree))
    work = {"x25519.keygen": 0, "x25519.agree": 0}
    work |= shamir.combine_work(dealing.KEY_BYTES, len(names), degree.threshold)
    yield PlannedWork("sum.collect", SERVER, work)


def enrolment_plan(points: Mapping[str, int], labeled: Mapping[str, int]) -> Iterator[Planned]:
    """Who is there, with how many points and labels, before the first round."""
    yield PlannedMessage("train.enroll", SERVER, list(points), rounds.Enroll())
    for name, count in points.items():
        yield PlannedMessage("train.enroll", name, [SERVER], rounds.Enrolled(count, labeled[name]))
