"""The keys `scale`, [scales.paper] and [table] of a scenario file: many runs that fill in a table of a paper.

They define how the runs of one file differ, so they belong to files and not to the `Scenario` of a run.
`tacit.scenarios.files.table_layout` checks the rules that types cannot express, `tacit.scenarios.sweeping.tables` runs
the table.
"""

from typing import Annotated, Any, Literal

from msgspec import Struct

from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.table import about

__all__ = ["OWN", "Column", "Order", "Part", "Row", "Scale", "ScenarioFile", "Table"]

Overrides = dict[str, Any]
Scale = Literal["small", "paper"]

_SET = 'Keys and values, such as `{ "protocol.k" = 3 }`'


class Part(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys that rows and columns share."""

    label: Annotated[str, about("Text of the row's or column's heading; must be unique.")]
    label_paper: Annotated[str, about('Label at `scale = "paper"`, if the paper has another setting.')] = ""
    group: Annotated[
        str,
        about(
            "Heading over neighbouring rows or columns with the same group. `GROUP: LABEL` then names the row or "
            "column."
        ),
    ] = ""
    group_paper: Annotated[str, about('Group at `scale = "paper"`, if it differs.')] = ""
    only: Annotated[
        Literal["", "small", "paper"], about("Scale that the row or column is limited to (default: both scales).")
    ] = ""
    set: Annotated[Overrides, about(f"{_SET}, which override the file's in the runs of the row or column.")] = {}
    set_paper: Annotated[
        Overrides, about('Further keys and values at `scale = "paper"`; they override those of `set`.')
    ] = {}
    measure: Annotated[
        str,
        about(
            "Figure to show: a field of a run's result.json, with dots for nested fields, such as `accuracy`, "
            "`accuracy_selected`, `baselines.NAME`, `output.0` or `bytes_total`. Set it in rows or in columns "
            "(default: `accuracy`)."
        ),
    ] = ""
    unit: Annotated[
        Literal["", "%", "1", "B", "s"],
        about(
            "Unit of the figure: `%` (times 100, with two digits), `1` (unchanged), `B` (bytes) or `s` (a duration). "
            "Set it where `measure` is set (default: `%`)."
        ),
    ] = ""


class Column(Part, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[table.column]]: a column of the table."""


class Row(Part, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[table.row]]: a row of the table."""

    paper: Annotated[
        tuple[str, ...], about('Figures of the paper as printed there, one per column; `""` if there is none.')
    ] = ()


class Order(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[table.order]]: a claim of the paper, checked on each table: one mean is larger than another."""

    above: Annotated[str, about("Label of a column that must be higher in every row; or of a row, in every column.")]
    below: Annotated[str, about("Label of the column or row that must be lower.")]
    within: Annotated[tuple[str, ...], about("Labels of the rows (or columns) to compare (default: all).")] = ()


class Table(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[table]: the runs that `tacit sweep` makes and prints for a file with this table."""

    title: Annotated[str, about("Heading of the table (default: the file's title).")] = ""
    source: Annotated[str, about("Source of the layout and of the paper's figures.")] = ""
    paper_data: Annotated[
        str,
        about(
            "Data set of the paper's figures, such as `FEMNIST`, if `scale = \"small\"` uses another one. The paper's "
            "figures then have rows of their own."
        ),
    ] = ""
    seeds: Annotated[
        int, about("Number of runs per cell, with the file's seed and the seeds after it.", ge=1, unit="runs")
    ] = 3
    row: tuple[Row, ...] = ()
    column: tuple[Column, ...] = ()
    order: tuple[Order, ...] = ()


class Scales(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[scales]: other sizes of the same file."""

    paper: Annotated[Overrides, about(f"{_SET}, that `--set scale=paper` sets, before any other `--set`.")] = {}


class ScenarioFile(Scenario, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """All keys of a scenario file."""

    scale: Annotated[
        Scale, about("`small`: the file as written; `paper`: with the values in [scales.paper], the paper's setting.")
    ] = "small"
    scales: Scales = Scales()
    table: Table = Table()


OWN = ("scale", "scales", "table")
"""The keys of a file that do not belong to a scenario."""
