"""An audit of the stated epsilon by a membership game on a worst-case pair, and of too little noise."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import beta

from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.gaussian import epsilon_of
from tacit.protocols.privacy.removable import Seeds
from tacit.protocols.privacy.rotated import Rounding, centred
from tacit.sim.streams import Entropy

RUNS, NUMBERS, DELTA = 5000, 64, 1e-5


def guesses(noise: Distributed, runs: int, *, size: float = 1.0) -> tuple[int, int, int]:
    """The right and wrong guesses of "plus" in `runs` sums, and the number of sums with plus.

    One client has the change +c or -c in one number, replaced as a coin shows; the others have none. One of six clients
    colludes: it adds no noise, and shows its vector. One more is lost, and the others reveal the noise that is not
    needed. `size` multiplies the noise that is left.
    """
    clients, lost = noise.clients, 1
    parts = noise.parts(clients)
    honest = clients - lost - noise.colluding
    change = np.zeros(NUMBERS)
    change[3] = noise.rounding.clip
    entropy = Entropy.seeded(7, str(noise.epsilon), str(size))
    rotation = noise.rotation(b"audit", 1)
    direction = rotation.forward(change)
    right = wrong = plus = 0
    for _ in range(runs):
        coin = entropy.bits(1)
        words = noise.rounded(change if coin else -change, b"audit", 1, entropy)
        seeds = [Seeds.drawn(parts, entropy) for _ in range(honest)]
        if size == 1.0:
            for one in seeds:
                words = noise.words(words, one)
            words = noise.removed(words, parts, lost, [one.revealed(lost) for one in seeds])
            total = centred(words, noise.word_bits).astype(float)
        else:
            left = sum(centred(noise.removed(noise.words(0 * words, one), parts, lost, [one.revealed(lost)]),
                               noise.word_bits) for one in seeds)  # fmt: skip
            total = centred(words, noise.word_bits) + size * left
        guess = float(total @ direction) > 0
        plus += coin
        right += guess and coin == 1
        wrong += guess and coin == 0
    return right, wrong, plus


def least_epsilon(right: int, wrong: int, plus: int, runs: int) -> float:
    """The lower bound (95%) on epsilon at DELTA: by that on mu of Gaussian privacy, whose trade-off this nearly is.

    Nasr et al., Tight auditing of differentially private machine learning, USENIX Security 2023, section 4.3.
    """
    true = beta.ppf(0.025, right, plus - right + 1)
    false = beta.ppf(0.975, wrong + 1, runs - plus - wrong)
    mu = ndtri(true) - ndtri(false)
    return epsilon_of(mu, DELTA) if mu > 0 else 0.0


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_membership_game_does_not_refute_the_stated_epsilon_and_refutes_half_the_noise(epsilon: float) -> None:
    """Half the noise is what a sensitivity of D2, that of data left out, would give for replaced data."""
    noise = Distributed(Rounding(NUMBERS, 1.0), epsilon, DELTA, 1, 6, 1, 2)
    found = least_epsilon(*guesses(noise, RUNS), RUNS)
    assert 0.3 * epsilon < found < epsilon
    assert least_epsilon(*guesses(noise, RUNS, size=0.5), RUNS) > epsilon
