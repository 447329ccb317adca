"""The command `tacit events`: the story of a run, one line for each event that matters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.scenarios.command import completing
from tacit.scenarios.command.options import Debug

if TYPE_CHECKING:
    from tacit.scenarios.seeing.story import Line, Story

__all__ = ["events"]

_SECONDS = 0.2
"""The real seconds between two reads of a run in progress."""


_HIDDEN = "no such event; --all shows what matters less, too"


def events(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder. The run can still be in progress.")],
    party: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Only events of this party, such as client/3.", autocompletion=completing.parties
        ),
    ] = "",
    step: Annotated[
        str, typer.Option(metavar="NAME", help="Only events in this step.", autocompletion=completing.steps)
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Every recorded event.")] = False,
    unfold: Annotated[
        bool, typer.Option("--unfold", help="Show every loss and missed deadline, even if its cause was shown before.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, with exact times.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new events until the run has ended.")] = False,
    debug: Debug = False,
) -> int:
    """List the events of a run in virtual time, each with its causes: faults, missed deadlines, losses, late parties.

    Causes follow after arrows; each explains the one before it. "also" starts the causes of another missing party. A
    cause of several losses is listed once, with its consequences at the end; --unfold lists each loss.
    """
    from tacit.scenarios.console import printing
    from tacit.scenarios.running.whole import check_folder
    from tacit.scenarios.seeing import story

    check_folder(folder)
    if party:
        _check_party(folder, party)
    if step:
        _check_step(folder, step)
    console = printing.make_console()
    looks: Iterator[Iterable[Line]]
    if follow:
        looks = _followed(folder, story.Story(everything=everything, unfolded=unfold))
    else:
        looks = iter([story.events(folder, everything=everything, unfolded=unfold)])
    found = False
    for lines in looks:
        chosen = [line for line in lines if line.concerns(party, step)]
        if as_json:
            console.file.writelines(f"{_encoded(line)}\n" for line in chosen)
        else:
            printing.print_lines(console, map(_shown, chosen))
        console.file.flush()
        found = found or bool(chosen)
    if not found and not as_json:
        printing.print_lines(console, ["no such event" if everything else _HIDDEN])
    return 0


def _check_party(folder: Path, party: str) -> None:
    """Raise FolderError for a party that the run in `folder` does not have."""
    from tacit.scenarios.files.fault_checks import parties_of
    from tacit.scenarios.files.reading import read
    from tacit.scenarios.running.folder import FolderError

    known = parties_of(read(str(folder), without_data=True).scenario)
    if party not in known:
        raise FolderError(f"{folder}: --party {party} is not a party of this run; allowed: server, ..., {known[-1]}")


def _check_step(folder: Path, step: str) -> None:
    """Raise FolderError for a step that the protocol of the run in `folder` does not have."""
    from tacit.protocols.registry import PROTOCOLS
    from tacit.scenarios.files.reading import read
    from tacit.scenarios.running.folder import FolderError

    protocol = PROTOCOLS[read(str(folder), without_data=True).scenario.protocol.name]
    known = dict.fromkeys(one.name for one in protocol.steps)
    if step not in known:
        raise FolderError(f"{folder}: --step {step} is not a step of this run; allowed: {', '.join(known)}")


def _followed(folder: Path, story: Story) -> Iterator[Iterable[Line]]:
    """Yield the new lines at each read, until the run has ended or its process is gone."""
    from tacit.scenarios.running.folder import FolderError
    from tacit.scenarios.seeing.reading import Record, is_under_way

    record, begun = Record(folder), False
    while True:
        goes_on = is_under_way(folder)  # checked before reading, so that the last read sees all events
        try:
            news, lines = story.look(record)
        except FolderError:
            if begun or not goes_on:
                raise
        else:
            begun = True
            yield lines
            if news.ended:
                return
            if not goes_on:
                yield story.break_off()
                return
        time.sleep(_SECONDS)


def _encoded(line: Line) -> str:
    import msgspec

    return msgspec.json.encode(line).decode()


def _shown(line: Line) -> str:
    from tacit.sim.units import format_duration

    consequence = f" -> {line.consequence}" if line.consequence else ""
    chains = [[reason.text for reason in chain] for chain in line.causes] or [list(line.because)]
    reasons = "; also".join("".join(f" <- {reason}" for reason in chain) for chain in chains if chain)
    return f"{format_duration(line.time):>12}  {line.party:<10} {line.text}{consequence}{reasons}"
