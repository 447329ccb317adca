"""Secret sharing: any t shares give the secret, in any order; t - 1 shares fit every secret."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import shamir
from tacit.protocols.crypto.shamir import PRIME
from tacit.sim.streams import Entropy


def entropy(*names: str | int) -> Entropy:
    return Entropy.seeded(1, "shamir", *names)


@settings(deadline=None)
@given(data=st.data(), size=st.integers(1, 40), count=st.integers(1, 4), shares=st.integers(1, 9))
def test_any_threshold_of_the_shares_gives_the_secrets(data, size, count, shares) -> None:
    secrets = data.draw(st.lists(st.binary(min_size=size, max_size=size), min_size=count, max_size=count))
    threshold = data.draw(st.integers(1, shares))
    dealt = shamir.split(secrets, threshold, shares, entropy(size, count))
    assert dealt.shape == (shares, count, shamir.share_bytes(size))
    xs = data.draw(st.permutations(range(1, shares + 1)))[: data.draw(st.integers(threshold, shares))]
    assert shamir.combine(xs, dealt[[x - 1 for x in xs]], threshold, size) == secrets


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_extreme_secrets_are_recovered_from_many_shares(secret: bytes) -> None:
    dealt = shamir.split([secret], 60, 100, entropy())
    assert shamir.combine(range(41, 101), dealt[40:], 60, 32) == [secret]


def test_a_share_is_the_value_of_the_polynomial_at_its_place() -> None:
    """Checked with Python's integers: shares of one secret of one limb lie on a polynomial of degree t - 1."""
    dealt = shamir.split([b"\x2a"], 3, 6, entropy()).reshape(6, 4)
    values = [int.from_bytes(row.tobytes(), "little") for row in dealt]
    assert all(value < PRIME for value in values)
    for xs in itertools.combinations(range(1, 7), 3):
        secret = 0
        for i in xs:
            term = values[i - 1]
            for j in xs:
                if j != i:
                    term = term * j * pow(j - i, -1, PRIME) % PRIME
            secret += term
        assert secret % PRIME == 0x2A


def test_lagrange_coefficients_equal_those_of_python_integers() -> None:
    xs = [1, 5, 2**30 + 3, PRIME - 1, 77]
    for i, found in zip(xs, shamir.lagrange_at_zero(xs).tolist(), strict=True):
        expected = 1
        for j in xs:
            if j != i:
                expected = expected * j * pow(j - i, -1, PRIME) % PRIME
        assert found == expected


def test_too_few_shares_are_consistent_with_every_secret() -> None:
    """For t - 1 shares and any secret there is one polynomial, so the shares reveal nothing: here for two of three."""
    dealt = shamir.split([b"\x01"], 3, 5, entropy()).reshape(5, 4)
    known = {x: int.from_bytes(dealt[x - 1].tobytes(), "little") for x in (2, 4)}
    third = set()
    for secret in range(256):
        points = {0: secret, **known}
        value = 0  # the value at x = 1 of the polynomial through the three points
        for i, y in points.items():
            term = y
            for j in points:
                if j != i:
                    term = term * (1 - j) * pow(i - j, -1, PRIME) % PRIME
            value += term
        third.add(value % PRIME)
        share = np.frombuffer((value % PRIME).to_bytes(4, "little"), np.uint8)
        shares = np.stack([share, dealt[1], dealt[3]])[:, None, :]
        assert shamir.combine([1, 2, 4], shares, 3, 1) == [bytes([secret])]
    assert len(third) == 256


def test_shares_below_the_threshold_look_uniform() -> None:
    """In one share of many sharings of one secret, the top bit is set about half of the time."""
    dealt = shamir.split([bytes(1)] * 4000, 2, 3, entropy())
    values = dealt.reshape(3, 4000, 4).view("<u4")[..., 0]
    ones = (values >> 30).sum(axis=1)
    assert ((ones > 1800) & (ones < 2200)).all()  # 6 standard deviations
    assert len(np.unique(values[0])) > 3990


def test_the_same_secret_is_shared_with_fresh_randomness_each_time() -> None:
    source = entropy()
    first, second = (shamir.split([bytes(32)], 2, 3, source) for _ in range(2))
    assert (first != second).any(axis=(1, 2)).all()
    np.testing.assert_array_equal(first, shamir.split([bytes(32)], 2, 3, entropy()))


@pytest.mark.parametrize(("threshold", "shares"), [(0, 3), (4, 3), (1, 0), (2, PRIME)])
def test_an_impossible_threshold_is_refused(threshold: int, shares: int) -> None:
    with pytest.raises(ValueError, match="1 <= threshold <= shares"):
        shamir.split([bytes(32)], threshold, shares, entropy())


@pytest.mark.parametrize("secrets", [[], [b""], [b"ab", b"abc"]])
def test_secrets_must_be_of_one_size(secrets: list[bytes]) -> None:
    with pytest.raises(ValueError, match="one size"):
        shamir.split(secrets, 1, 2, entropy())


def test_invalid_shares_places_and_thresholds_are_refused() -> None:
    dealt = shamir.split([b"secret"], 2, 4, entropy())
    for threshold in (0, 3):
        with pytest.raises(ValueError, match=rf"threshold\(={threshold}\)"):
            shamir.combine([1, 2], dealt[:2], threshold, 6)
    for places in ([1, 1], [0, 1], [1, PRIME]):
        with pytest.raises(ValueError, match="must differ and lie between"):
            shamir.combine(places, dealt[:2], 2, 6)
    with pytest.raises(ValueError, match="shape"):
        shamir.combine([1, 2], dealt[:3], 2, 6)
    with pytest.raises(ValueError, match="shape"):
        shamir.combine([1, 2], dealt[:2], 2, 12)
    with pytest.raises(ValueError, match="not below"):
        shamir.combine([1, 2], np.full_like(dealt[:2], 255), 2, 6)
    with pytest.raises(ValueError, match="do not fit together"):
        shamir.combine([2, 1], dealt[:2], 2, 6)  # with the shares exchanged


@pytest.mark.parametrize(("size", "width"), [(1, 4), (4, 8), (16, 20), (32, 36)])
def test_the_size_of_a_share_follows_from_the_secrets(size: int, width: int) -> None:
    assert shamir.share_bytes(size) == width
    assert shamir.split([bytes(size)], 2, 3, entropy())[0].nbytes == width


def test_work_grows_with_the_size_of_secrets() -> None:
    assert shamir.split_work(32, 2, 51, 100) == {"shamir.multiply": 50 * 100 * 2 * 9}
    assert shamir.combine_work(32, 2, 51)["shamir.multiply"] < shamir.combine_work(32, 3, 51)["shamir.multiply"]
