"""Plots of the table of secure sums: the cheapest sum for each use, and the server's work when clients are lost.

Both are narrow, so that they can be read on a phone. They need matplotlib, the extra `plots`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tacit.benchmarks.plots import check_plot
from tacit.benchmarks.sums.table import MOST_RUN, SUMS, Row
from tacit.sim.units import format_bytes, format_duration

__all__ = ["LABELS", "QUESTIONS", "best", "check_plot", "draw", "draw_choice", "draw_recovery", "labelled"]

LABELS = {
    "plain": "plain",
    "secure": "Bonawitz",
    "secagg+": "SecAgg+",
    "lightsecagg": "LightSecAgg",
    "committee": "committee",
    "flamingo": "Flamingo",
    "flower-secagg+": "Flower's SecAgg+",
    "tenseal-ckks": "CKKS, shared key",
}
"""The names of sums in pictures and tables."""

_COLOURS = ("#1f5f99", "#c4622d", "#3b7d3b", "#7b4b94", "#8a6d1f", "#555555")
_CLOSE = 1.05
"""The factor within which figures count as equal to the best one."""


def labelled(way: str) -> str:
    """The name of a sum in plots and tables."""
    return LABELS.get(way, way)


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draw the table of choices into `path`, and the cost of recovery into a second file beside it,
    ``STEM-recovery``."""
    draw_choice(path, rows)
    draw_recovery(path.with_stem(f"{path.stem}-recovery"), rows)


_Figure = Callable[[Sequence[Row]], float | None]


def _calm(name: str) -> _Figure:
    """The figure `name` of the row without losses."""

    def found(rows: Sequence[Row]) -> float | None:
        return next((getattr(row, name) for row in rows if not row.before), None)

    return found


def _lossy(name: str) -> _Figure:
    """The largest figure `name` of the rows with the largest share of losses; None if one of these rows has no sum."""

    def found(rows: Sequence[Row]) -> float | None:
        most = [row for row in rows if row.before and row.lost == max(row.lost for row in rows)]
        if not most or any(row.outcome != "completed" for row in most):
            return None
        return max(getattr(row, name) for row in most)

    return found


QUESTIONS: tuple[tuple[str, _Figure, Callable[[float], str], bool], ...] = (
    ("fewest bytes\nof a client", lambda rows: _sum(rows), lambda value: format_bytes(round(value)), False),
    ("soonest done,\nnobody lost", _calm("virtual_seconds"), format_duration, False),
    ("least work of\nthe server,\n30% lost", _lossy("server_seconds"), format_duration, False),
    ("least work\nof a client", _calm("client_seconds"), format_duration, False),
    ("most clients\nmay collude", _calm("colluders"), lambda value: f"{value:,.0f}", True),
)
"""Each question: its name, the figure of the rows of one sum that answers it, the figure in words, and if more is
better."""


def _sum(rows: Sequence[Row]) -> float | None:
    calm = next((row for row in rows if not row.before), None)
    return None if calm is None or calm.client_up is None else calm.client_up + (calm.client_down or 0.0)


def best(rows: Sequence[Row], figure: _Figure, most: bool) -> tuple[list[str], float] | None:
    """The secure sums whose figure is the best, or close to it, and the best figure; None if a sum was not run for
    it."""
    found: dict[str, float] = {}
    for way in SUMS:
        some = [row for row in rows if row.sum == way and way != "plain"]
        value = figure(some)
        if value is not None:
            found[way] = value
        elif any(row.fidelity == "formula" for row in some):
            return None
    if not found:
        return None
    extreme = max(found.values()) if most else min(found.values())
    equal = [way for way, value in found.items() if (value >= extreme / _CLOSE if most else value <= extreme * _CLOSE)]
    return equal, extreme


