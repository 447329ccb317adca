"""The noise that the table [privacy] requires, and the budget that the run's releases spend together."""

import math
from collections.abc import Callable, Sequence

from tacit.parties.learning import extras
from tacit.protocols.privacy import accounting, sensitivity, xor_mechanism
from tacit.protocols.privacy.aggregated import AggregatorNoise
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.privacy.spent import SEEDED, Carried, Spending, Spent
from tacit.sim.setting_error import Problem
from tacit.sim.toml_text import toml

__all__ = [
    "asked", "check_noise", "finite", "noise_cautions", "seeded_caveats",
    "sensitivity_cautions", "sensitivity_of",
    "spending_on_changes", "spending_on_counts", "spending_on_labels", "spending_on_models", "spending_on_votes",
]  # fmt: skip

_ELEMENT = "one element of one client's data, replaced"
_CLIENT = "all data of one client, replaced"
_NOISE = (1e-6, 1e12)  # accounting squares it


_ESTIMATED = "the sensitivity is an estimate: more bits may change"


def check_noise(privacy: Privacy, protocol: str) -> None:
    """Raise Problem for invalid values of [privacy] in any private `protocol`, and for a missing package."""
    if not privacy.clip < math.inf:
        raise Problem("privacy.clip", "inf clips nothing; allowed: a number above 0")
    noise = privacy.deviation
    if noise and not _NOISE[0] <= noise <= _NOISE[1]:
        problem = f"{noise:g} is out of range; allowed: 0, or {_NOISE[0]:g} to {_NOISE[1]:g}"
        raise Problem("privacy.noise", problem)
    if privacy.noise == "skellam":
        _check_skellam(privacy, protocol)
        return
    try:
        if asked(privacy) < math.inf or noise:
            extras.require("dp_accounting", "privacy", "Renyi accounting")
    except extras.MissingExtra as missing:
        raise Problem("protocol.name", f"{toml(protocol)}: {missing}") from None


def _check_skellam(privacy: Privacy, protocol: str) -> None:
    """Raise Problem for values that do not fit Skellam noise of clients."""
    if protocol != "dp-fedavg":
        problem = f'"skellam" does not go with protocol.name = {toml(protocol)}; allowed with it: a number'
        raise Problem("privacy.noise", problem)
    if privacy.noise_at != "clients":
        problem = '"server" adds Gaussian noise; privacy.noise = "skellam" needs noise_at = "clients"'
        raise Problem("privacy.noise_at", problem)
    if privacy.epsilon == "none":
        problem = '"none" gives privacy.noise = "skellam" no size; allowed: a number above 0, or no privacy.noise'
        raise Problem("privacy.epsilon", problem)


def asked(privacy: Privacy) -> float:
    """The epsilon of [privacy]; infinite for "none"."""
    return math.inf if privacy.epsilon == "none" else privacy.epsilon


def sensitivity_of(value: int | str) -> tuple[str, float]:
    """Parse the kind and the number of `privacy.sensitivity`. Raises Problem."""
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


def seeded_caveats(entropy: str) -> tuple[str, ...]:
    """The reasons why noise of this `entropy` guarantees nothing; () if it does."""
    return (SEEDED,) if entropy == "seeded" else ()


def spending_on_labels(
    privacy: Privacy,
    entropy: str,
    points: int,
    planned: int,
    questions: int,
    estimate: Callable[[int], sensitivity.Estimate],
) -> Spending:
    """The budget of `dp-fedct`: labels of `points` public points in each `planned` round and for each question.

    `estimate` tries a number of neighbouring data sets.
    """
    kind, number = sensitivity_of(privacy.sensitivity)
    source, caveats = str(privacy.sensitivity), seeded_caveats(entropy)
    if kind == "bits":
        bits, source = int(number), "as given"
    elif kind == "worst-case":
        bits = sensitivity.worst_case(points)
    elif kind == "proposition-2":
        bits, caveats = sensitivity.proposition_2(points, number, privacy.delta), (*caveats, _ESTIMATED)
    else:
        found = estimate(int(number))
        bits, caveats = found.bits, (*caveats, _ESTIMATED)
        source = f"{found.tried} neighbouring data sets, on average {found.mean_bits:.1f}"
    bits = min(bits, sensitivity.worst_case(points))
    flip = xor_mechanism.flip_probability(asked(privacy), bits)
    epsilon = xor_mechanism.epsilon_of(flip, bits)  # of no bits that change, none is spent

    def charge(rounds: int) -> Spent:
        labelled = rounds + questions
        return Spent(
            guaranteed=not caveats,
            caveats=caveats,
            mechanism="XOR mechanism",
            neighbours=_ELEMENT,
            covers="whoever sees a client's messages, the server among them",
            rounds=labelled,
            planned=planned + questions,
            delta=privacy.delta,
            delta_round=0.0,
            epsilon=finite(accounting.random_bits(flip, bits * labelled, privacy.delta)),
            epsilon_pure=finite(accounting.pure(epsilon, labelled)),
            epsilon_round=finite(epsilon),
            flip=flip,
            sensitivity=bits,
            sensitivity_from=source,
        )

    return charge


def spending_on_votes(privacy: Privacy, entropy: str, points: int) -> Spending:
    """The budget of `dp-pate`: one noisy vote on each of `points` public points, in its only round."""
    gaussian = privacy.votes_noise == "gaussian"
    least, spent = (
        (accounting.votes_noise_for, accounting.noisy_max_queries)
        if gaussian
        else (accounting.laplace_noise_for, accounting.laplace_queries)
    )
    noise = privacy.deviation
    noise = least(asked(privacy), points, privacy.delta) if noise is None else noise
    once = finite(spent(noise, points, privacy.delta))

    def charge(rounds: int) -> Spent:
        return Spent(
            guaranteed=not seeded_caveats(entropy),
            caveats=seeded_caveats(entropy),
            mechanism="Gaussian noisy maximum" if gaussian else "Laplace noisy maximum",
            neighbours=_ELEMENT,
            covers="whoever sees the student or its labels, not the server",
            rounds=rounds,
            planned=1,
            delta=privacy.delta,
            delta_round=privacy.delta,
            epsilon=once if rounds else 0.0,
            epsilon_round=once,
            noise=noise,
        )

    return charge


