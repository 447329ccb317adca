"""The privacy that randomised hash bits and labels of a run spend.

Labels: each is epsilon-differentially private, delta = 0, over the whole run, however often it is used.

Hashes: anybody who knows the planes sees b XOR flips for each point. Two points at the angle theta differ in Bin(L R,
theta / pi) bits of R rounds with planes of their own, and except with probability delta over the planes in at most q of
them, the upper quantile. So their answers are (eps q, delta)-indistinguishable: extended differential privacy for the
angular distance (Fernandes, Kawamoto, Murakami, ESORICS 2021). For one whole vector against any other it is eps L R.
"""

import math
from collections.abc import Callable

import scipy
from msgspec import Struct, structs

from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.privacy.spending import SEEDED
from tacit.protocols.privacy.xor_mechanism import flip_probability
from tacit.sim.labelled import Labelled

__all__ = [
    "ANGLES", "DELTA", "Randomised", "Releasing", "differing_bits", "flip_of", "nothing_released", "opened",
    "randomised_lines", "released", "with_rounds_again",
]  # fmt: skip

ANGLES = (1, 5, 10, 30, 60)
"""The angles in degrees between two points for which the result is stated."""

DELTA = 1e-6
"""The probability over the planes that more bits differ than counted."""


class Randomised(Struct, kw_only=True, frozen=True):
    """The privacy that labels and hash bits under randomised response spend; None for what is not randomised.

    `label_epsilon` is the epsilon of each label, `hash_epsilon` that of each bit; each of `rounds` rounds has
    `hash_bits` bits with new planes. `angles` maps the degrees between two points to epsilon at `delta` over all
    rounds; `differing` maps them to the most bits that differ. `whole_vector`: epsilon between any two points, with
    delta = 0. `reconstruction`: the cosine to each point that an attacker with the planes reaches, by `opened`. It is
    `guaranteed` unless `caveats` has reasons against it.
    """

    label_epsilon: float | None = None
    label_kept: float | None = None
    hash_epsilon: float | None = None
    hash_flip: float | None = None
    hash_bits: int = 0
    rounds: int = 0
    delta: float = DELTA
    angles: dict[str, float] = {}
    differing: dict[str, int] = {}
    whole_vector: float | None = None
    reconstruction: float | None = None
    guaranteed: bool = True
    caveats: tuple[str, ...] = ()


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


Releasing = Callable[[int], Randomised | None]
"""A function from the number of rounds with separate planes to the privacy that randomised answers spend."""


def nothing_released(rounds: int) -> None:
    """Return None: nothing is randomised."""


def randomised_lines(found: Randomised | None) -> list[Labelled]:
    """The lines that a run prints about randomised answers."""
    if found is None:
        return []
    lines = []
    if found.label_epsilon is not None:
        once = f"kept with probability {found.label_kept:.4g}, once for all rounds and uses"
        lines.append(Labelled("labels", f"epsilon = {found.label_epsilon:g} each, delta = 0; {once}"))
    if found.hash_epsilon is not None:
        many = f"{found.rounds} round{'s' * (found.rounds != 1)} of {found.hash_bits:,} bits"
        flip = f"each flips with probability {found.hash_flip:.4g}"
        lines.append(Labelled("hashes", f"epsilon = {found.hash_epsilon:g} a bit, {many}; {flip}"))
        shown = ", ".join(f"{value:,.4g} at {angle}°" for angle, value in found.angles.items())
        lines.append(Labelled("", f"between two points an angle apart, delta = {found.delta:g}: epsilon = {shown}"))
        whole = f"epsilon = {found.whole_vector:,.4g}: none is hidden as such"
        lines.append(Labelled("", f"of one point against any other {whole}"))
        if found.reconstruction is not None:
            cosine = f"{found.reconstruction:.3f} to each point, or better"
            known = "hashes with the planes, which every client knows"
            lines.append(Labelled("", f"{known}, give vectors of cosine {cosine}"))
        lines.append(Labelled("", "against whoever sees the hashes, the server among them; not of what else is sent"))
    return lines + [Labelled("", f"NO guarantee: {caveat}", warns=True) for caveat in found.caveats]
