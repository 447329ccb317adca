"""Attacks on the exchange of two clients: masks, empty slots, randomness, pads, seals, and the size of the ring.

The attacked functions are those of production; each weakening is a function or subclass here that changes one thing.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
from gmpy2 import invert, mpz
from numpy.typing import NDArray

from tacit.benchmarks.attacks.finding import Finding, randomness, share
from tacit.protocols.crypto import naor_pinkas, ot_hamming, packed_hamming
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.groups import find_group
from tacit.protocols.crypto.ot_hamming import IknpReceiver, IknpSender, NaorPinkasSender, Pair
from tacit.protocols.crypto.packed_hamming import Packing
from tacit.protocols.crypto.paillier import PrivateKey, Rerandomiser, generate
from tacit.protocols.crypto.sealing import NONCE_BYTES, OVERHEAD, TAG_BYTES, Direction, PairChannel
from tacit.sim.streams import Entropy

__all__ = [
    "counts_in_empty_slots",
    "mask_of_a_few_bits",
    "no_rerandomising",
    "one_key_for_both_directions",
    "one_mask_for_two_vectors",
    "one_pad_for_two_vectors",
    "wrapping_at_l",
]

Bits = NDArray[np.bool_]

_KEY_BITS = 512


def _key() -> PrivateKey:
    return generate(_KEY_BITS, Entropy.seeded(1, "attacked key"), insecure=True)


def _plaintexts(data: bytes) -> list[int]:
    size = _KEY_BITS // 8
    return [int.from_bytes(data[i : i + size], "big") for i in range(0, len(data), size)]


# (a) The mask


def mask_of_a_few_bits(quick: bool = False) -> Finding:
    """j, who decrypts T = h + r, distinguishes a vector equal to its own (h = 0) from the opposite one (h = L).

    With r in [0, L - 1] over the integers, T is below L only for the equal one.
    """
    length, vectors = 32, 100 if quick else 400
    random, key = randomness("mask"), _key()
    own = random.random((1, length)) < 0.5
    opposite = random.permutation(vectors) < vectors // 2
    theirs = own ^ opposite[:, None]
    encoded = packed_hamming.encode(key, own, Entropy.seeded(1, "encode"), slots=1)

    masked, masks = packed_hamming.evaluate(key.public, encoded, 1, theirs, Entropy.seeded(1, "evaluate"), slots=1)

    # The weakened copy adds r as the paper does, where ours adds R uniform in the whole ring.
    public, few = key.public, Entropy.seeded(1, "r in [0, L - 1]")
    ciphertexts = public.ciphertexts_from_bytes(masked, vectors)
    changes = [(few.below(length) - big) % int(public.n) for big in _plaintexts(masks)]
    weaker = [public.add_plain(*parts) for parts in zip(ciphertexts, changes, strict=True)]

    def guesses(data: bytes) -> NDArray[np.bool_]:
        results = _plaintexts(packed_hamming.decrypt(key, data))
        middle = sorted(results)[vectors // 2]  # works for any range of masks
        return np.array([t >= middle for t in results])

    weakened, ours = guesses(b"".join(map(public.ciphertext_to_bytes, weaker))), guesses(masked)
    return Finding(
        "mask in [0, L - 1] over the integers",
        "j: is k's vector its own or the opposite",
        share(weakened, opposite),
        share(ours, opposite),
        0.5,
        vectors,
    )


# (g) Randomness


class _NoRandomness:
    """Returns 1 instead of each random factor."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def draws(self, count: int) -> Iterator[None]:
        return iter([None] * count)

    def powers(self, drawn: Sequence[None]) -> Iterator[tuple[mpz, mpz]]:
        return iter([(mpz(1), mpz(0))] * len(drawn))


def _products(factors: list[mpz], n: mpz) -> list[mpz]:
    """The products for all choices, mod n: choice c takes factor i if its bit i is 0, otherwise the factor's
    inverse."""
    products = [mpz(1)]
    for factor in factors:
        inverse = invert(factor, n)
        products = [p * factor % n for p in products] + [p * inverse % n for p in products]
    return products


