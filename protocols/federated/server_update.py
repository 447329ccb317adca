"""Server updates, which compute the next model from a round's mean model. By default it is the mean, as in FedAvg.

Reddi et al., Adaptive federated optimization, ICLR 2021, Algorithm 1: with the model x_t that a round begins with and
the mean of the clients' models, Delta_t = mean - x_t is taken for a negative gradient, and

    x_{t+1} = ServerOpt(x_t, -Delta_t, eta, t).

FedAvg is x_{t+1} = x_t + Delta_t. Nothing more travels, so a secure average and noise on it go with any server update.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.vectors import Layout, decode, encode
from tacit.sim.hollow import blank, hollow

__all__ = ["ServerUpdate", "State", "updated"]

State = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True)
class ServerUpdate:
    """Settings of a server's step, sent to workers. The step's memory of earlier rounds is its state."""

    vectors: ClassVar[float] = 1.0
    """The cost of a step, in additions of two models."""

    def work(self, trained: int) -> dict[str, float]:
        """The operations of a step for a model with `trained` trained numbers."""
        return {"vector.add": self.vectors * trained}

    def step(
        self, state: State, model: NDArray[np.float64], mean: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], State]:
        """The next model and the next state; `state` is () in the first round.

        `model` is the model at the beginning of the round, `mean` that of the clients' models, weighted as the scenario
        defines; both are the trained numbers in one row. Averaged buffers, as batch
        normalisation's running statistics, are those of the mean.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what a step is")


@hollow(lambda update, state, model, mean, trained, layout=None: (blank(len(mean)), state))
def updated(
    update: ServerUpdate, state: State, model: bytes, mean: bytes, trained: int, layout: Layout | None = None
) -> tuple[bytes, State]:
    """The vector of the next model, whose first `trained` numbers are trained, and the next state.

    Without a `layout` all numbers are float32. Raises ValueError if the step gives invalid numbers.
    """
    before, after = (decode(vector, layout).astype(np.float64) for vector in (model, mean))
    due = f"{type(update).__name__}.step must give ({trained},) numbers and a tuple of arrays"
    made = update.step(state, before[:trained], after[:trained])
    if not isinstance(made, tuple) or len(made) != 2:
        raise ValueError(f"{due}, not one {type(made).__name__}")
    following, kept = np.asarray(made[0], np.float64), made[1]
    if following.shape != (trained,) or not isinstance(kept, tuple):
        raise ValueError(f"{due}, not {following.shape} numbers and a {type(kept).__name__}")
    if strange := [type(array).__name__ for array in kept if not isinstance(array, np.ndarray)]:
        raise ValueError(f"{due}, not {', '.join(strange)} in the tuple")
    return encode(np.concatenate([following, after[trained:]]), layout), kept
