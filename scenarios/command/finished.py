"""Commands on finished runs: `tacit bytes`, `report`, `plot`, `trace` and `artifact`.

Modules that compute or draw are imported when a command is called, because help and completion must be fast.
"""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command import completing
from tacit.scenarios.command.options import Debug, Plugins, Trust

__all__ = [
    "artifact",
    "model",
    "plot",
    "report",
    "show_bytes",
    "trace",
]


def artifact(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs that have ended, or of sweeps.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder to make; DIR.zip is written beside it (default: artifact).")
    ] = Path("artifact"),
    wheel: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Wheel of Tacit to pack. Needed if no package index has the version that made the runs.",
        ),
    ] = None,
    without_data: Annotated[
        bool,
        typer.Option("--without-data", help="Leave out your own data and model files; list them with their SHA-256."),
    ] = False,
    include: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            help="File or folder outside the run's folder that may be packed although the run's record has no digest "
            "of it. Repeatable.",
        ),
    ] = None,
    debug: Debug = False,
) -> int:
    """Pack runs so that others can repeat them: a folder and a zip.

    The artifact holds the scenarios with their seeds, your own code and files, the expected results with their hashes,
    and the exact versions. Its README.md is the text of an artifact appendix. Its script repeat.py repeats each run and
    compares the results. Files from outside the runs' folders are listed; those that a run did not read are packed only
    with --include.
    """
    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting.artifact import pack

    made = pack(folders, out, wheel=wheel, with_data=not without_data, include=include or ())
    lines = [f"runs      {', '.join(made.runs)}", *(f"outside   {path}" for path in made.outside)]
    lines += [f"note      {note}" for note in made.notes]
    lines += [f"folder    {made.folder}", f"zip       {made.archive}", f"repeat    python {made.folder}/repeat.py"]
    printing.print_lines(printing.make_console(), lines)
    return 0


def model(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training run that has ended.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="New file to write (default: model.safetensors in the folder)."),
    ] = None,
    selected: Annotated[
        bool, typer.Option("--selected", help="Take the model of the best round by held-out points, not the last one.")
    ] = False,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """Write the model of a run as safetensors, by the names of the network's state dict, and show how to load it."""
    from tacit.parties.learning.extras import MissingExtra
    from tacit.parties.learning.jobs import write_weights
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.reading import load
    from tacit.scenarios.files.trained import trained_network
    from tacit.scenarios.running.folder import FolderError
    from tacit.scenarios.running.whole import check_folder

    check_folder(folder)
    path = folder / "model.safetensors" if out is None else out
    if path.exists():
        raise FolderError(f"{path}: exists already; name a new file by --out")
    try:
        network = trained_network(folder, selected=selected, trust=trust)
        tensors, numbers = write_weights(network, path)
        private = load(folder).model.private
    except MissingExtra as missing:
        raise FolderError(str(missing)) from None
    lines = [
        f"model     {path} ({tensors:,} tensors, {numbers:,} numbers, {path.stat().st_size:,} bytes)",
        f"network   {type(network).__name__}",
        *[f"private   {', '.join(private)}: as built, since each client keeps its own (model.private)"] * bool(private),
        "load      from safetensors.torch import load_file",
        f"          network.load_state_dict(load_file({str(path)!r}))",
        f"start     tacit run FILE --set model.weights={path}",
    ]
    printing.print_lines(printing.make_console(), lines)
    return 0


_DEFAULT = Path("plot.svg")


