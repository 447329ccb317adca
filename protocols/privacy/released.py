"""The privacy that randomised hash bits and labels of a run spend.

Labels: each is epsilon-differentially private, delta = 0, over the whole run, however often it is used.

Hashes: anybody who knows the planes sees b XOR flips for each point. Two points at the angle theta differ in Bin(L R,
theta / pi) bits of R rounds with planes of their own, and except with probability delta over the planes in at most q of
them, the upper quantile. So their answers are (eps q, delta)-indistinguishable: extended differential privacy for the
angular distance (Fernandes, Kawamoto, Murakami, ESORICS 2021). For one whole vector against any other it is eps L R.
"""

import math

import scipy
from msgspec import structs

from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.privacy.spent import DELTA, SEEDED, Randomised
from tacit.protocols.privacy.xor_mechanism import flip_probability

__all__ = [
    "ANGLES", "differing_bits", "flip_of", "opened", "released", "with_rounds_again",
]  # fmt: skip

ANGLES = (1, 5, 10, 30, 60)
"""The angles in degrees between two points for which the result is stated."""


def flip_of(privacy: Privacy) -> float:
    """The probability with which each hash bit flips; 0 if bits are not randomised."""
    return 0.0 if privacy.hash_epsilon == "none" else flip_probability(privacy.hash_epsilon, 1)


def differing_bits(bits: int, degrees: float, delta: float) -> int:
    """The least q such that two points `degrees` apart differ in more than q of `bits` with probability <= `delta`."""
    if not 0 <= degrees <= 180:
        raise ValueError(f"degrees(={degrees}) must lie in [0, 180].")
    low, high = 0, bits
    while low < high:  # P(Bin > q) falls with q
        middle = (low + high) // 2
        if middle == bits or scipy.special.bdtrc(middle, bits, degrees / 180) <= delta:
            high = middle
        else:
            low = middle + 1
    return low


def opened(flip: float, bits: int, features: int) -> float:
    """The cosine between a point of d `features` and the sum of the planes with the signs of its `bits`.

    This is the simplest reconstruction by a server that gets the planes from a client. For a unit vector v and L planes
    a_l the sum has the mean L c v, c = (1 - 2 `flip`) sqrt(2 / pi), and the variance L across v in each of d - 1
    directions, so the cosine is about 1 / sqrt(1 + (d - 1) / (L c^2)). Knowledge of the points' distribution improves
    it.
    """
    signal = (1 - 2 * flip) * math.sqrt(2 / math.pi)
    return signal / math.sqrt(signal**2 + (features - 1) / bits)


def released(
    privacy: Privacy, entropy: str, classes: int, bits: int, rounds: int, *, features: int = 0
) -> Randomised | None:
    """The privacy spent by the randomised labels of `classes` classes, and by hashes of L `bits` in `rounds` rounds.

    `bits` is 0 if nothing is hashed; `features` is given if points differ in each round. None if nothing is randomised.
    """
    label = None if privacy.label_epsilon == "none" else privacy.label_epsilon
    flip = flip_of(privacy) if bits and rounds else 0.0
    if label is None and not flip:
        return None
    caveats = (SEEDED,) if entropy == "seeded" else ()
    kept = None if label is None else 1 / (1 + (classes - 1) * math.exp(-label))
    found = Randomised(label_epsilon=label, label_kept=kept, guaranteed=not caveats, caveats=caveats)
    if not flip:
        return found
    bit = float(privacy.hash_epsilon)
    differing = {str(angle): differing_bits(bits * rounds, angle, DELTA) for angle in ANGLES}
    return Randomised(
        label_epsilon=label,
        label_kept=kept,
        hash_epsilon=bit,
        hash_flip=flip,
        hash_bits=bits,
        rounds=rounds,
        angles={angle: bit * count for angle, count in differing.items()},
        differing=differing,
        whole_vector=bit * bits * rounds,
        reconstruction=opened(flip, bits * rounds, features) if features else None,
        guaranteed=not caveats,
        caveats=caveats,
    )


def with_rounds_again(found: Randomised | None, again: int) -> Randomised | None:
    """The privacy spent if hashes of up to `again` rounds may have been sent twice, with other planes.

    They are counted as further rounds, and nothing is guaranteed; labels are the same in each answer.
    """
    if found is None or found.hash_epsilon is None or not again:
        return found
    bit, before, rounds = found.hash_epsilon, found.hash_bits * found.rounds, found.rounds + again
    differing = {angle: differing_bits(found.hash_bits * rounds, float(angle), found.delta) for angle in found.angles}
    cosine = found.reconstruction
    if cosine is not None:  # as in `opened`: 1 / cosine^2 - 1 falls with the number of bits
        cosine = 1 / math.sqrt(1 + (1 / cosine**2 - 1) * before / (found.hash_bits * rounds))
    caveat = f"the run was broken off and went on: hashes of up to {again} rounds may have been sent a second time, "
    return structs.replace(
        found,
        rounds=rounds,
        angles={angle: bit * count for angle, count in differing.items()},
        differing=differing,
        whole_vector=bit * found.hash_bits * rounds,
        reconstruction=cosine,
        guaranteed=False,
        caveats=(*found.caveats, f"{caveat}under other planes; these are counted"),
    )
