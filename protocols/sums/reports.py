"""Sums that no client can spoil: what clients contribute as reports of Prio3, with a second aggregator, in DAP's order.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| report.keys | BatchOpened | server -> helper | 32, and the basis | the verification key, which no client learns |
| report.keys | HelperKey | helper -> server | 32; signed 96 | the helper's public key of this batch |
| report.keys | ReportsWanted | server -> each client | as much | the same key |
| report.shard | Report | client -> server | `report_bytes`; signed 64 more | a measurement in shares; 0 without one |
| report.prepare | AggregationJob | server -> helper | for each report | the helper's part, and a prepare share |
| report.prepare | AggregationJobAnswer | helper -> server | 32 per report | prepare messages, or why one is refused |
| report.collect | AggregateShareWanted | server -> helper | 32; 16 each out | how many are in, a checksum, who is out |
| report.collect | HelperAggregate | helper -> server | `aggregate_share_bytes` | the helper's share of the sum |

Prio3 (draft-irtf-cfrg-vdaf-20) with one of three circuits (`Task`): one class for each of many points, or integers
below a bound, on Field64 with three proofs; or one category, the draft's Histogram on Field128. The order of messages
is that of DAP (draft-ietf-ppm-dap): the server is the leader and the collector, the party `helper` the second
aggregator. The helper's input share is sealed for the helper: X25519 with a fresh pair, HKDF-SHA256, AES-256-GCM, bound
to the batch, the client, the nonce and the public share. It is built as HPKE's base mode (RFC 9180) is, and is not its
encoding.

A batch is a round. Its context binds the run, the round, the circuit with its parameters, and the basis, so a report
for another number of points, another bound or another model is invalid. The helper makes a key for each batch, so it
cannot open a report of another one. Each aggregator accepts a nonce once, and stores the nonces of the batch on its
disk. The helper gives one aggregate share a batch, over at least `least` reports, and only if count and checksum are
those of reports that it has accepted itself. If the server refuses reports that the helper has accepted, it names them,
and both leave them out. A batch may have a basis: the SHA-256 of the model from which clients trained. The helper
releases one batch with each basis, as sums of the same values over two sets of clients would show the difference.

With noise, each aggregator adds noise of its own to its share, drawn once a batch (`privacy.aggregated`). The helper
stores its noisy share before it sends it. If it is asked again for the same reports, also after a crash, it sends the
same bytes; the mean of two draws would have half the variance. The server asks once more if no answer is received. The
noise does not hide who sent a report.

Losses: a client whose report is missing, or is refused, is left out of the round with the reason. A lost helper ends
the batch, and with it the round; it may return, and the next round begins. Once the aggregate share was asked for, a
lost helper ends the run, as a secure sum does: its answer may only be late, and a second batch over other clients would
differ from it by one client's values.

Security: an aggregator that follows the protocol learns no measurement alone, whatever clients do; both together read
all. A client that does not know the verification key passes an invalid measurement with probability at most
`Prio3.soundness_error` a try. An aggregator that deviates can spoil the sum. The server relays the helper's key: a
server that swaps this key could read the shares, as with the keys of `tacit.protocols.setup` (semi-honest). A server
that fills a batch with reports of its own could read the only other one: the helper counts reports, and does not know
who sent them.

With `protocol.identity = "signed"` the server can do neither. The helper signs its key, and clients refuse another;
DAP's clients fetch the key from the helper themselves. Each client signs its report: batch, nonce, public share and
sealed share. The helper gets the client's name and incarnation with the report, and accepts one report of each client
whose signature verifies, so a sum is over at least `least` clients with long-term keys. Clients whose private keys the
server holds are among these, so at least `least` minus their number are out of its control. Both kinds of signature are
bound to the round, whatever the attempt.

Not covered: the difference of two rounds. A server that leaves one client out of the second round subtracts the sums,
and reads that client's measurement if all clients contribute the same again. Votes may repeat; a model that differs in
one number has another basis, and leads to nearly the same integers. A helper whose disk is lost also forgets which
bases were released. Revealed: to the server, who sent a report, whose was refused, and the sum; to the helper, who sent
a report (by name in signed reports, or by trying names against `bound`), which are refused, and the basis.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.party import NoAnswer, Party
from tacit.parties.server import Dismissed, Server
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, derive_key
from tacit.protocols.crypto.masking import Ring
from tacit.protocols.crypto.regular_graph import Tolerance
from tacit.protocols.crypto.sealing import NONCE_BYTES
from tacit.protocols.crypto.vdaf import INVALID_PROOF, InvalidReport, Prio3
from tacit.protocols.crypto.words import WHOLE, Quantised
from tacit.protocols.identities import SIGNATURE_BYTES, Claim, Identities, is_signed, parted
from tacit.protocols.ledger import release
from tacit.protocols.outcome import Abort, Withdrawn, require
from tacit.protocols.parts import Among, Opening, Step
from tacit.protocols.setup import Group
from tacit.protocols.sums import helper, noised_shares
from tacit.protocols.sums.batch import (
    CHECKSUM_BYTES,
    HELPER_SHARE,
    LEADER,
    Batch,
    FalseVector,
    Held,
    Task,
    aggregated,
    checksum_of,
    out_of_range,
    prepared,
    unsharded,
)
from tacit.protocols.sums.helper import SEALING_BYTES, from_helper
from tacit.protocols.sums.refusal import MASKED
from tacit.protocols.sums.sum import Requests, Sum, SumHelper, SumSettings, Total
from tacit.protocols.values import BadValues, understood, values_of
from tacit.sim.hollow import Blank, blank, hollow
from tacit.sim.wire import Message

__all__ = ["BASIS_BYTES", "UNOPENED", "HelperAggregate", "Report", "Reports"]

_SIGNED_KEY, _SIGNED_REPORT = "helper key", "report"
_TAKEN, _RELEASED, _BASES = "report nonces", "released batch", "released bases"  # on an aggregator's disk

WAITS = 5
"""The most deadlines that a batch takes."""

STEPS = (
    Step("server", "report.keys", "open a batch with the helper, and hand out the helper's key"),
    Step("helper", "report.keys", "make the keys of a batch"),
    Step("client", "report.shard", "split its measurement and the proof in two shares, and send the report"),
    Step("server", "report.prepare", "check the reports with the helper"),
    Step("helper", "report.prepare", "open its shares, and check the reports with the server"),
    Step("server", "report.collect", "ask for the helper's share of the sum, and add both"),
    Step("helper", "report.collect", "give its share of the sum, once a batch"),
)


class BatchOpened(Message):
    announces: ClassVar[bool] = True
    verify_key: bytes
    basis: bytes


class HelperKey(Message):
    public_key: bytes
    incarnation: int


class ReportsWanted(Message):
    announces: ClassVar[bool] = True
    in_round: ClassVar[bool] = True
    helper_key: bytes
    incarnation: int


class Report(Message):
    nonce: bytes
    public_share: bytes
    leader_share: bytes
    helper_share: bytes


class HelperPart(msgspec.Struct, frozen=True):
    """One report as the server forwards it to the helper. `bound`: the hash of batch and client (`_bound`).

    In a signed report, `bound` is the client's name and incarnation, and `helper_share` ends with its signature.
    """

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
    left_out: list[bytes]


class HelperAggregate(Message):
    share: bytes


def _signature_bytes(tables: Any) -> int:
    return SIGNATURE_BYTES * (tables is not None and is_signed(tables))


BASIS_BYTES = 32
_BOUND_BYTES = 32


@dataclass(frozen=True)
class Reports(Sum):
    """The sum of reports of Prio3: of integers, labels or categories, with proofs (`SumSettings.task`)."""

    tolerance: Tolerance = field(default_factory=lambda: Tolerance(0.0, 0.0))
    name: ClassVar[str] = "prio3"
    description: ClassVar[str] = (
        "a sum by two aggregators, the server and a further party `helper`, to which clients prove that each number is "
        "in its range: in an average within `sum.clip`, in a vote one label for each point"
    )
    requests: ClassVar[Requests | None] = None
    masked: ClassVar[Sequence[type[Message]]] = (Report,)
    opening_with: ClassVar[Sequence[type[Message]]] = (HelperAggregate,)
    helper_opens: ClassVar[type[Message]] = BatchOpened
    has_helper: ClassVar[bool] = True
    proves: ClassVar[bool] = True
    adds_helpers_noise: ClassVar[bool] = True
    of_integers: ClassVar[bool] = True
    agrees: ClassVar[bool] = False
    sees_all: ClassVar[bool] = False
    tolerates_share: ClassVar[bool] = False
    copies: ClassVar[int] = 80  # as trained, and in shares of 8 bytes a bit, sent and received, with values of 16 bits
    takes: ClassVar[Sequence[Step]] = STEPS
    learned: ClassVar[Mapping[str, str]] = {"helper": "with prio3: whose reports there are, and which are refused"}
    uses: ClassVar[Sequence[str]] = ("protocol.identity", *helper.OF_HELPER)

    def integers(self, length: int, most: int, *, based: bool = False) -> Task:
        return Task("integers", (length, most), based)

    def labels(self, points: int, classes: int) -> Task:
        return Task("votes", (points, classes))

    def category(self, categories: int) -> Task:
        return Task("category", (categories,))

    def false(self, vector: Ring, wanted: NDArray[np.int64] | None, quantised: Quantised) -> FalseVector:
        """A report whose proof fails, if a number is out of range."""
        added = np.ones(1, np.uint64) if wanted is None else out_of_range(wanted, vector, quantised.bits)
        return FalseVector(vector, added)

    def opening(self, called: int, least: int, signing: int | None = None) -> Opening:
        return Opening(least, opens=lambda joined, left: float(left >= least), masks=False)

    def waits(self, tables: Any) -> int:
        return 0

    def waits_among(self, clients: int) -> int:
        return WAITS

    def payloads(self, tables: Any, among: Among) -> Mapping[str, int]:
        """The bytes of one batch of all clients of `among`; those that are `silent` send empty reports."""
        task, clients, signature = among.task, len(among.names), _signature_bytes(tables)
        prio3 = task.prio3
        part = _BOUND_BYTES + prio3.nonce_bytes + prio3.public_share_bytes + prio3.prepare_share_bytes
        part += prio3.input_share_bytes(HELPER_SHARE) + SEALING_BYTES
        key, signatures = KEY_BYTES + signature, clients * signature
        titles = sum(len(f"{name}#1") - _BOUND_BYTES for name in among.names) if signature else 0
        return {
            "BatchOpened": prio3.verify_key_bytes + task.based * BASIS_BYTES,
            "HelperKey": key,
            "ReportsWanted": (clients + among.silent) * key,
            "Report": clients * task.report_bytes + signatures,
            "AggregationJob": clients * part + signatures + titles,
            "AggregationJobAnswer": clients * prio3.prepare_message_bytes,
            "AggregateShareWanted": CHECKSUM_BYTES,
            "HelperAggregate": prio3.aggregate_share_bytes,
        }

    def masked_words(self, quantised: Quantised | None) -> tuple[int, int]:
        """Those of elements of Field64, nearly."""
        return WHOLE, 1 << WHOLE

    async def join(self, me: Client, deadline: float, called: int) -> Group:
        return Group((), {}, {})

    async def gather(self, me: Server, names: Sequence[str], least: int, deadline: float, called: int) -> Group:
        return Group(tuple(names), {}, {})

    # A client

    async def client(self, me: Client, vector: Any, group: Group, settings: SumSettings) -> None:
        """Send a report of `vector`, in the form that the task's circuit encodes, or of a `FalseVector`.

        The report is empty for None. Raises Withdrawn for a vector that the task does not allow.
        """
        measurement, added = vector if isinstance(vector, FalseVector) else (vector, None)
        wanted = await me.recv(ReportsWanted, me.server, 2 * settings.deadline)
        with me.step("report.shard"):
            sent = Report(b"", b"", b"", b"")
            if measurement is not None:
                if me.world.hollow is None:
                    _check_own(me, settings.task, measurement)
                batch, entropy = Batch.of(me, settings.task, settings.basis), me.entropy("report")
                nonce, rand = entropy.bytes(batch.prio3.nonce_bytes), entropy.bytes(batch.prio3.rand_bytes)
                pair, bound = KeyPair.generate(me.entropy("report key")), _bound(batch, me.name)
                work = {"prio3.shard": settings.task.elements, "x25519.keygen": 1, "x25519.agree": 1}
                with values_of(me, me.server, "ReportsWanted"):
                    key = await _examined(me, wanted, batch, self.identities)
                    arguments = batch, measurement, nonce, rand, added, pair, key, bound
                    nonce, public_share, own, sealed = await me.compute(work, _shard, *arguments)
                if self.identities is not None:
                    sealed += await self.identities.sign(me, _SIGNED_REPORT, 0, bound, nonce, public_share, sealed)
                sent = Report(nonce, public_share, own, sealed)
                release(me, "report", sent.public_share)
            me.send(me.server, sent)

    # The server, which is the leader

    async def total(self, me: Server, names: Sequence[str], settings: SumSettings) -> Total:
        try:
            return await self.server(me, await self.gather(me, names, 0, 0.0, settings.called), settings)
        except Abort as abort:
            me.send(HELPER, Dismissed(f"the batch is over: {abort}", aborted=False))
            raise

    async def server(self, me: Server, group: Group, settings: SumSettings) -> Total:
        task, deadline, basis, noise = settings.task, settings.deadline, settings.basis, settings.noise
        batch, least, signed = Batch.of(me, task, basis), self.least_of(settings), self.identities is not None
        with me.step("report.keys"):
            verify_key = me.entropy("verification key").bytes(batch.prio3.verify_key_bytes)
            me.send(HELPER, BatchOpened(verify_key, basis))
            opened: HelperKey = await from_helper(me, HelperKey, deadline)
            me.broadcast(group.names, ReportsWanted(opened.public_key, opened.incarnation))
        with me.step("report.prepare"):
            sent = await _reports(me, group.names, batch, deadline, SIGNATURE_BYTES * signed)
            require(len(sent), "clients with reports", least)
            work = {"prio3.prepare": task.elements * len(sent)}
            found = await me.compute(work, _prepare, batch, verify_key, list(sent.values()))
            held = dict(zip(sent, found, strict=True))
            _leave_out(me, {name: one.problem for name, one in held.items() if one.problem})
            held = {name: one for name, one in held.items() if not one.problem}
            require(len(held), "clients with valid reports", least)
            names = {name: _title(me, name) if signed else _bound(batch, name) for name in held}
            parts = [
                HelperPart(bound, sent[name].nonce, sent[name].public_share, sent[name].helper_share,
                           held[name].prepare_share)
                for name, bound in names.items()
            ]  # fmt: skip
            me.send(HELPER, AggregationJob(parts))
            answer: AggregationJobAnswer = await from_helper(me, AggregationJobAnswer, deadline)
            if not len(answer.messages) == len(answer.refused) == len(held):
                raise Abort("the helper answered for other reports than it was sent")
            work = {"ring.add": task.elements * len(held)}
            states = list(held.values())
            own, refused = await me.compute(work, aggregated, batch, states, answer.messages, answer.refused)
            problems = dict(zip(held, refused, strict=True))
            _leave_out(me, {name: problem for name, problem in problems.items() if problem})
            accepted = tuple(name for name, problem in problems.items() if not problem)
            require(len(accepted), "clients with valid reports", least)
        with me.step("report.collect"):
            me.once(MASKED)
            if not me.once("report.collect"):
                raise Abort("the sum of round {number} was asked for before", number=me.round)
            late = [sent[name].nonce for name, by_helper in zip(held, answer.refused, strict=True)
                    if problems[name] and not by_helper]  # fmt: skip
            checksum = checksum_of([sent[name].nonce for name in accepted])
            wanted, other = AggregateShareWanted(len(accepted), checksum, late), b""
            own = await noised_shares.with_noise(me, batch, own, noise)
            me.send(HELPER, wanted)
            with suppress(NoAnswer):
                other = b"" if noise is None else (await me.recv(HelperAggregate, HELPER, deadline)).share
            if noise is not None and not other:  # the helper has its noisy share on its disk
                me.send(HELPER, BatchOpened(verify_key, basis))
                me.send(HELPER, wanted)
            other = other or (await from_helper(me, HelperAggregate, deadline)).share
            arguments = batch, own, other, len(accepted), *(() if noise is None else (noise,))
            total = await me.compute({"ring.add": task.elements}, unsharded, *arguments)
            if total is None:
                raise Abort("the helper's share of the sum is malformed")
        return Total(accepted, total.astype(np.uint64), 0)

    # The helper

    async def serve(self, me: SumHelper, opened: Any, settings: SumSettings) -> None:
        """Serve one batch; if its noisy share was released before, send the same share again."""
        noise = settings.noise
        if noise is not None and me.disk.get(_RELEASED, 0) == me.round:
            await self._again(me, settings)
            return
        with me.step("report.keys"):
            with values_of(me, me.server, "BatchOpened"):
                if len(opened.verify_key) != Prio3.verify_key_bytes or len(opened.basis) not in (0, BASIS_BYTES):
                    raise ValueError("a batch needs a key of 32 bytes, and a basis of as many or none")
                batch = Batch.of(me, settings.task, opened.basis)
            pair = await me.compute({"x25519.keygen": 1}, KeyPair.generate, me.entropy("batch"))
            key = pair.public
            if self.identities is not None:
                key += await self.identities.sign(me, _SIGNED_KEY, 0, key, batch.context)
            me.send(me.server, HelperKey(key, me.incarnation))
        job = await me.recv(AggregationJob, me.server, 3 * settings.deadline)
        with me.step("report.prepare"):
            parts, problems = job.reports, [""] * len(job.reports)
            if self.identities is not None:
                parts, problems = await self._signed(me, batch, job.reports, self.identities)
            taken = set(_taken(me))
            for place, part in enumerate(parts):
                problems[place] = problems[place] or ("its nonce was used before" if part.nonce in taken else "")
                taken.add(part.nonce)
            _take(me, [part.nonce for part, problem in zip(parts, problems, strict=True) if not problem])
            work = {"prio3.prepare": batch.task.elements * len(parts), "x25519.agree": len(parts)}
            arguments = batch, opened.verify_key, pair, parts, problems
            held, messages, refused = await me.compute(work, _serve_job, *arguments)
            me.send(me.server, AggregationJobAnswer(messages, refused))
        wanted = await me.recv(AggregateShareWanted, me.server, 2 * settings.deadline)
        with me.step("report.collect"):
            out = frozenset(wanted.left_out)
            kept = [
                "the server leaves it out" if part.nonce in out else problem
                for part, problem in zip(job.reports, refused, strict=True)
            ]
            nonces = [part.nonce for part, problem in zip(job.reports, kept, strict=True) if not problem]
            if problem := self._problem(me, settings, wanted, nonces, opened.basis):
                me.refuse(f"release its share of the sum: {problem}")
                raise BadValues(f"AggregateShareWanted from {me.server}: {problem}")
            me.disk[_RELEASED] = me.round
            if opened.basis:
                me.disk[_BASES] = [*me.disk.get(_BASES, ()), opened.basis]
            work = {"ring.add": batch.task.elements * len(nonces)}
            share, _ = await me.compute(work, aggregated, batch, held, messages, kept)
            share = await noised_shares.with_noise(me, batch, share, noise)
            if noise is not None:
                noised_shares.keep(me, wanted, share)
            me.send(me.server, HelperAggregate(share))

    async def _again(self, me: SumHelper, settings: SumSettings) -> None:
        """Send the noisy share that is stored for this batch again, byte for byte, if asked for the same reports."""
        wanted = await me.recv(AggregateShareWanted, me.server, 2 * settings.deadline)
        with me.step("report.collect"):
            me.send(me.server, HelperAggregate(noised_shares.kept(me, wanted, me.server)))

    async def _signed(
        self, me: SumHelper, batch: Batch, sent: Sequence[HelperPart], identities: Identities
    ) -> tuple[list[HelperPart], list[str]]:
        """The reports with their signatures removed, and for each the reason to refuse it, "" if it is accepted.

        The first report of each client is accepted, if its signature verifies.
        """
        parts, refused, places, claims = [], [""] * len(sent), dict[str, int](), dict[str, Claim]()
        for place, one in enumerate(sent):
            title = bytes(one.bound).decode("utf-8", "replace")
            name = title.rpartition("#")[0]
            bound, share = _bound(batch, name), one.helper_share[:-SIGNATURE_BYTES]
            parts.append(HelperPart(bound, one.nonce, one.public_share, share, one.prepare_share))
            if name in ("", me.name, me.server):
                refused[place] = "it has no client's name"
            elif name in places:
                refused[place] = "another report of the same client is in the batch"
            else:
                places[name] = place
                signature = one.helper_share[-SIGNATURE_BYTES:]
                claims[name] = Claim(title, (bound, one.nonce, one.public_share, share), signature)
        for name, problem in (await identities.problems(me, _SIGNED_REPORT, 0, claims)).items():
            refused[places[name]] = problem
        return parts, refused

    def _problem(
        self, me: Party, settings: SumSettings, wanted: AggregateShareWanted, nonces: Sequence[bytes], basis: bytes
    ) -> str:
        """The reason not to release what is `wanted` of a batch with the accepted `nonces`; "" if there is none."""
        if me.disk.get(_RELEASED, 0) >= me.round:
            return f"that of batch {me.round} was released before"
        if basis and basis in me.disk.get(_BASES, ()):
            return "a batch with the same basis was released before"
        if len(nonces) < (least := self.least_of(settings)):
            return f"{len(nonces)} reports are fewer than {least}"
        if wanted.count != len(nonces) or wanted.checksum != checksum_of(nonces):
            return f"{wanted.count} reports are not those that it has accepted"
        return ""


# What a client computes


def _check_own(me: Any, task: Task, measurement: Any) -> None:
    """Raise Withdrawn for a `measurement` that no report of the `task` can have."""
    try:
        task.prio3.circuit.encode(measurement)
    except ValueError as error:
        me.refuse(f"send a report: {error}")
        raise Withdrawn(str(error)) from None


async def _examined(me: Any, wanted: ReportsWanted, batch: Batch, identities: Identities | None) -> bytes:
    """The helper's public key. With `identities`, raises ValueError unless the helper has signed it."""
    if identities is None:
        return wanted.helper_key
    key, signature = parted(wanted.helper_key)
    claim = Claim(f"{HELPER}#{wanted.incarnation}", (key, batch.context), signature)
    if problems := await identities.problems(me, _SIGNED_KEY, 0, {HELPER: claim}):
        raise ValueError(problems[HELPER])
    return key


