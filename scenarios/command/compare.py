"""The command `tacit compare`: the differences of two runs, and the first event at which they diverge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.scenarios.command.options import Debug

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.scenarios.console.kinds import Kind
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
        printing.print_table(console, paired_table(found))
    return 0


def _remark(side: Side) -> str:
    from tacit.scenarios.running.folder import remarks_on

    remarks = remarks_on(side.folder)
    return f" ({', '.join(remarks)})" if remarks else ""


def _print_results(console: Console, sides: tuple[Side, Side]) -> None:
    from tacit.scenarios.console import kinds, printing
    from tacit.scenarios.reporting.compared import side_by_side

    both = [side.outcome for side in sides]
    figure, versions = kinds.decimals(4), [one.version for one in both]
    facts: list[tuple[str, Kind, list[Any]]] = [
        ("outcome", kinds.TEXT, [one.outcome or None for one in both]),
        *(
            (name.replace("_", " "), figure, [one.score_of(name) for one in both])
            for name in dict.fromkeys(one.score for one in both)
        ),
        *((name.replace("_", " "), figure, values) for name, values in _metrics(both)),
        ("virtual time", kinds.SECONDS, [sum(part.seconds for part in side.path) for side in sides]),
        ("bytes", kinds.BYTES, [sum(side.bytes_by_step().values()) for side in sides]),
        ("parties lost", kinds.COUNT, [side.lost for side in sides]),
        *([("version", kinds.TEXT, versions)] if versions[0] != versions[1] else []),
    ]
    printing.print_lines(console, [""])
    printing.print_table(console, side_by_side("", "AB", facts))


def _metrics(both: Sequence[Outcome]) -> list[tuple[str, list[float | None]]]:
    """Each further metric of the models, and of the evaluation by clients, of both runs."""
    from tacit.protocols.experiment.simulated import FIT, prefixed

    found = [one.metrics | prefixed("clients' ", one.evaluation) | prefixed(FIT, one.fit) for one in both]
    names = dict.fromkeys(name for metrics in found for name in metrics)
    scores = {one.score for one in both}
    return [(name, [metrics.get(name) for metrics in found]) for name in names if name not in scores]


def _print_keys(console: Console, sides: tuple[Side, Side]) -> None:
    from tacit.scenarios.console import printing
    from tacit.scenarios.console.table import Table
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
    printing.print_table(console, Table(("key that differs", "A", "B"), rows))


def _unused(keys: Iterable[str], sides: tuple[Side, Side]) -> frozenset[str]:
    """The `keys` that have an effect on neither run."""
    from tacit.scenarios.seeing.compare import unused_in

    first, second = (unused_in(side.folder, keys) for side in sides)
    return first & second


def _print_bytes(console: Console, sides: tuple[Side, Side]) -> None:
    from tacit.scenarios.console.kinds import BYTES

    _print_pairs(console, "bytes by step", [side.bytes_by_step() for side in sides], BYTES)


def _print_paths(console: Console, sides: tuple[Side, Side]) -> None:
    from tacit.scenarios.console.kinds import SECONDS
    from tacit.scenarios.seeing.critical_path import seconds_by

    def sums(*names: str) -> list[dict[str, float]]:
        found = [seconds_by(side.path, *names) for side in sides]
        return [{"  ".join(filter(None, key)): value for key, value in one.items()} for one in found]

    title = "virtual time by critical path"
    _print_pairs(console, f"{title}: step, what", sums("step", "kind"), SECONDS, by_size=True)
    _print_pairs(console, f"{title}: party or link", sums("place"), SECONDS, by_size=True)


def _print_pairs(
    console: Console, title: str, sides: Sequence[Mapping[str, float]], kind: Kind, *, by_size: bool = False
) -> None:
    """Print a table of two columns; with `by_size` the largest rows first, and only the first ones if there are
    many."""
    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting.compared import side_by_side

    one, other = sides
    names = list(dict.fromkeys((*one, *other)))
    left: list[str] = []
    if by_size:
        names.sort(key=lambda name: -max(one.get(name, 0), other.get(name, 0)))
        if len(names) > _LINES + 1:
            names, left = names[:_LINES], names[_LINES:]
    facts = [(name or "-", kind, [side.get(name) for side in sides]) for name in names]
    if left:
        facts.append((f"{len(left)} more", kind, [sum(side.get(name, 0) for name in left) for side in sides]))
    total = ("total", kind, [sum(side.values()) for side in sides])
    printing.print_lines(console, [""])
    printing.print_table(console, side_by_side(title, "AB", facts, [total]))


def _print_losses(console: Console, sides: tuple[Side, Side]) -> None:
    from tacit.scenarios.console import printing

    printing.print_lines(console, [""])
    for name, side in zip("AB", sides, strict=True):
        lines = [f"lost in {name} {one.text}" for one in side.absences[:_LINES]]
        more = [f"lost in {name} {len(side.absences) - _LINES} more"] if len(side.absences) > _LINES else []
        nobody = "nobody" if side.outcome.outcome else "nobody so far: the run has no result"
        printing.print_lines(console, (lines + more) or [f"lost in {name} {nobody}"])
