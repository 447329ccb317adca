"""Plants each bug of `planted` and `unseen` in a copy of the tree, and tests if chaos and the tests find it.

    make mutants
    python -m tests.mutants.run --help

Chaos runs random mixtures of faults over the bug's configuration, if it has one, and stops at the first broken promise.
pytest runs the files that concern the bug and stops at the first failure. A finding is repeated without the bug, and
must then find nothing. The exit code is 1 if a bug is found by neither, or if something is found without the bug.
"""

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from tests.mutants.chaos import Finding, Job
from tests.mutants.planted import PLANTED, Bug
from tests.mutants.unseen import UNSEEN

ROOT = Path(__file__).parents[2]
_ROOMS = ("sim", "parties", "protocols", "scenarios", "benchmarks")
_PATIENCE = 900
"""Seconds after which a process is ended; a process that hangs counts as a finding."""


class Copy:
    """A copy of the tree, whose packages are imported instead of the installed ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
        )
        if listed.returncode:
            raise SystemExit(f"error: {ROOT} is no clone of Tacit: {listed.stderr.strip()}")
        built = [str(path.relative_to(ROOT)) for path in (ROOT / "protocols").rglob("*.so")]
        for name in (*listed.stdout.splitlines(), *built):
            if (ROOT / name).is_file():  # skip files that were deleted but not committed
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        for room in _ROOMS:
            (folder / "tacit" / room).symlink_to(Path("..", room))
        code = f"import {', '.join(f'tacit.{room} as {room}' for room in _ROOMS)}"
        found = self.python("-c", f"{code}\nprint(*({', '.join(f'{room}.__file__' for room in _ROOMS)},), sep='\\n')")
        for line in found.stdout.splitlines():
            if not Path(line).is_relative_to(folder):
                raise SystemExit(f"error: in the copy {folder}, Python imports {line}")

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy. Raises TimeoutExpired."""
        environment = os.environ | {"PYTHONPATH": str(self.folder), "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True,
            timeout=_PATIENCE,
        )  # fmt: skip

    def write(self, file: str, text: str) -> None:
        """Write a module, and remove its compiled files."""
        path = self.folder / file
        path.write_text(text, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()

    def chaos(self, job: Job) -> Finding:
        """The finding of chaos; a process that fails or hangs is a finding, too."""
        try:
            done = self.python("-m", "tests.mutants.chaos", msgspec.json.encode(job).decode())
        except subprocess.TimeoutExpired:
            return Finding("every run ends", f"not within {_PATIENCE} s", (), 0)
        if done.returncode:
            return Finding("it runs", (done.stderr.strip().splitlines() or ["no word"])[-1], (), 0)
        return msgspec.json.decode(done.stdout, type=Finding)

    def tests(self, which: Sequence[str]) -> str:
        """The first test that fails among files of tests, or a single test; "" if none fails."""
        try:
            done = self.python("-m", "pytest", "-q", "-x", "-rfE", "-p", "no:cacheprovider", *which)
        except subprocess.TimeoutExpired:
            return which[0]
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        if not failed and done.returncode:
            raise SystemExit(f"error: pytest {' '.join(which)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return failed[0] if failed else ""


@dataclass(frozen=True)
class Row:
    """The findings for a bug: the promise that chaos found broken, and the first failed test; "" if there is none.

    `wrong`: the findings without the bug.
    """

    bug: Bug
    chaos: Finding
    test: str
    seconds: float
    wrong: tuple[str, ...] = ()


def try_bug(copy: Copy, bug: Bug, schedules: int, seed: int) -> Row:
    """Plant `bug` in the copy, let chaos and tests search for it, and remove it."""
    began = time.monotonic()
    text = (ROOT / bug.file).read_text(encoding="utf-8")
    if text.count(bug.before) != 1:
        raise SystemExit(f"error: {bug.file} has {text.count(bug.before)} times, not once: {bug.before!r} ({bug.name})")
    job = Job(bug.configuration, bug.changes, seed, schedules)
    copy.write(bug.file, text.replace(bug.before, bug.after))
    try:
        chaos, test = copy.chaos(job) if bug.configuration else Finding(), copy.tests(bug.tests)
    finally:
        copy.write(bug.file, text)
    wrong = []
    if chaos.promise and copy.chaos(msgspec.structs.replace(job, faults=chaos.faults)).promise:
        wrong.append(f"chaos finds the same without the bug: {chaos.promise}: {chaos.how}")
    if test and copy.tests([test]):
        wrong.append(f"this fails without the bug, too: {test}")
    return Row(bug, chaos, test, time.monotonic() - began, tuple(wrong))


def try_all(
    bugs: Sequence[Bug], schedules: int, seed: int, jobs: int, watch: Callable[[Row], None], folder: Path
) -> list[Row]:
    """The row of each of the `bugs`, `jobs` at a time, each in a copy of its own."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for number in range(min(jobs, len(bugs))):
        (folder / str(number)).mkdir()
        free.put(Copy(folder / str(number)))

    def try_next(bug: Bug) -> Row:
        copy = free.get()
        try:
            row = try_bug(copy, bug, schedules, seed)
        finally:
            free.put(copy)
        watch(row)
        return row

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(try_next, bugs))


def table_of(rows: Sequence[Row]) -> Table:
    """The table of findings by bug."""
    table = Table("bug", "file", "chaos: promise", "runs", "test", "seconds", box=None, pad_edge=False)
    for row in rows:
        promise = row.chaos.promise or "-"
        runs = str(row.chaos.runs) if row.chaos.runs else ""
        test = row.test.rpartition("/")[2] or "-"
        table.add_row(row.bug.name, row.bug.file, promise, runs, test, f"{row.seconds:.0f}")
    return table


def main() -> int:
    """Try the bugs whose names contain a given word, or all bugs."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="only the bugs whose name or file contains one")
    parser.add_argument("--schedules", type=int, default=200, help="random mixtures of faults a bug (200)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the mixtures (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="bugs at a time (one a core)")
    given = parser.parse_args()
    bugs = [
        one
        for one in (*PLANTED, *UNSEEN)
        if not given.words or any(word in one.name + one.file for word in given.words)
    ]
    if not bugs or min(given.schedules, given.jobs) < 1:
        parser.error("no bug has such a name or file" if not bugs else "schedules and jobs must be at least 1")
    notes, console = Console(stderr=True), Console(width=None if sys.stdout.isatty() else 200)
    began = time.monotonic()

    def watch(row: Row) -> None:
        found = f"chaos: {row.chaos.promise or '-'}; tests: {row.test or '-'}"
        notes.print(f"{row.seconds:4.0f} s  {row.bug.name}: {found}", markup=False, highlight=False, soft_wrap=True)

    with tempfile.TemporaryDirectory(prefix="tacit-mutants-") as folder:
        rows = try_all(bugs, given.schedules, given.seed, given.jobs, watch, Path(folder).resolve())
    console.print(table_of(rows))
    by_chaos, by_tests = sum(bool(row.chaos.promise) for row in rows), sum(bool(row.test) for row in rows)
    neither = [row for row in rows if not row.chaos.promise and not row.test]
    console.print(
        f"\nof {len(rows)} bugs chaos found {by_chaos}, tests {by_tests}, neither {len(neither)}; "
        f"{given.schedules} schedules each, seed {given.seed}, {time.monotonic() - began:.0f} s",
        highlight=False,
    )
    wrong = [line for row in rows for line in row.wrong]
    for line in (*(f"found by neither: {row.bug.name}" for row in neither), *wrong):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 1 if neither or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
