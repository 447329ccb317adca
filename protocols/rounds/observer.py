"""Observes rounds of any kind of learning: the losses, and the end of the run."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.sets import Dataset
from tacit.parties.data.splits import Shard
from tacit.parties.device import Device
from tacit.parties.life import Present
from tacit.parties.server import Loss, Server
from tacit.protocols.experiment.experiment import Parts
from tacit.protocols.experiment.simulated import (
    SHOWN,
    Ended,
    Ending,
    ResultFields,
    Round,
    Simulated,
    Strike,
    counting,
    more_than,
)
from tacit.protocols.outcome import Reason, server_lost_at
from tacit.protocols.privacy.spent import Releasing, Spending, Spent, nothing_released
from tacit.protocols.rounds.rounds import SERVER_LOST, CalledClient, Record, RoundsClient, RoundsServer
from tacit.sim.faults import Fault, Fired, MessageFault, PartyFault
from tacit.sim.trace import Event
from tacit.sim.world import World

__all__ = [
    "EndingsObserver", "HeldRound", "Points", "RoundsObserver", "every_client_lost", "known_points", "reported",
    "returned", "testing_points",
]  # fmt: skip

Points = tuple[NDArray[np.generic], NDArray[Any]]


class HeldRound(Round, frozen=True, kw_only=True):
    """The results of one round of learning. `cohort`: the clients called, `problem`: why the round was lost.

    `figures`: the names of the numeric fields, which are None if not measured.

    Some of the `lost` clients may have answered: they went down afterwards, or were back before the end.
    """

    figures: ClassVar[tuple[str, ...]] = ()
    cohort: tuple[str, ...]
    problem: str

    @property
    def counted(self) -> tuple[str, ...]:
        """The clients whose answers are in the result of the round."""
        raise NotImplementedError(f"{type(self).__name__} does not say whose answers it is made of")

    def numbers(self) -> tuple[str, ...]:
        """The cells of its `figures`."""
        values = (getattr(self, name) for name in self.figures)
        return tuple("-" if value is None else f"{value:.4f}" for value in values)

    def losses(self) -> str:
        """The lost clients; those whose answers are in the result are marked."""
        shown = [f"{name} (answered)" if name in self.counted else name for name in self.lost[:SHOWN]]
        return ", ".join(shown) + more_than(shown, self.lost) or "nobody"


class _Bare(NamedTuple):
    """A round without results, reduced to the facts on which losses and the outcome depend."""

    round: int
    began: float
    cohort: tuple[str, ...]
    counted: tuple[str, ...]
    problem: str


def _bare(record: Record) -> Any:
    return _Bare(record.number, record.began, record.cohort, record.counted, record.lost)


H = TypeVar("H", bound=HeldRound)
R = TypeVar("R", bound=Record)


_EVERY_CLIENT_LOST = (
    "every client was lost: {count} of {clients} at {step} in round {round} ({action}); raise protocol.deadline if "
    "clients are only slow, and let crashed ones return with back_after"
)


def every_client_lost(lost: Sequence[Loss], clients: Collection[str]) -> Reason:
    """The reason of a run that lost all of its `clients`: where most of them were `lost`, and what to do.

    Of a client that is missing from several rounds up to the last, the loss in the first of these counts.
    """
    last = dict[str, Loss]()
    for one in sorted(lost, key=lambda loss: (-loss.round, -loss.time)):
        if one.party in clients and (one.party not in last or last[one.party].round - one.round <= 1):
            last[one.party] = one
    if not last:
        return Reason("every client was lost")
    ((step, action, number), count), *_ = Counter((o.step, o.action, o.round) for o in last.values()).most_common(1)
    return Reason(
        _EVERY_CLIENT_LOST, count=count, clients=len(clients), step=step or "the start", round=number, action=action
    )


# Which faults struck whom, and when: read off the world of a run.


class FaultRecord:
    """The effects of a run's faults, read from its world; `faults` are the expanded faults of each [[fault]]."""

    def __init__(self, world: World, faults: Sequence[tuple[Fault, ...]]) -> None:
        self._world, self._faults = world, faults
        self._falls: dict[str, list[Fired]] = {}
        self._known = 0  # of those that have struck, those that are in it

    def strikes(self) -> list[Strike]:
        """The faults that have struck so far, in order."""
        number_of = {id(fault): number for number, made in enumerate(self._faults) for fault in made}
        return [
            Strike(number_of.get(id(f.fault), -1), f.fault.kind, f.time, f.party, f.peer, f.step, f.message)
            for f in self._world.faults.fired
        ]

    def silent(self) -> dict[int, str]:
        """Each [[fault]] that has never struck, by its number, with the reason in words."""
        struck = {strike.fault for strike in self.strikes()}
        return {number: _missed(made) for number, made in enumerate(self._faults) if number not in struck}

    def fall(self, party: str, begin: float, end: float) -> Fired | None:
        """The last time between `begin` and `end` (seconds, both included) at which a fault took `party` down."""
        falls = [fired for fired in self.fallen.get(party, ()) if begin <= fired.time <= end]
        return falls[-1] if falls else None

    @property
    def fallen(self) -> Mapping[str, Sequence[Fired]]:
        """The faults that took parties down, by party, in order."""
        fired = self._world.faults.fired
        for one in fired[self._known :]:
            if isinstance(one.fault, PartyFault) and one.fault.spell == "down":
                self._falls.setdefault(one.party, []).append(one)
        self._known = len(fired)
        return self._falls

    def gone(self, party: str) -> str:
        """The way in which `party`, which is down, went down."""
        fall = self.fall(party, 0.0, self._world.loop.time())
        return fall.fault.went if fall is not None and isinstance(fall.fault, PartyFault) else "crashed"

    def noticed(self, loss: Loss, began: float) -> Loss:
        """Complete a `loss` that the server reported in a round that `began` then, by the step at which the party went
        down."""
        fall = self.fall(loss.party, began, loss.time)
        if fall is None or fall.step in ("", loss.step):
            return loss
        return Loss(loss.party, fall.step, f"missed at {loss.step}: {loss.action}", loss.round, loss.time)


