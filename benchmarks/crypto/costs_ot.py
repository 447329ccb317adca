"""The cost table's part of oblivious transfer: the groups, and the extension with the pads of a pair of clients."""

import pickle
from collections.abc import Callable

import numpy as np

from tacit.benchmarks.measure import seconds_each, timed
from tacit.protocols.crypto import naor_pinkas, ot_hamming
from tacit.protocols.crypto.fields import pack_fields, unpack_fields
from tacit.protocols.crypto.groups import PowerTable, find_group
from tacit.protocols.crypto.ot_hamming import IknpReceiver, IknpSender, Pair
from tacit.sim.streams import Entropy, generator

__all__ = ["GROUPS", "measure_extension", "measure_group"]

GROUPS = ("p256", "modp-2048", "modp-2048-short", "modp-3072", "modp-3072-short")


def measure_group(name: str, quick: bool = False) -> dict[str, float]:
    """The seconds of the operations that `naor_pinkas`'s *_work functions count, for one group."""
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
    entries, column = [group.identity, *elements], [list(range(1, few + 1))]
    expand = naor_pinkas._Expander(group, b"", 16)

    def each(action: Callable[[], object], count: int = few) -> float:
        return seconds_each(action, count, repeats)

    multiply = each(lambda: group.walk(entries, column * 8), 8 * (few + 1))
    encode = each(lambda: [group.encode(element) for element in elements])
    power = each(lambda: [table.power(exponent) for exponent in exponents])
    seconds = {
        "random-element": each(lambda: [group.random_element(entropy) for _ in range(4)], 4),
        "power": each(lambda: [group.power(g, exponent) for exponent in exponents[:4]], 4),
        "generator-power": each(lambda: [group.generator_power(group.random_exponent(entropy)) for _ in exponents]),
        "multiply": multiply,
        # The overhead of a power by a table beyond its products and squarings.
        "table-power": max(1e-9, power - (comb.products + comb.squarings) * multiply),
        "table-entry": each(lambda: PowerTable(group, g, comb), comb.entries + comb.bits),
        "divide": each(lambda: [group.divide(g, element) for element in elements]),
        "encode": encode,
        "decode": each(lambda: [group.decode(data) for data in encoded]),
        # The difference may be less than the noise of both, but a hash takes more than no time.
        "pad-block": max(1e-9, each(lambda: [expand.pad(7, True, element) for element in elements]) - encode),
    }
    return {f"{name}.{operation}": value for operation, value in seconds.items()}


def measure_extension(quick: bool = False) -> dict[str, float]:
    """The seconds of the operations that `ot_hamming`'s *_work functions count, for fields of 11 bits.

    Jobs of three sizes, each on new copies of the states as in a worker, give the equations that are solved for each
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