def _bound(batch: Batch, name: str) -> bytes:
    """The bytes that bind the report of the client `name` to the batch: a hash, which has the same length for all."""
    return hashlib.sha256(b"tacit report/" + batch.context + name.encode()).digest()


_FALSE = b"false report"
"""The token of a hollow report that is refused."""


def _hollow_shard(
    batch: Batch, measurement: Any, nonce: bytes, rand: bytes, added: NDArray[np.uint64] | None, *_: Any
) -> tuple[bytes, ...]:
    prio3 = batch.prio3
    size = prio3.input_share_bytes(HELPER_SHARE) + SEALING_BYTES
    sealed = blank(size) if added is None else Blank(size, _FALSE)
    return nonce, blank(prio3.public_share_bytes), blank(prio3.input_share_bytes(LEADER)), sealed


@hollow(_hollow_shard)
def _shard(
    batch: Batch, measurement: Any, nonce: bytes, rand: bytes, added: NDArray[np.uint64] | None,
    pair: KeyPair, helper_key: bytes, bound: bytes,
) -> tuple[bytes, ...]:  # fmt: skip
    measurement = measurement.tolist() if isinstance(measurement, np.ndarray) else measurement
    public_share, (leader_share, helper_share) = batch.prio3.shard(batch.context, measurement, nonce, rand)
    if added is not None:
        leader_share = _false(batch, leader_share, added)
    key = _sealing_key(pair.agree(helper_key), pair.public, helper_key, bound)
    sealed = AESGCM(key).encrypt(bytes(NONCE_BYTES), helper_share, bound + nonce + public_share)
    return nonce, public_share, leader_share, pair.public + sealed


