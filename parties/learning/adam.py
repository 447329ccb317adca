"""Training by Adam from a state in bytes, so that training can be continued later.

Kingma and Ba, Adam: A method for stochastic optimization, ICLR 2015, algorithm 1, with their beta 0.9 and 0.999 and
epsilon 1e-8. The state is the number of steps as 8 bytes, little-endian, the network's vector, and the first and second
moments of the trained parameters, each in the width of its parameter, little-endian.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.backend import Tensor, choose_device, generator, nn, seeded, torch
from tacit.parties.learning.local_update import LocalData
from tacit.parties.learning.parameters import (
    entries,
    flatten,
    join,
    layout,
    least_batch,
    loaded,
    split,
    trained_layout,
)  # fmt: skip
from tacit.parties.learning.parameters import initial as initial_parameters
from tacit.parties.learning.sgd import as_images, on_device, scaled
from tacit.parties.learning.spec import ModelSpec

__all__ = ["fit", "initial", "parameters"]

_COUNTER = 8  # bytes
_BETA = (0.9, 0.999)
_EPSILON = 1e-8


def initial(spec: ModelSpec, seed: int | bytes) -> bytes:
    """The state of a new network: zero steps, both moments 0."""
    return bytes(_COUNTER) + initial_parameters(spec, seed) + bytes(2 * trained_layout(spec).size)


def parameters(spec: ModelSpec, state: bytes) -> bytes:
    """The network's vector in `state`. Raises ValueError if the state's length is not the network's."""
    whole = layout(spec).size
    expected = _COUNTER + whole + 2 * trained_layout(spec).size
    if len(state) != expected:
        raise ValueError(f"state of {spec.name}: {len(state)} bytes, not {expected}")
    return state[_COUNTER : _COUNTER + whole]


def fit(
    spec: ModelSpec,
    state: bytes,
    points: NDArray[np.generic],
    labels: NDArray[np.int64] | NDArray[np.float32],
    seed: int | bytes,
    learning_rate: float,
    batch: int,
    steps: int,
    device_name: str,
    parts: Sequence[int] = (),
) -> bytes:
    """The state after `steps` steps on cross-entropy, shuffles and dropout from streams of (seed, steps so far).

    `labels` is int64 (n,), or float32 (n, classes) for the probability of each class. Batches come from shuffled passes
    over the data, `batch` points each or all there are; a batch may reach from one pass into the next. If `parts` is
    given, the sizes of consecutive parts of the points, a step takes a batch from passes over each of them. Without a
    point, or with one at a time where the network normalises batches, the state stays as it is. Raises ValueError.
    """
    from torch.optim.adam import adam

    vector = parameters(spec, state)
    if not len(labels):
        return state
    sizes = [size for size in parts if size] or [len(labels)]
    if sum(sizes) != len(labels):
        raise ValueError(f"parts of {sizes} points must be {len(labels)} points in all")
    device = choose_device(device_name)
    network = loaded(spec, device, vector)
    trained = entries(network)[0]
    done = int.from_bytes(state[:_COUNTER], "little")
    moments = state[_COUNTER + len(vector) :]
    half = len(moments) // 2
    first, second = split(moments[:half], trained, "first moment"), split(moments[half:], trained, "second moment")
    taken = [torch.tensor(float(done)) for _ in trained]
    images, targets = _on_device(spec, points, labels, device)
    random = generator(seed, "batches", done)
    passes = [_Passes(start, size, batch) for start, size in zip(np.cumsum([0, *sizes]).tolist(), sizes, strict=False)]
    if sum(own.count for own in passes) < 2 and (least_batch(spec) > 1 or _normalises(network)):
        return state  # one point has no variance to normalise by
    with seeded(device, seed, "fit", done):
        for _ in range(steps):
            rows = torch.cat([own.batch(random) for own in passes]).to(device)
            loss: Tensor = nn.functional.cross_entropy(network(scaled(images[rows])), targets[rows])
            gradients = torch.autograd.grad(loss, trained, allow_unused=True)
            # Parameters that the batch does not reach stay as they are.
            columns = zip(trained, gradients, first, second, taken, strict=True)
            moving = [column for column in columns if column[1] is not None]
            if not moving:
                continue
            parameters_, moves, firsts, seconds, counts = map(list, zip(*moving, strict=True))
            with torch.no_grad():  # torch.optim.Adam does the same, and loads a compiler when it is first made
                adam(
                    parameters_, moves, firsts, seconds, [], counts,
                    amsgrad=False, beta1=_BETA[0], beta2=_BETA[1], lr=learning_rate, weight_decay=0.0, eps=_EPSILON,
                    maximize=False,
                )  # fmt: skip
    return (done + steps).to_bytes(_COUNTER, "little") + flatten(network) + join(first) + join(second)


def _normalises(network: nn.Module) -> bool:
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in network.modules())


class _Passes:
    """Shuffled passes over `size` points from the index `start` on, `count` of them at a time: `batch`, or all."""

    def __init__(self, start: int, size: int, batch: int) -> None:
        self._start, self._size, self.count = start, size, min(batch, size)
        self._ahead = torch.empty(0, dtype=torch.int64)

    def batch(self, random: torch.Generator) -> Tensor:
        """The indices of the next points, int64 (count,)."""
        if len(self._ahead) < self.count:
            shuffled = torch.randperm(self._size, generator=random) + self._start
            self._ahead = torch.cat([self._ahead, shuffled])
        rows, self._ahead = self._ahead[: self.count], self._ahead[self.count :]
        return rows


def _on_device(
    spec: ModelSpec, points: NDArray[np.generic], labels: NDArray[np.int64] | NDArray[np.float32], device: torch.device
) -> tuple[Tensor, Tensor]:
    """The points and their targets as tensors on `device`. Raises ValueError."""
    if labels.ndim == 1:
        images, targets, _ = on_device(spec, LocalData.supervised(points, labels.astype(np.int64)), device)
        return images, targets
    if labels.shape != (len(points), spec.classes):
        raise ValueError(f"targets of shape {labels.shape} must be of shape {(len(points), spec.classes)}")
    return as_images(spec, points).to(device), torch.from_numpy(np.array(labels, np.float32)).to(device)
