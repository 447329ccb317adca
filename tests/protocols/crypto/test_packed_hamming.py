import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import packed_hamming as packed
from tacit.protocols.crypto import paillier
from tacit.sim.compute import CostTable
from tacit.sim.streams import Entropy, generator

KEY = paillier.generate(512, Entropy.seeded(1, "test key"), insecure=True)
PUBLIC = KEY.public
N = int(PUBLIC.n)


def random_bits(seed, *shape):
    return generator(seed, "bits", *shape).integers(0, 2, shape, dtype=np.uint8)


def exact(b, x):
    """The distances (n_k, n_j), by comparison."""
    return (x[:, None, :] != b[None, :, :]).sum(axis=2)


def run(b, x, key=KEY, entropy=None, **options):
    """The whole pair: distances, and the messages sent."""
    entropy = entropy or Entropy.seeded(1, "pair")
    slots = {name: value for name, value in options.items() if name == "slots"}
    ciphertexts = packed.encode(key, b, entropy.child("j"), **slots)
    masked, masks = packed.evaluate(key.public, ciphertexts, len(b), x, entropy.child("k"), **options)
    results = packed.decrypt(key, masked)
    distances = packed.unmask(int(key.public.n), results, masks, len(b), len(x), b.shape[1], **slots)
    return distances, (ciphertexts, masked, masks, results)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 150),
    st.integers(1, 12),
    st.integers(1, 40),
    st.integers(0, 2**32),
    st.sampled_from([None, 1, 2, 7]),
    st.sampled_from([{}, {"fresh": True}]),
)
def test_packed_distances_equal_numpy(n_j, n_k, length, seed, slots, hiding):
    b, x = random_bits(seed, n_j, length), random_bits(seed + 1, n_k, length)
    distances, (ciphertexts, masked, masks, results) = run(b, x, slots=slots, **hiding)
    assert (distances == exact(b, x)).all()
    assert distances.shape == (n_k, n_j)
    groups = packed.packing(512, n_j, length, slots).groups
    assert len(ciphertexts) == groups * length * 128
    assert len(masked) == n_k * groups * 128
    assert len(masks) == len(results) == n_k * groups * 64


@pytest.mark.parametrize("length", [1, 2, 3, 31, 32, 63, 64])
@pytest.mark.parametrize("n_j", [1, 5, 300])
def test_distances_of_0_and_of_the_whole_length_are_exact(n_j, length):
    zeros, ones = np.zeros((n_j, length), np.uint8), np.ones((n_j, length), np.uint8)
    x = np.stack([np.zeros(length, np.uint8), np.ones(length, np.uint8)])
    assert (run(zeros, x)[0] == [[0] * n_j, [length] * n_j]).all()
    assert (run(ones, x)[0] == [[length] * n_j, [0] * n_j]).all()


def test_distances_are_exact_with_keys_of_2048_bits():
    key = paillier.generate(2048, Entropy.seeded(2, "test key"))
    b, x = random_bits(1, 187, 1024), random_bits(2, 2, 1024)
    b[0], b[186] = x[0], 1 - x[0]
    distances, _ = run(b[185:], x, key)  # one group of 2 vectors
    assert (distances == exact(b[185:], x)).all()
    assert distances[0, 1] == 1024
    b, x = random_bits(1, 300, 20), random_bits(2, 3, 20)
    b[0], b[299] = x[0], 1 - x[0]
    distances, _ = run(b, x, key)
    assert (distances == exact(b, x)).all()
    assert packed.packing(2048, 300, 20).groups == 1
    assert packed.packing(2048, 187, 1024).groups == 2


def test_bool_and_integer_bits_give_the_same_messages():
    b, x = random_bits(1, 3, 8), random_bits(2, 2, 8)
    assert run(b, x)[1] == run(b.astype(bool), x.astype(np.int64))[1]


def test_the_same_entropy_gives_the_same_bytes():
    b, x = random_bits(1, 3, 8), random_bits(2, 2, 8)
    assert run(b, x)[1] == run(b, x)[1]
    other = run(b, x, entropy=Entropy.seeded(2, "pair"))
    assert all(mine != theirs for mine, theirs in zip(other[1], run(b, x)[1], strict=True))
    assert (other[0] == run(b, x)[0]).all()


