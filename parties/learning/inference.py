"""A network's outputs for points: features, logits, probabilities."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning import metrics
from tacit.parties.learning.backend import Tensor, choose_device, torch
from tacit.parties.learning.networks import NeuralNetwork
from tacit.parties.learning.parameters import load_private, loaded
from tacit.parties.learning.sgd import as_images, as_targets, scaled
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.tasks import Batch, task_of

__all__ = ["embed_all", "logits", "measured", "probabilities", "sums"]

Points = NDArray[np.generic]

BATCH = 250


def embed_all(spec: ModelSpec, parameters: bytes, images: Points, device: str) -> NDArray[np.float32]:
    """The features of every point. For the arguments of all functions here see `tacit.parties.learning.jobs`."""
    return _run(spec, parameters, images, device, lambda network, batch: network.embed(batch))


def logits(spec: ModelSpec, parameters: bytes, images: Points, device: str) -> NDArray[np.float32]:
    """The outputs of the last layer for every point."""
    return _run(spec, parameters, images, device, lambda network, batch: network(batch))


def probabilities(spec: ModelSpec, parameters: bytes, images: Points, device: str) -> NDArray[np.float32]:
    """The probabilities of the classes for every point."""
    return _run(spec, parameters, images, device, lambda network, batch: network(batch).softmax(1))


def measured(
    spec: ModelSpec, parameters: bytes, images: Points, targets: Points, device: str, private: bytes = b"",
    *, further: bool = False,
) -> dict[str, float]:  # fmt: skip
    """The metrics of the network's task over all points, and their mean "loss", which is the first of them.

    `further`: also those of `metrics.of_outputs`, if the task has classes.
    """
    outputs, numbers = _tested(spec, parameters, images, targets, device, private)
    more = metrics.of_outputs(outputs, targets) if further and metrics.has_classes(spec) else {}
    return more | numbers


def sums(
    spec: ModelSpec, parameters: bytes, images: Points, targets: Points, device: str, names: Sequence[str],
    private: bytes,
) -> NDArray[np.float64]:  # fmt: skip
    """The sums of losses and counts over all points (`metrics.sums_of`)."""
    outputs, numbers = _tested(spec, parameters, images, targets, device, private)
    return metrics.sums_of(spec, outputs, targets, numbers, names)


def _tested(
    spec: ModelSpec, parameters: bytes, images: Points, targets: Points, device: str, private: bytes
) -> tuple[NDArray[np.float32], dict[str, float]]:
    """The network's outputs for all points; the mean loss and the metrics of the task."""
    task, where = task_of(spec.task), choose_device(device)
    network = loaded(spec, where, parameters).eval()
    load_private(network, private)
    found, total = [], 0.0
    with torch.inference_mode():
        for at in range(0, max(1, len(images)), BATCH):
            inputs = scaled(as_images(spec, images[at : at + BATCH]).to(where, copy=True))
            wanted = as_targets(targets[at : at + BATCH]).to(where)
            batch = Batch(inputs, wanted, len(inputs), network, lambda augmentation="none", same=inputs: same)
            total += float(task.loss(network, batch).mean()) * len(inputs)
            found.append(batch.outputs.float().cpu())
    outputs = torch.cat(found).numpy()
    numbers = {name: float(value) for name, value in task.metrics(outputs, targets).items()}
    return outputs, {"loss": total / len(images), **numbers}


def _run(
    spec: ModelSpec, parameters: bytes, images: Points, device: str, function: Callable[[NeuralNetwork, Tensor], Tensor]
) -> NDArray[np.float32]:
    where = choose_device(device)
    network = loaded(spec, where, parameters).eval()
    with torch.inference_mode():
        # Each batch is a copy, aligned by torch, so that sums do not depend on the address of the whole array.
        # The points are converted batch by batch: as float32 a large test part would be in memory a second time.
        parts = [
            function(network, scaled(as_images(spec, images[at : at + BATCH]).to(where, copy=True))).float().cpu()
            for at in range(0, max(1, len(images)), BATCH)
        ]
    return torch.cat(parts).numpy()
