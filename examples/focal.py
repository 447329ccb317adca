"""A plugin that adds a network and the focal loss, for classes of unequal size.

Lin et al., Focal loss for dense object detection, ICCV 2017: with p the probability of the right class, the loss is
-(1 - p)^gamma log p, so that points which are classified well count little.
"""

import numpy as np
from torch import Tensor, nn

from tacit import Batch, Classification, ModelSpec, add_model, add_task


class Focal(Classification):
    gamma = 2.0

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        losses = nn.functional.cross_entropy(batch.outputs, batch.targets, reduction="none")
        return (1 - (-losses).exp()) ** self.gamma * losses

    def metrics(self, outputs: np.ndarray, targets: np.ndarray) -> dict[str, float]:
        hits = self.predict(outputs) == targets
        by_class = [hits[targets == one].mean() for one in np.unique(targets)]
        return {**super().metrics(outputs, targets), "worst class": float(min(by_class))}


class Residual(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.first = nn.Linear(spec.shape[0], 32)
        self.second = nn.Linear(32, 32)
        self.head = nn.Linear(32, spec.classes)

    def forward(self, x: Tensor) -> Tensor:
        hidden = nn.functional.gelu(self.first(x))
        return self.head(hidden + nn.functional.gelu(self.second(hidden)))


add_task("focal", "one class for each point, by the focal loss", Focal())
add_model("residual", "two hidden layers with a shortcut", Residual)
