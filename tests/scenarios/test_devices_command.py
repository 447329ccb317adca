"""The command `tacit devices`, and runs, predictions and tables of the devices that it writes."""

import json
import pickle
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit import load, predict
from tacit.scenarios.command.main import app
from tacit.scenarios.reporting.parties import party_tables
from tacit.scenarios.running.outlook import survival_cautions
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.running.simulation import Simulation

SCENARIO = """
seed = 4
[data]
name = "digits"
limit = 120
clients = 12
[protocol]
name = "fedavg"
deadline = "20s"
[model]
name = "linear"
[training]
rounds = 2
epochs = 1
[[client]]
file = "devices.csv"
availability = "availability.csv"
"""


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """Small synthetic files in the formats of FedScale."""
    capacities = {n: {"computation": 10.0 * (1 + n % 9), "communication": 4000.0 + 100 * n} for n in range(40)}
    behaviour = {
        n: {"active": [0, 500], "inactive": [3 + 30 * (n % 2), 900], "finish_time": 1000, "model": "x", "duration": 1}
        for n in range(6)
    }
    (tmp_path / "capacity").write_bytes(pickle.dumps(capacities))
    (tmp_path / "behave").write_bytes(pickle.dumps(behaviour))
    return tmp_path


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    return done.exit_code, done.output


def test_a_scenario_runs_on_converted_devices(copies: Path) -> None:
    code, output = run("devices", "fedscale", copies / "capacity", copies / "behave", "--out", copies / "phones")
    assert code == 0 and "40 lines of 40 devices" in output and "6 of 6 traces" in output
    assert output.rstrip().endswith('[[client]]\nfile = "devices.csv"\navailability = "availability.csv"')
    file = copies / "phones" / "own.toml"
    file.write_text(SCENARIO)
    scenario = load(file)
    simulation = Simulation(scenario, engine="inline")
    try:
        found = simulation.run()
        assert found.outcome == "completed"
        assert predict_run(scenario).virtual_seconds == pytest.approx(simulation.now, rel=1e-9)
    finally:
        simulation.close()
    drawn = next(one for one in party_tables(scenario) if one.title == "drawn devices")
    assert [row[0] for row in drawn.rows] == ["fast", "middle", "slow"]
    assert sum(int(row[1]) for row in drawn.rows) == 12 and all(row[1] == row[-1] for row in drawn.rows)
    code, output = run("predict", file, "--seeds", 1)
    assert code == 0 and "drawn devices" in output and "middle" in output
    code, output = run("predict", file, "--runs", 3, "--html", copies / "page.html")
    assert code == 0 and "drawn devices with seed 4; other seeds draw others" in output and "middle" in output
    assert "drawn devices with seed 4" in (copies / "page.html").read_text()
    code, output = run("keys", file)
    assert code == 0 and "drawn devices" in output


TRACES = Path(__file__).parents[2] / "examples" / "traces"


@pytest.mark.usefixtures("whole_outlook")
def test_the_example_equals_its_converted_sample_and_completes_in_some_runs(tmp_path: Path) -> None:
    sample = (TRACES / "state_traces.json", TRACES / "speed_distri.json")
    code, output = run("devices", "flash", *sample, "--start", "646h", "--length", "8h", "--out", tmp_path)
    assert code == 0 and "messages      2020-01-28 07:36:00 to 2020-01-31 07:32:00; --start 632h" in output
    for name in ("devices.csv", "availability.csv"):
        assert (tmp_path / name).read_text() == (TRACES / name).read_text()
    found = predict(TRACES / "phones.toml", runs=12)
    assert 0 < found.completed < 12
    assert {"setup.keys", "train.enroll"} <= {step for step, _, _ in found.steps()}
    early = predict(TRACES / "phones.toml", ["training.min_clients=14"], runs=3)
    assert early.completed == 0
    (line,) = survival_cautions(load(TRACES / "phones.toml", ["training.min_clients=14"]))
    assert line.startswith("client.0.availability = ")


def test_unreadable_phones_are_counted(tmp_path: Path) -> None:
    table = json.loads((TRACES / "state_traces.json").read_text())
    table["3"]["messages"] += "\n2020-01-31"
    (tmp_path / "states.json").write_text(json.dumps(table))
    code, output = run("devices", "flash", tmp_path / "states.json", "--out", tmp_path / "phones")
    assert code == 0 and "15 of 15 traces" in output
    assert "left out      1 phones that FLASH cannot read; the first: " in output and "device 3: line" in output


def test_tiles_of_ookla_and_phones_of_flash_are_converted(tmp_path: Path) -> None:
    tiles = tmp_path / "tiles.csv"
    tiles.write_text("quadkey,avg_d_kbps,avg_u_kbps,avg_lat_ms,devices\n02,8000,800,40,3\n12,900,90,300,1\n")
    assert run("devices", "ookla", tiles, "--out", tmp_path / "a", "--classes", 1)[0] == 0
    lines = (tmp_path / "a" / "devices.csv").read_text().splitlines()
    assert lines == [
        "share,device_class,latency,up,down", "3,all,20ms,800kbit/s,8000kbit/s", "1,all,150ms,90kbit/s,900kbit/s"
    ]  # fmt: skip
    speeds = tmp_path / "speed_distri.json"
    speeds.write_text(json.dumps({"a": {"up_u": 100.0, "down_u": 300.0, "up_sigma": 1, "down_sigma": 1}}))
    assert run("devices", "flash", speeds, "--out", tmp_path / "b")[0] == 0
    assert (tmp_path / "b" / "devices.csv").read_text() == "share,device_class,up,down\n1,middle,800kbit/s,2400kbit/s\n"


def test_wrong_files_and_options_are_refused_in_one_line(copies: Path) -> None:
    out = ("--out", copies / "phones")
    code, output = run("devices", "fedscale", copies / "none", *out)
    assert (code, output) == (2, f"error: {copies / 'none'}: No such file or directory\n")
    code, output = run("devices", "fedscale", copies / "behave", *out, "--start", "noon")
    assert code == 2 and output.startswith('error: --start: "noon" is not a duration')
    assert run("devices", "fedscale", copies / "behave", *out)[0] == 0
    code, output = run("devices", "fedscale", copies / "behave", *out)
    file = copies / "phones" / "availability.csv"
    assert (code, output) == (2, f"error: {file}: exists already; name another folder by --out\n")
