"""Data files, cost tables, latencies and records with arbitrary content: read, or refused in one line."""

import io
import random
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.parties.data.sets import DataError, Dataset, load_file
from tacit.scenarios.command.main import app
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.folder import ByteRow, FolderError, byte_rows
from tacit.scenarios.running.prediction import predicted
from tacit.scenarios.running.runner import run
from tacit.scenarios.running.simulation import durations_of
from tacit.sim.compute import CostTable
from tacit.sim.faults import availability
from tacit.sim.latency import parse_latency
from tacit.sim.uptimes import availability_file
from tests.earlier import without_digests

PER_BYTE = 200
AT_LEAST = 4 << 20  # numpy reads a broken header with Python's own tokenizer

TABLE = b"label,client,x,y\n" + b"".join(b"%d,c%d,%d.5,-1e-3\n" % (i % 3, i % 4, i) for i in range(20))
CELLS = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b'"', b"\r", b"\n\n", b",", b"nan", b"inf", b"1e999", b"1e308", b"9" * 5000,
    b"x" * 140_000, b"label,", "٣".encode(), "\u2028".encode(), b"1_0", b"-0",
)  # fmt: skip
LATENCIES = b"40ms\n0.1\n1s\n5us,and more\n"
SPECS = (
    "40ms", "normal:40ms,5ms", "lognormal:40ms,0.3", "uniform:10ms,50ms", "csv:FILE", "normal:1e308,1e308s",
    "lognormal:1e300s,1e300", "lognormal:1s,700", "uniform:0,1e308h", "uniform:1e308,1e308", "csv:", "csv:.",
    "csv:/nowhere", "1e308h", "normal:nan,1", "lognormal:1,nan", "lognormal:1,-1", "csv:\0", "\n", "normal:1,1,1",
)  # fmt: skip
COSTS = b'[machine]\ntext = "a core"\n[seconds]\n"x25519.keygen" = 1e-5\n"ring.add" = 2.5e-9\n'
NUMBERS = (
    b"nan", b"inf", b"-1.0", b"-inf", b"1e999", b"true", b'"x"', b"[]", b"{}", b"9" * 5000, b"[" * 3000, b"\0", b"\xff",
    b"1979-05-27", b"[seconds]\n", b"[machine]\n", b"=", b"\n",
)  # fmt: skip


def outcome_within_memory(
    memory: Any, clear: Callable[..., None], size: int, expected: type[ValueError], make: Any
) -> object:
    """The return value of `make`, or the `expected` error that it raises in one line, within memory for `size`
    bytes."""
    found = memory.outcome(AT_LEAST + PER_BYTE * size, expected, make)
    if isinstance(found, expected):
        clear(found)
    return found


def test_tables_are_read_or_refused(inputs, mutate, memory, clear, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    seen = set()
    for one in inputs:
        data = mutate(one.random, TABLE, TABLE, CELLS)
        path.write_bytes(data)
        with one.trying("csv", data):
            seen.add(type(found := outcome_within_memory(memory, clear, len(data), DataError, lambda: load_file(path))))
            assert str(path) in str(found) if isinstance(found, DataError) else is_valid(found)
    assert seen == {Dataset, DataError}


def is_valid(dataset: Any) -> bool:
    """Return true if the data set fulfils the assumptions of its users."""
    n = len(dataset.labels)
    return (
        dataset.features.shape[0] == n > 0
        and bool(np.isfinite(dataset.features).all())
        and dataset.labels.min() >= -1
        and dataset.labels.max() < len(dataset.classes)
        and (dataset.clients is None or dataset.clients.max() < len(dataset.client_names))
    )


SHAPES = (
    "1000000000000, 1000000", "4000000000,", "300000000, 2", "-1, 2", "0, 2", "6", "6,", "1" + "0" * 400 + ",",
    "9223372036854775807, 9223372036854775807", "True, 2", "", "6, 2, 1",
)  # fmt: skip
KINDS = (
    "|O", "<U2000000000", "|V9", "|S0", "<M8[ns]", "<c16", ">f8", "<f16", "|b1", "<u8", "<i1", "nonsense", "<f2",
)  # fmt: skip


def archive(random: random.Random) -> bytes:
    """An archive of three arrays, one of which may claim another type or an impossibly large shape."""
    arrays = {"features": np.ones((6, 2)), "labels": np.array([0, 1, 2, -1, 0, 1]), "clients": np.arange(6)}
    broken = random.choice([*arrays, None])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as members:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array)
            data = content.getvalue()
            if name == broken:
                data = with_changed_header(random, data)
            members.writestr(f"{name}.npy", data)
            if random.random() < 0.05:
                members.writestr(f"{name}.npy", bytes(100))
    return file.getvalue()


