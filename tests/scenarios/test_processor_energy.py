"""The energy of processors: of jobs at full speed, slowed down, stopped, and on cores that parties share."""

from contextlib import closing
from pathlib import Path

import pytest

from tacit.parties.fleet.energy import Energy
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.prediction import energy_meter, predict_run
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
