"""How much noise the table [privacy] asks for, and what the run's releases reveal together."""

import math
from collections.abc import Callable, Iterable

from msgspec import Struct, structs

from parties.learning import extras
from protocols.privacy import accounting, sensitivity, xor_mechanism
from protocols.registry import using
from scenarios.schema.keys import toml
from scenarios.schema.scenario import Scenario
from sim.setting_error import Problem

__all__ = [
    "Spending", "Spent", "after_resuming", "caveats_of", "check_privacy", "privacy_cautions", "privacy_lines",
    "spending_on_labels", "spending_on_models", "spending_on_votes",
]  # fmt: skip

_ELEMENT = "one element of one client's data, replaced"
_CLIENT = "all data of one client, replaced"
_NOISE = (1e-6, 1e12)  # accounting squares it


_SEEDED = (
    'entropy = "seeded": all noise and every cohort follow from the seed in the file, and whoever knows it takes the '
    'noise off again; the guarantee needs entropy = "os"'
)
_ESTIMATED = "the sensitivity is an estimate: more bits may change"


class Spent(Struct, kw_only=True, frozen=True):
    """The differential privacy of what a run has released.

    `rounds` of `planned` ones are charged: each to which clients were called, whether or not anything came of it.
    `epsilon` is that of these together with `delta`, by Renyi accounting; `epsilon_pure` the same with delta = 0, by
    adding up, where that is finite; `epsilon_round` that of each by itself, with `delta_round`. None: no bound.
    It is `guaranteed` unless `caveats` say why not. `neighbours` says between which data, `covers` against whom. `flip`
    is the probability that a bit flips, for `sensitivity` bits that may change, which `sensitivity_from` says the
    source of; `noise` the standard deviation of Gaussian noise, in votes or in units of `clip`. `cohort` says what
    those who are drawn of all clients are counted as, where not all are.
    """

    mechanism: str
    neighbours: str
    covers: str
    guaranteed: bool
    caveats: tuple[str, ...] = ()
    rounds: int
    planned: int = 0
    delta: float
    delta_round: float
    epsilon: float | None
    epsilon_pure: float | None
    epsilon_round: float | None
    flip: float | None = None
    sensitivity: int | None = None
    sensitivity_from: str = ""
    noise: float | None = None
    clip: float | None = None
    cohort: str = ""


Spending = Callable[[int], Spent]
"""Gives what is spent with a number of rounds charged; the noise is always that of all planned rounds."""


def after_resuming(spent: Spent, scenario: Scenario) -> Spent:
    """What a run that was broken off and went on has `spent`: of seeded noise the same, else without a guarantee."""
    if scenario.entropy == "seeded":
        return spent
    caveat = "the run was broken off and went on: rounds that it held twice had fresh noise, and are charged once"
    return structs.replace(spent, guaranteed=False, caveats=(*spent.caveats, caveat))


def check_privacy(scenario: Scenario) -> None:
    """Raise Problem for what [privacy] may not say of a private protocol, and for a missing package."""
    if scenario.protocol.name not in using("private"):
        return
    its = scenario.privacy
    if not its.clip < math.inf:
        raise Problem("privacy.clip", "inf clips nothing; allowed: a number above 0")
    if its.noise and not _NOISE[0] <= its.noise <= _NOISE[1]:
        problem = f"{its.noise:g} is out of range; allowed: 0, or {_NOISE[0]:g} to {_NOISE[1]:g}"
        raise Problem("privacy.noise", problem)
    if scenario.protocol.name == "dp-fedct":
        _sensitivity_of(its.sensitivity)
    if scenario.protocol.name == "dp-fedavg":
        _check_averaging(scenario)
    if _asked(scenario) < math.inf or its.noise:
        try:
            extras.require("dp_accounting", "privacy", "Renyi accounting")
        except extras.MissingExtra as missing:
            raise Problem("protocol.name", f"{toml(scenario.protocol.name)}: {missing}") from None


def _check_averaging(scenario: Scenario) -> None:
    """Raise Problem for what [training] may not say of dp-fedavg."""
    its = scenario.training
    if its.weighting != "equal":
        problem = f"{toml(its.weighting)} lets one client move the average by more than its share"
        raise Problem("training.weighting", f'{problem}; allowed: "equal"')
    if its.update != "fedavg":
        problem = f"{toml(its.update)} is no part of dp-fedavg, or sends more than is clipped"
        raise Problem("training.update", f'{problem}; allowed: "fedavg"')
    if scenario.privacy.noise_at == "clients" and its.averaging != "secure":
        problem = '"clients" adds too little for a single model to be seen; it needs training.averaging = "secure"'
        raise Problem("privacy.noise_at", problem)


