"""Products of powers of points of P-256, as the code computes them and by the general arithmetic of the group."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import curve_powers
from tacit.protocols.crypto.curve_points import Point
from tacit.protocols.crypto.curve_powers import movable, product_of_powers, settled
from tacit.protocols.crypto.groups import find_group
from tacit.sim.streams import Entropy

GROUP = find_group("p256")


@pytest.mark.parametrize("few", [0, 256])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 12), bits=st.sampled_from([1, 8, 128, 256]))
def test_a_product_of_powers_equals_the_separate_powers(few: int, seed: int, count: int, bits: int) -> None:
    entropy = Entropy.seeded(seed)
    elements = [GROUP.random_element(entropy) for _ in range(count)]
    elements[-1] = elements[0]  # sums of equal points
    points = [movable(element) for element in elements]
    exponents = [entropy.below(1 << bits) for _ in points]
    expected = GROUP.identity
    for point, exponent in zip(elements, exponents, strict=True):
        if exponent:
            expected = GROUP.multiply(expected, GROUP.power(point, exponent))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(curve_powers, "_FEW", few)
        assert product_of_powers(points, exponents) == expected
        # A point and its inverse cancel.
        pair = [points[0], movable(GROUP.divide(GROUP.identity, elements[0]))]
        assert product_of_powers(pair, [exponents[0], exponents[0]]) == GROUP.identity
    assert [settled(point) for point in points] == elements  # the points are unchanged


def test_an_empty_product_is_the_identity() -> None:
    assert product_of_powers([], []) == GROUP.identity
    assert product_of_powers([movable(GROUP.generator)] * 300, [0] * 300) == GROUP.identity


def test_invalid_exponents_and_points_are_refused() -> None:
    generator = movable(GROUP.generator)
    with pytest.raises(ValueError, match="as many exponents"):
        product_of_powers([generator], [])
    with pytest.raises(ValueError, match="at least 0"):
        product_of_powers([generator], [-1])
    with pytest.raises(ValueError, match="does not belong to the curve"):
        movable(Point(GROUP.generator.x, GROUP.generator.y + 1))
