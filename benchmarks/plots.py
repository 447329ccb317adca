"""Plots of results: a panel of bars for each task, and curves by size. Needs matplotlib, the extra `plots`."""

import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from tacit.benchmarks.measure import Standing

__all__ = ["check_plot", "plot_growth", "plot_standings"]

_COLUMNS = 3
_OURS, _OTHERS = "#1f5f99", "#a9a9a9"


def check_plot(path: Path) -> None:
    """Exit with one line unless a plot can be written to `path`; called before anything is measured."""
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        raise SystemExit("a plot needs matplotlib: pip install 'tacit-fl[plots]'") from None
    known = FigureCanvasBase.filetypes
    if path.suffix[1:] not in known:
        raise SystemExit(f"{path}: a plot's name must end in one of {', '.join(known)}")


def plot_standings(path: Path, title: str, standings: Sequence[Standing]) -> None:
    """Plot operations per second, a panel for each task, ours in blue; the suffix of `path` determines the format."""
    check_plot(path)
    from matplotlib.figure import Figure

    tasks = [(task, list(rows)) for task, rows in groupby(standings, key=lambda standing: standing.task)]
    lines = [tasks[i : i + _COLUMNS] for i in range(0, len(tasks), _COLUMNS)]
    # The height of a row of panels follows from its panel with the most bars.
    most = [max(len(rows) for _, rows in line) for line in lines]
    figure = Figure(figsize=(5.2 * _COLUMNS, 1 + sum(0.75 + 0.24 * bars for bars in most)), layout="constrained")
    figure.suptitle(textwrap.fill(title, 60 * _COLUMNS), fontsize=9)
    panels = figure.subplots(len(lines), _COLUMNS, squeeze=False, height_ratios=[1.5 + bars for bars in most])
    for panel in panels.flat[len(tasks) :]:
        panel.set_axis_off()
    for i, (panel, (task, rows)) in enumerate(zip(panels.flat, tasks, strict=False)):
        names = [row.contender for row in rows]
        colours = [_OURS if name.startswith("Tacit") else _OTHERS for name in names]
        bars = panel.barh(names, [row.rate for row in rows], color=colours)
        panel.bar_label(bars, [_number(row.rate) for row in rows], padding=3, fontsize=8)
        panel.set_title(task, fontsize=9, loc="left")
        panel.set_xlim(right=1.25 * max(row.rate for row in rows))
        panel.set_ylim(most[i // _COLUMNS] - 0.5, -0.5)  # bars of equal thickness in all panels, the first on top
        panel.set_xticks([])
        panel.tick_params(axis="y", labelsize=8, length=0)
        panel.spines[["top", "right", "bottom"]].set_visible(False)
    figure.savefig(path, dpi=110)


def plot_growth(path: Path, points: Sequence[tuple[str, str, str, int, float, int]]) -> None:
    """Plot seconds and bytes of memory by size, both axes logarithmic, with a row of two panels for each topic.

    A point is its topic, curve, unit, size, seconds and bytes. Only the panels of a topic share an axis of sizes.
    """
    check_plot(path)
    from matplotlib.figure import Figure

    topics = [(topic, list(rows)) for topic, rows in groupby(points, key=lambda one: one[0])]
    figure = Figure(figsize=(8.4, 2.8 * len(topics)), layout="constrained")
    panels = figure.subplots(len(topics), 2, squeeze=False)
    for (topic, rows), line in zip(topics, panels, strict=True):
        for (name, style), marker in zip(_styled(rows), "osv^D*", strict=False):
            curve = [one for one in rows if one[1] == name]
            sizes = [one[3] for one in curve]
            for panel, values in zip(line, ([one[4] for one in curve], [one[5] / 1e9 for one in curve]), strict=True):
                panel.loglog(sizes, values, style, marker=marker, markersize=4, color=_OURS, label=name)
        for panel, label in zip(line, ("seconds", "GB of memory"), strict=True):
            panel.set_xlabel(rows[0][2])
            panel.set_ylabel(label)
            panel.grid(visible=True, which="major", linewidth=0.4, alpha=0.5)
            panel.spines[["top", "right"]].set_visible(False)
        line[0].set_title(topic, fontsize=9, loc="left")
        line[0].legend(fontsize=7, frameon=False)
    figure.savefig(path, dpi=110)


def _styled(rows: Sequence[tuple[str, str, str, int, float, int]]) -> list[tuple[str, str]]:
    """The curves among `rows`, each with a distinct line style."""
    styles = ("-", "--", ":", "-.")
    return [(name, styles[i % len(styles)]) for i, name in enumerate(dict.fromkeys(one[1] for one in rows))]


def _number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.3g}"
