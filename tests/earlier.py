"""Runs as an earlier version of Tacit left them, without digests, so that changes of their files are not noticed."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

_NEW = ("files", "digest", "formula")


def without_digests(folder: Path) -> Path:
    """The run in `folder`, without the digests of its files, and without the payloads by formula."""
    result = folder / "result.json"
    if result.is_file():
        record = json.loads(result.read_text())
        result.write_text(json.dumps({key: value for key, value in record.items() if key not in _NEW}))
    with closing(sqlite3.connect(folder / "run.sqlite", isolation_level=None)) as connection:
        connection.execute("DELETE FROM files")
    return folder
