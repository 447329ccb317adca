"""The exact probability that a run of one round completes if clients are lost independently, or a number is drawn.

XCLP with `recovery = "restart"`, and an average of models in the clear, need `min_clients` clients to the end. With
`recovery = "shamir"`, of n clients that deal their keys in shares, t = `threshold_of(n)`, a run completes if

- n and the number of clients that send masked values are at least `min_clients`, and n at least `protocol.threshold`;
- and u >= `quorum.fewest_left` of the n clients send masked values and r >= t of them reveal shares; or r is at least
  `min_clients` and `protocol.threshold`, since the server then begins another attempt with these r clients.

With independent losses, the number of clients left at each stage is a sum of independent indicators (Poisson-binomial;
binomial with equal chances). If k of N clients are drawn to be lost and n of the N are called, the number of called
clients that are lost is hypergeometric.
"""

import math
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tacit.protocols.parts import SumBounds
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.steps import Stage
from tacit.protocols.sums.quorum import fewest_left, threshold_of
from tacit.scenarios.files.dropouts import Dropout
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.faults import Crash, Leave
from tacit.sim.shares import rounded_up

__all__ = ["Odds", "odds_of"]

_MOST = 40
"""The most clients for an exact result. The time grows with the fourth power, to 0.1 s for this number."""

_BEFORE, _MASKED, _REVEALED = range(3)

_COUNTED: dict[str, dict[Stage, int]] = {
    "shamir": {"early": _BEFORE, "deal": _BEFORE, "mask": _MASKED, "reveal": _REVEALED},
    "restart": {"early": _BEFORE, "mask": _BEFORE},
    "average": {"train": _BEFORE},
}
"""The place at which clients count as lost if they are lost before a step of a stage; no formula covers others."""

_ONCE = ("early", "train")
"""The stages that no client repeats in a round, so that a fault with a probability has one chance."""


class Odds(Struct, frozen=True):
    """The exact `probability` that a run completes, and the name of the formula (`why`).

    `keys`: the keys of the losses; `need`: the required number of clients, in words.
    """

    probability: float
    why: str
    keys: tuple[str, ...]
    need: str


class _Loss(Struct, frozen=True):
    """The chance of each client to be lost at a place in the round, with the `key` of the loss."""

    key: str
    place: int
    chances: NDArray[np.float64]


def odds_of(scenario: Scenario, dropouts: Sequence[Dropout] = ()) -> Odds | None:
    """The exact odds of a run of `scenario` with these `dropouts`; None if no formula applies.

    A formula applies to a protocol of one round with one secure sum over all clients. Its only losses are crashes
    before steps: with a probability, of named clients, or of a drawn number of clients. Links lose no messages.
    """
    clients = scenario.data.clients
    bounds = _bounds(scenario)
    if bounds is None or clients > _MOST or not (scenario.fault or dropouts):
        return None
    counts = [one for one in dropouts if one.count is not None]
    if counts:
        alone = len(dropouts) == 1 and not scenario.fault and counts[0].party == "client/*"
        return _of_count(scenario, bounds, counts[0]) if alone else None
    losses = [*_of_faults(scenario, bounds.kind), *_of_dropouts(dropouts, scenario, bounds.kind)]
    if None in losses:
        return None
    found = [one for one in losses if one is not None]
    alike = all(np.ptp(one.chances) == 0 for one in found)
    called = _called(scenario)
    if called < clients and not alike:
        return None
    chance = _completes(bounds, called, found)
    words = "binomial" if alike else "Poisson-binomial"
    return Odds(chance, words, tuple(one.key for one in found), _need(bounds, called))


def _called(scenario: Scenario) -> int:
    """The number of clients that begin the round."""
    clients = scenario.data.clients
    return rounded_up(PROTOCOLS[scenario.protocol.name].share(scenario), clients)


def _bounds(scenario: Scenario) -> SumBounds | None:
    """The bounds of the only secure sum of a run of one round; None if a formula would not cover all requirements."""
    protocol = PROTOCOLS.get(scenario.protocol.name)
    keys = scenario.protocol
    if protocol is None or protocol.rounds(scenario) != 1:
        return None
    calm = not (scenario.link or scenario.host or scenario.network.loss or scenario.attack.kind)
    alike = not any(one.loss or one.availability or one.file for one in scenario.client)
    data = scenario.data
    whole = data.labeled_clients is None and not data.without_labels and not data.labels_of_classes
    if not (calm and alike and whole) or keys.groups > 1 or keys.identity != "none" or keys.presence != "none":
        return None
    training = scenario.training
    if protocol.decided_by == "average":
        plain = training.averaging == "plain" and not training.extra
        return SumBounds("average", max(1, training.fewest())) if plain else None
    found = protocol.sums(scenario, data.clients) if protocol.decided_by == "sum" else ()
    return found[0] if len(found) == 1 and found[0].kind in _COUNTED else None


