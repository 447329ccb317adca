"""Each algorithm against a few lines in double precision that share no code with it: the effect of a round on a model.

The network is softmax regression, and each client's points fit into one batch, so a round is one step.
"""

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

from tacit.parties.data.sets import load
from tacit.parties.data.splits import Shard, shards
from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import decode
from tacit.protocols.federated.algorithms import ALGORITHMS
from tacit.protocols.federated.fedavg import FedAvgClient
from tacit.protocols.federated.fedmatch import FedMatch
from tacit.protocols.federated.method import Method, Options, PseudoLabels
from tacit.protocols.federated.registry import UPDATES
from tacit.protocols.federated.round import TrainingClient
from tacit.protocols.xclp import xclp
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.protocols.xclp.lsh import hash_bits, planes
from tacit.protocols.xclp.recipe import AUTHORS_CODE, PAPER, Recipe
from tacit.protocols.xclp.xclp import Parameters
from tacit.sim.world import World
from tests.protocols.federated.rounds import run_rounds, training_settings

CLIENTS, RATE, DECAY, BITS, K, ALPHA = 3, 0.5, 0.01, 128, 5, 0.95
SPEC = ModelSpec("linear", (1, 8, 8), 10)
SHARDS = shards(load("digits", 180), CLIENTS, "iid", 0.6, 1)
FIRST = jobs.initial(SPEC, 1)
MU = 0.3

Vector = torch.Tensor
Loss = Callable[[Vector], torch.Tensor]


def method_of(name: str, recipe: Recipe = PAPER) -> Method:
    parameters = Parameters(PlaintextHamming(BITS), CLIENTS, 10, bits=BITS, k=K, alpha=ALPHA, recipe=recipe)
    return ALGORITHMS[name](Options(SPEC, parameters, 1, "cpu"))


def trained(method: Method, rounds: int = 1, **changes: Any) -> tuple[Vector, list[TrainingClient]]:
    """The model after some rounds of the protocol, and the clients."""
    additions = tuple(addition for addition, _ in method.additions)
    plain = {"epochs": 1, "labeled_batch": 100, "decay_rounds": 0, "device": "cpu"}
    update = LocalUpdate(
        learning_rate=RATE, weight_decay=DECAY, additions=additions, **{**plain, **changes.pop("local", {})}
    )
    settings = training_settings(SPEC, update, method, CLIENTS, rounds=rounds, deadline=10.0, **changes)
    server, clients, _, _ = run_rounds(settings, SHARDS, FIRST)
    return double(server.model), clients


# --- softmax regression in double precision


def double(vector: bytes) -> Vector:
    return torch.tensor(decode(vector), dtype=torch.float64)


def logits(vector: Vector, shard: Shard) -> torch.Tensor:
    return torch.tensor(shard.features) @ vector[:640].reshape(10, 64).T + vector[640:]


def loss_on(shard: Shard, pseudo: PseudoLabels | None = None, every: bool = False) -> Loss:
    """Cross-entropy on labels and weighted pseudo-labels, averaged over the labeled points, or over `every` point."""
    labels = np.where(shard.labeled, shard.labels, -1 if pseudo is None else pseudo.labels)
    weights = np.where(shard.labeled, 1.0, 0.0 if pseudo is None else pseudo.weights)
    kept = np.flatnonzero((labels >= 0) | every)
    target, weight = torch.tensor(labels[kept]), torch.tensor(weights[kept], dtype=torch.float64)

    def loss(vector: Vector) -> torch.Tensor:
        each = functional.cross_entropy(logits(vector, shard)[kept], target, ignore_index=-1, reduction="none")
        return (weight * each).sum() / len(kept)

    return loss


def slope(loss: Loss, at: Vector) -> Vector:
    """The gradient with weight decay."""
    point = at.clone().requires_grad_()
    (found,) = torch.autograd.grad(loss(point), point)
    return found + DECAY * at


def averaged(losses: Sequence[Loss], start: Vector) -> Vector:
    """The mean of the models after one step on each loss."""
    return torch.stack([start - RATE * slope(loss, start) for loss in losses]).mean(0)


