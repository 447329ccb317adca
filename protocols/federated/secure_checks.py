"""Checks of secure averages and of noise: values that contradict each other, or a sum that does not go with them."""

import math
from collections.abc import Collection
from dataclasses import replace

from tacit.protocols.federated.experiment import spending_by
from tacit.protocols.federated.keys import TrainingTables
from tacit.protocols.federated.noisy_changes import tolerated_of
from tacit.protocols.federated.round import TrainingSettings, smallest_cohort
from tacit.protocols.federated.secure_averages import Secure
from tacit.protocols.identities import is_signed, signing_colluding
from tacit.protocols.privacy.spending import check_noise
from tacit.protocols.sums.consistency import needed
from tacit.protocols.sums.keys import SumKeys
from tacit.protocols.sums.registry import SUMS
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.sim.setting_error import Problem
from tacit.sim.shares import rounded_up
from tacit.sim.toml_text import toml

__all__ = ["check_own_noise", "check_private", "check_quantised", "check_signed"]


def check_private(tables: TrainingTables) -> None:
    """Raise Problem for values of [privacy] and [training] that do not fit clipped models with noise."""
    check_noise(tables.privacy, tables.protocol.name)
    training = tables.training
    if training.weighting != "equal":
        problem = f"{toml(training.weighting)} lets one client move the average by more than its share"
        raise Problem("training.weighting", f'{problem}; allowed: "equal"')
    if training.update != "fedavg":
        problem = f"{toml(training.update)} is no part of dp-fedavg, or sends more than is clipped"
        raise Problem("training.update", f'{problem}; allowed: "fedavg"')
    if tables.privacy.noise_at == "clients" and training.averaging == "plain":
        problem = '"clients" adds too little for a single model to be seen; it needs training.averaging = "secure"'
        raise Problem("privacy.noise_at", problem)
    if tables.privacy.noise == "skellam":
        _check_removable(tables)


def _check_removable(tables: TrainingTables) -> None:
    """Raise Problem for values that do not fit removable noise of clients."""
    training, called = tables.training, rounded_up(tables.training.share, tables.data.clients)
    fit = [name for name, one in SUMS.items() if one.adds_noise]
    if training.averaging not in fit:
        problem = f'"skellam" does not go with training.averaging = {toml(training.averaging)}, which adds no noise of '
        raise Problem("privacy.noise", f"{problem}clients; allowed: {', '.join(map(toml, fit))}")
    lost, one = tolerated_of(tables, called), SUMS[training.averaging]
    if (excess := tables.privacy.excess_losses) != "refuse" and (one is not SecAgg or not is_signed(tables)):
        problem = f"{toml(excess)} opens sums with less noise, so that all survivors must sign who is left"
        allowed = 'allowed: "refuse", or training.averaging = "secure" with protocol.identity = "signed"'
        raise Problem("privacy.excess_losses", f"{problem}; {allowed}")
    uncertain = is_signed(tables) and (lost or excess != "refuse")  # other survivors than all may sign
    if uncertain and not one.tolerates_share and tables.sum.corrupt_clients == 0:
        problem = "0 lets one client that helps the server sign two sets of survivors, each with too little noise"
        raise Problem("sum.corrupt_clients", f"{problem}; allowed: above 0, or no value, which is a third")
    if not lost or tables.privacy.components == "none":
        return
    if not one.sees_all:
        problem = f'{toml(tables.privacy.components)} does not go with training.averaging = "{one.name}": its clients '
        problem += "see their neighbours alone, so they cannot check for which survivors they would reveal seeds"
        raise Problem("privacy.components", f'{problem}; allowed: "none", or privacy.tolerated = 0')
    if not is_signed(tables):
        problem = (
            f"{tables.privacy.tolerated:g} of {called} clients are {lost}; without signatures a server could name "
        )
        problem += "other survivors to each client, and remove noise that is needed"
        allowed = '0, or protocol.identity = "signed", or privacy.components = "none"'
        raise Problem("privacy.tolerated", f"{problem}; allowed: {allowed}")
    if one.tolerates_share:  # its own checks are about how many it loses
        return
    spare = called - needed(called, signing_colluding(tables, called))
    if lost > spare:
        problem = (
            f"{tables.privacy.tolerated:g} of {called} clients are {lost}; all but {spare} must sign the survivors"
        )
        allowed = f"at most {math.floor(1e4 * spare / called) / 1e4:g}, or a smaller sum.corrupt_clients"
        raise Problem("privacy.tolerated", f"{problem}; allowed: {allowed}")


