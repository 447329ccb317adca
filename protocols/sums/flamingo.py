"""Secure sum over many rounds of one set-up: a client sends one message a round, and decryptors open the sum.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| sum.keys | those of `decryptors` | | | keys, in the first round; decryptors' key, every some rounds |
| sum.collect | RoundBegins | server -> each in P | 0 | the sum begins |
| sum.mask | MaskedVector | j -> server | b d / 8 + 113 k + 48 m + 32 | x_j + masks_j; pair seeds; shares of its seed |
| sum.collect | RoundLabels | server -> each decryptor | n / 8 | who is in; all others are out |
| sum.agree | Agreed | decryptor -> server | 64 | its signature on the labels |
| sum.collect | RoundOpening | server -> each decryptor | 64 q + 48 an in, 113 a pair | q signatures; what to open |
| sum.reveal | RoundOpened | decryptor -> server | 20 for each in, 33 for each pair, 64 | shares of seeds; decryptions |
| sum.collect | SignedSurvivors | server -> each in | n / 8 + 64 q | with removable noise: who is in, signed |
| noise.reveal | NoiseSeeds | j, in -> server | 16 a seed | with removable noise (`removal`): seeds of noise |
| sum.collect | RoundDone | server -> each in | 0 | the sum is there |

Paper: Ma et al., Flamingo: Multi-Round Single-Server Secure Aggregation with Applications to Private Federated
Learning, IEEE S&P 2023. The n clients of a set-up, m of them decryptors (`decryptors`), sum in each later round, too.
In the words of b bits, client j sends in round r

    x_j + PRG(b_j) + sum over its k neighbours i of +-PRG(s_ij),     + for the earlier of the two in the set-up.

b_j is a fresh seed of 16 bytes. Client j sends each decryptor a sealed share of it; t + 1 shares restore it. s_ij are
16 bytes derived from the secret of the pair, the digest of the set-up, r and the generation of the decryptors. Two
set-ups or generations therefore have no seed in common, even if the server names other clients to each. i and j both
encrypt s_ij under the decryptors' key. A client whose message is received is in, and all others are out, for any
reason. Decryptors reveal their shares of the seed of each client that is in. For each pair of a client that is in and
one that is out they decrypt s_ij, from the ciphertext of the client that is in. A lost client therefore costs a
decryption for each of its neighbours. No s_ij of two clients that are in is decrypted.

Neighbours in round r: a random regular graph (`regular_graph`) over the clients of the set-up, in the order of their
hashes with r and the digest of the set-up's clients and keys (`setup.Group.lot`). The graph is therefore fixed once the
keys are, and each party draws it itself. With few clients it is complete. Its degree and threshold, and the decryptors,
withstand the C clients, of those that were called, that may collude (`quorum`), however few joined.

A decryptor signs the labels of a round (who is in) only if it is in itself, at least `min_clients` and C + 2 clients
are in, and, in a graph that is not complete, each client that is in has enough neighbours that are in
(`Degree.threshold`) and no part of the ring could be summed apart (below). It signs one set of labels a round, and
opens that set once, after q decryptors have signed it; its disk remembers both over a crash. The labels are one list,
so no client is both in and out. The proof of a ciphertext is bound to the pair, the round and the set-up, so decryptors
refuse a ciphertext that the server presents for another pair. Decryptions come with proofs, so the server leaves out
wrong ones, and it checks a seed from shares by the hash of the seed.

Differences from the paper and its implementation: seeds are encrypted by hashed ElGamal, with proofs that bind them to
their pair; the key passes to new decryptors by dealing its shares; a client's message has no signature of its own, as
the connection says whose it is; and the graph is regular.

Security: up to t decryptors, and any clients, collude with a lying server, which opens one set a round at most. It
learns the sum over those who are in, who these are, and s_ij of pairs with those who are out. In a graph that is not
complete, colluding clients are chosen before it is drawn, but the server knows the graph and can choose who is out. A
gap is a run of floor(k / 2) places of the ring in which only colluding clients are in. Clients before and after a gap
share no mask, so two gaps expose the sum over the clients between them. Any two gaps together hold at most C' of the C
colluding clients, except with the probability with which a sum of the run may fail: n (n - 1) / 2 P[X > C'], where X of
the C are among 2 floor(k / 2) of n (`members.exceeded_by`). Decryptors refuse a set with two runs that could be gaps,
in which at most C' clients are in, if fewer than `min_clients` are in these runs and between them
(`Graph.smallest_part`). Each part therefore has at least `min_clients` - C honest clients, as any sum has. Tolerated
losses rarely leave such runs: in 1,000 draws of 30, 100 and 200 clients and 100 of 500 and 1,000, with `tolerance` at
its defaults and a tenth lost, none did. In a complete graph there is one sum. The server checks the proofs of the
ciphertexts that it forwards, and decryptors check them again. A client with a wrong proof is out before labels are
shown, so it cannot end a round that way. Not covered: what `secure_sum` does not cover; clients that encrypt other
seeds than those they mask with, which spoils the sum unseen; and a client whose shares do not give its own seed: it
ends the round without a sum, and is named.

A patent is known that concerns this method or methods near it (US 12,278,891).
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto import shamir, share_errors
from tacit.protocols.crypto import threshold_elgamal as elgamal
from tacit.protocols.crypto.agreement import derive_key
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.crypto.masking import Ring, SignedKey, joined, masks, masks_work, read, reduced
from tacit.protocols.crypto.quorum import NotCarried
from tacit.protocols.crypto.regular_graph import Degree, degree_of
from tacit.protocols.crypto.sealing import OVERHEAD
from tacit.protocols.crypto.threshold_elgamal import CIPHERTEXT_BYTES, POINT_BYTES, TEXT_BYTES
from tacit.protocols.crypto.words import WHOLE, packed_bytes
from tacit.protocols.identities import SIGNATURE_BYTES, Identities
from tacit.protocols.outcome import Abort, Reason, Withdrawn, require
from tacit.protocols.parts import Among, Opening, Taken, messages_in
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.setup import Group
from tacit.protocols.sums import consistency, neighbours, removal
from tacit.protocols.sums.consistency import Agreed
from tacit.protocols.sums.decryptors import (
    Decryptors,
    KeyRing,
    KeysOfRounds,
    Titles,
    is_signed,
    join,
    opened,
    prepare,
    sealed,
)  # fmt: skip
from tacit.protocols.sums.keys import CollusionKeys, DecryptorKeys
from tacit.protocols.sums.members import bits, named
from tacit.protocols.sums.refusal import MASKED
from tacit.protocols.sums.round_graph import Round, drawn_sums
from tacit.protocols.sums.sum import (
    STAYS_MASKED,
    STEPS,
    Requests,
    Sum,
    SumSettings,
    Total,
    may_mask_once,
    sum_masked,
    without_silent,
)
from tacit.protocols.values import BadValues, understood, values_of
from tacit.sim.hollow import HollowArray, blank, hollow
from tacit.sim.setting_error import Problem
from tacit.sim.streams import derive
from tacit.sim.trace import Fact
from tacit.sim.wire import Message

__all__ = [
    "REQUESTS", "SEED_BYTES", "Flamingo", "MaskedVector", "Round", "RoundBegins", "RoundDone", "RoundLabels",
    "RoundOpened", "RoundOpening", "pair_seed", "to_open",
]  # fmt: skip

_, _MASK, _AGREE, _REVEAL, _COLLECT = STEPS

SEED_BYTES = TEXT_BYTES
SHARE = shamir.share_bytes(SEED_BYTES)
CHECK_BYTES = 32


class RoundBegins(Message):
    pass


class MaskedVector(Message):
    admits: ClassVar[tuple[str, ...]] = ("RoundLabels",)
    in_attempt: ClassVar[bool] = True
    values: bytes
    seeds: list[bytes]
    shares: list[bytes]
    check: bytes


class RoundLabels(Message):
    clients: bytes


class RoundOpening(Message):
    follows: ClassVar[tuple[str, ...]] = (RoundLabels.__name__,)
    places: list[int]
    incarnations: list[int]
    signatures: list[bytes]
    shares: list[bytes]
    seeds: list[bytes]


class RoundOpened(Message):
    shares: list[bytes]
    decrypted: bytes


class RoundDone(Message):
    pass


REQUESTS = Requests(RoundDone, (RoundBegins, RoundLabels, RoundOpening), phases=4)  # with one to spare


def pair_seed(ring: KeyRing, run_id: bytes, number: int, one: str, other: str) -> bytes:
    """The seed s_ij that the clients `one` and `other` share in round `number`, from the key ring of `one`."""
    root = derive(ring.roots[other], "pair seed", ring.digest)
    return derive_key(root, run_id, "pair seed", number, ring.generation - 1, ring.pair(one, other), SEED_BYTES)


def _check_of(seed: bytes) -> bytes:
    return derive(seed, "own seed")


def _fits(check: bytes, seed: bytes) -> bool:
    return _check_of(seed) == check


@hollow(lambda seed, needed, count, entropy: [blank(SHARE)] * count)
def _split(seed: bytes, needed: int, count: int, entropy: Any) -> list[bytes]:
    return [row.tobytes() for row in shamir.split([seed], needed, count, entropy)]


@dataclass
class _Part:
    """The state of a client in the sum of a round: it sends its message and, as a decryptor, signs and opens."""

    me: Client
    round: Round
    settings: SumSettings
    fewest: int
    identities: Identities | None
    attempt: int = -1
    labels: tuple[str, ...] = ()
    done: bool = False
    noise: Distributed | None = None
    revealing: removal.Revealing | None = field(default=None, repr=False)

    @property
    def finished(self) -> bool:
        """True if it has done its part, and revealed the seeds of its noise where some are to be revealed."""
        return self.done and (self.noise is None or not self.noise.removes or self.revealing is None)

    @property
    def begun(self) -> bool:
        return self.attempt >= 0

    @property
    def is_current(self) -> bool:
        return (self.me.round, self.me.attempt) == (self.round.number, self.attempt)

    async def send(self, vector: NDArray[Any]) -> None:
        """Send the one message of a round."""
        me, now, settings = self.me, self.round, self.settings
        ring, bits_of = now.ring, settings.word_bits
        with me.step("sum.mask"):
            vector, self.revealing = await removal.noisy(me, vector, len(ring.names), self.noise)
            seed, near = me.entropy("own seed").bytes(SEED_BYTES), now.neighbours(me.name)
            keys: list[SignedKey] = [(now.own_key(seed, me.name), True)]
            seeds = []
            for name in near:
                seeds.append(pair_seed(ring, now.run_id, now.number, me.name, name))
                keys.append((now.pair_key(seeds[-1], me.name, name), ring.is_lower(me.name, name)))
            blocks = [(0, settings.dimension)]
            (mask,) = await me.compute(masks_work(len(keys), blocks, bits_of), masks, keys, blocks, bits_of)
            masked = reduced(vector.astype(mask.dtype, copy=False) + mask, bits_of)
            contexts = [now.context(me.name, name) for name in near]
            hidden = await me.compute(
                elgamal.encrypt_work(len(near)), elgamal.encrypt, ring.key, seeds, contexts, me.entropy("pair seeds")
            )
            one = ring.parameters
            work = shamir.split_work(SEED_BYTES, 1, one.needed, one.count)
            shares = await me.compute(work, _split, seed, one.needed, one.count, me.entropy("seed shares"))
            texts = dict(zip(ring.decryptors, shares, strict=True))
            boxes = await sealed(me, ring, texts, "seed share")
            sum_masked(me)
            me.send(me.server, MaskedVector(joined([masked], bits_of), hidden, boxes, _check_of(seed)))
        self.attempt = me.attempt
        self.done = me.name not in ring.decryptors or not ring.share

    async def sign(self, shown: RoundLabels) -> None:
        """Sign the labels, once a round; the trace says why if it refuses."""
        me, now = self.me, self.round
        with values_of(me, me.server, "RoundLabels"):
            survivors = named(shown.clients, now.ring.names)
        if problem := now.problem(survivors, self.fewest):
            me.refuse(f"sign labels: {problem}")
        elif me.name not in survivors:  # so q - t honest clients, at least t + 1, are in whatever is opened
            me.refuse("sign labels: it is out by them")
        elif me.once_a_round("sum.agree", "sign labels: it has signed some"):
            self.labels = survivors
            with me.step("sum.agree"):
                identities = now.ring.identities(me, self.identities)
                await consistency.sign(me, identities, now.statement, survivors)

    async def reveal(self, shown: removal.SignedSurvivors) -> None:
        """Reveal seeds of noise, once a round, for labels that enough decryptors have signed; the trace says why if
        not."""
        me, now, ring = self.me, self.round, self.round.ring
        with values_of(me, me.server, "SignedSurvivors"):
            survivors = named(shown.clients, ring.names)
        if self.revealing is None:
            me.refuse("reveal seeds of noise: it has none to reveal")
        elif me.name not in survivors or (problem := now.problem(survivors, self.fewest)):
            me.refuse(f"reveal seeds of noise: {'it is out' if me.name not in survivors else problem}")
        else:
            identities, quorum = ring.identities(me, self.identities), ring.parameters.quorum
            with me.step(removal.REVEAL.name):
                sets = now.statement, survivors, ring.decryptors
                if await is_signed(me, identities, shown, *sets, quorum):
                    self.revealing(survivors)
                    self.revealing = None

    async def open(self, asked: RoundOpening) -> None:
        """Open the labels that it signed, once a round, if q decryptors signed them; the trace says why if not."""
        me, now, ring = self.me, self.round, self.round.ring
        if not self.labels or self.done:
            me.refuse("open a sum: it has signed no labels that are open")
            return
        survivors = self.labels
        pairs = now.pairs(survivors)
        with me.step("sum.reveal"):
            with values_of(me, me.server, "RoundOpening"):
                if len(asked.shares) != len(survivors) or len(asked.seeds) != len(pairs):
                    raise ValueError(f"{len(survivors)} shares and {len(pairs)} seeds were to be opened")
            identities = ring.identities(me, self.identities)
            quorum = ring.parameters.quorum
            if not await is_signed(me, identities, asked, now.statement, survivors, ring.decryptors, quorum):
                return
            contexts = [now.context(*pair) for pair in pairs]
            work = elgamal.check_work(len(pairs))
            if not await me.compute(work, elgamal.are_bound, ring.key, asked.seeds, contexts):
                me.refuse("decrypt: a ciphertext is not of its pair and round")
                return
            if not me.once_a_round("sum.reveal", "open a sum: it has answered"):
                return
            texts = await opened(
                me, ring, dict(zip(survivors, asked.shares, strict=True)), "seed share", SHARE, ring.generation
            )
            firsts = await me.compute(
                elgamal.partial_work(len(pairs)), elgamal.partial, ring.share, asked.seeds, now.opening,
                me.entropy("decryption"),
            )  # fmt: skip
            me.send(me.server, RoundOpened([texts.get(name, b"") for name in survivors], firsts))
        self.done = True


def _hidden(now: Round, sent: Mapping[str, MaskedVector], pairs: Sequence[tuple[str, str]]) -> list[bytes]:
    """The ciphertext of s_ij that client i sent, for each (i, j) of `pairs`."""
    rows = {one: dict(zip(now.neighbours(one), sent[one].seeds, strict=True)) for one in {one for one, _ in pairs}}
    return [rows[one][other] for one, other in pairs]


def to_open(now: Round, sent: Mapping[str, MaskedVector], survivors: Sequence[str]) -> list[bytes]:
    """The ciphertexts that decryptors are asked to open where `survivors` are in, in the order of `Round.pairs`."""
    return _hidden(now, sent, now.pairs(survivors))


async def _proved(me: Server, now: Round, sent: Mapping[str, MaskedVector], names: tuple[str, ...]) -> tuple[str, ...]:
    """The clients of `names` without those that sent a wrong proof for a ciphertext that is to be decrypted.

    With each client left out there are more pairs to decrypt: their proofs are checked, too, until all are right.
    """
    checked: set[tuple[str, str]] = set()
    while True:
        due: dict[str, list[tuple[str, str]]] = {}
        for pair in now.pairs(names):
            if pair not in checked:
                due.setdefault(pair[0], []).append(pair)
        checked.update(pair for pairs in due.values() for pair in pairs)
        bound = await me.together(*[
            me.compute(
                elgamal.check_work(len(pairs)), elgamal.are_bound, now.ring.key, _hidden(now, sent, pairs),
                [now.context(*pair) for pair in pairs],
            ) for pairs in due.values()
        ])  # fmt: skip
        wrong = {one for one, holds in zip(due, bound, strict=True) if not holds}
        if not wrong:
            return names
        names = tuple(name for name in names if name not in wrong)


def _added(rows: Sequence[Ring]) -> Ring:
    if isinstance(rows[0], HollowArray):
        return rows[0]
    total = rows[0].copy()
    for row in rows[1:]:
        total += row
    return total


def _read(now: Round, name: str, message: MaskedVector, settings: SumSettings) -> Ring:
    near, count = len(now.neighbours(name)), len(now.ring.decryptors)
    if len(message.seeds) != near or any(len(one) != CIPHERTEXT_BYTES for one in message.seeds):
        raise ValueError(f"{near} encrypted seeds of {CIPHERTEXT_BYTES} bytes were due")
    if len(message.shares) != count or any(len(one) != SHARE + OVERHEAD for one in message.shares):
        raise ValueError(f"{count} sealed shares of {SHARE + OVERHEAD} bytes were due")
    if len(message.check) != CHECK_BYTES:
        raise ValueError(f"the hash of a seed is {CHECK_BYTES} bytes, not {len(message.check)}")
    if settings.word_bits == WHOLE and len(message.values) != 8 * settings.dimension:
        raise ValueError(f"{settings.dimension} words were due")
    (values,) = read(message.values, [settings.dimension], settings.word_bits)
    return values


async def _opened(
    me: Server,
    now: Round,
    survivors: Sequence[str],
    asked: Sequence[str],
    hidden: Sequence[bytes],
    checks: dict[str, bytes],
    settings: SumSettings,
) -> tuple[dict[str, bytes], list[bytes]]:
    """The seeds of the `survivors` and the plaintexts of the ciphertexts `hidden`, from the first answers that suffice.

    Raises Abort.
    """
    ring, one = now.ring, now.ring.parameters
    shares: dict[int, list[bytes]] = {}
    points: dict[int, list[bytes]] = {}
    seeds: dict[str, bytes] = {}
    with me.incoming((RoundOpened,), asked, deadline=settings.deadline) as arrivals:
        async for source, answer in arrivals:
            arrivals.leave_out(source)
            x = 1 + ring.decryptors.index(source)
            with suppress(BadValues):
                with values_of(me, source, "RoundOpened"):
                    if len(answer.shares) != len(survivors) or any(len(s) not in (0, SHARE) for s in answer.shares):
                        raise ValueError(f"{len(survivors)} shares of {SHARE} bytes, or none, were due")
                public = await me.compute(elgamal.at_work(one.needed, x), elgamal.public_share, ring.commitments, x)
                work = elgamal.verify_work(len(hidden))
                found, problem = await me.compute(work, _verified, public, hidden, now.opening, answer.decrypted)
                with values_of(me, source, "RoundOpened"):
                    if problem:
                        raise ValueError(problem)
                points[x], shares[x] = found, answer.shares
            if len(points) >= one.needed:
                seeds = await me.compute(
                    shamir.combine_work(SEED_BYTES, len(survivors), one.needed),
                    _seeds, survivors, shares, one.needed, checks,
                )  # fmt: skip
                if len(seeds) == len(survivors):
                    break
    if len(points) < one.needed:
        silent = [name for name in asked if 1 + ring.decryptors.index(name) not in points]
        me.lose(silent, "it did not open the masks: the round ends without a sum")
        problem = Reason(
            "{count} of {decryptors} decryptors answered; {needed} are needed",
            count=len(points), decryptors=one.count, needed=one.needed,
        )  # fmt: skip
        raise Abort(STAYS_MASKED, why=problem)
    if len(seeds) < len(survivors):
        wrong = [name for name in survivors if name not in seeds]
        me.lose(wrong, "shares of its seed do not give it: the round ends without a sum")
        raise Abort(STAYS_MASKED, why=Reason("shares of a seed do not give it, of {clients}", clients=wrong))
    contexts = [now.context(*pair) for pair in now.pairs(survivors)]
    held = dict(list(points.items())[: one.needed])
    work = elgamal.open_work(len(hidden), one.needed)
    return seeds, await me.compute(work, elgamal.opened, hidden, contexts, held)


@hollow(lambda public, hidden, context, sent: ([bytes(POINT_BYTES)] * len(hidden), ""))
def _verified(public: bytes, hidden: Sequence[bytes], context: bytes, sent: bytes) -> tuple[list[bytes], str]:
    """The partial decryptions in `sent`, and the problem with their proofs, "" if there is none."""
    try:
        return elgamal.verified(public, hidden, context, sent), ""
    except ValueError as error:
        return [], str(error)


@hollow(lambda survivors, shares, needed, checks: dict.fromkeys(survivors, bytes(SEED_BYTES)))
def _seeds(
    survivors: Sequence[str], shares: dict[int, list[bytes]], needed: int, checks: dict[str, bytes]
) -> dict[str, bytes]:
    """The seeds that `shares`, by decryptor's x, restore and that have the hash in `checks`, by survivor."""
    found = {}
    for place, name in enumerate(survivors):
        own = {x: row[place] for x, row in shares.items() if row[place]}
        try:
            xs = list(own)[:needed]
            table = np.frombuffer(b"".join(own[x] for x in xs), np.uint8).reshape(len(xs), 1, -1)
            (seed,) = shamir.combine(xs, table, needed, SEED_BYTES)
        except ValueError:
            seed = b""
        if _check_of(seed) != checks[name]:
            try:
                seed, _ = share_errors.corrected(own, needed, SEED_BYTES, partial(_fits, checks[name]))
            except ValueError:
                continue
        found[name] = seed
    return found


