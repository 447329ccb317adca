from pathlib import Path

import numpy as np
import pytest

from tacit.parties.data.features import features_of
from tacit.parties.datasets.content import DataError

TEXTS = np.array(
    [
        "A wonderful film that I would watch again.",
        "What a great movie; I loved every minute of it!",
        "The train to the airport leaves from platform nine.",
        "x" * 5 + " word" * 600,
        "",
    ],
    dtype=object,
)


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    return features_of(TEXTS, "minilm-l6", cache=tmp_path_factory.mktemp("features"))


def test_texts_become_points_on_a_sphere(features: np.ndarray) -> None:
    assert features.shape == (5, 384)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)


def test_texts_of_similar_meaning_have_close_features(features: np.ndarray) -> None:
    assert features[0] @ features[1] > 0.5 > 0.2 > features[0] @ features[2]


def test_features_of_a_text_do_not_depend_on_the_other_texts(features: np.ndarray, tmp_path: Path) -> None:
    for place in (0, 2, 4):
        alone = features_of(TEXTS[place : place + 1], "minilm-l6", cache=tmp_path)
        np.testing.assert_allclose(alone[0], features[place], atol=1e-5)


def test_only_the_beginning_of_a_long_text_is_read(features: np.ndarray, tmp_path: Path) -> None:
    longer = np.array([TEXTS[3] + " and something else entirely"], dtype=object)
    np.testing.assert_allclose(features_of(longer, "minilm-l6", cache=tmp_path)[0], features[3], atol=1e-5)


def test_numbers_are_refused_in_place_of_texts() -> None:
    with pytest.raises(DataError, match=r"features\(='minilm-l6'\) are those of texts, not of float64 \(3,\)"):
        features_of(np.zeros((2, 3)), "minilm-l6")
