"""Naor-Pinkas oblivious transfer."""

import hashlib
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import naor_pinkas as ot
from tacit.protocols.crypto.groups import find_group
from tacit.sim.streams import Entropy, generator

FAST = ("p256", "modp-2048-short")
CONTEXT = b"a pair in a round"


def random_bits(seed, count):
    return generator(seed, "bits").integers(0, 2, count).astype(np.bool_)


def random_bytes(seed, *shape):
    return generator(seed, "bytes").integers(0, 256, shape).astype(np.uint8)


def pads(name, choices, size=16, seed=1, first=0, context=CONTEXT):
    """The pads of both parties, and the messages sent."""
    group, entropy = find_group(name), Entropy.seeded(seed)
    key, setup = ot.setup(group, context, entropy.child("sender"))
    kept = ot.draw(group, choices, entropy.child("receiver"))
    request = ot.request(group, setup, kept)
    both = ot.sender_pads(key, request, size, first)
    own = ot.receiver_pads(group, context, setup, kept, size, first)
    return both, own, (key, setup, kept, request)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(FAST),
    st.integers(0, 12),
    st.integers(1, 70),
    st.integers(0, 2**32),
    st.integers(0, 2**40),
    st.binary(max_size=40),
)
def test_the_receiver_gets_the_message_it_chose(name, count, size, seed, first, context):
    choices, messages = random_bits(seed, count), random_bytes(seed, count, 2, size)
    both, own, (key, setup, _, request) = pads(name, choices, size, seed, first, context)
    reply = ot.send(key, request, messages, first)
    chosen = ot.receive(choices, own, reply)
    assert (chosen == messages[np.arange(count), choices.astype(int)]).all()
    element = find_group(name).element_bytes
    assert [len(setup), len(request), len(reply)] == [2 * element, count * element, 2 * count * size]
    assert both.shape == (count, 2, size) and own.shape == (count, size)


@pytest.mark.parametrize("name", ["modp-2048", "modp-3072-short", "modp-3072"])
def test_transfers_work_in_groups_modulo_a_prime(name):
    choices = np.array([False, True, True])
    both, own, (_, setup, _, request) = pads(name, choices)
    assert (own == both[np.arange(3), choices.astype(int)]).all()
    element = find_group(name).element_bytes
    assert [len(setup), len(request)] == [2 * element, 3 * element]


@pytest.mark.parametrize("name", ["modp-2048", "modp-2048-short"])
def test_transfers_equal_plain_python(name):
    choices = random_bits(3, 6)
    both, own, (key, setup, kept, request) = pads(name, choices, 40, first=5)
    p, r = int(find_group(name).modulus), key.exponent
    constant, power = (int.from_bytes(setup[i : i + 256], "big") for i in (0, 256))
    assert power == pow(2, r, p)
    for i, (choice, k) in enumerate(zip(choices.astype(int), kept.exponents, strict=True)):
        keys = [0, 0]
        keys[choice] = pow(2, k, p)
        keys[1 - choice] = constant * pow(keys[choice], -1, p) % p
        assert request[256 * i : 256 * (i + 1)] == keys[0].to_bytes(256, "big")
        for branch in range(2):
            element = pow(keys[branch], r, p).to_bytes(256, "big")
            head = b"tacit/naor-pinkas/v1" + len(CONTEXT).to_bytes(8, "big") + CONTEXT
            tail = (i + 5).to_bytes(8, "big") + bytes([branch]) + element
            stream = b"".join(hashlib.sha256(head + block.to_bytes(4, "big") + tail).digest() for block in range(2))
            assert both[i, branch].tobytes() == stream[:40]
        assert own[i].tobytes() == both[i, choice].tobytes()


def test_all_pads_are_different():
    # With equal secrets and choices, pads differ only by context, index, branch and block.
    seen = []
    for context in (b"", b"a", b"a\0", b"b"):
        for first in (0, 6):
            both, _, _ = pads("p256", np.zeros(3, np.bool_), 64, first=first, context=context)
            seen += [half.tobytes() for pad in both.reshape(-1, 64) for half in (pad[:32], pad[32:])]
    assert len(set(seen)) == len(seen) == 4 * 2 * 3 * 2 * 2


def test_pads_of_one_transfer_are_unrelated():
    both, _, _ = pads("p256", random_bits(1, 64), 32)
    differing = np.bitwise_count(both[:, 0] ^ both[:, 1]).sum()  # about half of 64 * 256 bits
    assert abs(int(differing) - 8192) < 5 * 64


