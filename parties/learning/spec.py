"""The network that a run trains, as a small record from which every worker builds the same one."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.sim.registry import Registry, listed_in
from tacit.sim.setting_error import Problem, SettingError

if TYPE_CHECKING:
    from tacit.parties.learning.backend import nn

__all__ = [
    "KEY", "LEARNERS", "MODELS", "LearnerError", "ModelError", "ModelKind", "ModelSpec", "Weights", "weights_in",
]  # fmt: skip


@dataclass(frozen=True)
class ModelKind:
    """The properties of a network that are known before it is built.

    `smallest` is the least height and width of an image, 0 if any shape is allowed; `channels` the required number of
    channels, 0 for any; `scalable` is true if `ModelSpec.width` may differ from 1; `normalised` is true if its features
    are scaled to length 1 by default. `build` returns the network for a spec, with weights drawn from torch's global
    generator: one module, or two, the body, whose outputs are the features, and the last layer. Without it, the network
    is one of `networks.BUILDERS`, which this module does not import, as it needs torch.
    """

    description: str
    smallest: int = 0
    channels: int = 0
    scalable: bool = False
    normalised: bool = False
    build: "Callable[[ModelSpec], nn.Module | tuple[nn.Module, nn.Module]] | None" = None


MODELS: Registry[ModelKind] = Registry(
    "model",
    {
        "linear": ModelKind("softmax regression; its features are the inputs themselves"),
        "linear_embedding": ModelKind(
            "two linear layers without an activation; the first one's outputs are the features"
        ),
        "small_cnn": ModelKind("two convolutions and a hidden layer, 108,618 parameters on 1 x 28 x 28", 10),
        "cnn13": ModelKind("13 layers (Tarvainen and Valpola 2017), 128 features of length 1", 12, 0, True, True),
        "resnet18": ModelKind("ResNet-18 (He et al. 2016), 512 features of length 1", 32, 3, False, True),
        "efficientnet_lite0": ModelKind(
            "EfficientNet-Lite0 as trained on ImageNet, 1280 features; extra `pretrained`", 8
        ),
        "fedct_cifar10": ModelKind("six convolutions (Abourayya et al. 2024, table 12), 128 features", 8),
        "fedct_fashionmnist": ModelKind("multilayer perceptron (Abourayya et al. 2024, table 13), 512 features"),
        "fedct_pneumonia": ModelKind("three convolutions (Abourayya et al. 2024, table 14)", 4),
        "fedct_mri": ModelKind("three convolutions (Abourayya et al. 2024, table 15)", 4),
        "fedct_svhn": ModelKind("six convolutions (Abourayya et al. 2024, table 16), 128 features", 8),
    },
)
"""The networks by name."""

LEARNERS: Registry[Any] = Registry(
    "learner",
    later=listed_in(
        "tacit.parties.learning.learners",
        "KINDS",
        ("network", "mlp", "decision-tree", "random-forest", "xgboost", "rulefit", "gpt2"),
    ),
)
"""The learners of co-training by name, each a `learners.LearnerKind`."""


class ModelError(ValueError):
    """A network does not fit the points or the purpose."""


class LearnerError(ValueError):
    """A learner does not fit its options, the points or the model."""


KEY = "model.weights"
"""The key that names the file."""


@dataclass(frozen=True)
class Weights:
    """A file with a network's state dict, from which the network begins: its path, and the SHA-256 of its content.

    Every worker that builds the network reads the file, and refuses it if the digest differs.
    """

    path: str
    sha256: str

    def check(self) -> None:
        """Raise Problem if the file cannot be read, or is not the one that the run began with."""
        if weights_in(self.path) != self:
            raise Problem(KEY, f"{self.path} has changed since the run began; put the file back")


def weights_in(path: str) -> Weights | None:
    """The file `path` with its digest; None if `path` is empty. Raises Problem if the file cannot be read."""
    if not path:
        return None
    try:
        known = Path(path).stat()
        return Weights(path, _sha256(path, known.st_mtime_ns, known.st_size, known.st_ino))
    except OSError as error:
        raise Problem(KEY, f"{path} cannot be read: {error.strerror}") from None


@lru_cache(maxsize=16)
def _sha256(path: str, *identity: int) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class ModelSpec:
    """A network, its inputs and its classes.

    `shape` is that of one input, (channels, height, width) or (d,). `width` multiplies the channels of a network that
    allows it. `embedding` is the number of features of `linear_embedding`. `normalised` is true if features are scaled
    to length 1 (None: the network's default). `mean` and `std`, one number a channel, standardise images inside the
    network, so that data and augmentation stay in [0, 1]. `task` is the name of one of `tasks.TASKS`; `target` is the
    shape of the target of one point, () for a class. For tasks without classes, `classes` is the number of numbers,
    tokens or labels that the data names. `private`, `frozen` and `kept` are patterns of the names of its tensors
    (`parameters`). `weights` is the file from which the network begins; without it, the network begins as it is built.
    Raises ValueError.
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    width: float = 1.0
    embedding: int = 128
    normalised: bool | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    task: str = "classification"
    target: tuple[int, ...] = ()
    private: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    weights: Weights | None = None

    def __post_init__(self) -> None:
        kind, where = MODELS[self.name], f"model {self.name!r}"
        if not self.shape or min(self.shape) < 1:
            raise ModelError(f"{where}: shape(={self.shape}) must be (channels, height, width) or (features,)")
        if kind.smallest and (len(self.shape) != 3 or min(self.shape[1:]) < kind.smallest):
            least = kind.smallest
            raise ModelError(f"{where} takes images of at least {least} x {least} pixels, not shape(={self.shape})")
        if kind.channels and self.shape[0] != kind.channels:
            raise ModelError(f"{where} takes {kind.channels} channels, not {self.shape[0]}")
        if self.classes < (least := 1 if self.target else 2):
            raise ModelError(f"{where}: classes(={self.classes}) must be >= {least}")
        if not 0.0 < self.width < math.inf or (self.width != 1.0 and not kind.scalable):
            allowed = "> 0" if kind.scalable else "1"
            raise SettingError("width", self.width, f"must be {allowed}", f"{where}: ")
        if self.embedding < 1:
            raise SettingError("embedding", self.embedding, "must be >= 1", f"{where}: ")
        if len(self.mean) != len(self.std) or len(self.mean) not in (0, self.shape[0]) or 0.0 in self.std:
            raise ModelError(
                f"{where}: mean and std must give one number for each of {self.shape[0]} channels, std not 0"
            )

    @property
    def unit_features(self) -> bool:
        """True if features are scaled to length 1."""
        return MODELS[self.name].normalised if self.normalised is None else self.normalised
