"""Federated evaluation in FedBuff: clients test models while others train, and nobody waits for their figures.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.evaluate | BufferedModelToTest | server -> each client | P | the model after this round |
| train.evaluate | BufferedFigures | client -> server | 8 K | the figures of `evaluation`, and the round of the model |

The step follows a round that was not lost, every `training.evaluate_every` rounds and after the last one. All clients
that have enrolled and are present are asked. A client that trains tests the model after it has sent its own, and a
client that tests trains afterwards: it takes its messages one after another.

Training goes on meanwhile. The server takes figures as they come, between models, so that several tests may be under
way. The figures of a round are complete when all clients that were asked have answered, or after the deadline, which is
often in a later round. After the last round, the server dismisses the clients that still train, and waits for figures.

Lost clients: one whose figures are not received by the deadline, or are invalid, is left out of these figures; the
model stays as it is. After a server has come back, figures of tests that it had begun are ignored.

Security: semi-honest. The server learns each client's figures, as in `evaluation`.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.splits import Shard
from tacit.parties.learning import metrics
from tacit.protocols.federated.averaging import Record
from tacit.protocols.federated.evaluation import EvaluatingClient, EvaluatingServer, Evaluation
from tacit.protocols.federated.fedbuff import OVER, FedBuffClient, FedBuffServer
from tacit.protocols.federated.round import Called
from tacit.protocols.parts import Among
from tacit.protocols.rounds.rounds import RoundsClient
from tacit.protocols.rounds.tested import EVALUATE, Figures, figures_in
from tacit.protocols.values import BadValues, values_of
from tacit.sim.wire import Message

__all__ = [
    "BUFFERED_EVALUATION", "BufferedFigures", "BufferedModelToTest", "EvaluatingBufferClient", "EvaluatingBufferServer",
    "Test",
]  # fmt: skip


class BufferedModelToTest(Message):
    """The model after round `tested`."""

    announces: ClassVar[bool] = True
    lasting: ClassVar[bool] = True
    queued: ClassVar[bool] = True
    model: bytes
    tested: int


class BufferedFigures(Figures):
    """Figures of the model after round `tested`."""

    lasting: ClassVar[bool] = True
    queued: ClassVar[bool] = True
    tested: int


class Test(msgspec.Struct):
    """A test of the model after round `number`: the clients whose figures are `awaited` until a time, and those that
    were `sent`."""

    number: int
    until: float
    awaited: dict[str, None]
    sent: dict[str, NDArray[np.float64]]


class EvaluatingBufferServer(EvaluatingServer, FedBuffServer):
    """A server of FedBuff whose clients also test its models.

    `tests` are those under way, by their rounds. For observers, `ended_tests` are those that have ended in this round;
    `sent` has the figures of the latest one that has ended, of the model after round `tested_in`.
    """

    attributes: ClassVar[tuple[str, ...]] = (
        *FedBuffServer.attributes, "sent", "summed", "tested_in", "tests", "ended_tests",
    )  # fmt: skip
    meanwhile = (BufferedFigures,)

    def __init__(self, *arguments: Any, **access: Any) -> None:
        super().__init__(*arguments, **access)
        self.tests: dict[int, Test] = {}
        self.ended_tests: dict[int, Test] = {}

    async def main(self) -> None:
        await super().main()
        if self.tests:  # the last round was lost
            with self.step(EVALUATE):
                await self._wait_for_figures()

    def go_on_from(self, kept: Mapping[str, Any]) -> None:
        super().go_on_from(kept)
        self.tests.clear()

    async def run_round(self, number: int, began: float, members: tuple[str, ...]) -> Record:
        self.ended_tests = {}
        record = await FedBuffServer.run_round(self, number, began, members)
        if not record.lost and self.settings.evaluates(number):
            with self.step(EVALUATE):
                await self._test(number)
        return record

    async def _test(self, number: int) -> None:
        self.advance(number, self.attempt + 1)
        if last := number == self.settings.rounds:
            self.dismiss(self.at_work, OVER)
            self.at_work.clear()
        asked = [name for name in self.present if name in self.enrolled]
        now = self.world.loop.time()
        self.tests[number] = Test(number, now + self.settings.deadline, dict.fromkeys(asked), {})
        self.broadcast(asked, BufferedModelToTest(self.model, number))
        self._end_tests(lambda test: test.until <= now)
        if last:
            await self._wait_for_figures()

    async def _wait_for_figures(self) -> None:
        """Take figures until there are those of all tests, or their deadlines have passed; end all tests."""
        seconds = max(0.0, max(test.until for test in self.tests.values()) - self.world.loop.time())
        with self.incoming(self.meanwhile, self.others, deadline=seconds) as arrivals:
            while arrivals.sources and (found := await arrivals.next()) is not None:
                self.take_further(*found)
                if found[0] not in self.others:
                    arrivals.leave_out(found[0])
        self._end_tests(lambda test: True)

    @property
    def others(self) -> dict[str, None]:
        return {name: None for test in self.tests.values() for name in test.awaited}

    def take_further(self, name: str, message: Message) -> None:
        assert isinstance(message, BufferedFigures)
        test = self.tests.get(message.tested)
        if test is None or name not in test.awaited:  # its test has ended
            return
        del test.awaited[name]
        counting = metrics.counting(self.settings.spec, self.settings.metric_names)
        try:
            with values_of(self, name, type(message).__name__):
                test.sent[name] = figures_in(message.sums, counting)
        except BadValues:
            self.lose([name], "its figures are invalid: left out of this evaluation", EVALUATE)
        self._end_tests(lambda one: not one.awaited)

    def _end_tests(self, over: Callable[[Test], bool]) -> None:
        """End the tests that are `over`."""
        for test in [one for one in self.tests.values() if over(one)]:
            self.lose(test.awaited, "its figures never came: left out of this evaluation", EVALUATE)
            test.sent = {name: test.sent[name] for name in self.clients if name in test.sent}
            del self.tests[test.number]
            self.ended_tests[test.number] = test
            if test.number > self.tested_in:
                self.sent, self.tested_in = test.sent, test.number


class EvaluatingBufferClient(EvaluatingClient, FedBuffClient):
    """A client of FedBuff that also tests models. A run can be broken off while it does, as while it trains."""

    other: ClassVar[tuple[type[Message], ...]] = (*RoundsClient.other, BufferedModelToTest)
    places: ClassVar[tuple[str, ...]] = (*FedBuffClient.places, EVALUATE)
    _tested: tuple[bytes, int, float] | None = None  # the model, its round, and when the job is due

    async def respond(self, message: Message) -> None:
        if not isinstance(message, BufferedModelToTest):
            return self.answer()
        await self._test(message.model, message.tested)

    async def _test(self, model: bytes, tested: int, due: float | None = None) -> None:
        with self.step(EVALUATE, entered=due is not None):
            self._tested = model, tested, 0.0
            self.rest_at(EVALUATE)
            try:
                sums = await self._sums(model, due)
            finally:
                self.rest_at("")
                self._tested = None
            self.send(self.server, BufferedFigures(sums, tested))

    def state(self) -> dict[str, Any]:
        job = self.device.machine.only
        tested = None if self._tested is None or job is None else (*self._tested[:2], job.due)
        return super().state() | {"_tested": tested}

    async def go_on_at(self, place: str) -> bool:
        if place != EVALUATE or self._tested is None:
            return await super().go_on_at(place)
        await self._test(*self._tested)
        return False


class BufferedEvaluation(Evaluation):
    """Federated evaluation as a part of FedBuff."""

    messages = (BufferedModelToTest, BufferedFigures)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        assert isinstance(among, Called)
        model, figures = super().payloads(tables, among).values()
        return {"BufferedModelToTest": model, "BufferedFigures": figures}

    def waits(self, tables: Any) -> int:
        return 0  # after the last round alone

    def notes(self, tables: Any, shards: Callable[[], Mapping[str, Shard]]) -> list[str]:
        return [*super().notes(tables, shards), "figures of clients may come rounds later; training does not wait"]


BUFFERED_EVALUATION = BufferedEvaluation()