def assert_near(found: Vector, expected: Vector, tolerance: float = 2e-6) -> None:
    assert (expected - double(FIRST)).abs().max() > 0.01
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=tolerance)


# --- only labels


def test_fedavg_equals_the_reference() -> None:
    assert_near(trained(method_of("fedavg"))[0], averaged([loss_on(shard) for shard in SHARDS], double(FIRST)))


def test_fedavg_weighted_by_points_equals_the_reference() -> None:
    steps = [double(FIRST) - RATE * slope(loss_on(shard), double(FIRST)) for shard in SHARDS]
    counts = [float(shard.labeled.sum()) for shard in SHARDS]
    expected = sum(count * step for count, step in zip(counts, steps, strict=True)) / sum(counts)
    assert_near(trained(method_of("fedavg"), weighting="points")[0], expected)


def test_fedprox_equals_the_reference() -> None:
    ends = []
    for shard in SHARDS:
        vector = double(FIRST)
        for _ in range(2):
            vector = vector - RATE * (slope(loss_on(shard), vector) + MU * (vector - double(FIRST)))
        ends.append(vector)
    assert_near(trained(Method(additions=UPDATES["fedprox"](MU)), local={"epochs": 2})[0], torch.stack(ends).mean(0))


def test_scaffold_equals_the_reference() -> None:
    losses = [loss_on(shard) for shard in SHARDS]
    controls = torch.zeros(CLIENTS, len(double(FIRST)), dtype=torch.float64)
    model, server = double(FIRST), torch.zeros_like(double(FIRST))
    for _ in range(3):
        ends = [model - RATE * (slope(loss, model) - own + server) for loss, own in zip(losses, controls, strict=True)]
        fresh = torch.stack([(model - end) / RATE - server + own for end, own in zip(ends, controls, strict=True)])
        server, controls, model = server + (fresh - controls).mean(0), fresh, torch.stack(ends).mean(0)
    assert_near(trained(Method(additions=UPDATES["scaffold"]()), rounds=3)[0], model, 1e-5)


# --- pseudo-labels


def predicted(vector: Vector, shard: Shard) -> PseudoLabels:
    chances = logits(vector, shard).softmax(1).numpy()
    entropy = -(chances * np.log(chances)).sum(1)
    return PseudoLabels(chances.argmax(1), (1 - entropy / math.log(10)).astype(np.float32))


def test_fedavg_with_the_networks_labels_equals_the_reference() -> None:
    model = double(FIRST)
    for _ in range(2):
        model = averaged([loss_on(shard, predicted(model, shard)) for shard in SHARDS], model)
    assert_near(trained(method_of("fedavg+network"), rounds=2)[0], model)


def predicted_by_authors(vector: Vector, shard: Shard) -> PseudoLabels:
    """Pseudo-labels from the logits, with negative ones set to 0; confidences are divided by their maximum."""
    raw = np.maximum(logits(vector, shard).numpy(), 0)
    shares = raw / raw.sum(1, keepdims=True)
    confidence = 1 + (shares * np.log(np.where(shares > 0, shares, 1))).sum(1) / math.log(10)
    return PseudoLabels(raw.argmax(1), (confidence / confidence.max()).astype(np.float32))


def test_the_networks_labels_by_the_authors_recipe_equal_the_reference() -> None:
    model = averaged([loss_on(shard, predicted_by_authors(double(FIRST), shard)) for shard in SHARDS], double(FIRST))
    assert_near(trained(method_of("fedavg+network", AUTHORS_CODE), rounds=1)[0], model)


def test_fedsem_equals_the_reference() -> None:
    model, first = double(FIRST), [predicted(double(FIRST), shard) for shard in SHARDS]
    for _ in range(3):
        model = averaged([loss_on(shard, once) for shard, once in zip(SHARDS, first, strict=True)], model)
    assert_near(trained(method_of("fedsem+"), rounds=3)[0], model)


