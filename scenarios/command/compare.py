"""The command `tacit compare`: the differences of two runs, and the first event at which they diverge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.scenarios.command.options import Debug

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.scenarios.seeing.compare import Outcome, Side

__all__ = ["compare"]

_LINES = 12
"""The most parties, links or losses that are listed one by one."""


def compare(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="A B", help="Folders of two runs; with --paired of any number, or of sweeps."),
    ],
    paired: Annotated[
        bool,
        typer.Option(
            "--paired",
            help="Compare accuracies of runs with equal seeds, by the keys that differ: paired t-test, Wilcoxon's "
            "signed-rank test, and the 95% interval of the mean difference.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object with exact values.")] = False,
    debug: Debug = False,
) -> int:
    """Compare two runs: accuracy, keys, bytes by step, time by critical path, losses, and the first event that differs.

    The critical path is the chain of computations, transfers and waits that determined when the run ended.
    """
    import msgspec

    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting.compared import divergence_lines
    from tacit.scenarios.running.folder import FolderError
    from tacit.scenarios.seeing.compare import compare as compare_runs

    if paired:
        return _paired(folders, as_json=as_json)
    if len(folders) != 2:
        raise FolderError(f"{len(folders)} folders; allowed: two, or any number with --paired")
    found = compare_runs(*folders)
    sides, common, parts = found.sides, found.events_in_common, found.first_difference
    console = printing.make_console()
    if as_json:
        encoded = msgspec.json.encode(found.record() | {"unused_keys": sorted(_unused(found.keys, sides))})
        console.file.write(msgspec.json.format(encoded, indent=2).decode() + "\n")
        return 0
    for name, side in zip("AB", sides, strict=True):
        printing.print_lines(console, [f"{name}         {side.folder}{_remark(side)}"])
    _print_results(console, sides)
    _print_keys(console, sides)
    _print_bytes(console, sides)
    _print_paths(console, sides)
    _print_losses(console, sides)
    said, events = divergence_lines(sides, common, parts)
    printing.print_lines(console, [said, *events])
    return 0


def _paired(folders: Sequence[Path], *, as_json: bool) -> int:
    """Print the paired statistics of the runs in `folders`. Raises FolderError, also where no two runs are a pair."""
    import msgspec

    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting.printed import paired_table
    from tacit.scenarios.running.folder import FolderError
    from tacit.scenarios.sweeping.paired import differences, scores_of

    found = differences(scores_of(folders))
    if not found:
        raise FolderError("no two completed runs have equal seeds and other keys; allowed: runs that are pairs")
    console = printing.make_console()
    if as_json:
        console.file.write(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
    else:
        console.print(paired_table(found))
    return 0


def _remark(side: Side) -> str:
    from tacit.scenarios.running.folder import remarks_on

    remarks = remarks_on(side.folder)
    return f" ({', '.join(remarks)})" if remarks else ""


def _print_results(console: Console, sides: tuple[Side, Side]) -> None:
    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting.compared import pair
    from tacit.sim.units import format_bytes, format_duration

    one, other = (side.outcome for side in sides)
    seconds = [sum(part.seconds for part in side.path) for side in sides]
    sent = [sum(side.bytes_by_step().values()) for side in sides]
    rows = [
        ("outcome", one.outcome or "-", other.outcome or "-", ""),
        *(
            (name.replace("_", " "), *pair(one.score_of(name), other.score_of(name), lambda value: f"{value:.4f}"))
            for name in dict.fromkeys((one.score, other.score))
        ),
        *_metrics(one, other),
        ("virtual time", *pair(seconds[0], seconds[1], format_duration)),
        ("bytes", *pair(sent[0], sent[1], format_bytes)),
        ("parties lost", *pair(sides[0].lost, sides[1].lost, str)),
        *([("version", one.version, other.version, "")] if one.version != other.version else []),
    ]
    printing.print_lines(console, [""])
    console.print(printing.table(("", "A", "B", "B - A"), rows, ("A", "B", "B - A")))


def _metrics(one: Outcome, other: Outcome) -> list[tuple[str, str, str, str]]:
    """A row for each further metric of the models, and of the evaluation by clients."""
    from tacit.protocols.experiment.simulated import FIT, prefixed
    from tacit.scenarios.reporting.compared import pair

    first, second = (
        side.metrics | prefixed("clients' ", side.evaluation) | prefixed(FIT, side.fit) for side in (one, other)
    )
    names = [name for name in dict.fromkeys((*first, *second)) if name not in (one.score, other.score)]
    return [
        (name.replace("_", " "), *pair(first.get(name), second.get(name), lambda value: f"{value:.4f}"))
        for name in names
    ]


def _print_keys(console: Console, sides: tuple[Side, Side]) -> None:
    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting.compared import value_text
    from tacit.scenarios.seeing.compare import differing_keys

    found = differing_keys(*sides)
    printing.print_lines(console, [""])
    if not found:
        printing.print_lines(console, ["keys      the same in both"])
        return
    idle = _unused(found, sides)
    rows = [
        (f"{name} (unused)" if name in idle else name, *(value_text(value) for value in pair))
        for name, pair in found.items()
    ]
    console.print(printing.table(("key that differs", "A", "B"), rows))


def _unused(keys: Iterable[str], sides: tuple[Side, Side]) -> frozenset[str]:
    """The `keys` that have an effect on neither run."""
    from tacit.scenarios.seeing.compare import unused_in

    first, second = (unused_in(side.folder, keys) for side in sides)
    return first & second


def _print_bytes(console: Console, sides: tuple[Side, Side]) -> None:
    from tacit.sim.units import format_bytes

    _print_pairs(console, "bytes by step", [side.bytes_by_step() for side in sides], format_bytes)


def _print_paths(console: Console, sides: tuple[Side, Side]) -> None:
    from tacit.scenarios.seeing.critical_path import seconds_by
    from tacit.sim.units import format_duration

    def sums(*names: str) -> list[dict[str, float]]:
        found = [seconds_by(side.path, *names) for side in sides]
        return [{"  ".join(filter(None, key)): value for key, value in one.items()} for one in found]

    title = "virtual time by critical path"
    _print_pairs(console, f"{title}: step, what", sums("step", "kind"), format_duration, by_size=True)
    _print_pairs(console, f"{title}: party or link", sums("place"), format_duration, by_size=True)


def _print_pairs(
    console: Console,
    title: str,
    sides: Sequence[Mapping[str, float]],
    show: Callable[[Any], str],
    *,
    by_size: bool = False,
) -> None:
    """Print a table of two columns; with `by_size` the largest rows first, and only the first ones if there are
    many."""
    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting.compared import pair

    one, other = sides
    names = list(dict.fromkeys((*one, *other)))
    left: list[str] = []
    if by_size:
        names.sort(key=lambda name: -max(one.get(name, 0), other.get(name, 0)))
        if len(names) > _LINES + 1:
            names, left = names[:_LINES], names[_LINES:]
    rows = [(name or "-", *pair(one.get(name), other.get(name), show)) for name in names]
    if left:
        rest = [sum(side.get(name, 0) for name in left) for side in sides]
        rows.append((f"{len(left)} more", *pair(rest[0], rest[1], show)))
    table = printing.table((title, "A", "B", "B - A"), rows, ("A", "B", "B - A"))
    table.add_section()
    table.add_row("total", *pair(sum(one.values()), sum(other.values()), show))
    printing.print_lines(console, [""])
    console.print(table)


def _print_losses(console: Console, sides: tuple[Side, Side]) -> None:
    from tacit.scenarios.console import printing

    printing.print_lines(console, [""])
    for name, side in zip("AB", sides, strict=True):
        lines = [f"lost in {name} {one.text}" for one in side.absences[:_LINES]]
        more = [f"lost in {name} {len(side.absences) - _LINES} more"] if len(side.absences) > _LINES else []
        nobody = "nobody" if side.outcome.outcome else "nobody so far: the run has no result"
        printing.print_lines(console, (lines + more) or [f"lost in {name} {nobody}"])