def _missed(made: tuple[Fault, ...]) -> str:
    """The reason why a fault did not strike, in words."""
    if not made or len(made) > 1:
        return "the availability trace took nobody down before the run ended"
    (fault,) = made
    who = f"the {fault.kind} of {fault.get('party')}"
    if isinstance(fault, MessageFault):
        return f"{who} did not strike: no such message was sent while it could"
    return f"{who} did not strike: the run did not reach the point where it would"


C = TypeVar("C", bound=CalledClient)


class EndingsObserver(Generic[C]):
    """An observer that knows the faults that struck, and the end of each client's part."""

    def __init__(self, world: World, clients: Sequence[C], faults: Sequence[tuple[Fault, ...]]) -> None:
        self.world = world
        self._fault_record = FaultRecord(world, faults)
        self._named = Present(clients)
        self.helpers: Sequence[Device] = ()  # of parties besides the server and its clients

    @property
    def _server(self) -> Any:
        """The server, in its present incarnation."""
        return self._server_device.party

    @_server.setter
    def _server(self, server: Server) -> None:
        self._server_device = server.device

    def strikes(self) -> list[Strike]:
        """The faults that have struck so far, in order."""
        return self._fault_record.strikes()

    def losses_beside(self, server: Any, unmissed: str, round_at: Callable[[float], int]) -> list[Loss]:
        """The losses that the `server` reported, with the steps at which parties went down, followed by unnoticed ones.

        `unmissed`: the text for unnoticed ones. `round_at`: the number of the round at a virtual time.
        """
        now = self.world.loop.time()
        found = [self._fault_record.noticed(loss, 0.0) for loss in server.lost]
        for party in (server, *self._named.values()):
            fall = self._fault_record.fall(party.name, 0.0, now)
            if fall is not None and party.name not in {loss.party for loss in found}:
                action = unmissed
                if party is server:
                    action = returned(server) if server.alive else "every client ends without it"
                found.append(Loss(party.name, fall.step, action, round_at(fall.time), fall.time))
        return found

    def endings(self, *, noted: bool = True) -> dict[str, str]:
        """The end of the part of each client and helper; `noted`: also record it in the trace."""
        devices = dict(self._named.devices) | {device.name: device for device in self.helpers}
        found = {n: one.seen("ending") if one.alive else self._fault_record.gone(n) for n, one in devices.items()}
        for name, ending in found.items() if noted else ():
            self.world.note("outcome", name, note=ending)
        return found


def returned(server: Any) -> str:
    """The reason for the loss of a `server` that returned to a run of one round."""
    return "it is back, and the run ended" if server.aborted else "it is back before it began"