def _asked(scenario: Scenario) -> float:
    """The epsilon that is asked for."""
    return math.inf if scenario.privacy.epsilon == "none" else scenario.privacy.epsilon


def _sensitivity_of(value: int | str) -> tuple[str, float]:
    """The kind and the number of `privacy.sensitivity`. Raises Problem."""
    if isinstance(value, int):
        if value > 0:
            return "bits", value
    else:
        kind, _, number = value.partition(":")
        if value == "worst-case":
            return kind, 0
        try:
            given = float(number)
            if (kind == "proposition-2" and 0 <= given <= 1) or (kind == "neighbours" and given in range(1, 10**6)):
                return kind, given
        except ValueError:
            pass
    allowed = "bits, above 0; worst-case; proposition-2:E with E from 0 to 1; neighbours:N with N above 0"
    raise Problem("privacy.sensitivity", f"{toml(value)} is none; allowed: {allowed}")


def _caveats(scenario: Scenario) -> tuple[str, ...]:
    return (_SEEDED,) if scenario.entropy == "seeded" else ()


def spending_on_labels(
    scenario: Scenario, points: int, planned: int, questions: int, estimate: Callable[[int], sensitivity.Estimate]
) -> Spending:
    """What is spent by `dp-fedct`: labels of `points` public points in each of `planned` rounds and for each question.

    `estimate` tries a number of neighbouring data sets.
    """
    its = scenario.privacy
    kind, number = _sensitivity_of(its.sensitivity)
    source, caveats = str(its.sensitivity), _caveats(scenario)
    if kind == "bits":
        bits, source = int(number), "as given"
    elif kind == "worst-case":
        bits = sensitivity.worst_case(points)
    elif kind == "proposition-2":
        bits, caveats = sensitivity.proposition_2(points, number, its.delta), (*caveats, _ESTIMATED)
    else:
        found = estimate(int(number))
        bits, caveats = found.bits, (*caveats, _ESTIMATED)
        source = f"{found.tried} neighbouring data sets, on average {found.mean_bits:.1f}"
    bits = min(bits, sensitivity.worst_case(points))
    flip = xor_mechanism.flip_probability(_asked(scenario), bits)
    epsilon = xor_mechanism.epsilon_of(flip, bits)  # of no bits that change, none is spent

    def charge(rounds: int) -> Spent:
        labelled = rounds + questions
        return Spent(
            mechanism="XOR mechanism",
            neighbours=_ELEMENT,
            covers="whoever sees a client's messages, the server among them",
            guaranteed=not caveats,
            caveats=caveats,
            rounds=labelled,
            planned=planned + questions,
            delta=its.delta,
            delta_round=0.0,
            epsilon=_finite(accounting.random_bits(flip, bits * labelled, its.delta)),
            epsilon_pure=_finite(accounting.pure(epsilon, labelled)),
            epsilon_round=_finite(epsilon),
            flip=flip,
            sensitivity=bits,
            sensitivity_from=source,
        )

    return charge


def spending_on_votes(scenario: Scenario, points: int) -> Spending:
    """What is spent by `dp-pate`: one noisy vote on each of `points` public points, in its only round."""
    its = scenario.privacy
    noise = accounting.votes_noise_for(_asked(scenario), points, its.delta) if its.noise is None else its.noise
    once = _finite(accounting.noisy_max_queries(noise, points, its.delta))

    def charge(rounds: int) -> Spent:
        return Spent(
            mechanism="Gaussian noisy maximum",
            neighbours=_ELEMENT,
            covers="whoever sees the student or its labels, not the server",
            guaranteed=not _caveats(scenario),
            caveats=_caveats(scenario),
            rounds=rounds,
            planned=1,
            delta=its.delta,
            delta_round=its.delta,
            epsilon=once if rounds else 0.0,
            epsilon_pure=None,
            epsilon_round=once,
            noise=noise,
        )

    return charge


