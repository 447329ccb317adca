"""Powers of points of P-256, as the code computes them and by the general arithmetic of the group."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import curve_powers
from tacit.protocols.crypto.curve_powers import SecretExponent, product_of_powers
from tacit.protocols.crypto.groups import find_group
from tacit.sim.streams import Entropy

GROUP = find_group("p256")
ORDER = GROUP.order


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3, ORDER - 3, ORDER - 2, ORDER - 1, None]))
def test_powers_of_a_secret_exponent_equal_those_of_the_group(seed: int, exponent: int | None) -> None:
    entropy = Entropy.seeded(seed)
    k = exponent or GROUP.random_exponent(entropy)
    element, own = GROUP.random_element(entropy), SecretExponent(k)
    assert own.public == GROUP.encode(GROUP.power(GROUP.generator, k))
    for base in (element, GROUP.generator, GROUP.divide(GROUP.identity, element)):
        assert own.power(GROUP.encode(base)) == GROUP.encode(GROUP.power(base, k))


@pytest.mark.parametrize("few", [0, 256])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 12), bits=st.sampled_from([1, 8, 128, 256]))
def test_a_product_of_powers_equals_the_separate_powers(few: int, seed: int, count: int, bits: int) -> None:
    entropy = Entropy.seeded(seed)
    points = [GROUP.random_element(entropy) for _ in range(count)]
    points[-1] = points[0]  # sums of equal points
    exponents = [entropy.below(1 << bits) for _ in points]
    expected = GROUP.identity
    for point, exponent in zip(points, exponents, strict=True):
        if exponent:
            expected = GROUP.multiply(expected, GROUP.power(point, exponent))
    copies = [GROUP.encode(point) for point in points]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(curve_powers, "_FEW", few)
        assert product_of_powers(points, exponents) == expected
        # A point and its inverse cancel.
        pair = [points[0], GROUP.divide(GROUP.identity, points[0])]
        assert product_of_powers(pair, [exponents[0], exponents[0]]) == GROUP.identity
    assert copies == [GROUP.encode(point) for point in points]  # the points are unchanged


def test_an_empty_product_is_the_identity() -> None:
    assert product_of_powers([], []) == GROUP.identity
    assert product_of_powers([GROUP.generator] * 300, [0] * 300) == GROUP.identity


def test_invalid_exponents_and_points_are_refused() -> None:
    for exponent in (0, -1, ORDER):
        with pytest.raises(ValueError, match="below the order") as found:
            SecretExponent(exponent)
        assert str(ORDER) not in str(found.value)
    own = SecretExponent(7)
    assert "7" not in repr(own)
    valid = GROUP.encode(GROUP.generator)
    off = next(
        bytes([2]) + x.to_bytes(32, "big")
        for x in range(1, 100)
        if pow(x**3 - 3 * x + 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
               (2**256 - 2**224 + 2**192 + 2**96 - 2) // 2, 2**256 - 2**224 + 2**192 + 2**96 - 1) != 1
    )  # fmt: skip
    for wrong in (b"", valid[:-1], valid + b"\0", bytes(33), bytes([4]) + valid[1:], b"\2" + b"\xff" * 32, off):
        with pytest.raises(ValueError, match="p256"):
            own.power(wrong)
    with pytest.raises(ValueError, match="as many exponents"):
        product_of_powers([GROUP.generator], [])
    with pytest.raises(ValueError, match="at least 0"):
        product_of_powers([GROUP.generator], [-1])
