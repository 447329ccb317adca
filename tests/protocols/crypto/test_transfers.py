"""OT extension by the compiled file and by numpy: the same bytes, for any sizes, places in memory and positions."""

import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import columns, compiled, iknp
from tacit.protocols.crypto import transfers as module
from tacit.protocols.crypto.compiled import in_numpy
from tacit.protocols.crypto.ot_hamming import IknpReceiver, IknpSender, Pair
from tacit.protocols.crypto.transfers import Library, transfers
from tacit.sim.streams import Entropy, generator

SOURCE = Path(module.__file__).with_name("transfers.c")

COUNTS = st.sampled_from([0, 1, 7, 8, 9, 127, 128, 129, 1023, 1024, 1025, 1151, 1153]) | st.integers(0, 2500)
FIRSTS = st.sampled_from([0, 1, 127, 128, 129, 1000, 2**40 + 5, 2**63 - 2501]) | st.integers(0, 3000)
SIZES = st.sampled_from([1, 15, 16, 17, 31, 32, 33]) | st.integers(1, 70)


@pytest.fixture
def library() -> Library:
    found = transfers()
    if found is None:
        pytest.skip("not compiled, or another processor")
    return found


def base() -> tuple[iknp.Receiver, iknp.Sender]:
    entropy = Entropy.seeded(1, "base")
    seeds = np.frombuffer(entropy.bytes(128 * 2 * 16), np.uint8).reshape(128, 2, 16)
    s = generator(1, "choices").integers(0, 2, 128, dtype=np.uint8)
    own = seeds[np.arange(128), s]
    return (
        iknp.Receiver(b"pair", seeds.tobytes()),
        iknp.Sender(b"pair", np.packbits(s, bitorder="little").tobytes(), own.tobytes()),
    )


RECEIVER, SENDER = base()


def unaligned(array: np.ndarray, by: int) -> np.ndarray:
    """A copy of the array `by` bytes after a place that suits it."""
    memory = np.zeros(array.nbytes + by, np.uint8)
    copy = memory[by:].view() if array.dtype == np.uint8 else np.ndarray(array.shape, array.dtype, memory, by)
    if array.dtype == np.uint8:
        copy = copy.reshape(array.shape)
    copy[...] = array
    return copy


def exchange(first: int, count: int, size: int, seed: int, by: int) -> list[bytes]:
    """All that both parties compute and send for transfers of all kinds, with inputs `by` bytes off."""
    random = generator(seed, "exchange", count)
    choices = unaligned(random.integers(0, 2, count).astype(np.bool_), by)
    messages = unaligned(random.integers(0, 256, (count, 2, size), dtype=np.uint8), by)
    delta = random.integers(0, 2**20, (count, 3), dtype=np.uint32)
    u, received = RECEIVER.extend(first, choices)
    sent = SENDER.accept(first, u)
    again = SENDER.accept(first, u, unaligned(SENDER.rows(first, count), by))
    reply = sent.mask(messages)
    other = sent.mask(messages[::-1, ::-1])  # which lies backwards in memory
    r, corrections = sent.correlated(delta, 20)
    chosen = received.chosen(reply, size)
    picked = choices.astype(int), np.arange(count)
    assert (sent.random(size)[picked] == received.random(size)).all()
    assert (chosen == messages[picked[::-1]]).all()
    assert (again.rows == sent.rows).all() and (RECEIVER.batch(first, choices).rows == received.rows).all()
    found = (received.rows, sent.rows, sent.random(size), received.random(size), chosen, r, corrections)
    return [u, reply, other, received.correlated(corrections, 20).tobytes(), *(array.tobytes() for array in found)]


@settings(max_examples=40, deadline=None)
@given(FIRSTS, COUNTS, SIZES, st.integers(0, 2**32), st.integers(0, 15))
def test_both_ways_give_the_same_bytes(first: int, count: int, size: int, seed: int, by: int) -> None:
    with in_numpy():
        assert transfers() is None
        expected = exchange(first, count, size, seed, by)
    assert exchange(first, count, size, seed, by) == expected


def test_both_ways_give_the_same_bytes_for_long_batches_and_long_messages() -> None:
    for count, size in ((1 << 15) + 77, 16), (70, 5000):
        with in_numpy():
            expected = exchange(5, count, size, 1, 0)
        assert exchange(5, count, size, 1, 0) == expected


@pytest.mark.parametrize(("n_j", "n_k", "length"), [(1, 1, 1), (3, 5, 129), (40, 3, 1000)])
def test_both_ways_give_the_same_distances_and_corrections(n_j: int, n_k: int, length: int) -> None:
    random = generator(1, "vectors", n_j)
    b, x = (random.integers(0, 2, (n, length), dtype=np.uint8) for n in (n_j, n_k))
    pair, found = Pair(n_j, n_k, length, b"pair"), []
    sender, receiver = IknpSender(pair, SENDER, b), IknpReceiver(pair, RECEIVER, x.astype(np.bool_))
    for way in (in_numpy, nullcontext):
        with way():
            u, rows = receiver.expand(range(n_k))
            corrections, r = sender.correct(range(n_k), u.tobytes())
            t = receiver.finish(range(n_k), corrections, rows)
            found.append((u.tobytes(), rows.tobytes(), corrections, r.tobytes(), t.tobytes()))
            distances = (t.astype(np.int64) - r) % pair.modulus
            assert (distances == (b[None] != x[:, None]).sum(axis=2)).all()
    assert found[0] == found[1]


