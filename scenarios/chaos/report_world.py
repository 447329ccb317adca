"""Counts by two aggregators in miniature, with the production code of clients and one aggregator that lies.

The leader, which is the server, either runs its production code with changed messages (`Lie`), or follows a program of
moves (`Move`), in which it asks clients and the helper in any order and for any sets. Or the helper lies, and the
leader is honest. Both at once are outside the model: together they read every report.

A lying leader forwards the helper's key and forges no reports unless keys and reports are signed: without signatures it
could do both (`tacit.protocols.sums.reports`), and that is no news. Randomness is fresh on each request, as with
``entropy = "os"``, but follows from the seed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
from msgspec import structs

from tacit.parties.client import Client, DismissedError
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play
from tacit.parties.server import Server
from tacit.protocols.crypto.agreement import KeyPair
from tacit.protocols.identities import SIGNATURE_BYTES, Identities, is_signed
from tacit.protocols.outcome import Abort, Overtaken, Withdrawn
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.sums import reports
from tacit.protocols.sums.batch import Batch, Held, Task, checksum_of
from tacit.protocols.sums.refusal import may_answer
from tacit.protocols.sums.sum import SumHelper, SumSettings
from tacit.protocols.values import BadValues
from tacit.scenarios.chaos.report_view import HelperView, LeaderView
from tacit.scenarios.chaos.server_lies import Lie, Move, Program
from tacit.scenarios.chaos.server_world import _NOTHING, Called, FreshWorld, Miniature, Outcome
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.compute import Free
from tacit.sim.streams import generator
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = ["BY_HELPER", "KINDS", "batches_of", "is_of_reports", "perform_reports", "signs"]

KINDS = ("prio3 votes", "prio3")
_SIGNED = ", signed"

BY_HELPER = ("HelperKey", "AggregationJobAnswer", "HelperAggregate")
"""The types of messages that the helper sends to the leader."""

_DEADLINE, _SHORT = 100.0, 1.0
_ROUNDS, _MOST_ROUNDS = 2, 4
_TASKS = {"prio3 votes": Task("votes", (1, 3)), "prio3": Task("integers", (1, 3), based=True)}


def is_of_reports(miniature: Miniature) -> bool:
    """True if the sum is of reports to two aggregators."""
    return miniature.kind.removesuffix(_SIGNED) in KINDS


def signs(miniature: Miniature) -> bool:
    """True if the helper signs its keys, and clients their reports."""
    return miniature.kind.endswith(_SIGNED)


def batches_of(scenario: Scenario, clients: int) -> list[Miniature]:
    """The batches of reports of `scenario` in miniature, among at most a number of `clients`."""
    found = []
    for one in PROTOCOLS[scenario.protocol.name].sums(scenario, clients):
        if one.kind == reports.Reports.name:
            kind = KINDS[one.value_bits is not None] + _SIGNED * is_signed(scenario)
            fewest = max(2, min(clients - 1, scenario.protocol.min_clients or 2))
            found.append(Miniature(kind, clients, fewest, None, scenario.seed))
    return found


def perform_reports(miniature: Miniature, program: Program) -> Outcome:
    """Run `program` as one of the aggregators, and judge what it has received."""
    view, sent, failure = _performed(miniature, program, 0)
    twin, _, _ = _performed(miniature, program, 1)
    known, relations, opened, guessed = view.judged(twin.keys, miniature.min_clients)
    shown = tuple((kind, len(every), False, False) for kind, every in sent.items())
    return Outcome(known, failure, relations, opened, shown, guessed)


def _performed(
    miniature: Miniature, program: Program, drawing: int
) -> tuple[LeaderView | HelperView, dict[str, list[Message]], str]:
    world = FreshWorld(miniature.seed, cost=Free(), hashed=False)
    world.drawing = drawing
    task = _TASKS[miniature.kind.removesuffix(_SIGNED)]
    one = reports.Reports(identities=Identities.simulated(miniature.seed) if signs(miniature) else None)
    clients = [_Reporter(world, name, miniature, task, one) for name in miniature.names]
    lies = [one for one in program if isinstance(one, Lie)]
    moves = [one for one in program if isinstance(one, Move)]
    by_helper = [one for one in lies if one.message in BY_HELPER]
    helper = _Helper(world, one, _settings(miniature, task), by_helper)
    machines = {one.name: one for one in (*clients, helper)}
    others = [one for one in lies if one not in by_helper]
    scripted = _Scripted(world, miniature, task, moves, machines) if moves else None
    server = scripted or _Leader(world, miniature, task, others, one)
    parties = [server, helper, *clients]
    view = (HelperView if by_helper else LeaderView)(world, parties, server.name)
    failure = ""
    try:
        world.loop.run(play(parties, server))
    except Exception as error:
        if moves and server.failure is not None:
            raise
        failure = f"{type(error).__name__}: {error}"
    finally:
        world.loop.finish()
    few = next((one for one in server.sums if len({*one}) < server.least), None)
    if few is not None and not failure:
        failure = f"a sum of {len(few)} clients is a result"
    return view, server.sent | helper.sent, failure


def _basis(task: Task, model: int) -> bytes:
    """The digest of what the measurements are made from: votes have none."""
    return model.to_bytes(reports.BASIS_BYTES, "big") if task.based else b""


def _settings(miniature: Miniature, task: Task, model: int = 1) -> SumSettings:
    """The settings of a batch of reports made from the model with this number."""
    limits = miniature.clients, miniature.min_clients, _DEADLINE
    return SumSettings(task.elements, *limits, task=task, basis=_basis(task, model))


class _Reporter(Client):
    """A client that joins every round that is announced, and sends a report of its measurement for the model."""

    def __init__(
        self, world: World, name: str, miniature: Miniature, task: Task, one: reports.Reports, **access: Any
    ) -> None:
        super().__init__(world, name, _NOTHING, **access)
        self.miniature, self.task, self.sum = miniature, task, one
        self.made_from = 0

    async def main(self) -> None:
        while True:
            self.rest(True)
            try:
                call = await self.recv(Called, self.server, 1000 * _DEADLINE)
            except DismissedError:
                continue
            except NoAnswer:
                return
            self.rest(False)
            settings = _settings(self.miniature, self.task, call.model)
            if (basis := settings.basis) and not may_answer(self, basis):
                continue
            self.made_from = call.model if basis else self.round  # equal votes of two rounds are outside the model
            random = generator(self.miniature.seed, "measurement", self.name, self.made_from)
            measurement = random.integers(self.task.parameters[-1], size=self.task.parameters[0])
            with suppress(DismissedError, NoAnswer, BadValues, Overtaken, Withdrawn):
                await self.sum.contribute(self, partial(np.copy, measurement), settings)


class _Lies:
    """Changes the messages of a party by `lies`. `sent` has the messages before the changes, by type."""

    def __init__(self, lies: Sequence[Lie]) -> None:
        self.lies = lies
        self.sent: dict[str, list[Message]] = {}

    def shown(self, receivers: Sequence[str], message: Message) -> list[tuple[str, Message]]:
        """The messages that are sent in place of one."""
        kind = type(message).__name__
        every = self.sent.setdefault(kind, [])
        every.append(message)
        shown: list[tuple[str, Message]] = [(name, message) for name in receivers]
        for lie in self.lies:
            if (lie.message, lie.occurrence) != (kind, len(every)):
                continue
            if lie.kind == "skip":
                shown = [(name, one) for name, one in shown if name != f"client/{lie.client}"]
            elif lie.kind == "twice":
                shown += [(name, message) for name in receivers]
            elif lie.kind == "replay" and len(every) > 1:
                shown += [(name, every[-2]) for name in receivers]
            elif lie.kind == "stale":
                shown = [(name, every[0]) for name, _ in shown]
            elif lie.kind in _CHANGES:
                shown = [(name, _CHANGES[lie.kind](one)) for name, one in shown]
        return shown


def _changed(message: Message) -> Message:
    """The message with one bit of its first bytes, or of each entry in its first list, turned."""
    for field in message.__struct_fields__:
        value = getattr(message, field)
        if isinstance(value, bytes) and value:
            return structs.replace(message, **{field: bytes([value[0] ^ 1]) + value[1:]})
        if isinstance(value, int):
            return structs.replace(message, **{field: value + 1})
        if isinstance(value, list) and value and isinstance(value[0], bytes):
            return structs.replace(message, **{field: [bytes(n ^ 1 for n in one) for one in value]})
    return message


def _fewer(message: Message) -> Message:
    """The message without the last entry of each list."""
    lists = {key: value[:-1] for key in message.__struct_fields__ if isinstance(value := getattr(message, key), list)}
    return structs.replace(message, **lists)


def _double(message: Message) -> Message:
    """The message with the first entry of each list a second time."""
    fields = message.__struct_fields__
    lists = {key: [*old, *old[:1]] for key in fields if isinstance(old := getattr(message, key), list)}
    return structs.replace(message, **lists)


_CHANGES = {"other": _changed, "fewer": _fewer, "double": _double}


class _Yielding(reports.Reports):
    """The sum with a helper that releases whatever it is asked for."""

    def _problem(self, *arguments: Any) -> str:
        return ""


class _Helper(SumHelper):
    """The production helper with messages changed by `lies`."""

    def __init__(
        self, world: World, one: reports.Reports, settings: SumSettings, lies: Sequence[Lie], **access: Any
    ) -> None:
        played = _Yielding(identities=one.identities) if lies else one
        super().__init__(world, played, lambda number: settings, 1000 * _DEADLINE, **access)
        self._changes = _Lies(lies)

    @property
    def sent(self) -> dict[str, list[Message]]:
        """The messages before the changes, by type."""
        return self._changes.sent

    def send_each(self, receivers: Iterable[str], message: Message) -> None:
        for name, one in self._changes.shown((*receivers,), message):
            super().send_each((name,), one)


class _Leader(Server):
    """The production leader with messages changed by `lies`. `sums` has the clients of each result."""

    def __init__(
        self, world: World, miniature: Miniature, task: Task, lies: Sequence[Lie], one: reports.Reports
    ) -> None:
        super().__init__(world, miniature.names)
        self.miniature, self.task, self.least, self._changes = miniature, task, miniature.min_clients, _Lies(lies)
        self.sum = one
        self.sums: list[tuple[str, ...]] = []
        self.model = 1

    @property
    def sent(self) -> dict[str, list[Message]]:
        """The messages before the changes, by type."""
        return self._changes.sent

    def send_each(self, receivers: Iterable[str], message: Message) -> None:
        for name, one in self._changes.shown((*receivers,), message):
            super().send_each((name,), one)

    def call(self, number: int) -> None:
        """Call all clients to round `number`."""
        self.advance(number, 0)
        self.advance(number, self.attempt + 1)
        super().send_each(self.clients, Called(self.model))

    async def main(self) -> None:
        for number in range(1, _ROUNDS + 1):
            self.call(number)
            try:
                total = await self.sum.total(self, self.clients, _settings(self.miniature, self.task, self.model))
            except Abort as abort:
                self.dismiss(self.clients, str(abort))
                continue
            self.sums.append(total.contributors)
            self.model += 1


class _Scripted(_Leader):
    """A leader that makes the `moves`. It keeps every report, and prepares any of them with the production code."""

    def __init__(
        self, world: World, miniature: Miniature, task: Task, moves: Sequence[Move], machines: dict[str, Any]
    ) -> None:
        super().__init__(world, miniature, task, (), reports.Reports())
        self.moves, self._machines = moves, machines
        self._key, self._opened = b"", reports.HelperKey(b"", 0)
        self._reports: dict[str, list[reports.Report]] = {name: [] for name in self.clients}
        self._accepted: dict[str, bytes] = {}  # the nonces of the latest job that the helper accepted
        self._stamp = (0, 0)  # the round and attempt of the helper's batch

    async def main(self) -> None:
        self.call(1)
        for move in self.moves:
            await getattr(self, f"move_{move.kind}")([self.clients[number] for number in move.names])

    @property
    def batch(self) -> Batch:
        """The batch as the leader states it now."""
        return Batch.of(self, self.task, _basis(self.task, self.model))

    @contextmanager
    def _in_batch(self) -> Iterator[None]:
        """Inside this context the leader is in the round and attempt of the helper's batch."""
        now = self.round, self.attempt
        self.round, self.attempt = self._mailbox.stamp = self._stamp
        yield
        self.round, self.attempt = self._mailbox.stamp = now

    async def move_batch(self, names: list[str]) -> None:
        self._stamp = self.round, self.attempt
        self._key = self.entropy("verification key").bytes(self.task.prio3.verify_key_bytes)
        self.send(HELPER, reports.BatchOpened(self._key, _basis(self.task, self.model)))
        found = await self.collect(reports.HelperKey, [HELPER], deadline=_SHORT)
        self._opened = found.answers.get(HELPER, self._opened)

    async def move_ask(self, names: list[str]) -> None:
        await self._ask(names, self._opened.public_key, self._opened.incarnation)

    async def move_swap(self, names: list[str]) -> None:
        own = KeyPair.generate(self.entropy("own key")).public
        await self._ask(names, own + self._opened.public_key[len(own) :], self._opened.incarnation)

    async def _ask(self, names: list[str], key: bytes, incarnation: int) -> None:
        self.broadcast(names, reports.ReportsWanted(key, incarnation))
        found = await self.collect(reports.Report, names, deadline=_SHORT)
        for name, report in found.answers.items():
            self._reports[name].append(report)

    async def move_job(self, names: list[str]) -> None:
        await self._job([(name, every[-1]) for name in names if (every := self._reports[name])])

    async def move_first(self, names: list[str]) -> None:
        await self._job([(name, every[0]) for name in names if (every := self._reports[name])])

    async def move_all(self, names: list[str]) -> None:
        await self._job([(name, report) for name in names for report in self._reports[name]])

    async def move_own(self, names: list[str]) -> None:
        """Ask about the latest reports of `names` and as many of the leader's own under other clients' names."""
        made = [(name, self._made(name)) for name in self.clients if name not in names]
        await self._job([(name, every[-1]) for name in names if (every := self._reports[name])] + made)

    def _made(self, name: str) -> reports.Report:
        entropy, batch = self.entropy("own report", name), self.batch
        nonce, rand = entropy.bytes(batch.prio3.nonce_bytes), entropy.bytes(batch.prio3.rand_bytes)
        pair, key = KeyPair.generate(entropy), self._opened.public_key[:32]
        measurement = np.zeros(self.task.parameters[0], np.int64)
        bound = reports._bound(batch, name)
        nonce, public, share, sealed = reports._shard(batch, measurement, nonce, rand, None, pair, key, bound)
        return reports.Report(nonce, public, share, sealed + bytes(SIGNATURE_BYTES * signs(self.miniature)))

    async def _job(self, sent: Sequence[tuple[str, reports.Report]]) -> None:
        with self._in_batch():
            await self._send_job(sent)

    async def _send_job(self, sent: Sequence[tuple[str, reports.Report]]) -> None:
        batch = self.batch
        held: list[Held] = reports._prepare(batch, self._key, [report for _, report in sent])
        parts = [
            reports.HelperPart(
                reports._title(self, name) if signs(self.miniature) else reports._bound(batch, name),
                report.nonce, report.public_share, report.helper_share, one.prepare_share,
            )
            for (name, report), one in zip(sent, held, strict=True) if not one.problem
        ]  # fmt: skip
        self.send(HELPER, reports.AggregationJob(parts))
        found = await self.collect(reports.AggregationJobAnswer, [HELPER], deadline=_SHORT)
        if answer := found.answers.get(HELPER):
            able = [one for one, state in zip(sent, held, strict=True) if not state.problem]
            self._accepted = {
                f"{place}/{name}": report.nonce
                for place, ((name, report), problem) in enumerate(zip(able, answer.refused, strict=True))
                if not problem
            }

    async def move_share(self, names: list[str]) -> None:
        """Ask for the share of the accepted reports of `names`; the others are left out."""
        wanted = [nonce for name, nonce in self._accepted.items() if name.partition("/")[2] in names]
        out = [nonce for nonce in self._accepted.values() if nonce not in wanted]
        with self._in_batch():
            self.send(HELPER, reports.AggregateShareWanted(len(wanted), checksum_of(wanted), out))
            await self.collect(reports.HelperAggregate, [HELPER], deadline=_SHORT)

    async def move_again(self, names: list[str]) -> None:
        """Call the clients once more to the same round, without a new batch."""
        self.advance(self.round, self.attempt + 1)
        self.broadcast(names, Called(self.model))

    async def move_reopen(self, names: list[str]) -> None:
        self.dismiss(self.clients, "the round is opened once more")
        self.call(self.round)

    async def move_next(self, names: list[str]) -> None:
        self.model = min(self.model + 1, _MOST_ROUNDS)
        await self.move_stay(names)

    async def move_back(self, names: list[str]) -> None:
        self.model = 1
        await self.move_stay(names)

    async def move_stay(self, names: list[str]) -> None:
        self.dismiss(self.clients, "the next round begins")
        self.call(min(self.round + 1, _MOST_ROUNDS))

    async def move_crash(self, names: list[str]) -> None:
        """The machines of `names` fail and come back; without names the helper's."""
        for name in names or [HELPER]:
            self._machines[name].device.crash()
            self._machines[name].device.rejoin()
        await self.world.loop.hold(_SHORT)
