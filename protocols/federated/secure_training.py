"""Secure averages of a run of training, from the tables [training], [sum] and [privacy], and who helps to take them."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from tacit.parties.fleet.fleet import HELPER
from tacit.parties.learning import jobs
from tacit.parties.party import Party
from tacit.protocols.crypto.fixed_point import largest
from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.crypto.words import Quantised
from tacit.protocols.experiment.experiment import Setting
from tacit.protocols.federated.dp_fedavg import Clipped
from tacit.protocols.federated.keys import TrainingTables
from tacit.protocols.federated.noisy_changes import NoisyChanges, tolerated_of
from tacit.protocols.federated.round import TrainingSettings, most_called, smallest_cohort
from tacit.protocols.federated.secure_averages import Secure, colluding_of, fewest_hidden
from tacit.protocols.identities import identities_of, is_signed, signing_colluding
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.rotated import Rounding
from tacit.protocols.privacy.spending import Spending, Spent, asked, spending_on_changes
from tacit.protocols.sums.registry import SUMS
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.sums.sum import SumHelper, SumSettings
from tacit.sim.setting_error import SettingError
from tacit.sim.shares import rounded_up

__all__ = ["averaging_of", "fewest_of", "helpers_of", "most_in_sum", "spending_on", "with_noise", "withstanding"]


def averaging_of(tables: TrainingTables, labels: Collection[int]) -> Secure:
    """The secure averaging of a round, if clients have these numbers of `labels`. Raises ValueError."""
    quantised = _quantised(tables, labels)
    one = SUMS[tables.training.averaging].of(tables)
    return Secure(replace(one, identities=identities_of(tables)) if one.takes_identities() else one, quantised)


def _quantised(tables: TrainingTables, labels: Collection[int]) -> Quantised | None:
    """The integers of a secure average. Raises SettingError if their sum does not fit into a word."""
    training, keys = tables.training, tables.sum
    if keys.value_bits == "exact":
        return None
    cohort, weight = rounded_up(training.share, tables.data.clients), 1
    if training.weighting == "points":
        weight = keys.largest_weight or max(1, *labels)
    try:
        return Quantised(keys.value_bits, keys.clip, cohort, weight)
    except ValueError as error:
        raise SettingError("value_bits", keys.value_bits, str(error)) from None


def withstanding(settings: TrainingSettings, tables: TrainingTables, labels: Collection[int]) -> Secure:
    """The averaging of the `settings` among the clients that a round calls, C of whom may collude with the server."""
    averaging = settings.averaging
    assert isinstance(averaging, Secure)
    one = averaging.sum
    among_all = not one.tolerates_share or settings.private is not None
    called = most_called(settings, labels) if among_all else smallest_cohort(settings, labels)
    identities = one.identities and one.identities.withstanding(signing_colluding(tables, called))
    of_run = Assumed(called, colluding_of(tables, called), 0)
    return replace(averaging, sum=replace(one, of_run=of_run, identities=identities))


def with_noise(
    settings: TrainingSettings, private: Clipped, tables: TrainingTables, labels: Collection[int]
) -> TrainingSettings:
    """`settings` with the clients' noise on whole numbers, in a secure sum. Raises ValueError."""
    averaging, privacy = settings.averaging, tables.privacy
    if not isinstance(averaging, Secure) or not averaging.sum.adds_noise or averaging.quantised is not None:
        return settings  # which the checks refuse
    called = most_called(settings, labels)
    try:
        rounding = Rounding(jobs.layout(settings.spec).numbers, privacy.clip)
        noise = Distributed(
            rounding, asked(privacy), privacy.delta, settings.rounds, called, max(1, averaging.sum.of_run.colluding),
            tolerated_of(tables, called), privacy.components, averaging.sum.primes, privacy.excess_losses,
            splits=averaging.sum.splits,
        )  # fmt: skip
    except ValueError as error:
        raise SettingError("tolerated", privacy.tolerated, str(error)) from None
    if noise.removes and averaging.sum.identities is None:
        return settings  # which the checks refuse
    averaging = NoisyChanges(replace(averaging.sum, noise=noise), fraction_bits=averaging.fraction_bits)
    return replace(settings, averaging=averaging, private=replace(private, noise=noise))


def fewest_of(settings: TrainingSettings, labels: Collection[int]) -> int:
    """The default of `training.min_clients` for a secure average."""
    private, averaging = settings.private, settings.averaging
    assert isinstance(averaging, Secure)
    made_for_many = private is not None and private.at == "clients" and private.noise is None
    colluding = averaging.sum.of_run.colluding if averaging.name == SecAgg.name else 0
    return fewest_hidden(smallest_cohort(settings, labels), made_for_many, colluding)


def most_in_sum(tables: TrainingTables, labels: Collection[int]) -> float:
    """The largest magnitude of a number of a false model that a sum in fixed point takes."""
    heaviest = max(1, *labels) if tables.training.weighting == "points" else 1
    return largest(Secure.fraction_bits, 2 * tables.data.clients * heaviest)


def helpers_of(setting: Setting, settings: TrainingSettings) -> tuple[Party, ...]:
    """The parties beside the server and its clients that help to take an average: the `helper`, or none."""
    world, averaging, deadline, patience = setting.world, settings.averaging, settings.deadline, settings.patience
    if isinstance(averaging, Secure) and averaging.sum.has_helper:

        def summed(number: int) -> SumSettings:
            """The settings of the sum of round `number`."""
            limits = settings.min_clients, deadline, settings.called(number)
            return averaging.settings(settings.expected_in(number), *limits)

        return (SumHelper(world, averaging.sum, summed, patience, **setting.access(HELPER)),)
    return ()


def spending_on(
    tables: TrainingTables, settings: TrainingSettings, noise: Distributed, server: Callable[[], Any]
) -> Spending:
    """The budget of removable `noise`, by what noise the sums of the `server`, in its present incarnation, carried."""
    averaging, signed = settings.averaging, is_signed(tables)
    sees_all = not isinstance(averaging, Secure) or averaging.sum.sees_all

    def spending(rounds: int) -> Spent:
        one = server()
        return spending_on_changes(
            tables.privacy, tables.entropy, noise, one.noise_counted, one.noise_carried,
            sees_all=sees_all, signed=signed,
        )(rounds)  # fmt: skip

    return spending
