"""Sized runs: the choice of hollow values, and cautions about their numbers."""

from collections.abc import Mapping

from tacit.parties.data.splits import Shard, counted
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.toml_text import toml

__all__ = ["MOST_POINTS", "is_hollow", "sized_caution"]

MOST_POINTS = 20_000
"""The most points with which a sized run computes everything but the cryptography, and has results."""

_SIZED = (
    'fidelity = "sized": sizes and modelled times are real, but SecureHamming is not run; '
    "results are those of the plaintext protocol"
)


def is_hollow(scenario: Scenario, shards: Mapping[str, Shard]) -> bool:
    """Return true if a run of `scenario`, among clients with `shards`, uses hollow values (`tacit.sim.hollow`).

    Such a run trains nothing, uses modelled times only, and its results under faults are not observed.
    """
    if scenario.fidelity != "sized":
        return False
    large = sum(counted(shards)[0].values()) > MOST_POINTS
    calm = not (scenario.fault or scenario.attack.kind or scenario.network.loss)
    return large and calm and scenario.cost.startswith("modelled") and not PROTOCOLS[scenario.protocol.name].learns


def sized_caution(scenario: Scenario, shards: Mapping[str, Shard]) -> str:
    """A caution about the numbers of a sized run."""
    if not is_hollow(scenario, shards):
        return _SIZED
    return (
        f"fidelity = {toml(scenario.fidelity)}: with more than {MOST_POINTS:,} points, only messages, bytes and "
        "modelled times are computed, and these are real; no point gets a label"
    )
