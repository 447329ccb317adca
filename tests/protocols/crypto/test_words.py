"""Numbers of few bits: sums decode to the quantised values, and words of any width survive packing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.protocols.crypto.words import Quantised, packed, packed_bytes, packed_rows, unpacked, unpacked_rows

widths = st.integers(1, 57)


@given(st.data(), widths, st.integers(0, 41))
def test_words_of_any_width_are_packed_and_read_again(data: st.DataObject, bits: int, count: int) -> None:
    words = np.array(data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=count, max_size=count)), np.uint64)
    sent = packed(words, bits)
    assert len(sent) == packed_bytes(count, bits) == -(-count * bits // 8)
    assert unpacked(sent, count, bits).tolist() == words.tolist()
    whole = sum(int(word) << (bits * place) for place, word in enumerate(words))
    assert int.from_bytes(sent, "little") == whole


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 57), st.integers(0, 20), st.integers(0, 5), st.integers(0, 2**32))
def test_rows_are_packed_and_read_as_each_by_itself(bits: int, count: int, rows: int, seed: int) -> None:
    words = np.random.default_rng(seed).integers(0, 1 << bits, (rows, count), np.uint64)
    sent = packed_rows(words, bits)
    assert sent == [packed(row, bits) for row in words]
    read, clean = unpacked_rows(sent, count, bits)
    assert read.tolist() == words.tolist() and clean.all()
    if rows and (8 * packed_bytes(count, bits) - count * bits):
        _, clean = unpacked_rows([sent[0], *(data[:-1] + bytes([data[-1] | 0x80]) for data in sent)], count, bits)
        assert clean.tolist() == [True] + [False] * rows
    with pytest.raises(ValueError, match="bytes, not"):
        unpacked_rows([*sent, b"\0" + bytes(packed_bytes(count, bits))], count, bits)


@given(st.integers(2, 32), st.floats(0.01, 100), st.integers(1, 40), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_a_weighted_sum_equals_that_of_the_quantised_values(
    bits: int, clip: float, terms: int, weight: int, seed: int
) -> None:
    dice = np.random.default_rng(seed)
    try:
        quantised = Quantised(bits, clip, terms, weight)
    except ValueError:  # a sum that does not fit into 57 bits
        assert (terms * weight * (2**bits - 1)).bit_length() > 57
        return
    values, weights = dice.normal(0, clip, (terms, 5)), dice.integers(0, weight + 1, terms)
    integers = [quantised.encode(row) for row in values]
    total = sum((one * np.uint64(w) for one, w in zip(integers, weights, strict=True)), start=np.zeros(5, np.uint64))
    assert int(total.max()) < 2**quantised.word_bits
    exact = [sum(int(w) * int(one[i]) for one, w in zip(integers, weights, strict=True)) for i in range(5)]
    assert total.tolist() == exact
    wanted = weights @ np.clip(values, -clip, clip)
    half = clip / (2**bits - 1)
    assert np.abs(quantised.decode(total, weights.sum()) - wanted).max() <= (half + 1e-9 * clip) * max(1, weights.sum())


@given(arrays(np.float64, 4, elements=st.sampled_from([0.0, 1.0, np.inf, -np.inf, np.nan])))
def test_infinite_values_and_nan_are_refused_without_being_shown(values: np.ndarray) -> None:
    quantised = Quantised(8, 1.0, 2)
    if np.isfinite(values).all():
        assert quantised.encode(values).tolist() == [128 if value == 0 else 255 for value in values]
    else:
        with pytest.raises(ValueError, match=r"^a value is infinite or not a number$"):
            quantised.encode(values)


@given(arrays(np.float64, 6, elements=st.floats(-1e12, 1e12)), st.integers(2, 16), st.integers(1, 1 << 40))
def test_values_out_of_range_are_integers_up_to_the_bound_in_both_directions(
    values: np.ndarray, bits: int, bound: int
) -> None:
    quantised = Quantised(bits, 1.0, 2)
    found = quantised.unclipped(values, bound).tolist()
    exact = [int(np.rint((value + 1.0) * ((2**bits - 1) / 2.0))) for value in values]
    assert found == [max(-bound, min(bound, one)) for one in exact]
    assert quantised.unclipped(np.array([-1e300, 1e300]), bound).tolist() == [-bound, bound]
    within = np.clip(values, -1.0, 1.0)
    assert quantised.unclipped(within, 1 << 40).tolist() == quantised.encode(within).tolist()


def test_word_widths_equal_the_published_widths() -> None:
    """Bonawitz et al., CCS 2017: sums of 16 bits among 2^10 and 2^14 clients; 1.73 and 1.98 times the plain bytes."""
    for clients, dimension, width, expansion in ((1 << 10, 1 << 20, 26, 1.73), (1 << 14, 1 << 24, 30, 1.98)):
        bits = Quantised(16, 1.0, clients).word_bits
        assert bits == width
        keys_and_shares = 2 * clients * 256 + (5 * clients - 4) * 256
        assert (8 * packed_bytes(dimension, bits) + keys_and_shares) / (16 * dimension) == pytest.approx(
            expansion, abs=0.005
        )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((1, 1.0, 2), "between 2 and 32"), ((33, 1.0, 2), "between 2 and 32"), ((8, 0.0, 2), "a number above 0"),
        ((8, np.nan, 2), "a number above 0"), ((8, 1e308, 2), "to 1e[+]290"), ((32, 5e-324, 2), "from 1e-290"),
        ((8, 1.0, 0), "must be >= 1"), ((32, 1.0, 1 << 26), "at most 57"),
    ],
)  # fmt: skip
def test_impossible_widths_are_refused(arguments: tuple[int, float, int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Quantised(*arguments)


@pytest.mark.parametrize(("data", "count", "bits"), [(b"\0\0", 4, 5), (b"\0", 2, 5), (b"\xff", 1, 5), (b"", 1, 58)])
def test_bytes_of_wrong_length_or_padding_are_refused(data: bytes, count: int, bits: int) -> None:
    with pytest.raises(ValueError, match=r"take|set|between 1 and 57"):
        unpacked(data, count, bits)
