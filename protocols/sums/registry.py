"""All secure sums of vectors, by their names: those that come with Tacit, and those of plugins."""

from tacit.protocols.sums.committee import ByCommittee
from tacit.protocols.sums.flamingo import Flamingo
from tacit.protocols.sums.lightsecagg import LightSecAgg
from tacit.protocols.sums.secure_sum import SecAgg, SecAggPlus
from tacit.protocols.sums.sum import Sum
from tacit.sim.registry import Registry

__all__ = ["SUMS"]

SUMS: Registry[type[Sum]] = Registry(
    "sum", {one.name: one for one in (SecAgg, SecAggPlus, LightSecAgg, ByCommittee, Flamingo)}
)
"""The values of `training.averaging` that are secure sums."""
