"""The cost table: the seconds that each operation of the protocols takes on one core of this machine.

Each operation is measured in the protocols' own code, at the sizes that they use; the table has the least of several
repeats. `tacit.sim.compute.CostTable` reads the table.
"""

import pickle
import tomllib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import tomli_w
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from gmpy2 import mpz
from threadpoolctl import threadpool_limits

from tacit.benchmarks.measure import described, environment, seconds_each, timed
from tacit.parties.learning import jobs, table_work
from tacit.parties.learning.extras import MissingExtra
from tacit.parties.learning.vectors import average
from tacit.protocols.crypto import (
    curve_points,
    curve_powers,
    key_proof,
    naor_pinkas,
    ot_hamming,
    packed_hamming,
    paillier,
    prg,
    shamir,
)
from tacit.protocols.crypto import threshold_elgamal as elgamal
from tacit.protocols.crypto.agreement import KeyPair
from tacit.protocols.crypto.eightfold import eightfold, one_by_one
from tacit.protocols.crypto.fields import pack_fields, unpack_fields
from tacit.protocols.crypto.fixed_base import Comb, FixedBase, TableProducts, join, split_all
from tacit.protocols.crypto.groups import PowerTable, find_group
from tacit.protocols.crypto.mersenne import GF31, GF61
from tacit.protocols.crypto.ot_hamming import IknpReceiver, IknpSender, Pair
from tacit.protocols.privacy.rotated import Rotation, Rounding
from tacit.protocols.privacy.skellam import table_of
from tacit.protocols.xclp import graph, lsh
from tacit.sim.streams import Entropy, generator

__all__ = [
    "KEY_BITS",
    "check_word",
    "measure_costs",
    "measure_paillier",
    "measure_processors",
    "predicted",
    "update_costs",
    "write_costs",
]


# Oblivious transfer in the cost table: the groups, and the extension with the pads of a pair of clients.

GROUPS = ("p256", "modp-2048", "modp-2048-short", "modp-3072", "modp-3072-short")


def measure_group(name: str, quick: bool = False) -> dict[str, float]:
    """The seconds of the operations that the functions `*_work` of `naor_pinkas` count, for one group."""
    repeats, few = (3, 16) if quick else (9, 64)
    entropy = Entropy.seeded(1, "costs", name)
    plain, short, _ = name.partition("-short")
    group = find_group(plain, short_exponents=bool(short))
    exponents = [group.random_exponent(entropy) for _ in range(few)]
    elements = [group.generator_power(exponent) for exponent in exponents]
    encoded = [group.encode(element) for element in elements]
    g = elements[0]
    comb = group.comb(1000)
    table = PowerTable(group, g, comb)
    walks = np.arange(9 * few, dtype=np.int32).reshape(few, 3, 3) % few
    expand = naor_pinkas._Expander(group, b"", 16)

    def each(action: Callable[[], object], count: int = few) -> float:
        return seconds_each(action, count, repeats)

    multiply = each(lambda: group.walks(elements, walks), few * (3 * 3 + 2))
    encode = each(lambda: [group.encode(element) for element in elements])
    power = each(lambda: table.powers(exponents))
    seconds = {
        "random-element": each(lambda: [group.random_element(entropy) for _ in range(4)], 4),
        "power": each(lambda: group.powers(elements[:16], exponents[0]), 16),
        "generator-power": each(lambda: [group.generator_power(group.random_exponent(entropy)) for _ in exponents]),
        "multiply": multiply,
        # The overhead of a power by a table, in addition to its products and squarings.
        "table-power": max(1e-9, power - (comb.products + comb.squarings) * multiply),
        "table-entry": each(lambda: PowerTable(group, g, comb), comb.entries + comb.bits),
        "divide": each(lambda: group.quotients(g, elements)),
        "encode": encode,
        "decode": each(lambda: [group.decode(data) for data in encoded]),
        # The difference may be less than the noise of both, but a hash takes more than no time.
        "pad-block": max(1e-9, each(lambda: [expand.pad(7, True, element) for element in elements]) - encode),
    }
    return {f"{name}.{operation}": value for operation, value in seconds.items()}


