"""Which sized runs go by their plan, message by message and job by job, with no party to send or compute anything."""

from collections.abc import Mapping

from parties.data.splits import Shard
from protocols.registry import PROTOCOLS
from scenarios.schema.scenario import Scenario
from sim.toml_text import toml

__all__ = ["MOST_POINTS", "goes_by_plan", "sized_caution"]

MOST_POINTS = 20_000
"""The points up to which a sized run has parties, who send each other messages of the real sizes, and has results."""

_SIZED = (
    'fidelity = "sized": sizes and modelled times are the real ones, SecureHamming is not carried out; '
    "results are those of the plaintext protocol"
)


def goes_by_plan(scenario: Scenario, shards: Mapping[str, Shard]) -> bool:
    """Whether a run of `scenario`, among clients with `shards`, goes by its plan.

    A plan has no faults, trains nothing and knows the modelled times only.
    """
    large = sum(len(shard.rows) for shard in shards.values()) > MOST_POINTS
    calm = not (scenario.fault or scenario.attack.kind or scenario.network.loss)
    plain = scenario.cost == "modelled" and not PROTOCOLS[scenario.protocol.name].learns
    return scenario.fidelity == "sized" and large and calm and plain


def sized_caution(scenario: Scenario, shards: Mapping[str, Shard]) -> str:
    """What to know about the numbers of a sized run."""
    if not goes_by_plan(scenario, shards):
        return _SIZED
    return (
        f"fidelity = {toml(scenario.fidelity)}: beyond {MOST_POINTS:,} points messages, bytes and modelled times are "
        "those of a run in which nobody is lost and no wait ends too early; no point gets a label"
    )
