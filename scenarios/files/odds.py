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
from collections.abc import Sequence
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
from tacit.sim.faults import Crash, Fault, Leave, PartyFault
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
    keys = [f"fault.{number}" for number in range(len(scenario.fault))]
    losses = [*zip(keys, scenario.fault, strict=True)]
    losses += [(f"--loss {one.text}", one.fault) for one in dropouts if one.fault is not None]
    if any(fault.get("count") is not None for _, fault in losses):
        (key, fault), *others = losses
        return None if others or fault.get("party") != "client/*" else _of_count(scenario, bounds, key, fault)
    found = [_loss(key, fault, scenario, bounds.kind) for key, fault in losses]
    known = [one for one in found if one is not None]
    if len(known) < len(found) or not known:
        return None
    alike = all(np.ptp(one.chances) == 0 for one in known)
    called = _called(scenario)
    if called < clients and not alike:
        return None
    chance = _completes(bounds, called, known)
    words = "binomial" if alike else "Poisson-binomial"
    return Odds(chance, words, tuple(one.key for one in known), _need(bounds, called))


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


def _loss(key: str, fault: Fault, scenario: Scenario, kind: str) -> _Loss | None:
    """The loss that a fault makes; None if no formula covers it."""
    if not isinstance(fault, Crash | Leave) or fnmatchcase("server", fault.party):
        return None
    place, stage = _place(fault, scenario, kind)
    chance = fault.share if fault.is_drawn else fault.probability
    again = fault.probability is not None and stage not in _ONCE
    if place is None or again or (fault.occurrence or 1) > 1 or (fault.round or 1) > 1:
        return None
    meant = [fnmatchcase(f"client/{j}", fault.party) for j in range(scenario.data.clients)]
    return _Loss(key, place, np.where(meant, 1.0 if chance is None else chance, 0.0))


def _place(fault: PartyFault, scenario: Scenario, kind: str) -> tuple[int | None, str]:
    """The place and the stage at which clients are lost by a fault before a single step; None if there is none."""
    steps = (fault.start,) if not fault.is_drawn else fault.steps or ()
    stage = _stages(scenario).get(steps[0] or "", "") if len(steps) == 1 else ""
    return _COUNTED[kind].get(stage), stage


def _of_count(scenario: Scenario, bounds: SumBounds, key: str, one: Fault) -> Odds | None:
    """The odds if a number of clients is drawn to be lost."""
    place = _place(one, scenario, bounds.kind)[0] if isinstance(one, Crash | Leave) else None
    if place is None or not isinstance(one, PartyFault) or one.count is None:
        return None
    clients, called = scenario.data.clients, _called(scenario)
    total = 0.0
    for lost in range(max(0, one.count - (clients - called)), min(one.count, called) + 1):
        begin, left = (called - lost if place == _BEFORE else called), called - lost
        if _enough(bounds, begin, left if place <= _MASKED else called, left):
            total += math.comb(called, lost) * math.comb(clients - called, one.count - lost)
    chance = total / math.comb(clients, one.count)
    return Odds(chance, "hypergeometric", (key,), _need(bounds, called))


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
