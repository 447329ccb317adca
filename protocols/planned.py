"""The messages of what several protocols share, where nobody is lost: set-up, dealing, a secure sum, enrolment.

They are those of the message tables in `setup`, `dealing`, `secure_sum` and `rounds`, in the order in which they are
sent. What a relay carries is listed once.
"""

from collections.abc import Iterator, Mapping, Sequence

from protocols import dealing, rounds, secure_sum, setup
from protocols.crypto import sizes
from protocols.crypto.sealing import OVERHEAD
from sim.planned import Blank, PlannedMessage

__all__ = [
    "SERVER",
    "dealing_messages",
    "enrolment_messages",
    "revealing_messages",
    "secure_sum_messages",
    "setup_messages",
]

SERVER = "server"


def setup_messages(points: Mapping[str, int], number: int, contribution: int = 0) -> Iterator[PlannedMessage]:
    """Keys and the group seed among clients with n_j `points`; each publishes a `contribution` of that many bytes."""
    names, key = list(points), Blank(sizes.X25519_BYTES)
    yield PlannedMessage("setup.keys", SERVER, names, setup.RoundStart(), number)
    for name, count in points.items():
        yield PlannedMessage("setup.keys", name, [SERVER], setup.Join(key, Blank(contribution), count), number)
    lives, published = [1] * len(names), [Blank(contribution)] * len(names)
    roster = setup.Roster(names, lives, list(points.values()), [key] * len(names), list(published), names[0])
    yield PlannedMessage("setup.seed", SERVER, names, roster, number)
    yield PlannedMessage(
        "setup.seed", names[0], names[1:], setup.Seed(Blank(sizes.SEED_BYTES)), number, sealing=OVERHEAD
    )
    for name in names:
        yield PlannedMessage("setup.seed", name, [SERVER], setup.SeedCheck(Blank(sizes.CHECK_BYTES)), number)
    yield PlannedMessage("setup.seed", SERVER, names, setup.SeedAgreed(names), number)


def dealing_messages(names: Sequence[str], number: int, deal: str, collect: str) -> Iterator[PlannedMessage]:
    """Second keys and shares among `names` = A, dealt in the step `deal`, gathered in the step `collect`."""
    key, shares = Blank(sizes.X25519_BYTES), dealing.DealtShares(Blank(2 * sizes.SHARE_BYTES))
    for name in names:
        yield PlannedMessage(deal, name, [SERVER], dealing.DealtKey(key), number)
    yield PlannedMessage(collect, SERVER, names, dealing.DealtKeys(list(names), [key] * len(names)), number)
    for name in names:
        yield PlannedMessage(deal, name, [other for other in names if other != name], shares, number, sealing=OVERHEAD)


def revealing_messages(names: Sequence[str], number: int, reveal: str, collect: str) -> Iterator[PlannedMessage]:
    """The survivors, all of `names` = A, and the shares that they reveal."""
    yield PlannedMessage(collect, SERVER, names, dealing.Survivors(list(names)), number)
    for name in names:
        yield PlannedMessage(reveal, name, [SERVER], dealing.Revealed([Blank(sizes.SHARE_BYTES)] * len(names)), number)


def secure_sum_messages(names: Sequence[str], number: int, settings: secure_sum.Settings) -> Iterator[PlannedMessage]:
    """A secure sum of vectors of `names`, after the set-up."""
    yield PlannedMessage("sum.collect", SERVER, names, secure_sum.SumStart(), number)
    yield from dealing_messages(names, number, "sum.deal", "sum.collect")
    for name in names:
        yield PlannedMessage("sum.deal", name, [SERVER], secure_sum.SharesMissing([]), number)
    for chunk, size in settings.blocks:
        yield PlannedMessage("sum.collect", SERVER, names, secure_sum.ChunkWanted(chunk), number)
        for name in names:
            values = Blank(sizes.RING_BYTES * size)
            yield PlannedMessage("sum.mask", name, [SERVER], secure_sum.MaskedChunk(chunk, values), number)
    yield from revealing_messages(names, number, "sum.reveal", "sum.collect")
    yield PlannedMessage("sum.collect", SERVER, names, secure_sum.SumDone(), number)


def enrolment_messages(points: Mapping[str, int], labeled: Mapping[str, int]) -> Iterator[PlannedMessage]:
    """Who is there, with how many points and labels, before the first round."""
    yield PlannedMessage("train.enroll", SERVER, list(points), rounds.Enroll())
    for name, count in points.items():
        yield PlannedMessage("train.enroll", name, [SERVER], rounds.Enrolled(count, labeled[name]))
