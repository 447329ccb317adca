"""Folders of runs recorded in format 1 read like those of the same runs in the present format."""

import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tacit.scenarios.reporting.recorded import read_run
from tacit.scenarios.reporting.run_page import run_page
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.running.record_format import FORMAT, TABLES, VIEWS
from tacit.scenarios.running.runner import resume
from tacit.scenarios.running.simulation import durations_of
from tacit.scenarios.running.whole import FolderError, check_whole, opened_record
from tacit.scenarios.seeing.compare import compare
from tacit.scenarios.seeing.plot import curves
from tacit.scenarios.seeing.seen import Seen
from tacit.scenarios.seeing.story import absences, events
from tacit.scenarios.seeing.timeline.encoding import encoded
from tacit.scenarios.seeing.timeline.model import model_of

STORED = Path(__file__).with_name("format_1")
"""Two runs, each recorded in format 1 (``NAME-1.zip``) and in format 2.

The first is XCLP over lossy datagrams with a delayed, a duplicated and a corrupted message; the second three rounds of
training over lossy TCP with every kind of fault of a party.
"""

NAMES = ("lossy", "training")

ADDED = {("hops", "fact")}
"""Columns of views that were added since the runs were stored; a record has the views of its version."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """A function that returns the folder of a run in a format."""
    to = tmp_path_factory.mktemp("stored")
    for file in STORED.glob("*.zip"):
        with zipfile.ZipFile(file) as packed:
            packed.extractall(to / file.stem)
    return lambda name, number: to / f"{name}-{number}"


@pytest.fixture(params=NAMES)
def pair(request: pytest.FixtureRequest, stored: Callable[[str, int], Path]) -> tuple[Path, Path]:
    """The folders of one run in both formats."""
    return stored(request.param, 1), stored(request.param, FORMAT)


def test_the_compared_runs_have_their_stated_formats(pair: tuple[Path, Path]) -> None:
    for number, folder in zip((1, FORMAT), pair, strict=True):
        with closing(sqlite3.connect(folder / "run.sqlite")) as record:
            assert record.execute("PRAGMA user_version").fetchone() == (number,)
        check_whole(folder)


def test_every_table_and_view_has_the_same_rows_in_both_formats(pair: tuple[Path, Path]) -> None:
    old, new = pair
    with opened_record(old / "run.sqlite") as first, opened_record(new / "run.sqlite") as second:
        for one in (*TABLES, *VIEWS):
            columns = [name for name, *_ in one.columns if name != "value" or one.name != "run"]
            if one.name == "event_rows":
                columns = [name for name in columns if name not in ("sender", "receiver")]
            columns = [name for name in columns if (one.name, name) not in ADDED]
            names = ", ".join(f'"{name}"' for name in columns)
            found = [sorted(map(repr, record.execute(f"SELECT {names} FROM {one.name}"))) for record in (first, second)]
            assert found[0] == found[1], one.name
        assert first.execute("SELECT count(*) FROM events").fetchone()[0] > 200


@pytest.mark.parametrize("options", [{}, {"everything": True}, {"unfolded": True}])
def test_events_of_both_formats_are_equal(pair: tuple[Path, Path], options: dict[str, bool]) -> None:
    old, new = pair
    assert events(old, **options) == events(new, **options) != []


def test_bytes_losses_jobs_and_curves_of_both_formats_are_equal(pair: tuple[Path, Path]) -> None:
    old, new = pair
    assert byte_rows(old) == byte_rows(new) != []
    assert absences(old) == absences(new) != []
    assert durations_of(old) == durations_of(new)
    if old.name.startswith("training"):
        assert curves([old], "time", "accuracy")[0].points == curves([new], "time", "accuracy")[0].points


def test_critical_path_and_timeline_of_both_formats_are_equal(pair: tuple[Path, Path]) -> None:
    old, new = pair
    assert Seen(old).path() == Seen(new).path() != []
    assert encoded(model_of(old)) == encoded(model_of(new))


def test_reports_of_both_formats_are_equal(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Results contain wall-clock times and digests, so pages of runs without results are compared."""
    pages = []
    for folder in pair:
        shutil.copytree(folder, tmp_path / "run")
        (tmp_path / "run" / "result.json").unlink()
        pages.append(run_page(read_run(tmp_path / "run")))
        shutil.rmtree(tmp_path / "run")
    assert pages[0] == pages[1]


def test_runs_of_both_formats_are_compared(pair: tuple[Path, Path]) -> None:
    found = compare(*pair)
    assert found.first_difference is None and found.keys == {} and found.events_in_common > 200
    assert found.sides[0].path == found.sides[1].path


def test_a_changed_file_of_format_1_is_detected(pair: tuple[Path, Path], tmp_path: Path) -> None:
    for folder in pair:
        copy = Path(shutil.copytree(folder, tmp_path / folder.name))
        (copy / "result.json").unlink()
        scenario = copy / "scenario.toml"
        scenario.write_text(scenario.read_text() + "# more")
        with pytest.raises(FolderError, match=r"scenario\.toml: changed since the run began"):
            check_whole(copy)


def test_an_interrupted_run_of_format_1_is_not_continued(
    resumable: Callable[..., Path], tmp_path: Path, break_off: Callable[..., None]
) -> None:
    folder = tmp_path / "run"
    break_off(resumable(tmp_path), folder, 120, "protocol.name=fedavg")
    assert (folder / "checkpoint").is_file()
    (folder / "result.json").unlink(missing_ok=True)
    with closing(sqlite3.connect(folder / "run.sqlite")) as record:
        record.execute("PRAGMA user_version = 1")
    with pytest.raises(FolderError, match=r"^\S+run\.sqlite: of format 1, .+; `tacit run \S+` runs it from the start$"):
        resume(folder)
