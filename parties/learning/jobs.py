"""Jobs of a party with a network: plain functions for `Party.compute`.

Arguments and results can be pickled; the only state is a cache of built networks, each of which begins every job as it
was built, with the numbers that the job was sent (`parameters`). On the processor the same arguments
give the same bytes, in this process or another (other kinds of processors may round differently). Torch is imported
when the first of these functions is called.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import metrics
from tacit.parties.learning.extras import require
from tacit.parties.learning.local_update import LocalData, LocalUpdate, Trained
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import Layout
from tacit.sim.compute import Work
from tacit.sim.hollow import blank, filled, hollow

if TYPE_CHECKING:
    from tacit.parties.learning.backend import nn

__all__ = [
    "accuracy",
    "check_network",
    "check_optimizer",
    "choose_device",
    "default_rate",
    "embed_all",
    "embed_work",
    "evaluate",
    "feature_count",
    "finished",
    "initial",
    "layout",
    "least_batch",
    "logits",
    "measured",
    "metric_names",
    "named",
    "predict",
    "private_layout",
    "probabilities",
    "require_torch",
    "size",
    "train",
    "train_work",
    "trained_layout",
    "trained_size",
    "write_weights",
]

Images = NDArray[np.generic]
"""Points in the form of `LocalData.images`."""


def require_torch() -> None:
    """Raise MissingExtra, which names what to install, if torch is not installed."""
    require("torch", "train", "training")


def choose_device(name: str) -> str:
    """The device that ``auto``, ``cpu`` or ``cuda`` stands for: ``cpu``, or a GPU's name. Raises ValueError."""
    from tacit.parties.learning import backend

    device = backend.choose_device(name)
    return "cpu" if device.type == "cpu" else backend.torch.cuda.get_device_name(device)


def check_network(spec: ModelSpec) -> None:
    """Raise PluginError if a plugin's network cannot be built or trained, or does not fit its inputs and classes.

    Raises ModelError for any network that has nothing to train, or numbers of a type that no vector can hold.
    """
    from tacit.parties.learning import parameters

    parameters.check(spec)


def check_optimizer(update: LocalUpdate) -> None:
    """Raise SettingError if torch has no such optimiser, or if it cannot be given the options."""
    from tacit.parties.learning import optimizers

    rate = update.rate(1, 0) or 1.0
    optimizers.check(update.optimizer, rate, update.weight_decay, update.momentum, update.optimizer_options)


def default_rate(optimizer: str) -> float | None:
    """The learning rate that torch gives `optimizer` by default; None for "sgd". Raises SettingError."""
    if optimizer == "sgd":
        return None
    from tacit.parties.learning import optimizers

    return optimizers.default_rate(optimizer)


def initial(spec: ModelSpec, seed: int | bytes) -> bytes:
    """The parameters of a new network, drawn from the stream (seed, "initial")."""
    from tacit.parties.learning import parameters

    return parameters.initial(spec, seed)


def named(spec: ModelSpec) -> str:
    """The names, shapes and types of the tensors in the network's vector, in its order, as JSON."""
    from tacit.parties.learning import parameters

    return msgspec.json.encode(parameters.named(spec)).decode()


def finished(spec: ModelSpec, parameters: bytes) -> "nn.Module":
    """A network with these parameters, in evaluation mode. Raises ValueError if they are not the network's."""
    from tacit.parties.learning import parameters as networks

    return networks.finished(spec, parameters)


def write_weights(network: "nn.Module", path: Path) -> tuple[int, int]:
    """Write the state dict of `network` to the new file `path`, as safetensors; return how many tensors and numbers."""
    from tacit.parties.learning import state_dict

    tensors = state_dict.own_tensors(network)
    state_dict.write_safetensors(tensors, path)
    return len(tensors), sum(one.numel() for one in tensors.values())


def size(spec: ModelSpec) -> int:
    """The length of the network's vector of parameters, in numbers."""
    from tacit.parties.learning import parameters

    return parameters.size(spec)