class RoundsObserver(EndingsObserver[RoundsClient[Any]], Generic[H, R]):
    """Keeps the results of each round. `every`: the number of rounds after which models are tested; also at the end.

    `faults`: the expanded faults of each [[fault]]. `after_round` is called with the number of each round that has
    ended. `answer` is the message that a client sends in a round, and `last_step` the step in which it does. `spending`
    gives the privacy that rounds spend, if known, `randomised` that of randomised answers; `measured_on` describes the
    points on which models are tested.
    """

    measured_on = ""
    answer: ClassVar[str]
    last_step: ClassVar[str]

    def __init__(
        self,
        world: World,
        clients: Sequence[RoundsClient[Any]],
        server: RoundsServer[Any, R],
        faults: Sequence[tuple[Fault, ...]],
        every: int,
    ) -> None:
        super().__init__(world, clients, faults)
        self.every = every
        self._server = server
        self.rounds: list[H] = []
        self.ended: list[float] = []
        self._problem = ""
        self.after_round: Callable[[int], None] = lambda number: None
        self.spending: Spending | None = None
        self.randomised: Releasing = nothing_released
        server.observers.append(self._end_round)

    def keep(self, record: R, *, measured: bool) -> None:
        """Append the results of the round; `measured`: models are to be tested."""
        raise NotImplementedError(f"{type(self).__name__} keeps nothing")

    def _end_round(self, record: R) -> None:
        number, rounds, self._problem = record.number, self._server.settings.rounds, record.lost
        self.keep(record, measured=number % self.every == 0 or number == rounds)
        self.after_round(number)

    def tell(self, one: H) -> None:
        """Add a round that has just ended, and trace its figures."""
        now = self.world.loop.time()
        self.rounds.append(one)
        self.ended.append(now)
        self._trace(one.round, {name: getattr(one, name) for name in one.figures} | one.measured)

    def complete(self, one: H) -> None:
        """Replace the round of the same number by `one`, which has more figures, and trace these."""
        before = self.rounds[one.round - 1].measured
        self.rounds[one.round - 1] = one
        self._trace(one.round, {name: value for name, value in one.measured.items() if name not in before})

    def _trace(self, number: int, figures: Mapping[str, float | None]) -> None:
        now = self.world.loop.time()
        for name, value in figures.items():
            if value is not None:
                self.world.trace.tell(Event(now, "metric", self._server.name, round=number, note=name, value=value))

    @property
    def last(self) -> int:
        """The number of the last round that began; the enrolment before the first belongs to the first."""
        return max(1, self._begun)

    @property
    def _begun(self) -> int:
        """The number of the current round at the server; a server that comes back is one after the last."""
        server = self._server
        return int(server.ended) if server.aborted else min(int(server.round), int(server.last_round))

    @property
    def unended(self) -> dict[str, Any] | None:
        """The record of a round that ended with the loss of the server; None if there is none."""
        if self.last <= len(self.rounds):
            return None
        began = self.ended[-1] if self.ended else 0.0
        return {"number": self.last, "began": began, "cohort": (), "lost": "the server was lost"}

    @property
    def privacy(self) -> Spent | None:
        """The privacy spent so far: every round to which clients were called is charged, lost or not.

        Clients' messages may be read as soon as they are called, regardless of the result; this includes a round that
        the server has begun and not ended.
        """
        if self.spending is None:
            return None
        server = self._server
        called = sum(bool(one.cohort) for one in self.rounds[: server.ended])
        return self.spending(called + (self._begun > server.ended))

    @property
    def _revealed(self) -> dict[str, Any]:
        """The privacy spent by private releases and randomised answers so far."""
        return {"privacy": self.privacy, "randomised": self.randomised(self._begun)}

    def so_far(self) -> ResultFields:
        """The results so far of a run that was broken off."""
        lost = self.losses()
        endings = self.endings(noted=False)
        return ResultFields(lost=lost, round_records=reported(self.rounds, lost), endings=endings, **self._revealed)

    def found(self) -> dict[str, Any]:
        """The fields of the results that are specific to rounds of this kind."""
        raise NotImplementedError(f"{type(self).__name__} finds nothing")

    def sum_up(self) -> Simulated:
        """The results, after all parties have ended."""
        if self.unended is not None:
            self.keep(self._server.record_type(**self.unended), measured=False)
        found, lost = self.found(), self.losses()
        outcome, reason = self.outcome(lost)
        return Simulated(
            outcome=outcome,
            reason=reason,
            measured_on=self.measured_on,
            lost=lost,
            round_records=reported(self.rounds, lost),
            endings=self.endings(),
            silent=self._fault_record.silent(),
            **self._revealed,
            **found,
        )

    def ending(self, ended: Sequence[Ended]) -> Ending:
        """The end of a run on hollow values, from the rounds that the server reported."""
        self.enter(ended)
        if self.unended is not None:
            self.rounds.append(_bare(self._server.record_type(**self.unended)))
            self.ended.append(self.world.loop.time())
        lost = self.losses()
        spent = self.privacy
        epsilon = None if spent is None else spent.bound
        return Ending(*self.outcome(lost), lost, sum(not one.problem for one in self.rounds), epsilon)

    def enter(self, ended: Sequence[Ended]) -> None:
        """Take over rounds on hollow values, which have no results."""
        self.rounds, self.ended = [_bare(one.record) for one in ended], [one.time for one in ended]
        self._problem = ended[-1].record.lost if ended else ""

    # Losses and the outcome

    def losses(self) -> list[Loss]:
        """The losses of all parties in each round: the step, and the server's reaction.

        Losses that the server did not notice follow the noticed ones of the same round.
        """
        found: list[Loss] = []
        falls, fallen = self._falls_of_server(), self._fault_record.fallen
        names = [name for name in self._named if name in fallen] if fallen else []
        for one, ended in zip(self.rounds, self.ended, strict=True):
            reported = [loss for loss in self._server.lost if loss.round == one.round]
            noticed = [self._fault_record.noticed(loss, one.began) for loss in reported]
            found += noticed + falls.get(one.round, [])
            found += self._unnoticed(one, ended, {loss.party for loss in noticed}, names)
        return found

    def _unnoticed(self, one: H, ended: float, reported: set[str], names: Iterable[str]) -> list[Loss]:
        """Those of the clients `names` that went down in the round and were not missed: they had answered, or the round
        was lost."""
        found = []
        for name in names:
            fall = self._fault_record.fall(name, 0.0 if one.round == 1 else one.began, ended)
            if fall is None or name in reported:
                continue
            action = self.answer if name in one.counted else "nobody missed it"
            if fall.time < one.began:
                back = f"it was back, and {self.answer}" if name in one.counted else "it takes part in those after it"
                action = f"before the first round: {back}"
            found.append(Loss(name, fall.step or self.last_step, action, one.round, fall.time))
        return found

    def _falls_of_server(self) -> dict[int, list[Loss]]:
        """The server's losses by round: until it was back, or for good."""
        server, found = self._server, dict[int, list[Loss]]()
        falls = self._fault_record.fallen.get(server.name, ())
        for fall in falls if server.alive else falls[:-1]:
            for one, ended in zip(self.rounds, self.ended, strict=True):
                lost = one.problem == SERVER_LOST
                if fall.time < ended or (lost and fall.time == ended):
                    action = "it is back: the round is lost" if lost else "it is back before the round began"
                    found.setdefault(one.round, []).append(Loss(server.name, fall.step, action, one.round, fall.time))
                    break
        if not server.alive:
            last = self._fault_record.fall(server.name, 0.0, self.world.loop.time())
            time = last.time if last else self.ended[-1] if self.ended else 0.0
            gone = Loss(server.name, server.step_name, "every client ends without it", self.last, time)
            found.setdefault(self.last, []).append(gone)
        return found

    def outcome(self, lost: Sequence[Loss]) -> tuple[str, str]:
        """The outcome and the reason. A run that loses all clients has failed, regardless of its rounds."""
        server = self._server
        last = set(lost_in(lost, self.last)) - set(self.rounds[-1].counted)
        if last >= set(self._named) or not any(device.alive for device in self._named.devices.values()):
            return "failed", every_client_lost(lost, self._named)
        if not server.alive:
            return "aborted", server_lost_at(server.step_name)
        if server.aborted:
            return "aborted", server.aborted
        if all(one.problem for one in self.rounds):
            return "aborted", Reason("every round was lost: {why}", why=self.last_problem)
        return "completed", server.stands

    @property
    def last_problem(self) -> Reason:
        """The reason why the last round was lost; as a text alone if the run was resumed after it."""
        return Reason.of(self._problem or self.rounds[-1].problem)


