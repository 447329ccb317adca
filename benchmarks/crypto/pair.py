"""SecureHamming of one whole pair of clients, both on one core: packed Paillier, one bit per ciphertext, and IKNP.

Tacit's time includes everything from bits to distances except making Paillier's key: for Paillier the owner's tables,
encryption, evaluation with its tables and re-randomising, decryption, unmasking; for IKNP also the base transfers.
Distances are checked.

The same pair with python-paillier encrypts one bit per ciphertext; k multiplies the ciphertexts with x_l = 0, squares,
divides by the product of all, adds a mask and re-randomises by r^N, and j decrypts. 200 x 200 vectors of 1,024 bits
would take most of an hour. Therefore two smaller pairs are measured and extrapolated: encryption in proportion to n_j
L, products to n_j n_k L, masking and decryption to n_j n_k. The time of the larger pair as predicted from the smaller
one is printed with the measured time.
"""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

import gmpy2
import numpy as np
from gmpy2 import mpz
from rich.console import Console

from tacit.benchmarks.crypto.costs import measure_paillier, predicted
from tacit.benchmarks.measure import timed
from tacit.protocols.crypto import ot_hamming, packed_hamming, paillier
from tacit.protocols.crypto.groups import find_group
from tacit.protocols.crypto.ot_hamming import IknpReceiver, IknpSender
from tacit.protocols.xclp.lsh import distances
from tacit.sim.streams import Entropy, generator

__all__ = ["PairSize", "iknp_pair", "measure_pair", "packed_pair"]