def measure_extension(quick: bool = False) -> dict[str, float]:
    """The seconds of the operations that the functions `*_work` of `ot_hamming` count, for fields of 11 bits.

    Jobs of three sizes, each on new copies of the states like in a worker, give equations that are solved for each
    operation.
    """
    repeats = 3 if quick else 9
    solved: dict[str, float] = {}
    sizes = [_jobs(n_j, n_k, repeats) for n_j, n_k in ((1, 1), (8, 256), (504, 46))]
    for name, lines in (("extend", sizes[:2]), ("correct", sizes[1:]), ("finish", sizes[1:])):
        work = [getattr(ot_hamming, f"{name}_work")(pair, part) for pair, part, _ in lines]
        unknown = [op for op in work[0] if op not in solved and not op.startswith("fields")]
        rest = [
            times[name] - sum(solved.get(op, 0.0) * count for op, count in counts.items())
            for (_, _, times), counts in zip(lines, work, strict=True)
        ]
        matrix = np.array([[counts[op] for op in unknown] for counts in work], float)
        solved |= dict(zip(unknown, np.linalg.solve(matrix, rest).tolist(), strict=True))
    values = generator(1, "costs").integers(0, 2048, 1 << 18)
    packed = pack_fields(values, 11)
    solved["fields.pack"] = seconds_each(lambda: pack_fields(values, 11), len(values), repeats)
    solved["fields.unpack"] = seconds_each(lambda: unpack_fields(packed, 11, len(values)), len(values), repeats)
    return {name: max(1e-12, seconds) for name, seconds in solved.items()}


def _jobs(n_j: int, n_k: int, repeats: int) -> tuple[Pair, range, dict[str, float]]:
    """A pair, the range of k's `n_k` vectors, and the least seconds of each of the three jobs with them."""
    exponents, entropy, random = find_group("p256"), Entropy.seeded(1, "costs"), generator(1, "costs")
    b, x = (random.integers(0, 2, (n, 1024), dtype=np.uint8) for n in (n_j, n_k))
    pair = Pair(n_j, n_k, 1024, b"costs")
    key, setup = IknpReceiver.setup(pair, exponents, entropy)
    sender, request = IknpSender.start(pair, exponents, np.asfortranarray(b), setup, entropy)
    receiver = IknpReceiver.start(pair, key, x, request)
    part = range(n_k)
    (u, t), q = receiver.expand(part), sender.expand(part)
    corrections, _ = sender.correct(part, u.tobytes(), q)
    jobs: dict[str, tuple[object, Callable[..., object]]] = {
        "extend": (receiver, lambda state: state.expand(part)),
        "correct": (sender, lambda state: state.correct(part, u.tobytes(), q)),
        "finish": (receiver, lambda state: state.finish(part, corrections, t)),
    }
    times = {}
    for name, (state, action) in jobs.items():
        fresh = [pickle.loads(pickle.dumps(state)) for _ in range(repeats)]
        times[name] = min(timed(lambda copy=copy, action=action: action(copy)) for copy in fresh)  # type: ignore[misc]
    return pair, part, times


KEY_BITS = (512, 1024, 2048, 3072)

_POINTS, _BITS = 200, 1024


Measured = dict[str, float]

_NUMPY = ("lsh", "hamming", "aes", "ring", "graph", "solve")
_PAILLIER = tuple(f"paillier-{bits}" for bits in KEY_BITS)


def measure_costs(key_bits: Sequence[int] = KEY_BITS, quick: bool = False, only: str = "") -> Measured:
    """The seconds of every operation that the protocols count; `quick` repeats fewer times.

    `only`: the first word of the operations to measure, such as p256; by default all are measured. All but training are
    measured in several passes, since other load on the machine may spoil one. Without torch the operations of training
    are left out.
    """
    # The first words of names, and what measures these operations.
    parts: list[tuple[tuple[str, ...], Callable[[], Measured]]] = [
        (_NUMPY, lambda: _measure_numpy(3)),
        (("x25519",), lambda: _measure_agreement(3)),
        (("shamir",), lambda: _measure_sharing(3)),
        (("ed25519",), lambda: _measure_signing(3)),
        (("gf31", "gf61"), lambda: _measure_fields(3)),
        (("skellam", "rotation", "rounding"), lambda: _measure_noise(3)),
        (("elgamal",), lambda: _measure_elgamal(1 if quick else 3)),
        (_PAILLIER, one_by_one()(partial(_measure_keys, key_bits, quick, only))),
        *(((name,), partial(measure_group, name, quick)) for name in GROUPS),
        (("iknp", "fields"), lambda: measure_extension(quick)),
    ]
    chosen = [measure for words, measure in parts if not only or only in words]
    costs: Measured = {}
    with threadpool_limits(1):
        for _ in range(1 if quick else 4):
            measured = {name: seconds for measure in chosen for name, seconds in measure().items()}
            costs = {name: min(seconds, costs.get(name, seconds)) for name, seconds in measured.items()}
        if not only or not chosen:
            costs |= _measure_training(quick)
    return {name: seconds for name, seconds in costs.items() if only in ("", _word(name))}


def measure_processors(key_bits: Sequence[int] = KEY_BITS, quick: bool = False, only: str = "") -> dict[str, Measured]:
    """By name of a processor feature that this machine has, the seconds of the operations that the feature speeds
    up; `only` as in `measure_costs`."""
    if eightfold() is None or (only and only not in _PAILLIER):
        return {}
    costs: Measured = {}
    with threadpool_limits(1):
        for _ in range(1 if quick else 4):
            measured = _measure_keys(key_bits, quick, only)
            costs = {name: min(seconds, costs.get(name, seconds)) for name, seconds in measured.items()}
    return {"avx512-ifma": costs}


