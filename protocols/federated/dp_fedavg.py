"""DP-FedAvg: FedAvg whose clients clip the change of their models, and whose average is noisy.

McMahan et al., Learning differentially private recurrent language models, ICLR 2018, Algorithm 1 (flat clipping, fixed
denominator 1 / m), and Geyer, Klein, Nabi, Differentially private federated learning: a client level perspective, 2017,
Algorithm 1, to which the FedCT paper compares. A client trains from w to w_i and sends

    w + (w_i - w) min(1, S / ||w_i - w||_2);

the average of m such models, each counting one, gets N(0, (z S / m)^2) added to each number.

Departures: S is fixed, where Geyer takes the median of the norms, which is a release of its own. The cohort has a fixed
size (`cohort`), where McMahan draws each client by itself: neighbours differ in all data of one client, replaced by any
other, whose clipped change lies up to 2 S away (`privacy.accounting.federated_gaussian`).

The place where noise is added determines whom the guarantee covers:

- `server`: as in both papers the server is trusted, and sees each model; the guarantee holds against anybody who sees
  the averages and does not know the cohort. A member of a cohort knows that it is one: against it, only the part of the
  guarantee without sampling holds.
- `clients`: each adds N(0, (z S)^2 / (k - 1)) to its sum's part, k >= 2 the fewest clients among whom a client lets
  its part be summed (`averaging.Secure.fewest`), whatever the server asks for. Only the secure sum is seen, so the
  server is covered, too, as far as clients do not collude. A client that knows its own part of the noise, and takes it
  out of the average, still has the k - 1 others' against it; with more than k models there is more than promised.
  With averaging = "secagg+" a client sees no more of a sum than its neighbours, t of them and itself; that k are in it
  is the server's word there, and the guarantee one against a server that follows the protocol.
  A client trains in the agreed rounds and no more, and its part goes into one sum of each (`secure_sum`).
  The server draws the cohort, so against it, too, only the part without sampling holds. Sums are taken in fixed point
  after the noise; the guarantee is for real numbers (`privacy.noise`).

The cohort is drawn from the server's own entropy, as the noise is. With entropy = "seeded" both follow from the run's
seed: whoever has it takes the noise off, and no guarantee holds; a cohort is then counted as known, as if all clients
took part in each round. Every round to which clients were called is charged, lost or not, for what they sent in it may
have been read: so is a secure sum that ends in an Abort after its Survivors were named.

Clients do not send their losses; one that is drawn and has nothing to train on sends the model as it was, noise and
all, and counts one. That a client takes part, and how many points and labels it has, is not covered.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.parties.learning.vectors import decode, encode
from tacit.protocols.privacy.noise import gaussian
from tacit.sim.hollow import blank, hollow
from tacit.sim.streams import Entropy

__all__ = ["Clipped"]


@dataclass(frozen=True)
class Clipped:
    """The clipping and noise: `clip` S > 0 in the L2 norm of the whole model, `multiplier` z >= 0, and `at`, the place
    of noise.

    An infinite S means no clipping, which excludes noise. Raises ValueError.
    """

    clip: float
    multiplier: float
    at: Literal["server", "clients"] = "server"

    def __post_init__(self) -> None:
        if not self.clip > 0:
            raise ValueError(f"clip(={self.clip}) must be > 0")
        if not 0 <= self.multiplier < np.inf:
            raise ValueError(f"noise(={self.multiplier}) must be >= 0 and finite")
        if self.multiplier > 0 and not np.isfinite(self.clip):
            raise ValueError(f"clip(={self.clip}) must be finite where there is noise")

    @property
    def _deviation(self) -> float:
        """The standard deviation of the noise in the sum, z S."""
        return self.multiplier * self.clip if self.multiplier else 0.0

    def sent_work(self, numbers: int) -> dict[str, int]:
        """The operations of `sent` for a model of `numbers` numbers."""
        return {"vector.add": 3 * numbers}

    def released_work(self, numbers: int) -> dict[str, int]:
        """The operations of `released` for a model of `numbers` numbers."""
        return {"vector.add": 2 * numbers}

    @hollow(lambda self, before, after, fewest, entropy: blank(len(after)))
    def sent(self, before: bytes, after: bytes, fewest: int, entropy: Entropy) -> bytes:
        """The model that a client sends after training from `before` to `after`. `fewest`: the least models in a round.

        With noise at the clients `fewest` >= 2.
        """
        start = decode(before).astype(np.float64)
        change = decode(after) - start
        norm = float(np.linalg.norm(change))
        if not np.isfinite(norm):  # training has diverged: it changes nothing, whatever the others have
            change, norm, after = np.zeros_like(start), 0.0, before
        own = self._deviation / np.sqrt(fewest - 1) if self.at == "clients" else 0.0
        if norm <= self.clip and not own:
            return after  # to the bit what FedAvg sends
        change *= min(1.0, self.clip / norm) if norm else 1.0
        if own:
            change += own * gaussian(change.shape, entropy)
        return encode(start + change)

    @hollow(lambda self, mean, models, entropy: blank(len(mean)))
    def released(self, mean: bytes, models: int, entropy: Entropy) -> bytes:
        """The next model, made from the `mean` of this number of models."""
        deviation = self._deviation / models if self.at == "server" else 0.0
        if not deviation:
            return mean
        numbers = decode(mean).astype(np.float64)
        return encode(numbers + deviation * gaussian(numbers.shape, entropy))