@dataclass(frozen=True)
class PairSize:
    """The sizes of a pair: n_j and n_k vectors of `length` bits."""

    n_j: int
    n_k: int
    length: int

    def vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Random bits of j and of k."""
        random = generator(1, "benchmark", self.n_j, self.n_k, self.length)
        j, k = (random.integers(0, 2, (n, self.length), dtype=np.uint8) for n in (self.n_j, self.n_k))
        return j, k


_PAIR = PairSize(200, 200, 1024)


def measure_pair(phe: ModuleType | None, quick: bool, console: Console) -> dict[str, object]:
    """The times of the whole packed pair, of python-paillier with one bit per ciphertext, and of the cost model."""
    repeats, bits = 1 if quick else 3, 2048
    key = paillier.generate(bits, Entropy.seeded(1, "benchmark", "pair"))
    runs = [packed_pair(_PAIR, key, i) for i in range(repeats)]
    ours = min(runs, key=lambda run: sum(run.values()))
    total = sum(ours.values())
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in ours.items())
    console.print(f"pair {_PAIR}, {bits} bits, packed: {total:.2f} s, "
                  f"{_PAIR.n_j * _PAIR.n_k / total:,.0f} distances a second ({parts})")  # fmt: skip
    costs = measure_paillier(bits, quick)
    sizes = (bits, _PAIR.n_j, _PAIR.n_k, _PAIR.length)
    modelled = {
        "encode": predicted(packed_hamming.encode_work(bits, _PAIR.n_j, _PAIR.length), costs),
        "evaluate": predicted(packed_hamming.evaluate_work(*sizes), costs),
        "decrypt": predicted(packed_hamming.decrypt_work(*sizes), costs),
        "unmask": predicted(packed_hamming.unmask_work(*sizes), costs),
    }
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in modelled.items())
    console.print(f"the same by the cost model: {sum(modelled.values()):.2f} s ({parts})")
    result: dict[str, object] = {"packed": ours, "modelled": modelled}
    if phe is not None:
        small, large = (
            (PairSize(6, 6, 8), PairSize(6, 6, 16)) if quick else (PairSize(20, 20, 32), PairSize(30, 30, 64))
        )
        slices = [_one_bit_pair(pair, bits, phe) for pair in (small, large)]
        check = _extrapolate(slices[0], small, large)
        theirs = _extrapolate(slices[1], large, _PAIR)
        console.print(f"python-paillier, one bit a ciphertext, {large}: measured {sum(slices[1].values()):.2f} s, "
                      f"predicted from {small} {sum(check.values()):.2f} s")  # fmt: skip
        console.print(f"extrapolated to {_PAIR}: {sum(theirs.values()):,.0f} s, "
                      f"{sum(theirs.values()) / total:,.0f} times as long")  # fmt: skip
        result |= {
            "one_bit_measured": slices,
            "one_bit_check": check,
            "one_bit_extrapolated": theirs,
            "ratio": sum(theirs.values()) / total,
        }
    return result


def packed_pair(pair: PairSize, key: paillier.PrivateKey, index: int) -> dict[str, float]:
    """The seconds of each part of a whole pair; the distances are checked."""
    b, x = pair.vectors()
    entropy, n = Entropy.seeded(index, "pair"), int(key.public.n)
    fresh = pickle.loads(pickle.dumps(key))  # without tables
    found: list = []

    def step(action: Callable[[], object]) -> float:
        return timed(lambda: found.append(action()))

    times = {"encode": step(lambda: packed_hamming.encode(fresh, b, entropy.child("j")))}
    times["evaluate"] = step(lambda: packed_hamming.evaluate(key.public, found[0], pair.n_j, x, entropy.child("k")))
    times["decrypt"] = step(lambda: packed_hamming.decrypt(fresh, found[1][0]))
    times["unmask"] = step(lambda: packed_hamming.unmask(n, found[2], found[1][1], pair.n_j, pair.n_k, pair.length))
    assert (found[3] == distances(x.astype(bool), b.astype(bool))).all()
    return times


def iknp_pair(pair: PairSize, index: int) -> dict[str, float]:
    """The seconds of each part of a whole pair by IKNP, with base transfers in P-256; the distances are checked."""
    b, x = pair.vectors()
    entropy, group = Entropy.seeded(index, "iknp pair"), find_group("p256")
    agreed = ot_hamming.Pair(pair.n_j, pair.n_k, pair.length, b"benchmark" + index.to_bytes(8, "big"))
    times = dict.fromkeys(("base", "extend", "correct", "finish", "unmask"), 0.0)
    found: list = []

    def step(name: str, action: Callable[[], object]) -> None:
        found.clear()
        times[name] += timed(lambda: found.append(action()))

    def base() -> tuple[IknpSender, IknpReceiver]:
        key, setup = IknpReceiver.setup(agreed, group, entropy)
        sender, request = IknpSender.start(agreed, group, np.asfortranarray(b), setup, entropy)
        return sender, IknpReceiver.start(agreed, key, x, request)

    step("base", base)
    sender, receiver = found[0]
    parts_r, parts_t = [], []
    for block in agreed.iknp_blocks():
        step("extend", lambda block=block: receiver.expand(block))  # type: ignore[misc]
        u, t = found[0]
        step("correct", lambda block=block: sender.expand(block))  # type: ignore[misc]
        q = found[0]
        for chunk in agreed.chunks_of(block):
            own = slice(chunk.start - block.start, chunk.stop - block.start)
            asked = chunk, u[own].tobytes(), q[own]
            step("correct", lambda asked=asked: sender.correct(*asked))  # type: ignore[misc]
            corrections, part = found[0]
            parts_r.append(part)
            answered = chunk, corrections, t[own]
            step("finish", lambda answered=answered: receiver.finish(*answered))  # type: ignore[misc]
            parts_t.append(found[0])

    def unmask() -> np.ndarray:
        t, r = ot_hamming.sums(agreed, parts_t), ot_hamming.sums(agreed, parts_r)
        return ot_hamming.unmask(t, r, pair.n_j, pair.n_k, pair.length)

    step("unmask", unmask)
    assert (found[0] == distances(x.astype(bool), b.astype(bool))).all()
    return times


def _one_bit_pair(pair: PairSize, bits: int, phe: ModuleType) -> dict[str, float]:
    """The seconds of each part of the pair with python-paillier, one bit per ciphertext; the distances are checked."""
    public, private = phe.generate_paillier_keypair(n_length=bits)
    b, x = pair.vectors()
    square, entropy = mpz(public.nsquare), Entropy.seeded(1, "one bit")
    ciphertexts: list[list[mpz]] = []
    results: list[list[tuple[mpz, int]]] = []
    found: list[list[int]] = []

    def encrypt() -> None:
        ciphertexts.extend([mpz(public.raw_encrypt(bit)) for bit in row] for row in b.tolist())

    def multiply() -> None:
        # h = |x| - sum_l b_l + 2 sum_{x_l=0} b_l
        totals = [gmpy2.invert(_product(row, square), square) for row in ciphertexts]
        for vector in x.tolist():
            zeros = [i for i, bit in enumerate(vector) if not bit]
            results.append([
                (_product([row[i] for i in zeros], square) ** 2 * total % square, sum(vector))
                for row, total in zip(ciphertexts, totals, strict=True)
            ])  # fmt: skip

    def mask_and_decrypt() -> None:
        for row in results:
            found.append([])
            for product, weight in row:
                mask = entropy.below(public.n)
                hidden = product * public.raw_encrypt((weight + mask) % public.n) % square
                found[-1].append((private.raw_decrypt(int(hidden)) - mask) % public.n)

    times = {"encrypt": timed(encrypt), "multiply": timed(multiply), "finish": timed(mask_and_decrypt)}
    assert found == distances(x.astype(bool), b.astype(bool)).tolist()
    return times


def _product(values: Sequence[mpz], modulus: mpz) -> mpz:
    product = mpz(1)
    for value in values:
        product = product * value % modulus
    return product


def _extrapolate(measured: dict[str, float], source: PairSize, target: PairSize) -> dict[str, float]:
    vectors = target.n_j / source.n_j
    pairs, length = vectors * target.n_k / source.n_k, target.length / source.length
    factors = {"encrypt": vectors * length, "multiply": pairs * length, "finish": pairs}
    return {name: seconds * factors[name] for name, seconds in measured.items()}
