import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tacit.parties.learning.jobs import initial, size, trained_size
from tacit.parties.learning.networks import build
from tacit.parties.learning.parameters import flatten, load
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import average, decode, encode

SPEC = ModelSpec("fedct_svhn", (1, 8, 8), 3)


def test_parameters_loaded_from_a_vector_are_stored_to_the_same_vector() -> None:
    network = build(SPEC)
    vector = encode(np.arange(size(SPEC), dtype=np.float32))
    load(network, vector)
    assert flatten(network) == vector


def test_trained_parameters_come_first_and_running_statistics_last() -> None:
    network = build(SPEC)
    for parameter in network.parameters():
        parameter.data.fill_(1.0)
    for name, buffer in network.named_buffers():
        buffer.fill_(5 if name.endswith("num_batches_tracked") else 2)
    numbers = decode(flatten(network))
    trained = trained_size(SPEC)
    assert set(numbers[:trained]) == {1.0}
    assert set(numbers[trained:]) == {2.0}
    assert len(numbers) == trained + 2 * (32 + 64 + 128)


def test_numbers_are_little_endian_float32_in_the_order_of_the_layers() -> None:
    spec = ModelSpec("linear", (2,), 2)
    network = build(spec)
    load(network, np.array([1, 2, 3, 4, 5, 6], "<f4").tobytes())
    assert network.head.weight.tolist() == [[1, 2], [3, 4]]
    assert network.head.bias.tolist() == [5, 6]


@pytest.mark.parametrize("change", [-4, -1, 1, 4])
def test_bytes_of_another_length_are_refused(change: int) -> None:
    network, length = build(SPEC), 4 * size(SPEC)
    with pytest.raises(ValueError, match=rf"parameters of fedct_svhn: {length + change} bytes, not the {length} of"):
        load(network, bytes(length + change))


def test_a_seed_gives_the_same_network_and_leaves_torchs_own_draws_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first = initial(SPEC, 1)
    assert (torch.rand(3) == expected).all()
    assert initial(SPEC, 1) == first
    assert initial(SPEC, 2) != first
    assert initial(SPEC, bytes(32)) not in (first, initial(SPEC, 2))


@given(
    st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1, max_size=5),
    st.integers(0, 2**32),
)
def test_averages_of_parameters_are_weighted_means(rows: list[list[float]], seed: int) -> None:
    vectors = [encode(np.array(row)) for row in rows]
    weights = np.random.Generator(np.random.Philox(seed)).random(len(rows)) + 0.1
    close = {"rtol": 2.0**-23, "atol": 1e-8}  # the error of a float32 rounded once, and of float64 sums that cancel
    np.testing.assert_allclose(decode(average(vectors)), np.mean(rows, axis=0), **close)
    found = decode(average(vectors, weights.tolist()))
    np.testing.assert_allclose(found, np.average(rows, axis=0, weights=weights), **close)


def test_vectors_or_weights_that_cannot_be_averaged_are_refused() -> None:
    one = encode(np.ones(2))
    for vectors, weights, message in [
        ([], None, "no vector"),
        ([one, one[:4]], None, r"vectors of \[4, 8\] bytes"),
        ([one, one], [1.0], "as many weights"),
        ([one, one], [0.0, 0.0], "positive sum"),
        ([one, one], [2.0, -1.0], "weights >= 0"),
        ([b"123"], None, "not one of numbers of 4 bytes"),
    ]:
        with pytest.raises(ValueError, match=message):
            average(vectors, weights)  # type: ignore[arg-type]