def spending_on_models(privacy: Privacy, entropy: str, planned: int, cohort: int, clients: int) -> Spending:
    """The budget of `dp-fedavg`: averages over a `cohort` of all `clients` that train, in `planned` rounds.

    Sampling amplifies privacy only while the cohort is secret. A cohort that follows from the file's seed is known:
    then each round counts as if all clients took part.
    """
    hidden = cohort < clients and entropy != "seeded"
    counted = cohort if hidden else clients
    noise = privacy.deviation
    if noise is None:
        noise = accounting.noise_for(asked(privacy), counted, clients, planned, privacy.delta)
    server = "" if privacy.noise_at == "clients" and not hidden else ", not the server"  # which draws the cohort
    sampled = " and not who was drawn" if hidden else ""
    drawn = (
        "hidden: its sampling is counted where it gains anything"
        if hidden
        else "known: follows from the seed, not amplified by sampling"
    )

    def charge(rounds: int) -> Spent:
        return Spent(
            guaranteed=not seeded_caveats(entropy),
            caveats=seeded_caveats(entropy),
            mechanism="clipped changes with Gaussian noise",
            neighbours=_CLIENT,
            covers=f"whoever sees the averages{sampled}{server}",
            rounds=rounds,
            planned=planned,
            delta=privacy.delta,
            delta_round=privacy.delta,
            epsilon=finite(accounting.federated_gaussian(noise, counted, clients, rounds, privacy.delta)),
            epsilon_round=finite(accounting.federated_gaussian(noise, counted, clients, 1, privacy.delta)),
            noise=noise,
            clip=privacy.clip,
            cohort=drawn if cohort < clients else "",
        )

    return charge


def spending_on_changes(
    privacy: Privacy, entropy: str, noise: Distributed, counted: Sequence[int] = (), carried: Sequence[Carried] = (), *,
    sees_all: bool = True, signed: bool = True,
) -> Spending:  # fmt: skip
    """The budget of `dp-fedavg` with removable `noise` of the clients on the changes of each of its rounds.

    No draw of clients counts, as the server draws; each round counts with all the noise that is certain. `counted`: the
    variances of the honest clients' noise in rounds so far; further rounds count with the least. `carried`: the noise
    in opened sums. `sees_all`: as in `Sum`; if not, that the noise is enough depends on the server. `signed`: clients
    know long-term keys; if not, a server with keys of its own in their place takes part as all others.
    """
    server = "the server" if signed else "the server, if it hands out the keys of the clients,"
    server = server if sees_all else "the server, if it follows the protocol,"
    many = noise.colluding
    among = f"{server} and up to {many} client{'s' * (many > 1)} together"

    def charge(rounds: int) -> Spent:
        after = noise.after(counted)
        variances = [*counted, *[after.unopened] * (rounds - len(counted))] if rounds > len(counted) else counted
        return Spent(
            guaranteed=not seeded_caveats(entropy),
            caveats=seeded_caveats(entropy),
            mechanism="clipped changes with Skellam noise of the clients",
            neighbours=_CLIENT,
            covers=f"whoever sees the sums: {among}",
            rounds=rounds,
            planned=noise.rounds,
            delta=privacy.delta,
            delta_round=privacy.delta,
            epsilon=finite(noise.spent_on(variances)),
            epsilon_round=finite(noise.spent_on((min(variances, default=noise.variance),))),
            noise=noise.deviation / privacy.clip,
            clip=privacy.clip,
            carried=tuple(carried),
        )

    return charge


def spending_on_counts(privacy: Privacy, entropy: str, noise: AggregatorNoise) -> Spending:
    """The budget of counts of proved votes, with the `noise` of each of two aggregators in each round."""

    def charge(rounds: int) -> Spent:
        return Spent(
            guaranteed=not seeded_caveats(entropy),
            caveats=seeded_caveats(entropy),
            mechanism="counts of votes with Skellam noise of each aggregator",
            neighbours=_CLIENT,
            covers="whoever sees the counts, and the server or the helper, not both together",
            rounds=rounds,
            planned=noise.rounds,
            delta=noise.delta,
            delta_round=noise.delta,
            epsilon=finite(noise.spent(rounds)),
            epsilon_round=finite(noise.spent(1)),
            noise=noise.deviation,
        )

    return charge


def finite(epsilon: float) -> float | None:
    """Return `epsilon`, or None if it is infinite."""
    return epsilon if math.isfinite(epsilon) else None


def noise_cautions(privacy: Privacy, entropy: str) -> list[str]:
    """A line for each choice that makes a run of any private protocol less private than stated."""
    if privacy.noise == 0 or (privacy.noise is None and privacy.epsilon == "none"):
        return ["[privacy] sets no noise, so nothing is differentially private"]
    return [f"{SEEDED}. No epsilon of this run is a guarantee"] if entropy == "seeded" else []


def sensitivity_cautions(privacy: Privacy) -> list[str]:
    """A line if the sensitivity is an estimate."""
    if not str(privacy.sensitivity).startswith(("neighbours", "proposition-2")):
        return []
    return [
        f"privacy.sensitivity = {toml(privacy.sensitivity)}: this is an estimate, so the epsilon is not a guarantee"
    ]