def _word(name: str) -> str:
    return name.partition(".")[0]


def _measure_keys(key_bits: Sequence[int], quick: bool, only: str) -> Measured:
    wanted = [bits for bits in key_bits if only in ("", f"paillier-{bits}")]
    return {name: seconds for bits in wanted for name, seconds in measure_paillier(bits, quick).items()}


def measure_paillier(bits: int, quick: bool = False) -> dict[str, float]:
    """The seconds of the operations that `packed_hamming` and `key_proof` count, for one length of keys."""
    repeats, few = (3, 64) if quick else (5, 256)
    entropy = Entropy.seeded(1, "costs", bits)
    keygen, key = _keygen(bits, 3 if quick else 30)
    public, n, square = key.public, key.public.n, key.public.square
    layout = packed_hamming.packing(bits, 10_000, _BITS)
    vectors = generator(1, "costs").integers(0, 2, (layout.slots, few), dtype=np.uint8)
    fresh = [pickle.loads(pickle.dumps(key)) for _ in range(repeats)]  # a copy without tables
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
        "keygen": keygen,
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


def _keygen(bits: int, count: int) -> tuple[float, paillier.PrivateKey]:
    """The mean seconds over `count` keys, since the search for primes takes a random time; and the last key."""
    entropy, keys = Entropy.seeded(1, "keys", bits), list[paillier.PrivateKey]()
    seconds = timed(lambda: keys.extend(paillier.generate(bits, entropy, insecure=True) for _ in range(count)))
    return seconds / count, keys[-1]


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


