"""Draws what losses cost under differential privacy, from the values of `tacit sweep private-dropouts`.

python docs/dropouts.py FOLDER    draws private-dropouts.svg into the folder

`docs/results.py` writes the values into docs/results/private-dropouts.csv. Needs matplotlib, the extra `plots`.
"""

import csv
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

VALUES = Path(__file__).with_name("results") / "private-dropouts.csv"
PANELS = (("epsilon", "epsilon of the run", 1.0), ("accuracy", "accuracy (%)", 100.0))
"""The columns of the table that are drawn, each with the title and the unit of its axis."""

Curves = Mapping[str, Mapping[float, list[float]]]
"""The values of the seeds by the way to add noise, and by the share of lost clients in percent."""


def curves(column: str) -> Curves:
    """The values of a `column` of the table where clients are lost before they send masked values."""
    found: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    with VALUES.open(newline="", encoding="utf-8") as file:
        for run in csv.DictReader(file):
            way, _, lost = run["row"].rpartition(": ")
            if run["column"] == column and run["value"] and lost.endswith("%"):
                found[way][float(lost[:-1])].append(float(run["value"]))
    return found


def draw(folder: Path) -> None:
    """Draw private-dropouts.svg into `folder`: the mean of the seeds, and the least and the largest value."""
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit("a plot needs matplotlib: pip install 'tacit-fl[plots]'") from None
    rcParams["svg.hashsalt"] = "tacit"  # the same picture has the same bytes
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    for panel, (column, title, unit) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        for place, (way, points) in enumerate(curves(column).items()):
            shares, values = list(points), [[unit * one for one in some] for some in points.values()]
            panel.plot(shares, list(map(statistics.fmean, values)), f"C{place}o-", label=way, markersize=4)
            panel.fill_between(shares, list(map(min, values)), list(map(max, values)), color=f"C{place}", alpha=0.15)
        panel.set(xlabel="clients lost in each round (%)", ylabel=title)
        panel.set_ylim(bottom=0)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8)
    figure.savefig(folder / "private-dropouts.svg", metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
