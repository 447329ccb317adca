"""Points of P-256 by their coordinates: sums and OpenSSL's powers equal those of pycryptodome's arithmetic."""

import pytest
from Crypto.PublicKey.ECC import EccPoint
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto.curve_points import (
    GENERATOR,
    INFINITY,
    ORDER,
    PRIME,
    B,
    Point,
    SecretExponent,
    decode,
    encode,
    generator_power,
    inverse,
    sums,
)
from tacit.protocols.crypto.groups import find_group
from tacit.sim.streams import Entropy

GROUP = find_group("p256")

EDGES = [1, 2, 3, ORDER - 3, ORDER - 2, ORDER - 1]
EXPONENTS = st.sampled_from(EDGES) | st.integers(1, ORDER - 1)


def reference(point: Point) -> EccPoint:
    return EccPoint(int(point.x), int(point.y), "p256")


def points_of(*found: EccPoint) -> list[Point]:
    return [Point(mpz(int(one.x)), mpz(int(one.y))) for one in found]


@settings(max_examples=40, deadline=None)
@given(EXPONENTS, EXPONENTS)
def test_powers_equal_those_of_pycryptodome(base: int, exponent: int) -> None:
    (point,) = points_of(reference(GENERATOR) * base)
    assert generator_power(base) == point
    (expected,) = points_of(reference(point) * exponent)
    own = SecretExponent(exponent)
    assert own.power_of(point) == expected
    assert own.power(encode(point)) == encode(expected)
    assert own.public == encode(generator_power(exponent))
    assert GROUP.powers([point, INFINITY, point], exponent) == [expected, INFINITY, expected]
    # One times more than the order, and the order itself.
    assert GROUP.power(point, exponent + ORDER) == expected
    assert GROUP.powers([point], ORDER) == [INFINITY]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), max_size=12))
def test_sums_equal_those_of_pycryptodome(pairs: list[tuple[int, int, bool]]) -> None:
    """Few points, so that equal and inverse ones and the point at infinity occur on both sides."""
    some = [INFINITY, *points_of(*(reference(GENERATOR) * k for k in (1, 2, 3, ORDER - 1)))]
    lefts = [some[left] for left, _, _ in pairs]
    rights = [inverse(some[right]) if inverted else some[right] for _, right, inverted in pairs]
    expected = points_of(*(reference(left) + reference(right) for left, right in zip(lefts, rights, strict=True)))
    assert sums(lefts, rights) == expected
    assert sums(rights, lefts) == expected
    assert GROUP.quotients(some[1], rights) == sums([some[1]] * len(rights), [inverse(one) for one in rights])


def test_a_point_and_its_inverse_have_one_first_coordinate() -> None:
    for point in (GENERATOR, generator_power(5)):
        assert inverse(inverse(point)) == point != inverse(point)
        assert sums([point], [inverse(point)]) == [INFINITY]
        assert encode(inverse(point))[1:] == encode(point)[1:]
        assert decode(encode(inverse(point))) == inverse(point)
    assert inverse(INFINITY) == INFINITY
    assert encode(INFINITY) == bytes(33)


def test_sums_of_another_number_of_points_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        sums([GENERATOR], [])


@pytest.mark.parametrize("exponent", [0, -1, ORDER, ORDER + 1, 2**300])
def test_exponents_outside_the_group_are_refused_without_being_named(exponent: int) -> None:
    for function in (SecretExponent, generator_power):
        with pytest.raises(ValueError, match="at least 1 and below the order of p256") as found:
            function(exponent)
        assert str(exponent) not in str(found.value).replace("at least 1", "").replace("p256", "")
    own = SecretExponent(7)
    assert "7" not in repr(own)


def test_points_off_the_curve_are_refused() -> None:
    own, valid = SecretExponent(Entropy.seeded(1).below(ORDER - 1) + 1), encode(GENERATOR)
    off = next(x for x in range(1, 100) if pow(x**3 - 3 * x + int(B), int(PRIME) // 2, int(PRIME)) != 1)
    for wrong in (
        b"", valid[:-1], valid + b"\0", bytes(33), bytes([4]) + valid[1:], b"\2" + b"\xff" * 32,
        b"\2" + off.to_bytes(32, "big"), b"\3" + off.to_bytes(32, "big"),
    ):  # fmt: skip
        for function in (own.power, decode):
            with pytest.raises(ValueError, match="p256"):
                function(wrong)
    for point in (INFINITY, Point(GENERATOR.x, GENERATOR.y + 1), Point(mpz(off), mpz(1))):
        with pytest.raises(ValueError, match="Invalid EC key"):
            own.power_of(point)


def test_powers_and_tables_of_many_exponents_equal_single_ones() -> None:
    entropy = Entropy.seeded(3)
    base = GROUP.random_element(entropy)
    exponents = [0, *EDGES, *(GROUP.random_exponent(entropy) for _ in range(3)), ORDER, 2**256 - 1]
    table = GROUP.table(base, len(exponents))
    found = table.powers(exponents)
    assert found == [table.power(exponent) for exponent in exponents]
    assert found == points_of(*(reference(base) * exponent for exponent in exponents))
    assert table.powers([]) == []
    assert GROUP.powers([], 5) == GROUP.quotients(base, []) == []