def draw_choice(path: Path, rows: Sequence[Row]) -> None:
    """Draw a table: for each number of clients and question, the secure sums with the best figure, in colours."""
    check_plot(path)
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    sizes = [(10, 1_000_000), (100, 1_000_000), (1_000, 10_000)]
    own = [row for row in rows if row.sum in SUMS and row.network == "home"]
    shown = [size for size in sizes if any((row.clients, row.numbers) == size for row in own)] or sorted(
        {(row.clients, row.numbers) for row in own if row.clients <= MOST_RUN}
    )
    colours = dict(zip((way for way in SUMS if way != "plain"), _COLOURS, strict=False))
    figure = Figure(figsize=(3.9, 4.6), layout="constrained")
    panel: Any = figure.subplots()
    for column, (clients, numbers) in enumerate(shown):
        part = [row for row in own if (row.clients, row.numbers) == (clients, numbers)]
        panel.text(column + 0.5, -0.1, f"{clients:,} clients\nd = {numbers:,}", ha="center", va="bottom", fontsize=8)
        for line, (_, value, text, most) in enumerate(QUESTIONS):
            found = best(part, value, most)
            if found is None:
                panel.text(column + 0.5, line + 0.5, "not run", ha="center", va="center", fontsize=7.5, color="#777777")
                continue
            ways, figures = found
            for place, way in enumerate(ways):
                box = (column + place / len(ways) + 0.02, line + 0.04), 1 / len(ways) - 0.04, 0.92
                panel.add_patch(Rectangle(*box, color=colours.get(way, "#888888"), alpha=0.22, linewidth=0))
            names = "\n".join(labelled(way) for way in ways) if len(ways) < len(colours) else "all alike"
            panel.text(
                column + 0.5, line + 0.5, f"{names}\n{text(figures)}", ha="center", va="center", fontsize=7.5
            )  # fmt: skip
    panel.set_xlim(0, max(1, len(shown)))
    panel.set_ylim(len(QUESTIONS), -0.55)
    panel.set_xticks([])
    panel.set_yticks([line + 0.5 for line in range(len(QUESTIONS))], [name for name, *_ in QUESTIONS], fontsize=8)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    figure.suptitle("The secure sum with the least cost", fontsize=9.5)
    figure.savefig(path, dpi=110)


def draw_recovery(path: Path, rows: Sequence[Row]) -> None:
    """Draw the server's CPU seconds by the share of clients that is lost before they mask, a line for each sum."""
    check_plot(path)
    from matplotlib.figure import Figure

    own = [row for row in rows if row.sum in SUMS and row.sum != "plain" and row.network == "home"]
    largest = max(((row.clients, row.numbers) for row in own if row.clients <= 100), default=(0, 0))
    figure = Figure(figsize=(3.9, 3.0), layout="constrained")
    panel: Any = figure.subplots()
    for number, way in enumerate(dict.fromkeys(row.sum for row in own)):
        some = [row for row in own if row.sum == way and (row.clients, row.numbers) == largest]
        before = next((row.before for row in some if row.before.endswith(".mask")), None)
        curve = sorted(
            (100 * row.lost, row.server_seconds)
            for row in some
            if row.before in ("", before) and row.server_seconds is not None and row.outcome == "completed"
        )
        if len(curve) > 1:
            style = {"marker": "osv^D*"[number % 6], "color": _COLOURS[number % len(_COLOURS)]}
            panel.plot(*zip(*curve, strict=True), label=labelled(way), markersize=4, **style)
    panel.set_xlabel("% of the clients lost before they mask", fontsize=8.5)
    panel.set_ylabel("CPU seconds of the server", fontsize=8.5)
    panel.set_ylim(bottom=0)
    panel.tick_params(labelsize=8)
    panel.grid(visible=True, linewidth=0.4, alpha=0.5)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(fontsize=8, frameon=False)
    panel.set_title(f"{largest[0]} clients, {largest[1]:,} numbers", fontsize=9, loc="left")
    figure.savefig(path, dpi=110)