def test_every_slot_of_the_plaintext_holds_its_distance():
    # Three vectors, 512 bits: far more slots than vectors.
    b, x = random_bits(1, 3, 9), random_bits(2, 4, 9)
    _, (_, _, masks, results) = run(b, x)
    for i in range(4):
        t, r = (int.from_bytes(data[64 * i : 64 * (i + 1)], "big") for data in (results, masks))
        slots = paillier.unpack((t - r) % N, 4, paillier.slots(512, 4))
        assert slots[:3] == exact(b, x)[i].tolist()
        assert not any(slots[3:])  # otherwise |x| would be here


def test_masks_are_fresh_and_spread_over_the_ring():
    b, x = random_bits(1, 3, 9), np.repeat(random_bits(2, 1, 9), 64, axis=0)
    _, (_, masked, masks, results) = run(b, x)
    for data, width in ((masked, 128), (masks, 64), (results, 64)):
        values = [int.from_bytes(data[i : i + width], "big") for i in range(0, len(data), width)]
        assert len(set(values)) == 64
        top = N if width == 64 else N * N
        assert max(values) < top
        assert max(values) > top // 2 > min(values)


@pytest.mark.parametrize("fresh", [False, True])
def test_results_are_re_randomised(fresh):
    # j knows the randomness of every c_l; that of prod c_l^(1 - 2 x_l) would reveal x to j.
    b, x = random_bits(1, 3, 9), random_bits(2, 1, 9)
    _, (ciphertexts, masked, masks, _) = run(b, x, fresh=fresh)
    square = N * N
    received = [int.from_bytes(ciphertexts[i : i + 128], "big") for i in range(0, len(ciphertexts), 128)]
    bare = 1
    for ciphertext, bit in zip(received, x[0].tolist(), strict=True):
        bare = bare * pow(ciphertext, 1 - 2 * bit, square) % square
    weight = paillier.pack([int(x.sum())] * 3, 4)
    bare = bare * (1 + N * (weight + int.from_bytes(masks, "big"))) % square
    result = int.from_bytes(masked, "big")
    assert result != bare
    assert KEY.decrypt(result) == KEY.decrypt(bare)


def test_arguments_and_results_can_be_pickled():
    b, x = random_bits(1, 3, 9), random_bits(2, 2, 9)
    key, public, entropy = pickle.loads(pickle.dumps((KEY, PUBLIC, Entropy.seeded(1))))
    ciphertexts = packed.encode(key, b, entropy.child("j"))
    assert ciphertexts == packed.encode(KEY, b, Entropy.seeded(1).child("j"))
    masked, _ = packed.evaluate(public, ciphertexts, 3, x, entropy.child("k"))
    assert isinstance(masked, bytes)


# Errors


def test_masks_of_another_exchange_are_refused():
    b, x = random_bits(1, 3, 9), random_bits(2, 2, 9)
    _, (_, _, masks, results) = run(b, x)
    with pytest.raises(ValueError, match=r"not a packing of 3 distances in 0\.\.9"):
        packed.unmask(N, results, masks[64:] + masks[:64], 3, 2, 9)
    one = (1).to_bytes(64, "big")
    too_large = (10).to_bytes(64, "big")
    in_empty_slot = (1 << 4 * 3).to_bytes(64, "big")
    above_all_slots = (1 << 4 * 127).to_bytes(64, "big")
    assert packed.unmask(N, one, bytes(64), 3, 1, 9).tolist() == [[1, 0, 0]]
    for bad in (too_large, in_empty_slot, above_all_slots):
        with pytest.raises(ValueError, match="do not belong together"):
            packed.unmask(N, bad, bytes(64), 3, 1, 9)


