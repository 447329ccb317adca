"""Vectors of numbers of several types."""

import numpy as np
import pytest

from tacit.parties.learning.vectors import Layout, average, decode, encode

torch = pytest.importorskip("torch")

MIXED = Layout.of([("float16", 2), ("float16", 1), ("bfloat16", 3), ("float32", 2), ("float64", 1)])


def test_a_layout_joins_neighbours_and_knows_its_widths() -> None:
    assert MIXED.stretches == (("float16", 3), ("bfloat16", 3), ("float32", 2), ("float64", 1))
    assert (MIXED.numbers, MIXED.size, MIXED.dtype) == (9, 2 * 3 + 2 * 3 + 4 * 2 + 8, np.float64)
    assert MIXED.first(4).stretches == (("float16", 3), ("bfloat16", 1))
    with pytest.raises(ValueError, match="9 numbers of type int8"):
        Layout.of([("int8", 9)])
    with pytest.raises(ValueError, match="27 bytes, not the 28"):
        decode(bytes(27), MIXED)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_numbers_are_rounded_as_torch_rounds_them(kind: str) -> None:
    random = np.random.default_rng(1)
    numbers = np.concatenate([random.normal(size=500), random.normal(size=500) * 1e-6, [0.0, -0.0, 1 + 2.0**-8, 1e5]])
    layout = Layout.of([(kind, len(numbers))])
    dtype = getattr(torch, kind)
    wanted = torch.from_numpy(numbers if kind == "float64" else numbers.astype(np.float32)).to(dtype)
    found = decode(encode(numbers, layout), layout)
    assert np.array_equal(found, wanted.to(torch.float64 if kind == "float64" else torch.float32).numpy())
    raw = wanted.view(torch.uint8).numpy().tobytes()
    assert encode(numbers, layout) == raw
    assert np.isnan(decode(encode(np.full(1, np.nan), layout.first(1)), layout.first(1))).all()


def test_means_are_computed_in_float64_and_rounded_once() -> None:
    layout = Layout.of([("float16", 2)])
    vectors = [encode(np.array(one), layout) for one in ([1.0, 60000.0], [1 + 2.0**-10, 60000.0], [1.0, 60000.0])]
    assert decode(average(vectors, [1, 2, 1], layout), layout).tolist() == [1.0, 60000.0]  # a tie goes to the even one