def _false(batch: Batch, share: bytes, added: NDArray[np.uint64]) -> bytes:
    """The leader's `share` with `added` added to its elements, which no honest client would share."""
    field = batch.prio3.field
    size = batch.task.elements * field.size
    more = field.decode(b"".join(int(n).to_bytes(field.size, "little") for n in added))
    return field.encode(field.settle(field.decode(share[:size]) + more)) + share[size:]


def _sealing_key(secret: bytes, ephemeral: bytes, helper_key: bytes, bound: bytes) -> bytes:
    """The AES-GCM key of one sealed share. It seals one message only, with nonce 0."""
    return derive_key(secret, ephemeral + helper_key + bound, "input share", 0, 0, ())


# What the server does with reports


def _title(me: Server, name: str) -> bytes:
    """The name and incarnation under which the client `name` signs."""
    return f"{name}#{me.incarnations[name]}".encode()


async def _reports(
    me: Server, members: Sequence[str], batch: Batch, deadline: float, signature_bytes: int
) -> dict[str, Report]:
    """The reports with content, by client; a missing report, or one with a nonce used before, is left out."""
    taken = _taken(me)

    def checked(name: str, report: Report) -> Report:
        prio3 = batch.prio3
        sizes = (
            (report.nonce, prio3.nonce_bytes),
            (report.public_share, prio3.public_share_bytes),
            (report.leader_share, prio3.input_share_bytes(LEADER)),
            (report.helper_share, prio3.input_share_bytes(HELPER_SHARE) + SEALING_BYTES + signature_bytes),
        )
        if any(len(data) not in ((size,) if report.nonce else (0,)) for data, size in sizes):
            raise ValueError(f"a report has parts of {', '.join(str(size) for _, size in sizes)} bytes, or none")
        return report

    received = await me.collect(Report, members, deadline=deadline)
    sent = understood(me, received.answers, checked)
    missing = [name for name in members if name not in sent]
    me.lose(missing, "its report is missing: the sum goes without it")
    me.dismiss(missing, f"your report did not come within {deadline:g} s")
    sent = {name: report for name, report in sent.items() if report.nonce}
    repeated = _repeated(sent, taken)
    _leave_out(me, dict.fromkeys(repeated, "its nonce was used before"))
    sent = {name: report for name, report in sent.items() if name not in repeated}
    _take(me, [report.nonce for report in sent.values()])
    return sent


