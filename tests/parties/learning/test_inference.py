import numpy as np
import pytest

from tacit.parties.learning.jobs import accuracy, embed_all, initial, logits, predict, probabilities
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import encode
from tacit.sim.streams import generator

SPEC = ModelSpec("fedct_svhn", (1, 8, 8), 3)
LINEAR = ModelSpec("linear", (2,), 3)
CORNERS = encode(np.array([9, 0, 0, 9, -9, -9, 0, 0, 0]))  # class by the larger coordinate, the third if negative


def test_features_of_a_point_do_not_depend_on_the_other_points() -> None:
    images = generator(1, "images").random((260, 1, 8, 8), dtype=np.float32)
    vector = initial(SPEC, 1)
    together = embed_all(SPEC, vector, images, "cpu")
    assert together.shape == (260, 128)
    alone = np.concatenate([embed_all(SPEC, vector, images[at : at + 1], "cpu") for at in (0, 249, 250, 259)])
    np.testing.assert_allclose(together[[0, 249, 250, 259]], alone, rtol=1e-4, atol=1e-5)
    assert (embed_all(SPEC, vector, images[1:].copy()[:5]) == embed_all(SPEC, vector, images[1:6])).all()


def test_without_points_there_are_no_features() -> None:
    assert embed_all(SPEC, initial(SPEC, 1), np.empty((0, 1, 8, 8), np.float32)).shape == (0, 128)


def test_the_likeliest_class_is_predicted() -> None:
    points = np.array([[1.0, 0.2], [0.1, 0.9], [-1.0, -1.0], [0.5, 0.5]])
    assert predict(LINEAR, CORNERS, points).tolist() == [0, 1, 2, 0]
    assert probabilities(LINEAR, CORNERS, points).argmax(1).tolist() == [0, 1, 2, 0]
    assert accuracy(LINEAR, CORNERS, points, np.array([0, 1, 0, -1])) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="there are 4 points, none with one"):
        accuracy(LINEAR, CORNERS, points, np.full(4, -1))


def test_probabilities_are_the_softmax_of_the_logits() -> None:
    points = np.array([[9.0, 0.0], [0.0, 0.0], [0.02, 0.01]])
    expected = [[81.0, 0.0, -81.0], [0.0, 0.0, 0.0], [0.18, 0.09, -0.27]]
    np.testing.assert_allclose(logits(LINEAR, CORNERS, points), expected, atol=1e-5)
    powers = np.exp(expected)
    np.testing.assert_allclose(
        probabilities(LINEAR, CORNERS, points), powers / powers.sum(1, keepdims=True), 1e-5, 1e-30
    )


def test_points_or_parameters_of_wrong_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"takes points of shape \(1, 8, 8\), not \(9, 9, 1\)"):
        embed_all(SPEC, initial(SPEC, 1), np.zeros((2, 9, 9, 1), np.uint8))
    with pytest.raises(ValueError, match=r"not \(65,\)"):
        embed_all(SPEC, initial(SPEC, 1), np.zeros((2, 65)))
    with pytest.raises(ValueError, match="parameters of linear: 3 bytes"):
        predict(LINEAR, b"123", np.zeros((2, 2)))
