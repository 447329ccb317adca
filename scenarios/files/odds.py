"""The exact probability that a run survives if clients are lost independently, or a number of them is drawn.

Averages of models, in the clear and by secure sums, over rounds: clients are drawn to be lost again in each round, and
take part in the next one. If clients are lost before they train or make keys, the numbers of joined clients decide
(`Opening.begins`). If they are lost before they send masked values, so do the numbers of those that are left
(`Opening.opens`); in a committee, the number of its members among the lost is hypergeometric. With q and r the
probabilities that a round is lost before and after clients send masked values, a run of R rounds survives with f lost
ones or fewer: none after masked values but the last, which ends the run anyhow. It fails if the last loses all clients.

XCLP with `recovery = "restart"` needs `min_clients` clients to the end of its only round. With `recovery = "secure"`,
of n clients that deal their keys in shares, t = `threshold_of(n)`, a run completes if

- n and the number of clients that send masked values are at least `min_clients`, and n at least `protocol.threshold`;
- and u >= `quorum.fewest_left` of the n clients send masked values and r >= t of them reveal shares; or r is at least
  `min_clients` and `protocol.threshold`, since the server then begins another attempt with these r clients.

With independent losses, the number of clients left at each stage is a sum of independent indicators (Poisson-binomial;
binomial with equal chances). If k of N clients are drawn to be lost and n of the N are called, the number of called
clients that are lost is hypergeometric.
"""

import math
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from tacit.protocols.crypto.quorum import fewest_left, threshold_of
from tacit.protocols.parts import DRAWN, Opening, Stage, SumBounds
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.rounds.rounds import ENROLL
from tacit.scenarios.files.dropouts import Dropout
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.faults import Crash, Fault, Leave, PartyFault
from tacit.sim.shares import rounded_up
from tacit.sim.units import duration

__all__ = ["Odds", "Refusals", "odds_of", "refusals_of", "rounds_needed"]

_MOST = 40
"""The most clients for an exact result of XCLP. The time grows with the fourth power, to 0.1 s for this number."""

_MOST_OF_AVERAGES = 1000
"""The most clients for an exact result of averages. The time grows with the third power, to about a second."""

_BEFORE, _MASKED, _REVEALED = range(3)

_COUNTED: dict[str, dict[Stage, int]] = {
    "secure rows": {"early": _BEFORE, "deal": _BEFORE, "mask": _MASKED, "reveal": _REVEALED},
    "restart": {"early": _BEFORE, "mask": _BEFORE},
    "average": {"early": _BEFORE, "train": _BEFORE, "mask": _MASKED},
}
"""The place at which clients count as lost if they are lost before a step of a stage; no formula covers others."""

_ONCE = ("early", "train")
"""The stages that no client repeats in a round, so that a fault with a probability has one chance."""


class Odds(Struct, frozen=True):
    """The exact `probability` that a run survives, and the name of the formula (`why`).

    `keys`: the keys of the losses; `need`: the required number of clients, in words; `rounds` of a run.
    """

    probability: float
    why: str
    keys: tuple[str, ...]
    need: str
    rounds: int = 1


class Refusals(Struct, frozen=True):
    """How many of `DRAWN` drawn rounds end `without` a sum under the losses of the `keys`, and the value of
    sum.tolerated_dropouts with which `fewer` of them do; None if there is none."""

    keys: tuple[str, ...]
    without: int
    value: float | None
    fewer: int


class _Loss(Struct, frozen=True):
    """The chance of each client to be lost at a place in the round, with the `key` of the loss."""

    key: str
    place: int
    chances: NDArray[np.float64]


def rounds_needed(share: float, rounds: int) -> int:
    """Return the number of rounds with a result that is the `share` of `rounds`, rounded up; at least 1 of any."""
    return min(rounds, max(1, math.ceil(share * rounds - 1e-9)))  # 0.9 of 10 are 9, whatever floating point says


def odds_of(scenario: Scenario, dropouts: Sequence[Dropout] = (), share: float = 0.0) -> Odds | None:
    """The exact odds of a run of `scenario` with these `dropouts`; None if no formula applies.

    A formula applies to XCLP with one secure sum over all clients, and to averages of models. Its only losses are
    crashes before steps: with a probability, of named clients, or of a drawn number of clients. Links lose no messages.
    In several rounds, clients are drawn again in each and are back for the next; a result is needed in this `share` of
    the rounds.
    """
    clients = scenario.data.clients
    if not (scenario.fault or dropouts) or not _is_calm(scenario):
        return None
    keys = [f"fault.{number}" for number in range(len(scenario.fault))]
    losses = [*zip(keys, scenario.fault, strict=True)]
    losses += [(f"--loss {one.text}", one.fault) for one in dropouts if one.fault is not None]
    if PROTOCOLS[scenario.protocol.name].decided_by == "average":
        return _of_rounds(scenario, losses, share)
    bounds = _bounds(scenario)
    if bounds is None or clients > _MOST:
        return None
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