def check_quantised(tables: TrainingTables, settings: TrainingSettings, labels: Collection[int]) -> None:
    """Raise Problem for values that do not fit quantised numbers in a secure average."""
    training, keys = tables.training, tables.sum
    averaging = settings.averaging
    if isinstance(averaging, Secure):
        if averaging.sum.of_integers and averaging.quantised is None and averaging.sum.noise is None:
            problem = f'"{averaging.name}" sums integers of few bits: set sum.value_bits'
            raise Problem("training.averaging", problem)
        if averaging.sum.proves and training.weighting != "equal":
            problem = f'{toml(training.weighting)} does not go with training.averaging = "{averaging.name}", whose '
            allowed = 'allowed: "equal", the default with it'
            raise Problem("training.weighting", f"{problem}proof bounds numbers and no weights; {allowed}")
        _check_fits(keys, averaging)
        _check_sum(averaging, {smallest_cohort(settings, labels), settings.together})
    if keys.value_bits == "exact" or settings.averaging.individual:
        return
    if settings.private is not None and settings.private.at == "clients":
        problem = f'{keys.value_bits} would round the noise of privacy.noise_at = "clients", which no bound covers'
        raise Problem("sum.value_bits", f'{problem}; allowed: "exact"')
    if training.weighting == "points" and keys.largest_weight is None and settings.trains_unlabeled(settings.rounds):
        problem = "is needed with sum.value_bits where unlabeled points count, too; allowed: 1 or more"
        raise Problem("sum.largest_weight", problem)


def _check_fits(keys: SumKeys, averaging: Secure) -> None:
    """Raise Problem if the words of the sum do not hold the sum of all values."""
    quantised, modulus = averaging.quantised, averaging.modulus
    if quantised is None or quantised.terms * quantised.weight * quantised.largest < modulus:
        return
    most = f"2^{modulus.bit_length()} - 1"
    problem = f"{keys.value_bits} is too large: a sum among {quantised.terms} clients must stay below {most}"
    if quantised.weight > 1:
        problem += f', with training.weighting = "points" and weights of up to {quantised.weight}'
    fitting = (modulus // (quantised.terms * quantised.weight)).bit_length() - 1
    allowed = [f"2 to {fitting}"] * (fitting > 1) + ['training.weighting = "equal"'] * (quantised.weight > 1)
    raise Problem("sum.value_bits", f"{problem}; allowed: {', or '.join(allowed)}" if allowed else problem)


def _check_sum(averaging: Secure, cohorts: Collection[int]) -> None:
    """Raise Problem if a sum does not go with one of these numbers of clients that rounds call."""
    try:
        for called in sorted(cohorts):
            averaging.sum.check(called)
    except Problem as error:
        raise Problem(f"sum.{error.key}", error.problem) from None


def check_signed(tables: TrainingTables) -> None:
    """Raise Problem for signed sets that no client sees."""
    name = tables.training.averaging
    if name in SUMS and not SUMS[name].takes_identities() and tables.protocol.identity == "signed":
        problem = f'"signed" does not go with training.averaging = "{name}", whose clients see their '
        raise Problem("protocol.identity", f'{problem}neighbours alone and cannot sign who is left; allowed: "none"')


def check_own_noise(tables: TrainingTables, settings: TrainingSettings, labels: Collection[int]) -> None:
    """Raise Problem if the noise of one client does not fit the words of a secure sum."""
    if settings.private is None or settings.private.at != "clients" or settings.private.noise is not None:
        return
    spending = spending_by(tables, labels)
    noise = None if spending is None else spending(settings.rounds).noise
    if noise:
        private = replace(settings.private, multiplier=noise)
        if problem := private.unfit(settings.averaging.honest(settings.min_clients), settings.averaging.fraction_bits):
            raise Problem("privacy.clip", f"{tables.privacy.clip:g}: {problem}")