def layout(spec: ModelSpec) -> Layout:
    """The types of the numbers of the network's vector, each of which is stored and sent in its own width."""
    from tacit.parties.learning import parameters

    return parameters.layout(spec)


def private_layout(spec: ModelSpec) -> Layout:
    """The types of the private numbers, which stay with each client; none unless the spec declares some."""
    if not spec.private:
        return Layout()
    from tacit.parties.learning import parameters

    return parameters.private_layout(spec)


def trained_layout(spec: ModelSpec) -> Layout:
    """The types of the trained numbers, with which the vector begins."""
    from tacit.parties.learning import parameters

    return parameters.trained_layout(spec)


def least_batch(spec: ModelSpec) -> int:
    """The fewest points with which the network can be trained: 2 if it normalises each number over a batch, else 1."""
    from tacit.parties.learning import parameters

    return parameters.least_batch(spec)


def feature_count(spec: ModelSpec) -> int:
    """The number of features that the network computes for a point."""
    from tacit.parties.learning import parameters

    return parameters.feature_count(spec)


def trained_size(spec: ModelSpec) -> int:
    """The number of trained numbers in the vector. They come first; the rest are averaged buffers."""
    from tacit.parties.learning import parameters

    return parameters.trained_size(spec)


def _hollow_train(
    spec: ModelSpec, parameters: bytes, data: LocalData, update: LocalUpdate, round_number: int, seed: int | bytes,
    received: Sequence[bytes] = (), kept: Sequence[bytes] = (), private: bytes = b"",
) -> Trained:  # fmt: skip
    labeled, others = map(len, update.usable(data))
    steps = update.epochs * update.batches(labeled, others).steps
    if not update.additions:
        _sizes[spec, update] = (), ()
    if (spec, update) not in _sizes:  # of what additions send and keep, found by training on a few points
        labels = np.array([0, 0, 0, 0, -1, -1, -1, -1])
        rows = np.arange(8) % len(data.images)
        targets = None if data.targets is None else data.targets[rows]
        few = LocalData(data.images[rows], labels, np.ones(8, np.float32), labels == 0, targets)
        found = train(spec, initial(spec, 0), few, msgspec.structs.replace(update, epochs=1), 0, 0)
        _sizes[spec, update] = tuple(map(len, found.sent)), tuple(map(len, found.kept))
    sent, keeps = (tuple(map(blank, sizes)) for sizes in _sizes[spec, update])
    own = blank(many) if (many := private_layout(spec).size) else b""
    loss = 0.0 if steps else math.nan
    return Trained(blank(len(parameters)) if steps else parameters, sent, keeps, steps, loss, private=own)


_sizes: dict[tuple[ModelSpec, LocalUpdate], tuple[tuple[int, ...], tuple[int, ...]]] = {}


@hollow(_hollow_train)
def train(
    spec: ModelSpec,
    parameters: bytes,
    data: LocalData,
    update: LocalUpdate,
    round_number: int,
    seed: int | bytes,
    received: Sequence[bytes] = (),
    kept: Sequence[bytes] = (),
    private: bytes = b"",
) -> Trained:
    """The result of training from `parameters` on a client's data in round `round_number`, counted from 0.

    Shuffles, augmentation and dropout come from streams of (seed, ..., round_number): give each client a separate seed.
    For each of the update's additions, `received` has the server's bytes and `kept` the bytes that the client kept
    after its last update; b"" or missing if there are none yet. `private` are the private numbers of its last update,
    b"" if there are none: they begin as built. Without a usable point the parameters are returned
    unchanged. Raises ValueError for vectors of the wrong length, labels out of range and points that do not fit.
    """
    from tacit.parties.learning import sgd

    return sgd.train(spec, parameters, data, update, round_number, seed, received, kept, private)


