"""The work of training and inference in operations of the cost table.

| operation | is |
| --- | --- |
| ``train.multiply-add`` | one of a convolution or linear layer; the backward pass has two for each |
| ``train.value`` | an output of a layer for one point of a batch, with its share of the backward pass |
| ``train.parameter`` | a trained parameter in one step |
| ``train.step`` | a step, whatever the network |
| ``embed.multiply-add``, ``embed.value`` | the same for inference |
| ``embed.batch`` | a batch of inference, whatever the network |
| ``model.load``, ``model.store`` | a number of the vector written to a network, or read from one |

Operations are counted in one pass of a single point, once for each network. Their costs are fitted to the times of
whole updates and embeddings of very different networks (`measure_costs`), so a prediction has the error of that fit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from tacit.parties.learning.backend import Tensor, choose_device, nn, seeded, torch
from tacit.parties.learning.inference import BATCH, embed_all
from tacit.parties.learning.local_update import LocalData, LocalUpdate
from tacit.parties.learning.measuring import fitted_costs
from tacit.parties.learning.networks import Parts, builder
from tacit.parties.learning.parameters import cached, initial, size, trained_size
from tacit.parties.learning.sgd import train
from tacit.parties.learning.spec import ModelSpec
from tacit.sim.compute import Work

__all__ = ["Operations", "embed_work", "measure_costs", "operations", "steps_work", "train_work"]


@dataclass(frozen=True)
class Operations:
    """The operations of one forward pass of one point, and the lengths of the vector and of its trained part."""

    multiply_adds: int
    values: int
    numbers: int
    trained: int


def operations(spec: ModelSpec) -> Operations:
    """The operations of `spec`, counted while one point passes through the network."""
    return _operations(spec, builder(spec))


@lru_cache(maxsize=64)
def _operations(spec: ModelSpec, built_by: Callable[[ModelSpec], Parts]) -> Operations:
    network = cached(spec, choose_device("cpu")).eval()
    counts = {"multiply_adds": 0, "values": 0}

    def count(module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        if not isinstance(output, Tensor):  # several outputs, as of a recurrent layer
            counts["values"] += _numbers(output)
            return
        counts["values"] += output.numel()
        if isinstance(module, nn.Conv2d | nn.Linear):
            counts["multiply_adds"] += output.numel() * module.weight[0].numel()

    hooks = [module.register_forward_hook(count) for module in network.modules() if _is_layer(module)]
    try:
        with torch.no_grad(), seeded(torch.device("cpu"), 0):
            network(torch.zeros(1, *spec.shape))
    finally:
        for hook in hooks:
            hook.remove()
    return Operations(**counts, numbers=size(spec), trained=trained_size(spec))


def _numbers(outputs: object) -> int:
    """The numbers in the first of several outputs, which holds the values for each point; the others are states."""
    while isinstance(outputs, tuple | list) and outputs:
        outputs = outputs[0]
    return outputs.numel() if isinstance(outputs, Tensor) else 0


def _is_layer(module: nn.Module) -> bool:
    """Return true if `module` computes on points: not the parts of a weight normalisation, nor flattening, which is
    free."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        return True
    normalises_weights = module.__class__.__module__.startswith("torch.nn.utils")
    return not (list(module.children()) or normalises_weights or isinstance(module, nn.Flatten | nn.Identity))


def train_work(spec: ModelSpec, update: LocalUpdate, labeled: int, others: int) -> Work:
    """The work of `train` with `labeled` labeled points and `others` other points that take part."""
    return _train_work(operations(spec), update, labeled, others)


@lru_cache(maxsize=256)
def _train_work(one: Operations, update: LocalUpdate, labeled: int, others: int) -> Work:
    plan = update.batches(labeled, others)
    points, steps = update.epochs * plan.points, update.epochs * plan.steps
    passes = 1.0 + sum(addition.passes for addition in update.additions)
    forwards = sum(addition.forwards for addition in update.additions)
    vectors = 1.0 + sum(addition.vectors for addition in update.additions)
    work = _training(one, steps, points, passes, vectors)
    if forwards:
        work |= {
            "embed.multiply-add": forwards * points * one.multiply_adds,
            "embed.value": forwards * points * one.values,
            "embed.batch": forwards * steps,
        }
    return work


def steps_work(spec: ModelSpec, steps: int, batch: int) -> dict[str, float]:
    """The work of `steps` steps of Adam on `batch` points each: parameters and two moments are loaded and stored."""
    return _training(operations(spec), steps, steps * batch, 1.0, 3.0)


def _training(one: Operations, steps: int, points: int, passes: float, vectors: float) -> dict[str, float]:
    return {
        "train.multiply-add": 3 * passes * points * one.multiply_adds,
        "train.value": passes * points * one.values,
        "train.parameter": vectors * steps * one.trained,
        "train.step": passes * steps,
        "model.load": vectors * one.numbers,
        "model.store": vectors * one.numbers,
    }


def embed_work(spec: ModelSpec, points: int) -> dict[str, float]:
    """The work of `embed_all`, `probabilities` or `predict` for `points` points."""
    one = operations(spec)
    return {
        "embed.multiply-add": float(points * one.multiply_adds),
        "embed.value": float(points * one.values),
        "embed.batch": float(-(-points // BATCH)),
        "model.load": float(one.numbers),
    }


def measure_costs(repeats: int = 5, quick: bool = False) -> dict[str, float]:
    """The seconds that each operation takes on one core of this machine.

    Updates and embeddings of several networks are timed with `fitted_costs`. `quick` leaves out the large networks.
    """
    rows: list[Work] = []
    jobs: list[Callable[[], object]] = []
    for spec, batch, steps in _MEASURED[:-3] if quick else _MEASURED:
        vector, data = initial(spec, 1), _points(spec, batch * steps)
        for epochs in (1, 3):
            update = LocalUpdate(epochs, batch, learning_rate=1e-3, device="cpu")
            rows.append(train_work(spec, update, len(data.labels), 0))
            jobs.append(partial(train, spec, vector, data, update, 0, 1))
        rows.append(embed_work(spec, len(data.labels)))
        jobs.append(partial(embed_all, spec, vector, data.images, "cpu"))
    return fitted_costs(rows, jobs, repeats)


_MEASURED = (
    (ModelSpec("linear", (784,), 10), 50, 10),
    (ModelSpec("linear_embedding", (784,), 10), 10, 10),
    (ModelSpec("small_cnn", (1, 28, 28), 10), 10, 5),
    (ModelSpec("small_cnn", (1, 28, 28), 10), 50, 2),
    (ModelSpec("fedct_fashionmnist", (1, 28, 28), 10), 10, 5),
    (ModelSpec("fedct_fashionmnist", (1, 28, 28), 10), 50, 2),
    (ModelSpec("fedct_cifar10", (3, 32, 32), 10), 20, 1),
    (ModelSpec("cnn13", (3, 32, 32), 10, width=0.25), 20, 1),
    (ModelSpec("cnn13", (3, 32, 32), 10), 4, 1),
)
"""The networks, points in a batch and numbers of batches to which the costs are fitted."""


def _points(spec: ModelSpec, count: int) -> LocalData:
    values = np.linspace(0, 1, count * torch.Size(spec.shape).numel(), dtype=np.float32)
    return LocalData.supervised(values.reshape(count, *spec.shape), np.arange(count) % spec.classes)
