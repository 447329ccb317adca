"""Curves of runs, round by round, as a figure for a paper. Needs matplotlib, the extra `plots`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tacit.parties.learning.extras import MissingExtra, require
from tacit.scenarios.running.folder import FolderError
from tacit.scenarios.running.whole import check_folder
from tacit.scenarios.seeing.compare import keys_of
from tacit.scenarios.seeing.reading import opened

__all__ = ["FORMATS", "Curve", "X", "check_plot", "curves", "draw", "labels", "on_axes"]

FORMATS = (".svg", ".png", ".pdf")

X = {"rounds": "round", "bytes": "megabytes sent so far", "time": "virtual seconds"}
"""The quantities for the x axis, with their labels."""

_COLUMNS = ("accuracy", "seconds", "bytes", "messages", "called", "answers")
"""The quantities for the y axis from the view `rounds`; the names of measurements are allowed as well."""

_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
_MARKS = "osD^vX"
_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d1f")
"""Colours that are distinct to the colour-blind. Styles and marks differ as well, for printing in grey."""

_NAMED = 3
"""The most differing keys that a legend names."""


class Curve(Struct, frozen=True):
    """The points of one run, with the `label` for the legend."""

    label: str
    points: list[tuple[float, float]]


def check_plot(path: Path) -> None:
    """Raise FolderError unless a figure can be written to `path`."""
    if path.suffix.lower() not in FORMATS:
        raise FolderError(f"--out: {path} must end in one of {', '.join(FORMATS)}")
    try:
        require("matplotlib", "plots", "a plot")
    except MissingExtra as missing:
        raise FolderError(str(missing)) from None


def curves(folders: Sequence[Path], x: str, y: str) -> list[Curve]:
    """A curve for each run. Raises FolderError if a run has no rounds, or no `y`."""
    return [Curve(label, _measured(folder, x, y)) for label, folder in zip(labels(folders), folders, strict=True)]


def _measured(folder: Path, x: str, y: str) -> list[tuple[float, float]]:
    """The values of `y` in rounds, each with its place on the axis `x`. Raises FolderError if there are none."""
    check_folder(folder)
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


def labels(folders: Sequence[Path]) -> list[str]:
    """Labels that distinguish the runs: the keys that differ, else the names of their folders."""
    keys = [keys_of(folder) for folder in folders] if len(folders) > 1 else []
    names = [name for name in dict.fromkeys(name for one in keys for name in one) if name not in ("name", "title")]
    differ = [name for name in names if any(one.get(name) != keys[0].get(name) for one in keys)]
    if not 0 < len(differ) <= _NAMED:
        return [folder.resolve().name for folder in folders]
    found = [", ".join(f"{name} = {one.get(name, '-')}" for name in differ) for one in keys]
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
        for i, curve in enumerate(found):
            place = i % len(_STYLES)
            style, mark = _STYLES[place], _MARKS[(i + i // len(_STYLES)) % len(_MARKS)]
            horizontal, vertical = zip(*curve.points, strict=True)
            often = max(1, len(curve.points) // 10)
            axes.plot(
                horizontal, vertical, linestyle=style, marker=mark, markevery=often, color=_COLOURS[place],
                label=curve.label,
            )  # fmt: skip
        axes.set_xlabel(X[x])
        axes.set_ylabel(y)
        axes.grid(True, linewidth=0.3, color="#cccccc")
        axes.spines[["top", "right"]].set_visible(False)
        if x == "rounds":
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if len(found) > 1:
            axes.legend(frameon=False, handlelength=3.5)
        dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        figure.savefig(path, dpi=300, metadata=dated.get(path.suffix.lower()))