def no_rerandomising(quick: bool = False) -> Finding:
    """j reads k's bits: a result is, mod N, the product of j's own ciphertexts to the power of 1 or -1, by k's bits.

    j meets in the middle: it tabulates all products over the first half of the positions and looks up the second half.
    """
    length, vectors = 16, 8 if quick else 24
    random, key = randomness("randomness"), _key()
    own, theirs = random.random((3, length)) < 0.5, random.random((vectors, length)) < 0.5
    coins = random.random(theirs.shape) < 0.5
    encoded = packed_hamming.encode(key, own, Entropy.seeded(2, "encode"))
    n, half = key.public.n, length // 2
    known = [c % n for c in key.public.ciphertexts_from_bytes(encoded, length)]
    first = {product: i for i, product in enumerate(_products(known[:half], n))}
    second = [invert(product, n) for product in _products(known[half:], n)]

    def read() -> Bits:
        masked, _ = packed_hamming.evaluate(key.public, encoded, len(own), theirs, Entropy.seeded(2, "evaluate"))
        found = coins.copy()
        for row, result in zip(found, key.public.ciphertexts_from_bytes(masked, vectors), strict=True):
            for i, inverse in enumerate(second):
                choice = first.get(result * inverse % n)
                if choice is not None:
                    row[:] = [choice >> bit & 1 for bit in range(half)] + [i >> bit & 1 for bit in range(length - half)]
        return found

    with patch.object(packed_hamming, "Rerandomiser", _NoRandomness):
        weakened = read()
    assert packed_hamming.Rerandomiser is Rerandomiser
    return Finding(
        "no re-randomising",
        "j: k's bits, from the products of its own ciphertexts",
        share(weakened, theirs),
        share(read(), theirs),
        0.5,
        theirs.size,
    )


# (h) Empty slots


