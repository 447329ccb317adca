"""Votes nobody sees and nobody can stuff: clients' labels of public points as reports of Prio3, in DAP's order.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| report.keys | BatchOpened | server -> helper | 32 | the batch's verification key, which no client learns |
| report.keys | HelperKey | helper -> server | 32 | the helper's public key of this batch |
| report.keys | ReportsWanted | server -> each client | 32 | the same key |
| report.shard | Report | client -> server | `report_bytes` | a vote in shares; 0 bytes without a label |
| report.prepare | AggregationJob | server -> helper | for each report | the helper's part, and a prepare share |
| report.prepare | AggregationJobAnswer | helper -> server | 32 per report | prepare messages, or why one is refused |
| report.collect | AggregateShareWanted | server -> helper | 32 | how many reports are in, and a checksum of them |
| report.collect | HelperAggregate | helper -> server | `aggregate_share_bytes` | the helper's share of the counts |

Prio3 (draft-irtf-cfrg-vdaf-20) with the circuit `OneHotVec` on Field64, three proofs; the order of messages is that of
DAP (draft-ietf-ppm-dap): the server is the leader and the collector, the party `helper` the second aggregator. The
helper's input share is sealed for the helper: X25519 with a fresh pair, HKDF-SHA256, AES-256-GCM, bound to the round,
the client, the nonce and the public share. It is built as HPKE's base mode (RFC 9180) is, and is not its encoding.

A batch is a round. Keys are of one batch, so a report of another one cannot be opened. Each aggregator takes a nonce
once, and stores those of the batch on its disk. The helper gives one aggregate share a batch, of no fewer than `least`
reports, and only where count and checksum are those that it has accepted itself.

Losses: a client whose report is missing, or is refused, is left out of the round with the reason. A lost helper ends
the batch, and with it the round; it may return, and the next round begins. Once the aggregate share was asked for, a
lost helper ends the run, as a secure sum does: its answer may only be late, and a second batch over other clients would
differ from it by one client's vote.

Security: neither aggregator alone learns a vote, whatever clients do; both together read all. A client that does not
know the verification key passes an invalid vote with probability at most `Prio3.soundness_error` a try. An aggregator
that deviates can spoil the counts. The server relays the helper's key: one that swaps it could read the shares, as with
the keys of `tacit.protocols.setup` (semi-honest). DAP's clients fetch the key from the helper themselves.
Revealed: to the server, who has a report, whose was refused, and how many clients gave each class to each point; to the
helper, how many reports there are, of whom none has a name, and which are refused.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import msgspec
import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from tacit.parties.client import DismissedError
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.life import Observed
from tacit.parties.party import NoAnswer, Party
from tacit.parties.server import Dismissed, Server
from tacit.protocols.cotraining.byzantine import Lie
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, derive_key
from tacit.protocols.crypto.sealing import NONCE_BYTES, TAG_BYTES
from tacit.protocols.crypto.vdaf import FIELD64, InvalidReport, PrepareState, Prio3
from tacit.protocols.ledger import release
from tacit.protocols.outcome import Abort, Overtaken, require
from tacit.protocols.parts import Among, Part
from tacit.protocols.steps import Step
from tacit.protocols.sums.refusal import MASKED, enter, refuse
from tacit.protocols.values import BadValues, understood, values_of
from tacit.sim.hollow import blank, filled, hollow
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = [
    "BATCH",
    "Batch",
    "Helper",
    "HelperAggregate",
    "ProvedVotes",
    "Report",
    "Tally",
    "client",
    "context_of",
    "server",
]

_LEADER, _HELPER = 0, 1
_SEALING = KEY_BYTES + TAG_BYTES
_TAKEN, _RELEASED = "report nonces", "released batch"  # on an aggregator's disk

STEPS = (
    Step("server", "report.keys", "open a batch with the helper, and hand out the helper's key"),
    Step("helper", "report.keys", "make the keys of a batch"),
    Step("client", "report.shard", "split the labels and their proof in two shares, and send the report"),
    Step("server", "report.prepare", "check the reports with the helper"),
    Step("helper", "report.prepare", "open its shares, and check the reports with the server"),
    Step("server", "report.collect", "ask for the helper's share of the counts, and add both"),
    Step("helper", "report.collect", "give its share of the counts, once a batch"),
)


class BatchOpened(Message):
    announces: ClassVar[bool] = True
    verify_key: bytes
    points: int


class HelperKey(Message):
    public_key: bytes


class ReportsWanted(Message):
    announces: ClassVar[bool] = True
    helper_key: bytes


class Report(Message):
    nonce: bytes
    public_share: bytes
    leader_share: bytes
    helper_share: bytes


class HelperPart(msgspec.Struct, frozen=True):
    """One report as the helper gets it: the sealed share of the client of that name in `bound`."""

    bound: bytes
    nonce: bytes
    public_share: bytes
    helper_share: bytes
    prepare_share: bytes


class AggregationJob(Message):
    reports: list[HelperPart]


class AggregationJobAnswer(Message):
    messages: list[bytes]
    refused: list[str]


class AggregateShareWanted(Message):
    count: int
    checksum: bytes


class HelperAggregate(Message):
    share: bytes


@dataclass(frozen=True)
class Batch:
    """A batch of votes for `points` points and `classes` classes, all at least 1. `context` binds its reports."""

    points: int
    classes: int
    context: bytes = b""

    @property
    def prio3(self) -> Prio3:
        """The instance of Prio3."""
        return _instance(self.points, self.classes)

    @property
    def elements(self) -> int:
        """The numbers in a vote."""
        return self.points * self.classes

    @property
    def report_bytes(self) -> int:
        """The bytes of a report."""
        prio3 = self.prio3
        shares = prio3.input_share_bytes(_LEADER) + prio3.input_share_bytes(_HELPER)
        return prio3.nonce_bytes + prio3.public_share_bytes + shares + _SEALING


@lru_cache(8)
def _instance(points: int, classes: int) -> Prio3:
    return Prio3.one_hot_vec(points, classes, field=FIELD64)


@dataclass(frozen=True)
class ProvedVotes:
    """Votes that are counted as reports; `least`: the fewest reports of which the helper releases a sum."""

    least: int

    def waits(self, clients: int) -> int:
        """The most deadlines that a batch takes."""
        return 5


@dataclass(frozen=True)
class Tally:
    """The counts (n, C), int64, and the clients whose reports were accepted."""

    contributors: tuple[str, ...]
    counts: NDArray[np.int64]


class Reports(Part):
    """Reports as a part of a protocol."""

    takes = STEPS
    learned: ClassVar[Mapping[str, str]] = {}

    def waits(self, tables: Any) -> int:
        return 5

    def payloads(self, tables: Any, among: Among) -> Mapping[str, int]:
        """The bytes of one batch of all clients of `among`, in which each labels `dimension` points."""
        batch, clients = Batch(among.dimension, among.classes), len(among.names)
        prio3, bound = batch.prio3, _BOUND_BYTES
        part = bound + prio3.nonce_bytes + prio3.public_share_bytes + prio3.prepare_share_bytes
        part += prio3.input_share_bytes(_HELPER) + _SEALING
        return {
            "BatchOpened": prio3.verify_key_bytes,
            "HelperKey": KEY_BYTES,
            "ReportsWanted": clients * KEY_BYTES,
            "Report": clients * batch.report_bytes,
            "AggregationJob": clients * part,
            "AggregationJobAnswer": clients * prio3.prepare_message_bytes,
            "AggregateShareWanted": _CHECKSUM_BYTES,
            "HelperAggregate": prio3.aggregate_share_bytes,
        }


BATCH = Reports()

_BOUND_BYTES = _CHECKSUM_BYTES = 32


# A client


async def client(me: Any, batch: Batch, labels: NDArray[np.int64] | None, lie: Lie | None, deadline: float) -> None:
    """Send a report of `labels` (n,), without content for None. A `lie` may be what no measurement is."""
    wanted = await me.recv(ReportsWanted, me.server, 2 * deadline)
    with me.step("report.shard"):
        sent = Report(b"", b"", b"", b"")
        if labels is not None:
            prio3, entropy = batch.prio3, me.entropy("report")
            nonce, rand = entropy.bytes(prio3.nonce_bytes), entropy.bytes(prio3.rand_bytes)
            pair, noise = KeyPair.generate(me.entropy("report key")), me.entropy("false report").bytes(32)
            bound = _bound(me, me.name)
            work = {"prio3.shard": batch.elements, "x25519.keygen": 1, "x25519.agree": 1}
            with values_of(me, me.server, "ReportsWanted"):
                sent = Report(
                    *await me.compute(
                        work, _shard, batch, labels, nonce, rand, lie, noise, pair, wanted.helper_key, bound
                    )
                )
            release(me, "report", sent.public_share)
        me.send(me.server, sent)


def _bound(me: Party, name: str) -> bytes:
    """The context of the report of the client `name` in this batch, without its name for who does not know it."""
    place = f"{me.round}/{name}".encode()
    return hashlib.sha256(b"tacit report/" + me.world.run_id + place).digest()


def _hollow_shard(batch: Batch, labels: Any, nonce: bytes, rand: bytes, *_: Any) -> tuple[bytes, ...]:
    prio3 = batch.prio3
    sealed = prio3.input_share_bytes(_HELPER) + _SEALING
    return nonce, blank(prio3.public_share_bytes), blank(prio3.input_share_bytes(_LEADER)), blank(sealed)


@hollow(_hollow_shard)
def _shard(
    batch: Batch, labels: NDArray[np.int64], nonce: bytes, rand: bytes, lie: Lie | None, noise: bytes,
    pair: KeyPair, helper_key: bytes, bound: bytes,
) -> tuple[bytes, ...]:  # fmt: skip
    prio3 = batch.prio3
    public_share, (leader_share, helper_share) = prio3.shard(batch.context, labels.tolist(), nonce, rand)
    if lie is not None:
        leader_share = _false(batch, leader_share, labels, lie, noise)
    key = _sealing_key(pair.agree(helper_key), pair.public, helper_key, bound)
    sealed = AESGCM(key).encrypt(bytes(NONCE_BYTES), helper_share, bound + nonce + public_share)
    return nonce, public_share, leader_share, pair.public + sealed


def _false(batch: Batch, share: bytes, labels: NDArray[np.int64], lie: Lie, noise: bytes) -> bytes:
    """The leader's share of what no honest client can share: more than one vote a point, or noise."""
    size = batch.elements * FIELD64.size
    added = lie.added(labels, batch.classes, noise)
    if added is None:
        return share
    vote = FIELD64.decode(share[:size]) + FIELD64.decode(b"".join(int(n).to_bytes(8, "little") for n in added))
    return FIELD64.encode(FIELD64.settle(vote)) + share[size:]


