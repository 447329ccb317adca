"""What [protocol] chooses of XCLP: the variant of SecureHamming, the strategy of the row sums, and all parameters."""

from collections.abc import Mapping

from protocols import consistency, setup
from protocols.declaration import messages_in
from protocols.identities import identities_of
from protocols.privacy.released import flip_of
from protocols.steps import Step
from protocols.xclp import hamming, influence, rowsums
from protocols.xclp.hamming import Hamming
from protocols.xclp.keys import ProtocolKeys, XclpTables
from protocols.xclp.recipe import RECIPES
from protocols.xclp.variants import ROW_SUMS, VARIANTS, HammingOptions
from protocols.xclp.xclp import Parameters
from sim.units import duration
from sim.wire import Message

__all__ = ["chosen", "messages_of", "options_of", "parameters_of", "recovery_steps", "shown", "variant_of"]


def options_of(keys: ProtocolKeys) -> HammingOptions:
    """What [protocol] says about SecureHamming."""
    return HammingOptions(
        keys.bits, keys.key_bits, keys.insecure_keys, keys.packing, keys.rerandomise, keys.group, keys.short_exponents
    )


def variant_of(keys: ProtocolKeys) -> Hamming:
    """The variant of SecureHamming with its sizes, packing and group."""
    return VARIANTS[keys.hamming].make(options_of(keys))


def parameters_of(tables: XclpTables, classes: int) -> Parameters:
    """XCLP's parameters."""
    keys = tables.protocol
    return Parameters(
        variant=variant_of(keys),
        recovery=ROW_SUMS[keys.recovery].make(keys.threshold),
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
        identities=identities_of(tables),
        orthogonal=keys.planes == "orthogonal",
    )


def shown(keys: ProtocolKeys) -> dict[str, bool]:
    """What an observer puts beside a run."""
    return {"compared": keys.oracle, "with_baselines": keys.baselines}


def chosen(keys: ProtocolKeys, recovery: str = "") -> dict[str, str]:
    """The choices that bring in steps or messages; `recovery` in place of what the keys say, if it is given."""
    choices = {"protocol.hamming": keys.hamming, "protocol.recovery": recovery or keys.recovery}
    return choices | ({"protocol.identity": keys.identity} if keys.identity == "signed" else {})


def recovery_steps() -> Mapping[str, tuple[Step, ...]]:
    """The steps of each strategy of the row sums."""
    return {name: way.steps for name, way in ROW_SUMS.items()}


def messages_of(choices: Mapping[str, str]) -> tuple[type[Message], ...]:
    """The types of messages that XCLP sends with these choices."""
    variant, sums = VARIANTS[choices["protocol.hamming"]], ROW_SUMS[choices["protocol.recovery"]]
    pairs = hamming.OF_PAIRS if variant.pairs else ()
    shared = (*messages_in(setup), *pairs, hamming.Members, *messages_in(influence, rowsums))
    agreed = messages_in(consistency) if "protocol.identity" in choices and sums.messages else ()
    return (*shared, *variant.messages, *sums.messages, *agreed)
