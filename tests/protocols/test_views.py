"""Tests of each role's view: masked values look uniform, ciphertexts are fresh, and the server's view follows from
H."""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from tacit.protocols.crypto import packed_hamming
from tacit.protocols.crypto.fields import pack_fields, unpack_fields
from tacit.protocols.crypto.fixed_base import join
from tacit.protocols.crypto.paillier import Rerandomiser, generate
from tacit.protocols.setup import Join
from tacit.protocols.xclp.hamming import MaskedDistances, Masks, OwnBlock
from tacit.protocols.xclp.rowsums import MaskedRows, Restart
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.sim.streams import Entropy
from tacit.sim.wire import decode_body, decode_frame

# Points of three clients, and bits: enough masked values for chi-square within a second or two.
HAMMING = {
    "paillier": ([70, 70, 70], 32),
    "unpacked": ([12, 12, 12], 16),
    "iknp": ([20, 20, 20], 32),
    "naor-pinkas": ([12, 12, 12], 7),
}
IN_TURN = [pytest.param(one, marks=[pytest.mark.long] if one == "naor-pinkas" else []) for one in HAMMING]
UNLIKELY = 1e-3
"""The least p-value allowed. Seeds are fixed, so that a test always gives the same result."""


def messages_to_server(run, kind):
    """The messages of `kind` to the server, by sender, and by peer if the message names one."""
    found = {}
    for packet in run.packets:
        if packet.type == kind.__name__ and packet.receiver == "server":
            frame = decode_frame(packet.data)
            message = decode_body(frame, frame.body, kind)
            found[(packet.sender, *filter(None, [getattr(message, "peer", None)]))] = message
    return found