def _sealing_key(secret: bytes, ephemeral: bytes, helper_key: bytes, bound: bytes) -> bytes:
    """The key of one sealed share: of one use, so its nonce is 0."""
    return derive_key(secret, ephemeral + helper_key + bound, "input share", 0, 0, ())


# The server, which is the leader


async def server(me: Server, members: Sequence[str], batch: Batch, least: int, deadline: float) -> Tally:
    """Count the votes of `members`. Raises Abort where there is no result, of which the helper hears, too."""
    try:
        return await _count(me, members, batch, least, deadline)
    except Abort as abort:
        me.send(HELPER, Dismissed(f"the batch is over: {abort}", aborted=False))
        raise


async def _count(me: Server, members: Sequence[str], batch: Batch, least: int, deadline: float) -> Tally:
    with me.step("report.keys"):
        verify_key = me.entropy("verification key").bytes(batch.prio3.verify_key_bytes)
        me.send(HELPER, BatchOpened(verify_key, batch.points))
        opened: HelperKey = await _from_helper(me, HelperKey, deadline)
        me.broadcast(members, ReportsWanted(opened.public_key))
    with me.step("report.prepare"):
        sent = await _reports(me, members, batch, deadline)
        require(len(sent), "clients with reports", least)
        work = {"prio3.prepare": batch.elements * len(sent)}
        found = await me.compute(work, _prepare, batch, verify_key, list(sent.values()))
        held = dict(zip(sent, found, strict=True))
        _leave_out(me, {name: one.problem for name, one in held.items() if one.problem})
        held = {name: one for name, one in held.items() if not one.problem}
        require(len(held), "clients with valid reports", least)
        parts = [
            HelperPart(_bound(me, name), one.nonce, one.public_share, one.helper_share, held[name].prepare_share)
            for name, one in sent.items()
            if name in held
        ]
        me.send(HELPER, AggregationJob(parts))
        answer: AggregationJobAnswer = await _from_helper(me, AggregationJobAnswer, deadline)
        if not len(answer.messages) == len(answer.refused) == len(held):
            raise Abort("the helper answered for other reports than it was sent")
        work = {"ring.add": batch.elements * len(held)}
        states = list(held.values())
        own, refused = await me.compute(work, _aggregate, batch, states, answer.messages, answer.refused)
        problems = dict(zip(held, refused, strict=True))
        _leave_out(me, {name: problem for name, problem in problems.items() if problem})
        accepted = tuple(name for name, problem in problems.items() if not problem)
        require(len(accepted), "clients with valid reports", least)
    with me.step("report.collect"):
        if not enter(me, MASKED):
            raise Abort(f"the counts of round {me.round} were asked for before")
        me.send(HELPER, AggregateShareWanted(len(accepted), _checksum([sent[name].nonce for name in accepted])))
        other: HelperAggregate = await _from_helper(me, HelperAggregate, deadline)
        counts = await me.compute({"ring.add": batch.elements}, _unshard, batch, own, other.share, len(accepted))
        if counts is None:
            raise Abort("the helper's share of the counts is malformed")
    return Tally(accepted, counts)


