"""X25519 and key derivation."""

import hashlib
import hmac
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.crypto.agreement import KeyPair, SharedSecret, StandIn, StandInPair, derive_key, fresh_pair
from tacit.sim.hollow import stand_ins
from tacit.sim.streams import Entropy

P = 2**255 - 19


def montgomery_ladder(scalar: bytes, point: bytes) -> bytes:
    """X25519 in plain integers, as written in RFC 7748, section 5."""
    k = int.from_bytes(scalar, "little") & ~7 & ~(1 << 255) | 1 << 254
    x1 = int.from_bytes(point, "little") & (1 << 255) - 1
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb = d * a, c * b
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        aa, bb = a * a, b * b
        e = aa - bb
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def test_the_shared_secret_equals_an_independent_computation() -> None:
    mine, theirs = bytes(range(1, 33)), hashlib.sha256(b"another").digest()
    base = (9).to_bytes(32, "little")
    pair, peer = KeyPair(mine), KeyPair(theirs)
    assert pair.public == montgomery_ladder(mine, base)
    assert pair.agree(peer.public) == peer.agree(pair.public) == montgomery_ladder(mine, peer.public)


def test_hkdf_equals_an_independent_computation() -> None:
    parts = [b"tacit/v1", b"gcm-lo-hi", b"3", b"2", b"client/1#1", b"client/2#1"]
    info = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    extracted = hmac.digest(b"run", b"secret", "sha256")
    expected = hmac.digest(extracted, info + b"\1", "sha256")
    assert derive_key(b"secret", b"run", "gcm-lo-hi", 3, 2, ("client/1#1", "client/2#1")) == expected


@given(secret=st.binary(max_size=200), salt=st.binary(max_size=200))
def test_secrets_and_salts_of_any_length_equal_hmac(secret: bytes, salt: bytes) -> None:
    info = b"".join(len(part).to_bytes(4, "big") + part for part in (b"tacit/v1", b"check", b"1", b"0"))
    expected = hmac.digest(hmac.digest(salt, secret, "sha256"), info + b"\1", "sha256")
    assert derive_key(secret, salt, "check", 1, 0, (), 16) == expected[:16]


def test_every_context_derives_its_own_key() -> None:
    contexts = [
        (purpose, round_number, attempt, names)
        for purpose in ("gcm-lo-hi", "gcm-hi-lo", "rowsum-own")
        for round_number in (1, 11)
        for attempt in (1, 11)
        for names in (("a#1", "b#1"), ("a#1", "b#2"), ("a#1b", "#1"))
    ]
    keys = {derive_key(b"s", b"run", *context) for context in contexts}
    keys |= {derive_key(b"s", b"other run", *context) for context in contexts}
    assert len(keys) == 2 * len(contexts)


def test_a_stand_in_gives_the_keys_of_the_same_secret_except_for_masks() -> None:
    real, stand_in = (SharedSecret(kind(b"s" * 32), b"run", 1, ("a#1", "b#1")) for kind in (bytes, StandIn))
    assert stand_in.is_stand_in and not real.is_stand_in
    assert real.key("root", 2) == stand_in.key("root", 2) == stand_in.key("root", 2)
    assert real.key_of_mask("mask", 1) == real.key("mask", 1)
    assert stand_in.key_of_mask("mask", 1) == b""


@pytest.mark.parametrize("public", [bytes(32), b"\1" + bytes(31), bytes(31), bytes(33)])
def test_keys_of_small_order_and_wrong_size_are_refused(public: bytes) -> None:
    with pytest.raises(ValueError):
        KeyPair.generate(Entropy.seeded(1, "x")).agree(public)


def test_a_private_key_can_be_pickled_and_its_representation_has_no_secret() -> None:
    seed = bytes(range(32))
    pair = KeyPair(seed)
    assert pickle.loads(pickle.dumps(pair)).public == pair.public
    shared = SharedSecret(b"s" * 32, b"run", 1, ("a#1", "b#1"))
    for text in (repr(pair), str(pair), repr(shared)):
        assert seed.hex()[:16] not in text and "ssss" not in text


def test_a_fresh_pair_is_drawn_in_a_run_and_has_no_curve_in_a_prediction() -> None:
    drawn, other = (Entropy.seeded(1, name) for name in "xy")
    assert fresh_pair(Entropy.seeded(1, "x")).public == KeyPair.generate(Entropy.seeded(1, "x")).public
    assert stand_ins("hollow")(fresh_pair) is fresh_pair
    predicted = stand_ins("predicted")(fresh_pair)
    mine, theirs = predicted(drawn), predicted(other)
    assert len(mine.public) == len(theirs.public) == 32 and mine.public != theirs.public
    assert mine.public != KeyPair.generate(Entropy.seeded(1, "x")).public
    assert mine.stand_in(theirs.public) == theirs.stand_in(mine.public)
    copy = pickle.loads(pickle.dumps(mine))
    assert isinstance(copy, StandInPair) and copy.public == mine.public
    assert len(predicted(Entropy.system()).public) == 32
