"""Inspecting the folder of another person's run runs no code from it."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.earlier import without_digests

EXAMPLES = Path(__file__).parents[2] / "examples"

MARK = """
from pathlib import Path
(Path(__file__).parent / "imported").touch()
"""

LOOK = """
import json, sys
from pathlib import Path
from typer.testing import CliRunner
from tacit.scenarios.command.main import app
found = []
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, words)
    found.append((done.exit_code, done.output))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose protocol is a plugin in it, which writes a file when it is imported."""
    made = tmp_path_factory.mktemp("somebody")
    for name in ("secure_mean.py", "secure_mean.toml"):
        shutil.copy(EXAMPLES / name, made)
    with (made / "secure_mean.py").open("a") as file:
        file.write(MARK)
    command = [sys.executable, "-m", "tacit", "run", "secure_mean.toml", "--set", "fault=[]", "--set", "expect={}"]
    warm.run([*command, "--out", "run"], cwd=made, check=True)
    assert (made / "imported").exists()
    return made / "run"


def run_commands(folder: Path, *commands: list[str]) -> list[tuple[int, str]]:
    """The exit codes and outputs of commands, in a process that has not imported the plugin before."""
    done = warm.run([sys.executable, "-c", LOOK, json.dumps(commands)], cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return [(code, " ".join(output.split())) for code, output in json.loads(done.stdout)]


def mark(folder: Path) -> Path:
    return folder / "plugins" / "imported"


SHOWN = [["bytes", "run"], ["events", "run"], ["compare", "run", "run"], ["report", "run"], ["plot", "run"]]
ASKED = [
    ["steps", "run"],
    ["keys", "run"],
    ["predict", "run"],
    ["predict", "run/scenario.toml"],
    ["audit-sum", "run"],
    ["audit-sum", "run/scenario.toml"],
    ["certify", "run"],
    ["gather", "run"],
]
WITHHELD = "plugins/secure_mean.py is code in the folder of the run, and is not run to look at it; read it, and add"


def test_commands_that_show_a_run_import_no_plugin(folder: Path) -> None:
    mark(folder).unlink(missing_ok=True)
    *shown, (code, _) = run_commands(folder, *SHOWN, ["trace", "run", "--perfetto", "new.pftrace"])
    assert code in (0, 2)  # code 2 if an extra package is missing
    assert not mark(folder).exists()
    for words, (code, output) in zip(SHOWN, shown, strict=False):
        assert (code == 0) == (words[0] != "plot"), output  # the run has no rounds to plot
        assert (WITHHELD in output) == (words[0] == "report"), output
    for code, output in run_commands(folder, *ASKED):
        assert code == 2 and WITHHELD in output, output
    assert not mark(folder).exists()


def test_the_formula_of_an_older_run_with_a_plugin_is_withheld_without_trust(folder: Path, tmp_path: Path) -> None:
    earlier = without_digests(Path(shutil.copytree(folder, tmp_path / "run")))
    mark(earlier).unlink(missing_ok=True)
    ((code, output),) = run_commands(earlier, ["bytes", "run"])
    assert code == 0 and WITHHELD in output and not mark(earlier).exists()
    code = "import tacit; print(bool(tacit.bytes('run').formula)); print(bool(tacit.bytes('run', trust=True).formula))"
    done = warm.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert done.stdout.split() == ["False", "True"] and mark(earlier).exists()


def test_with_trust_the_plugin_is_imported_and_the_formula_is_shown(folder: Path) -> None:
    mark(folder).unlink(missing_ok=True)
    (code, output), *others = run_commands(folder, *([*words, "--trust"] for words in (["bytes", "run"], *ASKED[:2])))
    assert code == 0 and WITHHELD not in output and "formula" in output
    assert all(code == 0 for code, _ in others), others
    assert mark(folder).exists()


def test_bytes_in_python_imports_no_plugin(folder: Path) -> None:
    mark(folder).unlink(missing_ok=True)
    code = "import tacit; print(bool(tacit.bytes('run').formula))"
    done = warm.run([sys.executable, "-c", code], cwd=folder.parent, check=True)
    assert done.stdout.split() == ["True"] and not mark(folder).exists()


APP = """
from flwr.client import ClientApp
from flwr.server import ServerApp
from pathlib import Path
(Path(__file__).parents[1] / "imported").touch()
client, server = ClientApp(), ServerApp()
"""


@pytest.mark.parametrize("words", (["predict", "run"], ["audit-sum", "run"], ["audit-sum", "run/app"]))
def test_the_app_of_a_run_is_not_imported_without_trust(tmp_path: Path, words: list[str]) -> None:
    pytest.importorskip("flwr")
    app = tmp_path / "run" / "app"
    (app / "theirs").mkdir(parents=True)
    (app / "theirs" / "code.py").write_text(APP)
    (app / "pyproject.toml").write_text(
        '[project]\nname = "theirs"\nversion = "1.0"\n[tool.flwr.app.components]\n'
        'serverapp = "theirs.code:server"\nclientapp = "theirs.code:client"\n'
    )
    (tmp_path / "run" / "scenario.toml").write_text('[protocol]\nname = "flower"\napp = "app"\n')
    (tmp_path / "run" / "result.json").write_text("{}")
    ((code, output),) = run_commands(tmp_path / "run", words)
    assert code == 2 and "app is code in the folder of the run, and is not run to look at it; read it" in output
    assert not (app / "imported").exists()
