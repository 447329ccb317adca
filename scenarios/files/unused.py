"""Keys that a scenario gives and that change nothing, since what they belong to is not chosen."""

from collections.abc import Callable, Mapping
from typing import Any

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.schema.keys import keys
from tacit.scenarios.schema.scenario import Scenario

__all__ = ["needless", "unused"]


def unused(raw: Mapping[str, Any], *protocols: str) -> tuple[str, ...]:
    """The keys given in `raw` that only other protocols than `protocols`, those of a table's cells, use."""
    used = {key.name for key in keys() if not key.protocols or set(protocols) & set(key.protocols)}
    known = {key.name for key in keys()}
    return tuple(name for name in _given(raw) if name in known - used)


def needless(raw: Mapping[str, Any], scenario: Scenario) -> dict[str, str]:
    """The keys given in `raw` that the scenario's protocol could use, but with other choices, each with what it takes.

    `scenario` is what became of `raw`.
    """
    found: dict[str, str] = {}
    for name in _given(raw):
        for key, takes, chosen in _TAKES:
            meant = name == key or (key.endswith(".") and name.startswith(key))
            if meant and name not in unused(raw, scenario.protocol.name) and not chosen(scenario):
                found[name] = takes
    return found


def _given(raw: Mapping[str, Any]) -> list[str]:
    return [f"{table}.{key}" for table, body in raw.items() if isinstance(body, dict) for key in body]


def _uses(key: str, *values: str) -> Callable[[Scenario], bool]:
    return lambda scenario: PROTOCOLS[scenario.protocol.name].value(scenario, key) in values


def _takes_keys(scenario: Scenario) -> bool:
    """True if clients agree on keys."""
    return scenario.training.averaging == "secure" or "protocol.hamming" in PROTOCOLS[scenario.protocol.name].uses


_TAKES: tuple[tuple[str, str, Callable[[Scenario], bool]], ...] = (
    ("training.mu", 'training.update = "fedprox"', _uses("training.update", "fedprox")),
    ("protocol.threshold", 'protocol.recovery = "shamir"', _uses("protocol.recovery", "shamir")),
    (
        "protocol.identity",
        'XCLP or training.averaging = "secure"',
        lambda scenario: _takes_keys(scenario),
    ),
    ("protocol.packing", 'protocol.hamming = "paillier"', _uses("protocol.hamming", "paillier")),
    ("protocol.group", "oblivious transfer (protocol.hamming)", _uses("protocol.hamming", "iknp", "naor-pinkas")),
    ("attack.", 'attack.kind = "membership"', lambda scenario: bool(scenario.attack.kind)),
    ("byzantine.kind", "byzantine.clients > 0", lambda scenario: scenario.byzantine.clients > 0),
    (
        "cotraining.quorum",
        'cotraining.consensus = "qualified"',
        lambda scenario: scenario.cotraining.consensus == "qualified",
    ),
    ("public.distribution", "public.size > 0", lambda scenario: scenario.public.size > 0),
    ("public.source", "public.size > 0", lambda scenario: scenario.public.size > 0),
    ("model.width", 'model.name = "cnn13"', lambda scenario: scenario.model.name == "cnn13"),
)
"""Keys, or how they begin, with a dot at the end; what gives them a meaning, and whether a scenario has it."""