_MANY = 100
"""The most decryptors without a caution."""


class Limits(NamedTuple):
    """The `decryptors` of a sum, and the `degree` of its graph."""

    decryptors: Decryptors
    degree: Degree

    def __str__(self) -> str:
        return f"{self.decryptors}; {self.degree}"


@dataclass(frozen=True)
class Flamingo(Sum):
    """The secure sum with one message a client, whose keys serve many rounds, and which decryptors open."""

    name: ClassVar[str] = "flamingo"
    description: ClassVar[str] = (
        "a sum with one message per client and keys for many rounds, which some clients, the decryptors, open"
    )
    requests: ClassVar[Requests] = REQUESTS
    masked: ClassVar[Sequence[type[Message]]] = (MaskedVector,)
    adds_noise: ClassVar[bool] = True
    keeps_keys: ClassVar[bool] = True
    splits: ClassVar[bool] = True
    copies: ClassVar[int] = 8  # as trained, and in numbers of 8 bytes: weighted, joined, masked
    spare_waits: ClassVar[int] = 14
    few_sign: ClassVar[bool] = True
    takes: ClassVar[Sequence[Taken]] = (KeysOfRounds(), _MASK, _AGREE, _REVEAL, _COLLECT)
    messages: ClassVar[Sequence[type[Message]]] = (*messages_in(sys.modules[__name__]), Agreed)
    keys: ClassVar[type[CollusionKeys]] = DecryptorKeys

    @property
    def chosen(self) -> int | None:
        """The number of decryptors that the scenario sets; None: it follows from `tolerance`."""
        number: int | None = self.table.decryptors
        return number

    def limits(self, called: int, joined: int) -> Limits:
        degree = degree_of(joined, self.tolerance, called)
        return Limits(Decryptors.of(joined, self.chosen, self.tolerance, called), degree)

    def signing(self, clients: int) -> tuple[int, int]:
        return 0, self.limits(clients, clients).decryptors.quorum  # who the decryptors are, all know

    def opening(self, called: int, least: int, signing: int | None = None) -> Opening:
        """As `Sum.opening`, with `drawn`: a sum fails if too many decryptors, or neighbours of one client, are lost."""
        drawn = partial(drawn_sums, called, self.chosen, self.tolerance, least)
        return replace(super().opening(called, least), drawn=drawn)

    def check(self, called: int) -> None:
        if self.chosen is not None and self.chosen > called:
            problem = f"{self.chosen} is more than the {called} clients of a round"
            raise Problem("decryptors", f"{problem}; allowed: {min(3, called)} to {called}")
        try:
            self.limits(called, called)
        except ValueError as error:
            allowed = "a smaller sum.corrupt_clients, sum.tolerated_dropouts or sum.failure_exponent"
            if self.chosen is not None:
                raise Problem("decryptors", f"{error}; allowed: another number, or {allowed}") from None
            key = "tolerated_dropouts" if self.tolerance.of(called).lost else "corrupt_clients"
            raise Problem(key, f"{error}; allowed: {allowed}") from None

    def warnings(self, called: Sequence[int], share: float) -> list[str]:
        found = []
        if share != 1:
            what = "keys are fresh in a round to which clients are called that have none"
            found.append(f'training.share(={share:g}) with training.averaging = "{self.name}": {what}')
        return found + [
            f"sum.tolerated_dropouts(={self.tolerance.dropouts:g}) and sum.corrupt_clients("
            f"={self.tolerance.corrupt:g}): {count} of {many} clients are decryptors, and bytes of keys grow "
            "with the third power of their number; lower these keys or sum.failure_exponent"
            for many in called
            if self.chosen is None and (count := self._count(many, many)) > _MANY
        ]

    def spare(self, clients: int, called: int) -> int | None:
        try:
            deciding = Decryptors.of(clients, self.chosen, self.tolerance, called)
        except NotCarried:  # such a round is lost
            return 0
        few = [deciding.count - deciding.quorum] if deciding.count < clients else []
        near = neighbours.spare(clients, called, self.tolerance)
        return min([*few, *([] if near is None else [near])], default=None)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        n = len(among.names)
        one, degree = among.sum.limits(n, n)
        m, k = one.count, degree.k
        own = packed_bytes(among.dimension, among.word_bits) + CHECK_BYTES
        return {
            "MaskedVector": n * (own + k * CIPHERTEXT_BYTES + m * (SHARE + OVERHEAD)),
            "RoundLabels": m * packed_bytes(n, 1),
            "Agreed": m * SIGNATURE_BYTES,
            "RoundOpening": m * (one.quorum * SIGNATURE_BYTES + n * (SHARE + OVERHEAD)),
            "RoundOpened": m * n * SHARE,
        }

    def _count(self, called: int, joined: int) -> int:
        return self.limits(called, joined).decryptors.count

    async def join(self, me: Client, deadline: float, called: int) -> Group:
        ring = await join(me, partial(self._count, called), deadline, self.identities)
        if ring is None:
            raise Withdrawn("its keys are not those of the sum, or too few clients joined")
        return Group(ring.names, {}, {})

    async def gather(self, me: Server, names: Sequence[str], least: int, deadline: float, called: int) -> Group:
        limits = partial(self._count, called), self.table.decryptor_rounds, least, deadline
        ring = await prepare(me, names, *limits, self.identities)
        return Group(ring.stored, {}, {})

    def _round(self, me: Client | Server, ring: KeyRing, called: int) -> Round:
        return Round(ring, me.round, me.world.run_id, self.tolerance, called)

    async def client(self, me: Client, vector: NDArray[Any], group: Group, settings: SumSettings) -> None:
        """Contribute `vector`, words of `word_bits` or numbers, to the round's sum, with the keys on disk."""
        if vector.shape != (settings.dimension,):
            raise ValueError(f"a vector of shape {(settings.dimension,)} was due, not {vector.shape}.")
        ring, number = KeyRing.of(me), me.round
        if ring is None:
            raise ValueError("a sum needs the keys of its rounds.")
        if vector.dtype != np.uint64:
            try:
                vector = encode(vector.astype(np.float64, copy=False), settings.fraction_bits, len(ring.names))
            except ValueError as error:
                me.refuse(f"take part in the sum: {error}")
                raise Withdrawn(str(error)) from None
        removal.check_sum(self, settings)
        now = self._round(me, ring, settings.called)
        fewest = removal.least_left(self.noise, len(ring.names), self.least_of(settings))
        part = _Part(me, now, settings, fewest, self.identities, noise=self.noise)
        requests = removal.asked(REQUESTS, self.noise)
        # The server enters it, too. So the beginning of a later sum waits where datagrams overtake its round's call.
        me.advance(number, me.attempt + 1)
        while answer := await requests.next(me, settings.deadline, begun=part.begun, finished=part.finished):
            if isinstance(answer, RoundBegins):
                fit = removal.carried(me, len(ring.names), self.noise)
                if fit and may_mask_once(me, number, ring.names, fewest):
                    await part.send(vector)
            elif part.is_current and isinstance(answer, removal.SignedSurvivors):
                await part.reveal(answer)
            elif not part.is_current or me.name not in ring.decryptors or not ring.share:
                continue  # what follows a beginning that was refused, or is for others
            elif isinstance(answer, RoundLabels):
                await part.sign(answer)
            elif isinstance(answer, RoundOpening):
                await part.open(answer)

    async def server(self, me: Server, group: Group, settings: SumSettings) -> Total:
        """Sum the vectors of the clients of `group` that are not lost, by the keys on its disk. Raises Abort."""
        ring = KeyRing.of(me)
        if ring is None:
            raise ValueError("a sum needs the keys of its rounds.")
        now, present = self._round(me, ring, settings.called), group.names
        removal.check_sum(self, settings)
        removal.require_carried(len(ring.names), self.noise)
        one, least = ring.parameters, removal.least_left(self.noise, len(ring.names), self.least_of(settings))
        with me.step("sum.collect"):
            require(len(present), "clients", least)
            me.advance(me.round, me.attempt + 1)
            note = f"decryptors: {', '.join(ring.decryptors)}"
            me.world.note("metric", me.name, step=me.step_name, note=note, fact=Fact.CHOSEN)
            me.broadcast(present, RoundBegins())
            me.once(MASKED)
            sent = (await me.collect(MaskedVector, present, deadline=settings.deadline)).answers
            vectors: dict[str, Ring] = understood(me, sent, lambda name, message: _read(now, name, message, settings))
            without_silent(me, present, vectors, settings.deadline)
            survivors = await _proved(me, now, sent, tuple(name for name in ring.names if name in vectors))
            wrong = [name for name in vectors if name not in survivors]
            me.lose(wrong, "a seed that it encrypted has a wrong proof: the sum goes without it")
            me.dismiss(wrong, "a seed that you encrypted has a wrong proof")
            require(len(survivors), "clients", least)
            if problem := now.problem(survivors, least):
                raise Abort(STAYS_MASKED, why=problem)
            left = [vectors[name] for name in survivors]
            total = await me.compute({"ring.add": len(left) * settings.dimension}, _added, left)
            asked = [name for name in ring.decryptors if name in survivors]
            me.broadcast(asked, RoundLabels(bits(survivors, ring.names)))
            signatures = await consistency.gathered(
                me, ring.identities(me, self.identities), now.statement, survivors, Titles(me), one.quorum,
                settings.deadline, asked,
            )  # fmt: skip
            if len(signatures) < one.quorum:
                me.lose(
                    [n for n in asked if n not in signatures], "it did not sign who is in: the round ends without a sum"
                )
                problem = Reason(
                    "{count} of {decryptors} decryptors signed who is in; {needed} are needed",
                    count=len(signatures), decryptors=one.count, needed=one.quorum,
                )  # fmt: skip
                raise Abort(STAYS_MASKED, why=problem)
            pairs = now.pairs(survivors)
            hidden = to_open(now, sent, survivors)
            places = [ring.decryptors.index(name) for name in signatures]
            lives = [me.incarnations[name] for name in signatures]
            for name in asked:
                own = [sent[j].shares[ring.decryptors.index(name)] for j in survivors]
                me.send(name, RoundOpening(places, lives, list(signatures.values()), own, hidden))
            if removal.removed_bytes(self.noise, len(ring.names), len(survivors)):
                shown = bits(survivors, ring.names), places, lives, list(signatures.values())
                me.broadcast(survivors, removal.SignedSurvivors(b"", *shown))
            seeds, texts = await _opened(
                me, now, survivors, asked, hidden, {j: sent[j].check for j in survivors}, settings
            )
            keys: dict[str, list[SignedKey]] = {j: [(now.own_key(seeds[j], j), True)] for j in survivors}
            for (j, i), text in zip(pairs, texts, strict=True):
                keys[j].append((now.pair_key(text, j, i), ring.is_lower(j, i)))
            blocks, bits_of = [(0, settings.dimension)], settings.word_bits
            unmasked = await me.together(*[
                me.compute(masks_work(len(some), blocks, bits_of), masks, some, blocks, bits_of)
                for some in keys.values()
            ])  # fmt: skip
            for (mask,) in unmasked if total.flags.writeable else ():
                total -= mask
            reduced(total, bits_of)
            clients = len(ring.names)
            total, noise = await removal.without_noise(me, clients, survivors, total, self.noise, settings.deadline)
            me.broadcast(survivors, RoundDone())
        return Total(survivors, total, settings.fraction_bits, noise)
