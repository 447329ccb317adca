"""A server's estimates of points from distances, or from direct hashes, alone and with a colluding client.

Alone, the server estimates the angles between points; the more it knows of the points' distribution, the better. From
H: cos(pi H / L) directly (which is also the estimate from each pair of hashes), or after a low-rank fit. From the bits:
two estimators of a factor model, V a + noise of low rank with the observed signs, by mean fields (Mislevy's EM, in
which latent values are replaced by their means) and by Gibbs sampling, which draws them and gives the posterior mean.
The error is the root mean square error of the cosines.

With a colluding client, the server has that client's m points and the planes. It treats these points as a sample of all
points, and models points as Gaussian with their mean and (shrunk) covariance: the blind guess is the mean. From H: the
posterior mean given the angles to the m points; or the point whose distances to them under the planes are those
received (Gauss-Newton over a smoothed count, then Newton's steps). From bits: the sum of the planes with their signs,
the posterior mean given that sum, or the maximum likelihood from there. A point is found up to its length; the figure
is the mean cosine between points and their estimates. Under flips of probability p, angles are corrected, and the
likelihood of a bit is p + (1 - 2 p) Phi.

Simpler estimators find less, which explains different figures elsewhere. From bits, the sum of the planes has 1 /
sqrt(1 + pi (d - 1) / (2 L)) = .955 for d = 64 and L = 1024 (`released.opened`; under flips, too). From H, least squares
without a prior have .93, .91, .92 with 20, 60, 180 points of the client, and down to .76 with less regularisation. That
is less than blind guessing: the mean alone has .83, because digits are not centred. With the prior, the same angles
give .94, .97, .975; the planes, in whose counts an angle has no sampling error, give .92, .98, .996.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from threadpoolctl import threadpool_limits

from tacit.benchmarks.attacks.finding import randomness
from tacit.parties.data.sets import load
from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.privacy.released import flip_of

__all__ = ["Guess", "guesses", "problems"]

Array = NDArray[np.float64]

BITS = 1024
OWN = (20, 60, 180)
"""The numbers of points that a colluding client has."""
EPSILONS = (None, 4.0, 2.0, 1.0, 0.5)

_BITS_OPEN, _H_OPEN = 0.99, 0.9


@dataclass(frozen=True)
class Guess:
    """The accuracy of a server that `sees` distances or bits, `helped` by a client with this number of points (0:
    alone).

    `epsilon`: that of a hash bit, None without flips. Alone: `error`, the root mean square error of cosines between
    points. Helped: `cosine`, the mean cosine between a point and its reconstruction.
    """

    sees: str
    estimator: str
    helped: int
    epsilon: float | None
    error: float | None = None
    cosine: float | None = None


@dataclass(frozen=True, eq=False)
class _World:
    """Unit vectors of `victims` (n, d) and of the colluding client, `own` (m, d); the planes (L, d)."""

    victims: Array
    own: Array
    planes: Array

    def signs(self, points: Array, flip: float, random: np.random.Generator) -> Array:
        """Hashes as 1 and -1, each flipped with probability `flip`."""
        kept = np.where(random.random((len(points), len(self.planes))) < flip, -1.0, 1.0)
        return np.where(points @ self.planes.T >= 0, 1.0, -1.0) * kept


def guesses(quick: bool = False) -> list[Guess]:
    """All estimators, on digits."""
    random = randomness("hashes")
    features = load("digits", 400).features
    points = features[random.permutation(len(features))]
    points = points / np.linalg.norm(points, axis=1, keepdims=True)
    victims = points[: 60 if quick else 120]
    world = _World(victims, points[200:], random.standard_normal((BITS, points.shape[1])))
    with threadpool_limits(1):  # with small matrices, threads mostly wait for each other
        return [*_alone(world, random, 60 if quick else 150), *_with_help(world, random)]


def problems(found: list[Guess]) -> list[str]:
    """Return the statements of docs/privacy/randomised-response.md that the figures contradict."""
    plain = [one for one in found if one.epsilon is None]
    best = {sees: min(one.error for one in plain if one.sees == sees and one.error is not None) for sees in _SEES}
    opened = {sees: max(one.cosine for one in plain if one.sees == sees and one.cosine is not None) for sees in _SEES}
    few = max(one.cosine for one in plain if one.sees == "H" and one.helped == OWN[0] and one.cosine is not None)
    said = [
        (best["bits"] > 0.7 * best["H"], "angles from the bits are much better than from H"),
        (opened["bits"] > _BITS_OPEN, "bits do not open points under known planes"),
        (few < opened["bits"], "H opens points as well, with few points of a colluding client"),
        (opened["H"] > _H_OPEN, "H does not open points with many points of a colluding client"),
    ]
    return [what for holds, what in said if not holds]


_SEES = ("H", "bits")


def _alone(world: _World, random: np.random.Generator, sweeps: int) -> list[Guess]:
    victims = world.victims
    signs = world.signs(victims, 0.0, random)
    truth, off = victims @ victims.T, ~np.eye(len(victims), dtype=bool)

    def guess(sees: str, estimator: str, cosines: Array) -> Guess:
        return Guess(sees, estimator, 0, None, error=float(np.sqrt(np.mean((cosines - truth)[off] ** 2))))

    plain = np.cos(np.pi * (BITS - signs @ signs.T) / 2 / BITS)
    return [
        guess("H", "by pairs", plain),
        *(guess("H", f"rank {rank}", (f := _factors(plain, rank)) @ f.T) for rank in (10, 20)),
        guess("bits", "by pairs", plain),
        guess("bits", "factors of rank 10, mean fields", _mean_fields(signs, plain, 10)),
        guess("bits", "factors of rank 10, Gibbs", _gibbs(signs, plain, 10, sweeps, random)),
    ]


def _factors(cosines: Array, rank: int) -> Array:
    """Unit vectors (n, rank) with approximately these `cosines`."""
    values, vectors = np.linalg.eigh(cosines)
    found = vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0.0))
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))


def _mean_fields(signs: Array, plain: Array, rank: int, noise: float = 0.05) -> Array:
    loadings, latent, deviation = _factors(plain, rank) * np.sqrt(1 - noise), 0.8 * signs, np.sqrt(noise)
    for _ in range(40):
        spread = np.linalg.inv(np.eye(rank) + loadings.T @ loadings / noise)
        scores = latent.T @ loadings @ spread / noise
        mean = (scores @ loadings.T).T
        density, mass = _normal(signs * mean / deviation)
        latent = mean + signs * deviation * density / mass
        loadings = latent @ scores @ np.linalg.inv(scores.T @ scores + signs.shape[1] * spread)
        loadings *= np.sqrt(1 - noise) / np.linalg.norm(loadings, axis=1, keepdims=True)
    return np.asarray(loadings @ loadings.T / (1 - noise))


def _gibbs(signs: Array, plain: Array, rank: int, sweeps: int, random: np.random.Generator) -> Array:
    """The posterior mean of the cosines; the first third of the sweeps is discarded."""
    (n, bits), noise = signs.shape, np.full(len(signs), 0.1)
    loadings, latent, total = _factors(plain, rank) * np.sqrt(0.9), 0.8 * signs, np.zeros((n, n))
    for sweep in range(sweeps):
        weighted = loadings / noise[:, None]
        spread = np.linalg.inv(np.eye(rank) + weighted.T @ loadings)
        scores = latent.T @ weighted @ spread
        scores += random.standard_normal((bits, rank)) @ np.linalg.cholesky(spread).T
        mean, deviation = loadings @ scores.T, np.sqrt(noise)[:, None]
        below = ndtr(-signs * mean / deviation)  # the mass that the sign excludes
        drawn = np.clip(below + random.random(mean.shape) * (1 - below), 1e-12, 1 - 1e-12)
        latent = mean + signs * deviation * ndtri(drawn)
        spread = np.linalg.inv(scores.T @ scores + 0.05 * rank * np.eye(rank))
        fitted = latent @ scores @ spread
        noise = (((latent - fitted @ scores.T) ** 2).sum(axis=1) + 0.1) / random.chisquare(bits + 2, n)
        loadings = fitted + np.sqrt(noise)[:, None] * (random.standard_normal((n, rank)) @ np.linalg.cholesky(spread).T)
        scale = np.sqrt((loadings**2).sum(axis=1) + noise)  # signs do not depend on the scale
        loadings, latent, noise = loadings / scale[:, None], latent / scale[:, None], np.maximum(noise / scale**2, 1e-4)
        if sweep >= sweeps // 3:
            total += loadings @ loadings.T
    return total / (sweeps - sweeps // 3)


def _normal(x: Array) -> tuple[Array, Array]:
    """The density and the distribution function of the standard normal; the latter is never 0."""
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), np.maximum(ndtr(x), 1e-12)


def _with_help(world: _World, random: np.random.Generator) -> list[Guess]:
    found = []
    for epsilon in EPSILONS:
        flip = 0.0 if epsilon is None else flip_of(Privacy(hash_epsilon=epsilon))
        signs, own = (world.signs(points, flip, random) for points in (world.victims, world.own))

        def guess(sees: str, estimator: str, helped: int, points: Array, epsilon: float | None = epsilon) -> Guess:
            cosine = _cosine(points, world.victims[: len(points)])
            return Guess(sees, estimator, helped, epsilon, cosine=cosine)

        for m in OWN:
            prior = _Prior(world.own[:m])
            h = (BITS - signs @ own[:m].T) / 2
            blind = np.broadcast_to(prior.mean, world.victims.shape)
            found += [guess("nothing", "the mean", m, blind)] if epsilon is None else []
            by_angles = _from_angles(h, prior, flip)
            found.append(guess("H", "angles", m, by_angles))
            if epsilon is None:
                found.append(guess("H", "angles, least squares", m, _by_least_squares(h, own=world.own[:m])))
            if epsilon is None:
                found.append(
                    guess("H", "angles, and planes", m, _from_counts(h[:20], own[:m], by_angles, prior, world))
                )
        prior = _Prior(world.own[: OWN[1]])
        sums = _from_sums(signs, prior, world, flip)
        found += [
            guess("bits", "sum of planes", 1, signs @ world.planes),
            guess("bits", "sum of planes, by a prior", OWN[1], sums),
            guess("bits", "likelihood", OWN[1], _likeliest(signs, sums, world, flip)),
        ]
    return found


def _cosine(found: Array, true: Array) -> float:
    return float(np.mean((found * true).sum(axis=1) / np.linalg.norm(found, axis=1)))


class _Prior:
    """A Gaussian prior of points, fitted to the colluding client's `own`, with a covariance shrunk to a sphere."""

    def __init__(self, own: Array) -> None:
        m, d = own.shape
        covariance, share = np.cov(own.T), m / (m + d)
        self.own, self.mean = own, own.mean(axis=0)
        self.covariance = share * covariance + (1 - share) * np.trace(covariance) / d * np.eye(d)


