"""The start of the `tacit` command: signals while modules are imported, and file names that are not ASCII."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def process(code: str, *arguments: str | Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
    )


_STOPPED = """
import os, signal, sys
module, number = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]

class Stopping:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), number)

sys.meta_path.insert(0, Stopping())
from tacit.__main__ import main
main()
"""


MODULES = (
    "tacit.scenarios.command.main",
    "typer",
    "rich.console",
    "numpy",
    "scipy",
    "tacit.scenarios.running.runner",
    "tacit.scenarios.files.reading",
)
LINES = ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated (SIGTERM)"))


@pytest.mark.parametrize(
    ("module", "number", "line"),
    [
        # By default every third module, with alternating signals.
        pytest.param(module, number, line, marks=[pytest.mark.long] if place % 3 or (place + turn) % 2 else [])
        for place, module in enumerate(MODULES)
        for turn, (number, line) in enumerate(LINES)
    ],
)
def test_a_signal_during_the_import_of_modules_ends_in_one_line(
    quick: Path, tmp_path: Path, module: str, number: signal.Signals, line: str
) -> None:
    done = process(_STOPPED, module, int(number), "run", quick, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", f"{line}\n")
    assert not (tmp_path / "out").exists()


_RUN = "from tacit.__main__ import main; main()"


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"LC_ALL": "C"}, marks=pytest.mark.long),
        pytest.param({"LC_ALL": "C", "PYTHONUTF8": "0"}, marks=pytest.mark.long),
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        pytest.param({"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"}, marks=pytest.mark.long),
    ],
)
def test_names_with_non_ascii_letters_work_in_an_ascii_locale(
    quick: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    folder = tmp_path / "dör"
    folder.mkdir()
    rows = "".join(f"{row % 7},{row % 5},{'äß'[row % 2]}\n" for row in range(60))
    (folder / "dätä.csv").write_text(f"a,b,label\n{rows}", encoding="utf-8")
    text = quick.read_text().replace('name = "digits"', 'path = "dätä.csv"').replace("quickly", "größer")
    (folder / "häl.toml").write_text(text, encoding="utf-8")
    done = process(_RUN, "run", folder / "häl.toml", "--out", folder / "öut", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    shown = "folder    " + str(folder / "öut")
    ascii_only = "PYTHONIOENCODING" in variables
    assert (shown.encode("ascii", "replace").decode() if ascii_only else shown) in done.stdout
    assert (folder / "öut" / "labels.csv").is_file()
    again = process(_RUN, "run", folder / "öut", "--out", folder / "zwei", "--engine", "pool:1", **variables)
    assert again.returncode == 0, again.stdout + again.stderr