def reported(rounds: Sequence[HeldRound], lost: Sequence[Loss]) -> list[Round]:
    """The `rounds`, each with the parties among `lost` that were lost in it."""
    return [msgspec.structs.replace(one, lost=lost_in(lost, one.round)) for one in rounds]


def lost_in(lost: Sequence[Loss], number: int) -> tuple[str, ...]:
    """The parties lost in round `number`, each once."""
    return tuple(dict.fromkeys(loss.party for loss in lost if loss.round == number))


def testing_points(parts: Parts, clients: Sequence[Client]) -> tuple[Points | None, str]:
    """The points whose labels no client learns, and their description."""
    if parts.test is not None:
        return known_points(parts.test), "the test part of the data set"
    shards = [client.shard for client in clients]
    any_new = any(shard.new.any() for shard in shards)
    hidden = [(shard, counting(shard.labels, shard.labeled, shard.new, any_new)) for shard in shards]
    pairs = [(shard.points[own], _learned(shard)[own]) for shard, own in hidden if own.any()]
    if not pairs:
        return None, ""
    points, labels = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return (points, labels), f"the clients' {'new' if any_new else 'unlabeled'} points"


def known_points(dataset: Dataset) -> Points | None:
    """The points and labels of a data set, or their targets, where known; None if no label is known."""
    known = dataset.labels >= 0
    if dataset.targets is not None and known.any():
        return dataset.points[known], dataset.targets[known]
    return (dataset.points, dataset.labels) if known.any() else None


def _learned(data: Dataset | Shard) -> NDArray[np.generic]:
    """The targets of the points if there are any, else their labels."""
    return data.labels if data.targets is None else data.targets