def _repeated(sent: Mapping[str, Report], taken: Sequence[bytes]) -> list[str]:
    """The clients whose nonce was taken before, in order."""
    seen, found = set(taken), []
    for name, report in sent.items():
        if report.nonce in seen:
            found.append(name)
        seen.add(report.nonce)
    return found


def _taken(me: Party) -> list[bytes]:
    """The nonces that `me` has taken in this batch, in any of its incarnations."""
    number, nonces = me.disk.get(_TAKEN, (0, []))
    return list(nonces) if number == me.round else []


def _take(me: Party, nonces: Sequence[bytes]) -> None:
    me.disk[_TAKEN] = (me.round, [*_taken(me), *nonces])


def _leave_out(me: Server, problems: Mapping[str, str]) -> None:
    for name, problem in problems.items():
        me.lose([name], f"its report is refused: {problem}")
        me.dismiss([name], f"the round goes on without you: your report is refused: {problem}")


@hollow(lambda batch, key, reports: [Held(None, blank(batch.prio3.prepare_share_bytes)) for _ in reports])
def _prepare(batch: Batch, verify_key: bytes, reports: Sequence[Report]) -> list[Held]:
    return [prepared(batch, verify_key, LEADER, one.nonce, one.public_share, one.leader_share) for one in reports]


