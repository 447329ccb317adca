"""An audit of private cells by canaries: empirical lower bounds on mu and epsilon, from repeated runs.

One point is either at +S or at -S in some direction, with one of two labels. The attacker knows all other points, and
the noise of the clients that collude. It sees all releases of a run, and sums the log-likelihood ratio of each, given
the previous ones, which is the best test. Its errors in n runs with either canary give, by Clopper and Pearson at
confidence 0.95 for both rates together, upper bounds a >= P(false alarm) and b >= P(miss). A mechanism that is mu-GDP
has Phi^-1(1 - a) - Phi^-1(b) <= mu for every test (Dong, Roth, Su 2022, definition 4; Nasr et al., Tight auditing of
differentially private machine learning, USENIX Security 2023). One that is (epsilon, delta)-DP has ln((1 - delta - b) /
a) <= epsilon. A lower bound above the stated value refutes it; a lower one proves nothing.

The runs use the code of the clients and the server (`tacit.protocols.cells.mechanism`); sums are taken in the clear.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import beta

from tacit.benchmarks.attacks.finding import randomness
from tacit.protocols.cells.mechanism import Known, Plan, first_centres, mean_of, moved, summand
from tacit.protocols.privacy.gaussian import epsilon_of
from tacit.sim.streams import Entropy

__all__ = ["Audit", "audit", "audits", "problems"]

DELTA = 1e-5
EPSILONS = (1.0, 4.0, 8.0)
CLIENTS, POINTS, DIMENSION, CLASSES = 3, 4, 4, 3
UNIT = 2.0**24


@dataclass(frozen=True)
class Audit:
    """The result of `runs` runs with each canary under `factor` times the noise of the plan, which states `mu` and
    `epsilon`.

    `false_alarms` and `misses` are the rates. Lower bounds: `least_mu`; `least_epsilon`, from the rates only; and
    `epsilon_by_mu`, by the curve of a Gaussian mechanism.
    """

    epsilon: float
    factor: float
    runs: int
    mu: float
    false_alarms: float
    misses: float
    least_mu: float
    least_epsilon: float

    @property
    def epsilon_by_mu(self) -> float:
        """The epsilon of a Gaussian mechanism with `least_mu`."""
        return epsilon_of(max(self.least_mu, 0.0), DELTA)

    @property
    def refuted(self) -> bool:
        """True if the runs refute the stated mu or epsilon."""
        return self.least_mu > self.mu or self.least_epsilon > self.epsilon


def audits(quick: bool = False) -> list[Audit]:
    """An audit of each of `EPSILONS`, and one of a copy with half of the noise."""
    runs = 100 if quick else 1000
    return [*(audit(epsilon, runs) for epsilon in EPSILONS), audit(EPSILONS[1], runs, factor=0.5)]


def problems(found: list[Audit]) -> list[str]:
    """Return the audits with a wrong result: a correct mechanism refuted, or one with too little noise not refuted."""
    return [
        f"private cells at epsilon {one.epsilon:g}: the audit {'refutes' if one.refuted else 'does not refute'} it"
        for one in found
        if one.refuted != (one.factor < 1)
    ]


def audit(epsilon: float, runs: int, factor: float = 1.0) -> Audit:
    """An audit of the stated `epsilon`. A `factor` below 1 makes a copy with too little noise, which the audit must
    refute."""
    plan = Plan.of(
        epsilon=epsilon, delta=DELTA, count=2, steps=2, dimension=DIMENSION, classes=CLASSES, clip=1.0, radius=0.5,
        sums_share=0.6, parts=CLIENTS - 1,
    )  # fmt: skip
    weakened = Plan(**{**vars(plan), "mu": plan.mu / factor})
    random = randomness("canaries", str(epsilon), str(factor))
    scores = [[_score(plan, weakened, canary, random) for _ in range(runs)] for canary in (False, True)]
    alarms, misses = (np.array(scores[0]) > 0).sum(), (np.array(scores[1]) <= 0).sum()
    a, b = _most(int(alarms), runs), _most(int(misses), runs)
    return Audit(
        epsilon=epsilon,
        factor=factor,
        runs=runs,
        mu=plan.mu,
        false_alarms=alarms / runs,
        misses=misses / runs,
        least_mu=float(ndtri(1 - a) - ndtri(b)),
        least_epsilon=float(np.log(max(1 - DELTA - b, 1e-300) / a)),
    )


def _most(errors: int, runs: int) -> float:
    """The upper end of Clopper and Pearson's interval of an error rate, at confidence 0.975."""
    return 1.0 if errors == runs else float(beta.ppf(0.975, errors + 1, runs - errors))


def _data(canary: bool) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The points of all clients (n, d), client after client, and their labels."""
    points, labels = np.zeros((CLIENTS * POINTS, DIMENSION)), np.zeros(CLIENTS * POINTS, np.int64)
    points[0, 0], labels[0] = (1.0, 1) if canary else (-1.0, 2)
    return points, labels


def _score(plan: Plan, weakened: Plan, canary: bool, random: np.random.Generator) -> float:
    """The log-likelihood ratio of all releases of a run, for the canary against the other point."""
    points, labels = _data(canary)
    entropy = Entropy(random.bytes(32))
    known, total = Known.nothing(plan), 0.0
    for number in range(1, plan.sums + 1):
        ring, colluders = np.zeros(plan.size(number), np.uint64), np.zeros(plan.size(number), np.int64)
        for client in range(CLIENTS):
            own = slice(client * POINTS, (client + 1) * POINTS)
            words, noise = summand(points[own], labels[own], known, weakened, number, entropy.child(number, client))
            ring += words
            colluders = noise if client == CLIENTS - 1 else colluders
        seen = (ring.view(np.int64) - colluders) / UNIT
        expected = [_without_noise(plan, known, number, *_data(other)) for other in (False, True)]
        total += float(((expected[1] - expected[0]) * (seen - (expected[0] + expected[1]) / 2)).sum()) / (
            plan.deviation(number) ** 2
        )
        if number == 1:
            known = Known(mean_of(ring, len(points), plan), first_centres(plan, entropy.child("centres")))
        elif number < plan.sums:
            known = Known(known.mean, moved(ring, known.centres, plan, number))
    return total


def _without_noise(
    plan: Plan, known: Known, number: int, points: NDArray[np.float64], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    plain = Plan(**{**vars(plan), "mu": np.inf})
    words, _ = summand(points, labels, known, plain, number, Entropy.seeded(1))
    return np.asarray(words.view(np.int64) / UNIT)
