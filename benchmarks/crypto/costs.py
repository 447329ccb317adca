"""The cost table: seconds that each operation of the protocols takes on one core of this machine.

Each operation is measured in the protocols' own code at the sizes they use; the table holds the least of several
repeats. `tacit.sim.compute.CostTable` reads it.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tomli_w
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from gmpy2 import mpz
from threadpoolctl import threadpool_limits

from tacit.benchmarks.crypto.costs_ot import GROUPS, measure_extension, measure_group
from tacit.benchmarks.measure import environment, seconds_each, timed
from tacit.parties.learning import MissingExtra, average, jobs, table_work
from tacit.protocols.crypto import key_proof, packed_hamming, paillier, prg, shamir
from tacit.protocols.crypto.agreement import KeyPair
from tacit.protocols.crypto.eightfold import eightfold, one_by_one
from tacit.protocols.crypto.fixed_base import Comb, FixedBase, TableProducts, join, split_all
from tacit.protocols.xclp import graph, lsh
from tacit.sim.streams import Entropy, generator

__all__ = ["KEY_BITS", "measure_costs", "measure_paillier", "measure_processors", "predicted", "write_costs"]

KEY_BITS = (512, 1024, 2048, 3072)

_POINTS, _BITS = 200, 1024


def measure_costs(key_bits: Sequence[int] = KEY_BITS, quick: bool = False) -> dict[str, float]:
    """The seconds of every operation that the protocols count, one by one; `quick` repeats less.

    All are measured in several passes, as other load on the machine may spoil one. Without torch those of training are
    left out.
    """
    costs: dict[str, float] = {}
    with threadpool_limits(1):
        for _ in range(1 if quick else 4):
            measured = _measure_numpy(3) | _measure_agreement(3) | _measure_sharing(3) | _measure_signing(3)
            with one_by_one():
                measured |= _measure_keys(key_bits, quick)
            for name in GROUPS:
                measured |= measure_group(name, quick)
            measured |= measure_extension(quick)
            costs = {name: min(seconds, costs.get(name, seconds)) for name, seconds in measured.items()}
        return costs | _measure_training(quick)


def measure_processors(key_bits: Sequence[int] = KEY_BITS, quick: bool = False) -> dict[str, dict[str, float]]:
    """For each processor that this machine is like, the seconds of those operations that it makes faster."""
    if eightfold() is None:
        return {}
    costs: dict[str, float] = {}
    with threadpool_limits(1):
        for _ in range(1 if quick else 4):
            measured = _measure_keys(key_bits, quick)
            costs = {name: min(seconds, costs.get(name, seconds)) for name, seconds in measured.items()}
    return {"avx512-ifma": costs}


def _measure_keys(key_bits: Sequence[int], quick: bool) -> dict[str, float]:
    return {name: seconds for bits in key_bits for name, seconds in measure_paillier(bits, quick).items()}


def measure_paillier(bits: int, quick: bool = False) -> dict[str, float]:
    """The seconds of the operations that `packed_hamming` and `key_proof` count, for one length of keys."""
    repeats, few = (3, 64) if quick else (5, 256)
    entropy = Entropy.seeded(1, "costs", bits)
    key = paillier.generate(bits, entropy, insecure=True)
    public, n, square = key.public, key.public.n, key.public.square
    layout = packed_hamming.packing(bits, 10_000, _BITS)
    vectors = generator(1, "costs").integers(0, 2, (layout.slots, few), dtype=np.uint8)
    fresh = [pickle.loads(pickle.dumps(key)) for _ in range(repeats)]  # without tables
    ciphertexts = packed_hamming.encode(key, vectors, entropy)
    received = public.ciphertexts_from_bytes(ciphertexts, few)
    masked = ciphertexts[: 32 * public.ciphertext_bytes]
    parts = split_all(received[:8], n)
    table = FixedBase(public.residue(entropy), n, Comb(6, 100, 1))
    proved = key_proof.prove(key, b"costs")
    plain = bytes(few * public.plaintext_bytes)

    def mask() -> None:
        product = received[0]
        for _ in range(few):
            r = mpz(entropy.below(int(n)))
            product = product * product % square * product % square * product % square
            join(product, r + r, n, square).to_bytes(public.ciphertext_bytes, "big")
            r.to_bytes(public.plaintext_bytes, "big")

    def squarings() -> None:
        value = received[0]
        for _ in range(few):
            value = value * value % square

    encrypt = seconds_each(lambda: packed_hamming.encode(key, vectors, entropy), few, repeats)
    first = min(timed(lambda copy=copy: copy.encrypt(0, entropy)) for copy in fresh)  # type: ignore[misc]
    seconds = {
        "keygen": _keygen(bits, 8 if quick else 30),
        "encrypt": encrypt,
        "encrypt-table": first - encrypt,
        "proof-root": seconds_each(lambda: key_proof.prove(key, b"costs"), key_proof.ROOTS, repeats),
        "proof-check": seconds_each(lambda: key_proof.verify(proved, bits, b"costs"), key_proof.ROOTS, repeats),
        "decrypt": seconds_each(lambda: packed_hamming.decrypt(key, masked), 32, repeats),
        "power": seconds_each(lambda: public.residue(entropy), 1, repeats),
        "square": seconds_each(squarings, few, repeats),
        "split": seconds_each(lambda: split_all(public.ciphertexts_from_bytes(ciphertexts, few), n), few, repeats),
        "table-entry": seconds_each(lambda: TableProducts([parts] * 4, n), 4 * 256, repeats),
        "table-multiply": seconds_each(
            lambda: list(table.random_powers(16, entropy)), 16 * table.comb.products, repeats
        ),
        "mask": seconds_each(mask, few, repeats),
        "unmask": seconds_each(
            lambda: packed_hamming.unmask(int(n), plain, plain, layout.slots, few, _BITS), few, repeats
        ),
    }
    return {f"paillier-{bits}.{name}": value for name, value in seconds.items()}


def _keygen(bits: int, keys: int) -> float:
    """The mean seconds over `keys` keys, as the search for primes takes a random time."""
    entropy = Entropy.seeded(1, "keys", bits)
    return timed(lambda: [paillier.generate(bits, entropy, insecure=True) for _ in range(keys)]) / keys


def _measure_agreement(repeats: int) -> dict[str, float]:
    entropy = Entropy.seeded(1, "agreement")
    pair, peer = KeyPair.generate(entropy), KeyPair.generate(entropy).public
    return {
        "x25519.keygen": seconds_each(lambda: [KeyPair.generate(entropy) for _ in range(20)], 20, repeats),
        "x25519.agree": seconds_each(lambda: [pair.agree(peer) for _ in range(20)], 20, repeats),
    }


def _measure_signing(repeats: int) -> dict[str, float]:
    """The seconds of signing and verifying a statement of a few hundred bytes."""
    key, text = Ed25519PrivateKey.from_private_bytes(bytes(32)), bytes(300)
    public, signature = key.public_key(), key.sign(text)
    return {
        "ed25519.sign": seconds_each(lambda: [key.sign(text) for _ in range(20)], 20, repeats),
        "ed25519.verify": seconds_each(lambda: [public.verify(signature, text) for _ in range(20)], 20, repeats),
    }


def _measure_sharing(repeats: int) -> dict[str, float]:
    """The seconds of sharing a key and a seed among a hundred clients."""
    secrets, entropy = [bytes(32), bytes(32)], Entropy.seeded(1, "sharing")
    (operations,) = shamir.split_work(32, 2, 51, 100).values()
    return {
        "shamir.multiply": seconds_each(lambda: shamir.split(secrets, 51, 100, entropy), operations, 10 * repeats),
    }


def _measure_numpy(repeats: int) -> dict[str, float]:
    """The seconds of hashing, plain distances, masks, the graph and its solution."""
    random = generator(1, "costs", "numpy")
    features, planes = random.standard_normal((_POINTS, 784)), random.standard_normal((_BITS, 784))
    bits = random.integers(0, 2, (_POINTS, _BITS), dtype=np.uint8).astype(np.bool_)
    words, count = prg.words, 200_000
    left, right = (random.integers(0, 2**63, count, dtype=np.uint64) for _ in range(2))
    # Points in clusters, so that the graph has as many edges as one of real data.
    points = random.standard_normal((2000, 16)) + 4 * random.standard_normal((20, 16)).repeat(100, axis=0)
    distances = lsh.distances(*[lsh.hash_bits(points, random.standard_normal((_BITS, 16)))] * 2)

    def solve() -> graph.Influence:
        return graph.Influence(graph.neighbour_graph(distances, _BITS, 10), 0.99)

    solver = solve()
    columns = np.arange(100)
    actions: dict[str, tuple[Callable[[], object], int]] = {
        "lsh.multiply": (lambda: features @ planes.T, features.size * len(planes)),
        "hamming.word": (lambda: lsh.distances(bits, bits), _POINTS * _POINTS * _BITS // 64),
        "aes.byte": (lambda: words(bytes(32), 0, count), 8 * count),
        "ring.add": (lambda: np.add(left, right, out=left), count),
        "graph.entry": (solve, distances.size),
        "solve.entry": (lambda: solver.columns(columns), len(points) * len(columns)),
    }
    return {name: seconds_each(action, size, repeats) for name, (action, size) in actions.items()}


def _measure_training(quick: bool) -> dict[str, float]:
    """The seconds of averaging models, of trees and rules and, with torch, of networks, fitted to whole jobs."""
    vectors = [bytes(4 * 200_000)] * 10
    averaging = {"vector.add": seconds_each(lambda: average(vectors), 10 * 200_000, 3)}
    others = averaging | table_work.measure_costs(3, quick)
    try:
        jobs.require_torch()
    except MissingExtra:
        return others
    from tacit.parties.learning import work

    return others | work.measure_costs(3, quick)


def predicted(work: dict[str, int], costs: dict[str, float]) -> float:
    """The seconds of `work` by the table `costs`."""
    return sum(count * costs[name] for name, count in work.items())


def write_costs(path: Path, costs: dict[str, float], processors: Mapping[str, dict[str, float]]) -> None:
    """Write the cost table as TOML: `costs`, and for each of `processors` what differs there."""
    found = environment(
        ["gmpy2", "numpy", "scipy", "pycryptodome", "cryptography", "scikit-learn", "xgboost-cpu", "imodels", "torch"]
    )
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    of_processors = {name: _rounded(own) for name, own in processors.items()}
    table = {"machine": {"text": f"one core of {text}"}, "seconds": _rounded(costs), "processors": of_processors}
    path.write_text(tomli_w.dumps(table))


def _rounded(costs: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{seconds:.4g}") for name, seconds in costs.items()}