async def _from_helper(me: Server, kind: type[Any], deadline: float) -> Any:
    """The helper's answer. Raises Abort where it does not come, or where the helper says that it gives none."""
    try:
        return await me.recv(kind, HELPER, deadline)
    except NoAnswer:
        me.lose([HELPER], "it did not answer: the batch is over")
        raise Abort(f"the helper did not answer within {deadline:g} s") from None


async def _reports(me: Server, members: Sequence[str], batch: Batch, deadline: float) -> dict[str, Report]:
    """The reports with content, each nonce once; who sent none is left out."""
    taken = _taken(me)

    def checked(name: str, report: Report) -> Report:
        prio3 = batch.prio3
        sizes = (
            (report.nonce, prio3.nonce_bytes),
            (report.public_share, prio3.public_share_bytes),
            (report.leader_share, prio3.input_share_bytes(_LEADER)),
            (report.helper_share, prio3.input_share_bytes(_HELPER) + _SEALING),
        )
        if any(len(data) not in ((size,) if report.nonce else (0,)) for data, size in sizes):
            raise ValueError(f"a report has parts of {', '.join(str(size) for _, size in sizes)} bytes, or none")
        return report

    received = await me.collect(Report, members, deadline=deadline)
    sent = understood(me, received.answers, checked)
    missing = [name for name in members if name not in sent]
    me.lose(missing, "its report is missing: left out of this round's consensus")
    me.dismiss(missing, f"your report did not come within {deadline:g} s")
    sent = {name: report for name, report in sent.items() if report.nonce}
    repeated = _repeated(sent, taken)
    _leave_out(me, dict.fromkeys(repeated, "its nonce was used before"))
    sent = {name: report for name, report in sent.items() if name not in repeated}
    _take(me, [report.nonce for report in sent.values()])
    return sent