def counts_in_empty_slots(quick: bool = False) -> Finding:
    """The server reads |x| of each vector of k in the first slot that holds no vector of j."""
    length, vectors, count = 64, 60 if quick else 200, 3
    random, key = randomness("slots"), _key()
    own, theirs = random.random((count, length)) < 0.5, random.random((vectors, length)) < 0.5
    encoded = packed_hamming.encode(key, own, Entropy.seeded(3, "encode"))
    n, width = int(key.public.n), length.bit_length()

    def read() -> list[int]:
        masked, masks = packed_hamming.evaluate(key.public, encoded, count, theirs, Entropy.seeded(3, "evaluate"))
        results = _plaintexts(packed_hamming.decrypt(key, masked))
        slots = [((t - r) % n >> width * count) % 2**width for t, r in zip(results, _plaintexts(masks), strict=True)]
        return [slot or length // 2 for slot in slots]  # guess the most likely number for an empty slot

    with patch.object(Packing, "filled", lambda self, group: self.slots):
        weakened = read()
    weights = theirs.sum(axis=1)
    chance = math.comb(length, length // 2) / 2**length
    return Finding(
        "|x| added in empty slots",
        "server: the number of ones in each vector of k",
        share(weakened, weights),
        share(read(), weights),
        chance,
        vectors,
    )


# (i) Oblivious transfer


class _Stuck(Entropy):
    """Gives every vector of k the same r."""

    def child(self, *names: str | int) -> Entropy:
        return super().child(names[0])


def one_mask_for_two_vectors(quick: bool = False) -> Finding:
    """k requests all bits with x and with its opposite: it gets both r + b and r + 1 - b, and so b."""
    pair = Pair(2 if quick else 6, 2, 33, b"attacked transfers")
    group, random = find_group("p256"), randomness("transfers")
    own = random.random((pair.n_j, pair.length)) < 0.5
    x = random.random(pair.length) < 0.5
    sender, setup = NaorPinkasSender.start(pair, group, own, Entropy.seeded(4, "sender"))
    choices = np.repeat(np.stack([x, ~x]).reshape(-1), pair.n_j)
    kept = naor_pinkas.draw(group, choices, Entropy.seeded(4, "receiver"))
    request = naor_pinkas.request(group, setup, kept)
    pads = naor_pinkas.receiver_pads(group, pair.context, setup, kept, pair.message_bytes)
    whole = range(2)

    def read(j: NaorPinkasSender) -> Bits:
        reply, _ = j.reply(whole, request)
        t = naor_pinkas.receive(choices, pads, reply).astype(np.int64).reshape(2, pair.length, pair.n_j)
        # t[x_l] = r + b where 0 was chosen, r + 1 - b where 1 was: the first less the second is 2 b - 1.
        zero, one = np.where(x[:, None], t[1], t[0]), np.where(x[:, None], t[0], t[1])
        difference = (zero - one) % pair.modulus
        found: Bits = (difference < pair.modulus // 2).T
        return found

    weakened = read(replace(sender, entropy=_Stuck(sender.entropy.key)))
    return Finding(
        "one r for two vectors of k",
        "k: j's bits",
        share(weakened, own),
        share(read(sender), own),
        0.5,
        own.size,
    )


def one_pad_for_two_vectors(quick: bool = False) -> Finding:
    """k opens the messages that it chose in two replies under the same pads, and gets the difference of the others.

    This reveals most bits of j. The weakened j answers each request from index 0 of the batch, instead of continuing
    after the last answer.
    """
    pair = Pair(2 if quick else 6, 2, 33, b"attacked pads")
    group, random = find_group("p256"), randomness("pads")
    own = random.random((pair.n_j, pair.length)) < 0.5
    x = random.random(pair.length) < 0.5
    count = pair.length * pair.n_j
    key, setup = naor_pinkas.setup(group, pair.context, Entropy.seeded(5, "sender"))
    exponents = naor_pinkas.draw(group, np.repeat(x, pair.n_j), Entropy.seeded(5, "receiver"))
    request = naor_pinkas.request(group, setup, exponents)
    b = np.ascontiguousarray(own.T).reshape(-1).astype(np.uint8)

    def transfer(vector: int, first: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The messages that k chose, and the other ones still under their pads."""
        r = np.frombuffer(Entropy.seeded(5, "r", vector).bytes(count), np.uint8) & np.uint8(pair.modulus - 1)
        offers = np.stack([(r + b) % pair.modulus, (r + 1 - b) % pair.modulus], axis=-1).astype(np.uint8)
        reply = naor_pinkas.send(key, request, offers[..., None], first)
        pads = naor_pinkas.receiver_pads(group, pair.context, setup, exponents, 1, first)
        chosen = naor_pinkas.receive(exponents.choices, pads, reply)[:, 0].astype(np.int64)
        both = np.frombuffer(reply, np.uint8).reshape(count, 2).astype(np.int64)
        return chosen, both[np.arange(count), 1 - exponents.choices]

    def read(second: int) -> Bits:
        (chosen, closed), (also_chosen, also_closed) = transfer(0, 0), transfer(1, second)
        fits = []
        for bit in (0, 1):
            # r + (b ^ s) was chosen; r + (b ^ 1 ^ s) was not.
            step = np.where(bit ^ exponents.choices, -1, 1)
            expected = (chosen + step) % pair.modulus ^ (also_chosen + step) % pair.modulus
            fits.append(expected == closed ^ also_closed)
        coins = randomness("pads", "coins").random(count) < 0.5
        found = np.where(fits[0] == fits[1], coins, fits[1])
        truth: Bits = found.reshape(pair.length, pair.n_j).T
        return truth

    return Finding(
        "one pad for two vectors of k",
        "k: j's bits",
        share(read(0), own),
        share(read(count), own),
        0.5,
        own.size,
        stated=0.7,
    )


# (j) Seals


class _OneKey(PairChannel):
    """Uses the key of one direction for both."""

    def __init__(self, secret: SharedSecret, lower: bool) -> None:
        super().__init__(secret, lower)
        self._in = self._out = Direction(secret, "gcm-lo-hi")


def one_key_for_both_directions(quick: bool = False) -> Finding:
    """A relay that knows or guesses a message in one direction reads the one with the same number in the other."""
    size = 500 if quick else 4000
    random = randomness("seals")
    secret = SharedSecret(hashlib.sha256(b"attacked pair").digest(), b"run", 1, ("client/0#1", "client/1#1"))
    known, hidden = random.bytes(size), random.bytes(size)

    def read(kind: type[PairChannel]) -> bytes:
        there, back = (kind(secret, lower).seal(data, b"") for lower, data in ((True, known), (False, hidden)))
        assert len(there) == size + OVERHEAD
        bodies = (sealed[NONCE_BYTES:-TAG_BYTES] for sealed in (there, back))
        return bytes(a ^ b ^ c for a, b, c in zip(*bodies, known, strict=True))

    def right(found: bytes) -> float:
        return share(np.frombuffer(found, np.uint8), np.frombuffer(hidden, np.uint8))

    return Finding(
        "one GCM key for both directions",
        "relay: bytes of k's message, knowing j's",
        right(read(_OneKey)),
        right(read(PairChannel)),
        1 / 256,
        size,
    )


# (k) The ring


def wrapping_at_l(quick: bool = False) -> Finding:
    """A distance of L is 0 in Z_L: a point and its opposite look equal. With w-bit sums, as in ours, it is L."""
    pair = Pair(5, 5, 24, b"attacked ring")
    random = randomness("ring")
    own = random.random((pair.n_j, pair.length)) < 0.5
    theirs = ~own
    r = random.integers(pair.length, size=(pair.n_k, pair.n_j, pair.length))
    t = r + (own[None] ^ theirs[:, None])
    in_z_l = (t.sum(axis=2) - r.sum(axis=2)) % pair.length

    group = find_group("p256")
    key, setup = IknpReceiver.setup(pair, group, Entropy.seeded(6, "receiver"))
    sender, request = IknpSender.start(pair, group, own, setup, Entropy.seeded(6, "sender"))
    receiver = IknpReceiver.start(pair, key, theirs, request)
    whole = range(pair.n_k)
    corrections, masks = sender.correct(whole, receiver.extend(whole))
    sums = [ot_hamming.sums(pair, [part]) for part in (receiver.finish(whole, corrections), masks)]
    ours = ot_hamming.unmask(sums[0], sums[1], pair.n_j, pair.n_k, pair.length)
    return Finding(
        "distances in Z_L",
        "opposite vectors that read as equal",
        float(np.mean(in_z_l.diagonal() == 0)),
        float(np.mean(ours.diagonal() == 0)),
        0.0,
        pair.n_j,
    )
