"""Paillier and the packed SecureHamming of one pair, on one core, against other libraries.

Peers, each skipped when it is not installed: python-paillier (`phe`, with gmpy2) and HEU's ZPaillier (`sf-heu`, C++),
both by their raw integer calls, without encodings. Contenders take turns; a turn gives each one ratio, and the
median of the ratios is reported.

The pair is 200 x 200 vectors of 1,024 bits. Ours is everything from bits to distances but the key: the owner's tables,
encryption, evaluation with its tables and re-randomising, decryption, unmasking. The same pair with python-paillier
encrypts one bit a ciphertext; k multiplies the ciphertexts with x_l = 0, squares, divides by the product of all, adds
a mask and re-randomises by r^N, and j decrypts. It would take most of an hour, so it is measured on two smaller pairs
and extrapolated: encryption in proportion to n_j L, products to n_j n_k L, masking and decryption to n_j n_k. The
prediction of the larger pair from the smaller one is printed beside what was measured.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import gmpy2
import numpy as np
from gmpy2 import mpz
from rich.console import Console

from benchmarks.costs import measure_costs, measure_paillier, predicted, write_costs
from benchmarks.measure import Action, Standing, environment, print_standings, race, timed, write_json
from protocols.crypto import packed_hamming, paillier
from protocols.lsh import distances
from sim.streams import Entropy, generator

__all__ = ["main"]

_PACKAGES = ("gmpy2", "numpy", "phe", "sf-heu")


def main(quick: bool = False, json_file: Path | None = None, costs_file: Path | None = None) -> None:
    """Measure and print; `costs_file`: measure the cost table and write it there instead."""
    console = Console()
    if costs_file is not None:
        write_costs(costs_file, measure_costs(quick=quick))
        console.print(f"wrote {costs_file}")
        return
    found = environment(_PACKAGES)
    console.print(", ".join(f"{name} {version}" for name, version in found.items()) + "; one core")
    phe, heu = _peer("phe.paillier", console), _peer("heu.phe", console)
    standings: list[Standing] = []
    for bits in (2048,) if quick else (2048, 3072):
        rows = measure_primitives(bits, phe, heu, turns=3 if quick else 9)
        print_standings(f"Paillier, {bits}-bit modulus", rows, console)
        standings += rows
    pair = measure_pair(phe, quick, console)
    if json_file is not None:
        write_json(json_file, {"environment": found, "quick": quick, "pair": pair}, standings)


def _peer(module: str, console: Console) -> ModuleType | None:
    try:
        return importlib.import_module(module)
    except ImportError:
        console.print(f"{module} is not installed: skipped")
        return None


def measure_primitives(bits: int, phe: ModuleType | None, heu: ModuleType | None, turns: int) -> list[Standing]:
    """Key generation, encryption, decryption, addition, multiplication by a 62-bit number: ours and the peers'."""
    entropy = Entropy.seeded(1, "benchmark", bits)
    keys = {"Tacit": _ours(bits, entropy)}
    if phe is not None:
        keys["python-paillier"] = _python_paillier(bits, phe, entropy)
    if heu is not None:
        keys["HEU ZPaillier"] = _heu(bits, heu, entropy)
    tasks = ("generate", "encrypt", "decrypt", "add", "multiply")
    rows = []
    for task in tasks:
        contenders = {name: actions[task] for name, actions in keys.items()}
        if task == "encrypt":
            contenders["Tacit, public key only"] = keys["Tacit"]["encrypt, public"]
        rows += race(f"{bits} {task}", contenders, turns)
    return rows


Actions = dict[str, tuple[Action, int]]


def _repeat(action: Callable[..., object], count: int, *arguments: object) -> tuple[Action, int]:
    def run() -> None:
        for _ in range(count):
            action(*arguments)

    return run, count


def _ours(bits: int, entropy: Entropy) -> Actions:
    key = paillier.generate(bits, entropy)
    public = key.public
    messages = [entropy.below(int(public.n)) for _ in range(256)]
    a, b = key.encrypt_all(messages[:2], entropy)
    return {
        "generate": _repeat(paillier.generate, 3, bits, entropy),
        "encrypt": (lambda: key.encrypt_all(messages, entropy), len(messages)),
        "encrypt, public": _repeat(public.encrypt, 8, messages[0], entropy),
        "decrypt": _repeat(key.decrypt, 50, a),
        "add": _repeat(public.add, 5000, a, b),
        "multiply": _repeat(public.multiply_plain, 500, a, entropy.bits(62)),
    }


