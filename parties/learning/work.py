"""The work of training and inference in operations of the cost table.

| operation | is |
| --- | --- |
| ``train.multiply-add`` | one of a product of matrices or a convolution, in the forward or the backward pass |
| ``train.convolved`` | a number that a convolution writes |
| ``train.convolution`` | a call of a convolution |
| ``train.value`` | a number that another operation writes, or reads where it adds numbers up |
| ``train.function`` | what such a number takes longer if a function like an exponential or a softmax computes it |
| ``train.draw`` | a number drawn at random, as by dropout; in inference, too |
| ``train.call`` | a call of torch in a forward or backward pass, whatever its size |
| ``train.parameter`` | a trained parameter in one step |
| ``train.step`` | a step, whatever the network |
| ``train.update`` | an update of any number of steps |
| ``embed.multiply-add`` and so on | the same for inference |
| ``embed.batch`` | a batch of inference, whatever the network |
| ``model.load``, ``model.store`` | a number of the vector written to a network, or read from one |

Operations are counted in a pass of a few points, once for each network (`counting`). Their costs are fitted to the
times of whole updates and embeddings of very different networks (`fitting`), so a prediction has the error of that fit.

Counts of the operations of a pass of a network, whatever the modules that it is written with.

| count | is |
| --- | --- |
| multiply-adds | of products of matrices, convolutions and attention: half of what torch's flop counter finds |
| convolved | the numbers that convolutions write: gradients, too |
| convolutions | calls of a convolution, each of which sets its kernel up |
| values | the numbers that other operations write, or read where they add numbers up |
| functions | those of the values that a function like an exponential, a softmax or a layer normalisation computes |
| draws | the numbers that are drawn at random, as by dropout |
| calls | operations that compute something; views are free |

Counting runs the network on points of zeros, one pass with two points and one with four. The difference is what each
point adds; the rest is what a batch costs whatever its size, such as a normalisation of weights. A pass that depends
on a product of points, such as attention among the points of a batch, is taken as linear.

The network is built again for it, inside streams of its own, and dropped afterwards. Recurrent layers and attention are
counted as the steps that they consist of, also where torch has one kernel for them all, so that counts do not depend
on the processor. Only an LSTM's calls and functions are those of its one kernel, which the machines of the cost table
have.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from torch.autograd import _get_sequence_nr as sequence_number
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from tacit.parties.learning.backend import Tensor, choose_device, nn, seeded, torch
from tacit.parties.learning.inference import BATCH
from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.networks import Parts, builder
from tacit.parties.learning.parameters import fresh, private_layout, size, stepped
from tacit.parties.learning.spec import ModelSpec
from tacit.sim.compute import Work, total_work

__all__ = ["Counts", "Operations", "Pass", "counted", "embed_work", "operations", "steps_work", "train_work"]


_FEW, _MORE = 2, 4  # points; batch normalisation refuses a single one


@dataclass(frozen=True)
class Counts:
    """The operations for each point, or for each batch whatever its size."""

    multiply_adds: float = 0.0
    convolved: float = 0.0
    convolutions: float = 0.0
    values: float = 0.0
    functions: float = 0.0
    draws: float = 0.0
    calls: float = 0.0


@dataclass(frozen=True)
class Pass:
    """The counts of a pass: for each `point`, and once for each `batch`."""

    point: Counts
    batch: Counts


class _Kernels(TorchFunctionMode):
    """Notes which nodes of the graph of gradients an LSTM makes, and whether one runs now."""

    def __init__(self) -> None:
        super().__init__()
        self.runs, self.count = False, 0
        self._nodes: set[int] = set()

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        if function is not torch.lstm:
            return function(*arguments, **(options or {}))
        first, self.runs, self.count = sequence_number(), True, self.count + 1
        try:
            return function(*arguments, **(options or {}))
        finally:
            self.runs = False
            self._nodes.update(range(first, sequence_number()))

    def made(self, node: Any) -> bool:
        """Return true if an LSTM made `node`, which runs backward."""
        return node is not None and node._sequence_nr() in self._nodes


class _Values(TorchDispatchMode):
    """Counts the values and calls of the operations that run inside this context."""

    def __init__(self, kernels: _Kernels) -> None:
        super().__init__()
        self._kernels = kernels
        self.counts = dict.fromkeys((field.name for field in fields(Counts)), 0.0)

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        result = function(*arguments, **(options or {}))
        if function.is_view or not (written := _numbers(result)):
            return result
        counts, kind = self.counts, function.overloadpacket
        if kind in flop_registry:
            counts["multiply_adds"] += flop_registry[kind](*arguments, **(options or {}), out_val=result) / 2
        in_kernel = self._kernels.runs or self._kernels.made(torch._C._current_autograd_node())
        counts["calls"] += not in_kernel
        if kind in _CONVOLUTIONS:
            counts["convolved"] += written
            counts["convolutions"] += 1
        elif torch.Tag.nondeterministic_seeded in function.tags:
            counts["draws"] += written
        elif torch.Tag.reduction in function.tags:
            counts["values"] += max(written, _numbers((arguments, options)))
        else:
            counts["values"] += written
        if not in_kernel and kind.__name__.rstrip("_") in _FUNCTIONS:
            counts["functions"] += written
        return result


# Each mode of torch is wrapped so that its first call loads torch's compiler, in more than a second and 80 MB.
_Values.__torch_dispatch__ = inspect.unwrap(_Values.__torch_dispatch__)  # type: ignore[method-assign]

_aten = torch.ops.aten
_CONVOLUTIONS = (_aten.convolution, _aten.convolution_backward)

_FUNCTIONS = frozenset((
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin",
    "acos", "atan", "erf", "erfc", "sigmoid", "logit", "log_sigmoid_forward", "log_sigmoid_backward", "softplus", "elu",
    "celu", "selu", "gelu", "gelu_backward", "silu", "silu_backward", "mish", "mish_backward", "_safe_softmax",
    "_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data", "logsumexp",
    "native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward",
    "_fused_rms_norm", "_fused_rms_norm_backward",
))  # fmt: skip
"""The operations that take several times as long for a number as an addition does.

