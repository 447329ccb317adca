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
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tacit.parties.learning.backend import choose_device, seeded
from tacit.parties.learning.counting import Counts, Pass, counted
from tacit.parties.learning.inference import BATCH
from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.networks import Parts, builder
from tacit.parties.learning.parameters import fresh, private_layout, size, stepped
from tacit.parties.learning.spec import ModelSpec
from tacit.sim.compute import Work, total_work

__all__ = ["Operations", "embed_work", "operations", "steps_work", "train_work"]


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
