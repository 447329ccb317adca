"""Observes the run of a Flower app: its rounds with their numbers, the lost clients, and its end."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tacit.parties.server import Loss
from tacit.protocols.experiment.simulated import Ended, Ending, ResultFields, Simulated
from tacit.protocols.flower.exchanges import Exchange, RoundRecord
from tacit.protocols.flower.flower import FlowerClient, FlowerServer
from tacit.protocols.outcome import Reason, server_lost_at
from tacit.protocols.rounds.observer import EndingsObserver, HeldRound, reported
from tacit.sim.faults import Fault
from tacit.sim.trace import Event
from tacit.sim.world import World

__all__ = ["FlowerObserver", "FlowerRound"]

_EVALUATED = "flower.evaluate"
_FAILURE = "app-failure.txt"


class FlowerRound(HeldRound, frozen=True, kw_only=True):
    """The results of one round, that is, of messages of one group.

    `replied`: the clients whose replies to training messages the app was given without an error; in a round without
    training, to any message. `errors`: the errors that were replies. `loss` and `accuracy`: the means of the clients'
    reports, weighted by their numbers of examples, None without reports. `figures_reported`: all such means; tables
    show the other ones.
    """

    columns: ClassVar[tuple[str, ...]] = ("asked", "replied", "errors", "loss", "accuracy")
    figures: ClassVar[tuple[str, ...]] = ("loss", "accuracy")
    replied: tuple[str, ...]
    errors: dict[str, str]
    loss: float | None
    accuracy: float | None
    figures_reported: dict[str, float]

    @property
    def counted(self) -> tuple[str, ...]:
        return self.replied

    def cells(self) -> tuple[str, ...]:
        return (str(len(self.cohort)), str(len(self.replied)), str(len(self.errors)), *self.numbers())

    def own(self) -> dict[str, float]:
        shown = (_name_of("loss", self.figures_reported), _name_of("acc", self.figures_reported))
        return {name: value for name, value in self.figures_reported.items() if name not in shown}


class FlowerObserver(EndingsObserver[Any]):
    """Keeps the results of each round, and summarizes the run. `secret`: the app hides its clients' single updates."""

    def __init__(
        self, world: World, clients: Sequence[FlowerClient], server: FlowerServer, faults: Sequence[tuple[Fault, ...]]
    ) -> None:
        super().__init__(world, clients, faults)
        self._server = server
        self.rounds: list[FlowerRound] = []
        server.observers.append(self._end_round)

    def _end_round(self, record: RoundRecord) -> None:
        one, now = self._round(record), self.world.loop.time()
        self.rounds.append(one)
        named = {name: getattr(one, name) for name in one.figures}
        for name, value in (one.figures_reported | named).items():
            if value is not None:
                event = Event(now, "metric", self._server.name, round=one.round, note=name, value=value)
                self.world.trace.tell(event)

    def _round(self, record: RoundRecord) -> FlowerRound:
        found = dict(_means(record.exchanges))
        return FlowerRound(
            round=record.number,
            began=record.began,
            lost=(),
            cohort=record.cohort,
            problem=str(record.lost),
            replied=record.counted,
            errors={name: error for one in record.exchanges for name, error in one.errors.items()},
            loss=found.get(_name_of("loss", found)),
            accuracy=found.get(_name_of("acc", found)),
            figures_reported=found,
        )

    def so_far(self) -> ResultFields:
        """The results so far of a run that was broken off."""
        lost = self._losses()
        return ResultFields(lost=lost, round_records=reported(self.rounds, lost), endings=self.endings(noted=False))

    def sum_up(self) -> Simulated:
        """The results, after all parties have ended."""
        if (record := self._server.unended) is not None:
            self.rounds.append(self._round(record))
        lost = self._losses()
        outcome, reason = self._outcome()
        accuracies = [one.accuracy for one in self.rounds if one.accuracy is not None and not one.problem]
        return Simulated(
            outcome=outcome,
            reason=reason,
            accuracy=accuracies[-1] if accuracies else None,
            measured_on="the points that the clients report of",
            lost=lost,
            round_records=reported(self.rounds, lost),
            endings=self.endings(),
            silent=self._fault_record.silent(),
            keep=self._keep,
        )

    def ending(self, ended: Sequence[Ended]) -> Ending:
        """The end of a run on hollow values, from the rounds that the server reported."""
        records = [one.record for one in ended]
        if (record := self._server.unended) is not None:
            records.append(record)
        self.rounds = [self._round(one) for one in records]
        return Ending(*self._outcome(), self._losses(), sum(not one.problem for one in self.rounds))

    def _keep(self, folder: Path) -> None:
        if self._server.failure_of_app:
            (folder / _FAILURE).write_text(self._server.failure_of_app, encoding="utf-8")

    def _outcome(self) -> tuple[str, str]:
        server = self._server
        if not server.alive:
            return "aborted", server_lost_at(server.step_name)
        if server.completed:
            return "completed", ""
        if not any(client.alive for client in self._named.values()):
            return "failed", Reason("every client was lost; {why}", why=Reason.of(server.aborted))
        return "aborted", server.aborted

    def _losses(self) -> list[Loss]:
        return self.losses_beside(self._server, "its reply was not missed", self._round_at)

    def _round_at(self, time: float) -> int:
        return max([one.round for one in self.rounds if one.began <= time], default=1)


def _means(exchanges: Iterable[Exchange]) -> Iterator[tuple[str, float]]:
    """The mean of each number in the replies, weighted by examples; of evaluations if there are any, otherwise of
    training."""
    names = dict.fromkeys(key for one in exchanges for figures, _ in one.figures.values() for key in figures)
    of_evaluation = [one for one in exchanges if one.step == _EVALUATED]
    for name in names:
        for some in (of_evaluation, exchanges):
            pairs = [(f[name], weight) for one in some for f, weight in one.figures.values() if name in f]
            total = sum(weight for _, weight in pairs)
            if total > 0:
                yield name, sum(value * weight for value, weight in pairs) / total
                break


def _name_of(part: str, figures: Mapping[str, float]) -> str:
    """The name of a figure that contains `part`, preferably one of evaluation; "" if there is none."""
    found = sorted((name for name in figures if part in name.lower()), key=lambda name: "train" in name.lower())
    return found[0] if found else ""
