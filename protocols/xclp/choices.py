"""The choices of [protocol] for XCLP: the variant of SecureHamming with its payloads, the strategy of the row sums, and
all parameters."""

from collections.abc import Mapping
from types import MappingProxyType

from tacit.protocols.identities import identities_of
from tacit.protocols.privacy.released import flip_of
from tacit.protocols.xclp.hamming import Hamming
from tacit.protocols.xclp.keys import RECOVERIES, VARIANTS, ProtocolKeys, XclpTables
from tacit.protocols.xclp.recipe import RECIPES
from tacit.protocols.xclp.variants import options_of
from tacit.protocols.xclp.xclp import Parameters
from tacit.sim.toml_text import toml
from tacit.sim.units import duration

__all__ = ["hamming_payloads", "options_of", "parameters_of", "shown", "variant_of"]


def variant_of(keys: ProtocolKeys) -> Hamming:
    """The variant of SecureHamming with its sizes, packing and group."""
    return VARIANTS[keys.hamming].make(options_of(keys))


def hamming_payloads(keys: ProtocolKeys, points: Mapping[str, int]) -> dict[str, int]:
    """The payload of each message type of SecureHamming among clients with n_j `points`, each message counted once.

    Raises LookupError for a plugin's variant without a formula.
    """
    formula = VARIANTS[keys.hamming].formula
    if formula is None:
        raise LookupError(f"protocol.hamming = {toml(keys.hamming)} has no formula of its payloads")
    return formula(options_of(keys), points)


def parameters_of(
    tables: XclpTables,
    classes: int,
    called: int | None = None,
    labeled: Mapping[str, tuple[int, int]] = MappingProxyType({}),
) -> Parameters:
    """XCLP's parameters. `called`: how many clients a round calls; None: those of a group.

    `labeled`: how many clients with labels, and how many clients, are called with each, where rows are summed by a
    secure sum.
    """
    keys = tables.protocol
    called = -(-tables.data.clients // keys.groups) if called is None else called
    return Parameters(
        variant=variant_of(keys),
        recovery=RECOVERIES[keys.recovery].strategy(tables, labeled),
        clients=tables.data.clients,
        classes=classes,
        bits=keys.bits,
        k=keys.k,
        alpha=keys.alpha,
        recipe=RECIPES[keys.recipe],
        rows=keys.rows,
        fraction_bits=keys.fraction_bits,
        min_clients=keys.min_clients,
        deadline=duration(keys.deadline),
        rounds=keys.rounds,
        flip=flip_of(tables.privacy),
        identities=identities_of(tables, called),
        orthogonal=keys.planes == "orthogonal",
        colluding=tables.sum.colluding_of(called),
    )


def shown(keys: ProtocolKeys) -> dict[str, bool]:
    """The keyword arguments by which an observer compares a run."""
    return {"compared": keys.oracle, "with_baselines": keys.baselines}