@hollow(lambda spec, parameters, images, device="auto": filled((len(images), feature_count(spec)), np.float32, 1))
def embed_all(spec: ModelSpec, parameters: bytes, images: Images, device: str = "auto") -> NDArray[np.float32]:
    """The network's features of every point, float32 (n, d). Raises ValueError as `train` does."""
    from tacit.parties.learning import inference

    return inference.embed_all(spec, parameters, images, device)


def logits(spec: ModelSpec, parameters: bytes, images: Images, device: str = "auto") -> NDArray[np.float32]:
    """The outputs of the network's last layer for every point, float32 (n, classes)."""
    from tacit.parties.learning import inference

    return inference.logits(spec, parameters, images, device)


def probabilities(spec: ModelSpec, parameters: bytes, images: Images, device: str = "auto") -> NDArray[np.float32]:
    """The probability of each class for every point, float32 (n, classes)."""
    from tacit.parties.learning import inference

    return inference.probabilities(spec, parameters, images, device)


def predict(spec: ModelSpec, parameters: bytes, images: Images, device: str = "auto") -> NDArray[np.int64]:
    """The likeliest class of every point, int64 (n,); ties go to the lower class."""
    return probabilities(spec, parameters, images, device).argmax(1)


def accuracy(
    spec: ModelSpec, parameters: bytes, images: Images, labels: NDArray[np.int64], device: str = "auto"
) -> float:
    """The share of the points with a label (>= 0) that `predict` classifies correctly.

    Raises ValueError without such points.
    """
    known = labels >= 0
    if not known.any():
        raise ValueError(f"accuracy needs a point with a label; there are {len(labels)} points, none with one")
    if not known.all():  # else a copy of all points would be made
        images, labels = images[known], labels[known]
    return float((predict(spec, parameters, images, device) == labels).mean())


def measured(
    spec: ModelSpec,
    parameters: bytes,
    images: Images,
    targets: NDArray[np.generic],
    device: str = "auto",
    private: bytes = b"",
    *,
    further: bool = False,
) -> dict[str, float]:
    """The metrics of the network's task by name, over points with their targets (n, ...): "loss", then the task's own.

    `private` are a client's private numbers (`Trained.private`); b"": as built. Points without a target (-1 for a
    class) must be left out. `further`: also balanced accuracy, macro F1 and the area
    under the ROC curve, if the task has classes. Raises ValueError without points.
    """
    from tacit.parties.learning import inference

    if not len(images):
        raise ValueError("metrics need a point with a target; there is none")
    return inference.measured(spec, parameters, images, targets, device, private, further=further)


def metric_names(spec: ModelSpec) -> tuple[str, ...]:
    """The names of the task's own metrics, found by two points of zeros."""
    from tacit.parties.learning import parameters

    return parameters.metric_names(spec)


@hollow(
    lambda spec, parameters, images, targets, names, device="auto", private=b"": bytes(8 * metrics.width(spec, names))
)
def evaluate(
    spec: ModelSpec, parameters: bytes, images: Images, targets: NDArray[np.generic], names: Sequence[str],
    device: str = "auto", private: bytes = b"",
) -> bytes:  # fmt: skip
    """The sum of the losses and the counts of the network over points (`metrics.sums_of`), float64, little-endian.

    `names`: the metrics of a task without classes. `private`: as in `measured`. All are 0 without points.
    """
    if not len(images):
        return bytes(8 * metrics.width(spec, names))
    from tacit.parties.learning import inference

    return inference.sums(spec, parameters, images, targets, device, names, private).astype("<f8").tobytes()


def train_work(spec: ModelSpec, update: LocalUpdate, labeled: int, others: int) -> Work:
    """The work of `train` with `labeled` labeled points and `others` other points that take part, for `Party.compute`.

    It depends on the arguments only, not on where or how the update is run.
    """
    from tacit.parties.learning import work

    return work.train_work(spec, update, labeled, others)


def embed_work(spec: ModelSpec, points: int) -> Work:
    """The work of `embed_all`, `logits`, `probabilities` or `predict` for `points` points."""
    from tacit.parties.learning import work

    return work.embed_work(spec, points)
