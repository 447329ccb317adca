"""Tables at any width: no figure is cut, and omitted columns are named."""

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tacit import load, run
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import print_table
from tacit.scenarios.console.table import Column, Table
from tacit.scenarios.reporting.printed import byte_table, round_table
from tacit.scenarios.running.folder import byte_rows
from tests import warm

WIDTHS = (40, 60, 80, 120, 200)


def shown(one: Table, width: int, *, terminal: bool = True) -> list[str]:
    file = io.StringIO()
    limit = width if terminal else 10_000
    console = Console(file=file, width=limit, force_terminal=terminal, highlight=False, color_system=None)
    print_table(console, one)
    return file.getvalue().splitlines()


def assert_whole(one: Table, width: int) -> None:
    """Assert that every cell of a shown column of numbers is in a line of the width, and that omitted columns are
    named."""
    lines = shown(one, width)
    assert all(len(line.rstrip()) <= width or not line.strip("─ ") for line in lines)
    words = " ".join(lines).split()
    tail = " ".join(words)
    gone = tail.partition("for which there is no room: ")[2].rstrip(".").split(", ")
    for place, column in enumerate(one.columns):
        if column.heading not in gone and column.kind.numbers:
            for row in one.texts():
                assert not row[place] or any(row[place] in line for line in lines), (column, row[place], width)
    assert not set(gone) & {column.heading for column in one.columns if column.priority is None}


NUMBERS = st.integers(0, 10**12).map(lambda number: f"{number:,}")
NAMES = st.text("abcdefghij/.", min_size=1, max_size=18)


@given(st.lists(st.tuples(NAMES, NAMES, NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=5), st.integers(45, 220))
def test_no_figure_in_a_table_is_cut_at_any_width(rows: Sequence[tuple[str, ...]], width: int) -> None:
    messages, payload = Column("messages", kinds.FIGURE, priority=1), Column("payload", kinds.FIGURE, priority=0)
    made = Table(("step", "message", messages, payload, Column("total", kinds.FIGURE)), rows)
    assert_whole(made, width)
    whole = shown(made, width, terminal=False)
    for row in rows:
        assert any(all(cell in line for cell in row) for line in whole)


def test_rows_are_stacked_if_no_column_can_be_left_out() -> None:
    made = Table(("name", Column("bytes", kinds.COUNT)), [("a-name-of-20-letters", 1_234_567_890_123), ("b", 7)])
    assert shown(made, 30) == ["name   a-name-of-20-letters", "bytes  1,234,567,890,123", "", "name   b", "bytes  7"]


def test_tables_of_a_run_are_whole_at_every_width(tiny: Path) -> None:
    result = run(load(tiny, ["expect={}", "protocol.name=fedavg"]), out=tiny.parent / "out")
    for width in WIDTHS:
        assert_whole(byte_table(byte_rows(result.folder), exact=True, formula={}), width)
        assert_whole(round_table(result.round_records), width)


def in_terminal(width: int, kind: str, *arguments: str) -> list[str]:
    """The lines that the command prints on a terminal of this width and kind."""
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    command = [sys.executable, "-m", "tacit", *arguments]
    environment = {**os.environ, "TERM": kind, "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    process = warm.Process(command, stdout=far, stderr=far, env=environment)
    os.close(far)
    found = b""
    with contextlib.suppress(OSError):  # the end of the terminal's output
        while more := os.read(near, 65536):
            found += more
    os.close(near)
    assert process.wait() == 0, found
    return found.decode().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = [
        "expect={}",
        "fault=[]",
        "protocol.hamming=plaintext",
        "data.limit=120",
        "data.clients=4",
        "protocol.k=3",
    ]
    return run(load("xclp-digits", changes), out=tmp_path_factory.mktemp("made") / "run").folder


def assert_fits(lines: Sequence[str], folder: Path, width: int) -> None:
    """Assert that each row has lines within the width, with the total of its bytes as the last figure."""
    rows = byte_rows(folder)
    totals = [line.split()[-1] for line in lines if line.startswith(("total ", *(f"{row.step} " for row in rows)))]
    assert totals == [f"{row.total:,}" for row in rows] + [f"{sum(row.total for row in rows):,}"]
    assert all(len(line.rstrip()) <= width for line in lines[1:])
    assert any(line.startswith("Columns left out") for line in lines) == (width < 120)


@pytest.mark.parametrize(("width", "kind"), [(WIDTHS[0], "xterm"), (WIDTHS[-1], "xterm"), (WIDTHS[0], "dumb")])
def test_totals_on_a_terminal_are_whole_at_any_width(folder: Path, width: int, kind: str) -> None:
    lines = in_terminal(width, kind, "bytes", str(folder))
    assert_fits([re.sub(r"\x1b\[\d+m", "", line) for line in lines], folder, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_in_a_pipe_have_the_width_of_columns(folder: Path, width: int) -> None:
    command = [sys.executable, "-m", "tacit", "bytes", str(folder)]
    environment = {**os.environ, "COLUMNS": str(width)}
    printed = warm.run(command, env=environment, check=True).stdout
    assert_fits(printed.splitlines(), folder, width)
    del environment["COLUMNS"]
    whole = warm.run(command, env=environment, check=True).stdout
    assert_fits(whole.splitlines(), folder, 120)


def test_a_stacked_figure_stays_on_one_line() -> None:
    made = Table(("a name of 28 characters, long", Column("time", kinds.SECONDS)), [("x y", 670.0)])
    assert shown(made, 24) == ["a name of 28 characters,", "long", "  x y", "time", "  11 min 10 s"]