def with_changed_header(random: random.Random, data: bytes) -> bytes:
    """An array file with a changed header."""
    shape, kind = random.choice(SHAPES), random.choice(KINDS)
    header = random.choice((
        f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}",
        f"{{'descr': '{kind}', 'fortran_order': False, 'shape': (6,), }}",
        "{'descr': [('a', '<f8')], 'fortran_order': True, 'shape': (6,), }",
        "{" * random.choice((5, 5000)),
        "[" * 9000,
        "{'descr': '<f8'}",
        "\0" * 50,
        "x" * 60_000,
    ))  # fmt: skip
    version = random.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"))
    size = struct.pack("<H" if version == b"\x01\x00" else "<I", len(header))
    if random.random() < 0.1:
        size = b"\xff" * len(size)
    return b"\x93NUMPY" + version + size + header.encode() + data[random.choice((0, 80, 128)) :]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archives_are_read_or_refused(inputs, mutate, memory, clear, tmp_path: Path) -> None:
    path = tmp_path / "points.npz"
    path.write_bytes(archive(random.Random(0)))
    seen = set()
    for one in inputs:
        data = archive(one.random)
        if one.random.random() < 0.5:
            data = mutate(one.random, data, data, (b"\0\0\0\0", b"\xff\xff\xff\xff", b"PK\x05\x06", b"PK\x01\x02"))
        path.write_bytes(data)
        with one.trying("npz", data):
            seen.add(type(found := outcome_within_memory(memory, clear, len(data), DataError, lambda: load_file(path))))
            assert str(path) in str(found) if isinstance(found, DataError) else is_valid(found)
    assert seen == {Dataset, DataError}