def refusals_of(scenario: Scenario) -> Refusals | None:
    """The drawn rounds without a sum where no formula applies, but losses are drawn in each round; None elsewhere."""
    if scenario.data.clients > _MOST_OF_AVERAGES or (opening := _drawn(scenario)) is None:
        return None
    keys, lost = _lost_in_a_round(scenario, opening.once_dealt)
    without = _without_sum(scenario, lost) if lost else None
    if not without:
        return None
    keys_of_sums = scenario.sum
    for percent in range(math.ceil(100 * lost - 1e-9), math.floor(100 * keys_of_sums.tolerated_dropouts + 1e-9), -1):
        other = structs.replace(keys_of_sums, tolerated_dropouts=percent / 100)
        fewer = _without_sum(structs.replace(scenario, sum=other), lost)
        if fewer is not None:  # the largest allowed
            return Refusals(keys, without, percent / 100 if fewer < without else None, fewer)
    return Refusals(keys, without, None, without)


def _without_sum(scenario: Scenario, lost: float) -> int | None:
    """The number of drawn rounds without a sum; None if a formula decides, or too many clients may be lost."""
    opening = _drawn(scenario)
    try:
        return None if opening is None or opening.drawn is None else DRAWN - opening.drawn(lost)
    except ValueError:
        return None


def _drawn(scenario: Scenario) -> Opening | None:
    """The only sum of a round of which drawn rounds show whether it is opened; None if there is none."""
    found = [one for one in PROTOCOLS[scenario.protocol.name].openings(scenario, _called(scenario)) if one.drawn]
    return found[0] if len(found) == 1 else None


def _lost_in_a_round(scenario: Scenario, once_dealt: bool) -> tuple[tuple[str, ...], float]:
    """The keys of faults that take a share or a count of all clients down in each round, and the probability that a
    client is lost by them before it has sent masked values. Each step of a fault is equally likely.

    `once_dealt`: only clients that have dealt keys for the round count.
    """
    stages, keys, kept = _stages(scenario), list[str](), 1.0
    places = [stage for stage, place in _COUNTED["average"].items() if place == _MASKED or not once_dealt]
    enrolment = {step.name for step in ENROLL}
    for number, fault in enumerate(scenario.fault):
        if not isinstance(fault, Crash | Leave) or not fault.is_drawn or fault.party not in ("client/*", "client/?*"):
            continue
        steps = fault.steps or [name for name in stages if name not in enrolment]
        early = sum(stages.get(step, "") in places for step in steps) / len(steps)
        share = fault.share if fault.count is None else fault.count / scenario.data.clients
        if early and share and fault.round is None:
            keys.append(f"fault.{number}")
            kept *= 1 - share * early
    return tuple(keys), 1 - kept


def _called(scenario: Scenario) -> int:
    """The number of clients that begin the round."""
    clients = scenario.data.clients
    return rounded_up(PROTOCOLS[scenario.protocol.name].share(scenario), clients)


def _is_calm(scenario: Scenario) -> bool:
    """Return true if nothing but faults can lose a client, and all clients have labels."""
    keys, data = scenario.protocol, scenario.data
    calm = not (scenario.link or scenario.host or scenario.network.loss or scenario.attack.kind)
    alike = not any(one.loss or one.availability or one.file for one in scenario.client)
    whole = data.labeled_clients is None and not data.without_labels and not data.labels_of_classes
    single = keys.groups == 1 and keys.identity == "none" and keys.presence == "none"
    return scenario.protocol.name in PROTOCOLS and calm and alike and whole and single


def _bounds(scenario: Scenario) -> SumBounds | None:
    """The bounds of the only secure sum of a run of one round; None if a formula would not cover all requirements."""
    protocol, data = PROTOCOLS[scenario.protocol.name], scenario.data
    if protocol.rounds(scenario) != 1:
        return None
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
    if bounds.kind == "restart":
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
    if bounds.kind != "secure rows":
        return f"{bounds.fewest} of {clients} clients (protocol.min_clients = {bounds.fewest})"
    least = max(bounds.fewest, bounds.threshold or 0)
    keys = [f"protocol.min_clients = {bounds.fewest}"]
    keys += [] if bounds.threshold is None else [f"protocol.threshold = {bounds.threshold}"]
    return f"{least} of {clients} clients ({', '.join(keys)})"


class _Ends(Struct, frozen=True):
    """The probabilities of the ends of a round: a result, lost before masked values, lost after them, all clients
    lost."""

    result: float
    before: float
    masked: float
    nobody: float


