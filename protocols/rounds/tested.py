"""Clients test models on points of their own, and send figures: what all training in rounds has of it in common.

Each family says what a client tests and what its figures are (`federated.evaluation`, `cotraining.evaluation`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.splits import Shard
from tacit.parties.learning.metrics import by_class
from tacit.protocols.parts import Part
from tacit.protocols.rounds.rounds import RoundsClient, RoundsServer
from tacit.protocols.values import understood
from tacit.sim.wire import Message

__all__ = [
    "EVALUATE", "MOST_NAMED", "Counted", "Evaluation", "Figures", "Tested", "TestingClient",
    "TestingServer", "figures_in", "numbers_in",
]  # fmt: skip

EVALUATE = "train.evaluate"
"""The name of the step in which clients test models, in all protocols."""

_SHARES = (10, 90)

MOST_NAMED = 200
"""The most clients whose figures are in a result."""


class Figures(Message):
    """client -> server: sums over the points on which it has tested a model, float64, little-endian."""

    sums: bytes


class Counted(Protocol):
    """The sums of one or several clients: of how many `points`, and what follows from them."""

    @property
    def points(self) -> int: ...
    @property
    def metrics(self) -> dict[str, float]: ...
    @property
    def confusion(self) -> NDArray[np.int64] | None: ...


@dataclass(frozen=True)
class Tested:
    """The figures of the clients that answered: the sums over all, and each client's own, by its name.

    With figures that a secure sum has added, `each` is empty, and `clients` is the number of clients in the sums.
    `score` is the metric of the task, which is best where it is largest if `larger_is_better`.
    """

    total: Counted
    each: Mapping[str, Counted]
    clients: int = 0
    score: str = "accuracy"
    larger_is_better: bool = True

    @property
    def figures(self) -> dict[str, float]:
        """The metrics over all points, the number of clients and points, and how the first metric spreads over clients.

        The spread is that of the task's score, of the accuracy where clients send counts of classes, or of the loss if
        there is neither: its mean, its 10th and 90th percentile, and the worst. Each client counts alike; those without
        points do not count. Sums have no spread.
        """
        found = self.total.metrics
        if not found:
            return {}
        if not self.each:
            return found | {"clients": float(self.clients), "points": float(self.total.points)}
        name = next(one for one in (self.score, "accuracy", "loss") if one in found)
        larger = self.larger_is_better if name == self.score else name == "accuracy"
        values = np.array([one.metrics[name] for one in self.each.values() if one.points])
        low, high = np.percentile(values, _SHARES)
        worst = values.min() if larger else values.max()
        spread = {"mean": values.mean(), "p10": low, "p90": high, "worst": worst}
        counted = {"clients": float(len(values)), "points": float(self.total.points)}
        return found | {f"{name}_{key}": float(value) for key, value in spread.items()} | counted

    def fields(self, classes: Sequence[str]) -> dict[str, dict[str, float] | dict[str, dict[str, float]]]:
        """The fields of a result with these figures: over all points, by client, and by class, whose names are
        `classes`."""
        each = {name: one.metrics for name, one in self.each.items() if one.points}
        found: dict[str, dict[str, float] | dict[str, dict[str, float]]] = {
            "evaluation": self.figures,
            "evaluation_by_client": each if len(each) <= MOST_NAMED else {},
        }
        if (counts := self.total.confusion) is not None:
            found["evaluation_by_class"] = by_class(counts, classes)
        return found


def figures_in(sent: bytes, counting: Sequence[bool]) -> NDArray[np.float64]:
    """The figures that a client `sent`. `counting`: true for each that counts points (`metrics.counting`).

    Raises ValueError for a wrong length, for numbers that are not finite, and for counts that cannot be such.
    """
    if len(sent) != 8 * len(counting):
        raise ValueError(f"figures of {len(sent)} bytes, not {8 * len(counting)}")
    found = numbers_in(sent)
    if not np.isfinite(found).all():
        raise ValueError("figures that are infinite or not a number")
    counts = found[np.array(counting)]
    if (counts < 0).any() or (counts != np.floor(counts)).any() or counts.sum() > 2**53:
        raise ValueError("counts that are no numbers of points")
    return found


def numbers_in(sent: bytes) -> NDArray[np.float64]:
    """The numbers in `sent`, as a copy."""
    return np.frombuffer(sent, "<f8").astype(np.float64)


class TestingClient(RoundsClient[Any]):
    """A client that tests a model when a message of the type `call_to_test` comes, and answers with `sent_as`."""

    call_to_test: ClassVar[type[Message]]
    sent_as: ClassVar[type[Figures]] = Figures

    async def respond(self, message: Message) -> None:
        if not isinstance(message, self.call_to_test):
            return self.answer()
        if self.settings.keys.evaluation == "secure":
            return self.refuse("send its figures by themselves: the sum of a round adds them")
        await self.unless_over(self._evaluate(message))

    async def _evaluate(self, message: Message) -> None:
        with self.step(EVALUATE):
            self.send(self.server, self.sent_as(await self.tested(message)))

    async def tested(self, message: Any) -> bytes:
        """Test the model that the server asks about; returns the figures."""
        raise NotImplementedError


class TestingServer(RoundsServer[Any, Any]):
    """A server whose clients test models after rounds.

    For observers, `sent` has the figures of each client that has answered in round `tested_in`, and `summed` the sums
    of that round where a secure sum has added them, the number of clients first.
    """

    kept_figures: ClassVar[tuple[str, ...]] = ("sent", "summed", "tested_in")
    sent_as: ClassVar[type[Figures]] = Figures

    def __init__(self, *arguments: Any, **access: Any) -> None:
        super().__init__(*arguments, **access)
        self.sent: dict[str, NDArray[np.float64]] = {}
        self.summed: NDArray[np.float64] | None = None
        self.tested_in = 0

    def to_test(self) -> Message:
        """The message that asks clients to test a model."""
        raise NotImplementedError

    @property
    def counting(self) -> Sequence[bool]:
        """True for each figure that counts points."""
        raise NotImplementedError

    async def run_round(self, number: int, began: float, members: tuple[str, ...]) -> Any:
        record = await super().run_round(number, began, members)
        if self.settings.evaluates(number):
            await self._evaluate(number)
        return record

    async def _evaluate(self, number: int) -> None:
        asked = [name for name in self.present if name in self.enrolled]
        with self.step(EVALUATE):
            self.advance(number, self.attempt + 1)
            self.broadcast(asked, self.to_test())
            found = await self.collect(self.sent_as, asked, deadline=self.settings.deadline)
            self.sent = understood(self, found.answers, lambda name, answer: figures_in(answer.sums, self.counting))
            self.tested_in = number
            missing = [name for name in asked if name not in self.sent]
            self.lose(missing, "its figures never came: left out of this evaluation")


class Evaluation(Part):
    """Federated evaluation as a part of training. `how`: what a note says of it, after the share held out."""

    uses = ("data.held_out",)
    how: ClassVar[str] = ""
    then: ClassVar[str] = ""

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        share = f"{tables.data.held_out:.0%} of their labeled points (data.held_out)"
        return [f"clients hold out {share} from training{self.how} (training.evaluation){self.then}"]
