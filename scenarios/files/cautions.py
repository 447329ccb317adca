"""Lines about a valid scenario before it is run: cautions about its choices, and notes on what follows from them."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from tacit.parties.data.sets import READERS, Own
from tacit.parties.data.splits import Shard, named
from tacit.parties.learning.extras import MissingExtra
from tacit.protocols.crypto.quorum import fewest_left, threshold_of
from tacit.protocols.experiment.experiment import Dealt
from tacit.protocols.parts import SumBounds
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.checks import MOST_POINTS, is_hollow
from tacit.scenarios.files.fault_checks import fault_cautions
from tacit.scenarios.files.splits import fleet_of, material_of, split_data
from tacit.scenarios.schema.keys import toml
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.shares import rounded_up
from tacit.sim.streams import generator
from tacit.sim.units import duration, format_duration

__all__ = ["cautions", "notes"]


def cautions(scenario: Scenario) -> list[str]:
    """A line for each choice that gives the run less secrecy than it seems to have, or too little time."""
    sized, others = _cautions_by_parties(scenario)
    return [*_cautions_of_data(scenario), *sized, *fault_cautions(scenario), *others]


_DRAWS = 1001
"""The latencies that are drawn for a median."""


def _deadline_cautions(scenario: Scenario) -> list[str]:
    """A line if a deadline is not longer than a round trip, by the median latency, of some clients with the server."""
    deadline, fleet = duration(scenario.protocol.deadline), fleet_of(scenario)
    medians: dict[str, float] = {}
    slow = []
    for numbers, _ in fleet.groups():
        latency, _ = fleet.between("server", f"client/{numbers[0]}")
        if latency.text not in medians:
            drawn = latency.draw(generator(0, "median latency"), _DRAWS)
            medians[latency.text] = 2 * float(np.median(drawn))
        if medians[latency.text] >= deadline:
            slow.append((len(numbers), medians[latency.text]))
    if not slow:
        return []
    clients, trip = sum(count for count, _ in slow), max(trip for _, trip in slow)
    key = f"protocol.deadline = {toml(scenario.protocol.deadline)}"
    return [
        f"{key} is not longer than the round trip of {clients} of {scenario.data.clients} clients "
        f"({format_duration(trip)}): their answers come too late"
    ]


def _cautions_of_data(scenario: Scenario) -> Sequence[str]:
    """The cautions that the user's own data have."""
    needs, data = PROTOCOLS[scenario.protocol.name].needs, scenario.data
    if not needs.points or not (data.path or isinstance(READERS.defined(data.name), Own)):
        return ()
    key = repr((data, needs))
    if key not in _kept_of_data:
        try:
            found = material_of(scenario).parts.held.cautions
        except (ValueError, MissingExtra):  # the run itself reports the error
            return ()
        _kept_of_data.clear()
        _kept_of_data[key] = found
    return _kept_of_data[key]


_kept_of_data: dict[str, Sequence[str]] = {}


_kept: dict[str, tuple[list[str], list[str]]] = {}


def _cautions_by_parties(scenario: Scenario) -> tuple[list[str], list[str]]:
    """The cautions of a sized run, and those of the deadline and the protocol, which depend on devices and data.

    They are cached without these, because they are needed before and after a run.
    """

    @cache
    def dealt() -> Dealt:
        material = material_of(scenario)
        return Dealt(material.named, material.fleet, material.parts)

    text = repr(scenario)  # a plugin's key may be a list, which has no hash
    if text not in _kept:
        if len(_kept) == 4:
            del _kept[next(iter(_kept))]
        sized = [_sized_caution(scenario, dealt().shards)] if scenario.fidelity == "sized" else []
        of_protocol = PROTOCOLS[scenario.protocol.name].cautions(scenario, dealt)
        _kept[text] = sized, [*_deadline_cautions(scenario), *of_protocol]
    return _kept[text]


_SIZED = (
    'fidelity = "sized": sizes and modelled times are real, but SecureHamming is not run; '
    "results are those of the plaintext protocol"
)


def _sized_caution(scenario: Scenario, shards: Mapping[str, Shard]) -> str:
    """A caution about the numbers of a sized run."""
    if not is_hollow(scenario, shards):
        return _SIZED
    return (
        f"fidelity = {toml(scenario.fidelity)}: with more than {MOST_POINTS:,} points, only messages, bytes and "
        "modelled times are computed, and these are real; no point gets a label"
    )


# --- notes


def notes(scenario: Scenario) -> list[str]:
    """A line for each consequence of the protocol's keys, such as the failure probability of its sums."""
    protocol = PROTOCOLS[scenario.protocol.name]
    clients = rounded_up(protocol.share(scenario), scenario.data.clients)
    of_sums = [_left_note(one, clients) for one in protocol.sums(scenario, clients)]
    opened = [_opened_note(one, clients) for one in protocol.sums(scenario, clients)]
    own = protocol.notes(scenario, lambda: named(split_data(scenario)[1]))
    return list(dict.fromkeys([*own, *filter(None, (*of_sums, *opened))]))  # a protocol may take several sums alike


def _opened_note(one: SumBounds, clients: int) -> str:
    """A line for a sum whose fewest clients follow from those that may collude; otherwise ""."""
    if not one.colluding or one.fewest != one.colluding + 2:
        return ""
    return (
        f"{clients} clients, of which {one.colluding} may collude with the server: a sum is opened over {one.fewest} "
        "clients or more, so that it never has the input of one other client alone"
    )


def _left_note(one: SumBounds, clients: int) -> str:
    """A line for a sum that needs more survivors than `min_clients` and the threshold state; otherwise ""."""
    if one.kind not in ("secure", "secure rows"):  # other sums need no more survivors, or have their own notes
        return ""
    threshold = threshold_of(one.threshold, clients, one.colluding)
    left = fewest_left(clients, threshold, one.fewest, one.colluding)
    if left <= max(threshold, one.fewest):
        return ""
    return (
        f"{clients} clients: a sum needs {left} survivors, more than min_clients = {one.fewest} and the threshold of "
        f"{threshold}. With fewer survivors, a server that shows clients different member lists could reveal a sum "
        f"over fewer than {one.fewest} clients"
    )
