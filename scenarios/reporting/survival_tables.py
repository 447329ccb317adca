"""The tables of `tacit predict --runs`, which the command prints and its page shows."""

from collections.abc import Iterable

from tacit.scenarios.console import kinds
from tacit.scenarios.console.table import Column, Quantity, Table
from tacit.scenarios.sweeping.survival import Figure, Survival

__all__ = ["CHANCE", "KINDS", "distributions", "losses", "shares"]

KINDS = {
    "bytes": kinds.BYTES,
    "memory": kinds.BYTES,
    "seconds": kinds.SECONDS,
    "rounds_lost": kinds.significant(4),
    "joules": kinds.JOULES,
    "most_joules": kinds.JOULES,
    "epsilon": kinds.significant(4),
}
"""What each of the figures is."""

CHANCE = kinds.Kind(lambda value: f"{value:.4f}" if 0.001 <= value <= 0.999 or value in (0, 1) else f"{value:.6f}")
"""Probabilities, with more digits near 0 and 1."""


def distributions(figures: Iterable[tuple[str, str, Figure | None]]) -> Table:
    """A row for each figure, given by its title, its name and its distribution; those that are None are left out."""
    columns = (
        "",
        Column("mean", kinds.FIGURE),
        Column("median", kinds.FIGURE, priority=1),
        Column("95th percentile", kinds.FIGURE),
        Column("maximum", kinds.FIGURE, priority=0),
    )
    made = Table(columns)
    for title, name, figure in figures:
        if figure is not None:
            values = (figure.mean, figure.median, figure.percentile_95, figure.maximum)
            made.rows.append((title, *(Quantity(value, KINDS[name]) for value in values)))
    return made


def losses(one: Survival, parties: int) -> Table:
    """The steps at which parties are lost, with the `parties` that are lost there most often."""
    columns = (
        "lost at",
        Column("runs", kinds.share(1)),
        Column("losses a run", kinds.significant(4)),
        Column("most often", priority=0),
    )
    rows = (
        (step, count / one.runs, mean, shares(one.parties_at(step), one.runs, parties))
        for step, count, mean in one.steps()
    )
    return Table(columns, rows)


def shares(parties: list[tuple[str, int]], runs: int, most: int) -> str:
    """The first `most` parties with the share of the runs in which each is lost, in words."""
    more = f" and {len(parties) - most} more" if len(parties) > most else ""
    return ", ".join(f"{party} ({count / runs:.1%})" for party, count in parties[:most]) + more
