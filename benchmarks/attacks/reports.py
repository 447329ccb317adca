"""Attacks on counts by two aggregators: by one aggregator alone, by both together, and by dishonest clients."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.benchmarks.attacks.finding import Finding, randomness, share
from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.learning.vectors import decode, encode
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play_out
from tacit.parties.server import Server
from tacit.protocols.cotraining.byzantine import Lie
from tacit.protocols.cotraining.secure_votes import counted, packed
from tacit.protocols.crypto import fixed_point
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair
from tacit.protocols.crypto.vdaf import FIELD64, InvalidReport
from tacit.protocols.crypto.words import Quantised
from tacit.protocols.federated.byzantine import FalseUpdate
from tacit.protocols.federated.proved_averages import out_of_range
from tacit.protocols.identities import SIGNATURE_BYTES, Identities
from tacit.protocols.outcome import Abort
from tacit.protocols.sums import reports
from tacit.protocols.sums.batch import Batch, Task, aggregated, checksum_of, unsharded
from tacit.protocols.values import BadValues
from tacit.sim.compute import Free
from tacit.sim.streams import Entropy
from tacit.sim.world import World

__all__ = [
    "filled_batch", "helper_alone", "leader_alone", "scaled_models", "second_batch", "stuffed_votes",
    "swapped_helper_key",
]  # fmt: skip

_POINTS, _CLASSES = 20, 10
_TASK = Task("votes", (_POINTS, _CLASSES))
_CONTEXT = b"attack"
_DEADLINE = 10.0

Numbers = NDArray[np.float64]


def _shares(
    number: int, added: NDArray[np.uint64] | None = None, task: Task = _TASK, measured: NDArray[Any] | None = None
) -> tuple[NDArray[np.int64], bytes, list[bytes]]:
    """The measurement of one client, by default random labels; its nonce and public share; the leader's and helper's
    shares."""
    labels = randomness("reports", number).integers(_CLASSES, size=_POINTS) if measured is None else measured
    entropy = Entropy.seeded(number, "reports")
    nonce, rand = entropy.bytes(16), entropy.bytes(task.prio3.rand_bytes)
    public, shares = task.prio3.shard(_CONTEXT, labels.tolist(), nonce, rand)
    size = task.elements * FIELD64.size
    if added is not None:
        more = FIELD64.decode(added.astype("<u8").tobytes())
        shares[0] = FIELD64.encode(FIELD64.settle(FIELD64.decode(shares[0][:size]) + more)) + shares[0][size:]
    return labels, nonce + public, shares


def _outputs(nonce_and_public: bytes, shares: list[bytes]) -> list[NDArray[np.object_]]:
    """The numbers (n, C) below the modulus that each aggregator derives from a report."""
    prio3, found = _TASK.prio3, []
    for place, one in enumerate(shares):
        state, _ = prio3.prepare_init(bytes(32), _CONTEXT, place, nonce_and_public[:16], nonce_and_public[16:], one)
        found.append(np.array(FIELD64.to_ints(state.output_share), object).reshape(_POINTS, _CLASSES))
    return found


def _alone(place: int, who: str, quick: bool) -> Finding:
    """The share of labels found from the numbers of one aggregator, and from those of both."""
    trials, right, both = 20 if quick else 100, 0.0, 0.0
    for number in range(trials):
        labels, public, shares = _shares(number)
        seen = _outputs(public, shares)
        right += share(_largest(seen[place]), labels)
        both += share(_largest((seen[0] + seen[1]) % FIELD64.modulus), labels)
    return Finding(
        f"both aggregators' shares; ours is the {who}'s alone",
        f"{who}: each client's labels of public points",
        both / trials,
        right / trials,
        1 / _CLASSES,
        trials * _POINTS,
        remark="the server and the helper together read every vote: they must not collude",
    )


def _largest(values: NDArray[np.object_]) -> NDArray[np.int64]:
    return values.astype(np.float64).argmax(1)


def leader_alone(quick: bool = False) -> Finding:
    """The server reads its shares of votes (docs/howto/prio3.md)."""
    return _alone(0, "server", quick)


def helper_alone(quick: bool = False) -> Finding:
    """The helper reads its shares of votes."""
    return _alone(1, "helper", quick)


class _Reporter(Client):
    """A client that sends a report of `labels`. `known`: the identities that verify the helper's signature, if it
    signs."""

    def __init__(self, world: World, labels: NDArray[np.int64], known: Identities | None) -> None:
        nothing = np.zeros(0, np.int64)
        super().__init__(world, "client/0", Shard(np.zeros((0, 1)), nothing, np.zeros(0, np.bool_), nothing))
        self.labels, self.known = labels, known

    async def main(self) -> None:
        with suppress(BadValues):
            await reports.client(self, _TASK, self.labels, _DEADLINE, identities=self.known)


class _Swapping(Server):
    """A server that shows its own key as the helper's, and reads the labels in the report that it gets."""

    def __init__(self, world: World) -> None:
        super().__init__(world, ["client/0"])
        self.read = np.full(_POINTS, -1)

    async def main(self) -> None:
        pair = KeyPair.generate(self.entropy("false key"))
        self.advance(1, 0)
        self.broadcast(self.clients, reports.ReportsWanted(pair.public + bytes(SIGNATURE_BYTES)[: self.signed], 1))
        sent = await self.collect(reports.Report, self.clients, deadline=_DEADLINE)
        for name, one in sent.answers.items():
            batch = Batch.of(self, _TASK, b"")
            part = reports.HelperPart(reports._bound(batch, name), one.nonce, one.public_share, one.helper_share, b"")
            both = [
                reports._opened(batch, bytes(32), pair, part),
                *reports._prepare(batch, bytes(32), [one]),
            ]
            numbers = [np.array(FIELD64.to_ints(one.state.output_share), object) for one in both if one.state]
            self.read = _largest((np.sum(numbers, axis=0) % FIELD64.modulus).reshape(_POINTS, _CLASSES))

    signed = 0


