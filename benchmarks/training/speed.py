"""Rounds of federated training per second: Tacit compared with a plain loop with the same arithmetic.

The task is FedAvg of a small convolutional network (108,618 parameters) on images of MNIST's shape, with 100 clients of
50 images each. In a round ten of them train for an epoch of five batches of ten images, and the server averages their
models. torch uses one thread, on the processor; the pixels and labels are random.

*Plain loop* is the program without a simulator: a network, torch's optimiser, two nested loops. It trains the same
clients in each round on their images in the same order, and so ends with the same bits as Tacit, which is checked in
each turn. *Tacit* is `tacit.run` as a user calls it: the scenario is checked, the data divided, every model encoded,
hashed, sent over links with latency and bandwidth, decoded and averaged, and every event chained into the trace and
written to the run's folder, with checkpoints; it computes in its own process. The garbage of earlier runs is not
collected before a run, which takes 0.15 s in a process with several runs; `tacit run` has none. *Tacit, pool:2* is the
same with two workers, and ends with the same bits; like this process, they have imported torch for an earlier run. A
second table has the same network with batch normalisation, whose statistics are averaged, and reset before each
client's training. pfl and Flower (with Ray) do the same work, if installed (the extra `simulators`, best in a separate
environment: they need older releases of some packages).

A rate is rounds per wall-clock second of a whole run, including start and end. The speed of a machine varies within
seconds by more than the differences measured here. Therefore each contender stops after each of its rounds for one
round of the plain loop, and their times are reported separately. A run gives one ratio; the ratio of processor time is
given for contenders that compute only in this process.
"""

import math
import os
import statistics
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.benchmarks.measure import described, environment, write_json
from tacit.benchmarks.training.size import FULL, LEARNING_RATE, QUICK, AfterRound, Contender, Federation, Size, layers
from tacit.parties.data.splits import Shard, counted, named
from tacit.parties.datasets import store
from tacit.parties.datasets.content import Content, Part
from tacit.parties.learning import jobs
from tacit.parties.learning.extras import MissingExtra, require
from tacit.parties.learning.spec import MODELS, ModelSpec
from tacit.protocols.federated.experiment import cohorts_of, settings_of
from tacit.protocols.federated.observer import TrainedRound
from tacit.protocols.plugins import add_model
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Table
from tacit.scenarios.files.splits import split_data
from tacit.scenarios.running import runner
from tacit.scenarios.running.process import spare_for_good
from tacit.scenarios.running.runner import Watch
from tacit.scenarios.schema import scenario as schema
from tacit.sim.streams import Entropy, derive
from tacit.sim.trace import Event

__all__ = ["Standing", "main", "measure", "plain", "tacit"]

_SEED = 1
_TARGETS = (0.97, 0.9, 1.7)
"""The shares to reach: of the plain loop's rate with many rounds and with few, and of the inline engine's rate by two
workers."""


@dataclass(frozen=True)
class Standing:
    """A contender's `rates`, rounds per second, one for each run, and their `share` of the plain loop's rates.

    `processor_share` is the share by processor time; empty for a contender that also computes in other processes.
    """

    contender: str
    rates: list[float]
    share: list[float]
    processor_share: list[float]


def main(quick: bool = False, json_file: Path | None = None) -> None:
    """Measure, print a table, and write it to `json_file`."""
    console = make_console()
    try:
        require("torch", "train", "training")
    except MissingExtra as missing:
        console.print(str(missing))
        raise SystemExit(2) from None
    from tacit.benchmarks.training.peers import peers

    spare_for_good()
    found = environment(("torch", "numpy", "msgspec", "pfl", "flwr", "ray"))
    console.print(described(found) + "; one thread")
    size = QUICK if quick else FULL
    own = [Contender("Tacit", tacit, same=True), Contender("Tacit, pool:2", _by_two_workers, same=True, here=False)]
    standings = measure(size, [*own, *peers(console)])
    normalised = measure(replace(size, normalises=True), own[:1])
    print_table(console, _table(size, standings))
    print_table(console, _table(replace(size, normalises=True), normalised))
    wanted = _TARGETS[1] if quick else _TARGETS[0]
    for one, what in ((standings[1], ""), (normalised[1], " with batch normalisation")):
        ratio = statistics.median(one.share)
        console.print(f"Tacit: {ratio:.3f} of the plain loop's rounds a second{what}; {wanted} are wanted")
    # Shares of the plain loop's rate, which varies with the machine like theirs, are compared.
    gain = statistics.median(two / one for one, two in zip(standings[1].share, standings[2].share, strict=True))
    console.print(f"Tacit, pool:2: {gain:.3f} of the inline engine's rounds a second; {_TARGETS[2]} are wanted")
    write_json(
        json_file,
        environment=found,
        quick=quick,
        size=size,
        targets=_TARGETS,
        gain=gain,
        standings=standings,
        normalised=normalised,
    )