def _repeated(sent: Mapping[str, Report], taken: Sequence[bytes]) -> list[str]:
    """Those whose nonce was taken before, in the order of clients."""
    seen, found = set(taken), []
    for name, report in sent.items():
        if report.nonce in seen:
            found.append(name)
        seen.add(report.nonce)
    return found


def _taken(me: Party) -> list[bytes]:
    """The nonces that were taken in this batch, in any incarnation."""
    number, nonces = me.disk.get(_TAKEN, (0, []))
    return list(nonces) if number == me.round else []


def _take(me: Party, nonces: Sequence[bytes]) -> None:
    me.disk[_TAKEN] = (me.round, [*_taken(me), *nonces])


def _leave_out(me: Server, problems: Mapping[str, str]) -> None:
    for name, problem in problems.items():
        me.lose([name], f"its report is refused: {problem}")
        me.dismiss([name], f"the round goes on without you: your report is refused: {problem}")


def _checksum(nonces: Sequence[bytes]) -> bytes:
    """The XOR of the SHA-256 of each, as in DAP."""
    total = 0
    for nonce in nonces:
        total ^= int.from_bytes(hashlib.sha256(nonce).digest(), "big")
    return total.to_bytes(_CHECKSUM_BYTES, "big")


@dataclass(frozen=True)
class _Held:
    """An aggregator's hold of one report after its first step; `problem`: why there is none."""

    state: PrepareState | None = field(default=None, repr=False)
    prepare_share: bytes = field(default=b"", repr=False)
    problem: str = ""