def _python_paillier(bits: int, phe: ModuleType, entropy: Entropy) -> Actions:
    public, private = phe.generate_paillier_keypair(n_length=bits)
    message = entropy.below(public.n // 4)
    a, b = public.raw_encrypt(message), public.raw_encrypt(1)
    number = phe.EncryptedNumber(public, a)
    return {
        "generate": _repeat(lambda: phe.generate_paillier_keypair(n_length=bits), 1),
        "encrypt": _repeat(public.raw_encrypt, 8, message),
        "decrypt": _repeat(private.raw_decrypt, 50, a),
        "add": _repeat(number._raw_add, 5000, a, b),
        "multiply": _repeat(number._raw_mul, 500, entropy.bits(62)),
    }


def _heu(bits: int, heu: ModuleType, entropy: Entropy) -> Actions:
    schema = heu.SchemaType.ZPaillier
    kit = heu.setup(schema, bits)
    encryptor, evaluator = kit.encryptor(), kit.evaluator()
    message = heu.Plaintext(schema, entropy.bits(bits - 3))
    a, b = encryptor.encrypt(message), encryptor.encrypt(message)
    return {
        "generate": _repeat(heu.setup, 1, schema, bits),
        "encrypt": _repeat(encryptor.encrypt, 256, message),
        "decrypt": _repeat(kit.decryptor().decrypt, 50, a),
        "add": _repeat(evaluator.add, 5000, a, b),
        "multiply": _repeat(evaluator.mul, 500, a, entropy.bits(62)),
    }


@dataclass(frozen=True)
class Pair:
    """Sizes of a pair: n_j and n_k vectors of `length` bits."""

    n_j: int
    n_k: int
    length: int

    def vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Random bits of j and of k."""
        random = generator(1, "benchmark", self.n_j, self.n_k, self.length)
        j, k = (random.integers(0, 2, (n, self.length), dtype=np.uint8) for n in (self.n_j, self.n_k))
        return j, k


_PAIR = Pair(200, 200, 1024)


def measure_pair(phe: ModuleType | None, quick: bool, console: Console) -> dict[str, object]:
    """The whole pair, packed, against python-paillier with one bit a ciphertext; and against our own cost model."""
    repeats, bits = 3, 2048
    key = paillier.generate(bits, Entropy.seeded(1, "benchmark", "pair"))
    runs = [_packed_pair(_PAIR, key, i) for i in range(repeats)]
    ours = min(runs, key=lambda run: sum(run.values()))
    total = sum(ours.values())
    parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in ours.items())
    console.print(f"pair {_PAIR}, {bits} bits, packed: {total:.2f} s ({parts})")
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
        small, large = (Pair(20, 20, 8), Pair(20, 20, 16)) if quick else (Pair(20, 20, 32), Pair(30, 30, 64))
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


def _packed_pair(pair: Pair, key: paillier.PrivateKey, index: int) -> dict[str, float]:
    """Seconds of each part of a whole pair; the distances are checked."""
    b, x = pair.vectors()
    entropy, n = Entropy.seeded(index, "pair"), int(key.public.n)
    fresh = paillier.generate(key.public.bits, Entropy.seeded(1, "benchmark", "pair"))  # without tables
    found: list = []

    def step(action: Callable[[], object]) -> float:
        return timed(lambda: found.append(action()))

    times = {"encode": step(lambda: packed_hamming.encode(fresh, b, entropy.child("j")))}
    times["evaluate"] = step(lambda: packed_hamming.evaluate(key.public, found[0], pair.n_j, x, entropy.child("k")))
    times["decrypt"] = step(lambda: packed_hamming.decrypt(fresh, found[1][0]))
    times["unmask"] = step(lambda: packed_hamming.unmask(n, found[2], found[1][1], pair.n_j, pair.n_k, pair.length))
    assert (found[3] == distances(x.astype(bool), b.astype(bool))).all()
    return times


def _one_bit_pair(pair: Pair, bits: int, phe: ModuleType) -> dict[str, float]:
    """Seconds of each part of the pair with python-paillier, one bit a ciphertext; the distances are checked."""
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


def _extrapolate(measured: dict[str, float], source: Pair, target: Pair) -> dict[str, float]:
    vectors = target.n_j / source.n_j
    pairs, length = vectors * target.n_k / source.n_k, target.length / source.length
    factors = {"encrypt": vectors * length, "multiply": pairs * length, "finish": pairs}
    return {name: seconds * factors[name] for name, seconds in measured.items()}
