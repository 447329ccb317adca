"""OT extension."""

import hashlib
import itertools
import pickle

import numpy as np
import pytest
from Crypto.Cipher import AES
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import columns, iknp
from tacit.protocols.crypto.compiled import in_numpy
from tacit.protocols.crypto.fields import lane_type
from tacit.protocols.crypto.groups import find_group
from tacit.protocols.crypto.iknp import Receiver, ReceiverStream, Sender, SenderStream
from tacit.protocols.crypto.transfers import transfers
from tacit.sim.streams import Entropy, generator

CONTEXT = b"a pair in a round"


@pytest.fixture(scope="module", autouse=True, params=["compiled", "numpy"])
def way(request):
    """The ways to compute: by the processor's AES instructions, and by numpy."""
    if request.param == "compiled":
        if transfers() is None:
            pytest.skip("not compiled, or another processor")
        yield
    else:
        with in_numpy():
            yield


def random_bits(seed, count):
    return generator(seed, "bits").integers(0, 2, count).astype(np.bool_)


def base(seed=1, context=CONTEXT):
    """Both ends of dealt base transfers, with s and the seeds."""
    entropy = Entropy.seeded(seed, "base")
    seeds = np.frombuffer(entropy.bytes(128 * 2 * 16), np.uint8).reshape(128, 2, 16)
    s = np.unpackbits(np.frombuffer(entropy.bytes(16), np.uint8), bitorder="little")
    own = seeds[np.arange(128), s]
    choices = np.packbits(s, bitorder="little").tobytes()
    return Receiver(context, seeds.tobytes()), Sender(context, choices, own.tobytes()), s, seeds


def batches(choices, first=0, seed=1, context=CONTEXT):
    receiver, sender, _, _ = base(seed, context)
    message, batch = receiver.extend(first, choices)
    return sender.accept(first, message), batch, message


def bits_of(words):
    """Rows of 64-bit words as rows of bits, lowest first."""
    data = np.ascontiguousarray(words).view(np.uint8)
    return np.unpackbits(data, axis=1, bitorder="little")


def test_base_transfers_by_public_key_give_the_chosen_seeds():
    group, entropy = find_group("p256"), Entropy.seeded(1)
    kept, setup = iknp.base_setup(group, CONTEXT, entropy.child("k"))
    sender, request = iknp.base_request(group, CONTEXT, setup, entropy.child("j"))
    kept, sender = (pickle.loads(pickle.dumps(state)) for state in (kept, sender))
    receiver = iknp.base_seeds(kept, CONTEXT, request)
    assert (len(setup), len(request)) == (2 * 33, 128 * 33)
    choices = random_bits(1, 300)
    message, batch = receiver.extend(0, choices)
    messages = sender.accept(0, message).random(16)
    assert (batch.random(16) == messages[choices.astype(int), np.arange(300)]).all()
    with pytest.raises(ValueError, match="128 base transfers are needed, not 127"):
        iknp.base_seeds(kept, CONTEXT, request[33:])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 700), st.one_of(st.integers(0, 1000), st.integers(0, 2**40)), st.integers(1, 40), st.integers())
def test_the_receiver_gets_the_message_it_chose(count, first, size, seed):
    choices = random_bits(seed % 2**32, count)
    sender, receiver, message = batches(choices, first)
    assert len(message) == 16 * count
    picked = choices.astype(int), np.arange(count)
    messages = sender.random(size)
    assert messages.shape == (2, count, size)
    assert (receiver.random(size) == messages[picked]).all()
    offered = generator(seed % 2**32, "messages").integers(0, 256, (count, 2, size)).astype(np.uint8)
    reply = sender.mask(offered)
    assert len(reply) == 2 * count * size
    assert (receiver.chosen(reply, size) == offered[picked[::-1]]).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 32), st.integers(0, 40), st.integers(1, 40), st.integers(0, 2**32))
def test_correlated_transfers_differ_by_the_chosen_correlation(width, count, columns_, seed):
    choices, lane = random_bits(seed, count), lane_type(width)
    sender, receiver, _ = batches(choices)
    delta = generator(seed, "delta").integers(0, 2**width, (count, columns_), dtype=np.uint64).astype(lane)
    r, corrections = sender.correlated(delta, width)
    t = receiver.correlated(corrections, width)
    expected = (r.astype(object) + choices[:, None] * delta.astype(object)) % 2**width
    assert (t.astype(object) == expected).all()
    assert all(array.shape == (count, columns_) and array.dtype == lane for array in (r, corrections, t))
    assert all(int(array.max(initial=0)) < 2**width for array in (r, corrections, t))


def plain_key(purpose, *parts):
    state = hashlib.sha256(b"tacit/iknp/v1")
    for part in (purpose, CONTEXT, *parts):
        state.update(len(part).to_bytes(8, "big") + part)
    return state.digest()[:16]