@hollow(lambda batch, key, reports: [_Held(None, blank(batch.prio3.prepare_share_bytes)) for _ in reports])
def _prepare(batch: Batch, verify_key: bytes, reports: Sequence[Report]) -> list[_Held]:
    return [_prepared(batch, verify_key, _LEADER, one.nonce, one.public_share, one.leader_share) for one in reports]


def _prepared(batch: Batch, key: bytes, aggregator: int, nonce: bytes, public_share: bytes, share: bytes) -> _Held:
    try:
        return _Held(*batch.prio3.prepare_init(key, batch.context, aggregator, nonce, public_share, share))
    except InvalidReport as problem:
        return _Held(problem=str(problem))


def _hollow_aggregate(batch: Batch, held: Sequence[_Held], *_: Any) -> tuple[bytes, list[str]]:
    return blank(batch.prio3.aggregate_share_bytes), [""] * len(held)


@hollow(_hollow_aggregate)
def _aggregate(
    batch: Batch, held: Sequence[_Held], messages: Sequence[bytes], refused: Sequence[str]
) -> tuple[bytes, list[str]]:
    """The aggregate share of the reports that are accepted, and why each other one is refused."""
    prio3, outputs, problems = batch.prio3, [], []
    for one, message, problem in zip(held, messages, refused, strict=True):
        if not problem:
            assert one.state is not None
            try:
                outputs.append(prio3.prepare_next(batch.context, one.state, message))
            except InvalidReport as why:
                problem = str(why)
        problems.append(problem)
    return prio3.aggregate(outputs), problems


def _hollow_unshard(batch: Batch, own: bytes, other: bytes, count: int) -> Any:
    return filled((batch.points, batch.classes), np.int64, count)


@hollow(_hollow_unshard)
def _unshard(batch: Batch, own: bytes, other: bytes, count: int) -> NDArray[np.int64] | None:
    """The counts; None for a malformed share."""
    try:
        return np.array(batch.prio3.unshard([own, other], count), np.int64).reshape(batch.points, batch.classes)
    except InvalidReport:
        return None


# The helper


class Helper(Party):
    """The second aggregator. It serves one batch after another, for `patience` virtual seconds at most.

    `ending` says how its latest batch ended.
    """

    ending = Observed(lambda: "no batch was opened")
    interrupts: ClassVar[tuple[type[Message], ...]] = (Dismissed,)

    def __init__(
        self, world: World, classes: int, least: int, deadline: float, patience: float, server: str = "server",
        name: str = HELPER, **access: Any,
    ) -> None:  # fmt: skip
        super().__init__(world, name, **access)
        self.classes, self.least, self.deadline, self.patience = classes, least, deadline, patience
        self.server = self.authority = server
        self.until: float | None = None

    def interrupted(self, source: str, message: Message) -> None:
        assert isinstance(message, Dismissed)
        raise DismissedError(message)

    def state(self) -> dict[str, Any]:
        return super().state() | {"until": self.until}

    async def main(self) -> None:
        clock = self.world.loop.time
        end = self.until = clock() + self.patience if self.until is None else self.until
        while clock() < end:
            try:
                self.rest(True)
                opened = await self.recv(BatchOpened, self.server, end - self.since)
            except DismissedError:
                continue
            except NoAnswer:
                return
            self.rest(False)
            try:
                with self.unless((BatchOpened,), (self.server,), Overtaken()):
                    await self._serve(opened)
                self.ending = "completed"
            except DismissedError as dismissed:
                self.ending = f"dismissed: {dismissed.reason}"
            except Overtaken:
                self.ending = "its last batch was over before it was done"
            except NoAnswer as problem:
                self.ending = f"no answer from the server: {problem}"
            except BadValues as problem:
                self.ending = f"the server sent invalid values: {problem}"

    async def _serve(self, opened: BatchOpened) -> None:
        """Serve one batch."""
        with self.step("report.keys"):
            with values_of(self, self.server, "BatchOpened"):
                if opened.points < 1 or len(opened.verify_key) != Prio3.verify_key_bytes:
                    raise ValueError("a batch needs a key of 32 bytes and a point")
            batch = Batch(opened.points, self.classes, context_of(self))
            pair = await self.compute({"x25519.keygen": 1}, KeyPair.generate, self.entropy("batch"))
            self.send(self.server, HelperKey(pair.public))
        job = await self.recv(AggregationJob, self.server, 3 * self.deadline)
        with self.step("report.prepare"):
            taken, fresh = set(_taken(self)), []
            for part in job.reports:
                fresh.append("" if part.nonce not in taken else "its nonce was used before")
                taken.add(part.nonce)
            _take(self, [part.nonce for part, problem in zip(job.reports, fresh, strict=True) if not problem])
            work = {"prio3.prepare": batch.elements * len(job.reports), "x25519.agree": len(job.reports)}
            arguments = batch, opened.verify_key, pair, job.reports, fresh
            share, messages, refused = await self.compute(work, _serve_job, *arguments)
            self.send(self.server, AggregationJobAnswer(messages, refused))
        wanted = await self.recv(AggregateShareWanted, self.server, 2 * self.deadline)
        with self.step("report.collect"):
            nonces = [part.nonce for part, problem in zip(job.reports, refused, strict=True) if not problem]
            if problem := self._problem(wanted, nonces):
                refuse(self, f"release its share of the counts: {problem}")
                raise BadValues(f"AggregateShareWanted from {self.server}: {problem}")
            self.disk[_RELEASED] = self.round
            self.send(self.server, HelperAggregate(share))

    def _problem(self, wanted: AggregateShareWanted, nonces: Sequence[bytes]) -> str:
        """The reason not to release what is `wanted` of a batch with the accepted `nonces`; "" if there is none."""
        if self.disk.get(_RELEASED, 0) >= self.round:
            return f"that of batch {self.round} was released before"
        if len(nonces) < self.least:
            return f"{len(nonces)} reports are fewer than {self.least}"
        if wanted.count != len(nonces) or wanted.checksum != _checksum(nonces):
            return f"{wanted.count} reports are not those that it has accepted"
        return ""


