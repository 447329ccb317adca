"""Curves of runs, over their rounds or over a key, as a figure for a paper. Needs matplotlib, the extra `plots`.

Runs that differ in their seed alone are one curve: their mean, with a band of one standard deviation to each side.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tacit.parties.learning.extras import MissingExtra, require
from tacit.protocols.experiment.simulated import ACCURACY
from tacit.scenarios.running.folder import FolderError, Result, read_result
from tacit.scenarios.running.whole import check_folder
from tacit.scenarios.seeing.compare import keys_of, unused_in
from tacit.scenarios.seeing.reading import opened

__all__ = ["FORMATS", "SCORE", "Curve", "X", "check_plot", "curves", "draw", "labels", "on_axes", "score_in"]

FORMATS = (".svg", ".png", ".pdf")

X = {"rounds": "round", "bytes": "megabytes sent so far", "time": "virtual seconds"}
"""The quantities for the x axis, with their labels."""

_COLUMNS = ("accuracy", "seconds", "bytes", "messages", "called", "answers")
"""The quantities for the y axis from the view `rounds`; the names of measurements are allowed as well."""

SCORE = "score"
"""The quantity that stands for the accuracy, or for the score of tasks with another one."""

_TOTALS: dict[str, tuple[str, Callable[[Result], float | None]]] = {
    "accuracy": ("accuracy", lambda result: result.accuracy),
    "bytes": ("megabytes in all", lambda result: result.bytes_total / 1e6),
    "time": ("virtual seconds in all", lambda result: result.virtual_seconds),
    "messages": ("messages in all", lambda result: result.message_count),
}
"""The quantities of a whole run for the y axis over a key, with their labels."""

_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
_MARKS = "osD^vX"
_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d1f")
"""Colours that are distinct to the colour-blind. Styles and marks differ as well, for printing in grey."""

_NAMED = 3
"""The most differing keys that a legend names."""


class Curve(Struct, frozen=True):
    """The points of runs that differ in their seed alone, with the `label` for the legend.

    `band`: the standard deviation at each point, 0 where one run alone has it. `group`: the value of the first key that
    differs, which chooses the colour.
    """

    label: str
    points: list[tuple[float, float]]
    band: list[float] = []
    group: str = ""


def score_in(folders: Sequence[Path]) -> str:
    """The score of the runs: the accuracy, or that of their task. Raises FolderError if it is not the same for all."""
    names: dict[str, Path] = {}
    for folder in folders:
        check_folder(folder)
        keys_of(folder)  # says what the folder lacks
        with opened(folder) as connection:
            names.setdefault(dict(connection.execute("SELECT key, value FROM run")).get(SCORE, ACCURACY), folder)
    if len(names) > 1:
        each = ", ".join(f"{name} in {folder}" for name, folder in names.items())
        raise FolderError(f"--y: the runs have different scores: {each}; choose runs with one score, or name a figure")
    return next(iter(names))


def check_plot(path: Path) -> None:
    """Raise FolderError unless a figure can be written to `path`."""
    if path.suffix.lower() not in FORMATS:
        raise FolderError(f"--out: {path} must end in one of {', '.join(FORMATS)}")
    try:
        require("matplotlib", "plots", "a plot")
    except MissingExtra as missing:
        raise FolderError(str(missing)) from None


def curves(folders: Sequence[Path], x: str, y: str) -> list[Curve]:
    """A curve for the runs of each combination of keys; runs with other seeds alone belong to one curve.

    `x` is one of `X`, or a key of scenarios, for which each run is one point. Raises FolderError if a run has no
    rounds, or no `y`.
    """
    for folder in folders:
        check_folder(folder)
    keys = [keys_of(folder) for folder in folders]
    if x in X:
        found = [_measured(folder, x, y) for folder in folders]
        return [
            _mean(label, group, [found[place] for place in places])
            for label, group, places in _grouped(folders, keys, ())
        ]
    if y not in _TOTALS:
        measured = dict.fromkeys(name for folder in folders for name in read_result(folder).measured)
        if y not in measured:
            allowed = ", ".join((*_TOTALS, *measured))
            raise FolderError(f"--y: {y} is not a figure of a whole run; over a key, allowed: {allowed}")
    places_of = [_place(folder, one, x) for folder, one in zip(folders, keys, strict=True)]
    values = [_total(folder, y) for folder in folders]
    made = []
    for label, group, places in _grouped(folders, keys, (x,)):
        over: dict[float, list[float]] = {}
        for place in places:
            over.setdefault(places_of[place], []).append(values[place])
        points = [(at, statistics.fmean(over[at])) for at in sorted(over)]
        made.append(Curve(label, points, [_deviation(over[at]) for at, _ in points], group))
    return made


def _grouped(
    folders: Sequence[Path], keys: Sequence[Mapping[str, Any]], apart: Sequence[str]
) -> list[tuple[str, str, list[int]]]:
    """The label, the value of the first key that differs, and the places of the runs of each curve.

    Runs of one curve are equal in all keys except for their seed and those `apart`.
    """
    named = dict.fromkeys(name for one in keys for name in one if name not in ("name", "title", "seed", *apart))
    differ = [name for name in named if any(one.get(name) != keys[0].get(name) for one in keys)]
    groups: dict[str, list[int]] = {}
    for place, one in enumerate(keys):
        groups.setdefault(repr([one.get(name) for name in differ]), []).append(place)
    if not apart and all(len(places) == 1 for places in groups.values()):
        return [(label, label, [place]) for place, label in enumerate(labels(folders))]
    made = []
    for places in groups.values():
        one = keys[places[0]]
        short = len(differ) <= _NAMED
        label = _values(folders[places[0]], one, differ) if short else folders[places[0]].name
        label = label or folders[places[0]].resolve().name * (len(places) == 1)
        seeds = len({keys[place].get("seed") for place in places})
        label += f"{' ' * bool(label)}({seeds} seeds)" * (seeds > 1)
        made.append((label, str(one.get(differ[0], "-")) if differ else "", places))
    return made


def _mean(label: str, group: str, runs: Sequence[list[tuple[float, float]]]) -> Curve:
    """The mean of the `runs` at each of the rounds that all of them have, on both axes, and the deviation there."""
    rounds = list(zip(*runs, strict=False))
    points = [tuple(map(statistics.fmean, zip(*one, strict=True))) for one in rounds]
    return Curve(label, points, [_deviation([value for _, value in one]) for one in rounds], group)  # type: ignore[arg-type]


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _place(folder: Path, keys: Mapping[str, Any], x: str) -> float:
    """The value of the key `x` of a run. Raises FolderError if it is no number."""
    value = keys.get(x)
    if isinstance(value, bool) or not isinstance(value, int | float):
        problem = f"{x} is {value!r} in {folder}, which is no number" if x in keys else f"{folder} has no key {x}"
        raise FolderError(f"--x: {problem}; allowed: {', '.join(X)}, or a key whose values are numbers")
    return float(value)


def _total(folder: Path, y: str) -> float:
    """The figure `y` of a whole run. Raises FolderError if the run has not ended, or has none."""
    result = read_result(folder)
    value = _TOTALS[y][1](result) if y in _TOTALS else result.measured.get(y)
    if value is None:
        raise FolderError(f"--y: {folder} has no {y}")
    return value


def _measured(folder: Path, x: str, y: str) -> list[tuple[float, float]]:
    """The values of `y` in rounds, each with its place on the axis `x`. Raises FolderError if there are none."""
    columns = ("round", "ended", *_COLUMNS)
    with opened(folder) as connection:
        found = connection.execute(
            f"SELECT {', '.join(columns)} FROM rounds WHERE ended IS NOT NULL ORDER BY round"
        ).fetchall()
        figures = connection.execute("SELECT name, round, avg(value) FROM metrics GROUP BY name, round").fetchall()
    if not found:
        raise FolderError(f"{folder}: no round of it has ended; there is nothing to plot")
    measured: dict[str, dict[int, float]] = {}
    for name, number, value in figures:
        measured.setdefault(name, {})[number] = value
    rounds = [dict(zip(columns, row, strict=True)) for row in found]
    points: list[tuple[float, float]] = []
    for one, place in on_axes(rounds):
        value = one.get(y) if y in _COLUMNS else None
        value = measured.get(y, {}).get(one["round"]) if value is None else value
        if value is not None:
            points.append((place[x], float(value)))
    if not points:
        known = [
            *_COLUMNS[1:], *(["accuracy"] if any(one["accuracy"] is not None for one in rounds) else []), *measured
        ]  # fmt: skip
        raise FolderError(
            f"--y: {y} was not measured in the rounds of {folder}; allowed: {', '.join(sorted(set(known)))}"
        )
    return points


def on_axes(rounds: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], dict[str, float]]]:
    """Yield each ended round of `rounds`, rows of the view `rounds`, with its place on each axis of `X`."""
    sent = 0
    for one in rounds:
        if one["ended"] is not None:
            sent += one["bytes"]
            yield one, {"rounds": one["round"], "bytes": sent / 1e6, "time": one["ended"]}


def _values(folder: Path, keys: Mapping[str, Any], names: Sequence[str]) -> str:
    """The values of the keys with these `names` in the run of `folder`; those without effect on it are marked."""
    idle = unused_in(folder, [name for name in names if name in keys])
    return ", ".join(f"{name} = {keys.get(name, '-')}{' (unused)' * (name in idle)}" for name in names)


def labels(folders: Sequence[Path]) -> list[str]:
    """Labels that distinguish the runs: the keys that differ, marked where unused, else the names of their folders."""
    keys = [keys_of(folder) for folder in folders] if len(folders) > 1 else []
    names = [name for name in dict.fromkeys(name for one in keys for name in one) if name not in ("name", "title")]
    differ = [name for name in names if any(one.get(name) != keys[0].get(name) for one in keys)]
    if not 0 < len(differ) <= _NAMED:
        return [folder.resolve().name for folder in folders]
    found = [_values(folder, one, differ) for folder, one in zip(folders, keys, strict=True)]
    alike = [label for label in found if found.count(label) > 1]
    return [f"{label} ({folder.name})" if alike else label for label, folder in zip(found, folders, strict=True)]


def draw(path: Path, found: Sequence[Curve], x: str, y: str) -> None:
    """Write the figure, as wide as a column of a paper. The same curves give the same SVG. Raises OSError."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    settings: dict[Any, Any] = {
        "font.size": 8, "axes.labelsize": 8, "legend.fontsize": 7, "xtick.labelsize": 7, "ytick.labelsize": 7,
        "lines.linewidth": 1.2, "lines.markersize": 3.5, "svg.hashsalt": "tacit", "svg.fonttype": "none",
        "pdf.fonttype": 42,
    }  # fmt: skip
    with rc_context(settings):
        figure = Figure(figsize=(3.4, 2.4), layout="constrained")
        axes = figure.subplots()
        groups = list(dict.fromkeys(curve.group for curve in found))
        for i, curve in enumerate(found):
            place = i % len(_STYLES)
            style, mark = _STYLES[place], _MARKS[(i + i // len(_STYLES)) % len(_MARKS)]
            colour = _COLOURS[groups.index(curve.group) % len(_COLOURS)]
            horizontal, vertical = zip(*curve.points, strict=True)
            often = max(1, len(curve.points) // 10)
            axes.plot(
                horizontal, vertical, linestyle=style, marker=mark, markevery=often, color=colour, label=curve.label
            )
            if any(curve.band):
                low, high = (
                    [value + sign * width for value, width in zip(vertical, curve.band, strict=True)]
                    for sign in (-1, 1)
                )
                axes.fill_between(horizontal, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.set_xlabel(X.get(x, x))
        axes.set_ylabel(y if x in X or y not in _TOTALS else _TOTALS[y][0])
        axes.grid(True, linewidth=0.3, color="#cccccc")
        axes.spines[["top", "right"]].set_visible(False)
        if all(place == int(place) for curve in found for place, _ in curve.points):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(found) > 1:
            figure.set_figheight(2.4 + 0.16 * len(found))
            figure.legend(loc="outside upper left", frameon=False, handlelength=3.5)  # not over the curves
        dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        figure.savefig(path, dpi=300, metadata=dated.get(path.suffix.lower()))
