"""The energy of clients in runs, predictions and reports: equal to each other, and without effect on the run."""

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tacit import Client, Scenario, load
from tacit.parties.fleet.energy import Energy
from tacit.scenarios.command.main import app
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.running.runner import Watch, carry_out, resume

SMALL = [
    "data.limit=120", "data.clients=6", "training.rounds=2", "training.epochs=1", "expect={}", "fault=[]",
    "engine=inline", "protocol.name=fedavg", "protocol.deadline=10s", "model.name=linear",
]  # fmt: skip
POWER = ["device.radio=4g", "device.processor=phone-middle"]


def small(*changes: str) -> Scenario:
    return load("training-private", [*SMALL, *changes])


def equal_energy(one: Energy | None, other: Energy | None) -> bool:
    assert one is not None and other is not None and one.clients.keys() == other.clients.keys()
    return all(
        value == pytest.approx(msgspec.structs.asdict(other.clients[name]), rel=1e-9)
        for name, value in ((name, msgspec.structs.asdict(found)) for name, found in one.clients.items())
    ) and one.joules == pytest.approx(other.joules, rel=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        ("training.averaging=plain",),
        ("training.averaging=secure",),
        ("training.averaging=plain", "network.loss=0.1", "device.handling=2ms"),
        ("training.averaging=plain", "network.transport=tcp"),
    ],
)
def test_the_predicted_energy_equals_that_of_the_run(changes: tuple[str, ...], tmp_path: Path) -> None:
    scenario = small(*POWER, *changes)
    result = carry_out(scenario, "run", out=tmp_path / "run")
    assert equal_energy(result.energy, predict_run(scenario).energy)
    stored = json.loads((tmp_path / "run" / "result.json").read_bytes())["energy"]
    assert stored == msgspec.to_builtins(result.energy)


def test_counting_energy_changes_no_trace_and_needs_its_keys(tmp_path: Path) -> None:
    plain = carry_out(small("training.averaging=plain"), "run", out=tmp_path / "plain")
    counted = carry_out(small("training.averaging=plain", *POWER), "run", out=tmp_path / "counted")
    assert plain.energy is None and counted.energy is not None
    assert plain.trace_hash == counted.trace_hash and plain.shape_hash == counted.shape_hash


def test_a_resumed_run_counts_its_energy_once(interrupter: type[Watch], tmp_path: Path) -> None:
    scenario = small("training.averaging=plain", "training.rounds=4", "training.checkpoint_every=1", *POWER)
    whole = carry_out(scenario, "run", out=tmp_path / "whole")
    carry_out(scenario, "run", out=tmp_path / "broken", watch=interrupter(150))
    result = resume(tmp_path / "broken")
    assert result.outcome == "completed" and result.resumed and result.resumed[-1] > 0
    assert equal_energy(result.energy, whole.energy)


def test_the_energy_of_device_classes_is_the_sum_over_their_clients() -> None:
    tables = (
        Client(device_class="phone", radio="4g", processor="phone-slow", speed=0.5),
        Client(name="client/[45]", device_class="desktop", radio="none", processor=20.0),
        Client(name="client/5", processor="none"),
    )
    scenario = msgspec.structs.replace(small("training.averaging=plain"), client=tables)
    energy = predict_run(scenario).energy
    assert energy is not None and [(one.device_class, one.clients) for one in energy.classes] == [
        ("phone", 4), ("desktop", 1)
    ]  # fmt: skip
    assert "client/5" not in energy.clients and energy.classes[1].radio == 0
    for one, names in zip(energy.classes, (("0", "1", "2", "3"), ("4",)), strict=True):
        joules = [energy.clients[f"client/{name}"].joules for name in names]
        assert one.radio + one.tail + one.processor == pytest.approx(sum(joules)) and one.most == max(joules)


def test_a_slower_link_or_processor_uses_more_energy() -> None:
    def joules(*changes: str) -> tuple[float, float]:
        energy = predict_run(small("training.averaging=plain", *POWER, *changes)).energy
        assert energy is not None
        return energy.classes[0].radio, energy.classes[0].processor

    usual = joules()
    assert joules("network.bandwidth=1Mbit/s")[0] > usual[0]
    assert joules("device.speed=0.1")[1] == pytest.approx(10 * usual[1])


def test_the_commands_predict_and_run_show_energy(tmp_path: Path) -> None:
    words = [word for change in (*SMALL, "training.averaging=plain") for word in ("--set", change)]
    power = [word for change in POWER for word in ("--set", change)]

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "180"})
        return done.exit_code, done.output

    code, output = run("predict", "training-private", *words, *power, "--seeds", "1")
    assert code == 0 and "energy    " in output and "radio tail" in output
    over = ("--over", "device.radio=wifi,4g", "--by", "energy", "--seeds", "1")
    code, output = run("predict", "training-private", *words, *power, *over)
    assert code == 0 and "cheapest  by energy, device.radio = wifi" in output
    code, output = run("predict", "training-private", *words, "--by", "energy", "--seeds", "1")
    assert code == 2 and "device.radio: is needed for --by energy" in output
    code, output = run("run", "training-private", *words, *power, "--out", str(tmp_path / "run"))
    assert code == 0 and "energy    " in output
    assert run("report", str(tmp_path / "run"))[0] == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'id="energy"' in page and "By class of devices" in page and "client/5" in page