@settings(max_examples=30, deadline=None)
@given(COUNTS, SIZES, st.integers(0, 15), st.integers(0, 7))
def test_nothing_is_written_beside_the_pads(count: int, size: int, by: int, gap: int) -> None:
    found = transfers()
    if found is None:
        pytest.skip("not compiled, or another processor")
    rows = unaligned(generator(2, "rows", count).integers(0, 2**64, (count, 2), dtype=np.uint64), by)
    memory = np.full(by + count * (size + gap) + 64, 0xA5, np.uint8)
    out = memory[by : by + count * (size + gap)].reshape(count, size + gap)[:, :size]
    found.pads(bytes(16), 1, rows, 3, out)
    with in_numpy():
        hashed = iknp.PadHash(b"")
        hashed._key = bytes(16)
        expected = hashed.pads(1, np.ascontiguousarray(rows), 3, size)
    assert (out == expected).all()
    out[...] = 0xA5
    assert (memory == 0xA5).all()


def test_wrong_sizes_are_refused(library: Library) -> None:
    rows, out, keys = np.zeros((3, 2), "<u8"), np.zeros((3, 16), np.uint8), bytes(2048)
    with pytest.raises(ValueError, match="keys of 2048 bytes were due, not 2047"):
        library.rows(keys[1:], 0, 3)
    with pytest.raises(ValueError, match="a message of 48 bytes were due, not 47"):
        library.rows(keys, 0, 3, bytes(47), bytes(16))
    with pytest.raises(ValueError, match="a selection of 16 bytes were due, not 0"):
        library.rows(keys, 0, 3, bytes(48))
    with pytest.raises(ValueError, match="keys of 2048 bytes"):
        library.extend(keys, keys + b"\0", 0, np.zeros(3, np.bool_))
    with pytest.raises(ValueError, match="3 choices are needed"):
        library.extend(keys, keys, 0, np.zeros((3, 2), np.bool_))
    with pytest.raises(ValueError, match="a key of 16 bytes"):
        library.pads(bytes(15), 0, rows, 0, out)
    with pytest.raises(ValueError, match="a row of 16 bytes"):
        library.pads(bytes(16), 0, rows, 0, out, shift=bytes(17))
    for wrong in (rows[:2], np.zeros((3, 3), "<u8"), np.zeros((3, 2), "<u4"), np.zeros((3, 2), ">u8")):
        with pytest.raises(ValueError, match="rows"):
            library.pads(bytes(16), 0, wrong, 0, out)
    for place in (
        np.zeros((16, 3), np.uint8).T,
        out[:, ::2],
        out.view("<u2"),
        np.broadcast_to(out[0], (3, 16)),
    ):
        with pytest.raises(ValueError, match="adjacent"):
            library.pads(bytes(16), 0, rows, 0, place)
    for masked in (out[:2], out[:, :15], out.astype(np.int16)):
        with pytest.raises(ValueError, match=r"messages of shape \(3, 16\)"):
            library.pads(bytes(16), 0, rows, 0, out, masked=masked)
    with pytest.raises(ValueError, match=r"messages of shape \(3, 2, 16\)"):
        library.pads(bytes(16), 0, rows, 0, out, masked=out, choices=np.zeros(3, np.bool_))
    with pytest.raises(ValueError, match="3 choices"):
        library.pads(bytes(16), 0, rows, 0, out, masked=np.zeros((3, 2, 16), np.uint8), choices=np.zeros(4, np.bool_))
    with pytest.raises(ValueError, match=r"messages of shape \(3, 2, 16\)"):
        library.mask(bytes(16), 0, rows, bytes(16), 0, np.zeros((3, 1, 16), np.uint8))


@pytest.mark.parametrize("way", [in_numpy, nullcontext])
def test_transfers_refuse_what_does_not_fit(way) -> None:
    with way():
        u, received = RECEIVER.extend(0, np.zeros(3, np.bool_))
        sent = SENDER.accept(0, u)
        for shape in ((2, 2, 4), (1, 2, 4), (3, 1, 4), (3, 2)):
            with pytest.raises(ValueError, match="3 transfers do not fit messages of shape"):
                sent.mask(np.zeros(shape, np.uint8))
        with pytest.raises(ValueError, match="type int64"):
            sent.mask(np.zeros((3, 2, 4), np.int64))
        with pytest.raises(ValueError, match="takes 24 bytes, not 23"):
            received.chosen(bytes(23), 4)
        with pytest.raises(ValueError, match="rows of 16 bytes, not 17"):
            SENDER.accept(0, bytes(17))
        with pytest.raises(ValueError, match="2 rows does not fit 3 transfers"):
            SENDER.accept(0, bytes(32), sent.rows)
        for first, count in ((-1, 1), (0, columns.MOST + 1), (2**63, 1), (2**64, 0)):
            with pytest.raises(ValueError, match="in one call are allowed"):
                SENDER.rows(first, count)
            with pytest.raises(ValueError, match="in one call are allowed"):
                RECEIVER.extend(first, np.zeros(count, np.bool_))


def test_representations_have_no_secret(library: Library) -> None:
    assert "key" not in repr(library).lower()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_file_compiles_without_warnings_and_is_empty_on_other_processors(tmp_path: Path) -> None:
    strict = ["cc", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    for flags in ([], ["-DTACIT_PORTABLE"]):
        subprocess.run([*strict, *flags, "-o", str(tmp_path / f"_own{len(flags)}.so"), str(SOURCE)], check=True)
    with pytest.raises(AttributeError):
        compiled.opened(tmp_path / "_own1.so", module._FUNCTIONS)
    assert compiled.opened(tmp_path / "_own0.so", module._FUNCTIONS).tacit_transfers() in (0, 1)


def test_a_missing_or_foreign_file_is_none() -> None:
    assert compiled.found("_no_such_file", {"tacit_transfers": ()}) is None
    assert compiled.found("_transfers", {"tacit_no_such_function": ()}) is None
