import math

import numpy as np
import pytest
import torch

from tacit.parties.learning.backend import generator
from tacit.parties.learning.sgd import augment


def pictures(count: int, side: int = 12, channels: int = 2) -> torch.Tensor:
    return torch.rand((count, channels, side, side), generator=generator(1, "pictures"))


def shifted(image: np.ndarray, down: int, right: int) -> np.ndarray:
    """The image moved, its uncovered border filled by reflection."""
    side = image.shape[1]
    place = [np.abs(np.arange(side) - by) for by in (down, right)]
    rows, columns = (np.where(at >= side, 2 * (side - 1) - at, at) for at in place)
    return image[:, rows][:, :, columns]


def test_images_move_by_up_to_four_pixels_and_are_mirrored_or_not() -> None:
    images = pictures(200)
    moved = augment("translate-flip", images, generator(1, "draws")).numpy()
    found = set()
    for before, after in zip(images.numpy(), moved, strict=True):
        fits = [
            (down, right, mirrored)
            for down in range(-4, 5)
            for right in range(-4, 5)
            for mirrored in (False, True)
            if np.array_equal(shifted(before, down, right)[:, :, :: -1 if mirrored else 1], after)
        ]
        assert len(fits) == 1
        found.update(fits)
    assert {down for down, _, _ in found} == {right for _, right, _ in found} == set(range(-4, 5))
    assert {mirrored for _, _, mirrored in found} == {False, True}


def test_images_turn_by_up_to_ten_degrees() -> None:
    """A bright spot on the axis to the right of the centre: its new place gives the angle, and shows mirroring."""
    side = 41
    images = torch.zeros(100, 1, side, side)
    images[:, :, 19:22, 34:37] = 1.0
    turned = augment("rotate-flip", images, generator(1, "draws")).numpy()[:, 0]
    at = np.arange(side) - side // 2
    mass = turned.sum((1, 2))
    x, y = (turned * at).sum((1, 2)) / mass, (turned * at[:, None]).sum((1, 2)) / mass
    np.testing.assert_allclose(np.hypot(x, y), 15, atol=0.3)
    angles = np.degrees(np.arctan2(y, np.abs(x)))
    assert np.abs(angles).max() < 10.5
    assert (angles > 5).any()
    assert (angles < -5).any()
    assert (x > 0).any()
    assert (x < 0).any()


def test_a_turn_keeps_lengths_where_height_and_width_differ() -> None:
    images = torch.zeros(50, 1, 41, 21)
    images[:, :, 34:37, 9:12] = 1.0  # 15 below the middle
    turned = augment("rotate-flip", images, generator(1, "draws")).numpy()[:, 0]
    mass = turned.sum((1, 2))
    x, y = (
        (turned * (np.arange(21) - 10)).sum((1, 2)) / mass,
        (turned * (np.arange(41) - 20)[:, None]).sum((1, 2)) / mass,
    )
    np.testing.assert_allclose(np.hypot(x, y), 15, atol=0.3)
    assert np.degrees(np.arctan2(np.abs(x), y)).max() > 5


def test_strong_augmentation_changes_light_and_hides_a_square() -> None:
    images = pictures(50, 16, 3)
    strong = augment("strong", images, generator(1, "draws")).numpy()
    hidden = (strong == 0.5).all(1)
    assert (hidden.sum((1, 2)) >= 16).all()
    assert (hidden.sum((1, 2)) < 40).all()
    assert len({round(float(image.mean()), 2) for image in strong}) > 10


@pytest.mark.parametrize("name", ["none", "translate-flip", "rotate-flip", "strong"])
def test_augmentation_depends_only_on_its_generator(name: str) -> None:
    images = pictures(9)
    kept = images.clone()
    first = augment(name, images, generator(1, "draws"))
    torch.manual_seed(3)
    assert torch.equal(augment(name, images, generator(1, "draws")), first)
    assert torch.equal(images, kept)
    assert torch.equal(augment(name, images, generator(2, "draws")), first) == (name == "none")
    assert first.shape == images.shape


def test_augmentation_of_points_that_are_no_images_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not for points of shape \(4,\)"):
        augment("strong", torch.zeros(2, 4), generator(1, "draws"))
    with pytest.raises(ValueError, match="more than 4 x 4 pixels"):
        augment("translate-flip", torch.zeros(2, 1, 4, 9), generator(1, "draws"))
    assert math.isclose(float(augment("none", torch.ones(2, 4), generator(1, "draws")).sum()), 8)
