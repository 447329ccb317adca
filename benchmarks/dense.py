"""FedAvg+XCLP computed densely, for comparison with a run: python -m tacit.benchmarks.dense NAME [KEY=VALUE ...]

It shows if a difference from the paper's tables is due to the protocol, or to the recipe at that size. Clients and
cohorts have the same points as in the run, but pseudo-labels are computed from exact cosines and a dense inverse in
numpy, in one place, without hashing, messages or fixed point. Without pseudo-labels the same loop is FedAvg on labels
alone. Only shuffles and augmentation are drawn differently from the run.

It prints the accuracy on the test points after the last round, of labels alone and of the dense FedAvg+XCLP.
"""

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.parties.data.splits import Shard, counted, named
from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import LocalData
from tacit.parties.learning.vectors import average
from tacit.protocols.federated.experiment import cohorts_of, settings_of
from tacit.protocols.federated.round import TrainingSettings
from tacit.scenarios.files.reading import load
from tacit.scenarios.files.splits import parts_of, split
from tacit.scenarios.schema.scenario import ProtocolKeys, Scenario, ScenarioError

__all__ = ["dense_labels", "train"]


def dense_labels(
    features: NDArray[np.float32], known: NDArray[np.int64], classes: int, protocol: ProtocolKeys
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Labels and confidences, (n,) each, of points with `features` (n, d).

    `known` (n,): the label of each point, or -1. The method is Scott et al., Algorithm 1, with exact cosines, and with
    k, alpha and recipe of `protocol`.
    """
    authors = protocol.recipe == "authors-code"
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    cosines = np.clip(unit @ unit.T, 0.0, 1.0).astype(np.float64)
    np.fill_diagonal(cosines, -1.0)
    nearest = np.argpartition(-cosines, protocol.k, axis=1)[:, : protocol.k]
    edges = np.zeros_like(cosines)
    np.put_along_axis(edges, nearest, np.take_along_axis(cosines, nearest, 1) ** (3 if authors else 1), 1)
    edges += edges.T
    degree = np.sqrt(np.maximum(edges.sum(1), 1e-12))
    influence = np.linalg.inv(np.eye(len(edges)) - protocol.alpha * edges / degree[:, None] / degree[None, :])
    onehot = (known[:, None] == np.arange(classes)).astype(np.float64)
    scores = np.maximum(influence @ onehot, 0.0)
    if authors:
        scores /= np.maximum(onehot.sum(0), 1.0)
    shares = scores / np.maximum(scores.sum(1, keepdims=True), 1e-300)
    entropy = -(shares * np.log(np.maximum(shares, 1e-300))).sum(1)
    confidence = np.clip(1.0 - entropy / np.log(classes), 0.0, 1.0)
    return np.where(scores.any(1), scores.argmax(1), -1), np.where(scores.any(1), confidence, 0.0)


def train(scenario: Scenario) -> float:
    """The test accuracy of the scenario's training after its last round, with dense pseudo-labels for fedavg+xclp.

    Raises ScenarioError for a data set without test points, and for protocols other than `fedavg` and `fedavg+xclp`.
    """
    if scenario.protocol.name not in ("fedavg", "fedavg+xclp"):
        raise ScenarioError("", "protocol.name", "allowed: fedavg, fedavg+xclp")
    parts = parts_of(scenario)
    if parts.test is None:
        raise ScenarioError("", "data.path", "has no test points; allowed: data.name, or data.test")
    shards = named(split(parts.held, scenario.data, scenario.seed))
    labels = counted(shards)[1]
    settings = settings_of(scenario, parts.held, labels=labels.values())
    model = jobs.initial(settings.spec, scenario.seed)
    for number, members in enumerate(cohorts_of(settings, labels, scenario.seed), 1):
        own = [shards[name] for name in members]
        data = (
            _labeled(own, model, settings, scenario.protocol)
            if settings.labels_in(number)
            else [_alone(shard) for shard in own]
        )
        models = []
        for name, points in zip(members, data, strict=True):
            seed = f"dense {scenario.seed} {name}".encode()
            trained = jobs.train(settings.spec, model, points, settings.update, number - 1, seed)
            if trained.steps:
                models.append(trained.parameters)
        model = average(models) if models else model
    return jobs.accuracy(settings.spec, model, parts.test.points, parts.test.labels, settings.update.device)


def _alone(shard: Shard) -> LocalData:
    known = np.where(shard.labeled, shard.labels, -1)
    return LocalData(shard.points, known, np.ones(len(known), np.float32), shard.labeled)


def _labeled(own: Sequence[Shard], model: bytes, settings: TrainingSettings, recipe: ProtocolKeys) -> list[LocalData]:
    """The points of a cohort with the pseudo-labels of its joint graph."""
    features = [jobs.embed_all(settings.spec, model, shard.points, settings.update.device) for shard in own]
    known = [np.where(shard.labeled, shard.labels, -1) for shard in own]
    found = dense_labels(np.concatenate(features), np.concatenate(known), settings.spec.classes, recipe)
    ends = np.cumsum([len(each) for each in known])[:-1]
    result = []
    for shard, labels, weights in zip(own, *(np.split(column, ends) for column in found), strict=True):
        if recipe.recipe == "authors-code":
            weights = weights / (weights[~shard.labeled].max(initial=0.0) or 1.0)
        merged = np.where(shard.labeled, shard.labels, labels)
        counted = np.where(shard.labeled, 1.0, weights).astype(np.float32)
        result.append(LocalData(shard.points, merged, counted, shard.labeled))
    return result


def main(arguments: Sequence[str]) -> None:
    """Train twice and print both accuracies."""
    try:
        name, *changes = arguments
        for protocol in ("fedavg", "fedavg+xclp"):
            scenario = load(name, [*changes, f"protocol.name={protocol}"])
            print(f"{protocol:12} {train(scenario):.4f}   (dense, seed {scenario.seed})", flush=True)
    except ValueError as error:
        raise SystemExit(f"error: {error or 'allowed: NAME of a scenario, then KEY=VALUE'}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