def plot(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or of sweeps.")],
    x: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Horizontal axis: rounds, bytes or time; or a key such as data.clients, for totals of whole runs.",
            autocompletion=completing.x_axes,
        ),
    ] = "rounds",
    y: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="score (accuracy, or the score of the task, such as rmse), a metric by its name, seconds, bytes, "
            "messages, called or answers per round. Over a key: score, metric, bytes, time or messages of the run.",
            autocompletion=completing.quantities,
        ),
    ] = "score",
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="New file to write, ending in .svg, .png or .pdf.")
    ] = _DEFAULT,
    debug: Debug = False,
) -> int:
    """Draw curves of runs as SVG, PNG or PDF; the legend lists the keys that differ between runs.

    Runs that differ in their seed alone are one curve: the mean, and a band of one standard deviation to each side.

    Without --out, plot.svg is written and replaced if it exists. No other file is replaced.
    """
    from tacit.scenarios.console import printing
    from tacit.scenarios.running.folder import FolderError
    from tacit.scenarios.seeing.plot import SCORE, X, check_plot, curves, draw, score_in
    from tacit.scenarios.sweeping.folder import expanded

    if x not in X and "." not in x:
        raise FolderError(f"--x: {x} is unknown; allowed: {', '.join(X)}, or a key such as data.clients")
    check_plot(out)
    if out != _DEFAULT and out.exists():
        raise FolderError(f"--out: {out} exists already; name a new file")
    runs = expanded(folders)
    y = score_in(runs) if y == SCORE else y
    found = curves(runs, x, y)
    draw(out, found, x, y)
    printing.print_lines(printing.make_console(), [f"plot      {out}"])
    return 0


def trace(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder. The run can still be in progress.")],
    perfetto: Annotated[
        Path, typer.Option(metavar="FILE", help="New file for the trace (TrackEvent protobuf), such as run.pftrace.")
    ],
    debug: Debug = False,
) -> int:
    """Write a run as a trace for https://ui.perfetto.dev, which shows the trace in the browser without uploading it.

    Parties appear as processes, their cores as threads, and messages as slices with flows to their receivers.
    """
    from tacit.scenarios.console import printing
    from tacit.scenarios.running.folder import FolderError
    from tacit.scenarios.running.whole import check_folder
    from tacit.scenarios.seeing.tracing import check_trace, write_trace

    check_trace()
    check_folder(folder)
    if perfetto.exists():
        raise FolderError(f"--perfetto: {perfetto} exists already; name a new file")
    messages = write_trace(folder, perfetto)
    size = perfetto.stat().st_size
    printing.print_lines(printing.make_console(), [f"trace     {perfetto} ({messages:,} messages, {size:,} bytes)"])
    return 0


class ByteRows(Enum):
    """The rows of the table of a run's bytes."""

    STEP = "step"
    CLIENT = "client"


def show_bytes(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs and of sweeps.")],
    csv_file: Annotated[
        Path | None,
        typer.Option(
            "--csv", metavar="FILE", help="Write a line for each run, step and message type to FILE (-: print it)."
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the same with the totals of each run to FILE (-: print it)."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if the payload that was sent differs from a formula.")
    ] = False,
    by: Annotated[
        ByteRows, typer.Option(help="Rows of the table of a run: step (and message type), or client (up and down).")
    ] = ByteRows.STEP,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """Show the bytes that runs sent, by step and message type, or by client.

    If no client was lost, the table also shows the payload by formula. For a sweep: means per combination of values.
    """
    from tacit.scenarios.command.bytes import show_bytes
    from tacit.scenarios.console import printing

    return show_bytes(
        printing.make_console(), folders, csv_file, json_file, check=check, by_client=by is ByteRows.CLIENT
    )


def report(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, or the folder of one sweep or chaos campaign.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File to write (default: report.html, or comparison.html for several runs, in the first folder).",
        ),
    ] = None,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """Write an HTML page of a run that works offline: verdict, timeline, bytes, curves, what parties learn, scenario.

    For a sweep: means. For a chaos campaign: which fault struck whom. For several runs: their differences. An existing
    page is replaced.
    """
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.plugins import withheld
    from tacit.scenarios.reporting.from_python import report as write

    page = write(folders, out, trust=trust)
    left_out = dict.fromkeys(filter(None, map(withheld, folders)))
    lines = [f"report    {page}", *(f"          without what needs code: {problem}" for problem in left_out)]
    printing.print_lines(printing.make_console(), lines)
    return 0
