"""A plugin for FedBN: each client keeps its batch normalisation, because its images differ in contrast and brightness.

Li et al., FedBN: Federated learning on non-IID features via local batch normalization, ICLR 2021. The scenario says
`private = ["type:BatchNorm*"]`; the plugin only adds the network and digits from five scanners.
"""

import numpy as np
from sklearn.datasets import load_digits
from torch import nn

from tacit import Dataset, ModelSpec, add_dataset, add_model

SCANNERS = 5


def scanned() -> Dataset:
    raw = load_digits()
    scanner = np.arange(len(raw.target)) % SCANNERS
    contrast, brightness = np.array([1.0, 0.5, 2.0, -1.0, -2.0]), np.array([0.0, 1.0, -1.0, 1.0, 2.0])
    points = raw.data / 16 * contrast[scanner, None] + brightness[scanner, None]
    names = tuple(f"scanner {number}" for number in range(SCANNERS))
    classes = tuple(str(digit) for digit in range(10))
    return Dataset("scanned", points, raw.target.astype(np.int64), classes, scanner, names)


def normed(spec: ModelSpec) -> nn.Module:
    layers = [nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, spec.classes)]
    return nn.Sequential(nn.BatchNorm1d(64), *layers)


add_dataset("scanned", "digits from five scanners", scanned)
add_model("normed", "a hidden layer with batch normalisation", normed)
