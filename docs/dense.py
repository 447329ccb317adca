"""Label propagation with dense matrices and exact cosines, on the features and the split of recorded runs.

python docs/dense.py runs/prediction-size-sweep-1/*finetuned*

For each run of `xclp`, or of `fedavg-then-xclp` with the model `linear_embedding`, it prints its balanced accuracy on
the new points beside the run's. It uses no hashes, no sparse solver and none of the protocols' code.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit import Scenario, load
from tacit.parties.data.splits import Shard
from tacit.scenarios.files.splits import split_data

Matrix = NDArray[np.float64]


def embedded(folder: Path, scenario: Scenario, points: Matrix) -> Matrix:
    """The points, or their features by the model in `folder`, whose first `embedding` x d numbers are the weights."""
    if not (folder / "model.npz").exists():
        return points
    with np.load(folder / "model.npz") as arrays:
        vector = arrays["parameters"].astype(np.float64)
    inputs, outputs = points.shape[1], scenario.model.embedding
    weights, biases = vector[: inputs * outputs], vector[inputs * outputs : (inputs + 1) * outputs]
    features: Matrix = points @ weights.reshape(outputs, inputs).T + biases
    return features


def propagated(
    features: Matrix, known: NDArray[np.int64], classes: int, k: int, alpha: float, recipe: str = "paper"
) -> NDArray[np.int64]:
    """The label of every point by `recipe`, "paper" or "authors-code"; `known` is -1 for unknown labels."""
    authors = recipe == "authors-code"
    n, rows = len(features), np.arange(len(features))[:, None]
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-300)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2.0)
    nearest = np.argpartition(-cosines, k, axis=1)[:, :k]
    weights = np.zeros((n, n))
    weights[rows, nearest] = np.maximum(cosines[rows, nearest], 0.0) ** (3 if authors else 1)
    weights += weights.T
    roots = np.sqrt(np.maximum(weights.sum(axis=1), 1e-300))
    labels = np.eye(classes)[np.maximum(known, 0)] * (known >= 0)[:, None]
    scores = np.linalg.solve(np.eye(n) - alpha * weights / roots[:, None] / roots, labels)
    if authors:
        scores /= np.maximum(labels.sum(axis=0), 1.0)
    return np.where(scores.max(axis=1) > 1e-9, scores.argmax(axis=1), -1)


def balanced(found: NDArray[np.int64], shards: Sequence[Shard]) -> float:
    """The mean over the classes of the share of new points that are right; without new points, of unlabeled ones."""
    true, new = (np.concatenate([getattr(shard, name) for shard in shards]) for name in ("labels", "new"))
    counts = new if new.any() else ~np.concatenate([shard.labeled for shard in shards])
    of_classes = [counts & (true == label) for label in np.unique(true[counts])]
    return float(np.mean([(found == true)[own].mean() for own in of_classes]))


def main(folders: Sequence[str]) -> None:
    """Print a line for each run, and the means."""
    figures = []
    for folder in map(Path, folders):
        scenario = load(folder)
        held, shards = split_data(scenario)
        features = embedded(folder, scenario, np.concatenate([shard.features for shard in shards]))
        known = np.concatenate([np.where(shard.labeled, shard.labels, -1) for shard in shards])
        keys = scenario.protocol
        found = propagated(features, known, len(held.classes), keys.k, keys.alpha, keys.recipe)
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        figures.append((balanced(found, shards), result["balanced_accuracy"]))
        print("{}: dense {:.4f}, run {:.4f}".format(folder.name, *figures[-1]), flush=True)
    print("mean: dense {:.4f}, run {:.4f}".format(*np.mean(figures, axis=0)))


if __name__ == "__main__":
    main(sys.argv[1:])
