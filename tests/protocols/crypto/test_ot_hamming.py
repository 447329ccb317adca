"""SecureHamming by oblivious transfer."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import iknp, ot_hamming, ot_pair
from tacit.protocols.crypto.fields import field_bytes, unpack_fields
from tacit.protocols.crypto.groups import find_group
from tacit.protocols.crypto.ot_hamming import (
    IknpReceiver,
    IknpSender,
    NaorPinkasReceiver,
    NaorPinkasSender,
    Pair,
    sums,
    unmask,
)
from tacit.protocols.xclp.hamming_iknp import payloads as iknp_hamming
from tacit.protocols.xclp.hamming_naor_pinkas import payloads as naor_pinkas_hamming
from tacit.sim.streams import Entropy, generator

P256 = find_group("p256")


def random_bits(seed, *shape):
    return generator(seed, "bits", *shape).integers(0, 2, shape, dtype=np.uint8)


def exact(b, x):
    """The distances (n_k, n_j), by comparison."""
    return (x[:, None, :] != b[None, :, :]).sum(axis=2)


def pair_of(b, x, context=b"context"):
    return Pair(len(b), len(x), b.shape[1], context)


def dealt(b, x, seed=1, context=b"context"):
    """Both parties of the iknp variant with dealt base transfers, which avoids public-key operations."""
    entropy, pair = Entropy.seeded(seed, "base"), pair_of(b, x, context)
    seeds = np.frombuffer(entropy.bytes(4096), np.uint8).reshape(128, 2, 16)
    s = np.unpackbits(np.frombuffer(entropy.bytes(16), np.uint8), bitorder="little")
    base = iknp.Sender(context, np.packbits(s, bitorder="little").tobytes(), seeds[np.arange(128), s].tobytes())
    j = IknpSender(pair, base, pair.bits_of(b, len(b)))
    return pair, j, IknpReceiver(pair, iknp.Receiver(context, seeds.tobytes()), pair.bits_of(x, len(x)))


def exchange(j, k, chunks):
    """The messages of the chunks, and the sums: extensions, corrections, R, T."""
    extensions, corrections, r, t = [], [], [], []
    for chunk in chunks:
        extensions.append(k.extend(chunk))
        d, part = j.correct(chunk, extensions[-1])
        corrections.append(d)
        r.append(part)
        t.append(k.finish(chunk, d))
    return extensions, corrections, sums(j.pair, r), sums(j.pair, t)


def contents(formula, n_j, n_k, *sizes):
    """The bytes of a pair's messages by `formula`, without the names, which have one letter each and are not sent
    here."""
    found = formula({"j": n_j, "k": n_k}, *sizes)
    return {kind: size - (kind in ("Masks", "MaskedDistances")) for kind, size in found.items()}


def by_iknp(b, x, seed=1):
    pair, j, k = dealt(b, x, seed)
    extensions, corrections, r, t = exchange(j, k, pair.iknp_chunks())
    return unmask(t, r, len(b), len(x), b.shape[1]), (b"".join(extensions), b"".join(corrections), r, t)


def naor_pinkas_parties(b, x, group=P256, entropy=None):
    entropy, pair = entropy or Entropy.seeded(1, "pair"), pair_of(b, x)
    j, setup = NaorPinkasSender.start(pair, group, b, entropy.child("j"))
    return pair, j, NaorPinkasReceiver.start(pair, group, x, setup, entropy.child("k")), setup


def by_naor_pinkas(b, x, group=P256, entropy=None, chunks=None):
    pair, j, k, setup = naor_pinkas_parties(b, x, group, entropy)
    requests, replies, r, t = [], [], [], []
    for chunk in chunks or pair.naor_pinkas_chunks():
        requests.append(k.request(chunk))
        reply, part = j.reply(chunk, requests[-1])
        replies.append(reply)
        r.append(part)
        t.append(k.finish(chunk, reply))
    travelled = setup, b"".join(requests), b"".join(replies), sums(pair, r), sums(pair, t)
    return unmask(travelled[4], travelled[3], len(b), len(x), b.shape[1]), travelled


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 8), st.integers(1, 140), st.integers(0, 2**32))
def test_distances_by_iknp_equal_numpy(n_j, n_k, length, seed):
    b, x = random_bits(seed, n_j, length), random_bits(seed + 1, n_k, length)
    distances, travelled = by_iknp(b, x)
    assert (distances == exact(b, x)).all() and distances.shape == (n_k, n_j)
    expected = contents(iknp_hamming, n_j, n_k, length, 33)
    names = ("Extension", "Corrections", "Masks", "MaskedDistances")
    assert [len(data) for data in travelled] == [expected[name] for name in names]
    width = length.bit_length()
    assert expected["Extension"] == 16 * n_k * length
    assert expected["Corrections"] == -(-n_k * length * n_j * width // 8)
    assert expected["Masks"] == -(-n_j * n_k * width // 8)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 20), st.integers(0, 2**32))
def test_distances_by_naor_pinkas_equal_numpy(n_j, n_k, length, seed):
    b, x = random_bits(seed, n_j, length), random_bits(seed + 1, n_k, length)
    distances, travelled = by_naor_pinkas(b, x)
    assert (distances == exact(b, x)).all() and distances.shape == (n_k, n_j)
    expected = contents(naor_pinkas_hamming, n_j, n_k, length, 33)
    assert [len(data) for data in travelled] == list(expected.values())
    assert expected["TransferRequest"] == 33 * n_j * n_k * length


@pytest.mark.parametrize("length", [8, 15, 16, 31, 32, 63, 127, 128, 130, 255, 256])
@pytest.mark.parametrize("n_j", [1, 9])
def test_distances_of_0_and_of_the_whole_length_are_exact_by_iknp(n_j, length):
    zeros, ones = np.zeros((n_j, length), np.uint8), np.ones((n_j, length), np.uint8)
    x = np.stack([zeros[0], ones[0]])
    assert (by_iknp(zeros, x)[0] == [[0] * n_j, [length] * n_j]).all()
    assert (by_iknp(ones, x)[0] == [[length] * n_j, [0] * n_j]).all()


@pytest.mark.parametrize("length", [7, 8, 130, 256])
def test_distances_of_0_and_of_the_whole_length_are_exact_by_naor_pinkas(length):
    b, x = np.zeros((1, length), np.uint8), np.ones((1, length), np.uint8)
    assert by_naor_pinkas(b, b)[0].tolist() == [[0]]
    assert by_naor_pinkas(b, x)[0].tolist() == [[length]]


@pytest.mark.parametrize(("n_j", "n_k", "length"), [(60, 5, 1024), (1, 1, 65535), (2, 1, 65536), (3, 2, 70_001)])
def test_distances_of_long_vectors_are_exact(n_j, n_k, length):
    b, x = random_bits(1, n_j, length), random_bits(2, n_k, length)
    b[0] = 1 - x[0]
    distances, _ = by_iknp(b, x)
    assert (distances == exact(b, x)).all()
    assert distances[0, 0] == length


@pytest.mark.parametrize("name", ["modp-2048", "modp-2048-short"])
def test_distances_are_exact_in_groups_modulo_a_prime(name):
    b, x = random_bits(1, 2, 9), random_bits(2, 2, 9)
    distances, travelled = by_naor_pinkas(b, x, find_group(name))
    assert (distances == exact(b, x)).all()
    assert [len(data) for data in travelled] == list(contents(naor_pinkas_hamming, 2, 2, 9, 256).values())


def test_distances_are_exact_with_real_base_transfers():
    b, x = random_bits(1, 5, 20), random_bits(2, 3, 20)
    pair, entropy = pair_of(b, x), Entropy.system()
    kept, setup = IknpReceiver.setup(pair, P256, entropy)
    j, request = IknpSender.start(pair, P256, b, setup, entropy)
    k = IknpReceiver.start(pair, pickle.loads(pickle.dumps(kept)), x, request)
    j, k = (pickle.loads(pickle.dumps(party)) for party in (j, k))
    extensions, corrections, r, t = exchange(j, k, pair.iknp_chunks())
    assert (unmask(t, r, 5, 3, 20) == exact(b, x)).all()
    messages = (setup, request, b"".join(extensions), b"".join(corrections), r, t)
    assert [len(data) for data in messages] == list(contents(iknp_hamming, 5, 3, 20, 33).values())


def test_system_entropy_needs_no_memory_between_messages():
    b, x = random_bits(1, 2, 5), random_bits(2, 2, 5)
    assert (by_naor_pinkas(b, x, entropy=Entropy.system())[0] == exact(b, x)).all()


def plain_lanes(j, o, n_j, lane):
    """The pads K0 and K1 of transfer o, from the hash only."""
    batch = j.base.accept(o, bytes(16))  # with u = 0 the row is that of G(k_s)
    pads = batch.hash.both(iknp.CORRELATED, batch.rows[:1], batch.choices, o, n_j * lane.itemsize)
    return pads.view(lane)[:, 0]


@pytest.mark.parametrize(("length", "n_j"), [(5, 3), (21, 4), (130, 2)])
def test_corrections_equal_plain_python(length, n_j):
    b, x = random_bits(1, n_j, length), np.zeros((2, length), np.uint8)
    pair, j, k = dealt(b, x)
    m, width, lane = pair.modulus, pair.width, pair.lane
    lanes = 8 * lane.itemsize
    # With u = 0 instead of the extension, rows are known without k.
    corrections, r = j.correct(range(2), bytes(32 * length))
    pads = [plain_lanes(j, o, n_j, lane).astype(int) for o in range(2 * length)]
    expected = np.empty((2, length, n_j), int)
    r_by_hand = np.zeros((2, n_j), int)
    for vector, bit, i in np.ndindex(2, length, n_j):
        zero, one = (int(pads[vector * length + bit][branch][i]) for branch in range(2))
        expected[vector, bit, i] = (zero - one + 1 - 2 * int(b[i, bit])) % m
        r_by_hand[vector, i] += zero - int(b[i, bit])
    groups = length // lanes
    words = np.frombuffer(corrections, lane, 2 * groups * width * n_j).reshape(2, groups, width, n_j)
    for vector, group, i in np.ndindex(2, groups, n_j):
        number = int.from_bytes(words[vector, group, :, i].tobytes(), "little")
        fields = [number >> (width * bit) & (m - 1) for bit in range(lanes)]
        assert fields == expected[vector, group * lanes : (group + 1) * lanes, i].tolist()
    left = unpack_fields(corrections[words.nbytes :], width, 2 * (length - groups * lanes) * n_j)
    assert left.tolist() == expected[:, groups * lanes :].reshape(-1).tolist()
    assert r.tolist() == (r_by_hand % m).tolist()
    assert k.pair is pair


@pytest.mark.parametrize("length", [40, 41, 130])
def test_computing_in_slices_changes_no_byte(monkeypatch, length):
    b, x = random_bits(1, 5, length), random_bits(2, 4, length)
    whole = by_iknp(b, x)
    for slice_bytes in (1, 16 * 40, 16 * 100, 16 * 260):
        monkeypatch.setattr(ot_hamming, "_SLICE", slice_bytes)
        distances, travelled = by_iknp(b, x)
        assert (distances == whole[0]).all() and travelled == whole[1]


def test_computing_in_chunks_changes_no_distance(monkeypatch):
    # 24 bits are whole groups, so corrections of chunks can be concatenated.
    b, x = random_bits(1, 3, 24), random_bits(2, 7, 24)
    whole = by_iknp(b, x)[1]
    for size in (1, 2, 3):
        monkeypatch.setattr(ot_pair, "_CHUNK", (0, 24 * 3 * 5 // 8 * size))
        for block in (1, 24 * 2, 24 * 6):
            monkeypatch.setattr(ot_pair, "_TRANSFERS", block)
            assert len(pair_of(b, x).iknp_chunks()) == -(-7 // size)
            assert by_iknp(b, x)[1] == whole
    monkeypatch.undo()
    whole_sums = by_naor_pinkas(b[:1], x[:4])[1]
    for chunks in ([range(4)], [range(1), range(1, 4)], [range(i, i + 1) for i in range(4)]):
        assert by_naor_pinkas(b[:1], x[:4], chunks=chunks)[1] == whole_sums


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(1, 200), st.integers(1, 5000), st.integers(2, 60))
def test_chunks_bound_the_bytes_in_flight(n_j, n_k, length, clients):
    pair = Pair(n_j, n_k, length, b"", clients)
    chunks, blocks, others = pair.iknp_chunks(), pair.iknp_blocks(), pair.naor_pinkas_chunks()
    for parts in (chunks, blocks, others):
        assert [x for part in parts for x in part] == list(range(n_k))
    assert [chunk for block in blocks for chunk in pair.chunks_of(block)] == chunks
    longest = max(map(len, chunks))
    pairs = clients * (clients - 1) // 2
    assert all(len(block) <= longest or len(block) * length <= 1 << 14 for block in blocks)
    assert all(len(block) <= longest or 48 * len(block) * length * pairs <= 96 << 20 for block in blocks)
    assert all(len(chunk) == 1 or len(chunk) * length * n_j <= 4096 for chunk in others)
    size, window = pair.correction_bytes(range(longest)), pair.iknp_window
    assert 1 <= window <= 4 and (longest == 1 or size <= 1 << 19)
    under_way = pairs * window * size
    assert under_way <= 96 << 20 or (window == 1 and (longest == 1 or size <= 1 << 14))


def test_more_clients_make_smaller_chunks():
    few, many = (Pair(100, 1000, 1024, b"", clients) for clients in (2, 30))
    assert few.iknp_window == 4 and many.iknp_window == 1 < len(few.iknp_chunks()) < len(many.iknp_chunks())
    assert max(map(len, few.iknp_blocks())) == 15 > max(map(len, many.iknp_blocks()))
    with pytest.raises(ValueError, match=r"clients\(=1\)"):
        Pair(1, 1, 8, b"", 1)


@pytest.mark.parametrize("clients", [2, 20])
def test_rows_expanded_by_block_equal_rows_expanded_by_chunk(clients):
    b, x = random_bits(1, 100, 600), random_bits(2, 80, 600)
    _, j, k = dealt(b, x)
    pair = Pair(100, 80, 600, b"context", clients)
    j, k = IknpSender(pair, j.base, np.asfortranarray(j.bits)), IknpReceiver(pair, k.base, k.bits)
    blocks = pair.iknp_blocks()
    assert len(blocks) > 1 and len(pair.iknp_chunks()) > len(blocks) / 2
    for block in blocks:
        (u, t), q = k.expand(block), j.expand(block)
        for chunk in pair.chunks_of(block):
            own = slice(chunk.start - block.start, chunk.stop - block.start)
            assert u[own].tobytes() == k.extend(chunk)
            corrections, r = j.correct(chunk, u[own].tobytes(), q[own])
            again, r_again = j.correct(chunk, k.extend(chunk))
            assert corrections == again and (r == r_again).all()
            part = k.finish(chunk, corrections, t[own])
            assert (part == k.finish(chunk, corrections)).all()
            assert ((part - r) % pair.modulus == exact(b, x[chunk.start : chunk.stop])).all()
    with pytest.raises(ValueError, match="an extension of 600 rows does not fit 1200 transfers"):
        j.correct(range(1), k.extend(range(1)), j.expand(range(2)))


def test_doing_a_chunk_again_gives_the_same_bytes():
    b, x = random_bits(1, 3, 9), random_bits(2, 4, 9)
    _, j, k = dealt(b, x)
    chunk = range(1, 3)
    extension = k.extend(chunk)
    assert extension == k.extend(chunk)
    (corrections, r), (again, r_again) = j.correct(chunk, extension), j.correct(chunk, extension)
    assert corrections == again and (r == r_again).all()
    assert (k.finish(chunk, corrections) == k.finish(chunk, corrections)).all()


def test_no_pad_is_used_twice():
    # With equal vectors, any pad or r used twice would show as equal corrections or sums.
    b, x = np.ones((64, 96), np.uint8), np.ones((20, 96), np.uint8)
    seen = []
    for context in (b"round 1", b"round 2", b"round 1, attempt 2"):
        pair, j, k = dealt(b, x, context=context)
        for chunk in (range(10), range(10, 20)):
            corrections, r = j.correct(chunk, k.extend(chunk))
            assert len(set(r.reshape(-1).tolist())) > 120  # 640 sums mod 128
            step = field_bytes(pair.n_j * 8, pair.width)  # the corrections of one group of 8 bits, 448 bytes
            seen += [corrections[i : i + step] for i in range(0, len(corrections), step)]
    assert len(set(seen)) == len(seen) == 3 * 20 * 12
    _, one = by_naor_pinkas(np.ones((2, 8), np.uint8), np.ones((4, 8), np.uint8))
    replies = [one[2][i : i + 2] for i in range(0, len(one[2]), 2)]
    assert len(set(one[1][i : i + 33] for i in range(0, len(one[1]), 33))) == len(replies) == 64


def test_one_of_the_two_masked_sums_alone_is_uniform():
    b, x = np.zeros((40, 24), np.uint8), np.zeros((40, 24), np.uint8)
    for _, travelled in (by_iknp(b, x), by_naor_pinkas(b[:6], x[:6])):
        for data in travelled[-2:]:
            count = len(data) * 8 // 5
            values = unpack_fields(data[: field_bytes(count, 5)], 5, count)
            assert len(set(values.tolist())) > 16
            assert abs(values.mean() - 15.5) < 5 * 9.2 / np.sqrt(count)


def test_the_same_entropy_gives_the_same_bytes():
    b, x = random_bits(1, 3, 8), random_bits(2, 2, 8)
    assert by_iknp(b, x)[1] == by_iknp(b, x)[1]
    assert by_naor_pinkas(b, x)[1] == by_naor_pinkas(b, x)[1]
    others = by_iknp(b, x, seed=2), by_naor_pinkas(b, x, entropy=Entropy.seeded(2))
    for other, mine in zip(others, (by_iknp(b, x), by_naor_pinkas(b, x)), strict=True):
        assert all(left != right for left, right in zip(other[1], mine[1], strict=True))
        assert (other[0] == mine[0]).all()


def test_bool_and_integer_bits_give_the_same_messages():
    b, x = random_bits(1, 3, 8), random_bits(2, 2, 8)
    assert by_iknp(b, x)[1] == by_iknp(b.astype(bool), x.astype(np.int64))[1]


def test_a_pair_refuses_wrong_shapes_values_and_ranges():
    pair = Pair(2, 3, 8, b"")
    with pytest.raises(ValueError, match=r"n_k\(=0\)"):
        Pair(1, 0, 8, b"")
    with pytest.raises(ValueError, match=r"shape \(2, 8\) are needed, not \(2, 7\)"):
        pair.bits_of(np.zeros((2, 7), np.uint8), 2)
    for bits in (np.full((2, 8), 2), np.zeros((2, 8))):
        with pytest.raises(ValueError, match="bits must be 0 or 1"):
            pair.bits_of(bits, 2)
    b, x = random_bits(1, 2, 8), random_bits(2, 3, 8)
    _, j, k = dealt(b, x)
    for chunk in (range(0), range(2, 4), range(-1, 2), range(0, 3, 2)):
        for action in (k.extend, lambda c: j.correct(c, b""), lambda c: k.finish(c, b"")):
            with pytest.raises(ValueError, match="is no range of vectors 0 to 2"):
                action(chunk)
    with pytest.raises(ValueError, match="an extension of 15 rows does not fit 16 transfers"):
        j.correct(range(2), bytes(16 * 15))
    with pytest.raises(ValueError, match="corrections of 2 vectors take 16 bytes, not 15"):
        k.finish(range(2), bytes(15))
    _, j, k, setup = naor_pinkas_parties(b, x)
    with pytest.raises(ValueError, match="a request for 15 transfers does not fit"):
        j.reply(range(1), k.request(range(1))[33:])
    with pytest.raises(ValueError, match=r"^request, element 18: not an element of p256"):
        j.reply(range(1, 2), setup + bytes(33) + setup[:33] * 13)
    with pytest.raises(ValueError, match="a reply to 16 requests takes 32 bytes"):
        k.finish(range(1), bytes(31))
    with pytest.raises(ValueError, match=r"sums of shape \(3, 2\) are needed, not \(2, 2\)"):
        sums(pair, [np.zeros((2, 2), np.uint8)])


def test_sums_of_different_exchanges_are_refused():
    b, x = random_bits(1, 3, 8), random_bits(2, 4, 8)
    r, t = by_iknp(b, x)[1][2:]
    with pytest.raises(ValueError, match="exceeds 8: the two do not belong together"):
        unmask(t, by_iknp(b, x, seed=2)[1][2], 3, 4, 8)
    with pytest.raises(ValueError, match="take 6 bytes, not 5"):
        unmask(t[:-1], r, 3, 4, 8)


def test_representations_of_states_have_no_secret():
    b, x = random_bits(1, 2, 8), random_bits(2, 3, 8)
    _, j, k = dealt(b, x)
    _, m, n, _ = naor_pinkas_parties(b, x)
    shown = " ".join(map(repr, (j, k, m, n)))
    assert "array" not in shown and "rue" not in shown and "entropy" not in shown
    assert str(m.key.exponent) not in shown


@pytest.mark.parametrize(("n_j", "n_k", "length"), [(500, 200, 1024), (3, 50, 13)])
def test_the_work_of_distances_is_counted(n_j, n_k, length):
    pair = Pair(n_j, n_k, length, b"")
    chunks = pair.iknp_chunks()
    for work, name in ((ot_hamming.correct_work, "correct"), (ot_hamming.finish_work, "finish")):
        counted = [work(pair, chunk) for chunk in chunks]
        assert sum(each[f"iknp.{name}-row"] for each in counted) == n_k * length
        assert sum(each[f"iknp.{name}-byte"] for each in counted) == n_k * length * pair.blocks * 16
    for work, sets in ((ot_hamming.extend_work, 1), (ot_hamming.expand_work, 0.5)):
        counted = [work(pair, block) for block in pair.iknp_blocks()]
        assert sum(each["iknp.extend-row"] for each in counted) == sets * n_k * length
    assert ot_hamming.correct_work(pair, chunks[0])["fields.pack"] == len(chunks[0]) * (length % 8) * n_j
    for work, operation in (
        (ot_hamming.request_work, "generator-power"),
        (ot_hamming.reply_work, "power"),
        (ot_hamming.receive_work, "table-power"),
    ):
        assert work(pair, P256, range(1))[f"p256.{operation}"] == n_j * length
    assert ot_hamming.sums_work(pair) == {"fields.pack": n_j * n_k}
    assert ot_hamming.unmask_work(pair) == {"fields.unpack": 2 * n_j * n_k}
