import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.protocols.crypto.fixed_point import decode, encode, largest

ENCODABLE = st.floats(-(2.0**20), 2.0**20)


@given(
    arrays(np.float64, st.tuples(st.integers(0, 5), st.integers(0, 3)), elements=ENCODABLE),
    st.integers(0, 40),
)
def test_decoding_returns_the_value_to_half_a_unit(values, fraction_bits):
    elements = encode(values, fraction_bits, terms=4)
    assert elements.dtype == np.uint64
    assert elements.shape == values.shape
    assert (np.abs(decode(elements, fraction_bits) - values) <= 2.0 ** -(fraction_bits + 1)).all()


@given(st.lists(ENCODABLE, min_size=1, max_size=8), st.lists(st.integers(0, 2**64 - 1), min_size=8, max_size=8))
def test_sums_are_exact_in_any_order_and_under_masks(values, masks):
    elements = [encode(np.array([value]), 32, terms=8) for value in values]
    expected = sum(round(value * 2**32) for value in values) / 2**32
    total = np.zeros(1, dtype=np.uint64)
    for mask in masks:
        total = total + np.array([mask], dtype=np.uint64)
    for element in reversed(elements):
        total = total + element
    for mask in masks:
        total = total - np.array([mask], dtype=np.uint64)
    assert decode(total, 32)[0] == expected


def test_known_values_have_their_known_encodings():
    values = np.array([0.0, 1.0, -1.0, 0.5, 1.5, -0.5, 2.5])
    assert encode(values, 0, 1).view(np.int64).tolist() == [0, 1, -1, 0, 2, 0, 2]
    assert encode(np.array([-1.0]), 32, 1)[0] == 2**64 - 2**32


@pytest.mark.parametrize("terms", [1, 2, 3, 7, 100, 2**40 + 1])
@pytest.mark.parametrize("fraction_bits", [0, 16, 32, 62])
def test_as_many_terms_as_stated_never_wrap(terms, fraction_bits):
    bound = largest(fraction_bits, terms)
    assert bound == pytest.approx(2.0 ** (63 - fraction_bits) / terms)
    for sign in (1.0, -1.0):
        with pytest.raises(ValueError, match="too large"):
            encode(np.array([0.0, sign * bound]), fraction_bits, terms)
        largest_accepted = sign * bound * (1 - 2**-20) - sign * 2.0**-fraction_bits
        if sign * largest_accepted > 0:
            element = int(encode(np.array([largest_accepted]), fraction_bits, terms).view(np.int64)[0])
            assert abs(element) * terms < 2**63


def test_a_value_that_rounding_lifts_onto_the_bound_is_refused():
    # 2^63 / 2^43 terms: the bound is 2^20 units, and 2^20 - 0.25 rounds to it.
    with pytest.raises(ValueError, match="too large"):
        encode(np.array([2.0**20 - 0.25]), 0, terms=2**43)
    assert encode(np.array([2.0**20 - 0.75]), 0, terms=2**43)[0] == 2**20 - 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_finite_number_is_named_so(value):
    with pytest.raises(ValueError, match="a value is infinite or not a number, as where training diverges"):
        encode(np.array([1.0, value]), 32, terms=10)


@pytest.mark.parametrize("value", [3.25e9, -3.25e9])
def test_the_error_names_the_bound_and_not_the_value(value):
    with pytest.raises(ValueError) as caught:
        encode(np.array([1.0, value]), 32, terms=10)
    assert str(caught.value) == (
        "a value is too large for the sum: with 32 fractional bits and 10 terms "
        "magnitudes must be numbers below 2.14748e+08"
    )


def test_invalid_fraction_bits_and_terms_are_refused():
    with pytest.raises(ValueError, match="fraction_bits"):
        encode(np.zeros(1), 63, 1)
    with pytest.raises(ValueError, match="terms"):
        encode(np.zeros(1), 32, 0)
    with pytest.raises(ValueError, match="fraction_bits"):
        decode(np.zeros(1, dtype=np.uint64), -1)