def _stages(scenario: Scenario) -> dict[str, Stage]:
    """The stage of each step of a client, by its name."""
    steps = PROTOCOLS[scenario.protocol.name].steps_with(scenario)
    return {step.name: step.stage for step in steps if step.role == "client"}


def _of_faults(scenario: Scenario, kind: str) -> Iterator[_Loss | None]:
    stages = _stages(scenario)
    for number, fault in enumerate(scenario.fault):
        step = fault.get("at") or fault.get("before") or ""
        stage = stages.get(step, "") if isinstance(fault, Crash | Leave) else ""
        place = _COUNTED[kind].get(stage)
        again = fault.get("probability") is not None and stage not in _ONCE
        later = (fault.get("occurrence") or 1) > 1 or (fault.get("round") or 1) > 1
        if place is None or later or again or fnmatchcase("server", fault.get("party")):
            yield None
            return
        meant = [fnmatchcase(f"client/{j}", fault.get("party")) for j in range(scenario.data.clients)]
        chance, key = fault.get("probability"), f"fault.{number}"
        yield _Loss(key, place, np.where(meant, 1.0 if chance is None else chance, 0.0))


def _of_dropouts(found: Sequence[Dropout], scenario: Scenario, kind: str) -> Iterator[_Loss | None]:
    stages = _stages(scenario)
    for one in found:
        place = _COUNTED[kind].get(stages.get(one.step, ""))
        if place is None or one.chance is None:
            yield None
            return
        meant = [fnmatchcase(f"client/{j}", one.party) for j in range(scenario.data.clients)]
        yield _Loss(f"--loss {one.text}", place, np.where(meant, one.chance, 0.0))


def _of_count(scenario: Scenario, bounds: SumBounds, one: Dropout) -> Odds | None:
    """The odds if a number of clients is drawn to be lost."""
    place = _COUNTED[bounds.kind].get(_stages(scenario).get(one.step, ""))
    if place is None or one.count is None:
        return None
    clients, called = scenario.data.clients, _called(scenario)
    total = 0.0
    for lost in range(max(0, one.count - (clients - called)), min(one.count, called) + 1):
        begin, left = (called - lost if place == _BEFORE else called), called - lost
        if _enough(bounds, begin, left if place <= _MASKED else called, left):
            total += math.comb(called, lost) * math.comb(clients - called, one.count - lost)
    chance = total / math.comb(clients, one.count)
    return Odds(chance, "hypergeometric", (f"--loss {one.text}",), _need(bounds, called))


def _enough(bounds: SumBounds, begin: int, masked: int, revealed: int) -> bool:
    """Return true if a run completes with these numbers of clients that deal, send masked values, and reveal shares."""
    if begin < bounds.fewest:
        return False
    if bounds.kind in ("restart", "average"):
        return revealed >= bounds.fewest
    chosen = max(bounds.fewest, bounds.threshold or 0)
    threshold = threshold_of(bounds.threshold, begin, bounds.colluding)
    opened = masked >= fewest_left(begin, threshold, bounds.fewest, bounds.colluding) and revealed >= threshold
    return begin >= chosen and masked >= bounds.fewest and (opened or revealed >= chosen)


def _completes(bounds: SumBounds, clients: int, losses: Sequence[_Loss]) -> float:
    """The probability that a run completes, summed over all numbers of clients at each stage."""
    kept = np.ones((3, len(losses[0].chances)))
    for one in losses:
        kept[one.place] *= 1 - one.chances
    shape = (clients + 1,) * 3
    spread = np.zeros(shape)  # axes: clients that deal, send masked values, reveal shares
    spread[0, 0, 0] = 1.0
    for first, second, third in kept[:, :clients].T:
        grown = spread * (1 - first)
        grown[1:] += spread[:-1] * first * (1 - second)
        grown[1:, 1:] += spread[:-1, :-1] * first * second * (1 - third)
        grown[1:, 1:, 1:] += spread[:-1, :-1, :-1] * first * second * third
        spread = grown
    places = (tuple(place) for place in np.argwhere(spread > 0).tolist())
    return min(1.0, math.fsum(spread[place] for place in places if _enough(bounds, *place)))


def _need(bounds: SumBounds, clients: int) -> str:
    """The number of clients that a run needs, in words with the keys."""
    if bounds.kind != "shamir":
        table = "training" if bounds.kind == "average" else "protocol"
        return f"{bounds.fewest} of {clients} clients ({table}.min_clients = {bounds.fewest})"
    least = max(bounds.fewest, bounds.threshold or 0)
    keys = [f"protocol.min_clients = {bounds.fewest}"]
    keys += [] if bounds.threshold is None else [f"protocol.threshold = {bounds.threshold}"]
    return f"{least} of {clients} clients ({', '.join(keys)})"
