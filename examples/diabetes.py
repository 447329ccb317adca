"""A plugin that adds a regression: the progression of diabetes (442 patients, scikit-learn), measured by RMSE.

`huber` is a task of its own: it trains on Huber's loss, which bounds the pull of outliers, and adds a metric.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from torch import nn

from tacit import Batch, Dataset, ModelSpec, Regression, add_dataset, add_model, add_task


def progression() -> Dataset:
    raw = load_diabetes()
    values = (raw.target - raw.target.mean()) / raw.target.std()
    return Dataset("progression", raw.data / raw.data.std(axis=0), values, ("progression",))


class Huber(Regression):
    def loss(self, model: nn.Module, batch: Batch):
        return nn.functional.huber_loss(batch.outputs, batch.targets, reduction="none").mean(1)

    def metrics(self, outputs, targets):
        within = float((np.abs(outputs - targets) < 0.5).mean())
        return {**super().metrics(outputs, targets), "within half a deviation": within}


def two_layers(spec: ModelSpec) -> nn.Module:
    return nn.Sequential(nn.Linear(spec.shape[0], 16), nn.Tanh(), nn.Linear(16, spec.classes))


add_dataset("progression", "ten measurements, and the progression of diabetes a year later", progression)
add_task("huber", "numbers for each point, by Huber's loss", Huber())
add_model("two_layers", "a hidden layer of 16", two_layers)
