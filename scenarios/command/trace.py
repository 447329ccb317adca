"""The command `tacit trace`: a run as a trace for Perfetto."""

from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command.options import Debug

__all__ = ["trace"]


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
    from tacit.scenarios.seeing.tracing import check_trace, write_trace

    check_trace()
    if not folder.is_dir():
        raise FolderError(f"{folder}: no such folder; that of a run is needed")
    if perfetto.exists():
        raise FolderError(f"--perfetto: {perfetto} exists already; name a new file")
    messages = write_trace(folder, perfetto)
    size = perfetto.stat().st_size
    printing.print_lines(printing.make_console(), [f"trace     {perfetto} ({messages:,} messages, {size:,} bytes)"])
    return 0
