"""The outlook of a scenario before it is run: a caution if its own losses make it unlikely that a run completes."""

from msgspec import structs

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files import checks
from tacit.scenarios.files.odds import odds_of
from tacit.scenarios.schema.keys import toml
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.faults import Availability

__all__ = ["cautions", "survival_cautions"]

_SMALL = 100
"""The most clients times rounds of a scenario that is tried with a few runs."""

_ENOUGH, _FAILURES = 4, 9
"""Runs are tried until this number complete, or this number do not.

Of 100 scenarios that complete half the time, 7 get a caution."""

_kept: dict[str, list[str]] = {}


def cautions(scenario: Scenario) -> list[str]:
    """Return a line for each choice that costs a run its secrecy or its time, or makes it unlikely that it
    completes."""
    return [*checks.cautions(scenario), *survival_cautions(scenario)]


def survival_cautions(scenario: Scenario) -> list[str]:
    """Return a line if a run of `scenario` completes with a probability below 0.5, with the key that makes it so.

    The probability is exact where a formula applies (`odds`). Else a small scenario whose losses are by chance is tried
    with a few seeds, on hollow values. A scenario that expects another outcome gets none.
    """
    if scenario.expect.outcome not in (None, "completed") or scenario.attack.kind:
        return []
    if (odds := odds_of(scenario)) is not None:
        if odds.probability >= 0.5:
            return []
        keys = " and ".join(_named(scenario, key) for key in odds.keys)
        chance = f"{odds.probability:.2g}" if odds.probability else "0"
        return [f"{keys}: a run completes with a probability of {chance}, for it needs {odds.need}"]
    keys_of_chance = _by_chance(scenario)
    if not keys_of_chance or not _is_small(scenario):
        return []
    text = repr(structs.replace(scenario, seed=0, title=""))  # the seeds of a sweep have one outlook
    if text not in _kept:
        if len(_kept) == 64:
            del _kept[next(iter(_kept))]
        _kept[text] = _tried(scenario, keys_of_chance)
    return _kept[text]


def _tried(scenario: Scenario, keys: list[str]) -> list[str]:
    from tacit.scenarios.running.fates import fates_of

    completed, failed = 0, list[str]()
    while completed < _ENOUGH and len(failed) < _FAILURES:
        (fate,) = fates_of(scenario, [completed + len(failed)])
        if fate.completed:
            completed += 1
        else:
            failed.append(f"{fate.outcome}: {fate.general}")
    if completed == _ENOUGH:
        return []
    reason = max(dict.fromkeys(failed), key=failed.count)
    named, tried = " and ".join(_named(scenario, key) for key in keys), completed + len(failed)
    return [f"{named}: of {tried} runs with the seeds 0 to {tried - 1}, {completed} complete; most are {reason}"]


def _is_small(scenario: Scenario) -> bool:
    protocol = PROTOCOLS[scenario.protocol.name]
    size = scenario.data.clients * protocol.rounds(scenario)
    return size <= _SMALL and protocol.needs.points and not scenario.plugins  # others run code of the user's


def _by_chance(scenario: Scenario) -> list[str]:
    """Return the keys by which a run loses parties or messages by chance, or for as long as a file says."""
    found = [
        f"fault.{number}"
        for number, fault in enumerate(scenario.fault)
        if fault.get("probability") is not None or isinstance(fault, Availability)
    ]
    found += [f"client.{number}.availability" for number, one in enumerate(scenario.client) if one.availability]
    if scenario.network.transport == "datagram" and scenario.network.loss:
        found.append("network.loss")
    return found


def _named(scenario: Scenario, key: str) -> str:
    """Return a key with its value."""
    if key == "network.loss":
        return f"{key} = {scenario.network.loss:g}"
    if not key.startswith("fault."):
        return key
    fault = scenario.fault[int(key.removeprefix("fault."))]
    chance, place = fault.get("probability"), fault.get("at") or fault.get("before") or fault.get("after")
    shown = f"{key}.probability = {chance:g}" if chance is not None else f"{key}.kind = {toml(fault.kind)}"
    return f"{shown} at {place}" if place else shown