def propagated(
    bits: NDArray[np.bool_], known: NDArray[np.int64], power: int = 1, balanced: bool = False
) -> PseudoLabels:
    """Label propagation with dense matrices; `known` is -1 for unlabeled points."""
    n = len(bits)
    distances = (bits[:, None] != bits).sum(2)
    weights = np.zeros((n, n))
    for i in range(n):
        nearest = [j for j in np.argsort(distances[i], kind="stable") if j != i][:K]
        close = [j for j in nearest if 2 * distances[i, j] < BITS]
        weights[i, close] = np.cos(np.pi * distances[i, close] / BITS) ** power
    weights += weights.T
    degrees = np.maximum(weights.sum(1), 1e-300)
    labels = np.eye(10)[np.maximum(known, 0)] * (known >= 0)[:, None]
    if balanced:
        labels /= np.maximum(labels.sum(0), 1)
    scores = np.linalg.inv(np.eye(n) - ALPHA * weights / np.sqrt(degrees[:, None] * degrees)) @ labels
    total = scores.sum(1, keepdims=True)
    shares = np.divide(scores, total, out=np.full_like(scores, 0.1), where=total > 1e-8)
    entropy = -(shares * np.log(np.maximum(shares, 1e-300))).sum(1)
    found = np.where(total[:, 0] > 1e-8, scores.argmax(1), -1)
    return PseudoLabels(found, (1 - entropy / math.log(10)).astype(np.float32))


def known_of(shard: Shard) -> NDArray[np.int64]:
    return np.where(shard.labeled, shard.labels, -1)


def hashed(shard: Shard, seed: bytes) -> NDArray[np.bool_]:
    """The hash bits of the features, which are the points themselves in this network."""
    return hash_bits(shard.features.astype(np.float32).astype(np.float64), planes(seed, BITS, 64))


def relative(pseudo: PseudoLabels, shard: Shard) -> PseudoLabels:
    """The pseudo-labels of a client, with weights divided by the largest one."""
    return PseudoLabels(pseudo.labels, pseudo.weights / pseudo.weights[~shard.labeled].max())


def test_fedavg_with_label_propagation_at_each_client_equals_the_reference() -> None:
    model, clients = trained(method_of("fedavg+perclient-lp"))
    losses = []
    for client in clients:
        seed = World(1).entropy(client.name, 1, 1, 1, "planes").bytes(32)
        losses.append(loss_on(client.shard, propagated(hashed(client.shard, seed), known_of(client.shard))))
    assert_near(model, averaged(losses, double(FIRST)))