def _of_rounds(scenario: Scenario, losses: Sequence[tuple[str, Fault]], share: float) -> Odds | None:
    """The odds of a run of rounds that are decided by an average of models; None if no formula applies."""
    protocol, clients, called = PROTOCOLS[scenario.protocol.name], scenario.data.clients, _called(scenario)
    openings, rounds = protocol.openings(scenario, called), protocol.rounds(scenario)
    if len(openings) != 1 or clients > _MOST_OF_AVERAGES:
        return None
    (opening,) = openings
    if rounds > 1 and not all(_is_anew(fault) for _, fault in losses):
        return None
    found = _counts(scenario, called, losses)
    if found is None:
        return None
    why, keys, counts = found
    ends = _ends_of(opening, counts, called == clients)
    if ends is None:
        return None
    least = next((n for n in range(1, called + 1) if opening.begins(n) and opening.opens(n, n)), called)
    masked = sum(chance for (joined, left), chance in counts if left < joined)
    if masked:
        least = next((n for n in range(least, called + 1) if (opening.opens(called, n) or 0.0) >= 1), called)
    needed = rounds_needed(share, rounds)
    need = f"{least} of {called} clients"
    if rounds > 1:
        need += f" in {needed} of {rounds} rounds" if needed < rounds else f" in each of {rounds} rounds"
        need += ", and in all after masked values were sent" if masked and opening.masks and needed < rounds else ""
    return Odds(_survives(ends, rounds, needed), why, keys, need, rounds)


def _is_anew(fault: Fault) -> bool:
    """Return true if a fault draws the lost clients again in each round, and they take part in the next one."""
    if not isinstance(fault, Crash) or not fault.is_drawn or fault.round is not None:
        return False
    return fault.back_after is not None and not duration(fault.back_after)


_Counts = list[tuple[tuple[int, int], float]]
"""The numbers of clients that join and are left from masking on, each with its probability."""


def _counts(
    scenario: Scenario, called: int, losses: Sequence[tuple[str, Fault]]
) -> tuple[str, tuple[str, ...], _Counts] | None:
    """The formula, the keys of the losses, and the numbers of clients of a round; None if no formula applies."""
    clients = scenario.data.clients
    if any(fault.get("count") is not None for _, fault in losses):
        (key, fault), *others = losses
        if others or fault.get("party") != "client/*" or not isinstance(fault, Crash | Leave) or fault.count is None:
            return None
        place, drawn = _place(fault, scenario, "average")[0], fault.count
        if place is None:
            return None
        every, counts = math.comb(clients, drawn), _Counts()
        for lost in range(max(0, drawn - (clients - called)), min(drawn, called) + 1):
            chance = math.comb(called, lost) * math.comb(clients - called, drawn - lost) / every
            counts.append(((called - lost if place == _BEFORE else called, called - lost), chance))
        return "hypergeometric", (key,), counts
    found = [_loss(key, fault, scenario, "average") for key, fault in losses]
    known = [one for one in found if one is not None]
    alike = all(np.ptp(one.chances) == 0 for one in known)
    if len(known) < len(found) or not known or (called < clients and not alike):
        return None
    kept = np.ones((2, clients))
    for one in known:
        kept[one.place] *= 1 - one.chances
    spread = np.zeros((called + 1, called + 1))  # axes: clients that join, and those that are left from masking on
    spread[0, 0] = 1.0
    for first, second in kept[:, :called].T:
        grown = spread * (1 - first)
        grown[1:] += spread[:-1] * first * (1 - second)
        grown[1:, 1:] += spread[:-1, :-1] * first * second
        spread = grown
    places = ((joined, left) for joined, left in np.argwhere(spread > 0).tolist())
    words = "binomial" if alike else "Poisson-binomial"
    return words, tuple(one.key for one in known), [(place, float(spread[place])) for place in places]


def _ends_of(opening: Opening, counts: Iterable[tuple[tuple[int, int], float]], all_called: bool) -> _Ends | None:
    """The probabilities of the ends of a round; None if more than the numbers of clients decide."""
    result, before, masked, nobody = list[float](), list[float](), list[float](), list[float]()
    for (joined, left), chance in counts:
        if not left and all_called:
            nobody.append(chance)
        if not opening.begins(joined):
            before.append(chance)
            continue
        opens = opening.opens(joined, left)
        if opens is None:
            return None
        result.append(chance * opens)
        (masked if opening.masks else before).append(chance * (1 - opens))
    return _Ends(*map(math.fsum, (result, before, masked, nobody)))


def _survives(ends: _Ends, rounds: int, needed: int) -> float:
    """The probability that a run has a result in `needed` of its rounds."""
    lost = rounds - needed  # at most
    in_last = max(0.0, ends.before + ends.masked - ends.nobody)  # a last round without any client is no survival
    earlier = rounds - 1
    chances = [
        math.comb(earlier, k) * ends.before**k * ends.result ** (earlier - k)
        * (ends.result + (in_last if k < lost else 0.0))
        for k in range(min(lost, earlier) + 1)
    ]  # fmt: skip
    return min(1.0, math.fsum(chances))
