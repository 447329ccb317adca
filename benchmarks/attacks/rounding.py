"""A lying server that calls clients with a model so large that rounding takes their noise off.

Float32 numbers of magnitude 1.5 * 2^17 are 1/64 apart. Where a client rounds model, change and noise together to
float32, a part of the noise that is small against this distance becomes 0, and a change of the clip's length stays.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tacit.benchmarks.attacks.finding import Finding, randomness
from tacit.parties.learning.vectors import decode, encode
from tacit.protocols.crypto import fixed_point
from tacit.protocols.federated.dp_fedavg import Clipped
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.noise import gaussian
from tacit.protocols.privacy.rotated import Rounding, centred
from tacit.protocols.privacy.skellam import table_of
from tacit.sim.streams import Entropy

__all__ = ["FALSE_MODEL", "noise_of_changes_rounded_away", "noise_rounded_away"]

FALSE_MODEL = 1.5 * 2**17  # within the range of a sum of 10,000 clients
_APART = 1 / 64  # the distance of its float32 neighbours
_CLIENTS = 10_000
_MULTIPLIER = 20.0
_CLIP = _APART / 1.8  # with noise of .2 clips a client, what is beyond .9 clips is rounded up
_BITS = 32


def _rounded(private: Clipped, change: NDArray[np.float64], entropy: Entropy) -> NDArray[np.float64]:
    """The parts of clients that round model, `change` and noise together, less the model."""
    noise = private.own_deviation(_CLIENTS - 1) * gaussian(change.shape, entropy)
    start = np.full(change.shape, FALSE_MODEL)
    return decode(encode(start + change + noise)).astype(np.float64) - start


def _in_words(private: Clipped, change: NDArray[np.float64], entropy: Entropy) -> NDArray[np.float64]:
    """The same by the production code, which adds noise to the words of the sum; only its refusal is left out.

    Each number is the part of another client, so none is clipped.
    """
    start = np.full(change.shape, FALSE_MODEL, np.float32)
    trained = (start.astype(np.float64) + change).astype(np.float32)
    arguments = encode(start), encode(trained), _CLIENTS - 1, _BITS, _CLIENTS, entropy
    return fixed_point.decode(
        private.words(*arguments) - fixed_point.encode(start.astype(np.float64), _BITS, _CLIENTS), _BITS
    )


def noise_rounded_away(quick: bool = False) -> Finding:
    """The server reads a client's label, which decides the sign of its change, from the sum over 10,000 clients.

    The others do not train: only their noise, of 20 clips in the sum, hides the label.
    """
    trials = 300 if quick else 600
    labels = randomness("rounding").integers(2, size=trials)
    private = Clipped(_CLIP, _MULTIPLIER, "clients")

    def read(parts: object) -> float:
        right = 0
        for trial, label in enumerate(labels):
            # The first number is the part of the client; each other one stands for the part of another client.
            change = np.zeros(_CLIENTS)
            change[0] = _CLIP * (1 if label else -1)
            if parts is _in_words:  # its change is a multiple of 1/64, as the model, and longer than the clip
                change[0] = _APART * (1 if label else -1)
            total = float(parts(private, change, Entropy.seeded(trial, "rounding")).sum())  # type: ignore[operator]
            guess = total > 0 if total else bool(trial % 2)
            right += guess == bool(label)
        return right / trials

    remark = "clients also refuse such a model; here that refusal is left out of both copies"
    found = read(_rounded), read(_in_words)
    return Finding("noise that the model rounds away", "server: a client's label under its noise", *found, 0.5, trials,
                   stated=0.75, remark=remark)  # fmt: skip


_FEWER_CLIENTS = 2_000
_EPSILON = 1.0


def noise_of_changes_rounded_away(quick: bool = False) -> Finding:
    """The same with removable noise (`privacy.noise = "skellam"`), at epsilon 1 for a sum over 2,000 clients.

    In the weakened copy clients add the noise to their models and round both to float32. The model is 1.5 * 2^17 in its
    only number; a client's noise is so small against 1/64 that it is rounded away, and the change is not.
    """
    trials = 200 if quick else 400
    labels = randomness("rounded changes").integers(2, size=trials)
    noise = Distributed(Rounding(1, _CLIP), _EPSILON, 1e-5, 1, _FEWER_CLIENTS, 1, 0)
    private = Clipped(_CLIP, 0.0, "clients", noise)
    table = table_of(noise.parts(_FEWER_CLIENTS).variances[0])
    own = noise.deviation / (_FEWER_CLIENTS - 1) ** 0.5
    start = encode(np.full(1, FALSE_MODEL))

    def from_models(trial: int, sign: int) -> float:
        entropy = Entropy.seeded(trial, "rounded models")
        changes = np.zeros(_FEWER_CLIENTS)
        changes[0] = sign * _CLIP
        models = decode(encode(FALSE_MODEL + changes + own * gaussian(changes.shape, entropy)))
        return float((models.astype(np.float64) - FALSE_MODEL).sum())

    def from_changes(trial: int, sign: int) -> float:
        entropy = Entropy.seeded(trial, "rounded changes")
        trained = encode(np.full(1, FALSE_MODEL + sign * _APART))
        words = private.rounded(start, trained, b"run", 1, entropy)
        total = centred(words, noise.word_bits) + table.draw(_FEWER_CLIENTS - 1, entropy).sum()  # the last one colludes
        return float(noise.rotation(b"run", 1).backward(total.astype(np.float64)).sum())

    def read(seen: Callable[[int, int], float]) -> float:
        guesses = [seen(trial, 1 if label else -1) > 0 for trial, label in enumerate(labels)]
        return float(np.mean([guess == bool(label) for guess, label in zip(guesses, labels, strict=True)]))

    found = read(from_models), read(from_changes)
    return Finding("noise of changes that the model rounds away", "server: a client's label under its noise", *found,
                   0.5, trials, stated=0.75)  # fmt: skip