def _read(number: int, known: Identities | None) -> float:
    """The share of a client's labels that a server reads if it swaps the helper's key."""
    world = World(number, cost=Free())
    labels = randomness("reports", number).integers(_CLASSES, size=_POINTS)
    server = _Swapping(world)
    server.signed = 0 if known is None else SIGNATURE_BYTES
    play_out([server, _Reporter(world, labels, known)])
    return share(server.read, labels)


def swapped_helper_key(quick: bool = False) -> Finding:
    """The server shows its own key as the helper's, and opens both shares. In ours, the helper signs its key."""
    trials = 5 if quick else 20
    weakened, ours = (
        float(np.mean([_read(number, known) for number in range(trials)])) for known in (None, Identities.simulated(1))
    )
    name, sought = "a swapped key of the helper", "server: each client's labels of public points"
    remark = 'ours is protocol.identity = "signed"; without it nothing prevents this'
    return Finding(name, sought, weakened, ours, 0.0, trials * _POINTS, remark=remark)


_LEAST = 5


class _Filling(Server):
    """A server that fills the batch of its one client with reports of its own, and takes their votes off the counts."""

    def __init__(self, world: World, signed: bool) -> None:
        super().__init__(world, ["client/0"])
        self.read, self.signed = np.full(_POINTS, -1), signed

    async def main(self) -> None:
        self.advance(1, 0)
        batch, key = Batch.of(self, _TASK, b""), self.entropy("verification key").bytes(32)
        self.send(HELPER, reports.BatchOpened(key, b""))
        opened = await self.recv(reports.HelperKey, HELPER, _DEADLINE)
        self.broadcast(self.clients, reports.ReportsWanted(opened.public_key, opened.incarnation))
        sent = {**(await self.collect(reports.Report, self.clients, deadline=_DEADLINE)).answers}
        for name in [f"client/{number}" for number in range(1, _LEAST)]:  # each a vote for class 0 at each point
            entropy = self.entropy("own report", name)
            arguments = entropy.bytes(16), entropy.bytes(_TASK.prio3.rand_bytes), None, KeyPair.generate(entropy)
            bound = reports._bound(batch, name)
            nonce, public_share, leader_share, sealed = reports._shard(
                batch, np.zeros(_POINTS, int), *arguments, opened.public_key[:KEY_BYTES], bound
            )
            sealed += bytes(SIGNATURE_BYTES * self.signed)
            sent[name] = reports.Report(nonce, public_share, leader_share, sealed)
        held = dict(zip(sent, reports._prepare(batch, key, list(sent.values())), strict=True))
        parts = [
            reports.HelperPart(f"{name}#1".encode() if self.signed else reports._bound(batch, name),
                               one.nonce, one.public_share, one.helper_share, held[name].prepare_share)
            for name, one in sent.items()
        ]  # fmt: skip
        self.send(HELPER, reports.AggregationJob(parts))
        answer = await self.recv(reports.AggregationJobAnswer, HELPER, _DEADLINE)
        own_share, refused = aggregated(batch, list(held.values()), answer.messages, answer.refused)
        accepted = [one.nonce for one, problem in zip(sent.values(), refused, strict=True) if not problem]
        self.send(HELPER, reports.AggregateShareWanted(len(accepted), checksum_of(accepted), []))
        with suppress(NoAnswer):
            other = await self.recv(reports.HelperAggregate, HELPER, _DEADLINE)
            counts = unsharded(batch, own_share, other.share, len(accepted))
            assert counts is not None
            counts[:, 0] -= len(accepted) - 1
            self.read = counts.argmax(1)