def _measure_elgamal(repeats: int) -> dict[str, float]:
    """The seconds of each operation on a ciphertext, among a few hundred, and of opening by the points of a holder."""
    entropy, count, needed, holders = Entropy.seeded(1, "elgamal"), 300, 20, 60
    commitments, shares = elgamal.deal(bytes(31) + b"\x07", needed, holders, entropy)
    key = elgamal.public_share(commitments, 0)
    publics = {x: elgamal.public_share(commitments, x) for x in range(1, needed + 1)}
    contexts, texts = [bytes([i % 256, i // 256]) for i in range(count)], [entropy.bytes(16) for _ in range(count)]
    ciphertexts = elgamal.encrypt(key, texts, contexts, entropy)
    sent = {x: elgamal.partial(shares[x - 1], ciphertexts, b"costs", entropy) for x in publics}
    held = {x: elgamal.verified(publics[x], ciphertexts, b"costs", sent[x]) for x in publics}
    jobs: dict[str, tuple[int, Callable[[], object]]] = {
        "encrypt": (count, lambda: elgamal.encrypt(key, texts, contexts, entropy)),
        "check": (count, lambda: elgamal.are_bound(key, ciphertexts, contexts)),
        "partial": (count, lambda: elgamal.partial(shares[0], ciphertexts, b"costs", entropy)),
        "verify": (count, lambda: elgamal.verified(publics[1], ciphertexts, b"costs", sent[1])),
        "open": (count * needed, lambda: elgamal.opened(ciphertexts, contexts, held)),
    }

    def fresh(job: Callable[[], object]) -> Callable[[], object]:
        def done() -> None:
            for kept in (elgamal._is_bound, curve_powers.decoded, curve_points._decoded_base):
                kept.cache_clear()  # a party meets each ciphertext once
            job()

        return done

    return {f"elgamal.{name}": seconds_each(fresh(job), times, repeats) for name, (times, job) in jobs.items()}


def _measure_sharing(repeats: int) -> dict[str, float]:
    """The seconds of sharing a key and a seed among a hundred clients."""
    secrets, entropy = [bytes(32), bytes(32)], Entropy.seeded(1, "sharing")
    (operations,) = shamir.split_work(32, 2, 51, 100).values()
    return {
        "shamir.multiply": seconds_each(lambda: shamir.split(secrets, 51, 100, entropy), operations, 10 * repeats),
    }


def _measure_fields(repeats: int) -> dict[str, float]:
    """The seconds of a multiplication in a product of matrices of field elements, and of an entry of either matrix."""
    random, columns, found = generator(1, "costs", "fields"), 1 << 15, dict[str, float]()
    for field in (GF31, GF61):
        counts, times = [], []
        for rows, inner in ((2, 2), (100, 50)):
            left, right = (
                random.integers(0, field.prime, shape, np.uint64) for shape in ((rows, inner), (inner, columns))
            )
            counts.append(field.times_work(rows, inner, columns))
            times.append(seconds_each(partial(field.times, left, right), 1, repeats))
        solved = np.linalg.solve([list(one.values()) for one in counts], times).tolist()
        found |= {name: max(1e-12, seconds) for name, seconds in zip(counts[0], solved, strict=True)}
    return found


def _measure_noise(repeats: int) -> dict[str, float]:
    """The seconds of drawing a number of Skellam noise, of an addition of a rotation, and of rounding a number."""
    numbers, entropy = 100_000, Entropy.seeded(1, "costs", "noise")
    vector = generator(1, "costs", "noise").standard_normal(numbers)
    rounding, rotation, drawn = Rounding(numbers, 1.0), Rotation(numbers, entropy.bytes(32)), table_of(_NOISE)
    rotation.forward(vector)  # draws the signs

    rotate = seconds_each(lambda: rotation.forward(vector), 1, repeats)
    whole = seconds_each(lambda: rounding.rounded(vector, Rotation(numbers, entropy.bytes(32)), entropy), 1, repeats)
    return {
        "skellam.draw": seconds_each(lambda: drawn.draw(numbers, entropy), numbers, repeats),
        "rotation.mix": rotate / rotation.mixes,
        "rounding.number": max(1e-12, (whole - rotate) / numbers),
    }


_NOISE = Fraction(100_000)
"""The variance of a client's noise: about 20 clients with 100,000 numbers, at epsilon 4 over 5 rounds."""


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
    vectors, repeats = [bytes(4 * 200_000)] * 10, 1 if quick else 3
    averaging = {"vector.add": seconds_each(lambda: average(vectors), 10 * 200_000, 3)}
    others = averaging | table_work.measure_costs(repeats, quick)
    try:
        jobs.require_torch()
    except MissingExtra:
        return others
    from tacit.parties.learning import fitting

    return others | fitting.measure_costs(repeats, quick)


def predicted(work: dict[str, int], costs: dict[str, float]) -> float:
    """The seconds of `work` by the table `costs`."""
    return sum(count * costs[name] for name, count in work.items())


def write_costs(path: Path, costs: dict[str, float], processors: Mapping[str, dict[str, float]]) -> None:
    """Write the cost table as TOML: `costs`, and for each of `processors` the entries that differ."""
    found = environment(
        ["gmpy2", "numpy", "scipy", "pycryptodome", "cryptography", "scikit-learn", "xgboost-cpu", "imodels", "torch"]
    )
    text = described(found)
    of_processors = {name: _rounded(own) for name, own in processors.items()}
    table = {"machine": {"text": f"one core of {text}"}, "seconds": _rounded(costs), "processors": of_processors}
    path.write_text(tomli_w.dumps(table))


def check_word(path: Path, only: str) -> None:
    """Raises ValueError unless the name of an operation in the cost table at `path` begins with the word `only`."""
    try:
        seconds = tomllib.loads(path.read_text()).get("seconds", {})
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    words = dict.fromkeys(map(_word, seconds))
    if only not in words:
        raise ValueError(f"{path} has no operations that begin with {only}; allowed: {', '.join(words)}")


def update_costs(path: Path, only: str, costs: Measured, processors: Mapping[str, Measured]) -> None:
    """Replace the entries of operations that begin with the word `only` in the cost table at `path`.

    The rest of the file stays as it is, but the machine's text names this machine for these operations. Raises
    ValueError for a file without the tables of `write_costs`.
    """
    found = environment(["numpy", "gmpy2", "pycryptodome", "cryptography"])
    here = f"of {only}: " + described(found)
    left = {"seconds": _rounded(costs)} | {f"processors.{name}": _rounded(own) for name, own in processors.items()}
    lines: list[str] = []
    section = ""
    for line in [*path.read_text().splitlines(), "["]:
        if line.startswith("["):
            rest = [f'"{name}" = {seconds}' for name, seconds in left.pop(section, {}).items()]
            end = next(place for place in range(len(lines), -1, -1) if not place or not _is_blank(lines[place - 1]))
            lines[end:end] = rest
            section = line.strip("[]")
        name = line.partition("=")[0].strip().strip('"')
        if section == "machine" and name == "text":
            texts = line.rstrip().removesuffix('"').split("; ")
            line = "; ".join([*(one for one in texts if not one.startswith(f"of {only}: ")), here]) + '"'
        elif _word(name) == only and name in left.get(section, {}):
            line = f'"{name}" = {left[section].pop(name)}'
        lines.append(line)
    if left:
        raise ValueError(f"{path}: no cost table: [{next(iter(left))}] is missing")
    path.write_text("\n".join(lines[:-1]) + "\n")


def _is_blank(line: str) -> bool:
    return not line or line.startswith("#")


def _rounded(costs: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{seconds:.4g}") for name, seconds in costs.items()}
