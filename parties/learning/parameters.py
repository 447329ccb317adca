"""A network's parameters as one vector, which is sent, averaged and stored.

The vector is little-endian float32. First come the trained parameters in the network's own order, then the running
statistics of batch normalisation (mean and variance of each such layer), which are averaged like the rest. Batch
normalisation's counter of batches is left out: with a fixed momentum nothing depends on it.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np

from tacit.parties.learning.backend import Tensor, choose_device, seeded, torch
from tacit.parties.learning.networks import NeuralNetwork, Parts, build, builder
from tacit.parties.learning.spec import ModelSpec

__all__ = ["cached", "feature_count", "flatten", "initial", "join", "load", "size", "split", "trained_size"]

_KEPT = 8  # the most networks that a process keeps; each is as large as its parameters

_networks: "OrderedDict[tuple[object, ...], NeuralNetwork]" = OrderedDict()
_entries: "WeakKeyDictionary[NeuralNetwork, tuple[list[Tensor], list[Tensor]]]" = WeakKeyDictionary()


def cached(spec: ModelSpec, device: torch.device, role: str = "student") -> NeuralNetwork:
    """The network for `spec` on `device`, built once in this process; its weights are those of the last use.

    Each `role` has a separate network.
    """
    key = (spec, builder(spec), str(device), role)
    network = _networks.get(key)
    if network is None:
        with seeded(torch.device("cpu"), 0):
            network = build(spec).to(device)
        _networks[key] = network
        if len(_networks) > _KEPT:
            _networks.popitem(last=False)
    _networks.move_to_end(key)
    return network


def entries(network: NeuralNetwork) -> tuple[list[Tensor], list[Tensor]]:
    """The trained parameters and the running statistics, in the vector's order."""
    found = _entries.get(network)
    if found is None:  # finding them takes longer than loading a small network
        found = _entries[network] = _find_entries(network)
    return found


def _find_entries(network: NeuralNetwork) -> tuple[list[Tensor], list[Tensor]]:
    trained: list[Tensor] = list(network.parameters())
    running = [
        buffer
        for name, buffer in network.named_buffers()
        if name.endswith(("running_mean", "running_var"))  # not the counters, nor the spec's mean and std
    ]
    return trained, running


def join(tensors: list[Tensor]) -> bytes:
    """Concatenate `tensors` as little-endian float32."""
    return b"".join([np.ascontiguousarray(tensor.detach().cpu().numpy(), "<f4").data for tensor in tensors])


def split(data: bytes, like: list[Tensor], what: str) -> list[Tensor]:
    """Split `data`, written by `join`, into tensors with the shapes and the device of `like`.

    Raises ValueError, naming `what`, if the number of bytes differs.
    """
    count = sum(tensor.numel() for tensor in like)
    if len(data) != 4 * count:
        raise ValueError(f"{what}: {len(data)} bytes, not the {4 * count} of {count} numbers of 4 bytes")
    flat = torch.from_numpy(np.frombuffer(data, "<f4").astype(np.float32)).to(like[0].device)
    parts = flat.split([tensor.numel() for tensor in like])
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def flatten(network: NeuralNetwork) -> bytes:
    """The vector of the network."""
    trained, running = entries(network)
    return join(trained + running)


def load(network: NeuralNetwork, data: bytes) -> None:
    """Load the vector `data` into `network`, without gradients.

    Raises ValueError if its length is not the network's.
    """
    trained, running = entries(network)
    tensors = trained + running
    values = split(data, tensors, f"parameters of {network.spec.name}")
    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)
            tensor.grad = None  # an update that failed may have left one


def initial(spec: ModelSpec, seed: int | bytes) -> bytes:
    """The vector of a new network, drawn from the stream (seed, "initial")."""
    with seeded(torch.device("cpu"), seed, "initial"):
        return flatten(build(spec))


def size(spec: ModelSpec) -> int:
    """The length of the vector, in numbers."""
    return sum(_sizes(spec, builder(spec)))


def trained_size(spec: ModelSpec) -> int:
    """The number of trained numbers in the vector, which come first."""
    return _sizes(spec, builder(spec))[0]


@lru_cache(maxsize=64)
def feature_count(spec: ModelSpec) -> int:
    """The number of features that the network computes for a point."""
    network = cached(spec, choose_device("cpu"))
    was = network.training
    with torch.no_grad():
        count = network.eval().embed(torch.zeros(1, *spec.shape)).shape[1]
    network.train(was)
    return int(count)


@lru_cache(maxsize=64)
def _sizes(spec: ModelSpec, built_by: Callable[[ModelSpec], Parts]) -> tuple[int, int]:
    trained, running = (sum(t.numel() for t in part) for part in entries(cached(spec, choose_device("cpu"))))
    return trained, running
