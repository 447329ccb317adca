"""A round of federated training: the server sends a model to a cohort, its clients train it, the server averages.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| train.enroll | those of `tacit.protocols.rounds.rounds` | | | who is there, with how many points and labels? |
| train.open | TrainingRound | server -> each of the cohort | P, and the additions' | the model |
| train.label | the labeller's | | | pseudo-labels of unlabeled points |
| train.update | the averaging's | | | the models as trained |

P: the bytes of a model, each number in its own width (`vectors.Layout`). What a method adds to training (control
variates, a teacher) travels beside the model. `fedavg` shows the algorithm, line by line; this module has its messages,
settings and steps. Pseudo-labels are in `labellers`, averages in `averaging`, the ingredients of algorithms in `method`
and the files named after them.

Papers: McMahan et al., Communication-efficient learning of deep networks from decentralized data, AISTATS 2017,
Algorithm 1 (FederatedAveraging); Scott, Yeo, Lampert (XCLP), TMLR, Algorithm 2.

Lost clients: a client whose model is invalid, or not received by the deadline, is left out of the average of this
round. With fewer than `min_clients` models, or if the labelling fails because too few clients are left, the round is
lost: the model stays as it was, and the next round begins. If a secure average of rounded values leaves the model
unchanged (`sum.value_bits`), no further round is opened, since clients would refuse it. A client that comes back takes
part as soon as it is drawn again. A client that never enrolled is asked again in each round, and is drawn as one
without labels until it answers.

Security: semi-honest. The server sees what the averaging shows it: each client's model or the average, which reveal
much about the data. It also sees who has how many points and labels, and what the labeller reveals. A client sees the
average.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from tacit.parties.learning import jobs, metrics
from tacit.parties.learning.local_update import InvalidReceived, LocalData, LocalUpdate, Trained
from tacit.parties.learning.spec import ModelError, ModelSpec
from tacit.parties.learning.vectors import canonical, decode
from tacit.parties.life import Observed
from tacit.parties.registered import Resting
from tacit.parties.waiting import type_names
from tacit.protocols.federated.averaging import (
    FIGURES_BYTES,
    Averages,
    Averaging,
    Expected,
    Hiding,
    Plain,
    Record,
    SummedFigures,
    Update,
)
from tacit.protocols.federated.byzantine import FalseUpdate, falsified, falsified_work
from tacit.protocols.federated.fedavg import FedAvgClient, FedAvgServer, LocalModel, TrainingRound, Usable
from tacit.protocols.federated.keys import Training
from tacit.protocols.federated.method import Method, PseudoLabels, State, by_class, updated
from tacit.protocols.outcome import Abort, Reason, Withdrawn
from tacit.protocols.parts import Among, Opening, Part, Step
from tacit.protocols.privacy.spent import Carried
from tacit.protocols.rounds.rounds import SPENT, STANDSTILL, Enrolled, copied
from tacit.protocols.sums.refusal import END, MASKED, may_answer
from tacit.protocols.values import values_of
from tacit.sim.setting_error import SettingError
from tacit.sim.shares import rounded_up
from tacit.sim.wire import Message
from tacit.sim.world import World

if TYPE_CHECKING:
    from tacit.protocols.federated.dp_fedavg import Clipped

__all__ = [
    "AVERAGE", "LABEL", "PRIVATE", "Called", "Calling", "Enrolled", "PlainAveraging", "Record", "TrainingClient",
    "TrainingServer", "TrainingSettings", "able_to_train", "most_called", "smallest_cohort", "trains",
]  # fmt: skip

OPEN = Step("server", "train.open", "draw a cohort and send it the model")
LABEL = (
    Step("client", "train.label", "give its unlabeled points pseudo-labels"),
    Step("server", "train.label", "play the server's part in giving pseudo-labels"),
)
AVERAGE = (
    Step("client", "train.update", "train the model on its points and send it back", "train"),
    Step("server", "train.average", "average the models that come in time"),
)


PRIVATE = "private parameters"  # on a client's disk
_FIRST = "first model"  # on a Byzantine client's disk, in a hollow run


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of federated training, which all parties know in advance.

    `keys`: the table [training] as it is in the scenario; `min_clients` is the value or the default of its key. `able`:
    the number of clients with labels (None: all). `deadline`, in virtual seconds, bounds every wait of the server; a
    client waits for as long as all rounds may take. `private`: clips the clients' models and adds noise (`dp_fedavg`);
    the server then draws cohorts from its own entropy. `byzantine`: the false update of each Byzantine client, by name.
    `metric_names`: the metrics that clients measure where they test models, besides counts of points.
    """

    spec: ModelSpec
    update: LocalUpdate
    method: Method
    clients: int
    keys: Training = field(default_factory=Training)
    averaging: Averaging = field(default_factory=Plain)
    min_clients: int = 1
    deadline: float = 60.0
    private: Clipped | None = None
    byzantine: Mapping[str, FalseUpdate] = field(default_factory=dict)
    able: int | None = None
    metric_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.private is not None:
            self._check_private(self.private)
        if self.keys.extra and not self.averaging.individual:
            problem = "is a sum over all who began it; use plain, or training.extra = 0"
            raise SettingError("averaging", self.averaging.name, problem)
        if not self.averaging.individual and any(make().individual for _, make in self.method.additions):
            problem = "hides what the algorithm needs of each client; use plain"
            raise SettingError("averaging", self.averaging.name, problem)

    def _check_private(self, private: Clipped) -> None:
        if self.by_points or self.method.labeller is not None or self.method.additions:
            raise ValueError("a model that counts more than one, or what travels beside it, is not clipped; use fedavg")
        if private.at == "clients" and self.averaging.individual:
            raise SettingError(
                "noise_at", private.at, "is too little for a single model to be seen; use averaging = secure"
            )
        if jobs.size(self.spec) != jobs.trained_size(self.spec):
            problem = "keeps statistics of its points in buffers, which no noise goes with"
            raise ModelError(f"model {self.spec.name} {problem}")

    @property
    def rounds(self) -> int:
        """The number of rounds, which all training in rounds has among its settings."""
        return self.keys.rounds

    @property
    def by_points(self) -> bool:
        """True if a model's weight is the number of points of an epoch that it was trained on, and not 1."""
        return self.keys.weighting == "points"

    def labels_in(self, number: int) -> bool:
        """Return true if round `number` has pseudo-labels."""
        return self.method.labeller is not None and number >= self.keys.label_from

    def labels_used(self, count: int, number: int) -> int:
        """How many of its `count` labels a client trains on in round `number`: all, or 0 if they make no batch.

        Private training calls such clients, too: that a client is not called would show how many labels it has.
        """
        if self.private is not None or self.trains_unlabeled(number) or self.update.batches(count, 0).steps:
            return count
        return 0

    def trains_unlabeled(self, number: int) -> bool:
        """True if points without a label train in round `number`."""
        return self.labels_in(number) or any(addition.unlabeled for addition in self.update.additions)

    def evaluates(self, number: int) -> bool:
        """Return true if clients test the model after round `number`, and send figures that the server sees."""
        tested = self.keys.evaluation == "plain" and number <= self.rounds
        return tested and (number % self.keys.evaluate_every == 0 or number == self.rounds)

    def sums_figures(self, number: int) -> bool:
        """Return true if clients test the model with which round `number` begins, and the sum of the round adds their
        figures."""
        trained = self.keys.evaluation == "secure" and number <= self.rounds
        return trained and ((number - 1) % self.keys.evaluate_every == 0 or number == self.rounds)

    def called(self, number: int) -> int:
        """How many clients round `number` calls if all have enrolled, including those that are away."""
        everybody = self.able is None or self.private is not None or self.trains_unlabeled(number)
        able = self.clients if everybody or self.able is None else self.able
        return rounded_up(self.keys.share, able)

    def compared(self, model: bytes, additions: Sequence[bytes] = ()) -> bytes:
        """A canonical encoding of `model` and `additions`, which is the same for equal numbers.

        Clients and the server compare calls by it. Otherwise a server could repeat a call with -0.0 in place of 0.0.
        """
        vectors = zip((model, *additions), self.expected.layouts, strict=False)
        known = [canonical(one, layout) if len(one) == layout.size else one for one, layout in vectors]
        return b"".join((*known, *additions[len(known) - 1 :]))

    @property
    def hiding(self) -> Hiding:
        """`averaging` as one that hides each model; call it only if `averaging.individual` is false."""
        assert not self.averaging.individual
        return cast(Hiding, self.averaging)

    @property
    def patience(self) -> float:
        """The most virtual seconds that all rounds take."""
        waits = 1 + self.averaging.waits(self.clients) + (self.method.labeller.waits if self.method.labeller else 0)
        waits += self.keys.evaluation == "plain"
        return (1 + self.rounds * waits) * self.deadline

    @property
    def together(self) -> int:
        """How many clients' models the server holds at a time at most."""
        return rounded_up(self.keys.share, self.clients) + self.keys.extra

    @property
    def expected(self) -> Expected:
        """The vectors that are averaged: the model, then those of its additions."""
        companions = [make() for _, make in self.method.additions]
        layouts = (jobs.layout(self.spec), *(companion.layout(self.spec) for companion in companions))
        return Expected(layouts, (True, *(companion.weighted for companion in companions)))

    def expected_in(self, number: int) -> Expected:
        """The vectors that are averaged in round `number`, with the form of the figures that are summed beside them."""
        if not self.sums_figures(number):
            return self.expected
        return replace(self.expected, figures=SummedFigures((True, *metrics.counting(self.spec, self.metric_names))))


