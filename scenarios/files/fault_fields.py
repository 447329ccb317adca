"""One field of one fault, as changes and sweeps name it: ``fault.0.factor`` is the `factor` of the first [[fault]]."""

import re
from collections.abc import Collection, Iterable
from typing import Any

from scenarios.observing.faults import KINDS, unfit
from scenarios.schema.keys import similar, toml
from scenarios.schema.scenario import Fault, Scenario, ScenarioError

__all__ = ["change_fault", "check_field", "check_fields", "in_file", "is_field", "label"]

_FIELD = re.compile(r"fault\.(0|[1-9]\d{0,5})\.(.+)")
_NAMES = Fault.__struct_fields__
_CHANCES = ("occurrence", "probability")


def is_field(key: str) -> bool:
    """Whether `key` is meant to be a field of one fault."""
    return key.startswith("fault.")


def in_file(key: str) -> str:
    """How errors of a file call what `key` names: ``fault[0].factor``; a key that is no field stays as it is."""
    match = _FIELD.fullmatch(key)
    return key if match is None else f"fault[{match[1]}].{match[2]}"


def check_field(key: str, option: str) -> None:
    """Raise ScenarioError, which blames the `option`, where no fault can have the field that `key` names."""
    match = _FIELD.fullmatch(key)
    if match is None:
        problem = "is no field of a fault; allowed: fault.N.FIELD, N counted from 0, such as fault.0.party"
        raise ScenarioError(option, key, f"{problem}; or all faults, as a list: --set 'fault=[{{...}}]'")
    if match[2] not in _NAMES:
        problem = f"a fault has no {toml(match[2])}{similar(match[2], _NAMES)}; allowed: {', '.join(_NAMES)}"
        raise ScenarioError(option, key, problem)


def change_fault(faults: Any, key: str, value: object, made: Collection[str]) -> Any:
    """`faults`, a list of tables, with `value` at the field that `key` names.

    Of fields of which only one may be given the others go out, unless they are in `made`, which are changes as well.
    Raises ScenarioError where there is no such fault. What is no list of tables is left for the conversion.
    """
    number, name = _parts(key)
    if not isinstance(faults, list) or not all(isinstance(fault, dict) for fault in faults):
        return faults
    if number >= len(faults):
        there = f"has {len(faults)}, counted from 0" if faults else "has none"
        raise ScenarioError("", key, f"there is no fault {number}: the scenario {there}")
    fault = {**faults[number], name: value}
    for rivals in (_when(fault), _CHANCES):
        if name in rivals:
            for rival in rivals:
                if rival != name and f"fault.{number}.{rival}" not in made:
                    fault.pop(rival, None)
    return [*faults[:number], fault, *faults[number + 1 :]]


def check_fields(faults: Any, changed: Iterable[str]) -> None:
    """Raise ScenarioError where one of `faults` is of a kind that does not have the field that a change names."""
    for key in filter(is_field, changed):
        number, name = _parts(key)
        fault = faults[number] if isinstance(faults, list) and number < len(faults) else {}
        kind = fault.get("kind", Fault().kind) if isinstance(fault, dict) else None
        if name != "kind" and isinstance(kind, str) and kind in KINDS and name not in KINDS[kind].keys:
            raise ScenarioError("", key, unfit(kind, name))


def label(key: str, scenarios: Iterable[Scenario]) -> str:
    """What a table calls `key`; of a fault's field with the kind and the party that it has in all `scenarios`."""
    if not _FIELD.fullmatch(key):
        return key
    number, name = _parts(key)
    faults = [one.fault[number] for one in scenarios if number < len(one.fault)]
    known = [{getattr(fault, part) for fault in faults} for part in ("kind", "party") if part != name]
    words = " ".join(values.pop() for values in known if len(values) == 1)
    return f"fault {number} ({words.strip()}) {name}" if words.strip() else f"fault {number} {name}"


def _parts(key: str) -> tuple[int, str]:
    match = _FIELD.fullmatch(key)
    assert match is not None, key
    return int(match[1]), match[2]


def _when(fault: dict[str, Any]) -> tuple[str, ...]:
    """The fields of which exactly one says when the fault happens."""
    kind = fault.get("kind", Fault().kind)
    return KINDS[kind].when if isinstance(kind, str) and kind in KINDS else ()
