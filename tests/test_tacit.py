"""The public interface: its names, its arguments, and the effect of other modules on Python's path."""

import ast
import doctest
import inspect
import os
import pydoc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tacit
from tacit import Data, Fault, Findings, ProtocolKeys, Result, Scenario, ScenarioError, Watch, chaos, load, run, sweep
from tacit.scenarios.command.main import app
from tacit.sim.trace import Event
from tests import warm

ROOT = Path(__file__).parents[1]
QUICK = ["data.limit=120", "protocol.hamming=plaintext", "protocol.bits=32", "protocol.k=3"]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python(code: str, cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run `code` by Python in `cwd`, which is first on its path."""
    environment = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True)


# --- the names


def test_the_example_in_the_docstring_prints_its_stated_output(elsewhere: Path) -> None:
    found = doctest.testmod(tacit)
    assert found.failed == 0 and found.attempted > 3


def test_every_public_name_exists_and_is_documented() -> None:
    assert tacit.__all__ == sorted(tacit.__all__)
    for name in tacit.__all__:
        assert getattr(tacit, name).__doc__, name
    assert dir(tacit) == tacit.__all__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tacit.nothing  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="did you mean sweep"):
        _ = tacit.sweeep  # type: ignore[attr-defined]


def test_help_of_a_table_begins_with_its_summary_and_its_signature_has_defaults() -> None:
    for name in ("Training", "ProtocolKeys", "Scenario", "Client", "Fault"):
        table = getattr(tacit, name)
        first, second, *_ = pydoc.plain(pydoc.render_doc(table)).splitlines()[2:]
        assert first.startswith(f"class {table.__name__}(") and second == f" |  {inspect.getdoc(table).splitlines()[0]}"
    assert inspect.signature(tacit.Training).parameters["rounds"].default == 20


def test_a_run_can_be_predicted_counted_compared_and_reported(elsewhere: Path) -> None:
    foreseen = tacit.predict("xclp-digits", [*QUICK, "fault=[]"], seeds=2)
    results = [run(load("xclp-digits", [*QUICK, "fault=[]", f"seed={seed}"]), out=f"run-{seed}") for seed in (1, 2)]
    sent = tacit.bytes(results[0])
    assert sent.sums()["total"] == foreseen.sums()["total"] == results[0].bytes_total
    assert sent.formula and sent.sums()["formula"] == results[0].bytes_payload
    assert list(foreseen.seconds) == [1, 2] and foreseen.memory > 0
    assert sent.frame()["total"].sum() == foreseen.frame()["total"].sum() == results[0].bytes_total
    found = tacit.compare(results[0], "run-2")
    assert found.keys["seed"] == (1, 2) and found.first_difference is not None
    page = tacit.report(results[0])
    assert page == Path("run-1") / "report.html" and "<html" in page.read_text()
    assert tacit.report(results, out="both.html") == Path("both.html")
    for wrong in (tacit.bytes, tacit.report):
        with pytest.raises(TypeError, match="run is 3"):
            wrong(3)
    with pytest.raises(ValueError, match=r"nowhere: no"):
        tacit.bytes("nowhere")


def test_keys_and_steps_are_listed() -> None:
    assert {key.name for key in tacit.keys("network.lat")} == {"network.latency"}
    with pytest.raises(ScenarioError, match="did you mean"):
        tacit.keys("netwrok")
    names = [step.name for step in tacit.steps("fedavg")]
    assert "train.update" in names
    assert tacit.steps("fedavg") == tacit.steps(load("fedavg-xclp-digits", ["protocol.name=fedavg"]))
    with pytest.raises(ScenarioError, match="neither a protocol"):
        tacit.steps("fedavgg")


def test_a_sweep_can_be_read_as_a_table(elsewhere: Path) -> None:
    swept = sweep("xclp-digits", {"protocol.k": [3, 5]}, changes=QUICK, seeds=2, out="swept")
    table = swept.frame()
    assert list(table["protocol.k"]) == [3, 3, 5, 5] and list(table["seed"]) == [1, 2, 1, 2]
    assert list(table["trace_hash"]) == [result.trace_hash for _, result in swept]


def test_type_checkers_see_the_origin_of_every_public_name() -> None:
    tree = ast.parse((ROOT / "tacit" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {name: tacit._PLACES.get(name, f"tacit.scenarios.schema.scenario.{name}") for name in tacit.__all__}


def test_every_table_of_a_scenario_has_a_public_struct() -> None:
    structs = {type(getattr(Scenario(), name)) for name in Scenario.__struct_fields__ if name != "fault"}
    public = {getattr(tacit, name) for name in tacit.__all__}
    assert {kind for kind in structs if hasattr(kind, "__struct_fields__")} <= public


def test_importing_tacit_imports_no_submodule(tmp_path: Path) -> None:
    code = "import sys, tacit; print([name for name in sys.modules if name.startswith(('tacit.', 'numpy'))])"
    assert python(code, tmp_path).stdout == "[]\n"


def test_the_package_scenarios_defines_no_names() -> None:
    assert ast.parse((ROOT / "scenarios" / "__init__.py").read_text(encoding="utf-8")).body[1:] == []


# --- arguments


def test_a_run_takes_a_name_or_a_path_and_makes_the_folder_that_a_text_names(elsewhere: Path) -> None:
    scenario = load("xclp-digits", QUICK)
    first = run(scenario, out="first")
    assert first.folder == Path("first") and first.outcome == "completed"
    again = run("first", out=elsewhere / "again", engine="inline")
    assert again.trace_hash == first.trace_hash
    text = Path("first/scenario.toml").read_text()
    Path("mine.toml").write_text(text.replace(f'name = "{first.scenario}"\n', ""))
    assert run(Path("mine.toml")).folder == Path("runs/mine-1-1")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: run(3), r"scenario is 3, of type int; allowed: a Scenario, or a name or path as str or Path"),
        (lambda: run(Scenario(), out=3), "out is 3, of type int; allowed: the folder to make, as str or Path, or None"),
        (
            lambda: run(Scenario(), engine=2),
            'engine is 2, of type int; allowed: "auto", "inline", "pool:N", "ray:HOST:PORT" or None',
        ),
        (
            lambda: run(Scenario(), watch=print),
            "watch is <built-in function print>, of type builtin_function_or_method",
        ),
        (lambda: load("xclp-digits", "data.limit=240"), "changes is 'data.limit=240', of type str; allowed: a list of"),
        (lambda: load("xclp-digits", [1]), r"changes\[0\] is 1, of type int; allowed: a list of texts"),
        (lambda: load("xclp-digits", seed="1"), "seed is '1', of type str; allowed: a whole number or None"),
        (lambda: sweep(None), "scenario is None, of type NoneType; allowed"),
        (lambda: sweep(Scenario(), ["protocol.k=3"]), r"over is \['protocol.k=3'\], of type list; allowed: lists of"),
        (lambda: sweep(Scenario(), {"protocol.k": 3}), r"over\['protocol.k'\] is 3, of type int; allowed: lists of"),
        (lambda: sweep(Scenario(), {"protocol.k": "3,4"}), r"over\['protocol.k'\] is '3,4', of type str; allowed"),
        (lambda: sweep(Scenario(), {"protocol.k": [object]}), "over has the value <class 'object'>, of type type"),
        (lambda: sweep(Scenario(), jobs=1.5), "jobs is 1.5, of type float; allowed: a whole number from 1"),
        (lambda: chaos(Scenario(), schedules="5"), "schedules is '5', of type str; allowed: a whole number from 0"),
        (lambda: chaos(["xclp-digits"]), r"scenario is \['xclp-digits'\], of type list; allowed"),
    ],
)
def test_a_value_of_another_type_is_an_error_in_one_line(elsewhere: Path, call, line: str) -> None:
    with pytest.raises(TypeError, match=f"^{line}") as raised:
        call()
    assert "\n" not in str(raised.value)
    assert os.listdir() == []


def test_an_invalid_run_or_sweep_is_refused_before_a_folder_is_made(elsewhere: Path) -> None:
    with pytest.raises(ScenarioError, match=r"no such scenario; did you mean xclp-digits"):
        run("xclp-digit")
    with pytest.raises(ScenarioError, match=r"^scenario: protocol.k: "):
        run(Scenario(data=Data(limit=120), protocol=ProtocolKeys(k=500)))
    with pytest.raises(ScenarioError, match=r"protocol.kk: there is no such key; did you mean protocol.k"):
        sweep(Scenario(), {"protocol.kk": [1]})
    with pytest.raises(ValueError, match=r"^jobs is 0; allowed: a whole number from 1$"):
        sweep(Scenario(), jobs=0)
    assert os.listdir() == []


def test_a_scenario_made_in_python_can_be_changed(elsewhere: Path) -> None:
    scenario = Scenario(title="Mine", data=Data(limit=120), protocol=ProtocolKeys(hamming="plaintext"))
    changed = load(scenario, ["protocol.k=4", "title='Yours'"], seed=9)
    assert (changed.protocol.k, changed.title, changed.seed, changed.data.limit) == (4, "Yours", 9, 120)
    with pytest.raises(ScenarioError, match=r"^changes: protocol.k: "):
        load(scenario, ["protocol.k=0"])


# --- many runs


def small() -> Scenario:
    return Scenario(
        title="Two of a few",
        data=Data(clients=4, limit=120),
        protocol=ProtocolKeys(hamming="plaintext", bits=32, k=3),
        fault=(Fault(party="client/2", at="rowsums.mask"),),
    )


def test_a_sweep_returns_each_run_with_its_values_and_writes_the_commands_files(elsewhere: Path) -> None:
    seen: list[tuple[int, int]] = []
    over = {"protocol.k": [2, 4], "network.latency": ["1ms"]}
    swept = sweep(small(), over, seeds=2, changes=["fault=[]"], watch=lambda done, of, result: seen.append((done, of)))
    assert [values for values, _ in swept] == [{"protocol.k": k, "network.latency": "1ms"} for k in (2, 2, 4, 4)]
    assert [result.seed for _, result in swept] == [0, 1, 0, 1]
    assert all(isinstance(result, Result) and result.outcome == "completed" for _, result in swept)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    folder = Path("runs/two-of-a-few-sweep-1")
    assert swept[3][1].folder == folder / "003-protocol.k=4-network.latency=1ms-seed=1"
    direct = run(load(small(), ["protocol.k=4", "network.latency=1ms", "fault=[]"], seed=1))
    assert direct.trace_hash == swept[3][1].trace_hash
    assert len((folder / "sweep.csv").read_text().splitlines()) == 5


def test_a_sweep_without_values_runs_each_seed(elsewhere: Path) -> None:
    assert [(values, result.seed) for values, result in sweep(small(), seeds=2)] == [({}, 0), ({}, 1)]


def test_the_command_resumes_an_interrupted_sweep_of_python(elsewhere: Path) -> None:
    def press(done: int, of: int, result: Result) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(small(), {"protocol.k": [2, 4]}, out="swept", watch=press)
    assert len(Path("swept/sweep.csv").read_text().splitlines()) == 2
    command = [sys.executable, "-m", "tacit", "sweep", "--resume", "swept"]
    done = warm.run(command, cwd=elsewhere)
    assert done.returncode == 0, done.stderr
    assert "1 of 2 runs has ended before" in done.stderr
    assert len(Path("swept/sweep.csv").read_text().splitlines()) == 3


def test_chaos_ignores_the_faults_of_the_scenario_and_returns_its_findings(elsewhere: Path) -> None:
    found = chaos(small(), schedules=2, singles=False, out="chaos")
    assert isinstance(found, Findings)
    assert (len(found.verdicts), found.broken, found.failures) == (3, 0, [])
    assert found.verdicts[0].faults == ()
    assert Path("chaos/chaos.json").is_file()


def test_a_watch_sees_every_event(elsewhere: Path) -> None:
    class Counting(Watch):
        def __init__(self) -> None:
            self.kinds = set[str]()

        def __call__(self, event: Event) -> None:
            self.kinds.add(event.kind)

    counting = Counting()
    run(small(), watch=counting)
    assert {"send", "deliver", "enter", "leave"} <= counting.kinds


# --- other modules on the path

RUN = """
import tacit
keys = tacit.ProtocolKeys(hamming="plaintext", bits=32, k=3)
result = tacit.run(tacit.Scenario(data=tacit.Data(clients=3, limit=90), protocol=keys), out="out")
print(result.outcome)
"""


def test_a_project_may_have_packages_of_any_name(tmp_path: Path) -> None:
    for name in ("sim", "parties", "protocols", "scenarios", "benchmarks", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the project was imported')\n")
    done = python(RUN, tmp_path)
    assert (done.returncode, done.stdout) == (0, "completed\n"), done.stderr


def test_another_projects_package_named_tacit_is_reported_in_one_line(tmp_path: Path) -> None:
    about = tmp_path / "tacit-0.3.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tacit\nVersion: 0.3.0\n")
    (about / "RECORD").write_text("tacit/__init__.py,,\n")
    command = [sys.executable, "-m", "tacit", "list"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = warm.run(command, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: tacit 0.3.0, another project's package, is installed over this one (tacit-fl): pip")


def test_a_cell_of_a_notebook_can_be_run_twice(elsewhere: Path) -> None:
    scenario = load("xclp-digits", QUICK)
    first = run(scenario, out="x")
    (first.folder / "report.html").write_text("of the first run")
    with pytest.raises(FileExistsError):
        run(scenario, out="x")
    second = run(scenario, out="x", overwrite=True)
    assert (second.folder, second.trace_hash) == (first.folder, first.trace_hash)
    assert not (second.folder / "report.html").exists()
    assert run(scenario, out="y", overwrite=True).folder == Path("y")  # no folder exists there


def test_overwrite_removes_only_the_folder_of_a_run(elsewhere: Path) -> None:
    scenario = load("xclp-digits", QUICK)
    (elsewhere / "thesis").mkdir()
    (elsewhere / "file").write_text("mine")
    run(scenario, out="x")
    (elsewhere / "link").symlink_to("x")
    (elsewhere / "x" / "notes.txt").write_text("mine")
    before = sorted(elsewhere.rglob("*"))
    for name, problem in (
        ("thesis", "it has no scenario.toml"),
        ("file", "it is no folder"),
        ("link", "it is no folder"),
        ("x", "notes.txt is no file of a run"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: {problem}.*overwrite replaces only"):
            run(scenario, out=name, overwrite=True)
    with pytest.raises(ScenarioError):
        run("xclp-digits", out="x", overwrite=True, engine="none")
    assert sorted(elsewhere.rglob("*")) == before


def test_a_misspelt_key_of_a_table_is_an_error_that_names_the_table_and_the_key() -> None:
    with pytest.raises(TypeError, match=r"^ProtocolKeys has no key 'hammin'; did you mean hamming[?]$"):
        ProtocolKeys(hammin="plaintext")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Fault has no key 'prty'; did you mean party[?]$"):
        Fault(prty="client/1")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda: load("xclp-digits", ["protocol.kk=1"]),
            r"changes: protocol.kk: there is no such key; did you mean pr",
        ),
        (
            lambda: load("xclp-digits", ["protocol.k"]),
            'changes "protocol.k": allowed: key=value, such as protocol.k=5$',
        ),
        (
            lambda: load("xclp-digits", ["fault.x=1"]),
            r"changes: fault.x: is no field .*, as a list: 'fault=\[{...}\]'$",
        ),
        (lambda: load("xclp-digits", seed=-1), "seed: -1 is too small"),
        (
            lambda: load("xclp-digits", ["plugins=['x.py']"]),
            "changes: plugins: .* no change takes in; .* in a Scenario$",
        ),
        (lambda: run("xclp-digits", engine="warp"), 'engine: "warp" is not an engine'),
        (
            lambda: sweep("xclp-digits", {"protocol.kk": [1, 2]}),
            "over: protocol.kk: there is no such key; did you mean",
        ),
        (
            lambda: sweep("xclp-digits", {"protocol.k": [3, 3]}),
            r'over\["protocol.k"\]: 3 is given twice; .* are seeds$',
        ),
        (lambda: sweep("xclp-digits", {"protocol.k": []}), r'over\["protocol.k"\]: no value; allowed: one or more'),
        (lambda: sweep("xclp-digits", jobs="rya"), "jobs: 'rya' is not known; allowed: a number >= 1, ray"),
        (lambda: chaos("xclp-digits", changes=["fault=[]"]), "changes: fault: chaos brings its own faults$"),
        (lambda: tacit.predict("xclp-digits", ["protocol.kk=1"]), "changes: protocol.kk: .*; did you mean protocol.k?"),
        (lambda: tacit.keys("zzzz"), r"zzzz: no key begins so; `tacit.keys\(\)` lists all$"),
        (lambda: tacit.compare(3, 4), "run is 3, of type int; allowed: a Result, or a run's folder"),
    ],
)
def test_errors_name_arguments_as_python_does(elsewhere: Path, call: Callable[[], object], line: str) -> None:
    with pytest.raises((ScenarioError, TypeError), match=f"^{line}") as caught:
        call()
    assert "--" not in str(caught.value)


def test_errors_of_commands_name_options() -> None:
    result = CliRunner().invoke(app, ["sweep", "xclp-digits", "--over", "protocol.k=3,3"])
    assert result.stderr == ("error: --over protocol.k=3,3: 3 is given twice; more runs of one value are --seeds\n")
    with pytest.raises(ScenarioError, match=r"^changes: "):
        load("xclp-digits", ["protocol.kk=1"])  # in the same process
