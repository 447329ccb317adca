"""The names of fields in tables of a list, for changes and sweeps: ``fault.0.factor``, ``client.2.up``.

The first is the `factor` of the first [[fault]], the second the `up` of the third [[client]].
"""

import re
from collections.abc import Collection, Iterable
from typing import Any

from msgspec import Struct

from tacit.scenarios.schema.keys import similar, toml
from tacit.scenarios.schema.option_names import either
from tacit.scenarios.schema.scenario import Client, Host, Link, Scenario, ScenarioError
from tacit.sim.faults import DEFAULT_KIND, KINDS, fault_keys, unfit

__all__ = ["LISTS", "change_item", "check_field", "check_fields", "is_field", "label"]

_STRUCTS: dict[str, type[Struct]] = {"client": Client, "link": Link, "host": Host}

LISTS = ("fault", *_STRUCTS)
"""The tables that a file may repeat."""

_FIELD = re.compile(rf"({'|'.join(LISTS)})\.(0|[1-9]\d{{0,5}})\.(.+)")
_CHANCES = ("occurrence", "probability")
_TITLES = {"fault": ("kind", "party"), "client": ("name",), "link": ("party", "peer"), "host": ()}
"""The fields that identify a table of a list."""


def is_field(key: str) -> bool:
    """Return true if `key` names a field of a table of a list."""
    return key.partition(".")[0] in LISTS and "." in key


def check_field(key: str, option: str) -> None:
    """Raise ScenarioError, which names the `option`, if no table of the list can have the field `key`."""
    match, table = _FIELD.fullmatch(key), key.partition(".")[0]
    names = ("kind", *fault_keys()) if table == "fault" else _STRUCTS[table].__struct_fields__
    if match is None:
        such = "party" if table == "fault" else names[0]
        problem = f"is no field of a {table}; allowed: {table}.N.FIELD, N counted from 0, such as {table}.0.{such}"
        raise ScenarioError(
            option, key, f"{problem}; or all {table}s, as a list: {either('--set ', '')}'{table}=[{{...}}]'"
        )
    if match[3] not in names:
        problem = f"a {table} has no {toml(match[3])}{similar(match[3], names)}; allowed: {', '.join(names)}"
        raise ScenarioError(option, key, problem)


def change_item(raw: dict[str, Any], key: str, value: object, made: Collection[str]) -> dict[str, Any]:
    """The table `raw` reduced to the list that `key` names, with `value` at the field.

    If only one of several fields may be given, the others are removed, unless they are in `made`, the other keys that
    are changed. Raises ScenarioError if the list has no such table. Invalid values are left for the conversion.
    """
    table, number, name = _parts(key)
    items = raw.get(table, [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return {table: items}
    if number >= len(items):
        there = f"has {len(items)}, counted from 0" if items else "has none"
        raise ScenarioError("", key, f"there is no {table} {number}: the scenario {there}")
    item = {**items[number], name: value}
    for rivals in (_when(item), _CHANCES) if table == "fault" else ():
        if name in rivals:
            for rival in rivals:
                if rival != name and f"fault.{number}.{rival}" not in made:
                    item.pop(rival, None)
    return {table: [*items[:number], item, *items[number + 1 :]]}


def check_fields(faults: Any, changed: Iterable[str]) -> None:
    """Raise ScenarioError if the kind of one of `faults` does not have a field that a change names."""
    for key in filter(is_field, changed):
        table, number, name = _parts(key)
        if table != "fault":
            continue
        fault = faults[number] if isinstance(faults, list) and number < len(faults) else {}
        kind = fault.get("kind", DEFAULT_KIND) if isinstance(fault, dict) else None
        if name != "kind" and isinstance(kind, str) and kind in KINDS and name not in KINDS[kind].__struct_fields__:
            raise ScenarioError("", key, unfit(kind, name))


def label(key: str, scenarios: Iterable[Scenario]) -> str:
    """The heading of `key`; for a field of a list, with the values that identify its table in all `scenarios`."""
    if not _FIELD.fullmatch(key):
        return key
    table, number, name = _parts(key)
    items = [getattr(one, table)[number] for one in scenarios if number < len(getattr(one, table))]
    known = [{getattr(item, part, "") for item in items} for part in _TITLES[table] if part != name]
    words = " ".join(values.pop() for values in known if len(values) == 1)
    return f"{table} {number} ({words.strip()}) {name}" if words.strip() else f"{table} {number} {name}"


def _parts(key: str) -> tuple[str, int, str]:
    match = _FIELD.fullmatch(key)
    assert match is not None, key
    return match[1], int(match[2]), match[3]


def _when(fault: dict[str, Any]) -> tuple[str, ...]:
    """The fields of the fault of which exactly one triggers it."""
    kind = fault.get("kind", DEFAULT_KIND)
    return KINDS[kind].when if isinstance(kind, str) and kind in KINDS else ()
