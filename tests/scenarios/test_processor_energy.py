"""The energy of processors: jobs and handled messages at full speed, slowed down, stopped, and on shared cores."""

from contextlib import closing
from pathlib import Path

import pytest

from tacit.parties.fleet.energy import Energy
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.prediction import energy_meter, predict_run
from tacit.scenarios.running.prediction import energy_of as energy_read
from tacit.scenarios.running.runner import run
from tacit.scenarios.running.simulation import Simulation

SCENARIO = """
title = "energy"
seed = 1
engine = "inline"
[data]
name = "digits"
clients = 3
limit = 60
labeled = 1.0
[model]
name = "linear"
[protocol]
name = "fedavg"
[device]
processor = "2"
[training]
rounds = 2
[network]
latency = "0ms"
bandwidth = "unlimited"
server_bandwidth = "unlimited"
"""


def energy_of(folder: Path, *changes: str) -> dict[str, float]:
    """The joules of each client's processor in a run; the prediction of the run has the same."""
    file = folder / "energy.toml"
    file.write_text(SCENARIO)
    scenario = load(file, list(changes))
    found = energy_meter(scenario)
    assert found is not None
    fleet, meter = found
    with closing(Simulation(scenario, sinks=[meter], engine="inline")) as simulation:
        simulation.run()
    used: Energy = fleet.energy(meter.found())
    predicted = predict_run(scenario).energy
    assert predicted is not None and predicted.joules == pytest.approx(used.joules)
    return {name: one.processor for name, one in used.clients.items()}


def slow(factor: float, **others: object) -> str:
    keys = ",".join(f'{name}="{value}"' for name, value in {"time": "0s", **others}.items())
    return f'fault=[{{kind="slow",party="client/0",factor={factor},{keys}}}]'


def test_ten_times_the_time_takes_ten_times_the_energy(tmp_path: Path) -> None:
    base, slowed = energy_of(tmp_path), energy_of(tmp_path, slow(10))
    assert slowed["client/0"] == pytest.approx(10 * base["client/0"])
    assert slowed["client/1"] == pytest.approx(base["client/1"])


def test_a_slow_spell_that_ends_within_a_job_takes_the_energy_of_its_time(tmp_path: Path) -> None:
    """While it lasts, nine tenths of the time are beyond that at full speed."""
    base = energy_of(tmp_path)["client/0"]
    lasts = base / 2 / 4  # a core has 2 W, and each of the two rounds is half of the work; half of that, tenfold
    slowed = energy_of(tmp_path, slow(10, lasts=f"{lasts}s"))["client/0"]
    assert slowed == pytest.approx(base + 2 * 0.9 * lasts)


def test_shared_cores_and_pauses_take_no_further_energy(tmp_path: Path) -> None:
    base = energy_of(tmp_path)
    shared = 'host=[{parties=["client/*"],cores=1}]'
    assert energy_of(tmp_path, shared) == pytest.approx(base)
    paused = 'fault=[{kind="pause",party="client/0",at="train.update",lasts="3s"}]'
    assert energy_of(tmp_path, paused) == pytest.approx(base)
    both = energy_of(tmp_path, shared, slow(10))
    assert both["client/0"] == pytest.approx(10 * base["client/0"])
    assert both["client/1"] == pytest.approx(base["client/1"])


HANDLING = ('device.handling="10ms"', 'device.handling_rate="100kB/s"')


def test_handling_messages_for_ten_times_the_time_takes_ten_times_the_energy(tmp_path: Path) -> None:
    base = energy_of(tmp_path, *HANDLING)
    assert base["client/0"] > energy_of(tmp_path)["client/0"] + 2 * 8 * 0.01  # two rounds of four messages or more
    slowed = energy_of(tmp_path, *HANDLING, slow(10))
    assert slowed["client/0"] == pytest.approx(10 * base["client/0"])
    assert slowed["client/1"] == pytest.approx(base["client/1"])


def test_a_slow_spell_within_the_handling_of_a_message_takes_the_energy_of_its_time(tmp_path: Path) -> None:
    long = 'device.handling="10s"'
    base = energy_of(tmp_path, long)["client/0"]
    assert energy_of(tmp_path, long, slow(4, time="15s", lasts="2s"))["client/0"] == pytest.approx(base + 2 * 2 * 3 / 4)
    paused = 'fault=[{kind="pause",party="client/0",time="15s",lasts="3s"}]'
    assert energy_of(tmp_path, long, paused)["client/0"] == pytest.approx(base)


def test_handling_on_shared_cores_takes_ten_times_the_energy_of_the_slow_party_alone(tmp_path: Path) -> None:
    shared = 'host=[{parties=["client/*"],cores=1}]'
    base = energy_of(tmp_path, *HANDLING, shared)
    slowed = energy_of(tmp_path, *HANDLING, shared, slow(10))
    assert slowed["client/0"] == pytest.approx(10 * base["client/0"])
    assert slowed["client/1"] == pytest.approx(base["client/1"])


def test_the_energy_of_a_record_is_that_of_its_run(tmp_path: Path) -> None:
    energy_of(tmp_path, *HANDLING)  # writes the scenario
    scenario = load(tmp_path / "energy.toml", [*HANDLING, slow(10)])
    predicted, result = predict_run(scenario).energy, run(scenario, out=tmp_path / "run")
    read = energy_read(scenario, tmp_path / "run" / "run.sqlite")
    assert predicted is not None and result.energy is not None and read is not None
    assert predicted.joules == pytest.approx(result.energy.joules) == pytest.approx(read.joules)
