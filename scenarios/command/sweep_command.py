"""The options of `tacit sweep`; `tacit.scenarios.command.sweep` does it."""

from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command import stopping
from tacit.scenarios.command.options import Debug, Jobs, Over, Plugins, Seed, Set, SourceFile, give

__all__ = ["sweep"]


def sweep(
    file: SourceFile = "",
    over: Over = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of seeds per combination, starting at the scenario's (default: 1, or the table's)."
        ),
    ] = None,
    jobs: Jobs = None,
    seed: Seed = None,
    changes: Set = None,
    out: Annotated[Path | None, typer.Option(help="Folder to create (default: runs/NAME-sweep-NUMBER).")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Resume the interrupted sweep in DIR. Can only be combined with --jobs."),
    ] = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run a scenario many times; print mean and standard deviation of accuracy, virtual time and bytes.

    If the file defines a table (see `table.*` in `tacit keys`), the sweep fills in that table, unless you pass --over.
    """
    from tacit.scenarios.command.sweep import sweep as carry_out
    from tacit.scenarios.running.folder import FolderError
    from tacit.scenarios.running.workers import jobs_of
    from tacit.scenarios.sweeping.folder import Asked, pinned, read_asked, unpinned

    at_a_time = jobs_of("1" if jobs is None else jobs)
    files = pinned(plugin or ())
    asked = Asked(file=file, over=over or [], seeds=seeds, seed=seed, changes=changes or [], plugins=files)
    if resume is not None:
        if asked != Asked(file="") or out is not None:
            raise FolderError("--resume DIR continues the sweep unchanged; only --jobs can be combined with it")
        asked = read_asked(resume)
        give(unpinned(asked))
    elif not file:
        raise typer.BadParameter("FILE-or-NAME is missing; or --resume DIR", param_hint="FILE-or-NAME")
    stopping.interrupt_work()
    return carry_out(asked, at_a_time, out, resume)
