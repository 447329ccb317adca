"""Random changes of images that keep their class, a whole batch at once.

| augmentation | each image, independently |
| --- | --- |
| ``none`` | stays as it is |
| ``translate-flip`` | moves by -4 to 4 pixels along each axis (reflected at the borders), is mirrored or not (CIFAR) |
| ``rotate-flip`` | turns by -10 to 10 degrees (bilinear, 0 outside), is mirrored or not (Mini-ImageNet) |
| ``strong`` | translate-flip, then brightness and contrast by 0.6 to 1.4, then a grey square of a quarter of the side |

The first three are those of the XCLP paper, appendix A.2. All draws come from the generator given, on the processor, so
that they are the same on a GPU.
"""

import math
from collections.abc import Callable

from tacit.parties.learning.backend import Tensor, nn, torch
from tacit.parties.learning.plain_update import AUGMENTATIONS

__all__ = ["augment"]

_SHIFT = 4  # pixels
_TURN = 10.0  # degrees


def augment(name: str, images: Tensor, random: torch.Generator) -> Tensor:
    """`images`, float (n, channels, height, width), augmented as `name` says. Raises ValueError for other shapes."""
    if name != "none" and images.ndim != 4:
        raise ValueError(f"augmentation {name!r} is for images, not for points of shape {tuple(images.shape[1:])}")
    if name != "none" and min(images.shape[2:]) <= _SHIFT:
        raise ValueError(f"augmentation {name!r} is for images of more than {_SHIFT} x {_SHIFT} pixels")
    return _AUGMENTATIONS[name](images, random)


def _translate(images: Tensor, random: torch.Generator) -> Tensor:
    n, _, height, width = images.shape
    padded = nn.functional.pad(images, (_SHIFT,) * 4, mode="reflect")
    top, left = torch.randint(0, 2 * _SHIFT + 1, (2, n), generator=random).to(images.device)
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # a view: one window for each top and left
    return windows[torch.arange(n, device=images.device), :, top, left]


def _flip(images: Tensor, random: torch.Generator) -> Tensor:
    mirrored = torch.randint(0, 2, (len(images), 1, 1, 1), generator=random).bool().to(images.device)
    return torch.where(mirrored, images.flip(3), images)


def _rotate(images: Tensor, random: torch.Generator) -> Tensor:
    n, _, height, width = images.shape
    angles = (2 * torch.rand(n, generator=random) - 1) * math.radians(_TURN)
    cosine, sine, zero = angles.cos(), angles.sin(), torch.zeros(n)
    rows = (cosine, -sine * height / width, zero, sine * width / height, cosine, zero)  # in units of half the sides
    turns = torch.stack(rows, 1).reshape(n, 2, 3).to(images.device)
    grid = nn.functional.affine_grid(turns, list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images, grid, align_corners=False)


def _translate_flip(images: Tensor, random: torch.Generator) -> Tensor:
    return _flip(_translate(images, random), random)


def _rotate_flip(images: Tensor, random: torch.Generator) -> Tensor:
    return _flip(_rotate(images, random), random)


def _strong(images: Tensor, random: torch.Generator) -> Tensor:
    n, _, height, width = images.shape
    images = _translate_flip(images, random)
    brightness, contrast = (0.6 + 0.8 * torch.rand(2, n, 1, 1, 1, generator=random)).to(images.device)
    middle = images.mean((1, 2, 3), keepdim=True)
    images = ((images - middle) * contrast + middle) * brightness
    places = torch.rand(2, n, 1, 1, generator=random).to(images.device)
    inside = torch.ones(n, 1, 1, dtype=torch.bool, device=images.device)
    for place, side, shape in zip(places, (height, width), ((1, -1, 1), (1, 1, -1)), strict=True):
        at = torch.arange(side, device=images.device).reshape(shape)
        begin = (place * (side - side // 4 + 1)).floor()
        inside = inside & (at >= begin) & (at < begin + side // 4)
    return torch.where(inside[:, None], 0.5, images)


_AUGMENTATIONS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "none": lambda images, random: images,
    "translate-flip": _translate_flip,
    "rotate-flip": _rotate_flip,
    "strong": _strong,
}
assert tuple(_AUGMENTATIONS) == AUGMENTATIONS
