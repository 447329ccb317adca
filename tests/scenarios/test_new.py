"""`tacit new`: the files that it writes are valid and commented, and run as expected."""

import os
import pty
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft7Validator
from typer.testing import CliRunner

import tacit
from tacit.parties.data.splits import named
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.command import starter
from tacit.scenarios.command.main import app
from tacit.scenarios.command.starter import FAULTS, NETWORKS, SCHEMA_FILE
from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.files.json_schema import scenario_schema
from tacit.scenarios.files.splits import split_data
from tacit.scenarios.running.prediction import Prediction, predict_run
from tests import warm

ROOT = Path(__file__).parents[2]


def new(file: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["new", str(file), *options])
    return done.exit_code, done.output


@cache
def validator() -> Draft7Validator:
    return Draft7Validator(scenario_schema())


def new_scenario(file: Path, *options: str) -> tacit.Scenario:
    """A new file that is valid."""
    code, output = new(file, *options)
    assert code == 0, output
    text = file.read_text(encoding="utf-8")
    assert text.startswith(f"#:schema ./{SCHEMA_FILE}\n") and max(map(len, text.splitlines())) <= 120
    assert [*validator().iter_errors(tomllib.loads(text))] == []
    return tacit.load(file)


def run_new_scenario(file: Path, *options: str) -> tacit.Result:
    result = tacit.run(new_scenario(file, *options), out=file.parent / file.stem, engine="inline")
    assert result.unmet == [], result.reason
    return result


def test_the_default_file_has_a_comment_for_nearly_every_key(tmp_path: Path) -> None:
    code, output = new(tmp_path / "first.toml")
    assert code == 0, output
    lines = (tmp_path / "first.toml").read_text(encoding="utf-8").splitlines()
    keys = [number for number, line in enumerate(lines) if " = " in line and not line.startswith("#")]
    assert sum(lines[number - 1].startswith("#") for number in keys) > len(keys) * 0.8
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.toml", SCHEMA_FILE]


