"""Combines the records of a deployed run's processes: clocks are aligned, messages numbered, events ordered."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.scenarios.running.record_format import TABLES
from tacit.scenarios.running.whole import FolderError, opened_record
from tacit.sim.wire import LedgerRow

__all__ = ["Gathered", "PartFile", "gather_events", "parts_in"]

_COLUMNS = {table.name: tuple(name for name, *_ in table.columns) for table in TABLES}
_HOPS = ("send", "relay", "deliver")
_WAITS = ("wait_begins", "wait_ends")

Row = dict[str, Any]


@dataclass(frozen=True)
class PartFile:
    """The record of one process: its `party`, and the file."""

    party: str
    path: Path


@dataclass
class Gathered:
    """The combined record of a run.

    `events`, and the beginnings and ends of `waits` by table, are numbered together as in ``run.sqlite``. `rounds`,
    `contents` and `files` have the rows of these tables, `about` the facts on the run. `ledger` has the bytes sent,
    `shifted` the seconds by which each party's clock was corrected.
    """

    about: dict[str, Any]
    events: list[Row]
    waits: dict[str, list[Row]]
    rounds: list[Row]
    contents: list[Row]
    files: list[Row]
    ledger: list[LedgerRow]
    shifted: dict[str, float]

    @property
    def seconds(self) -> float:
        """The time of the last event."""
        every = (row for rows in (self.events, *self.waits.values()) for row in rows)
        return max((float(row["time"]) for row in every), default=0.0)

    def of(self, party: str, kind: str) -> list[Row]:
        """The events of one `kind` at one `party`."""
        return [event for event in self.events if event["kind"] == kind and event["party"] == party]


def parts_in(folders: Iterable[Path]) -> list[PartFile]:
    """The records in the folders of processes. Raises FolderError for a folder without a record."""
    found = []
    for folder in folders:
        files = sorted(folder.glob("record-*.sqlite"), key=lambda path: (len(path.name), path.name))
        if not files:
            raise FolderError(f"{folder}: no record-1.sqlite; the folder of a party's process is needed")
        for path in files:
            about = _about(path)
            if "party" not in about:
                raise FolderError(f"{path}: it does not say whose record it is")
            found.append(PartFile(str(about["party"]), path))
    return found


def _read(path: Path, table: str) -> list[Row]:
    try:
        with opened_record(path) as connection:
            rows = connection.execute(f"SELECT * FROM {'events' if table == 'event_rows' else table}").fetchall()
    except sqlite3.Error as error:
        raise FolderError(f"{path}: {error}") from None
    return [dict(zip(_COLUMNS[table], row, strict=True)) for row in rows]


def _about(path: Path) -> dict[str, Any]:
    return {row["key"]: row["value"] for row in _read(path, "run")}


def gather_events(parts: Iterable[PartFile]) -> Gathered:
    """Combine the records of all processes. Raises FolderError."""
    parts = list(parts)
    events: list[Row] = []
    waits: dict[str, list[Row]] = {table: [] for table in _WAITS}
    for number, part in enumerate(parts):
        for table, rows in (("event_rows", events), *waits.items()):
            rows += [row | {"file": number, "of": part.party} for row in _read(part.path, table)]
    shifted = _shifts(events)
    for row in (*events, *(row for rows in waits.values() for row in rows)):
        row["time"] += shifted.get(row["of"], 0.0)
    events += _unrecorded(events)
    found = [*events, *(row for rows in waits.values() for row in rows)]
    found.sort(key=lambda row: (row["time"], _HOPS.index(kind) if (kind := row.get("kind")) in _HOPS else 0, row["n"]))
    places = _number(found)
    server = [number for number, part in enumerate(parts) if part.party == "server"]
    rounds = [row | {"file": number} for number in server for row in _read(parts[number].path, "ended_rounds")]
    for row in rounds:
        row["n"] = places.get((row.pop("file"), row["n"]), 0)
    contents = [row for part in parts for row in _read(part.path, "contents")]
    about = _about(parts[server[0]].path) if server else {}
    files = _read(parts[server[0]].path, "files") if server else []
    for name in ("party", "entropy", "outcome", "reason", "ended_by", "virtual_seconds"):
        about.pop(name, None)
    events = list(_in_order("event_rows", events))
    in_order = {table: list(_in_order(table, rows)) for table, rows in waits.items()}
    return Gathered(about, events, in_order, rounds, contents, files, _ledger(events), shifted)


def _in_order(table: str, rows: list[Row]) -> Iterator[Row]:
    for row in sorted(rows, key=lambda row: int(row["n"])):
        yield {name: row[name] for name in _COLUMNS[table]}


def _shifts(rows: Iterable[Row]) -> dict[str, float]:
    """The seconds to add to each client's clock, so that the fastest messages in both directions take the same time.

    If clocks do not drift, no message then arrives before it was sent.
    """
    sent: dict[tuple[str, int], tuple[str, float]] = {}
    for row in rows:
        if row["kind"] == "send":
            sent[row["sender"], row["message"]] = row["of"], row["time"]
        elif row["kind"] == "relay":
            sent.setdefault((f"relayed {row['sender']}", row["message"]), ("server", row["time"]))
    up: dict[str, float] = {}
    down: dict[str, float] = {}
    for row in rows:
        if row["kind"] not in ("deliver", "relay"):
            continue
        at_server = row["of"] == "server"
        hop_two = row["kind"] == "deliver" and row["hop"] == 2
        begun = sent.get((f"relayed {row['sender']}" if hop_two else row["sender"], row["message"]))
        if begun is None or at_server == (begun[0] == "server"):
            continue
        client, ways = (begun[0], up) if at_server else (row["of"], down)
        ways[client] = min(ways.get(client, float("inf")), row["time"] - begun[1])
    return {client: (up[client] - down[client]) / 2 for client in up.keys() & down.keys()}


def _unrecorded(rows: Iterable[Row]) -> list[Row]:
    """Send events for messages whose sender was killed before it recorded them, at the times of their arrival."""
    sent = {(row["sender"], row["message"]) for row in rows if row["kind"] == "send"}
    found: dict[tuple[str, int], Row] = {}
    for row in rows:
        key = row["sender"], row["message"]
        if row["kind"] in ("relay", "deliver") and row["message"] and key not in sent and row["of"] == "server":
            found.setdefault(key, row | {"kind": "send", "party": row["sender"], "peer": "server", "hop": 1, "n": 0})
    return list(found.values())


def _number(rows: list[Row]) -> dict[tuple[int, int], int]:
    """Number events, messages and waits from 1; return each event's new number by the number of its file and its old
    number."""
    messages: dict[tuple[str, int], int] = {}
    waits: dict[tuple[int, int], int] = {}
    places: dict[tuple[int, int], int] = {}
    for number, row in enumerate(rows, 1):
        places[row["file"], row["n"]] = number
        row["n"] = number
        if "wait" in row:
            row["wait"] = waits.setdefault((row["file"], row["wait"]), len(waits) + 1)
        elif row["message"]:
            key = row["sender"], row["message"]
            row["message"] = row["copy"] = messages.setdefault(key, len(messages) + 1)
    return places


def _ledger(events: Iterable[Mapping[str, Any]]) -> list[LedgerRow]:
    """The bytes sent in `events`, in rows like those of a simulated run's ledger."""
    rows: dict[tuple[Any, ...], LedgerRow] = {}
    for event in events:
        if event["kind"] not in ("send", "relay"):
            continue
        key = (*(event[name] for name in ("protocol", "step", "type", "party", "peer")), event["kind"] == "relay")
        row = rows.setdefault(key, LedgerRow(*key))
        row.messages += 1
        row.payload += event["payload"]
        row.sealing += event["sealing"]
        row.envelope += event["envelope"]
    return list(rows.values())
