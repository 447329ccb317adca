"""The allowed places of plugins, the errors of broken ones, and their copies in a run's folder."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit import Scenario, ScenarioError, load, run
from tacit.scenarios.command.main import app
from tacit.scenarios.running.workers import in_workers
from tacit.sim import plugged
from tacit.sim.plugged import PluginError

Write = Callable[..., Path]

STEP = """
from tacit.protocols.plugins import ServerUpdate, add_server_update

class Half(ServerUpdate):
    def step(self, state, model, mean):
        return (model + mean) / 2, ()

add_server_update("half", "half of the way", server=Half())
"""

BROKEN_STEP = """
from tacit.protocols.plugins import ServerUpdate, add_server_update

class Half(ServerUpdate):
    vectors = 1e9  # long enough to be done by a worker

    def step(self, state, model, mean):
        return (model + nean) / 2, ()

add_server_update("half", "half of the way", server=Half())
"""


def tacit(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    """The only line that the command prints."""
    result = tacit(*arguments)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line.removeprefix("error: ")


def with_halved_updates(write: Write, training: str, plugin: str = STEP) -> Path:
    return write(plugin, training, training_update="half")


# --- allowed places


def test_a_scenario_loads_plugins_from_its_folder_or_below(write: Write, training: str) -> None:
    path = with_halved_updates(write, training)
    below = path.parent / "of" / "mine"
    below.mkdir(parents=True)
    shutil.move("mine.py", below / "mine.py")
    path.write_text(path.read_text().replace('"mine.py"', '"of/mine/mine.py"'))
    assert load(path).plugins[0].startswith(f"{below}/mine.py#sha256=")


@pytest.mark.parametrize("how", ["../outside.py", "{outside}", "link.py"])
def test_a_scenario_loads_no_plugin_from_outside_its_folder(
    write: Write, training: str, tmp_path_factory: pytest.TempPathFactory, how: str
) -> None:
    path = with_halved_updates(write, training)
    outside = tmp_path_factory.mktemp("other") / "outside.py"
    outside.write_text("raise SystemExit('it was run')")
    shutil.copy(outside, path.parent.parent / "outside.py")
    (path.parent / "link.py").symlink_to(outside)
    path.write_text(path.read_text().replace("mine.py", how.format(outside=outside)))
    line = refused("run", path)
    assert line.startswith(f"{path}: plugins: ")
    assert "is outside the scenario file's folder, and a plugin is code; allowed: a file there or below, or" in line


@pytest.mark.parametrize("arguments", [("run", "--set", "plugins=['x.py']"), ("sweep", "--over", "plugins=x.py,y.py")])
def test_the_option_set_loads_no_plugin(write: Write, training: str, arguments: tuple[str, ...]) -> None:
    path = with_halved_updates(write, training)
    option = arguments[1]
    problem = "a plugin is code, which no --set takes in; allowed: plugins = [...] in the file, or --plugin FILE"
    assert refused(arguments[0], path, *arguments[1:]) == f"{option}: plugins: {problem}"


def test_no_cell_of_a_table_loads_a_plugin(write: Write, training: str) -> None:
    table = '[[table.row]]\nlabel = "a"\nset = { plugins = ["x.py"] }\n[[table.column]]\nlabel = "b"\n'
    line = refused("sweep", write(STEP, training + table))
    assert 'table.row.0.set: "plugins" is no key of a scenario' in line


@pytest.mark.parametrize(
    ("plugins", "problem"),
    [
        ('"mine.py"', "plugins: not a list of texts; allowed: a list of files"),
        ("[3]", "plugins: not a list of texts; allowed: a list of files"),
        ('["nine.py"]', 'plugins: "nine.py": there is no such Python file in '),
        ('["mine.toml"]', 'plugins: "mine.toml": there is no such Python file in '),
        ('["mine.py#sha256=12"]', "plugins: 'mine.py#sha256=12': a SHA-256 has 64 hexadecimal digits"),
    ],
)
def test_a_file_that_is_no_plugin_is_refused(write: Write, training: str, plugins: str, problem: str) -> None:
    path = with_halved_updates(write, training)
    path.write_text(path.read_text().replace('["mine.py"]', plugins))
    assert refused("run", path).startswith(f"{path}: {problem}")


def test_the_option_loads_a_plugin_from_any_folder(
    write: Write, training: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write("", training.replace('plugins = ["mine.py"]', ""), training_update="half")
    own = tmp_path_factory.mktemp("other") / "own.py"
    own.write_text(STEP)
    assert 'training.update: "half" is not one of the allowed' in refused("run", path)
    assert refused("run", path, "--plugin", "none.py").endswith("none.py: there is no such file")
    assert tacit("run", path, "--plugin", own, "--out", "run").exit_code == 0
    assert tacit("run", "run", "--out", "again").exit_code == 0, "the copy is enough"
    digests = {json.loads(Path(name, "result.json").read_text())["trace_hash"] for name in ("run", "again")}
    assert len(digests) == 1


def test_a_scenario_made_in_python_takes_any_file(write: Write, training: str) -> None:
    path = with_halved_updates(write, training)
    loaded = load(path)
    assert (
        run(loaded).trace_hash == run(Scenario(**{f: getattr(loaded, f) for f in loaded.__struct_fields__})).trace_hash
    )


# --- broken ones


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        ("x = 1\ny = (", "line 2: SyntaxError: '(' was never closed"),
        ("import nothing_of_the_kind", "line 1: ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
        ("def f():\n    return 1 / 0\n\nf()", "line 2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit('bye')", "line 2: SystemExit: bye"),
        ("raise ValueError('two\\nlines')", "line 1: ValueError: two lines"),
    ],
)
def test_a_broken_plugin_is_reported_in_one_line(write: Write, training: str, plugin: str, problem: str) -> None:
    path = write(plugin, training)
    assert refused("run", path) == f"{path.parent}/mine.py: {problem}"
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert caught.value.__cause__ is not None, "--debug shows it"
    assert tacit("run", path, "--debug").exit_code == 1


def test_two_plugins_that_add_one_name_are_refused(write: Write, training: str) -> None:
    path = with_halved_updates(write, training)
    Path("other.py").write_text(f"\n{STEP}")
    path.write_text(path.read_text().replace('["mine.py"]', '["mine.py", "other.py"]'))
    problem = f"there is a server update 'half' already, in line 8 of {path.parent}/mine.py; choose another name"
    assert refused("run", path) == f"{path.parent}/other.py: line 9: {problem}"


def test_an_error_before_the_run_names_the_plugin(write: Write, training: str) -> None:
    plugin = (
        "from tacit.protocols.plugins import *\n\n"
        "def build(spec):\n    return spec.shapes\n\nadd_model('m', 'd', build)\n"
    )
    path = write(plugin, training.replace('"linear"', '"m"'))
    assert refused("run", path).startswith(f"{path.parent}/mine.py: line 4: AttributeError: 'ModelSpec' object has no")


@pytest.mark.parametrize("engine", ["inline", "pool:2"])
def test_an_error_inside_the_run_names_the_plugin(write: Write, training: str, engine: str) -> None:
    path = with_halved_updates(write, training, BROKEN_STEP)
    result = run(load(path), engine=engine)
    assert result.outcome == "failed"
    assert result.reason == f"NameError: name 'nean' is not defined (in the plugin {path.parent}/mine.py, line 8)"


@pytest.mark.parametrize("end", ["sys.exit(3)", "raise ValueError(chr(0xdc80))"])
def test_a_run_that_a_plugin_ends_leaves_a_complete_folder(write: Write, training: str, end: str) -> None:
    path = with_halved_updates(write, training, f"import sys\n{STEP}".replace("return", f"{end}\n        return"))
    result = run(load(path))
    assert result.outcome == "failed" and result.reason.endswith(f" (in the plugin {path.parent}/mine.py, line 7)")
    assert (result.folder / "result.json").is_file() and (result.folder / "failure.txt").is_file()


# --- copies


def test_a_run_folder_holds_its_plugin(write: Write, training: str) -> None:
    path = with_halved_updates(write, training)
    result = run(load(path))
    content = Path("mine.py").read_bytes()
    (kept,) = result.plugins
    assert (kept.file, kept.sha256) == ("plugins/mine.py", hashlib.sha256(content).hexdigest())
    assert (result.folder / kept.file).read_bytes() == content
    Path("mine.py").unlink()
    assert run(load(result.folder)).trace_hash == result.trace_hash


def test_an_edited_plugin_is_used_at_the_next_load(write: Write, training: str) -> None:
    path = with_halved_updates(write, training)
    first = run(load(path))
    Path("mine.py").write_text(STEP.replace("/ 2", "/ 3"))
    second = run(load(path))
    assert first.model_digest != second.model_digest
    Path("mine.py").write_text(f"# a remark\n{STEP}")
    assert run(load(path)).trace_hash == first.trace_hash


def interrupt_run(path: Path) -> None:
    from tacit.scenarios.running.runner import Watch
    from tacit.sim.trace import Event

    class Interrupter(Watch):
        left = 120

        def __call__(self, event: Event) -> None:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(load(path, ["training.rounds=6", "training.checkpoint_every=1"]), out=Path("run"), watch=Interrupter())


def test_a_resumed_run_uses_only_its_copy_of_the_plugin(write: Write, training: str) -> None:
    path = with_halved_updates(write, training.replace('"linear"', '"linear"'))
    whole = run(load(path, ["training.rounds=6", "training.checkpoint_every=1"]))
    interrupt_run(path)
    assert Path("run/checkpoint").is_file()
    copy = Path("run/plugins/mine.py")
    content = copy.read_text()
    copy.write_text(content.replace("/ 2", "/ 3"))
    line = refused("run", "--resume", "run")
    assert line.startswith("run/plugins/mine.py: changed since the run ended: ")
    copy.write_text(content)
    assert tacit("run", "--resume", "run").exit_code == 0
    assert json.loads(Path("run/result.json").read_text())["trace_hash"] == whole.trace_hash


@pytest.mark.long
def test_a_plugin_works_in_the_workers_of_a_sweep(write: Write, training: str) -> None:
    path = with_halved_updates(write, training)
    swept = tacit("sweep", path, "--seeds", 2, "--jobs", 2, "--out", "sweep")
    assert swept.exit_code == 0, swept.output
    results = [json.loads(file.read_text()) for file in sorted(Path("sweep").glob("*/result.json"))]
    assert [one["outcome"] for one in results] == ["completed", "completed"]
    assert results[0]["trace_hash"] == run(load(path)).trace_hash
    assert results[0]["plugins"] == results[1]["plugins"]
    assert tacit("sweep", "--resume", "sweep", "--jobs", 2).exit_code == 0


@pytest.mark.long
def test_a_plugin_works_in_the_workers_of_chaos(write: Write, training: str) -> None:
    path = with_halved_updates(write, training)
    chaos = tacit(
        "chaos", path, "--quick", "--schedules", 2, "--jobs", 2, "--set", "training.rounds=1", "--out", "chaos"
    )
    assert chaos.exit_code == 0, chaos.output
    verdicts = json.loads(Path("chaos/chaos.json").read_text())["runs"]
    assert {one["outcome"] for one in verdicts} <= {"completed", "aborted"}


def test_a_deleted_plugin_stops_only_the_workers_that_use_the_plugin(write: Write, training: str) -> None:
    path = with_halved_updates(write, training)
    load(path)
    path.with_suffix(".py").unlink()
    ((_, scenario),) = in_workers(1, load, [("xclp-digits",)])
    assert scenario == load("xclp-digits")
    load(with_halved_updates(write, training))
    path.with_suffix(".py").unlink()
    with pytest.raises(PluginError, match=r"mine.*FileNotFoundError"):
        list(in_workers(1, plugged.active, [()]))


def test_no_bytecode_is_written_beside_a_plugin(write: Write, training: str) -> None:
    path = with_halved_updates(write, training)
    load(path)
    assert sorted(file.name for file in path.parent.iterdir()) == ["mine.py", "mine.toml"]


def test_the_title_of_a_plugin_omits_the_digest_in_its_module_name() -> None:
    assert plugged.title("tacit.sim.plugged.my_model_0123456789ab") == "my_model"
    assert plugged.title("tacit.protocols.xclp.hamming") == "hamming"


def test_a_plugin_of_an_older_run_imports_modules_by_their_former_names(write: Write, training: str) -> None:
    path = with_halved_updates(write, training)
    expected = run(load(path)).trace_hash
    content = (
        Path("mine.py").read_text().replace("from tacit.protocols.plugins import", "from protocols.plugins import")
    )
    moved = "from protocols import dealing, setup\nfrom protocols.secure_sum import SecureSum\n"
    Path("mine.py").write_text(f"{moved}from sim.units import duration\n\n{content}")
    assert "from protocols." in content
    assert run(load(path)).trace_hash == expected
