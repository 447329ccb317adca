"""Byzantine clients of federated training: they train like honest clients, and send a false model.

A client that was sent the model w and trained w_k sends w + u, where s is `byzantine.weight`:

| kind | update u | source |
| --- | --- | --- |
| `scaled` | s (w_k - w) | Bagdasaryan et al., How to backdoor federated learning, AISTATS 2020, equation 3 |
| `stuffed` | -s (w_k - w) | the same, with the sign of Li et al., RSA, AAAI 2019 (sign-flipping attack) |
| `noise` | s g, g standard normal | Blanchard et al., Machine learning with adversaries, NeurIPS 2017, Section 5 |

Each way of averaging bounds a false model in its own way:

| averaging | what a false client can add to the average of n models |
| --- | --- |
| plain, or a sum in fixed point | any numbers that the encoding holds, divided by n |
| a sum of integers of few bits | any integers: the sum is taken modulo the size of a word, so it wraps around |
| `prio3` | numbers within `sum.clip`; the proof of others fails, and the report is refused |

With `byzantine.clipped` a false client clips its numbers as honest clients do. No check of ranges can refuse its model,
and it moves each number of the average by at most 2 c / n, where c is `sum.clip`.

Only trained numbers are false. Running statistics of a network, control variates and losses are as trained.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.parties.learning.vectors import Layout, decode, encode
from tacit.protocols.promises import Trial
from tacit.sim.hollow import blank, hollow
from tacit.sim.setting_error import Problem
from tacit.sim.streams import generator
from tacit.sim.toml_text import toml

__all__ = [
    "FALSE_UPDATES", "LARGEST", "FalseUpdate", "affected_byzantine", "byzantine_clients", "check_byzantine",
    "falsified", "falsified_work",
    "sent_model",
]  # fmt: skip

FALSE_UPDATES = ("scaled", "stuffed", "noise")
"""The kinds of false updates."""

LARGEST = float(np.finfo(np.float32).max) / 2
"""The largest magnitude of a false number: the server refuses a model with infinite ones."""


@dataclass(frozen=True)
class FalseUpdate:
    """The false update of a Byzantine client.

    `numbers`: the trained numbers of a model, which are its first ones. `weight`: s. `seed`: that of the noise.
    `largest`: the magnitude to which numbers are clipped. `in_range`: that is the one to which honest clients clip
    theirs. `layout`: that of the model; None: all numbers are float32. Raises ValueError for another kind.
    """

    kind: str
    numbers: int
    weight: float
    seed: int
    largest: float = LARGEST
    in_range: bool = False
    layout: Layout | None = None

    def __post_init__(self) -> None:
        if self.kind not in FALSE_UPDATES:
            raise ValueError(f"kind(={self.kind!r}) must be one of {', '.join(FALSE_UPDATES)}")

    def model(self, before: bytes, trained: bytes, name: str, number: int) -> bytes:
        """The model that the client `name` sends in round `number`, in which it `trained` one from `before`."""
        began, found = (decode(vector, self.layout).astype(np.float64) for vector in (before, trained))
        if self.kind == "noise":
            update = self.weight * generator(self.seed, "false update", name, number).standard_normal(self.numbers)
        else:
            sign = -1.0 if self.kind == "stuffed" else 1.0
            update = sign * self.weight * (found - began)[: self.numbers]
        false = np.nan_to_num(began[: self.numbers] + update, nan=0.0)  # training may have diverged
        whole = np.concatenate([np.clip(false, -self.largest, self.largest), found[self.numbers :]])
        return encode(whole, self.layout)


def falsified_work(numbers: int) -> dict[str, int]:
    """The operations of `falsified`."""
    return {"vector.add": 2 * numbers}


@hollow(lambda false, before, trained, name, number: blank(len(trained)))
def falsified(false: FalseUpdate, before: bytes, trained: bytes, name: str, number: int) -> bytes:
    """The false model of `FalseUpdate.model`, as a job."""
    return false.model(before, trained, name, number)


def byzantine_clients(tables: Any) -> tuple[str, ...]:
    """The names of the Byzantine clients: the last ones of all."""
    clients = tables.data.clients
    return tuple(f"client/{i}" for i in range(max(0, clients - tables.byzantine.clients), clients))


def affected_byzantine(trial: Trial) -> list[tuple[tuple[str, ...], float]]:
    """Each Byzantine client, as one that is affected to the end: its messages may be refused."""
    return [((name,), math.inf) for name in byzantine_clients(trial.scenario)]


def check_byzantine(tables: Any, kinds: Collection[str], what: str) -> None:
    """Raise Problem if no client is honest, or if the kind is not one of `kinds`, those of false `what`."""
    byzantine, clients = tables.byzantine, tables.data.clients
    if byzantine.clients >= clients:
        problem = f"{byzantine.clients} of {clients} clients leave no honest one; allowed: 0 to {clients - 1}"
        raise Problem("byzantine.clients", problem)
    if byzantine.clients and byzantine.kind not in kinds:
        allowed = ", ".join(map(toml, kinds))
        raise Problem("byzantine.kind", f"{toml(byzantine.kind)} is no kind of false {what}; allowed: {allowed}")


def sent_model(
    false: Mapping[str, FalseUpdate], name: str, number: int, before: bytes, trained: bytes
) -> tuple[bytes, bool]:
    """The model that the client `name` sends in round `number`, in which it `trained` one from `before`.

    The second value is true if its numbers are clipped where they are quantised.
    """
    if name not in false:
        return trained, True
    return false[name].model(before, trained, name, number), false[name].in_range