class TrainingClient(FedAvgClient):
    """A client of FedAvg with all that may be added to a round. Additions keep their state on its disk.

    For observers, `ending` is the end of its latest part, `pseudo` are the pseudo-labels of its points in round
    `labelled_in`, and `unchanged` are the rounds of private training in which it sent the model as it was, because its
    own had numbers that are infinite or not a number.
    """

    labelled_in = Observed(int)
    unchanged: Observed[tuple[int, ...]] = Observed(tuple)
    pseudo: Observed[PseudoLabels | None] = Observed(lambda: None)
    settings: TrainingSettings
    basis = b""
    """The SHA-256 of the model that its update began from, as it is `compared`."""

    @classmethod
    def resting(cls, settings: TrainingSettings) -> Resting | None:
        return Resting(type_names((*cls.other, cls.call)), "server", settings.patience)

    def is_allowed(self, call: TrainingRound) -> bool:
        super().is_allowed(call)
        if not self.settings.averaging.individual:
            self.basis = hashlib.sha256(self.settings.compared(call.model)).digest()
        if problem := self._too_coarse(call.model):
            self.refuse(f"take part in round {self.round}: {problem}")
            return False
        return self.settings.averaging.individual or may_answer(
            self, self.settings.compared(call.model, call.additions)
        )

    def _too_coarse(self, model: bytes) -> str:
        """The reason to refuse `model`: its numbers are too coarse for this client's noise; "" if there is none."""
        private = self.settings.private
        if private is None or not private.at_clients:
            return ""
        return private.problem(model, self._noisy, jobs.layout(self.settings.spec))

    async def go_on_at(self, place: str) -> bool:
        requests = self.settings.averaging.requests
        if place == END and requests is not None:
            await self.unless_over(requests.next(self, self.settings.deadline))
        return place == END

    def needs(self, place: str) -> tuple[str, ...]:
        requests = self.settings.averaging.requests
        return () if requests is None else requests.before_end

    async def pseudo_labels(self, model: bytes) -> PseudoLabels | None:
        """Make pseudo-labels of all points of this client with `model`; None if this round has none."""
        labeller = self.settings.method.labeller
        if labeller is None or not self.settings.labels_in(self.round):
            return None
        with self.step("train.label"):
            pseudo = await labeller.client(self, model)
        self.pseudo, self.labelled_in = pseudo, self.round
        return pseudo

    async def train(self, call: TrainingRound, points: Usable, due: float | None = None) -> Trained:
        """Train as in FedAvg, with the method's client terms and what this client kept of its last update."""
        try:
            trained = await super().train(call, points, due)
        except InvalidReceived as error:
            with values_of(self, self.server, "TrainingRound"):
                raise ValueError(str(error)) from None
        self.disk["additions"] = trained.kept
        if self.settings.spec.private:
            self.disk[PRIVATE] = trained.private
        return trained

    def job(self, call: TrainingRound, points: Usable, number: int, seed: bytes) -> tuple[Any, ...]:
        own = (self.disk.get(PRIVATE, b""),) if self.settings.spec.private else ()
        return *super().job(call, points, number, seed), call.additions, self.disk.get("additions", ()), *own

    def foresee(self, message: Message, stamp: tuple[int, int]) -> None:
        if not isinstance(message, TrainingRound) or stamp[0] > self.settings.rounds:
            return
        if not self.settings.labels_in(stamp[0]):  # else it trains on labels that it does not have yet
            seed = self.world.entropy(self.name, self.incarnation, *stamp, "training").bytes(32)
            self.world.computing.ahead(self.name, *self.job(message, self.usable(None), stamp[0], seed))

    async def to_send(self, before: bytes, trained: Trained, weight: int) -> Update:
        """The update to send after training from `before`; private training clips it, and clients may add noise."""
        settings, model = self.settings, trained.parameters
        if settings.private is None:
            sent = await super().to_send(before, trained, weight)
            false = settings.byzantine.get(self.name)
            return sent if false is None or not trained.steps else await self._falsified(false, before, sent)
        layout = jobs.layout(settings.spec)
        if not np.isfinite(decode(model, layout)).all():  # nobody else may see it in what is sent
            self.refuse("send a model with numbers that are infinite or not a number: it sends the model unchanged")
            self.unchanged = (*self.unchanged, self.round)
        private, numbers = settings.private, layout.numbers
        # Its noise is counted on, and how many count is no secret; the loss is not sent, as no noise covers it.
        if private.noise is not None:
            changes = before, model, self.world.run_id, self.round, self.entropy("rounding"), layout
            words = await self.compute(private.noise.rounded_work(), private.rounded, *changes)
            return Update((), 1.0, 0.0, words=words)
        if private.at_clients:
            arguments = before, model, self._noisy, settings.averaging.fraction_bits, settings.clients
            noise = self.entropy("noise")
            try:
                words = await self.compute(private.words_work(numbers), private.words, *arguments, noise, layout)
            except ValueError as error:
                self.refuse(f"take part in round {self.round}: {error}")
                raise Withdrawn(str(error)) from None
            return Update((), 1.0, 0.0, words=words)
        model = await self.compute(private.sent_work(numbers), private.sent, before, model, layout)
        return Update((model, *trained.sent), 1.0, 0.0)

    @property
    def _noisy(self) -> int:
        """How many clients' noise hides one client: those of the smallest average, without it and colluding ones."""
        return self.settings.averaging.honest(self.settings.min_clients)

    async def _falsified(self, false: FalseUpdate, before: bytes, update: Update) -> Update:
        """The update that this client sends as a Byzantine client."""
        trained, *others = update.vectors
        arguments = false, before, trained, self.name, self.round
        model = await self.compute(falsified_work(false.numbers), falsified, *arguments)
        in_range = false.in_range if self.world.hollow is None else self._is_in_range(false)
        return replace(update, vectors=(model, *others), in_range=in_range)

    def _is_in_range(self, false: FalseUpdate) -> bool:
        """Whether, in a hollow run, the numbers of a Byzantine client's model pass the averaging's check of ranges.

        Without such a check it returns `false.in_range`. The model of the first round is really trained, because its
        inputs are known; in later rounds the false model is assumed to be made from the same one.
        """
        settings, disk = self.settings, self.disk
        if false.in_range or not settings.averaging.checks_ranges:
            return false.in_range
        before = jobs.initial(settings.spec, self.world.seed)
        if (trained := disk.get(_FIRST)) is None:
            seed = self.world.entropy(self.name, 1, 1, 1, "training").bytes(32)
            found = jobs.train(settings.spec, before, self.usable(None).data, settings.update, 0, seed)
            trained = disk[_FIRST] = found.parameters
        return settings.averaging.holds(false.model(before, trained, self.name, self.round), false.layout)

    async def send_update(self, update: Update) -> None:
        """Send `update` as the averaging requires; an update with the client's own noise is sent only once a round."""
        settings = self.settings
        if settings.private is not None and settings.private.at == "clients":
            content = b"".join(update.vectors) if update.words is None else update.words.tobytes()
            from tacit.protocols.ledger import release

            release(self, "models with noise", content)
        if settings.averaging.individual:
            return await super().send_update(update)
        limits = settings.min_clients, settings.deadline, settings.called(self.round)
        await settings.hiding.client(self, update, settings.expected_in(self.round), *limits)

    def data(self, pseudo: PseudoLabels | None) -> LocalData:
        """The points with the client's labels, and with pseudo-labels if there are any."""
        if pseudo is None:
            return super().data(None)
        shard = self.shard
        labels = np.where(shard.labeled, shard.labels, pseudo.labels)
        weights = np.where(shard.labeled, 1.0, pseudo.weights)
        if self.settings.keys.class_weights == "own":
            weights = weights * by_class(labels, self.settings.spec.classes)
        return LocalData(shard.points, labels, weights.astype(np.float32), shard.labeled, shard.targets)


