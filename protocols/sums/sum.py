"""A secure sum as one object: its keys, its program, its limits, its formula.

A sum is a class derived from `Sum`, in one file, with one line in `registry`, or in a plugin with `tacit.add_sum`.
Averages of models, votes, cells, parts of a user's own protocol, checks, notes, predictions and chaos ask the object.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.party import Party
from tacit.parties.server import Dismissed, Server
from tacit.parties.waiting import type_names
from tacit.protocols import setup
from tacit.protocols.crypto.fixed_point import decode, encode
from tacit.protocols.crypto.masking import Ring, joined, masks, masks_work, read, reduced
from tacit.protocols.crypto.quorum import NOBODY, Assumed, NotCarried, limit_of
from tacit.protocols.crypto.regular_graph import Tolerance
from tacit.protocols.crypto.words import WHOLE, Quantised, word_type
from tacit.protocols.identities import KEY_BYTES, Identities, is_signed
from tacit.protocols.outcome import Abort, Withdrawn, require
from tacit.protocols.parts import Opening, Part, Step
from tacit.protocols.privacy.aggregated import AggregatorNoise
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.spent import Carried
from tacit.protocols.sums.helper import Helper, HelperCalled, KeyOfHelper, SealingKey, call_helper, key_of_helper
from tacit.protocols.sums.keys import CollusionKeys, DropoutKeys
from tacit.protocols.sums.members import SigningKeys, with_keys
from tacit.protocols.sums.refusal import CALLED, END, MASKED, SUMMED
from tacit.protocols.values import BadValues, understood
from tacit.sim.setting_error import Problem
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = [
    "FEW_NEIGHBOURS", "FEW_VALUES", "STAYS_MASKED", "STEPS", "WITH_SIGNING_KEYS", "Requests", "Sum", "SumHelper",
    "SumSettings", "Total", "carries", "may_mask_once", "sum_done", "sum_masked", "without_silent",
]  # fmt: skip

M = TypeVar("M", bound=Message)
R = TypeVar("R")

STEPS = (
    Step("client", "sum.deal", "deal a second key and a seed in shares, and take in the others'; once each attempt"),
    Step("client", "sum.mask", "mask its vector and send it in chunks; again when another is lost amid it", "mask"),
    Step("client", "sum.agree", "sign who takes part and who is left"),
    Step("client", "sum.reveal", "reveal shares of lost clients' keys and others' seeds"),
    Step("server", "sum.collect", "gather keys and masked chunks; add them; take out what masks are left"),
)


STAYS_MASKED = "the sum stays masked: {why}"
"""The kind of the reason of a sum that nobody may open."""

FEW_VALUES = "masked values of {count} clients were received; {needed} are needed"
FEW_NEIGHBOURS = "{count} neighbours of {client} are left; {needed} are needed"
"""Kinds of the reason behind it."""


# The server: who was lost


def without_silent(
    me: Server, names: Sequence[str], answered: Container[str], deadline: float, then: str = "the sum goes without it"
) -> tuple[str, ...]:
    """Lose and dismiss those of `names` whose masked values were not received; returns the others. `then`: what the
    trace says of the loss."""
    silent = [name for name in names if name not in answered]
    me.lose(silent, f"its masked values never came: {then}")
    me.dismiss(silent, f"your masked values did not come within {deadline:g} s")
    return tuple(name for name in names if name in answered)


# What a client refuses, and what it stores on its disk so that it can


def carries(me: Client, sizes: Callable[[int], Any], names: Sequence[str]) -> bool:
    """True if a sum among `names`, who joined, carries the clients that may collude; if not, the trace says why.

    `sizes` raises NotCarried for a number of clients that does not.
    """
    try:
        sizes(len(names))
    except NotCarried as error:
        me.refuse(f"take part in a sum: {error}")
        return False
    return True


def may_mask_once(me: Client, number: int, names: Sequence[str], least: int) -> bool:
    """True if `me` may send its values in the sum that has begun, the only one of round `number` in which it does.

    If not, the trace says why: also where `names`, who take part, are fewer than `least`.
    """
    masked_in, _ = me.latest("sum.mask")
    if me.round != number:
        me.refuse(f"begin a sum of round {me.round}: its vector is of round {number}")
    elif masked_in >= number:
        me.refuse(f"begin a sum: it has sent masked values in round {masked_in}")
    elif len(names) < least:
        me.refuse(f"take part in a sum: {len(names)} clients are fewer than {least}")
    else:
        return me.once("deal") and me.once("sum.mask")
    return False


def sum_masked(me: Party) -> None:
    """Store the basis of masked values, before the first ones of a sum are sent (`refusal.may_answer` reads it)."""
    me.disk[SUMMED] = me.disk.get(SUMMED, {}) | {me.disk.get(CALLED, b""): (me.round, False)}


def sum_done(me: Party) -> None:
    """Store that the sum with the latest masked values of `me` was reported as done."""
    summed = me.disk.get(SUMMED, {})
    for digest, (number, _) in summed.items():
        if number == me.latest("sum.mask")[0]:
            me.disk[SUMMED] = summed | {digest: (number, True)}
            return


# The object


@dataclass(frozen=True)
class Requests:
    """The messages of the server that a client of a sum waits for: `done`, at the end of the sum, and all `others`.

    `phases`: deadlines of the server that may pass between a client's first message and the end of the sum.
    """

    done: type[Message]
    others: tuple[type[Message], ...]
    phases: int = 2

    @property
    def before_end(self) -> tuple[str, ...]:
        """The messages that could ask for more of a client that has done its part."""
        return type_names(self.others)

    async def next(self, me: Client, deadline: float, *, begun: bool = True, finished: bool = True) -> Any:
        """The next request of the server; None where the sum is done, which `me` stores.

        `begun`: it has sent its first message. `finished`: it has done its part, so it rests at `END`. Of several
        requests `done` is taken first: a sum ends before the next one begins. Raises NoAnswer as `recv` does.
        """
        if finished:
            me.rest_at(END)
        answer = await me.recv((self.done, *self.others), me.server, (self.phases if begun else 2) * deadline)
        me.rest_at("")
        if isinstance(answer, self.done):
            sum_done(me)
            return None
        return answer


@dataclass(frozen=True, eq=False)
class Total:
    """The sum over the `contributors` (U3): `ring` in Z_{2^b}, `values` as numbers, (dimension,) each.

    `values` exist only for sums in 64 bits. `noise`: what clients' removable noise the sum carries, if any.
    """

    contributors: tuple[str, ...]
    ring: Ring
    fraction_bits: int
    noise: Carried | None = None

    @property
    def values(self) -> NDArray[np.float64]:
        """The sum as real numbers."""
        return decode(self.ring, self.fraction_bits)


@dataclass(frozen=True)
class SumSettings:
    """The public settings of one sum of vectors of `dimension` words, of `word_bits` bits each.

    `called`: how many clients the round calls. `min_clients`: the fewest in a sum, and never fewer than C + 2.
    `deadline`: the longest wait of the server, in virtual seconds. `fraction_bits`: those of numbers in fixed point.
    `chunk`: the most words of a message, where a sum sends vectors in chunks. In a sum that `proves`: `task` is what
    clients prove of a vector, as a method of `Sum` returns it, and `basis` the SHA-256 of what vectors are made from,
    if the helper gives one sum for each. `noise`: that of the server and the helper each, if any.
    """

    dimension: int
    called: int
    min_clients: int = 3
    deadline: float = 60.0
    word_bits: int = WHOLE
    fraction_bits: int = 32
    chunk: int = 1 << 16
    task: Any = None
    basis: bytes = b""
    noise: AggregatorNoise | None = None

    def joined(self, words: Ring) -> bytes:
        """Encode `words` (dimension,) for a message: each takes `word_bits` bits; what is above these is left out."""
        return joined([self.reduced(words)], self.word_bits)

    def read(self, data: bytes) -> Ring:
        """Decode words (dimension,) from a message. Raises ValueError for a wrong length."""
        (words,) = read(data, [self.dimension], self.word_bits)
        return words

    def reduced(self, words: Ring) -> Ring:
        """Reduce `words` modulo 2^`word_bits`, in place where possible."""
        return reduced(words, self.word_bits)

    async def mask(self, me: Party, seeds: Sequence[bytes]) -> Ring:
        """The sum (dimension,) of the masks that follow from `seeds` of 32 bytes, for each word one that looks random.

        A seed must not serve two vectors: their difference would show that of the vectors.
        """
        keys, blocks, bits = [(seed, True) for seed in seeds], [(0, self.dimension)], self.word_bits
        (mask,) = await me.compute(masks_work(len(keys), blocks, bits), masks, keys, blocks, bits)
        return mask


@dataclass(frozen=True)
class Sum(Part):
    """A secure sum of vectors, as a part of a protocol together with its set-up.

    `tolerance`: the shares of the clients called to a round that may collude with the server, and that may be lost.
    `identities`: the long-term keys that sign, if any. `of_run`: C of the most clients that a round of the run calls;
    each sum is over at least two more. `noise`: the noise that clients add to their vectors, in words of the sum, and
    remove a part of (`removal`). `table`: the table [sum] of the scenario, with the values of its `keys`; by default
    these alone, with their defaults.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    identities: Identities | None = None
    of_run: Assumed = NOBODY
    noise: Distributed | None = None
    table: Any = field(default=None, repr=False)

    name: ClassVar[str]
    description: ClassVar[str]
    """A line for users who choose a sum."""
    requests: ClassVar[Any]
    """The messages of the server that a client waits for once it has contributed (`Requests`); None: there are none."""
    masked: ClassVar[Sequence[type[Message]]]
    """The messages by which a client's masked values leave it; the first goes to the server."""
    opening_with: ClassVar[Sequence[type[Message]]] = ()
    """The messages after which a sum may be opened; (): those by which masked values leave clients."""
    agrees: ClassVar[bool] = True
    """True if clients first agree on a key for each pair (`setup`)."""
    has_helper: ClassVar[bool] = False
    """True if a second server, the party `helper`, takes part. `takes` then begins with `HelperKeys`, unless the sum
    has a `serve` of its own."""
    helper_opens: ClassVar[type[Message]] = HelperCalled
    """The message of the server that opens a round with the helper."""
    proves: ClassVar[bool] = False
    """True if clients prove that their numbers are in range; a client whose proof fails is left out and named."""
    adds_helpers_noise: ClassVar[bool] = False
    """True if the server and the helper can each add noise to the sum (`SumSettings.noise`)."""
    copies: ClassVar[int] = 8
    """The copies of a client's vectors that are held in a round."""
    spare_waits: ClassVar[int] = 6
    """The deadlines of the server in a sum, beside two for each client."""
    signs_sets: ClassVar[bool] = False
    """True if clients sign who is in the sum, without `identities` by keys that they make for the round."""
    sees_all: ClassVar[bool] = True
    """True if each client sees who is in the sum."""
    of_integers: ClassVar[bool] = False
    """True if it adds integers alone, no numbers in fixed point."""
    primes: ClassVar[tuple[int, ...]] = ()
    """The primes modulo which it adds integers, ascending; (): it adds modulo 2^b."""
    few_sign: ClassVar[bool] = False
    """True if a few members sign who is in the sum, so that others are shown it to remove noise."""
    adds_noise: ClassVar[bool] = False
    """True if its program adds `noise` to a client's vector and says in `Total` what noise the sum carries."""
    keeps_keys: ClassVar[bool] = False
    """True if the server and clients keep keys on their disks for several rounds."""
    splits: ClassVar[bool] = False
    """True if parts of the clients may be summed apart from each other, if each is large enough."""
    tolerates_share: ClassVar[bool] = True
    """True if the share of lost clients in `tolerance` decides."""
    lying: ClassVar[Any] = None
    """How a lying server of a sum of your own is tried and judged: a class derived from `sums.lying.base.Lying`."""
    keys: ClassVar[type[CollusionKeys]] = DropoutKeys
    """Its keys in the table [sum]: `DropoutKeys`, or `CollusionKeys` without `tolerates_share`; or a struct that is
    derived from one of these and may have keys of its own."""
    uses: ClassVar[Sequence[str]] = ("protocol.identity",)

    def __init_subclass__(cls) -> None:
        if not cls.tolerates_share and cls.keys is DropoutKeys:
            cls.keys = CollusionKeys

    def __post_init__(self) -> None:
        if self.table is None:
            object.__setattr__(self, "table", self.keys())

    @property
    def keys_in(self) -> Mapping[str, Sequence[type[Struct]]]:
        return {"sum": (self.keys,)}

    @classmethod
    def of(cls, tables: Any) -> Self:
        """The sum with the values of its keys in `tables`. Draws are new in each round, and a server may ask for new
        ones in any.

        Where the share of lost clients does not decide, `sum.corrupt_clients` is 0 by default. Raises Problem for
        shares that leave nobody.
        """
        keys, corrupt = tables.sum, tables.sum.corrupt_clients
        if not cls.tolerates_share:
            return cls(Tolerance(corrupt or 0.0, 0.0), table=keys)
        corrupt, lost = Tolerance.corrupt if corrupt is None else corrupt, keys.tolerated_dropouts
        if lost + corrupt >= 1:
            problem = f"{lost:g} leaves nobody beside the corrupt clients, {corrupt:g} (sum.corrupt_clients)"
            raise Problem("sum.tolerated_dropouts", f"{problem}; allowed: less than {1 - corrupt:g}")
        return cls(Tolerance(corrupt, lost, keys.failure_exponent, tables.training.rounds), table=keys)

    @classmethod
    def takes_identities(cls) -> bool:
        """True if clients can sign with long-term keys (`protocol.identity`).

        A set-up signs where clients see all of them. A sum with proofs has none, and must itself say that it signs.
        """
        itself = cls.proves and cls.uses is not Sum.uses
        return (cls.sees_all or itself) and "protocol.identity" in cls.uses

    @classmethod
    def noises_counts(cls) -> bool:
        """True if the server and the helper can add noise to counts of what is proved: of labels, or of a category."""
        return cls.proves and cls.adds_helpers_noise

    def integers(self, length: int, most: int, *, based: bool = False) -> Any:
        """What clients prove of a number of integers from 0 to `most`; None: nothing. `based`: a sum has a basis."""

    def labels(self, points: int, classes: int) -> Any:
        """What clients prove of a label of each of many points; None: nothing."""

    def category(self, categories: int) -> Any:
        """What clients prove of one category of a number of them; None: nothing."""

    def false(self, vector: Ring, wanted: NDArray[np.int64] | None, quantised: Quantised) -> Any:
        """What a false client contributes instead of `vector`, whose first numbers it wants to be `wanted`, unclipped.

        They wrap around. None: the run is hollow.
        """
        if wanted is None:
            return vector
        return np.concatenate([(wanted % self.modulus(quantised)).astype(np.uint64), vector[len(wanted) :]])

    def limits(self, called: int, joined: int) -> Any:
        """The numbers that decide among the clients that `joined`, of those `called`; as text, a line for users.

        None where nothing follows from these numbers. Raises ValueError where the clients cannot carry C.
        """

    def opens(self, called: int, least: int, joined: int, left: int) -> float | None:
        """The probability that a sum of at least `least` clients is opened, as `Opening.opens` returns it."""
        return 1.0 if left == joined else None

    def opening(self, called: int, least: int, signing: int | None = None) -> Opening:
        """The conditions of a sum of at least `least` clients, in a round that calls this number.

        `signing`: how many clients may sign whatever the server likes, where survivors are signed; None: they are not.
        """
        return Opening(least, partial(self.limits, called), partial(self.opens, called, least))

    def signing(self, clients: int) -> tuple[int, int]:
        """How many of this number of `clients` are named as members, and how many must sign, where `few_sign`."""
        raise NotImplementedError(f"{type(self).__name__} does not say who signs")

    def check(self, called: int) -> None:
        """Raise Problem, with the name of a key, for keys that do not fit a round that calls this number."""

    def warnings(self, called: Sequence[int], share: float) -> list[str]:
        """A line for each key that costs much in rounds that call these numbers, a `share` of all clients."""
        return []

    def spare(self, clients: int, called: int) -> int | None:
        """The number of `clients`, of those `called`, that may be lost where few decide, such as decryptors or
        neighbours; None: a third of all."""
        return None

    def fewest(self, min_clients: int) -> int:
        """The smallest number of clients in a sum of the run, if a round needs `min_clients`."""
        return max(min_clients, self.of_run.fewest)

    def least_of(self, settings: SumSettings) -> int:
        """The fewest clients in a sum with these `settings`."""
        return max(settings.min_clients, self.tolerance.of(settings.called).fewest)

    def waits(self, tables: Any) -> int:
        return 0 if self.requests is None else self.requests.phases

    def waits_among(self, clients: int) -> int:
        """The most deadlines of the server in a sum among this number of clients, with its set-up."""
        return 2 * clients + self.spare_waits

    def word_bits(self, quantised: Quantised | None) -> int:
        """The bits of a word that holds a sum of such numbers; None: of numbers in fixed point."""
        return WHOLE if quantised is None else quantised.word_bits

    def modulus(self, quantised: Quantised | None) -> int:
        """The number of values of a word, modulo which words are summed."""
        return 1 << self.word_bits(quantised)

    def masked_words(self, quantised: Quantised | None) -> tuple[int, int]:
        """The bits of a word in the messages that are `masked`, and the number of its values."""
        return self.word_bits(quantised), self.modulus(quantised)

    @property
    def _keys(self) -> setup.Contribution:
        return SigningKeys() if self.signs_sets and self.identities is None else setup.NoContribution()

    async def join(self, me: Client, deadline: float, called: int) -> setup.Group:
        """Take part in the set-up of a round; returns the group, with the secrets that `me` shares with each client."""
        group = setup.Group((), {}, {})
        if self.agrees:
            group, keys = await setup.client(me, deadline, self._keys, self.identities)
            group = with_keys(group, {me.name: keys.private}) if keys.public else group
        return replace(group, helper=await key_of_helper(me, deadline)) if self.has_helper else group

    async def gather(self, me: Server, names: Sequence[str], least: int, deadline: float, called: int) -> setup.Group:
        """Set up a round with at least `least` of `names`, those that answer; returns the group. Raises Abort."""
        group = setup.Group(tuple(names), {}, {})
        if self.agrees:
            limit = limit_of(least, self.of_run.colluding)
            group = await setup.server(me, names, me.round, least, deadline, self._keys, self.identities, limit)
            group = with_keys(group, {}) if self.signs_sets and self.identities is None else group
        return replace(group, helper=await call_helper(me, group.names, deadline)) if self.has_helper else group

    async def client(self, me: Client, vector: NDArray[Any], group: setup.Group, settings: SumSettings) -> None:
        """Contribute `vector` (dimension,) to the sum of the round among `group`."""
        raise NotImplementedError(f"{type(self).__name__} does not say what a client does")

    async def server(self, me: Server, group: setup.Group, settings: SumSettings) -> Total:
        """Sum the vectors of `group`, or of those of them who live. Raises Abort."""
        raise NotImplementedError(f"{type(self).__name__} does not say what the server does")

    async def helper(self, me: Party, key: SealingKey, settings: SumSettings) -> None:
        """Do the helper's part in the sum of the round, in which clients seal for its `key`."""
        raise NotImplementedError(f"{type(self).__name__} does not say what the helper does")

    async def serve(self, me: "SumHelper", opened: Any, settings: SumSettings) -> None:
        """Run the helper `me` in the round that the message `opened`: make its key, and do its part."""
        with me.step("helper.key"):
            key = await SealingKey.generate(me)
            me.send(me.server, KeyOfHelper(key.public))
        await me.drawing(self, self.helper(me, key, settings))

    # A whole round of it, for what is summed

    async def contribute(self, me: Client, vector: Callable[[], NDArray[Any]], settings: SumSettings) -> None:
        """Take part in the set-up and the sum of the round with the `vector` (dimension,) that is made in between."""
        group = await self.join(me, settings.deadline, settings.called)
        await me.drawing(self, self.client(me, vector(), group, settings))

    async def total(self, me: Server, names: Sequence[str], settings: SumSettings) -> Total:
        """Set up the round with those of `names` that answer, and sum their vectors. Raises Abort.

        It dismisses a helper if there is no sum.
        """
        try:
            group = await self.gather(me, names, settings.min_clients, settings.deadline, settings.called)
            return await me.drawing(self, self.server(me, group, settings))
        except Abort as abort:
            if self.has_helper:
                me.send(HELPER, Dismissed(f"the sum is over: {abort}", aborted=False))
            raise

    # What the program of a sum does in most sums

    def words(self, me: Client, vector: NDArray[Any], settings: SumSettings) -> Ring:
        """The words (dimension,) that `vector` adds to the sum: it has words already, or numbers for fixed point.

        Raises Withdrawn for numbers that are too large, infinite or NaN; the trace says so, without the numbers.
        """
        if vector.shape != (settings.dimension,):
            raise ValueError(f"a vector of shape {(settings.dimension,)} was due, not {vector.shape}.")
        if vector.dtype == np.uint64:
            return vector.astype(word_type(settings.word_bits), copy=False)
        try:
            return encode(vector.astype(np.float64, copy=False), settings.fraction_bits, settings.called)
        except ValueError as error:
            me.refuse(f"take part in the sum: {error}")
            raise Withdrawn(str(error)) from None

    def may_mask(self, me: Client) -> bool:
        """Return true if `me` may send masked values now, which it may once a round; if not, the trace says why.

        It is stored that they are sent: a crash does not make `me` forget it.
        """
        if not may_mask_once(me, me.round, (), 0):
            return False
        sum_masked(me)
        return True

    async def received(
        self, me: Server, kind: type[M], names: Sequence[str], settings: SumSettings, read: Callable[[M], R]
    ) -> dict[str, R]:
        """The result of `read` for the message of a `kind` of each of `names`; those without a valid one are lost.

        `read` raises ValueError for invalid content. Raises Abort if too few clients are left.
        """
        if kind in self.masked:
            me.once(MASKED)  # if there is no sum of them, no round may begin as this one
        sent = await me.collect(kind, names, deadline=settings.deadline)
        found = understood(me, sent.answers, lambda name, message: read(message))
        return {name: found[name] for name in self.left_of(me, names, found, settings)}

    def left_of(
        self, me: Server, names: Sequence[str], there: Container[str], settings: SumSettings,
        why: str = "its masked values were not received",
    ) -> tuple[str, ...]:  # fmt: skip
        """The part of `names` that is `there`, in order; the others are lost, with the reason `why`.

        Raises Abort if too few clients are left.
        """
        left = tuple(name for name in names if name in there)
        lost = [name for name in names if name not in there]
        me.lose(lost, f"{why}: the sum goes without it")
        me.dismiss(lost, f"the sum goes without you: {why.replace('its', 'your')}")
        colluding = self.tolerance.of(settings.called).colluding
        require(len(left), "clients", self.least_of(settings), limit_of(settings.min_clients, colluding))
        return left


class SumHelper(Helper):
    """The helper of a sum, whose program is that sum's `helper`. `settings` gives those of the sum of each round.

    It raises LookupError for a round without a sum.
    """

    def __init__(
        self, world: World, of: Sum, settings: Callable[[int], SumSettings], patience: float, **access: Any
    ) -> None:
        super().__init__(world, patience, **access)
        self.opens, self.sum, self.settings = of.helper_opens, of, settings

    async def serve(self, opened: Any) -> None:
        try:
            settings = self.settings(self.round)
        except LookupError:
            raise BadValues(f"{type(opened).__name__} from {self.server}: round {self.round} has no sum") from None
        await self.sum.serve(self, opened, settings)


WITH_SIGNING_KEYS = setup.SetUp(contribution=lambda tables: 0 if is_signed(tables) else KEY_BYTES, identities=True)
"""The set-up of a sum whose clients sign; without long-term identities each publishes a key for the round."""
