"""Groups."""

import pickle

import gmpy2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto.fixed_base import Comb
from tacit.protocols.crypto.groups import Group, Modp, PowerTable, find_group
from tacit.sim.streams import Entropy

NAMES = ("modp-2048", "modp-2048-short", "modp-3072", "modp-3072-short", "p256")
MODP = [name for name in NAMES if name != "p256"]

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)


def affine_add(left, right):
    """The sum of two points of P-256 by the textbook formula; None is the point at infinity."""
    if left is None or right is None:
        return left or right
    (x, y), (u, v) = left, right
    if x == u and (y + v) % P == 0:
        return None
    slope = (3 * x * x - 3) * pow(2 * y, -1, P) if left == right else (v - y) * pow(u - x, -1, P)
    z = (slope * slope - x - u) % P
    return z, (slope * (x - z) - y) % P


def affine_power(point, exponent):
    result = None
    for bit in bin(exponent)[2:]:
        result = affine_add(result, result)
        if bit == "1":
            result = affine_add(result, point)
    return result


def coordinates(element):
    return int(element.x), int(element.y)


@pytest.mark.parametrize(("bits", "constant"), [(2048, 124476), (3072, 1690314)])
def test_primes_equal_those_of_rfc_3526(bits: int, constant: int) -> None:
    with gmpy2.context(gmpy2.get_context(), precision=bits + 64):
        pi = int(gmpy2.floor(gmpy2.const_pi() * gmpy2.mpz(2) ** (bits - 130)))
    group = find_group(f"modp-{bits}")
    assert group.modulus == 2**bits - 2 ** (bits - 64) - 1 + 2**64 * (pi + constant)
    assert gmpy2.is_prime(group.modulus) and gmpy2.is_prime(group.order)
    assert group.modulus == 2 * group.order + 1
    assert pow(2, group.order, int(group.modulus)) == 1
    assert group.element_bytes == bits // 8


def test_constants_of_p256_satisfy_the_curve() -> None:
    group = find_group("p256")
    assert gmpy2.is_prime(P) and gmpy2.is_prime(group.order)
    assert coordinates(group.generator) == G
    assert (G[1] ** 2 - G[0] ** 3 + 3 * G[0] - B) % P == 0
    assert affine_power(G, group.order) is None
    assert group.power(group.generator, group.order) == group.identity
    # Twice the generator, as in NIST's list of P-256 test vectors.
    x, y = coordinates(group.power(group.generator, 2))
    assert x == 0x7CF27B188D034F7E8A52380304B51AC3C08969E277F21B35A60B48FC47669978
    assert y == 0x07775510DB8ED040293D9AC69F7430DBBA7DADE63CE982299E04B79D227873D1


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(MODP), st.integers(0, 2**32))
def test_powers_modulo_a_prime_equal_those_of_python(name: str, seed: int) -> None:
    group, entropy = find_group(name), Entropy.seeded(seed)
    modulus = int(group.modulus)
    k, r = group.random_exponent(entropy), group.random_exponent(entropy)
    element = group.generator_power(k)
    assert element == pow(2, k, modulus)
    assert group.power(element, r) == pow(int(element), r, modulus)
    other = group.random_element(entropy)
    assert group.multiply(element, other) == element * other % modulus
    assert group.multiply(group.divide(element, other), other) == element


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_powers_on_the_curve_equal_plain_curve_arithmetic(seed: int) -> None:
    group, entropy = find_group("p256"), Entropy.seeded(seed)
    k, r = group.random_exponent(entropy), group.random_exponent(entropy)
    element = group.generator_power(k)
    assert coordinates(element) == affine_power(G, k)
    power = group.power(element, r)
    assert coordinates(power) == affine_power(G, k * r % group.order)
    assert coordinates(group.multiply(element, power)) == affine_add(coordinates(element), coordinates(power))
    assert group.divide(group.multiply(element, power), power) == element
    assert group.multiply(element, element) == group.power(element, 2)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["modp-2048", "p256"]),
    st.integers(1, 6),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(0, 2**60),
)
def test_power_tables_give_the_powers_of_their_base(
    name: str, rows: int, blocks: int, columns: int, exponent: int
) -> None:
    group = find_group(name)
    base = group.random_element(Entropy.seeded(1))
    table = PowerTable(group, base, Comb(rows, blocks, columns))
    exponent %= 1 << table.comb.bits
    assert group.encode(table.power(exponent)) == group.encode(group.power(base, exponent + group.order))
    for outside in (-1, 1 << table.comb.bits):
        with pytest.raises(ValueError, match=r"in \[0, 2\^"):
            table.power(outside)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("uses", [0, 1, 128])