Batch normalisation is left out, because it takes as long as an addition in inference.
"""


def _numbers(nested: Any) -> int:
    return sum(leaf.numel() for leaf in tree_leaves(nested) if isinstance(leaf, Tensor))


def counted(network: nn.Module, shape: tuple[int, ...], backward: bool) -> Pass:
    """Return the counts of a pass of points of `shape` through `network`, with the `backward` pass if that is true.

    A backward pass computes gradients only of what requires them. Changes buffers of `network`, and draws from the
    global streams: give it a network of its own, inside `backend.seeded`.
    """
    few, more = (_once(network, torch.zeros(count, *shape), backward) for count in (_FEW, _MORE))

    names = [field.name for field in fields(Counts)]
    each = {name: max(0.0, (getattr(more, name) - getattr(few, name)) / (_MORE - _FEW)) for name in names}
    rest = {name: max(0.0, getattr(few, name) - _FEW * each[name]) for name in names}
    return Pass(Counts(**each), Counts(**rest))


def _once(network: nn.Module, points: Tensor, backward: bool) -> Counts:
    kernels = _Kernels()
    values = _Values(kernels)
    network.zero_grad()  # else gradients would be added to those of the pass before
    with _in_steps(), torch.set_grad_enabled(backward), kernels, values:
        output = network(points)
        if backward and output.requires_grad:
            output.sum().backward()
    counts = values.counts
    counts["calls"] += (1 + backward) * kernels.count
    return Counts(**counts)


@contextmanager
def _in_steps() -> Iterator[None]:
    """Recurrent layers and attention run as the steps that they consist of."""
    fast, own = torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)  # torch.backends.mkldnn.flags would set all flags, and warn of one
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch._C._set_mkldnn_enabled(own)
        torch.backends.mha.set_fastpath_enabled(fast)


@dataclass(frozen=True)
class Operations:
    """The operations of a pass with and without gradients, and how many numbers are loaded, and trained."""

    training: Pass
    inference: Pass
    numbers: int
    trained: int


def operations(spec: ModelSpec) -> Operations:
    """The operations of `spec`, counted while a few points pass through the network."""
    return _operations(spec, builder(spec))


@lru_cache(maxsize=64)
def _operations(spec: ModelSpec, built_by: Callable[[ModelSpec], Parts]) -> Operations:
    with seeded(choose_device("cpu"), 0):
        network = fresh(spec, choose_device("cpu"))  # a job may be at work with the cached one
        training = counted(network, spec.shape, backward=True)
        inference = counted(network.eval(), spec.shape, backward=False)
    trained = sum(tensor.numel() for tensor in stepped(network))
    return Operations(training, inference, size(spec) + private_layout(spec).numbers, trained)


def train_work(spec: ModelSpec, update: LocalUpdate, labeled: int, others: int) -> Work:
    """The work of `train` with `labeled` labeled points and `others` other points that take part."""
    return _train_work(operations(spec), update, labeled, others)


@lru_cache(maxsize=256)
def _train_work(one: Operations, update: LocalUpdate, labeled: int, others: int) -> Work:
    plan = update.batches(labeled, others)
    points, steps = update.epochs * plan.points, update.epochs * plan.steps
    passes = update.passes + sum(addition.passes for addition in update.additions)
    forwards = sum(addition.forwards for addition in update.additions)
    vectors = update.optimizer_vectors + sum(addition.vectors for addition in update.additions)
    work = _training(one, steps, points, passes, vectors)
    forward = _passed("embed", one.inference, forwards * points, forwards * steps) if forwards else {}
    return total_work(work, forward)


def steps_work(spec: ModelSpec, steps: int, batch: int) -> dict[str, float]:
    """The work of `steps` steps of Adam on `batch` points each: parameters and two moments are loaded and stored."""
    return _training(operations(spec), steps, steps * batch, 1.0, 3.0)


def _training(one: Operations, steps: int, points: int, passes: float, vectors: float) -> dict[str, float]:
    return _passed("train", one.training, passes * points, passes * steps) | {
        "train.parameter": vectors * steps * one.trained,
        "train.update": 1.0,
        "model.load": vectors * one.numbers,
        "model.store": vectors * one.numbers,
    }


def embed_work(spec: ModelSpec, points: int) -> dict[str, float]:
    """The work of `embed_all`, `probabilities` or `predict` for `points` points."""
    one = operations(spec)
    return {**_passed("embed", one.inference, points, -(-points // BATCH)), "model.load": float(one.numbers)}


_BATCHES = {"train": "step", "embed": "batch"}


def _passed(kind: str, one: Pass, points: float, batches: float) -> dict[str, float]:
    """The work of passes of `points` points in this number of `batches`; `kind` is ``train`` or ``embed``."""

    def total(count: Callable[[Counts], float]) -> float:
        return points * count(one.point) + batches * count(one.batch)

    functions = total(lambda counts: counts.functions)
    return {
        f"{kind}.multiply-add": total(lambda counts: counts.multiply_adds),
        f"{kind}.convolved": total(lambda counts: counts.convolved),
        f"{kind}.convolution": total(lambda counts: counts.convolutions),
        f"{kind}.value": total(lambda counts: counts.values),
        "train.draw": total(lambda counts: counts.draws),
        f"{kind}.call": total(lambda counts: counts.calls),
        f"{kind}.{_BATCHES[kind]}": float(batches),
        **({f"{kind}.function": functions} if functions else {}),  # so that cost tables without it serve most networks
    }
