"""The keys `scale`, [scales.paper] and [table] of a scenario file: many runs, laid out as a table of a paper.

They say how the runs of one file differ, so they belong to files and not to the `Scenario` that a run is.
`tacit.scenarios.files.table_layout` checks what a type cannot hold, `tacit.scenarios.sweeping.tables` runs them.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tacit.scenarios.schema.scenario import Scenario

__all__ = ["OWN", "Column", "Order", "Part", "Row", "Scale", "ScenarioFile", "Table"]

Overrides = dict[str, Any]
Scale = Literal["small", "paper"]

_SET = 'Dotted keys and their values, as `{ "protocol.k" = 3 }`'


class Part(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The shared keys of a row and a column."""

    label: Annotated[str, Meta(description="Text beside or above it; each is there once.")]
    label_paper: Annotated[
        str, Meta(description='Label of another setting in the paper, used at `scale = "paper"`.')
    ] = ""
    group: Annotated[
        str,
        Meta(description="A heading over it and its neighbours of the same group; `GROUP: LABEL` then names it."),
    ] = ""
    group_paper: Annotated[str, Meta(description='The same at `scale = "paper"`, if it is another.')] = ""
    only: Annotated[
        Literal["", "small", "paper"], Meta(description="The scale at which alone it is there; without it, at both.")
    ] = ""
    set: Annotated[Overrides, Meta(description=f"{_SET}, which its runs have in place of the file's.")] = {}
    set_paper: Annotated[Overrides, Meta(description='More of them at `scale = "paper"`, over those of `set`.')] = {}
    measure: Annotated[
        str,
        Meta(
            description="The figure shown, a field of a run's result.json, with dots into it: `accuracy`, "
            "`accuracy_selected`, `baselines.NAME`, `output.0`, `bytes_total`. In a row or in a column; in neither: "
            "`accuracy`."
        ),
    ] = ""
    unit: Annotated[
        Literal["", "%", "1", "B", "s"],
        Meta(
            description="`%`: times 100, with two digits; `1`: as it is; `B`: bytes; `s`: a duration. Where `measure` "
            "is; without it `%`."
        ),
    ] = ""


class Column(Part, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[table.column]]: a column of the table."""


class Row(Part, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[table.row]]: a row of the table."""

    paper: Annotated[
        tuple[str, ...],
        Meta(description='The paper\'s figures as it prints them, one for each column; `""` where it has none.'),
    ] = ()


class Order(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[table.order]]: what the paper claims, and each table checks: one mean is larger than another."""

    above: Annotated[str, Meta(description="The label of a column, in every row; or of a row, in every column.")]
    below: Annotated[str, Meta(description="The label of another one.")]
    within: Annotated[
        tuple[str, ...], Meta(description="Only in the rows (or columns) of these labels; without it, in all.")
    ] = ()


class Table(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[table]: what `tacit sweep` runs and prints of a file that has it."""

    title: Annotated[str, Meta(description="Its heading; without it, the file's title.")] = ""
    source: Annotated[str, Meta(description="Where its layout and the figures beside are from.")] = ""
    paper_data: Annotated[
        str,
        Meta(
            description='Data of the paper\'s figures, where `scale = "small"` has other data, as `FEMNIST`: they '
            "then stand in rows of their own."
        ),
    ] = ""
    seeds: Annotated[
        int, Meta(ge=1, description="Runs of each cell, with the file's seed and those after.", extra={"unit": "runs"})
    ] = 3
    row: tuple[Row, ...] = ()
    column: tuple[Column, ...] = ()
    order: tuple[Order, ...] = ()


class Scales(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[scales]: other sizes of the same file."""

    paper: Annotated[
        Overrides, Meta(description=f"{_SET}: what `--set scale=paper` changes in the file, before any other `--set`.")
    ] = {}


class ScenarioFile(Scenario, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """All that a scenario file may say."""

    scale: Annotated[
        Scale, Meta(description="`small`: the file as it stands; `paper`: with [scales.paper], the paper's setting.")
    ] = "small"
    scales: Scales = Scales()
    table: Table = Table()


OWN = ("scale", "scales", "table")
"""The keys of a file that are not a scenario's."""