def context_of(me: Party) -> bytes:
    """The context of the batch that `me` is in: the run and the round."""
    return hashlib.sha256(b"tacit batch/" + me.world.run_id + str(me.round).encode()).digest()


def _hollow_job(
    batch: Batch, key: bytes, pair: KeyPair, reports: Sequence[HelperPart], fresh: Sequence[str]
) -> tuple[bytes, list[bytes], list[str]]:
    prio3 = batch.prio3
    messages: list[bytes] = [blank(prio3.prepare_message_bytes) for _ in reports]
    return blank(prio3.aggregate_share_bytes), messages, [""] * len(reports)


@hollow(_hollow_job)
def _serve_job(
    batch: Batch, key: bytes, pair: KeyPair, reports: Sequence[HelperPart], fresh: Sequence[str]
) -> tuple[bytes, list[bytes], list[str]]:
    """The helper's aggregate share, the prepare messages, and why each report is refused, "" for the others."""
    prio3 = batch.prio3
    held, messages, problems = [], [], []
    for part, problem in zip(reports, fresh, strict=True):
        one, message = _Held(problem=problem), b""
        if not problem:
            one = _opened(batch, key, pair, part)
        if not one.problem:
            try:
                shares = [part.prepare_share, one.prepare_share]
                message = prio3.prepare_shares_to_prepare_message(batch.context, shares)
            except InvalidReport as why:
                one = _Held(problem=str(why))
        held.append(one)
        messages.append(message)
        problems.append(one.problem)
    share, problems = _aggregate(batch, held, messages, problems)
    return share, [b"" if problem else one for one, problem in zip(messages, problems, strict=True)], problems


def _opened(batch: Batch, key: bytes, pair: KeyPair, part: HelperPart) -> _Held:
    ephemeral, sealed = part.helper_share[:KEY_BYTES], part.helper_share[KEY_BYTES:]
    try:
        secret = _sealing_key(pair.agree(ephemeral), ephemeral, pair.public, part.bound)
        share = AESGCM(secret).decrypt(bytes(NONCE_BYTES), sealed, part.bound + part.nonce + part.public_share)
    except (InvalidTag, ValueError):
        return _Held(problem="the helper cannot open its share")
    return _prepared(batch, key, _HELPER, part.nonce, part.public_share, share)
