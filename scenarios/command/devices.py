"""The command `tacit devices`: writes published traces of devices as the files that a [[client]] table names."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.scenarios.command.guarding import guarded
from tacit.scenarios.command.options import Debug, PlainCommand, group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tacit.parties.fleet.published import Row, Trace

__all__ = ["app"]

app = group("Convert published traces of devices, networks and availability for [[client]] tables.")

DEVICES, AVAILABILITY = "devices.csv", "availability.csv"

Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder to write the CSV files to.")]
Most = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Devices and traces to keep; of more, N are drawn with --seed."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the draw.")]
Classes = Annotated[int, typer.Option(metavar="N", min=1, max=100, help="Device classes of equal size to form.")]
Speed = Annotated[
    float,
    typer.Option(metavar="FACTOR", min=1e-9, help="Speed of the median device beside the machine of the cost table."),
]
Start = Annotated[
    str, typer.Option(metavar="DURATION", help="Time of the availability trace at which the run begins, such as 8h.")
]
Length = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="Length of the availability to write, such as 48h; shorter traces repeat (default: the longest trace).",
        show_default=False,
    ),
]


def fedscale(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="client_device_capacity, client_behave_trace, or both, of FedScale."),
    ],
    out: Out,
    most: Most = 1000,
    classes: Classes = 3,
    speed: Speed = 1.0,
    start: Start = "0s",
    length: Length = "",
    seed: Seed = 1,
    debug: Debug = False,
) -> int:
    """Convert FedScale's files of device capacities and of client availability.

    The files are pickles. Only dictionaries, lists and numbers are read from them; a pickle with anything else is
    refused, and no code in it is run.
    """
    from tacit.parties.fleet.published import fedscale_file

    return _write(out, partial(map, fedscale_file, files), most, classes, speed, start, length, seed)


def flash(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="state_traces.json, speed_distri.json, or both, of FLASH."),
    ],
    out: Out,
    most: Most = 1000,
    classes: Classes = 3,
    start: Start = "0s",
    length: Length = "",
    seed: Seed = 1,
    debug: Debug = False,
) -> int:
    """Convert FLASH's files of phone states and of network rates.

    A phone is up while its screen is locked, it charges and it is on Wi-Fi. Rates are the means of each device; FLASH's
    deviations between transfers are not used. --start counts from 2020-01-02 00:00:00, the time 0 of FLASH.
    """
    from tacit.parties.fleet.published import flash_file

    left_out: list[str] = []
    read = partial(map, partial(flash_file, leave_out=left_out.append), files)
    return _write(out, read, most, classes, 1.0, start, length, seed, left_out)


def ookla(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Tiles of Ookla's open data, as CSV or Parquet (*.parquet)."),
    ],
    out: Out,
    quadkey: Annotated[
        str, typer.Option(metavar="PREFIX", help="Only tiles whose quadkey begins with this (default: all).")
    ] = "",
    most: Most = 1000,
    classes: Classes = 3,
    seed: Seed = 1,
    debug: Debug = False,
) -> int:
    """Convert Ookla's network performance tiles: rates, and half of the round trip as latency.

    A tile counts as often as it has devices. Needed columns: avg_d_kbps, avg_u_kbps, avg_lat_ms, devices; and quadkey
    for --quadkey. Parquet needs pyarrow.
    """
    from tacit.parties.fleet.published import ookla_file

    return _write(out, lambda: [ookla_file(file, quadkey) for file in files], most, classes, 1.0, "0s", "", seed)


def _write(
    out: Path,
    read: Callable[[], Iterable[list[Row] | list[Trace]]],
    most: int,
    classes: int,
    speed: float,
    start: str,
    length: str,
    seed: int,
    left_out: Sequence[str] = (),
) -> int:
    """Write the devices and traces that `read` returns, and print the table that names the files.

    `left_out`: a list to which `read` adds a message for each phone that it leaves out. Raises DataError.
    """
    from tacit.parties.datasets.content import DataError
    from tacit.parties.fleet.published import Row, Trace, availability_lines, device_lines, write_lines
    from tacit.scenarios.console import printing

    console = printing.make_console()
    named, lines = [], []
    try:
        found = [one for part in read() for one in part]
        rows = [one for one in found if isinstance(one, Row)]
        traces = [one for one in found if isinstance(one, Trace)]
        uptimes = availability_lines(traces, most, start, length, seed) if traces else []
        if rows:
            devices = device_lines(rows, most, classes, speed, seed)
            path = write_lines(out / DEVICES, devices)
            lines.append(f"devices       {path}: {len(devices) - 1:,} lines of {len(rows):,} devices")
            named.append(f'file = "{DEVICES}"')
        if traces:
            path = write_lines(out / AVAILABILITY, uptimes)
            count = len({line[0] for line in uptimes[1:]})
            lines.append(f"availability  {path}: {count:,} of {len(traces):,} traces")
            lines += _dates(traces)
            named.append(f'availability = "{AVAILABILITY}"')
        if left_out:
            lines.append(f"left out      {len(left_out):,} phones that FLASH cannot read; the first: {left_out[0]}")
    except ValueError as error:
        raise DataError(str(error)) from error
    printing.print_lines(console, [*lines, "", f"In a scenario file in {out}:", "", "[[client]]", *named])
    return 0


def _dates(traces: Sequence[Trace]) -> list[str]:
    """A line with the dates between which FLASH's traces have messages, and the --start of the first; [] for other
    traces."""
    from tacit.parties.fleet.published import FLASH_ZERO

    if not any(trace.begin for trace in traces):
        return []
    first, last = min(trace.begin for trace in traces), max(trace.begin + trace.period for trace in traces)
    begin, end = (FLASH_ZERO + timedelta(seconds=moment) for moment in (first, last))
    return [f"messages      {begin} to {end}; --start {first / 3600:.3g}h is the time of the first"]


for _name, _command, _example in (
    ("fedscale", fedscale, "tacit devices fedscale client_device_capacity client_behave_trace --out phones"),
    ("flash", flash, "tacit devices flash state_traces.json speed_distri.json --out phones"),
    ("ookla", ookla, "tacit devices ookla 2024-01-01_performance_mobile_tiles.parquet --quadkey 1202 --out phones"),
):
    app.command(_name, cls=PlainCommand, epilog=f"Example: {_example}")(guarded(_command))