def _read_alone(number: int, known: Identities | None) -> float:
    """The share of a client's labels that a server reads which fills the batch."""
    world = World(number, cost=Free())
    labels = randomness("reports", number).integers(_CLASSES, size=_POINTS)
    server = _Filling(world, known is not None)
    helper = reports.Helper(world, lambda number: _TASK, _LEAST, _DEADLINE, 10 * _DEADLINE, known)
    play_out([server, helper, _Reporter(world, labels, known)])
    return share(server.read, labels)


def filled_batch(quick: bool = False) -> Finding:
    """The server fills a batch with reports of its own, and reads the one that is left. Ours: clients sign reports."""
    trials = 3 if quick else 20
    weakened, ours = (
        float(np.mean([_read_alone(number, known) for number in range(trials)]))
        for known in (None, Identities.simulated(1))
    )
    name, sought = "a batch filled with the server's own reports", "server: each client's labels of public points"
    remark = 'ours is protocol.identity = "signed"; without it nothing prevents this'
    return Finding(name, sought, weakened, ours, 0.0, trials * _POINTS, remark=remark)


class _Repeating(Server):
    """A server that counts all clients, and opens the same round again without the first one."""

    def __init__(self, world: World, clients: int) -> None:
        super().__init__(world, [f"client/{number}" for number in range(clients)])
        self.read = np.full(_POINTS, -1)

    async def main(self) -> None:
        counts = [await self._counted(self.clients), await self._counted(self.clients[1:])]
        first, second = counts
        if first is not None and second is not None:
            self.read = (first - second).argmax(1)

    async def _counted(self, names: Sequence[str]) -> NDArray[np.int64] | None:
        """The counts of the clients `names`; None if the helper does not give its share."""
        self.advance(1, self.attempt + 1)
        with suppress(Abort):
            return (await reports.server(self, names, _TASK, _LEAST, _DEADLINE)).counts
        return None


class _Willing(reports.Helper):
    """A helper that forgets which batches it has released."""

    def _problem(self, *arguments: Any) -> str:
        self.disk.pop(reports._RELEASED, None)
        return super()._problem(*arguments)


class _Again(Client):
    """A client that sends a report of `labels` each time that it is asked; `willing`: also twice in a round."""

    def __init__(self, world: World, name: str, labels: NDArray[np.int64], willing: bool) -> None:
        nothing = np.zeros(0, np.int64)
        super().__init__(world, name, Shard(np.zeros((0, 1)), nothing, np.zeros(0, np.bool_), nothing))
        self.labels, self.willing = labels, willing

    async def main(self) -> None:
        while True:
            with suppress(BadValues, DismissedError):
                try:
                    await reports.client(self, _TASK, self.labels, 2 * _DEADLINE)
                except NoAnswer:
                    return
            if self.willing:
                self.disk.clear()