def plain_bit(column, seed, number):
    """Bit `number` of G(seed)."""
    block = (number // 128).to_bytes(16, "little")
    stream = AES.new(plain_key(b"column", column.to_bytes(2, "big"), seed), AES.MODE_ECB).encrypt(block)
    return stream[number % 128 // 8] >> number % 8 & 1


def plain_pad(use, index, row, blocks):
    """The hash H of a row of bits."""
    pi = AES.new(plain_key(b"hash"), AES.MODE_ECB)
    inner = int.from_bytes(pi.encrypt(np.packbits(row, bitorder="little").tobytes()), "little")
    pad = b""
    for block in range(blocks):
        z = inner ^ index ^ (block + (use << 32) << 64)
        pad += (int.from_bytes(pi.encrypt(z.to_bytes(16, "little")), "little") ^ z).to_bytes(16, "little")
    return pad


def test_extended_transfers_equal_plain_python():
    first, choices = 126, random_bits(5, 4)  # across the border of two AES blocks
    _, _, s, seeds = base()
    sender, receiver, message = batches(choices, first)
    u = bits_of(np.frombuffer(message, "<u8").reshape(4, 2))
    both, own = sender.random(40), receiver.random(40)
    lanes = sender.hash.pads(iknp.CORRELATED, sender.rows, first, 40).view("<u2")
    for i, x in enumerate(choices.astype(int)):
        one, zero = (
            np.array([plain_bit(c, seeds[c, b].tobytes(), first + i) for c in range(128)]).astype(np.uint8)
            for b in (1, 0)
        )
        assert (u[i] == zero ^ one ^ x).all()
        t, q = zero, zero ^ (x & s)
        assert (bits_of(receiver.rows)[i] == t).all() and (bits_of(sender.rows)[i] == q).all()
        assert own[i].tobytes() == plain_pad(0, first + i, t, 3)[:40]
        assert both[0, i].tobytes() == plain_pad(0, first + i, q, 3)[:40]
        assert both[1, i].tobytes() == plain_pad(0, first + i, q ^ s, 3)[:40]
        assert lanes[i].tobytes() == plain_pad(2, first + i, q, 3)[:40]


@pytest.mark.parametrize("tiles", [2, 6, 128])
def test_matrices_of_bits_are_transposed(tiles):
    matrix = generator(1, "matrix").integers(0, 2**64, (128, tiles), dtype=np.uint64)
    rows = np.empty((64 * tiles, 2), np.uint64)
    columns.transpose(matrix, rows)
    assert (bits_of(rows) == bits_of(matrix).T).all()


def test_chunks_give_the_same_bytes(monkeypatch):
    choices = random_bits(1, 1000)
    sender, receiver, message = batches(choices)
    both, own = sender.random(20), receiver.random(20)
    for module, name, value in ((columns, "SPAN", 256), (columns, "_TRANSPOSED", 2), (iknp, "_PADS", 64)):
        monkeypatch.setattr(module, name, value)
    parts = (0, 1, 128, 300, 999, 1000)
    for start, stop in itertools.pairwise(parts):
        part_sender, part_receiver, part_message = batches(choices[start:stop], start)
        assert part_message == message[16 * start : 16 * stop]
        assert (part_sender.random(20) == both[:, start:stop]).all()
        assert (part_receiver.random(20) == own[start:stop]).all()


def test_each_stream_counts_its_own_transfers():
    receiver, sender, _, _ = base()
    receiving, sending = ReceiverStream(receiver), SenderStream(sender)
    choices = random_bits(1, 50)
    whole = receiver.extend(0, choices)[0]
    seen = b""
    for start, stop in ((0, 20), (20, 50)):
        message, batch = receiving.extend(choices[start:stop])
        accepted = sending.accept(message)
        assert (batch.first, accepted.first) == (start, start)
        picked = choices[start:stop].astype(int), np.arange(stop - start)
        assert (batch.random(16) == accepted.random(16)[picked]).all()
        seen += message
    assert receiving.position == sending.position == 50
    assert seen == whole
    assert ReceiverStream(receiver, 20).extend(choices[20:])[0] == whole[320:]


def test_the_batch_of_an_extension_can_be_computed_again():
    receiver, sender, _, _ = base()
    choices = random_bits(1, 200)
    message, batch = receiver.extend(70, choices)
    again = pickle.loads(pickle.dumps(receiver)).batch(70, choices)
    assert (again.rows == batch.rows).all() and (again.random(16) == batch.random(16)).all()
    accepted = pickle.loads(pickle.dumps(sender)).accept(70, message)
    assert (accepted.rows == sender.accept(70, message).rows).all()


def test_no_pad_is_used_twice():
    # Pads of the same row differ only by index, block, use and context.
    row = np.full((3, 2), 7, "<u8")
    seen = []
    for context in (b"round 1", b"round 2", b"round 1, attempt 2"):
        pads = iknp.PadHash(context)
        for first in (0, 3, 2**40):
            for use in range(3):
                seen += [block.tobytes() for block in pads.pads(use, row, first, 64).reshape(-1, 16)]
    assert len(set(seen)) == len(seen) == 3 * 3 * 3 * 3 * 4


def test_contexts_share_neither_columns_nor_pads():
    choices = random_bits(1, 64)
    receiver, sender, _, _ = base()
    other_receiver, other_sender = receiver.under(b"attempt 2"), sender.under(b"attempt 2")
    message, batch = receiver.extend(0, choices)
    other_message, other_batch = other_receiver.extend(0, choices)
    assert not set(batch.rows.reshape(-1).tolist()) & set(other_batch.rows.reshape(-1).tolist())
    assert not set(np.frombuffer(message, "<u8").tolist()) & set(np.frombuffer(other_message, "<u8").tolist())
    messages = other_sender.accept(0, other_message).random(16)
    assert (other_batch.random(16) == messages[choices.astype(int), np.arange(64)]).all()
    assert not {pad.tobytes() for pad in messages.reshape(-1, 16)} & {pad.tobytes() for pad in batch.random(16)}


def test_the_pads_of_a_transfer_are_unrelated():
    sender, receiver, _ = batches(random_bits(1, 256))
    zero, one = sender.random(16)
    differing = int(np.bitwise_count(zero ^ one).sum())  # about half of 256 * 128 bits
    assert abs(differing - 16384) < 5 * 91
    assert len({pad.tobytes() for pad in np.concatenate([zero, one])}) == 512
    # A width that cuts lanes must not repeat them either.
    lanes = sender.hash.both(iknp.CORRELATED, sender.rows, sender.choices, 0, 64).reshape(2, 256, 8, 8)
    assert len({block.tobytes() for block in lanes.reshape(-1, 8)}) == 2 * 256 * 8
    assert receiver.rows.shape == (256, 2)


def test_the_extension_hides_the_choices():
    # u = t ^ G(k_1) ^ x: other choices flip whole rows, and rows are uniform.
    choices = random_bits(1, 512)
    message, other = (np.frombuffer(batches(bits)[2], "<u8").reshape(512, 2) for bits in (choices, ~choices))
    assert (message ^ other == 2**64 - 1).all()
    for rows in (message[choices], message[~choices]):
        ones = int(np.bitwise_count(rows).sum())
        assert abs(ones - 64 * rows.shape[0]) < 5 * np.sqrt(32 * rows.shape[0])


def test_messages_and_seeds_of_wrong_sizes_are_refused(monkeypatch):
    receiver, sender, _, _ = base()
    with pytest.raises(ValueError, match="rows of 16 bytes, not 17"):
        sender.accept(0, bytes(17))
    with pytest.raises(ValueError, match="128 pairs of seeds take 4096 bytes, not 16"):
        Receiver(CONTEXT, bytes(16))
    with pytest.raises(ValueError, match="take 16 and 2048 bytes, not 15 and 2048"):
        Sender(CONTEXT, bytes(15), bytes(2048))
    with pytest.raises(ValueError, match="128 seeds are needed, not 2"):
        columns.Columns(CONTEXT, [bytes(16)] * 2)
    with pytest.raises(ValueError, match="1 rows from -1 on"):
        receiver.extend(-1, np.zeros(1, np.bool_))
    monkeypatch.setattr(columns, "MOST", 100)
    with pytest.raises(ValueError, match="101 rows from 0 on; 0 to 100 in one call"):
        receiver.extend(0, np.zeros(101, np.bool_))
    batch = receiver.extend(0, np.zeros(3, np.bool_))[1]
    with pytest.raises(ValueError, match="takes 96 bytes, not 95"):
        batch.chosen(bytes(95), 16)


def test_transfers_depend_only_on_the_given_entropy():
    group = find_group("p256")

    def messages(seed):
        entropy = Entropy.seeded(seed)
        kept, setup = iknp.base_setup(group, CONTEXT, entropy.child("k"))
        _, request = iknp.base_request(group, CONTEXT, setup, entropy.child("j"))
        return setup, request, iknp.base_seeds(kept, CONTEXT, request).extend(0, random_bits(1, 9))[0]

    assert messages(1) == messages(1)
    assert all(mine != other for mine, other in zip(messages(1), messages(2), strict=True))


def test_representations_of_transfers_have_no_secret():
    receiver, sender, s, _ = base()
    message, batch = receiver.extend(0, random_bits(1, 3))
    accepted = sender.accept(0, message)
    shown = " ".join(map(repr, (receiver, sender, batch, accepted, accepted.hash)))
    assert str(int(accepted.choices[0])) not in shown and "rue" not in shown
    assert "rows" not in shown and "array" not in shown
    assert s.any()


def test_the_work_of_base_transfers_is_counted():
    group = find_group("p256")
    request, seeds = iknp.base_request_work(group), iknp.base_seeds_work(group)
    assert request["p256.generator-power"] == 128 and request["p256.encode"] == 256
    assert seeds["p256.power"] == 128
    assert iknp.base_setup_work(group)["p256.power"] == 1