def test_a_table_takes_every_exponent(name: str, uses: int) -> None:
    group, entropy = find_group(name), Entropy.seeded(1)
    base = group.random_element(entropy)
    table = group.table(base, uses)
    for exponent in (1, min(group.order, 1 << group.exponent_bits) - 1, group.random_exponent(entropy)):
        assert table.power(exponent) == group.power(base, exponent)


@pytest.mark.parametrize("name", NAMES)
def test_group_elements_are_encoded_and_decoded_in_fixed_length(name: str) -> None:
    group, entropy = find_group(name), Entropy.seeded(1)
    for _ in range(20):
        element = group.random_element(entropy)
        data = group.encode(element)
        assert len(data) == group.element_bytes
        assert group.decode(data) == element
    for wrong in (data[:-1], data + b"\0", b""):
        with pytest.raises(ValueError, match=f"takes {group.element_bytes} bytes"):
            group.decode(wrong)
    with pytest.raises(ValueError, match=f"^not an element of {name}$"):
        group.decode(group.encode(group.identity))


@pytest.mark.parametrize("name", MODP)
def test_numbers_that_are_no_squares_are_no_group_elements(name: str) -> None:
    group = find_group(name)
    modulus, size = int(group.modulus), group.element_bytes
    square = int(group.random_element(Entropy.seeded(1)))
    for value in (0, 1, modulus - 1, modulus, modulus + 4, modulus - square, 2 ** (8 * size) - 1):
        with pytest.raises(ValueError, match="not an element"):
            group.decode(value.to_bytes(size, "big"))
    assert pow(square, group.order, modulus) == 1
    assert pow(modulus - square, group.order, modulus) == modulus - 1


def test_points_off_the_curve_are_no_group_elements() -> None:
    group = find_group("p256")

    def on_curve(x: int) -> bool:
        return pow(x**3 - 3 * x + B, (P - 1) // 2, P) in (0, 1)

    for x in range(40):
        data = b"\2" + x.to_bytes(32, "big")
        if on_curve(x):
            assert coordinates(group.decode(data))[0] == x
        else:
            with pytest.raises(ValueError, match=r"^not an element of p256$"):
                group.decode(data)
    good = group.encode(group.generator)
    for data in (b"\4" + good[1:], b"\0" + good[1:], b"\2" + (P + G[0] % 2**200).to_bytes(32, "big")):
        with pytest.raises(ValueError, match="not an element"):
            group.decode(data)
    # The two points with one x differ in the first byte.
    assert coordinates(group.decode(bytes([5 - good[0]]) + good[1:])) == (G[0], P - G[1])


@pytest.mark.parametrize("name", NAMES)
def test_random_exponents_are_in_range_and_follow_from_the_entropy(name: str) -> None:
    group = find_group(name)
    drawn = [group.random_exponent(Entropy.seeded(seed)) for seed in range(200)]
    bound = 2**256 if name.endswith("short") else group.order
    assert len(set(drawn)) == 200
    assert all(0 < exponent < bound for exponent in drawn)
    assert bound // 2 < max(drawn)
    assert drawn[0] == group.random_exponent(Entropy.seeded(0))


def test_each_group_is_a_single_object_in_a_process() -> None:
    for name in NAMES:
        group = find_group(name)
        assert pickle.loads(pickle.dumps(group)) is group
        assert group == find_group(name) and group != object()
        assert repr(group) == f"<group {name}>"
    assert find_group("modp-2048", short_exponents=True) is find_group("modp-2048-short")
    assert len({find_group(name) for name in NAMES}) == len(NAMES)


def test_unknown_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="'modp-1024' is no group"):
        find_group("modp-1024")
    with pytest.raises(ValueError, match="'p256-short' is no group"):
        find_group("p256", short_exponents=True)
    with pytest.raises(ValueError, match="2048 or 3072 bits, not 1024"):
        Modp(1024)


def test_the_representation_of_a_table_has_no_secret() -> None:
    group: Group = find_group("modp-2048")
    base = group.random_element(Entropy.seeded(1))
    assert str(base)[:8] not in repr(group.table(base, 1))
