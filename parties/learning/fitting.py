"""The seconds of the operations of training and inference, fitted to the times of very different networks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import numpy as np

from tacit.parties.learning.backend import Tensor, nn, torch
from tacit.parties.learning.inference import embed_all
from tacit.parties.learning.local_update import LocalData, LocalUpdate
from tacit.parties.learning.measuring import costs_of, least_seconds
from tacit.parties.learning.networks import BUILDERS, Parts
from tacit.parties.learning.parameters import initial
from tacit.parties.learning.sgd import train
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.work import embed_work, train_work
from tacit.sim.compute import Work

__all__ = ["Job", "fitted", "measure_costs", "measured"]


@dataclass(frozen=True)
class Job:
    """An update or an embedding of a network: what is `done`, its `work`, and its processor `seconds` here."""

    network: str
    done: str
    work: Work
    seconds: float


def measure_costs(repeats: int = 5, quick: bool = False) -> dict[str, float]:
    """The seconds that each operation takes on one core of this machine; `quick` measures a few small networks."""
    return fitted(measured(repeats, quick))


def fitted(jobs: Sequence[Job]) -> dict[str, float]:
    """The positive seconds of each operation with the least sum of squared relative errors of `jobs`."""
    found = costs_of([job.work for job in jobs], [job.seconds for job in jobs])
    return {name: max(seconds, _LEAST) for name, seconds in found.items()}


_LEAST = 1e-12
"""The seconds of an operation whose cost cannot be separated from that of others, which always occur with it."""


def measured(repeats: int = 5, quick: bool = False) -> list[Job]:
    """Updates and embeddings of the networks to which the costs are fitted; the least time of `repeats` counts."""
    found: list[tuple[str, str, Work]] = []
    actions: list[Callable[[], object]] = []
    for network, shape, batch, steps in _MEASURED[:5:2] if quick else _MEASURED:
        with _built_as(network):
            spec = ModelSpec(_STAND_IN if network in _OTHERS else network, shape, 10)
            vector, data = initial(spec, 1), _points(spec, batch * steps)
            for epochs in (1, 3):
                update = LocalUpdate(epochs, batch, learning_rate=1e-3, device="cpu")
                done = f"{epochs * steps} steps of {batch} points"
                found.append((network, done, train_work(spec, update, len(data.labels), 0)))
                actions.append(partial(_as, network, train, spec, vector, data, update, 0, 1))
            found.append((network, f"embedding {len(data.labels)} points", embed_work(spec, len(data.labels))))
            actions.append(partial(_as, network, embed_all, spec, vector, data.images, "cpu"))
    seconds = least_seconds(actions, repeats)
    return [Job(*one, taken) for one, taken in zip(found, seconds, strict=True)]


_STAND_IN = "linear"


def _as(network: str, action: Callable[..., object], *arguments: object) -> object:
    with _built_as(network):
        return action(*arguments)


@contextmanager
def _built_as(network: str) -> Iterator[None]:
    """Let `network` be built for the name of another one, if it is one of this module."""
    build = _OTHERS.get(network, BUILDERS[_STAND_IN])
    with patch.dict(BUILDERS, {_STAND_IN: build}):
        yield


class _Convolved(nn.Module):
    """Two convolutions along a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(1, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, 64, 5, padding=2))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers(x.reshape(len(x), 1, -1)).relu().mean(2)
        return found


class _Recurrent(nn.Module):
    """A recurrent layer over the rows of an image; the features are the last step's."""

    def __init__(self, kind: Callable[..., nn.RNNBase], inputs: int, width: int) -> None:
        super().__init__()
        self.layer = kind(inputs, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x.reshape(len(x), -1, self.layer.input_size))[0][:, -1]
        return found


class _Transformer(nn.Module):
    """One block of a transformer over the rows of an image."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.inputs, self.widen = inputs, nn.Linear(inputs, width)
        self.block = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.block(self.widen(x.reshape(len(x), -1, self.inputs))).mean(1)
        return found


class _Words(nn.Module):
    """The mean of the embeddings of words."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, 32)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.table((x * 999).long()).mean(1)
        return found


class _Perceptron(nn.Sequential):
    """Two hidden layers, normalised."""

    def __init__(self) -> None:
        layers = (nn.Flatten(), nn.Linear(784, 256), nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 64), nn.Tanh())
        super().__init__(*layers)


_OTHERS: dict[str, Callable[[ModelSpec], Parts]] = {
    "Conv1d": lambda spec: (_Convolved(), nn.Linear(64, spec.classes)),
    "LSTM": lambda spec: (_Recurrent(nn.LSTM, 28, 64), nn.Linear(64, spec.classes)),
    "GRU": lambda spec: (_Recurrent(nn.GRU, 28, 64), nn.Linear(64, spec.classes)),
    "RNN": lambda spec: (_Recurrent(nn.RNN, 28, 64), nn.Linear(64, spec.classes)),
    "transformer": lambda spec: (_Transformer(28, 64), nn.Linear(64, spec.classes)),
    "Embedding": lambda spec: (_Words(), nn.Linear(32, spec.classes)),
    "perceptron": lambda spec: (_Perceptron(), nn.Linear(64, spec.classes)),
}
"""Networks that do not come with Tacit, as plugins have them."""

_MEASURED = (
    ("linear", (784,), 50, 10),
    ("linear_embedding", (784,), 10, 10),
    ("small_cnn", (1, 28, 28), 10, 5),
    ("small_cnn", (1, 28, 28), 50, 2),
    ("fedct_fashionmnist", (1, 28, 28), 10, 5),
    ("fedct_fashionmnist", (1, 28, 28), 50, 2),
    ("fedct_cifar10", (3, 32, 32), 20, 1),
    ("cnn13", (3, 32, 32), 4, 1),
    ("Conv1d", (128,), 20, 3),
    ("LSTM", (784,), 20, 3),
    ("GRU", (784,), 20, 3),
    ("RNN", (784,), 20, 3),
    ("transformer", (784,), 20, 3),
    ("Embedding", (64,), 50, 4),
    ("perceptron", (784,), 50, 4),
)
"""The networks, shapes of points, points in a batch and numbers of batches to which the costs are fitted."""


def _points(spec: ModelSpec, count: int) -> LocalData:
    values = np.linspace(0, 1, count * torch.Size(spec.shape).numel(), dtype=np.float32)
    return LocalData.supervised(values.reshape(count, *spec.shape), np.arange(count) % spec.classes)
