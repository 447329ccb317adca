"""Changes by --set and similar options: allowed combinations, the option that an error names, and keys without
effect."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import Fault, ScenarioError, keys, load, run
from tacit.scenarios.command.main import app
from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.files.reading import read


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    """A file of 80 points in three classes."""
    dice = np.random.default_rng(5)
    labels = np.arange(80) % 3
    np.savez(tmp_path / "own.npz", features=dice.normal(size=(80, 4)) + labels[:, None], labels=labels)
    return tmp_path / "own.npz"


BOTH = "data: name and path are both given; allowed: exactly one of them"


@pytest.mark.parametrize("changes", [
    ["data.path=own.npz", "data.name=digits"],
    ["data.name=digits", "data.path=own.npz"],
    ["data={path='own.npz'}", "data.name=digits"],
    ["data={path='own.npz', name='digits'}"],
])  # fmt: skip
def test_a_name_and_a_path_of_data_together_are_refused(quick: Path, own_file: Path, changes: list[str]) -> None:
    with pytest.raises(ScenarioError) as refused:
        load(quick, changes)
    assert str(refused.value) == f"changes: {BOTH}"


@pytest.mark.parametrize("moved", ["all", "the run's folder", "nothing"])
def test_a_run_of_own_data_runs_again_from_a_moved_folder(quick: Path, own_file: Path, moved: str) -> None:
    place = own_file.parent / "project"
    (place / "runs").mkdir(parents=True)
    data = own_file.rename(place / "own.npz")
    first = run(load(quick, [f"data.path={data}", "data.name=", "expect={}"]), out=place / "runs" / "one")
    folder = first.folder
    if moved == "all":
        folder = place.rename(place.with_name("elsewhere")) / "runs" / "one"
    elif moved != "nothing":
        folder = folder.rename(own_file.parent / "alone")
    assert run(load(folder), out=own_file.parent / "again").trace_hash == first.trace_hash


def test_a_name_and_a_path_of_data_in_one_file_are_refused(quick: Path, own_file: Path) -> None:
    quick.write_text(quick.read_text().replace('name = "digits"', f'name = "digits"\npath = "{own_file}"'))
    with pytest.raises(ScenarioError, match="name and path are both given"):
        load(quick)


def test_a_changed_path_replaces_the_data_set_of_the_file_and_an_empty_path_does_not(
    quick: Path, own_file: Path
) -> None:
    assert load(quick, [f"data.path={own_file}"]).data.name == ""
    for changes in ([f"data.path={own_file}", "data.name="], ["data.name=", f"data.path={own_file}"]):
        scenario = load(quick, changes)
        assert (scenario.data.path, scenario.data.name) == (str(own_file), "")
        assert "data.path" in scenario.title
    assert load(quick, ["data.path="]).title == "Four clients, quickly"


def test_an_error_names_the_option_that_caused_the_problem(quick: Path) -> None:
    def refused(*arguments: str) -> str:
        result = CliRunner().invoke(app, [arguments[0], str(quick), *arguments[1:]])
        assert result.exit_code == 2, result.output
        return result.stderr.removeprefix("error: ").removesuffix("\n")

    assert refused("run", "--set", "protocol.k=abc").startswith('--set: protocol.k: "abc" is of the wrong kind')
    assert refused("run", "--set", "fault=[{party='client/9', time=0}]").startswith("--set: fault.0.party: ")
    assert refused("run", "--seed", "-1").startswith("--seed: -1 is too small")
    assert refused("run", "--engine", "warp").startswith('--engine: "warp" is not an engine')
    assert refused("sweep", "--over", "protocol.k=3,1900").startswith("--over: protocol.k: 1900 is too large")
    assert refused("sweep", "--over", "protocol.kk=3").startswith("--over: protocol.kk: there is no such key")
    crash = ("--set", "fault=[{party='client/1', time=0}]")
    assert refused("run", *crash, "--set", "fault.0.party=client/9").startswith("--set: fault.0.party: ")
    for field, problem in (
        ("0.time=1,soon", '.0.time: "soon" is not a duration'),
        ("0.tine=1", '.0.tine: a fault has no "tine"'),
        ("0.by=1", ".0.by: does not go with kind"),
        ("1.time=1", ".1.time: there is no fault 1"),
    ):
        assert refused("sweep", *crash, "--over", f"fault.{field}").startswith(f"--over: fault{problem}")
    assert refused("run", "--set", "data.limit=3").startswith(
        f"{quick} with --set data.limit=3: data.clients: 4 is too large for 3 points"
    )
    quick.write_text(quick.read_text().replace("k = 3", "k = 1900"))
    assert refused("run").startswith(f"{quick}: protocol.k: 1900 is too large")


def test_a_users_own_data_file_has_points_for_testing(tiny: Path, own_file: Path, tmp_path: Path) -> None:
    result = run(load(tiny, [f"data.path={own_file}", "data.test=20", "protocol.name=fedavg"]), out=tmp_path / "out")
    assert (result.outcome, result.measured_on) == ("completed", "the test part of the data set")
    assert result.accuracy is not None and round(result.accuracy * 20, 9).is_integer()
    with pytest.raises(ScenarioError, match=r"data\.test: 80 must be 1 to 79"):
        load(tiny, [f"data.path={own_file}", "data.test=80", "protocol.name=fedavg"])


def test_points_of_a_file_for_testing_belong_to_no_client(quick: Path, own_file: Path, tmp_path: Path) -> None:
    result = run(load(quick, [f"data.path={own_file}", "data.test=40"]), out=tmp_path / "out")
    assert result.outcome == "completed"
    assert 0 < len((tmp_path / "out" / "labels.csv").read_text().splitlines()) - 1 < 40


# --- returns


def cautions_of(file: Path, fault: Fault, *changes: str) -> list[str]:
    text = ", ".join(
        f"{key} = {json.dumps(value)}"
        for key in ("party", "at", "time", "occurrence", "back_after")
        if (value := getattr(fault, key)) not in (None, "")
    )
    lines = cautions(load(file, [f"fault=[{{{text}}}]", *changes]))
    return [line for line in lines if "back_after" in line]


def test_a_back_after_without_effect_gives_a_caution(quick: Path, tiny: Path) -> None:
    crash = Fault(party="client/1", at="hamming.evaluate", back_after="1s")
    (line,) = cautions_of(quick, crash)
    assert line == (
        'fault.0.back_after = "1s" has no effect: a party that returns takes part from the next round, and there '
        "is only one round"
    )
    assert cautions_of(quick, crash, "protocol.rounds=2") == []
    trained = "protocol.name=fedavg"
    last = Fault(party="client/1", at="train.update", occurrence=2, back_after="1s")
    (line,) = cautions_of(tiny, last, trained)
    assert line.endswith("the fault fires in the last of 2 rounds, or never")
    assert cautions_of(tiny, last, trained, "training.rounds=3") == []
    enrolling = Fault(party="client/1", at="train.enroll", back_after="1s")
    assert cautions_of(tiny, enrolling, trained, "training.rounds=1") == []
    assert cautions_of(quick, Fault(party="client/1", time="0s", back_after="1ms")) == []


def test_a_back_after_with_that_caution_changes_no_result(quick: Path, tmp_path: Path) -> None:
    crash = "fault=[{party='client/1', at='hamming.evaluate'%s}]"
    results = [
        run(load(quick, [crash % back, "expect={}"]), out=tmp_path / str(number))
        for number, back in enumerate(("", ", back_after='1s'"))
    ]
    assert results[0].labels_digest == results[1].labels_digest
    assert results[0].lost == results[1].lost


def test_a_client_lost_after_its_answer_is_shown_as_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    back = "{party='client/0', at='train.enroll', back_after='1s'}"
    after = "{kind='leave', party='client/1', after='cotrain.predict', occurrence=2}"
    gone = "{party='client/2', at='cotrain.learn', occurrence=2, back_after='1s'}"
    changes = ["--set", f"fault=[{back}, {after}, {gone}]", "--set", "expect={}", "--set", "cotraining.rounds=3"]
    done = CliRunner().invoke(app, ["run", "cotraining-dropouts", *changes, "--out", "out"])
    assert done.exit_code == 0, done.output
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    rows = [line.split() for line in lines]
    at = next(number for number, row in enumerate(rows) if row[:1] == ["round"])
    shown = lines[at + 2 : at + 5]
    assert shown[0].endswith("client/0 (answered)") and " 5 " in shown[0]
    assert shown[1].endswith("client/2, client/1 (answered)") and " 4 " in shown[1]
    first = next(line for line in lines if line.startswith("lost      client/0: crashed at "))
    assert "before the first round: it was back, and its predictions were in: they count" in first
    record = json.loads(Path("out/result.json").read_text())["rounds"][0]
    assert set(record["lost"]) <= set(record["answered"]) and len(record["answered"]) == 5


@pytest.mark.parametrize("protocol", ["xclp", "fedavg-then-xclp", "fedavg+xclp", "fedprop", "fedprop+mt", "fedavg"])
def test_min_clients_is_listed_as_unused_only_in_protocols_without_that_key(quick: Path, protocol: str) -> None:
    choice = f"protocol.name={protocol}"
    unused = "protocol.min_clients" in read(quick, [choice, "protocol.min_clients=4"]).unused
    try:
        load(quick, [choice, "protocol.min_clients=5"])
    except ScenarioError as error:
        obeyed = "protocol.min_clients" in str(error)
    else:
        obeyed = False
    assert obeyed is not unused


def test_keys_of_list_items_are_named_in_the_form_that_set_accepts(quick: Path, tmp_path: Path) -> None:
    for spelling in ("fault.N.party", "fault.0.party", "fault.12.party", "fault[0].party", "fault[].party"):
        assert [key.name for key in keys(spelling)] == ["fault.N.party"]
    assert {key.name.split(".")[1] for key in keys("client.3")} == {"N"}
    assert not any("[" in key.name for key in keys(""))
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(f"{quick.read_text()}\n[[fault]]\nparty = 'client/9'\ntime = 1\n")
    with pytest.raises(ScenarioError) as refused:
        load(wrong)
    key = str(refused.value).removeprefix(f"{wrong}: ").partition(": ")[0]
    assert key.startswith("fault.") and key.endswith(".party")
    load(wrong, [f"{key}=client/1"])  # written like in the error