@pytest.mark.long
def test_the_default_file_runs_and_loses_the_crashing_client(tmp_path: Path) -> None:
    """45 pairs of its ten clients compute their distances; the next test runs the file for four clients."""
    result = run_new_scenario(tmp_path / "first.toml")
    assert (result.outcome, {loss.party for loss in result.lost}) == ("completed", {"client/3"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "first.toml", SCHEMA_FILE]


COSTLY = {name for name, one in PROTOCOLS.items() if "protocol.hamming" in one.uses} - {"xclp"}
RUNNABLE = [name for name in PROTOCOLS if name not in ("flower", "centralised")]


FAMILIES = (
    "xclp",
    "fedavg",
    "fedprop",
    "scaffold",
    "dp-fedavg",
    "fedbuff",
    "fedct",
    "dp-pate",
    "local",
    "private-cells",
)


@pytest.mark.parametrize("protocol", [name for name in RUNNABLE if name not in (*FAMILIES, *COSTLY)])
def test_a_file_for_every_protocol_is_valid(tmp_path: Path, protocol: str) -> None:
    """What it expects is predicted; the long tests run it."""
    new_scenario(tmp_path / "one.toml", "--protocol", protocol, "--clients", "4", "--network", "fiber")


@pytest.mark.parametrize(
    "protocol",
    [pytest.param(name, marks=[pytest.mark.long] * (name in COSTLY or name not in FAMILIES)) for name in RUNNABLE],
)
def test_a_file_can_be_made_for_every_protocol(tmp_path: Path, protocol: str) -> None:
    result = run_new_scenario(tmp_path / "one.toml", "--protocol", protocol, "--clients", "4", "--network", "fiber")
    assert result.faults


@pytest.mark.parametrize(("protocol", "clients"), [("fedavg", 60), ("fedct", 200), ("fedavg", 300)])
def test_every_client_of_a_new_file_has_labels_to_train_on(tmp_path: Path, protocol: str, clients: int) -> None:
    file = tmp_path / "many.toml"
    code, output = new(file, "--protocol", protocol, "--clients", str(clients), "--fault", "none")
    assert code == 0, output
    scenario = tacit.load(file)
    shards = named(split_data(scenario)[1])
    assert len(shards) == clients and all(shard.labeled.any() for shard in shards.values())
    assert not any("labeled point" in line for line in cautions(scenario))


def test_a_cohort_smaller_than_asked_is_a_caution(tmp_path: Path) -> None:
    code, output = new(tmp_path / "few.toml", "--protocol", "fedavg", "--clients", "200", "--fault", "none")
    assert code == 0, output
    said = "each round calls 16 clients instead of 200: 184 of the 200 clients have no labeled point"
    assert any(line.startswith(said) for line in cautions(tacit.load(tmp_path / "few.toml", ["data.limit=240"])))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_can_be_made_for_every_kind_of_fault(tmp_path: Path, fault: str) -> None:
    result = run_new_scenario(tmp_path / "one.toml", "--protocol", "fedavg", "--clients", "5", "--fault", fault)
    assert {strike.kind for strike in result.faults} == ({fault} - {"none"})


@pytest.mark.parametrize("network", NETWORKS)
def test_a_file_can_be_made_for_every_network(tmp_path: Path, network: str) -> None:
    run_new_scenario(
        tmp_path / "one.toml", "--protocol", "fedavg", "--clients", "4", "--network", network, "--seed", "5"
    )
    assert tacit.load(tmp_path / "one.toml").seed == 5


def test_a_file_whose_fault_aborts_the_run_expects_the_abort(tmp_path: Path) -> None:
    assert run_new_scenario(tmp_path / "few.toml", "--clients", "3").outcome == "aborted"


def test_what_many_clients_are_expected_to_do_is_predicted_of_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prediction of label propagation among 700 clients would take minutes and gigabytes."""
    seen = list[int]()

    def noted(scenario: tacit.Scenario, where: str = "") -> Prediction:
        seen.append(scenario.data.clients)
        return predict_run(scenario, where)

    monkeypatch.setattr(starter, "predict_run", noted)
    code, output = new(tmp_path / "many.toml", "--clients=700", "--protocol=fedavg")
    assert code == 0, output
    scenario = tacit.load(tmp_path / "many.toml")
    assert (seen, scenario.data.clients) == ([40], 700)
    assert (scenario.expect.outcome, scenario.expect.lost_at_most) == ("completed", 1)


def test_a_file_can_use_a_protocol_of_a_plugin_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "secure_mean.py").write_bytes((ROOT / "examples" / "secure_mean.py").read_bytes())
    plugin = ("--plugin", str(tmp_path / "secure_mean.py"), "--protocol", "secure-mean")
    code, output = new(tmp_path / "mean.toml", *plugin)
    assert code == 0, output
    done = warm.run([sys.executable, "-m", "tacit", "run", "mean.toml"], cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    code, output = new(tmp_path / "elsewhere" / "mean.toml", *plugin)
    assert code == 2 and "is not in" in output


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--protocol", "xcpl"], 'error: --protocol: "xcpl" is not one of the allowed: xclp, '),
        (["--network", "5g"], 'error: --network: "5g" is not one of the allowed: default, lan, '),
        (["--fault", "crush"], "did you mean crash?"),
        (["--clients", "2", "--fault", "none"], "error: the new scenario: data.clients: 2 is too small; "),
        (["--clients", "1", "--protocol", "fedavg"], 'error: --fault: "crash" of the only client leaves nobody'),
        (["--protocol", "flower"], 'error: the new scenario: protocol.app: "" is no app'),
    ],
)
def test_incompatible_choices_are_refused_and_write_no_file(tmp_path: Path, options: list[str], problem: str) -> None:
    code, output = new(tmp_path / "one.toml", *options)
    assert code == 2 and problem in output and output.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / SCHEMA_FILE).write_text("{}")
    assert new(tmp_path / "one.toml", "--protocol", "fedavg")[0] == 0
    assert (tmp_path / SCHEMA_FILE).read_text() == "{}"
    code, output = new(tmp_path / "one.toml")
    assert code == 2 and "exists already" in output
    assert new(tmp_path / "one.yaml")[0] == 2


def test_a_schema_of_an_earlier_version_is_replaced(tmp_path: Path) -> None:
    (tmp_path / SCHEMA_FILE).write_text('{"title": "Tacit scenario"}')
    assert new(tmp_path / "one.toml", "--protocol", "fedavg")[0] == 0
    assert "definitions" in (tmp_path / SCHEMA_FILE).read_text(encoding="utf-8")


def test_on_a_terminal_missing_choices_are_asked(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tacit", "new", "asked.toml", "--network", "lan"]
    with (tmp_path / "shown").open("w+") as output:
        process = warm.Process(command, cwd=tmp_path, stdin=theirs, stdout=output, stderr=output)
        os.write(ours, b"fedavg\n6\n\n")
        code = process.wait()
    os.close(theirs), os.close(ours)
    shown = (tmp_path / "shown").read_text()
    assert code == 0, shown
    assert "Protocol (xclp, " in shown and "Clients [10]" in shown and "Network" not in shown and "[crash]" in shown
    scenario = tacit.load(tmp_path / "asked.toml")
    assert (scenario.protocol.name, scenario.data.clients, scenario.client[0].preset) == ("fedavg", 6, "lan")
    assert scenario.fault[0].kind == "crash"