def spending_on_models(scenario: Scenario, cohort: int, clients: int) -> Spending:
    """What is spent by `dp-fedavg`: averages over a `cohort` drawn from all `clients` that train.

    Sampling amplifies privacy only while nobody knows who was drawn. A cohort that follows from the file's seed is
    known: then each round counts as if all clients took part.
    """
    its, planned = scenario.privacy, scenario.training.rounds
    hidden = cohort < clients and scenario.entropy != "seeded"
    counted = cohort if hidden else clients
    noise = its.noise
    if noise is None:
        noise = accounting.noise_for(_asked(scenario), counted, clients, planned, its.delta)
    server = "" if its.noise_at == "clients" and not hidden else ", not the server"  # which draws the cohort
    sampled = " and not who was drawn" if hidden else ""
    drawn = (
        "hidden: its sampling is counted where it gains anything"
        if hidden
        else "known: follows from the seed, not amplified by sampling"
    )

    def charge(rounds: int) -> Spent:
        return Spent(
            mechanism="clipped changes with Gaussian noise",
            neighbours=_CLIENT,
            covers=f"whoever sees the averages{sampled}{server}",
            guaranteed=not _caveats(scenario),
            caveats=_caveats(scenario),
            rounds=rounds,
            planned=planned,
            delta=its.delta,
            delta_round=its.delta,
            epsilon=_finite(accounting.federated_gaussian(noise, counted, clients, rounds, its.delta)),
            epsilon_pure=None,
            epsilon_round=_finite(accounting.federated_gaussian(noise, counted, clients, 1, its.delta)),
            noise=noise,
            clip=its.clip,
            cohort=drawn if cohort < clients else "",
        )

    return charge


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def caveats_of(spent: Iterable[Spent | None]) -> list[str]:
    """Why the epsilons of several runs are no guarantee, each reason once."""
    return list(dict.fromkeys(caveat for one in spent if one is not None for caveat in one.caveats))


def privacy_lines(spent: Spent | None) -> list[str]:
    """What a run prints of it."""
    if spent is None:
        return []
    once = f", delta = {spent.delta:g}"
    pure = f"; {_shown(spent.epsilon_pure)} with delta = 0" if spent.epsilon_pure is not None else ""
    lines = [f"privacy   epsilon = {_shown(spent.epsilon)}{once}{pure}, of the run"]
    if spent.rounds < spent.planned or spent.planned > 1:
        charged = f"{spent.rounds} of {spent.planned} rounds, each that clients were called to, lost or not"
        lines.append(f"          charged: {charged}")
    if spent.rounds > 1:
        each = f", delta = {spent.delta_round:g}" if spent.delta_round else ", delta = 0"
        lines.append(f"          epsilon = {_shown(spent.epsilon_round)}{each}, of each of {spent.rounds} rounds")
    if spent.flip is not None:
        known = f"{spent.sensitivity:,} of them may change ({spent.sensitivity_from})"
        lines.append(f"          {spent.mechanism}: each bit flips with probability {spent.flip:.6g}; {known}")
    else:
        clip = f" of the clip {spent.clip:g}" if spent.clip is not None else " votes"
        lines.append(f"          {spent.mechanism}: standard deviation {spent.noise:.4g}{clip}")
    if spent.cohort:
        lines.append(f"          cohort {spent.cohort}")
    lines.append(f"          between data that differ in {spent.neighbours}")
    lines.append(f"          against {spent.covers}")
    return lines + [f"          NO guarantee: {caveat}" for caveat in spent.caveats]


def privacy_cautions(scenario: Scenario) -> list[str]:
    """One line for each choice that leaves the run less private than it says."""
    if scenario.protocol.name not in using("private"):
        return []
    its, found = scenario.privacy, []
    if its.noise == 0 or (its.noise is None and its.epsilon == "none"):
        return ["[privacy] asks for no noise: nothing is differentially private"]
    if scenario.entropy == "seeded":
        found.append(f"{_SEEDED}, and every epsilon here is void")
    if scenario.protocol.name == "dp-fedct" and str(its.sensitivity).startswith(("neighbours", "proposition-2")):
        found.append(f"privacy.sensitivity = {toml(its.sensitivity)}: an estimate; the epsilon is no guarantee")
    return found


def _shown(epsilon: float | None) -> str:
    return "inf" if epsilon is None else f"{epsilon:.4g}"