def _from_angles(h: Array, prior: _Prior, flip: float) -> Array:
    own, scale = prior.own, (1 - 2 * flip) ** 2
    corrected = np.clip((h - 2 * flip * (1 - flip) * BITS) / scale, 0, BITS)
    cosines = np.cos(np.pi * corrected / BITS)
    noise = 0.2 * (np.pi * np.sqrt(np.maximum(1 - cosines**2, 0)).mean()) ** 2 / BITS / scale**2
    gain = prior.covariance @ own.T @ np.linalg.inv(own @ prior.covariance @ own.T + noise * np.eye(len(own)))
    return np.asarray(prior.mean + (cosines - own @ prior.mean) @ gain.T)


def _by_least_squares(h: Array, own: Array) -> Array:
    """The shortest vectors whose products with the points `own` are approximately the cosines; no prior."""
    return np.asarray(np.cos(np.pi * h / BITS) @ np.linalg.solve(own @ own.T + 0.01 * np.eye(len(own)), own))


def _from_counts(h: Array, own_signs: Array, start: Array, prior: _Prior, world: _World) -> Array:
    """Points whose distances under the planes are `h`, found from `start` with a soft sign of decreasing width."""
    found = start[: len(h)] / np.linalg.norm(start[: len(h)], axis=1, keepdims=True)
    inverse = np.linalg.inv(prior.covariance)
    for width in (0.3, 0.15, 0.08, 0.05, 0.03):
        noise = 4 + (BITS * width * 0.02) ** 2  # the variance of the soft count's error
        for _ in range(10):
            density, mass = _normal(found @ world.planes.T / width)
            off = (BITS - (2 * mass - 1) @ own_signs.T) / 2 - h
            for i in range(len(found)):
                slopes = -(own_signs * density[i] / width) @ world.planes
                force = slopes.T @ off[i] / noise + inverse @ (found[i] - prior.mean)
                found[i] -= 0.7 * np.linalg.solve(slopes.T @ slopes / noise + inverse, force)
        found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def _from_sums(signs: Array, prior: _Prior, world: _World, flip: float) -> Array:
    scale = np.sqrt(2 / np.pi) * (1 - 2 * flip)
    sums = signs @ world.planes / BITS / scale
    noise = np.eye(sums.shape[1]) / scale**2 / BITS
    gain = prior.covariance @ np.linalg.inv(prior.covariance + noise)
    return np.asarray(prior.mean + (sums - prior.mean) @ gain.T)


def _likeliest(signs: Array, start: Array, world: _World, flip: float, width: float = 0.1) -> Array:
    found = start / np.linalg.norm(start, axis=1, keepdims=True)
    for _ in range(100):
        density, mass = _normal(signs * (found @ world.planes.T) / width)
        force = (1 - 2 * flip) * density / width * signs / (flip + (1 - 2 * flip) * mass)
        found = found + 0.5 * width * (force @ world.planes) / BITS
        found /= np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found)
