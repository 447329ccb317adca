"""The outlook of a scenario before it is run: a caution if its own losses make it unlikely that a run completes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import structs

from tacit.protocols.parts import DRAWN
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files import cautions as of_choices
from tacit.scenarios.schema.keys import toml
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.sim.faults import Fault
from tacit.sim.grammar import in_number

if TYPE_CHECKING:
    from tacit.scenarios.files.odds import Odds

__all__ = ["cautions", "survival_cautions", "tolerance_cautions"]


@dataclass(frozen=True)
class _Trial:
    """A sequential test: runs are tried until one outcome has a `lead` over the other, or `most` are done.

    The majority decides. With a probability p of completion and no bound, the outlook is wrong with the probability
    1 / (1 + (p / (1 - p))^lead) for p > 0.5 (gambler's ruin).
    """

    lead: int
    most: int


_TRIALS = {100: _Trial(lead=5, most=20), 1000: _Trial(lead=3, most=9)}
"""The test for each largest number of clients times rounds; larger scenarios are not tried, as runs take seconds."""

_WITHOUT_CHANCE = _Trial(lead=2, most=3)
"""The test for losses that affect the same clients under each seed."""

_ABLATED, _SHOWN = 3, 4
"""The runs that are tried without each key; the most keys that are named."""

_kept: dict[str, list[str]] = {}


def cautions(scenario: Scenario) -> list[str]:
    """Return a line for each choice that costs a run its secrecy or its time, or makes it unlikely that it
    completes."""
    found = (*of_choices.cautions(scenario), *tolerance_cautions(scenario), *survival_cautions(scenario))
    return [in_number(line) for line in found]


def tolerance_cautions(scenario: Scenario) -> list[str]:
    """Return a line if a tenth of drawn rounds or more end without a sum, because more clients may be lost in each
    round than `sum.tolerated_dropouts` allows for; with a value by which fewer do, if there is one."""
    if scenario.expect.outcome not in (None, "completed") or not scenario.fault:
        return []
    from tacit.scenarios.files.odds import refusals_of

    if (found := refusals_of(scenario)) is None:
        return []
    if 10 * found.without < DRAWN:
        return []
    named = " and ".join(_named(scenario, key) for key in found.keys)
    key = f"sum.tolerated_dropouts(={scenario.sum.tolerated_dropouts:g})"
    without = f"{found.without} of {DRAWN} drawn rounds end without a sum of {scenario.training.averaging}"
    advice = "" if found.value is None else f"; with {found.value:g} it is {found.fewer}"
    return [f"{named}: {without}, as more clients may be lost than {key} allows for{advice}"]


def survival_cautions(scenario: Scenario) -> list[str]:
    """Return a line if a run of `scenario` completes with a probability below 0.5, with the keys responsible for it.

    The probability is exact if a formula applies (`odds`). Otherwise a scenario with faults, message losses or client
    tables is tried with a few seeds, on hollow values. A scenario that expects another outcome gets no line.
    """
    if scenario.expect.outcome not in (None, "completed") or scenario.attack.kind:
        return []
    if odds := _odds_of(scenario):
        if odds.probability >= 0.5:
            return []
        named = " and ".join(_named(scenario, key) for key in odds.keys)
        chance = f"{odds.probability:.2g}" if odds.probability else "0"
        return [f"{named}: a run completes with a probability of {chance}, for it needs {odds.need}"]
    keys, trial = _losing(scenario), _trial_of(scenario)
    if not keys or trial is None:
        return []
    text = repr(structs.replace(scenario, seed=0, title=""))  # all seeds of a sweep share an outlook
    if text not in _kept:
        if len(_kept) == 64:
            del _kept[next(iter(_kept))]
        try:
            _kept[text] = _caution_by_trials(scenario, keys, trial)
        except ScenarioError:  # the run itself reports the error
            _kept[text] = []
    return _kept[text]


def _odds_of(scenario: Scenario) -> "Odds | None":
    if not scenario.fault:
        return None
    from tacit.scenarios.files.odds import odds_of

    return odds_of(scenario)


def _caution_by_trials(scenario: Scenario, keys: Sequence[str], trial: _Trial) -> list[str]:
    from tacit.scenarios.running.fates import fates_of

    completed, failed, reasons = 0, list[int](), list[str]()
    while abs(completed - len(failed)) < trial.lead and completed + len(failed) < trial.most:
        (fate,) = fates_of(scenario, [completed + len(failed)])
        if fate.completed:
            completed += 1
        else:
            failed.append(fate.seed)
            reasons.append(f"{fate.outcome}: {fate.reason.with_lost(())}")
    if completed >= len(failed):
        return []
    deciding = list(keys)
    if 1 < len(keys) <= 2 * _SHOWN:  # name the keys without which most of the failed runs complete
        seeds = failed[:_ABLATED]
        saved = {key: sum(fate.completed for fate in fates_of(_without(scenario, key), seeds)) for key in keys}
        deciding = [key for key in keys if 2 * saved[key] > len(seeds)] or deciding
    named = " and ".join(_named(scenario, key) for key in deciding[:_SHOWN])
    more = f" and {len(deciding) - _SHOWN} more" if len(deciding) > _SHOWN else ""
    reason, tried = max(dict.fromkeys(reasons), key=reasons.count), completed + len(failed)
    return [f"{named}{more}: of {tried} runs with the seeds 0 to {tried - 1}, {completed} complete; most are {reason}"]


def _trial_of(scenario: Scenario) -> _Trial | None:
    """The test for a scenario of this size; None if the scenario is too large or runs the user's code."""
    protocol = PROTOCOLS[scenario.protocol.name]
    size = scenario.data.clients * protocol.rounds(scenario)
    sized = next((trial for most, trial in _TRIALS.items() if size <= most), None)
    if sized is None or not protocol.needs.points or scenario.plugins:
        return None
    chance = any(_is_drawn(fault) for fault in scenario.fault) or protocol.share(scenario) < 1
    return sized if chance or scenario.client or scenario.link or scenario.network.loss else _WITHOUT_CHANCE


def _is_drawn(fault: Fault) -> bool:
    """True for a fault that strikes other clients under other seeds."""
    return any(fault.get(key) is not None for key in ("probability", "share", "count"))


def _losing(scenario: Scenario) -> list[str]:
    """Return the keys that make a run lose parties, messages or time."""
    found = [f"fault.{number}" for number in range(len(scenario.fault))]
    for number, one in enumerate(scenario.client):
        found += [f"client.{number}.{key}" for key, calm in _CALM.items() if getattr(one, key) != calm]
    found += [f"link.{number}" for number in range(len(scenario.link))]
    return [*found, "network.loss"] if scenario.network.loss else found


def _without(scenario: Scenario, key: str) -> Scenario:
    """Return the scenario without one of the keys of `_losing`."""
    table, _, place = key.partition(".")
    if table == "network":
        return structs.replace(scenario, network=structs.replace(scenario.network, loss=0.0))
    number, _, name = place.partition(".")
    tables, index = list(getattr(scenario, table)), int(number)
    tables[index : index + 1] = [structs.replace(tables[index], **{name: _CALM[name]})] if name else []
    return structs.replace(scenario, **{table: tuple(tables)})


_CALM = {
    "file": "", "preset": "", "latency": None, "up": None, "down": None, "loss": None, "cores": None, "speed": None,
    "availability": "",
}  # fmt: skip
"""The keys of [[client]] that lose or delay a client, with the values that have no effect."""


def _named(scenario: Scenario, key: str) -> str:
    """Return a key with its value, if it has one."""
    table, _, place = key.partition(".")
    if table == "network":
        return f"{key} = {scenario.network.loss:g}"
    if table == "client":
        number, _, name = place.partition(".")
        return f"{key} = {toml(getattr(scenario.client[int(number)], name))}"
    if table != "fault":
        return key
    fault = scenario.fault[int(place)]
    at = fault.get("at") or fault.get("before") or fault.get("after")
    drawn = [name for name in ("probability", "share", "count") if fault.get(name) is not None]
    shown = f"{key}.{drawn[0]} = {fault.get(drawn[0]):g}" if drawn else f"{key}.kind = {toml(fault.kind)}"
    return f"{shown} at {at}" if at else shown