# What the helper computes


def _hollow_job(
    batch: Batch, key: bytes, pair: KeyPair, reports: Sequence[HelperPart], fresh: Sequence[str]
) -> tuple[list[Held], list[bytes], list[str]]:
    messages: list[bytes] = []
    problems = list(fresh)
    for place, part in enumerate(reports):
        if getattr(part.helper_share, "token", b"").startswith(_FALSE):
            problems[place] = problems[place] or INVALID_PROOF
        messages.append(b"" if problems[place] else blank(batch.prio3.prepare_message_bytes))
    return [Held() for _ in reports], messages, problems


@hollow(_hollow_job)
def _serve_job(
    batch: Batch, key: bytes, pair: KeyPair, reports: Sequence[HelperPart], fresh: Sequence[str]
) -> tuple[list[Held], list[bytes], list[str]]:
    """For each report the helper's prepare state, its prepare message, and why it is refused, "" if it is not."""
    prio3 = batch.prio3
    held, messages, problems = [], [], []
    for part, problem in zip(reports, fresh, strict=True):
        one, message = Held(problem=problem), b""
        if not problem:
            one = _opened(batch, key, pair, part)
        if one.state is not None:
            try:
                shares = [part.prepare_share, one.prepare_share]
                message = prio3.prepare_shares_to_prepare_message(batch.context, shares)
                prio3.prepare_next(batch.context, one.state, message)
            except InvalidReport as why:
                one, message = Held(problem=str(why)), b""
        held.append(one)
        messages.append(message)
        problems.append(one.problem)
    return held, messages, problems


UNOPENED = "the helper cannot open its share"
"""The problem of a report that is sealed with another key, or for another batch."""


def _opened(batch: Batch, key: bytes, pair: KeyPair, part: HelperPart) -> Held:
    ephemeral, sealed = part.helper_share[:KEY_BYTES], part.helper_share[KEY_BYTES:]
    try:
        secret = _sealing_key(pair.agree(ephemeral), ephemeral, pair.public, part.bound)
        share = AESGCM(secret).decrypt(bytes(NONCE_BYTES), sealed, part.bound + part.nonce + part.public_share)
    except (InvalidTag, ValueError):
        return Held(problem=UNOPENED)
    return prepared(batch, key, HELPER_SHARE, part.nonce, part.public_share, share)