def test_messages_of_wrong_size_are_refused():
    b, x = random_bits(1, 3, 9), random_bits(2, 2, 9)
    _, (ciphertexts, masked, masks, results) = run(b, x)
    with pytest.raises(ValueError, match="9 ciphertexts take 1152 bytes, not 1151"):
        packed.evaluate(PUBLIC, ciphertexts[1:], 3, x, Entropy.system())
    with pytest.raises(ValueError, match="1 ciphertexts take 128 bytes, not 255"):
        packed.decrypt(KEY, masked[:255])
    with pytest.raises(ValueError, match="2 plaintexts T take 128 bytes, not 64"):
        packed.unmask(N, results[:64], masks, 3, 2, 9)
    with pytest.raises(ValueError, match="2 plaintexts R take 128 bytes, not 64"):
        packed.unmask(N, results, masks[:64], 3, 2, 9)
    with pytest.raises(ValueError, match=r"n_k\(=0\)"):
        packed.unmask(N, b"", b"", 3, 0, 9)
    with pytest.raises(ValueError, match=r"count\(=0\)"):
        packed.evaluate(PUBLIC, b"", 0, x, Entropy.system())
    with pytest.raises(ValueError, match=r"slots\(=200\) must be in 1\.\.127"):
        packed.encode(KEY, b, Entropy.system(), slots=200)


@pytest.mark.parametrize(
    "bits", [np.array([0, 1]), np.zeros((0, 4), np.uint8), np.array([[2]]), np.array([[0.0, 1.0]])]
)
def test_other_values_than_matrices_of_bits_are_refused(bits):
    with pytest.raises(ValueError, match="bits must be"):
        packed.encode(KEY, bits, Entropy.system())
    with pytest.raises(ValueError, match="bits must be"):
        packed.evaluate(PUBLIC, bytes(256), 1, bits, Entropy.system())


@pytest.mark.parametrize("bad", [0, 3 * KEY.factors[0]])
def test_ciphertexts_that_are_no_units_are_refused(bad):
    x = random_bits(2, 2, 1)
    with pytest.raises(ValueError, match=r"ciphertext must be|shares a factor"):
        packed.evaluate(PUBLIC, bad.to_bytes(128, "big"), 1, x, Entropy.system())
    with pytest.raises(ValueError, match=r"ciphertext must be|shares a factor"):
        packed.decrypt(KEY, bad.to_bytes(128, "big"))


# Work


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 300), st.sampled_from([None, 1]))
def test_the_work_of_packed_distances_is_counted(n_j, n_k, length, slots):
    groups = packed.packing(512, n_j, length, slots).groups
    assert packed.keygen_work(512) == {"paillier-512.keygen": 1}
    assert packed.encode_work(512, n_j, length, slots=slots)["paillier-512.encrypt"] == groups * length
    assert packed.decrypt_work(512, n_j, n_k, length, slots=slots) == {"paillier-512.decrypt": n_k * groups}
    work = packed.evaluate_work(512, n_j, n_k, length, slots=slots)
    assert all(name.startswith("paillier-512.") and count >= 0 for name, count in work.items())
    # Plain products would be about half of n_k groups length.
    assert work["paillier-512.table-multiply"] >= n_k * groups * length / 8
    assert packed.unmask_work(512, n_j, n_k, length, slots=slots) == {"paillier-512.unmask": n_k * groups}
    fresh = packed.evaluate_work(512, n_j, n_k, length, slots=slots, fresh=True)
    assert fresh["paillier-512.power"] == n_k * groups
    assert fresh["paillier-512.split"] == groups * length
    assert "paillier-512.square" not in fresh
    assert all(count <= work[name] for name, count in fresh.items() if name != "paillier-512.power")


@pytest.mark.parametrize("bits", [512, 1024, 2048, 3072])
def test_the_cost_table_has_every_operation_of_packed_distances(bits):
    seconds = CostTable.load().seconds
    works = (
        packed.keygen_work(bits),
        packed.encode_work(bits, 200, 1024),
        packed.evaluate_work(bits, 200, 200, 1024),
        packed.evaluate_work(bits, 200, 200, 1024, fresh=True),
        packed.decrypt_work(bits, 200, 200, 1024),
        packed.unmask_work(bits, 200, 200, 1024),
    )
    assert all(seconds[name] > 0 for work in works for name in work)