def _read_by_difference(number: int, willing: bool) -> float:
    """The share of a client's labels that a server reads from two sums of one round."""
    world, clients = World(number, cost=Free()), _LEAST + 1
    labels = randomness("reports", number).integers(_CLASSES, size=(clients, _POINTS))
    server = _Repeating(world, clients)
    kind = _Willing if willing else reports.Helper
    helper = kind(world, lambda number: _TASK, _LEAST, _DEADLINE, 20 * _DEADLINE)
    parties = [_Again(world, name, own, willing) for name, own in zip(server.clients, labels, strict=True)]
    play_out([server, helper, *parties])
    return share(server.read, labels[0])


def second_batch(quick: bool = False) -> Finding:
    """The server opens a round a second time without one client, and reads the client's votes from the difference."""
    trials = 2 if quick else 10
    weakened, ours = (
        float(np.mean([_read_by_difference(number, willing) for number in range(trials)])) for willing in (True, False)
    )
    name, sought = "two counts in one round", "server: each client's labels of public points"
    return Finding(name, sought, weakened, ours, 0.0, trials * _POINTS)


def stuffed_votes(quick: bool = False) -> Finding:
    """A client counts each of its votes a thousand times; a secure sum accepts this, a proof rejects it."""
    trials, by_sum, by_proof = 10 if quick else 50, 0, 0
    for number in range(trials):
        labels, *_ = _shares(number)
        lie = Lie("stuffed", labels, b"", 1000)
        honest = packed((labels + 1) % _CLASSES, _POINTS, _CLASSES)
        try:
            counted(honest + lie.words(packed(labels, _POINTS, _CLASSES), b""), _POINTS, _CLASSES)
            by_sum += 1
        except ValueError:
            pass
        by_proof += _passes(number, lie.added(labels, _CLASSES, b""))
    name = "votes in a secure sum; ours are reports of Prio3"
    return Finding(name, "client: its votes count 1,000 times", by_sum / trials, by_proof / trials, 0.0, trials)


def scaled_models(quick: bool = False) -> Finding:
    """A client scales its update a thousand times, and moves an average by more than its numbers' bound allows."""
    trials, by_sum, by_proof = 10 if quick else 50, 0, 0
    bound, clients, numbers = 0.5, 10, 20
    quantised, before = Quantised(8, bound, clients), encode(np.zeros(numbers))
    false = FalseUpdate("scaled", numbers, 1000, 1)
    task = Task("integers", (numbers, quantised.largest))
    for number in range(trials):
        trained = encode(randomness("scaled", number).normal(0.0, 0.1, numbers))
        sent = decode(false.model(before, trained, "client/0", 1)).astype(np.float64)
        by_sum += bool(np.abs(fixed_point.decode(fixed_point.encode(sent, 32, clients), 32)).max() > 2 * bound)
        clipped = quantised.encode(sent)
        by_proof += _passes(number, out_of_range(quantised, sent, clipped), task, clipped)
    name = "models in a secure sum; ours are reports of Prio3"
    return Finding(name, "client: its update counts 1,000 times", by_sum / trials, by_proof / trials, 0.0, trials)


def _passes(
    number: int, added: NDArray[np.uint64] | None, task: Task = _TASK, measurement: NDArray[Any] | None = None
) -> bool:
    """True if both aggregators accept the client's report, to whose share `added` was added."""
    prio3, (_, public, shares) = task.prio3, _shares(number, added, task, measurement)
    nonce, public = public[:16], public[16:]
    prepared = [prio3.prepare_init(bytes(32), _CONTEXT, i, nonce, public, one) for i, one in enumerate(shares)]
    try:
        message = prio3.prepare_shares_to_prepare_message(_CONTEXT, [one for _, one in prepared])
        for state, _ in prepared:
            prio3.prepare_next(_CONTEXT, state, message)
    except InvalidReport:
        return False
    return True
