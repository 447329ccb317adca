"""Composes a scenario of the tables of its file and of changes: by --set, by a cell of a table, or by `scale`.

A change is a dotted key with its value. The key may name a field in a table of a list: ``fault.0.factor`` is the
`factor` of the first [[fault]], ``client.2.up`` the `up` of the third [[client]].
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.converting import converted, scenario_in
from tacit.scenarios.files.source import Table, anchored, parse_toml
from tacit.scenarios.schema.keys import keys, kind_of, moved, named, similar, structure, toml
from tacit.scenarios.schema.option_names import called, either
from tacit.scenarios.schema.scenario import LISTS, OWN, REPEATED, Scenario, ScenarioError, ScenarioFile, as_table
from tacit.sim.faults import DEFAULT_KIND, KINDS, fault_keys, unfit

if TYPE_CHECKING:
    from tacit.scenarios.files.table_layout import Layout

__all__ = ["Composed", "change", "check_either", "composed", "label"]

_DATA = ("data.name", "data.path")
"""The two sources of points; exactly one is given."""

_EITHER = {
    "data.name": ("path",),
    "data.path": ("name",),
    "expect.lost": ("lost_at_most", "lost_includes"),
    "expect.lost_at_most": ("lost",),
    "expect.lost_includes": ("lost",),
}
"""Keys that exclude each other: a --set of one removes the others, unless they are set as well."""


def change(text: str, options: Mapping[str, str]) -> tuple[str, Any]:
    """Parse ``key=value`` into a known key and its new value; `options` as in `read`. Raises ScenarioError."""
    key, equals, written = text.partition("=")
    key = key.strip()
    if not equals or not key:
        allowed = either("--set key=value, such as --set protocol.k=5", "key=value, such as protocol.k=5")
        raise ScenarioError(called("--set", text), "", f"allowed: {allowed}")
    known = () if key in named() else _known()
    if key == "plugins":
        problem = (
            f"a plugin is code, which no {either('--set', 'change')} takes in; allowed: plugins = [...] in the file, "
        )
        problem += either("or --plugin FILE", "or in a Scenario")
        raise ScenarioError(options.get(key, called("--set")), key, problem)
    if _is_field(key):
        _check_field(key, options.get(key, called("--set")))
    elif known and key not in known:
        if new := moved(key):
            raise ScenarioError(options.get(key, called("--set")), key, f"this key is now {new}")
        listed = next((name for name in LISTS if key.startswith(name)), "")
        hint = (
            f"; the whole list is replaced: {either('--set ', '')}'{listed}=[{{...}}]', a key of one by {listed}.0.KEY"
            if listed
            else ""
        )
        hint = hint or similar(key, known) or f"; `{either('tacit keys', 'tacit.keys()')}` lists them"
        raise ScenarioError(options.get(key, called("--set")), key, "there is no such key" + hint)
    try:
        parsed = parse_toml(f"value = {written}")
    except tomllib.TOMLDecodeError:
        return key, written.strip()
    return key, parsed["value"] if len(parsed) == 1 else written.strip()


def check_either(changed: Iterable[tuple[str, Any]]) -> None:
    """Raise ScenarioError if --set gives two keys of which only one may be given."""
    given: dict[str, Any] = {}
    for key, value in changed:
        table = value if isinstance(value, dict) else {}
        given |= {f"{key}.{name}": item for name, item in table.items()} if table else {key: value}
    if all(given.get(key) for key in _DATA):
        raise ScenarioError(called("--set"), "data", "name and path are both given; allowed: exactly one of them")


def _known() -> list[str]:
    """The keys that a change may name, including whole tables."""
    return [*(field.encode_name for field in structure().fields), *(row.name for row in keys() if not row.is_of_list)]


@dataclass(frozen=True)
class Composed:
    """A scenario that is not checked yet; `given`: its keys that the file or a change gives, by their tables.

    `protocols`: that of the scenario, and those of its table's cells. `layout`: the file's table, if it has one.
    """

    scenario: Scenario
    given: Table
    protocols: tuple[str, ...]
    layout: "Layout | None"


def composed(
    path: Path,
    raw: Table,
    changed: Sequence[tuple[str, Any]],
    seed: int | None,
    cell: Mapping[str, Any] | None,
    *,
    filled: bool,
) -> Composed:
    """Compose a scenario of `raw`, the tables of the file `path`, which become those of the scenario.

    The first to be set is what `scale` changes, then the keys that are `changed`, the `cell` of a table, and the
    `seed`. `filled`: the tables contain all defaults, like those in a run's folder. Raises ScenarioError.
    """
    where, plugins = str(path), raw["plugins"]
    _apply(raw, [item for item in changed if _owns(item[0])], Path.cwd())
    own = converted({key: raw.pop(key) for key in OWN if key in raw}, where)
    try:
        layout = None
        if own.table != ScenarioFile().table:
            from tacit.scenarios.files.table_layout import layout_of

            layout = layout_of(own, _settable())
        if own.scale == "paper":
            _apply(raw, _paper(own), path.parent)
    except ScenarioError as error:
        raise ScenarioError(where, error.key, error.problem) from None
    rest = [item for item in changed if not _owns(item[0])]
    if filled:
        _leave_to_the_run(raw, {key for key, _ in rest}, where)
    _apply(raw, rest, Path.cwd())
    given = dict(rest)
    for key in _DATA:
        if given.get(key) and "title" not in given:  # the file's describes other data
            raw["title"] = f"{path.stem} with {key} = {toml(given[key])}"
    _apply(raw, (cell or {}).items(), path.parent)
    if seed is not None:
        raw["seed"] = seed
    raw["plugins"] = plugins  # changes must not replace the resolved plugins
    scenario = scenario_in(raw, where)
    cells = (place.sets for place in (*layout.rows, *layout.columns)) if layout else ()
    others = (dict(sets).get("protocol.name", scenario.protocol.name) for sets in cells)
    protocols = tuple(dict.fromkeys((scenario.protocol.name, *others)))
    return Composed(scenario, _without_defaults(raw) if filled else raw, protocols, layout)


def _apply(raw: Table, changes: Iterable[tuple[str, Any]], folder: Path) -> None:
    """Set dotted keys to their values; paths among them are relative to `folder`."""
    made: set[str] = set()
    for key, value in changes:
        made.add(key)
        if _is_field(key):
            raw |= anchored(_change_item(raw, key, value, made), folder)
            continue
        table, dot, last = key.partition(".")
        given, body = anchored({table: {last: value} if dot else value}, folder), raw.get(table)
        raw[table] = {**body, **given[table]} if dot and isinstance(body, dict) else given[table]
        for other in _EITHER.get(key, ()) if value or key not in _DATA else ():
            if f"{table}.{other}" not in made:
                raw[table].pop(other, None)
    _check_fields(raw.get("fault"), made)


def _settable() -> list[str]:
    """The keys that a change may set: the known ones without tables of keys."""
    known = [key for key in _known() if key != "plugins"]
    tables = {key.rpartition(".")[0] for key in known}
    return [key for key in known if not _owns(key) and key not in tables]


def _owns(key: str) -> bool:
    """Return true if `key` belongs to the file and not to a scenario, like those of its table."""
    return key.partition(".")[0] in OWN


def _paper(file: ScenarioFile) -> list[tuple[str, Any]]:
    """The changes that `scale = "paper"` makes to the scenario in `file`."""
    if not file.scales.paper:
        raise ScenarioError("", "scale", '"paper" is not in the file, which has no [scales.paper]; allowed: "small"')
    from tacit.scenarios.files.table_layout import flat

    return list(flat(file.scales.paper, _settable(), "scales.paper"))


_WEIGHED_BY = frozenset(("protocol.name", "training.update"))
"""The keys of the algorithm that the default of training.weighting follows from."""


def _leave_to_the_run(raw: Table, changed: Collection[str], where: str) -> None:
    """Remove what an earlier run filled in from the tables of its folder, if a `changed` key may give another value.

    Those are the weighting of its algorithm, and the number of clients of its data.
    """
    training, data = raw.get("training", {}), raw.get("data", {})
    if data.get("partition") == "natural" and not {"data.path", "data.name"}.isdisjoint(changed):
        data.pop("clients", None)
    if "weighting" not in training or _WEIGHED_BY.isdisjoint(changed):
        return
    with suppress(ScenarioError):  # which the changes may mend
        own = scenario_in(raw, where)
        if own.protocol.name in PROTOCOLS:
            free = structs.replace(own, training=structs.replace(own.training, weighting=None))
            if PROTOCOLS[own.protocol.name].prepared(free).training.weighting == own.training.weighting:
                del training["weighting"]


def _without_defaults(raw: Table) -> Table:
    """The values of `raw`, which contains all defaults, that differ from them."""
    known = {key: body for key, body in as_table(kind_of(None)()).items() if isinstance(body, dict)}
    return {
        table: {key: value for key, value in raw[table].items() if defaults.get(key, msgspec.UNSET) != value}
        for table, defaults in known.items()
        if table in raw
    }


# --- fields in tables of a list


_FIELD = re.compile(rf"({'|'.join(LISTS)})\.(0|[1-9]\d{{0,5}})\.(.+)")
_CHANCES = ("occurrence", "probability")
_TITLES = {"fault": ("kind", "party"), "client": ("name",), "link": ("party", "peer"), "host": ()}
"""The fields that identify a table of a list."""


def _is_field(key: str) -> bool:
    """Return true if `key` names a field of a table of a list."""
    return key.partition(".")[0] in LISTS and "." in key


def _check_field(key: str, option: str) -> None:
    """Raise ScenarioError, which names the `option`, if no table of the list can have the field `key`."""
    match, table = _FIELD.fullmatch(key), key.partition(".")[0]
    names = ("kind", *fault_keys()) if table == "fault" else REPEATED[table].__struct_fields__
    if match is None:
        such = "party" if table == "fault" else names[0]
        problem = f"is no field of a {table}; allowed: {table}.N.FIELD, N counted from 0, such as {table}.0.{such}"
        raise ScenarioError(
            option, key, f"{problem}; or all {table}s, as a list: {either('--set ', '')}'{table}=[{{...}}]'"
        )
    if match[3] not in names:
        problem = f"a {table} has no {toml(match[3])}{similar(match[3], names)}; allowed: {', '.join(names)}"
        raise ScenarioError(option, key, problem)


def _change_item(raw: dict[str, Any], key: str, value: object, made: Collection[str]) -> dict[str, Any]:
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


def _check_fields(faults: Any, changed: Iterable[str]) -> None:
    """Raise ScenarioError if the kind of one of `faults` does not have a field that a change names."""
    for key in filter(_is_field, changed):
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
