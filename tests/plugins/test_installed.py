"""Plugins in installed packages: they work in all processes, and a broken one does not stop other runs."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit import ScenarioError, load, run
from tacit.scenarios.command.main import app
from tacit.scenarios.files import plugins
from tacit.sim import plugged, registry

Write = Callable[..., Path]
Install = Callable[..., Path]

STEP = """
from tacit import ServerUpdate, add_server_update

class Half(ServerUpdate):
    def step(self, state, model, mean):
        return (model + mean) / 2, ()

add_server_update("{0}-half", "half of the way", server=Half())
"""

MEAN = (Path(__file__).parents[2] / "examples" / "secure_mean.py").read_text()

MEAN_RUN = """
seed = 1
[data]
name = "digits"
clients = 4
limit = 60
[protocol]
name = "secure-mean"
column = 20
"""


PACKAGES = ("halves", "means", "broken")


def forget() -> None:
    """Make the next command search for installed plugins again."""
    plugins._installed.cache_clear()
    plugged._left_out.clear()
    for one in registry._all:
        for name in [
            name for name, added in one._added.items() if {*Path(added.path).with_suffix("").parts} & {*PACKAGES}
        ]:
            one.remove(name)
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]


@pytest.fixture
def install(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """A function that writes a package with an entry point of its name, and returns the file of its only module."""
    site = tmp_path_factory.mktemp("site")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))

    def installed(name: str, source: str, value: str = "") -> Path:
        (site / f"{name}.py").write_text(source)
        info = site / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[tacit.plugins]\n{name} = {value or name}\n")
        return site / f"{name}.py"

    forget()
    yield installed
    monkeypatch.undo()
    forget()
    plugged.use(())


@pytest.fixture
def half(write: Write, training: str) -> Callable[[str], Path]:
    """A scenario without plugins of its own that names the update of an installed plugin."""
    return lambda name: write("", training.replace('plugins = ["mine.py"]', ""), training_update=f"{name}-half")


def tacit(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def hashes(folder: str) -> list[str]:
    return [json.loads(file.read_text())["trace_hash"] for file in sorted(Path(folder).glob("*/result.json"))]


def test_an_installed_plugin_works_in_a_pool(install: Install, half: Callable[[str], Path]) -> None:
    file = install("halves", STEP.format("installed"))
    path = half("installed")
    results = [run(load(path), engine=engine) for engine in ("inline", "pool:2")]
    assert results[0].trace_hash == results[1].trace_hash
    assert [plugin.file for plugin in results[0].plugins] == [str(file)]


def test_an_error_in_a_second_module_names_its_line(install: Install, half: Callable[[str], Path]) -> None:
    single = install("halves", "")
    package = single.with_suffix("")
    package.mkdir()
    single.rename(package / "__init__.py").write_text(STEP.format("two").replace("(model + mean) / 2, ()", "middle(0)"))
    (package / "steps.py").write_text("def middle(width):\n    return 1 / width\n")
    with (package / "__init__.py").open("a") as file:
        file.write("\nfrom halves.steps import middle\n")
    result = run(half("two"))
    assert result.outcome == "failed"
    assert result.reason.endswith(f"ZeroDivisionError: division by zero (in the plugin {package / 'steps.py'}, line 2)")


def test_an_installed_protocol_works_in_a_pool_and_in_a_sweep(
    install: Install, write: Write, capfd: pytest.CaptureFixture[str]
) -> None:
    install("means", MEAN)
    install("broken", "import nothing_of_the_kind")
    with pytest.warns(plugged.PluginWarning):
        plugins.load_plugins()
    path = write("", MEAN_RUN)
    one, other = (run(load(path), engine=engine) for engine in ("inline", "pool:2"))
    assert one.outcome == "completed" and one.equals_plaintext
    assert one.trace_hash == other.trace_hash
    swept = tacit("sweep", path, "--seeds", 2, "--jobs", 2, "--out", "sweep")
    assert swept.exit_code == 0, swept.output
    assert hashes("sweep")[0] == one.trace_hash
    assert "PluginWarning" not in capfd.readouterr().err, "a worker warns of what the command has warned of"


# --- broken ones

BROKEN = "import tacit\n" + STEP.format("broken") + "import nothing_of_the_kind\n"
LINE = BROKEN.count("\n")


def import_problem(file: Path) -> str:
    return f"{file}, line {LINE}: ModuleNotFoundError: No module named 'nothing_of_the_kind'"


def warning(file: Path) -> str:
    left_out = f"the installed plugin broken (package broken 1) is skipped: {import_problem(file)}"
    return f"WARNING  {left_out}; fix or remove this package"


def test_commands_that_do_not_need_a_broken_plugin_only_warn(install: Install, half: Callable[[str], Path]) -> None:
    file = install("broken", BROKEN)
    install("halves", STEP.format("installed"))
    done = tacit("run", half("installed"), "--out", "run")
    assert (done.exit_code, done.stderr.splitlines()) == (0, [warning(file)])
    for words in (["list"], ["steps", "fedavg"], ["keys"], ["bytes", "run"]):
        forget()
        done = tacit(*words)
        assert (done.exit_code, done.stderr.splitlines()) == (0, [warning(file)]), words


def test_an_unknown_name_is_reported_together_with_the_broken_plugin(
    install: Install, half: Callable[[str], Path]
) -> None:
    file = install("broken", BROKEN)
    done = tacit("run", half("broken"))
    assert done.exit_code == 2
    first, second = done.stderr.splitlines()
    assert first == warning(file)
    assert second.startswith("error: ") and 'training.update: "broken-half" is not one of the allowed: ' in second
    assert second.endswith(
        f"; an installed plugin that is left out may have it: broken (package broken 1): {import_problem(file)}"
    )


def test_a_missing_protocol_is_reported_before_its_keys(install: Install, write: Write) -> None:
    install("broken", MEAN.replace("add_protocol(", "add_protocols("))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(ScenarioError, match=r'protocol\.name: "secure-mean" is not known; .*NameError') as caught:
            load(write("", MEAN_RUN))
    assert caught.value.key == "protocol.name"
    assert [one.category for one in warned] == [plugged.PluginWarning]
    assert "NameError" in tacit("steps", "secure-mean").stderr


@pytest.mark.parametrize(("source", "value", "problem"), [
    ("x = (", "", "line 1: SyntaxError: '(' was never closed"),
    ("import sys\nsys.exit('bye')", "", "line 2: SystemExit: bye"),
    ("", "1 2", "entry point '1 2': names no module"),
    ("", "not_there", "not_there: ModuleNotFoundError: No module named 'not_there'"),
])  # fmt: skip
def test_a_plugin_that_cannot_be_loaded_is_reported_in_one_line(
    install: Install, write: Write, source: str, value: str, problem: str
) -> None:
    install("broken", source, value)
    done = tacit("list")
    assert done.exit_code == 0
    (line,) = done.stderr.splitlines()
    assert problem in line