def test_a_request_is_uniform_for_either_choice():
    group = find_group("modp-2048-short")
    ones = {}
    for choice in (False, True):
        _, _, (_, setup, kept, request) = pads("modp-2048-short", np.full(128, choice))
        elements = [group.decode(request[256 * i : 256 * (i + 1)]) for i in range(128)]
        constant = group.decode(setup[:256])
        # PK_0 = g^k, or C / g^k: one to one with g^k, so uniform when g^k is.
        for element, k in zip(elements, kept.exponents, strict=True):
            own = group.generator_power(k)
            assert (constant == group.multiply(element, own)) if choice else (element == own)
        assert len(set(elements)) == 128
        ones[choice] = int(np.bitwise_count(np.frombuffer(request, np.uint8).reshape(128, 256)[:, 1:]).sum())
    # 128 * 2,040 bits (without the top byte, which P bounds): half of them, up to five standard deviations of 256.
    assert all(abs(count - 130_560) < 1280 for count in ones.values())


@pytest.mark.parametrize("name", FAST)
def test_foreign_elements_are_refused_by_index(name):
    group, size = find_group(name), find_group(name).element_bytes
    both, _, (key, setup, kept, request) = pads(name, np.zeros(4, np.bool_))
    bad = b"\0" * size
    with pytest.raises(ValueError, match=rf"^request, element 12: not an element of {name}$"):
        ot.sender_pads(key, request[: 2 * size] + bad + request[3 * size :], 16, first=10)
    for setup_message, index in ((bad + setup[size:], 0), (setup[:size] + bad, 1)):
        with pytest.raises(ValueError, match=f"^set-up, element {index}: not an element"):
            ot.request(group, setup_message, kept)
        with pytest.raises(ValueError, match=f"^set-up, element {index}: not an element"):
            ot.receiver_pads(group, CONTEXT, setup_message, kept, 16)
    assert both.any()


def test_messages_of_wrong_sizes_are_refused():
    group = find_group("p256")
    both, own, (key, setup, kept, request) = pads("p256", np.zeros(2, np.bool_))
    with pytest.raises(ValueError, match="2 elements of p256 take 66 bytes, not 65"):
        ot.request(group, setup[:-1], kept)
    with pytest.raises(ValueError, match="elements of 33 bytes, not 65"):
        ot.sender_pads(key, request[:-1], 16)
    with pytest.raises(ValueError, match=r"2 transfers does not fit messages of shape \(3, 2, 16\)"):
        ot.send(key, request, random_bytes(1, 3, 2, 16))
    with pytest.raises(ValueError, match="takes 64 bytes, not 63"):
        ot.receive(kept.choices, own, bytes(63))
    with pytest.raises(ValueError, match="2 exponents do not fit"):
        ot.Request(np.zeros(3, np.bool_), kept.exponents)
    with pytest.raises(ValueError, match=r"size\(=0\)"):
        ot.sender_pads(key, request, 0)
    assert both.shape == (2, 2, 16)


def test_a_batch_may_be_served_in_parts():
    choices, messages = random_bits(1, 7), random_bytes(1, 7, 2, 5)
    _, own, (key, setup, kept, request) = pads("p256", choices, 5)
    reply = ot.send(key, request, messages)
    parts = [slice(0, 3), slice(3, 4), slice(4, 7)]
    group = find_group("p256")
    assert b"".join(ot.send(key, request[33 * p.start : 33 * p.stop], messages[p], p.start) for p in parts) == reply
    pieces = [ot.Request(choices[p], kept.exponents[p]) for p in parts]
    assert b"".join(ot.request(group, setup, piece) for piece in pieces) == request
    own_parts = [
        ot.receiver_pads(group, CONTEXT, setup, piece, 5, p.start) for piece, p in zip(pieces, parts, strict=True)
    ]
    assert (np.concatenate(own_parts) == own).all()


def test_transfers_depend_only_on_the_given_entropy():
    choices = random_bits(1, 4)
    first, again, other = (pads("p256", choices, seed=seed) for seed in (1, 1, 2))
    assert first[2][1] == again[2][1] and first[2][3] == again[2][3] and (first[0] == again[0]).all()
    assert first[2][1] != other[2][1] and first[2][3] != other[2][3] and (first[0] != other[0]).any()


def test_states_can_be_pickled_and_their_representations_have_no_secret():
    choices = random_bits(1, 4)
    both, own, (key, setup, kept, request) = pads("modp-2048-short", choices)
    key, kept = (pickle.loads(pickle.dumps(state)) for state in (key, kept))
    assert (ot.sender_pads(key, request, 16) == both).all()
    assert (ot.receiver_pads(key.group, CONTEXT, setup, kept, 16) == own).all()
    shown = repr(key) + repr(kept)
    assert str(key.exponent) not in shown and str(kept.exponents[0]) not in shown
    assert "rue" not in repr(kept) and "product" not in shown


def test_the_work_of_transfers_is_counted():
    group = find_group("p256")
    assert ot.send_work(group, 10, 33)["p256.pad-block"] == 40
    assert ot.request_work(group, 10)["p256.generator-power"] == 10
    assert ot.receiver_pads_work(group, 10, 16)["p256.table-power"] == 10
    assert ot.setup_work(group)["p256.random-element"] == 1