def measure(size: Size, contenders: Sequence[Contender]) -> list[Standing]:
    """The standing of the plain loop and of each contender.

    Raises RuntimeError if a contender takes another number of steps, has a model of another size, or should equal the
    plain loop's model and does not.
    """
    times: dict[str, list[tuple[Times, Times]]] = {contender.name: [] for contender in contenders}
    with _images(size), _added_network():
        few, federation = _dealt(replace(size, rounds=1)), _dealt(size)
        for contender in contenders:
            if not contender.once:
                _race(few, contender)
        for turn in range(size.turns):
            for contender in contenders:
                if not (contender.once and turn):
                    times[contender.name].append(_race(federation, contender))
    pace = [size.rounds / loop[0] for pairs in times.values() for _, loop in pairs]
    alike = [1.0] * len(pace)
    return [Standing(_PLAIN, pace, alike, alike), *(_standing(size, one, times[one.name]) for one in contenders)]


_PLAIN = "plain loop"
Times = tuple[float, float]
"""Wall-clock seconds, and processor seconds."""


def _now() -> Times:
    return time.perf_counter(), time.process_time()


def _since(began: Times) -> Times:
    ended = _now()
    return ended[0] - began[0], ended[1] - began[1]


class _Loop:
    """The plain loop, run round by round, and the time it `spent`; `end` is its last model and its steps."""

    def __init__(self, federation: Federation) -> None:
        self._rounds = plain(federation)
        self.spent: Times = (0.0, 0.0)
        self.end: tuple[bytes, int] | None = None

    def next_round(self) -> None:
        """Run the next round, if there is one."""
        began = _now()
        try:
            next(self._rounds)
        except StopIteration as stop:
            self.end = stop.value
        took = _since(began)
        self.spent = self.spent[0] + took[0], self.spent[1] + took[1]


def _race(federation: Federation, contender: Contender) -> tuple[Times, Times]:
    """The times of the contender's run, and of the interleaved plain loop."""
    loop, size = _Loop(federation), federation.size
    began = _now()
    vector, steps = contender.run(federation, loop.next_round)
    both = _since(began)
    beside = loop.spent
    while loop.end is None:
        loop.next_round()
    if steps != size.steps or len(vector) != len(federation.vector):
        problem = f"{steps} steps and a model of {len(vector)} bytes"
        raise RuntimeError(f"{contender.name} has taken {problem}, not {size.steps} and {len(federation.vector)}")
    if contender.same and loop.end != (vector, steps):
        raise RuntimeError(f"{contender.name} and the {_PLAIN} have ended with different models")
    return (both[0] - beside[0], both[1] - beside[1]), loop.spent


def _standing(size: Size, contender: Contender, pairs: Sequence[tuple[Times, Times]]) -> Standing:
    wall, processor = ([loop[i] / own[i] for own, loop in pairs] for i in range(2))
    rates = [size.rounds / own[0] for own, _ in pairs]
    return Standing(contender.name, rates, wall, processor if contender.here else [])


def _table(size: Size, standings: Sequence[Standing]) -> Table:
    what = f"{size.clients} clients x {size.images} images, {size.cohort} a round, batches of {size.batch}"
    norms = ", with batch normalisation" if size.normalises else ""
    title = f"Rounds of FedAvg a second{norms}: {what}; {size.rounds} rounds in a run"
    columns = (
        "contender",
        Column("median", kinds.decimals(2), of=lambda one: statistics.median(one.rates)),
        Column("least", kinds.decimals(2), of=lambda one: min(one.rates)),
        Column("most", kinds.decimals(2), of=lambda one: max(one.rates)),
        Column("of the plain loop", kinds.decimals(3), of=lambda one: statistics.median(one.share)),
        Column("by processor time", kinds.decimals(3), of=_processor_share),
    )
    return Table.of(standings, columns, title)


def _processor_share(one: Standing) -> float | None:
    return statistics.median(one.processor_share) if one.processor_share else None


# The inputs of training


@contextmanager
def _images(size: Size) -> Iterator[None]:
    """Inside this context, random images replace this process's MNIST."""
    dice = np.random.default_rng(_SEED)

    def part(count: int) -> Part:
        pixels = dice.integers(0, 256, (count, 28, 28, 1), dtype=np.uint8)
        return Part(pixels, dice.integers(0, 10, count))

    before = os.environ.get("TACIT_DATA")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TACIT_DATA"] = folder
        try:
            content = Content(part(size.clients * size.images), part(10), tuple("0123456789"))
            with store.locked(lambda: None), store.workplace() as work:
                store.keep("mnist", content, "random", work)
            yield
        finally:
            if before is None:
                del os.environ["TACIT_DATA"]
            else:
                os.environ["TACIT_DATA"] = before


def _dealt(size: Size) -> Federation:
    scenario = _scenario(size)
    held, shards = split_data(scenario)
    by_name = named(shards)
    labels = counted(by_name)[1]
    settings = settings_of(scenario, held, labels=labels.values())
    cohorts = cohorts_of(settings, labels, _SEED)
    return Federation(
        size,
        scenario,
        np.stack([shard.points[..., 0] for shard in shards]),
        np.stack([shard.labels for shard in shards]),
        jobs.initial(settings.spec, _SEED),
        [[int(name.removeprefix("client/")) for name in cohort] for cohort in cohorts],
        [_orders(cohort, by_name, number) for number, cohort in enumerate(cohorts, 1)],
    )