class TrainingServer(FedAvgServer):
    """The server of FedAvg with all that may be added to a round."""

    settings: TrainingSettings

    attributes: ClassVar[tuple[str, ...]] = (
        "model", "_kept", "stands", "_begun_with", "_summed", "noise_counted", "noise_carried",
    )  # fmt: skip
    noise_counted: tuple[int, ...] = ()
    """The variance with which each round so far counts, where clients add removable noise (`Distributed.before`)."""
    noise_carried: tuple[Carried, ...] = ()
    """The noise in each sum that was opened."""
    _kept: State = ()  # by the server's update

    @property
    def basis(self) -> bytes:
        """The SHA-256 of the model that a round begins with, as it is `compared`."""
        return hashlib.sha256(self.settings.compared(self.model)).digest()

    mean: bytes = b""
    """The average of the last round that was not lost, before noise and the server's update."""

    def __init__(
        self, world: World, clients: Iterable[str], settings: TrainingSettings, model: bytes, **access: Any
    ) -> None:
        super().__init__(world, clients, settings, model, **access)
        self._begun_with: tuple[int, list[str]] = (0, [])  # the latest round, and digests of its calls
        self._summed: dict[str, int] = {}  # the rounds with masked values, by digests of their calls
        self._companions = [make() for _, make in settings.method.additions]

    def state(self) -> dict[str, Any]:
        return super().state() | {"companions": [companion.state() for companion in self._companions]}

    def restore(self, state: dict[str, Any]) -> None:
        fields = dict(state)
        self._restore_companions(fields.pop("companions"))
        super().restore(fields)

    def kept(self) -> dict[str, Any]:
        return super().kept() | {"companions": copied([companion.state() for companion in self._companions])}

    def go_on_from(self, kept: Mapping[str, Any]) -> None:
        fields = dict(kept)
        self._restore_companions(copied(fields.pop("companions")))
        super().go_on_from(fields)

    def _restore_companions(self, states: Iterable[Any]) -> None:
        for companion, one in zip(self._companions, states, strict=True):
            companion.restore(one)

    def sums_in(self, number: int) -> bool:
        labeller = self.settings.method.labeller
        labels = labeller is not None and labeller.across and self.settings.labels_in(number)
        return labels or not self.settings.averaging.individual

    @property
    def fewest(self) -> int:
        labeller = self.settings.method.labeller
        return max(
            1 if labeller is None else labeller.fewest, self.settings.averaging.fewest(self.settings.min_clients)
        )

    def spare(self, clients: int, number: int) -> int | None:
        return self.settings.averaging.spare(clients, self.settings.called(number))

    @property
    def calls_all(self) -> bool:
        return self.settings.keys.share == 1

    def drawn_from(self, number: int) -> tuple[tuple[str, ...], dict[str, int], Any]:
        able, labels, source = super().drawn_from(number)
        if self.settings.private is None:
            return able, labels, source
        # For privacy nobody is drawn more often for others' being away: who never said what it has may have labels, and
        # those who are known to be gone are drawn, too, and not called. Whoever can work the cohort out gains what its
        # being hidden gives.
        return self.clients, dict.fromkeys(self.clients, 1) | labels, self.entropy("cohort")

    def send_model(self, members: Sequence[str]) -> None:
        """Call `members` to the round with w_t and the server terms' bytes for each."""
        digests = []
        for additions, same in itertools.groupby(members, self._additions):
            self.send_each(same, TrainingRound(self.model, additions))
            if not self.settings.averaging.individual:
                digests.append(self._digest(additions))
        self._begun_with = self.round, digests

    def standstill(self, number: int) -> str:
        private = self.settings.private
        if private is not None and private.noise is not None:
            noise = private.noise.after(self._counted_before(number))
            if noise.ends:
                spent, used = noise.spent_with_another, noise.spent_on(noise.before)
                return Reason(SPENT, number=number, spent=spent, epsilon=noise.epsilon, used=used)
        if self.settings.averaging.individual or number > self.settings.rounds:
            return ""
        before, digests = self._begun_with
        if before and self.latest(MASKED)[0] == before:
            self._summed = {**self._summed, **dict.fromkeys(digests, before)}
        for additions, _ in itertools.groupby(self.clients, self._additions):
            found = self._summed.get(self._digest(additions))
            if found is not None:
                return Reason(STANDSTILL, number=number, found=found)
        return ""

    def _counted_before(self, number: int) -> tuple[int, ...]:
        """The variance of noise with which each round before `number` counts, also for those lost in a crash."""
        private = self.settings.private
        assert private is not None and private.noise is not None
        found = self.noise_counted
        missing = number - 1 - len(found)
        return (*found, *[private.noise.after(found).unopened] * missing) if missing > 0 else found

    def _digest(self, additions: list[bytes]) -> str:
        """The digest of a call to a round with the present model (see `refusal.may_answer`)."""
        return hashlib.sha256(self.settings.compared(self.model, additions)).hexdigest()

    def _additions(self, client: str) -> list[bytes]:
        return [self.drawn(companion, companion.outgoing, client) for companion in self._companions]

    async def help_label(self, number: int, members: Sequence[str]) -> None:
        """Take the server's part in the members' pseudo-labels, if round `number` has some. Raises Abort."""
        await super().help_label(number, members)
        labeller = self.settings.method.labeller
        if labeller is not None and self.settings.labels_in(number):
            with self.step("train.label"):
                await labeller.server(self, members)

    async def average(self, members: Sequence[str]) -> Averages:
        """Average by the agreed sum, which hides each model, over the remaining `members`. Raises Abort."""
        settings = self.settings
        if settings.averaging.individual:
            return await super().average(members)
        left = [name for name in members if name not in self.out]
        limits = settings.min_clients, settings.deadline, settings.called(self.round)
        noise = None if settings.private is None else settings.private.noise
        if noise is not None:
            self.noise_counted = self._counted_before(self.round)
        try:
            averages = await settings.hiding.server(self, left, settings.expected_in(self.round), *limits)
        except Abort:
            if noise is not None:
                masked = self.latest(MASKED)[0] == self.round
                own = noise.after(self.noise_counted).unopened if masked else noise.variance
                self.noise_counted = (*self.noise_counted, own)
            raise
        if averages.noise is not None:
            self.noise_counted = (*self.noise_counted, averages.noise.variance)
            self.noise_carried = (*self.noise_carried, averages.noise)
        return averages

    async def next_model(self, averages: Averages) -> bytes:
        """Compute w_{t+1}: the average of the models, with noise in private training, or the result of the server
        update. Each server term is given the average of the clients' vectors for it."""
        model = self.mean = await super().next_model(averages)
        private = self.settings.private
        if private is not None:
            layout, noise = jobs.layout(self.settings.spec), self.entropy("noise")
            cost = private.released_work(layout.numbers)
            if private.noise is not None:
                model = await self.compute(cost, private.moved, self.model, model, layout)
            else:
                model = await self.compute(cost, private.released, model, len(averages.clients), noise, layout)
        if (update := self.settings.method.server) is not None:
            trained, layout = jobs.trained_size(self.settings.spec), jobs.layout(self.settings.spec)
            arguments = update, self._kept, self.model, model, trained, layout
            model, self._kept = await self.compute(update.work(trained), updated, *arguments)
        models = {name: vectors[0] for name, vectors in averages.sent.items()}
        for i, (companion, mean) in enumerate(zip(self._companions, averages.means[1:], strict=True), 1):
            sent = {name: averages.sent[name][i] if averages.sent else b"" for name in averages.clients}
            await self.drawing(companion, companion.take(self, mean, sent, models))
        return model

    def record_of(self, number: int, began: float, members: tuple[str, ...], averages: Averages) -> Record:
        record = super().record_of(number, began, members, averages)
        return record if self.settings.private is None else replace(record, loss=float("nan"))