class ServerView:
    """The server's messages of SecureHamming as numbers: for each pair (j, k) T and R in the ring, and its modulus."""

    def __init__(self, run, variant: str) -> None:
        self.bits, self.names = run.server.parameters.bits, [client.name for client in run.clients]
        self.points = {client.name: len(client.shard.labels) for client in run.clients}
        self.width, self.paillier = self.bits.bit_length(), variant in ("paillier", "unpacked")
        self.slots = (1 if variant == "unpacked" else 511 // self.width) if self.paillier else 0
        self.own = {sender: message.distances for (sender,), message in messages_to_server(run, OwnBlock).items()}
        self.moduli = {}
        if self.paillier:
            joins = messages_to_server(run, Join)
            self.moduli = {sender: int.from_bytes(join.contribution[:64], "big") for (sender,), join in joins.items()}
        self.t = self._numbers(run, MaskedDistances)
        self.r = self._numbers(run, Masks)

    def modulus(self, j: str) -> int:
        return self.moduli[j] if self.paillier else 1 << self.width

    def _numbers(self, run, kind) -> dict[tuple[str, str], list[int]]:
        return {
            tuple(sorted(pair)): self.parse(sorted(pair), message.values)
            for pair, message in messages_to_server(run, kind).items()
        }

    def parse(self, pair, data: bytes) -> list[int]:
        if self.paillier:
            return [int.from_bytes(data[i : i + 64], "big") for i in range(0, len(data), 64)]
        return unpack_fields(data, self.width, self.points[pair[0]] * self.points[pair[1]]).tolist()

    def plain(self, h: np.ndarray, j: str, k: str) -> list[int]:
        """The block of `h` of a pair as the numbers T - R: one for each distance, or for each group of slots."""
        ends = dict(zip(self.names, np.cumsum([self.points[name] for name in self.names]).tolist(), strict=True))
        places = {name: slice(ends[name] - self.points[name], ends[name]) for name in (j, k)}
        block = h[places[k], places[j]]
        if not self.paillier:
            return block.reshape(-1).tolist()
        return [
            sum(int(value) << self.width * i for i, value in enumerate(row[first : first + self.slots]))
            for row in block
            for first in range(0, len(row), self.slots)
        ]

    def scaled(self, numbers: dict[tuple[str, str], list[int]]) -> np.ndarray:
        """All numbers as fractions of their modulus, in [0, 1)."""
        return np.array([value / self.modulus(j) for (j, _), values in numbers.items() for value in values])


@pytest.fixture(scope="module")
def hamming_run(federation, make_shards):
    """A function that returns the run of a variant, which is made once."""

    @cache
    def run(variant: str):
        sizes, bits = HAMMING.get(variant, ([20, 20, 20], 32))
        return federation(make_shards(sizes), variant=variant, bits=bits).run()

    return run


def uniform_p(parts: np.ndarray, bins: int) -> float:
    """The p-value of chi-square for `parts` in [0, 1) being uniform, with expected counts of at least 5."""
    counts = np.bincount((parts * bins).astype(int), minlength=bins)
    assert len(parts) >= 5 * bins
    return float(stats.chisquare(counts).pvalue)


@pytest.mark.parametrize("variant", IN_TURN)
def test_masks_and_masked_distances_are_uniform(hamming_run, variant) -> None:
    view = ServerView(hamming_run(variant), variant)
    for numbers in (view.t, view.r):
        assert uniform_p(view.scaled(numbers), 8) > UNLIKELY
        low = np.array([value % 8 for values in numbers.values() for value in values])
        assert uniform_p(low / 8, 8) > UNLIKELY


def test_plain_distances_are_not_uniform(hamming_run) -> None:
    """The same test rejects unmasked values."""
    view = ServerView(hamming_run("plaintext"), "plaintext")
    assert uniform_p(view.scaled(view.t), 8) < 1e-9


@pytest.mark.parametrize("recovery", [Restart(), Shamir()], ids=lambda recovery: recovery.name)
def test_masked_rows_are_uniform(federation, make_shards, recovery) -> None:
    run = federation(make_shards([40, 40, 40]), recovery=recovery).run()
    values = {sender: message.values for (sender,), message in messages_to_server(run, MaskedRows).items()}
    assert len(values) == 3
    for data in values.values():
        words = np.frombuffer(data, np.uint8).reshape(-1, 8)
        for place in range(8):
            assert uniform_p(words[:, place] / 256, 16) > UNLIKELY
        assert uniform_p(words.reshape(-1) / 256, 128) > UNLIKELY
    # Unmasked scores are not uniform: the highest bytes of small numbers are equal.
    z = np.concatenate([client.labels.z.reshape(-1) for client in run.clients]).view(np.uint8).reshape(-1, 8)
    assert uniform_p(z[:, 7] / 256, 16) < 1e-9


@pytest.mark.parametrize("variant", IN_TURN)
def test_the_servers_view_of_secure_hamming_can_be_simulated_from_h(hamming_run, variant) -> None:
    """A simulator that is given H (and public facts: sizes, moduli) makes a transcript like the real one.

    It draws T uniformly and sets R = T - H. Own blocks must be equal byte for byte. T and R must have the lengths and
    the distributions of the real ones, separately and given H. T - R is H in both.
    """
    run = hamming_run(variant)
    view, h = ServerView(run, variant), np.asarray(run.server.record.h)
    random = Entropy.seeded(1, "simulator")

    place = 0
    for name in view.names:
        own = slice(place, place := place + view.points[name])
        block = h[own, own]
        assert view.own[name] == pack_fields(block[np.triu_indices(len(block), 1)], view.width)

    t, r = {}, {}
    pairs = [(j, k) for i, j in enumerate(view.names) for k in view.names[i + 1 :]]
    assert set(view.t) == set(view.r) == set(pairs)
    beside = []
    for j, k in pairs:
        modulus, plain = view.modulus(j), view.plain(h, j, k)
        t[j, k] = [random.below(modulus) for _ in plain]
        r[j, k] = [(value - number) % modulus for value, number in zip(t[j, k], plain, strict=True)]
        for ts, rs in ((t, r), (view.t, view.r)):
            assert [(x - y) % modulus for x, y in zip(ts[j, k], rs[j, k], strict=True)] == plain
        beside += plain
    middle = np.median(np.array(beside, float))
    large = np.array([number > middle for number in beside])
    for simulated, real in ((t, view.t), (r, view.r)):
        simulated, real = view.scaled(simulated), view.scaled({pair: real[pair] for pair in pairs})
        assert stats.ks_2samp(simulated, real).pvalue > UNLIKELY
        assert stats.ks_2samp(simulated[large], real[large]).pvalue > UNLIKELY
        assert stats.ks_2samp(real[large], real[~large]).pvalue > UNLIKELY


@pytest.fixture(scope="module")
def key():
    return generate(512, Entropy.seeded(1, "key"), insecure=True)


def test_encryptions_of_one_plaintext_differ(key) -> None:
    entropy = Entropy.seeded(1, "encrypt")
    for encrypt in (key.encrypt, key.public.encrypt):
        ciphertexts = [encrypt(7, entropy) for _ in range(50)]
        assert len(set(ciphertexts)) == 50
        assert {key.decrypt(ciphertext) for ciphertext in ciphertexts} == {7}
    # All positions of equal vectors have one of two plaintexts; no two ciphertexts are equal, in one run or in two.
    bits = np.tile(np.array([[False, True]]), (4, 32))
    seen = [packed_hamming.encode(key, bits, Entropy.seeded(1, "run", run)) for run in range(2)]
    width = key.public.ciphertext_bytes
    parts = {data[i : i + width] for data in seen for i in range(0, len(data), width)}
    assert len(parts) == 2 * 64


def test_rerandomised_ciphertexts_differ_from_the_originals(key) -> None:
    public, entropy = key.public, Entropy.seeded(1, "rerandomise")
    ciphertexts = [key.encrypt(value, entropy) for value in (0, 0, 5)]
    residues = Rerandomiser(public, entropy, 3).residues(3)
    for fresh in (
        [public.rerandomise(ciphertext, entropy) for ciphertext in ciphertexts],
        [
            join(ciphertext * product % public.square, slope, public.n, public.square)
            for ciphertext, (product, slope) in zip(ciphertexts, residues, strict=True)
        ],
    ):
        assert len({*ciphertexts, *fresh}) == 6
        # They differ by more than a known factor (1 + N)^m: the residues mod N differ as well.
        assert len({int(c % public.n) for c in (*ciphertexts, *fresh)}) == 6
        assert [key.decrypt(ciphertext) for ciphertext in fresh] == [0, 0, 5]


@pytest.mark.parametrize("slots", [None, 1])
def test_masked_results_are_rerandomised(key, slots) -> None:
    """For a vector of ones, the bare product would be the inverse of the inputs' product, which j knows."""
    public, length = key.public, 8
    encoded = packed_hamming.encode(key, np.ones((1, length), bool), Entropy.seeded(1, "encode"), slots=slots)
    vectors = np.ones((6, length), bool)
    masked, masks = packed_hamming.evaluate(public, encoded, 1, vectors, Entropy.seeded(1, "evaluate"), slots=slots)
    inputs = public.ciphertexts_from_bytes(encoded, length)
    results = public.ciphertexts_from_bytes(masked, 6)
    assert len({int(c % public.n) for c in (*inputs, *results)}) == length + 6
    product = 1
    for ciphertext in inputs:
        product = product * int(ciphertext) % int(public.n)
    bare = pow(product, -1, int(public.n))
    assert bare not in {int(c % public.n) for c in results}
    assert len({masks[i : i + public.plaintext_bytes] for i in range(0, len(masks), public.plaintext_bytes)}) == 6