def _orders(cohort: Sequence[str], shards: Mapping[str, Shard], number: int) -> dict[int, NDArray[np.int64]]:
    """The order in which each client of a cohort uses its images in a round, from its own random stream."""
    import torch

    found = {}
    for name in cohort:
        seed = Entropy.seeded(_SEED, name, 1, number, 1, "training").bytes(32)
        dice = torch.Generator().manual_seed(int.from_bytes(derive(seed, "torch", "batches", number - 1)[:8], "big"))
        order = torch.randperm(len(shards[name].labels), generator=dice)
        found[int(name.removeprefix("client/"))] = order.numpy()
    return found


def _scenario(size: Size) -> schema.Scenario:
    return schema.Scenario(
        title="Rounds of FedAvg",
        seed=_SEED,
        data=schema.Data(name="mnist", clients=size.clients, labeled=1.0),
        protocol=schema.ProtocolKeys(name="fedavg"),
        model=schema.Model(name=_NORMALISED if size.normalises else "small_cnn"),
        training=schema.Training(
            rounds=size.rounds,
            share=size.cohort / size.clients,
            epochs=1,
            labeled_batch=size.batch,
            learning_rate=LEARNING_RATE,
            decay_rounds=0,
            weight_decay=0.0,
            validation=0.0,
            evaluate_every=size.rounds,
            device="cpu",
        ),
    )


_NORMALISED = "small_cnn with batch normalisation"


@contextmanager
def _added_network() -> Iterator[None]:
    """Inside this context, there is a network that normalises batches."""
    add_model(_NORMALISED, "the network of the benchmark", _normalised)
    try:
        yield
    finally:
        MODELS.remove(_NORMALISED)


def _normalised(spec: ModelSpec) -> Any:
    from torch import nn

    return nn.Sequential(*layers(normalises=True))


# Contenders


class _RoundByRound(Watch):
    """A watch that calls `after_round` once the server has averaged a round's models."""

    def __init__(self, after_round: AfterRound) -> None:
        self._after_round = after_round

    def __call__(self, event: Event) -> None:
        if event.step == "train.average" and event.kind == "leave":
            self._after_round()


def tacit(federation: Federation, after_round: AfterRound, engine: str = "inline") -> tuple[bytes, int]:
    """Run the whole training by Tacit; return the last model and the number of steps."""
    scenario = msgspec.structs.replace(federation.scenario, engine=engine)
    with tempfile.TemporaryDirectory() as folder:
        result = runner.run(scenario, out=Path(folder) / "run", watch=_RoundByRound(after_round))
        if result.outcome != "completed":
            raise RuntimeError(f"Tacit: {result.outcome}, {result.reason}")
        with np.load(result.folder / "model.npz") as saved:
            vector: bytes = saved["parameters"].tobytes()
    size = federation.size
    trained = sum(len(one.cohort) for one in result.round_records if isinstance(one, TrainedRound))
    return vector, trained * math.ceil(size.images / size.batch)


def _by_two_workers(federation: Federation, after_round: AfterRound) -> tuple[bytes, int]:
    return tacit(federation, after_round, "pool:2")


def plain(federation: Federation) -> Generator[None, None, tuple[bytes, int]]:
    """Run the same arithmetic alone, yielding after each round; return the last model and the number of steps."""
    import torch
    from torch import nn

    network = nn.Sequential(*layers(normalises=federation.size.normalises))
    parameters = list(network.parameters())
    statistics = [one for one in network.buffers() if one.is_floating_point()]
    sent = [*parameters, *statistics]
    images = torch.from_numpy(federation.images[:, :, np.newaxis]).float() / 255
    labels = torch.from_numpy(federation.labels)
    optimiser = torch.optim.SGD(parameters, lr=LEARNING_RATE)
    cross_entropy = nn.CrossEntropyLoss()
    shared, steps, batch = np.frombuffer(federation.vector, "<f4"), 0, federation.size.batch
    for cohort, orders in zip(federation.cohorts, federation.orders, strict=True):
        total = torch.zeros(len(shared), dtype=torch.float64)
        for client in cohort:
            received = torch.from_numpy(shared.copy()).split([one.numel() for one in sent])
            with torch.no_grad():
                for tensor, values in zip(sent, received, strict=True):
                    tensor.copy_(values.view(tensor.shape))
            for rows in torch.from_numpy(orders[client]).split(batch):
                optimiser.zero_grad()
                cross_entropy(network(images[client, rows]), labels[client, rows]).backward()
                optimiser.step()
                steps += 1
            total += torch.cat([one.detach().view(-1) for one in sent])
        shared = (total / len(cohort)).float().numpy()
        if steps < federation.size.steps:
            yield
    return shared.tobytes(), steps
