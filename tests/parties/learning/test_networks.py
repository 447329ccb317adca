import math

import numpy as np
import pytest

from tacit.parties.learning.jobs import embed_all, initial, probabilities, size, trained_size
from tacit.parties.learning.networks import BUILDERS
from tacit.parties.learning.spec import MODELS, ModelSpec
from tacit.sim.streams import generator

SHAPES = {"linear": (5,), "linear_embedding": (5,), "resnet18": (3, 32, 32)}


def spec_of(name: str, **changes: object) -> ModelSpec:
    """The specification of a small network of that name."""
    given = {"shape": SHAPES.get(name, (1, 12, 12)), "classes": 3, "width": 0.125 if MODELS[name].scalable else 1.0}
    return ModelSpec(name, **(given | changes))  # type: ignore[arg-type]


def points(spec: ModelSpec, count: int = 3) -> np.ndarray:
    return generator(1, "points").random((count, *spec.shape), dtype=np.float32)


def convolution(inputs: int, outputs: int, kernel: int = 3) -> int:
    return inputs * outputs * kernel * kernel + outputs


def dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def test_the_known_models_are_those_that_can_be_built() -> None:
    assert set(BUILDERS) == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_network_gives_features_and_probabilities(name: str) -> None:
    spec = spec_of(name)
    vector = initial(spec, 1)
    assert len(vector) == 4 * size(spec)
    features, found = embed_all(spec, vector, points(spec)), probabilities(spec, vector, points(spec))
    assert len(features) == len(found) == 3
    assert (features.dtype, found.shape) == (np.float32, (3, 3))
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("name", ["cnn13", "resnet18"])
def test_features_have_length_one_unless_the_spec_says_otherwise(name: str) -> None:
    spec = spec_of(name)
    features = embed_all(spec, initial(spec, 1), points(spec))
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, rtol=1e-5)
    plain = spec_of(name, normalised=False)
    raw = embed_all(plain, initial(plain, 1), points(spec))
    np.testing.assert_allclose(raw / np.linalg.norm(raw, axis=1, keepdims=True), features, rtol=1e-4, atol=1e-6)
    assert not np.allclose(np.linalg.norm(raw, axis=1), 1)


def test_the_13_layers_have_the_published_sizes() -> None:
    spec = ModelSpec("cnn13", (3, 32, 32), 10)
    widths = [128, 128, 128, 256, 256, 256, 512, 256, 128]
    kernels = [3] * 7 + [1, 1]
    inputs = [3, *widths[:-1]]
    layers = sum(convolution(*layer) for layer in zip(inputs, widths, kernels, strict=True)) + dense(128, 10)
    lengths = sum(widths) + 10  # weight normalisation: one number for each output
    assert trained_size(spec) == layers + lengths + 2 * sum(widths)  # batch normalisation: scale and shift
    assert size(spec) == trained_size(spec) + 2 * sum(widths)  # and running mean and variance
    assert embed_all(spec, initial(spec, 1), points(spec, 1)).shape == (1, 128)


def test_resnet18_has_the_published_size() -> None:
    spec = ModelSpec("resnet18", (3, 32, 32), 1000)
    assert trained_size(spec) == 11_689_512  # the number in torchvision's documentation of its ImageNet weights
    assert embed_all(spec, initial(spec, 1), points(spec, 1)).shape == (1, 512)


@pytest.mark.parametrize(
    ("name", "shape", "expected", "features"),
    [
        ("small_cnn", (1, 28, 28), convolution(1, 16) + convolution(16, 32) + dense(800, 128) + dense(128, 10), 128),
        ("linear", (784,), dense(784, 10), 784),
        ("linear_embedding", (784,), dense(784, 128) + dense(128, 10), 128),
        ("fedct_fashionmnist", (1, 28, 28), 401_920 + 262_656 + 5_130, 512),
        (
            "fedct_cifar10",
            (3, 32, 32),
            # Table 12 counts the running statistics of batch normalisation, too: half of its 128, 256, 512.
            896 + 9248 + 18496 + 36928 + 73856 + 147584 + 262272 + 1290 + (2 * 128 + 2 * 256 + 3 * 512) // 2,
            128,
        ),
        ("fedct_svhn", (3, 32, 32), 896 + 64 + 9248 + 18496 + 128 + 36928 + 73856 + 256 + 147584 + 262272 + 1290, 128),
        ("fedct_pneumonia", (3, 16, 16), 896 + 64 + 18496 + 128 + 36928 + 128 + dense(64 * 4 * 4, 10), 64 * 4 * 4),
    ],
)
def test_networks_have_the_layers_of_their_tables(
    name: str, shape: tuple[int, ...], expected: int, features: int
) -> None:
    spec = ModelSpec(name, shape, 10)
    assert trained_size(spec) == expected
    assert embed_all(spec, initial(spec, 1), points(spec, 1)).shape == (1, features)


def test_the_features_of_a_linear_model_are_its_inputs() -> None:
    spec = spec_of("linear")
    assert (embed_all(spec, initial(spec, 1), points(spec)) == points(spec)).all()


def test_logits_come_from_the_features_by_the_last_layer() -> None:
    spec = spec_of("linear_embedding", embedding=4)
    vector = initial(spec, 1)
    numbers = np.frombuffer(vector, "<f4")
    weight, bias = numbers[24:36].reshape(3, 4), numbers[36:]
    logits = embed_all(spec, vector, points(spec)) @ weight.T + bias
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(probabilities(spec, vector, points(spec)), expected, rtol=1e-5)


def test_images_are_standardised_inside_the_network() -> None:
    shape = (2, 4, 4)
    plain, inside = ModelSpec("linear", shape, 3), ModelSpec("linear", shape, 3, mean=(0.5, 0.25), std=(0.5, 2.0))
    mean, std = np.array([0.5, 0.25])[:, None, None], np.array([0.5, 2.0])[:, None, None]
    images = points(plain)
    vector = initial(plain, 1)
    assert len(vector) == 4 * size(inside)
    outside = probabilities(plain, vector, ((images - mean) / std).astype(np.float32))
    np.testing.assert_allclose(probabilities(inside, vector, images), outside, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "cnn12"}, r"no model 'cnn12'; known are linear, "),
        ({"shape": ()}, "shape"),
        ({"shape": (8, 8)}, "at least 12 x 12 pixels"),
        ({"shape": (3, 12, 11)}, "at least 12 x 12 pixels"),
        ({"classes": 1}, r"classes\(=1\) must be >= 2"),
        ({"width": 0.0}, r"width\(=0.0\) must be > 0"),
        ({"width": math.inf}, r"width\(=inf\)"),
        ({"name": "linear", "width": 2.0}, r"width\(=2.0\) must be 1"),
        ({"embedding": 0}, r"embedding\(=0\)"),
        ({"mean": (0.5,)}, "mean and std"),
        ({"mean": (0.5,) * 3, "std": (1.0, 1.0, 0.0)}, "std not 0"),
        ({"name": "resnet18", "shape": (1, 32, 32)}, "takes 3 channels, not 1"),
    ],
)
def test_an_invalid_model_is_refused(arguments: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"name": "cnn13", "shape": (3, 32, 32), "classes": 10}
    with pytest.raises(ValueError, match=message):
        ModelSpec(**(given | arguments))  # type: ignore[arg-type]
