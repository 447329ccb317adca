"""`rounds.csv` is written while the run goes on."""

import csv
import threading
from pathlib import Path
from types import SimpleNamespace

from tacit.scenarios.files.reading import load
from tacit.scenarios.running import recorder
from tacit.scenarios.running.folder import RunFolder


def test_rounds_are_in_the_table_before_the_run_ends(quick: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(recorder, "_SECONDS", 0.01)
    (tmp_path / "run").mkdir()
    folder, written = RunFolder(tmp_path / "run", load(quick), "quick"), threading.Event()
    record = recorder.Recorder(folder.path / "run.sqlite")

    def write() -> None:
        folder.write_rounds()
        written.set()

    record.rounds_written = write
    server = SimpleNamespace(clients=("client/0", "client/1"))
    try:
        for number in (1, 2):
            written.clear()
            record.end_round(float(number), server, SimpleNamespace(number=number, counted=("client/0",)))
            assert written.wait(60)
            with (folder.path / "rounds.csv").open(newline="") as file:
                rows = list(csv.DictReader(file))
            assert [(row["round"], row["called"], row["answers"]) for row in rows] == [
                (str(one), "2", "1") for one in range(1, number + 1)
            ]
            assert not list(folder.path.glob(".rounds*"))
    finally:
        record.close()
        folder.close()