@dataclass(frozen=True, kw_only=True)
class Called(Among):
    """The cohort of a round, with the `settings` of training; `seen`: clients whose models were averaged before."""

    settings: TrainingSettings
    seen: Sequence[str] = ()

    @property
    def number(self) -> int:
        """The number of the round."""
        return len(self.history) + 1


class Calling(Part):
    """The call of a cohort to a round, as a part of federated training."""

    takes = (OPEN,)
    messages = (TrainingRound,)
    learned = MappingProxyType(
        {
            "server": "each client's model (with a secure average: only the average); each client's numbers of points "
            "and labels",
            "client": "the average of each round",
        }
    )

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        assert isinstance(among, Called)
        model, spec = among.settings.expected.sizes[0], among.settings.spec
        companions = [make() for _, make in among.settings.method.additions]
        beside = sum(one.outgoing_size(spec, name, among.seen) for one in companions for name in among.names)
        return {"TrainingRound": len(among.names) * model + beside}

    def waits(self, tables: Any) -> int:
        return 2


class PlainAveraging(Part):
    """`Plain` as a part of a round of training. Its formula uses the settings of `Called`."""

    messages = (LocalModel,)

    weighs = True
    proves = False
    description = "the server sees each client's model"

    def payloads(self, tables: Any, among: Any) -> dict[str, int | None]:
        up = len(among.names) * (sum(among.settings.expected.sizes) + FIGURES_BYTES)
        return {"LocalModel": None if among.settings.keys.extra else up}

    def waits(self, tables: Any) -> int:
        return 1

    def openings(self, tables: Any, called: int) -> Sequence[Opening]:
        if tables.training.extra:
            return ()
        least = max(1, tables.training.fewest())
        return [Opening(least, opens=lambda joined, left: float(left >= least), masks=False)]


def smallest_cohort(settings: TrainingSettings, labels: Collection[int]) -> int:
    """The size of the smallest cohort among clients with these numbers of `labels`, if all have enrolled."""
    return rounded_up(settings.keys.share, able_to_train(settings, labels))


def able_to_train(settings: TrainingSettings, labels: Collection[int]) -> int:
    """How many clients with these numbers of `labels` can train in the first round."""
    return len(labels) if settings.trains_unlabeled(1) else sum(1 for count in labels if settings.labels_used(count, 1))


def most_called(settings: TrainingSettings, labels: Collection[int]) -> int:
    """The size of the largest cohort among clients with these numbers of `labels`, however many come.

    In private training, clients that have not enrolled are drawn like those that have labels.
    """
    everybody = settings.private is not None or settings.trains_unlabeled(settings.rounds)
    able = len(labels) if everybody else sum(1 for count in labels if settings.labels_used(count, settings.rounds))
    return rounded_up(settings.keys.share, able)


def trains(settings: TrainingSettings, points: int, labels: int, number: int) -> bool:
    """Return true if a client with that number of `points`, `labels` of them labeled, has anything to train on."""
    others = points - labels if settings.trains_unlabeled(number) else 0
    return settings.update.batches(labels, others).steps > 0