def test_a_file_full_of_zeros_is_not_unpacked_into_memory(memory, clear, tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as members:
        for name in ("features", "labels"):
            members.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00\xff\xff" + bytes(50_000_000))
    found = outcome_within_memory(memory, clear, path.stat().st_size, DataError, lambda: load_file(path))
    assert isinstance(found, DataError)


def test_cost_tables_are_read_or_refused(inputs, mutate, memory, clear, tmp_path: Path) -> None:
    path = tmp_path / "costs.toml"
    seen = set()
    for one in inputs:
        data = mutate(one.random, COSTS, COSTS, NUMBERS)
        if one.random.random() < 0.5:
            data = COSTS.replace(one.random.choice((b"1e-5", b"2.5e-9", b'"a core"')), one.random.choice(NUMBERS))
        path.write_bytes(data)
        with one.trying("costs", data):
            seen.add(
                type(found := outcome_within_memory(memory, clear, len(data), ValueError, lambda: CostTable.load(path)))
            )
            if isinstance(found, CostTable):
                assert all(0 <= seconds < float("inf") for seconds in found.seconds.values())
            else:
                assert str(path) in str(found)
    assert seen == {CostTable, ValueError}


def test_latencies_are_read_or_refused(inputs, mutate, memory, clear, tmp_path: Path) -> None:
    path = tmp_path / "latencies.csv"
    seen = set()
    for one in inputs:
        text, data = one.random.choice(SPECS).replace("FILE", str(path)), mutate(one.random, LATENCIES, TABLE, CELLS)
        path.write_bytes(data)
        if one.random.random() < 0.5:
            at = one.random.randrange(len(text) + 1)
            text = text[:at] + one.random.choice(("\0", ",", ":", "e9", "٣", "-", "nan", "s")) + text[at:]
        with one.trying(text, data):
            found = outcome_within_memory(memory, clear, len(data), ValueError, partial(parse_latency, text))
            seen.add(type(found).__name__)
            if not isinstance(found, ValueError):
                delays = found.draw(np.random.default_rng(one.number), 100)
                assert np.isfinite(delays).all()
                assert (delays >= 0).all()
    assert seen == {"Latency", "ValueError"}


AVAILABILITY = b"party,up,down\nclient/0,0,10\nclient/0,20s,2min\nclient/1,5,\n"


def test_availability_is_read_or_refused(inputs, mutate, memory, clear, tmp_path: Path) -> None:
    path = tmp_path / "availability.csv"
    seen = set()
    for one in inputs:
        data = mutate(one.random, AVAILABILITY, AVAILABILITY, (*CELLS, b"client/0,", b"1e300h", b"-1", b"server,0,1\n"))
        path.write_bytes(data)
        with one.trying("availability", data):
            found = outcome_within_memory(memory, clear, len(data), ValueError, partial(availability_file, path))
            seen.add(type(found))
            if isinstance(found, ValueError):
                assert str(path) in str(found)
            else:
                outcome_within_memory(
                    memory, clear, len(data), ValueError, partial(availability, found, ["server", "client/0"])
                )
    assert seen == {list, ValueError}


@pytest.fixture
def finished(tmp_path: Path) -> dict[str, bytes]:
    """The files of a small run."""
    file = tmp_path / "small.toml"
    file.write_text(
        'cost = "free"\nengine = "inline"\n[data]\nlimit = 40\nclients = 3\nlabeled = 0.3\n'
        '[protocol]\nhamming = "plaintext"\nbits = 32\nk = 3\n'
    )
    result = run(load(file), out=tmp_path / "run")
    assert result.outcome == "completed"
    return {path.name: path.read_bytes() for path in without_digests(result.folder).iterdir()}


STATEMENTS = (
    "UPDATE event_rows SET payload = 'much'", "UPDATE event_rows SET payload = NULL",
    "UPDATE event_rows SET envelope = 0.5", "UPDATE event_rows SET type = NULL", "UPDATE event_rows SET step = x'ff'",
    "UPDATE event_rows SET payload = 1 << 62", "UPDATE wait_ends SET wait = 'x'", "UPDATE wait_begins SET sources = 7",
    "UPDATE event_rows SET fact = 7", "UPDATE event_rows SET fact = 'down', kind = 'fault'", "DROP TABLE wait_ends",
    "UPDATE event_rows SET type = 7", "DROP TABLE event_rows", "DROP VIEW computing", "DELETE FROM event_rows",
    "ALTER TABLE event_rows RENAME payload TO load", "UPDATE event_rows SET type = char(27) || '[2J'",
    "UPDATE event_rows SET value = 'long'", "UPDATE event_rows SET value = NULL", "PRAGMA user_version = 9",
    "UPDATE event_rows SET value = -1", "UPDATE event_rows SET value = 9e999",
    "UPDATE event_rows SET party = 1",
    "UPDATE event_rows SET type = '[red]', step = '[/]'",
    "DROP VIEW events; CREATE VIEW events AS SELECT * FROM steps",
)  # fmt: skip


def test_records_are_read_or_refused(inputs, mutate, memory, clear, finished: dict[str, bytes], tmp_path: Path) -> None:
    folder = tmp_path / "fuzzed"
    folder.mkdir()
    memory.every = 10
    seen = set()
    for one in inputs:
        for name, content in finished.items():
            (folder / name).write_bytes(content)
        said = b""
        if one.random.random() < 0.5:
            said = one.random.choice(STATEMENTS).encode()
            with sqlite3.connect(folder / "run.sqlite") as connection:
                connection.executescript(said.decode())
            connection.close()
        else:
            name = one.random.choice(["run.sqlite", "result.json", "scenario.toml"])
            said = mutate(
                one.random, finished[name], finished[name], (b"\0", b"\xff", b"null", b"[", b"{", b"1e999", b'"')
            )
            (folder / name).write_bytes(said)
        with one.trying("record", said):
            rows = outcome_within_memory(memory, clear, 1 << 22, FolderError, lambda: byte_rows(folder))
            seen.add(type(rows))
            assert isinstance(rows, FolderError) or all(isinstance(row, ByteRow) for row in rows)
            outcome_within_memory(memory, clear, 1 << 22, ValueError, lambda: durations_of(folder))
            assert isinstance(predicted(folder), dict)
            shown = CliRunner().invoke(app, ["bytes", str(folder)])
            assert shown.exit_code == (2 if isinstance(rows, FolderError) else 0), shown.output
    assert seen <= {list, FolderError} and FolderError in seen  # a changed file is named, and its rows are not shown