@pytest.mark.parametrize("recipe", [PAPER, AUTHORS_CODE], ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("name", ["fedavg+xclp", "fedprop"])
def test_fedavg_with_label_propagation_across_clients_equals_the_reference(
    name: str, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = set[bytes]()

    hashing = xclp._hash

    def noting(features: NDArray[np.float64], drawn: tuple[bytes, int, bool], flips: None) -> object:
        seeds.add(drawn[0])
        return hashing(features, drawn, flips)

    monkeypatch.setattr(xclp, "_hash", noting)
    model, clients = trained(method_of(name, recipe))
    (seed,) = seeds
    bits = [hashed(shard, seed) for shard in SHARDS]
    everyone = propagated(
        np.concatenate(bits),
        np.concatenate([known_of(shard) for shard in SHARDS]),
        *((3, True) if recipe is AUTHORS_CODE else (1, False)),
    )
    ends = np.cumsum([len(shard.rows) for shard in SHARDS])[:-1]
    parts = zip(np.split(everyone.labels, ends), np.split(everyone.weights, ends), SHARDS, strict=True)
    pseudo = [PseudoLabels(labels, weights) for labels, weights, _ in parts]
    if recipe is AUTHORS_CODE:
        pseudo = [relative(own, shard) for own, shard in zip(pseudo, SHARDS, strict=True)]
    for own, client in zip(pseudo, clients, strict=True):
        assert client.pseudo is not None
        hidden = ~client.shard.labeled
        assert np.array_equal(client.pseudo.labels[hidden], own.labels[hidden])
    assert_near(
        model, averaged([loss_on(shard, own) for shard, own in zip(SHARDS, pseudo, strict=True)], double(FIRST)), 1e-5
    )


# --- methods with a second network


def consistency(shard: Shard, teacher: Vector, weight: float) -> Loss:
    """Cross-entropy on labels plus the distance to the teacher on every point."""
    supervised = loss_on(shard, every=True)
    target = logits(teacher, shard).softmax(1)
    return lambda vector: supervised(vector) + weight * (logits(vector, shard).softmax(1) - target).square().mean()


def test_fedavg_with_a_mean_teacher_equals_the_reference() -> None:
    model = teacher = double(FIRST)
    for number in (1, 2, 3):
        weight = 100 * math.exp(-5 * (1 - number / 5) ** 2)
        ends = [model - RATE * slope(consistency(shard, teacher, weight), model) for shard in SHARDS]
        teacher = torch.stack([0.97 * teacher + 0.03 * end for end in ends]).mean(0)
        model = torch.stack(ends).mean(0)
    assert_near(trained(method_of("fedavg+mt"), rounds=3)[0], model, 1e-5)


def test_fedprop_with_a_mean_teacher_equals_the_reference() -> None:
    model = teacher = double(FIRST)
    for number in (1, 2):
        found, clients = trained(method_of("fedprop+mt"), rounds=number)
        ends = []
        for client in clients:
            labels, toward = loss_on(client.shard, client.pseudo, every=True), logits(teacher, client.shard).softmax(1)

            def loss(
                vector: Vector, shard: Shard = client.shard, labels: Loss = labels, toward: torch.Tensor = toward
            ) -> torch.Tensor:
                distance = (logits(vector, shard).softmax(1) - toward).square().mean()
                return labels(vector) + 100 * math.exp(-5 * (1 - number / 5) ** 2) * distance  # noqa: B023

            ends.append(model - RATE * slope(loss, model))
        teacher = torch.stack([0.97 * teacher + 0.03 * end for end in ends]).mean(0)
        model = torch.stack(ends).mean(0)
        assert_near(found, model, 1e-5)


Outgoing = Callable[[int, list[bytes]], bytes]


def by_hand(method: Method, rounds: int, outgoing: Outgoing) -> Vector:
    """Rounds of one addition. `outgoing` computes the server's message to a client from all clients' last messages."""
    model, sent, kept = FIRST, list[bytes](), [b""] * CLIENTS
    (addition,) = (addition for addition, _ in method.additions)
    update = LocalUpdate(1, 100, RATE, weight_decay=DECAY, decay_rounds=0, device="cpu", additions=(addition,))
    for number in range(1, rounds + 1):
        ends = []
        for i, shard in enumerate(SHARDS):
            data = FedAvgClient.data(SimpleNamespace(shard=shard), None)  # type: ignore[arg-type]
            seed = World(1).entropy(f"client/{i}", 1, number, 1, "training").bytes(32)
            received = outgoing(i, sent) if sent else b""
            ends.append(jobs.train(SPEC, model, data, update, number - 1, seed, [received], [kept[i]]))
        sent, kept = [end.sent[0] for end in ends], [end.kept[0] for end in ends]
        model = mean([end.parameters for end in ends])
    return double(model)


def mean(vectors: Sequence[bytes]) -> bytes:
    return np.mean([decode(vector).astype(np.float64) for vector in vectors], axis=0).astype("<f4").tobytes()


def test_the_server_of_fedsiam_sends_the_average_target() -> None:
    assert_near(trained(method_of("fedsiam"), 3)[0], by_hand(method_of("fedsiam"), 3, lambda i, sent: mean(sent)), 1e-6)


def test_the_server_of_fedmatch_sends_the_average_and_two_helpers() -> None:
    def outgoing(i: int, sent: list[bytes]) -> bytes:
        return mean(sent) + b"".join(other for j, other in enumerate(sent) if j != i)

    ((_, make),) = method_of("fedmatch").additions
    # A low confidence, so that helpers count.
    method = Method(additions=((FedMatch(consistency=300.0, confidence=0.1), make),))
    alone, expected = by_hand(method, 3, lambda i, sent: mean(sent)), by_hand(method, 3, outgoing)
    assert_near(trained(method, 3)[0], expected, 1e-6)
    assert (alone - expected).abs().max() > 1e-4
