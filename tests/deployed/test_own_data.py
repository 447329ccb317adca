"""A party's own data file: no other process has it, and differences from the outline are named."""

import asyncio
import csv
import socket
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.parties.data.files import load_file, write_outline
from tacit.parties.data.sets import load as load_data
from tacit.parties.datasets.content import DataError
from tacit.scenarios.command.main import app
from tacit.scenarios.deploying import joining
from tacit.scenarios.deploying.options import ProcessOptions
from tacit.scenarios.deploying.party import own_data
from tacit.scenarios.deploying.plan import digest_of
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.runner import run
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.deployed.certificates import Identity, certify, context
from tacit.sim.deployed.connection import Limits
from tacit.sim.deployed.hub import Hub, HubState
from tacit.sim.deployed.loop import RealLoop
from tests.deployed.together import Together

SIZES = (30, 40, 20)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three clients' files, and the outline of them; a third of the labels are unknown."""
    path, digits = tmp_path_factory.mktemp("own"), load_data("digits", sum(SIZES))
    labels = np.where(np.arange(len(digits.labels)) % 3 == 0, -1, digits.labels)
    ends = np.cumsum(SIZES)
    rows = [slice(end - size, end) for size, end in zip(SIZES, ends, strict=True)]
    paths = [path / f"{number}.npz" for number in range(len(SIZES))]
    for file, own in zip(paths, rows, strict=True):
        np.savez(file, features=digits.points[own], labels=labels[own])
    clients = np.repeat(np.arange(len(SIZES)), SIZES)
    np.savez(path / "whole.npz", features=digits.points, labels=labels, clients=clients)
    write_outline(path / "outline.csv", [(file, load_file(file)) for file in paths])
    return paths


def scenario(path: Path) -> Scenario:
    changes = [
        f'data.path="{path}"', "data.partition=natural", "data.labeled=1.0", "data.clients=3", "network.latency=0ms",
        "protocol.hamming=plaintext", "protocol.bits=64", "protocol.deadline=20s", "fault=[]", "expect.lost=[]",
    ]  # fmt: skip
    return load("xclp-digits", changes)


def test_an_outline_has_the_numbers_of_points_and_no_values(files: list[Path]) -> None:
    outline = load_file(files[0].parent / "outline.csv")
    assert not outline.points.any()
    for number, file in enumerate(files):
        own, mine = load_file(file), outline.clients == number
        assert len(own.labels) == mine.sum()
        assert (own.labels >= 0).sum() == (outline.labels[mine] >= 0).sum()
        assert set(own.classes) <= set(outline.classes)


def test_outlines_of_several_clients_are_joined(files: list[Path], tmp_path: Path) -> None:
    each = []
    for file in files:
        write_outline(tmp_path / f"{file.stem}.csv", [(file, load_file(file))])
        each.append(tmp_path / f"{file.stem}.csv")
    write_outline(tmp_path / "all.csv", [(path, load_file(path)) for path in each])
    assert (tmp_path / "all.csv").read_text() == (files[0].parent / "outline.csv").read_text()


def test_a_deployed_run_on_own_files_equals_a_run_on_all_files(files: list[Path], tmp_path: Path) -> None:
    together = Together(scenario(files[0].parent / "outline.csv"), tmp_path)
    together.data = {f"client/{number}": file for number, file in enumerate(files)}
    real = together.run()
    whole = run(scenario(files[0].parent / "whole.npz"), out=tmp_path / "whole")
    assert real.labels_digest == whole.labels_digest
    assert found_in(real.folder) == found_in(whole.folder)


def found_in(folder: Path) -> list[tuple[str, ...]]:
    """The client, label and confidence of each point that was labeled."""
    with (folder / "labels.csv").open(encoding="utf-8", newline="") as file:
        return [(row["party"], row["label"], row["confidence"]) for row in csv.DictReader(file)]


def test_points_of_a_client_are_in_no_other_process(files: list[Path]) -> None:
    deployed = scenario(files[0].parent / "outline.csv")
    parts, shards = own_data(deployed, "server")
    assert not len(parts.held.points)
    assert all(not len(shard.points) for shard in shards)
    _, shards = own_data(deployed, "client/1", files[1])
    assert [len(shard.points) for shard in shards] == [0, SIZES[1], 0]
    assert (shards[1].points == load_file(files[1]).points).all()
    assert shards.points.tolist() == list(SIZES)


def test_rows_of_an_outline_belong_to_the_clients_that_it_names(files: list[Path], tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(f'[data]\npath = "{files[0].parent / "outline.csv"}"\n[protocol]\nname = "fedavg"\n')
    certified = CliRunner().invoke(app, ["certify", str(study), "--out", str(tmp_path / "keys")])
    assert certified.exit_code == 2
    problem = 'data.partition: "iid" deals rows out, and those of an outline belong to the clients that it names'
    assert problem in " ".join(certified.output.split())
    assert not (tmp_path / "keys").exists()


def test_training_takes_no_rows_of_an_outline_for_validation(files: list[Path], tmp_path: Path) -> None:
    changes = [
        f'data.path="{files[0].parent / "outline.csv"}"', "data.partition=natural", "data.labeled=1.0",
        "data.clients=3", "protocol.name=fedavg", "model.name=linear", "fault=[]", "expect={}",
        "training.validation=0.15", "training.evaluation=none",
    ]  # fmt: skip
    _, shards = own_data(load("fedavg-xclp-digits", changes), "client/0", files[0])
    assert shards.points.tolist() == list(SIZES) and len(shards[0].points) == SIZES[0]


def test_clients_of_a_private_study_test_its_models_by_default(files: list[Path], tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(f"""
[data]
path = "{files[0].parent / "outline.csv"}"
partition = "natural"
labeled = 1.0
[protocol]
name = "fedavg"
[model]
name = "linear"
[training]
rounds = 2
""")
    scenario = load(study)
    assert scenario.training.evaluation == "plain" and scenario.data.held_out == 0.2
    assert load(study, ["training.evaluation=none"]).data.held_out == 0
    together = Together(scenario, tmp_path)
    together.data = {f"client/{number}": file for number, file in enumerate(files)}
    found = together.run()
    known = [int((load_file(file).labels >= 0).sum()) for file in files]
    assert found.evaluation["clients"] == 3 and found.evaluation["points"] == sum(round(0.2 * one) for one in known)
    assert found.evaluation["accuracy"] == found.round_records[-1].own()["clients' accuracy"]


def test_certificates_are_for_the_clients_of_the_outline(files: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    text = f'[data]\npath = "{files[0].parent / "outline.csv"}"\npartition = "natural"\n'
    file.write_text(f'{text}labeled = 1.0\n[protocol]\nname = "fedavg"\n[model]\nname = "linear"\n')
    ended = CliRunner().invoke(app, ["certify", str(file), "--out", str(tmp_path / "certificates")])
    assert ended.exit_code == 0, ended.output
    assert len(list((tmp_path / "certificates").glob("client-*.pem"))) == len(SIZES)


def test_a_data_file_that_contradicts_its_outline_is_refused(files: list[Path], tmp_path: Path) -> None:
    deployed = scenario(files[0].parent / "outline.csv")
    with pytest.raises(DataError, match=r"0\.npz: 30 rows; the outline of client/1 has 40"):
        own_data(deployed, "client/1", files[0])
    own = load_file(files[0])
    for name, features, labels, problem in (
        ("labels", own.points, np.zeros(30, int), "30 rows with a label; the outline of client/0 has 20"),
        ("narrow", own.points[:, :5], own.labels, "5 columns; the outline of client/0 has 64"),
        ("other", own.points, np.where(own.labels == 1, 77, own.labels), "no outline has the class '77'"),
    ):
        np.savez(tmp_path / f"{name}.npz", features=features, labels=labels)
        with pytest.raises(DataError, match=problem):
            own_data(deployed, "client/0", tmp_path / f"{name}.npz")
    with pytest.raises(DataError, match="a file of one's own needs a scenario"):
        own_data(load("xclp-digits"), "client/0", files[0])


def test_a_server_that_starts_later_is_told_of_unusable_data(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "_SOON", 0.05)
    deployed = scenario(files[0].parent / "outline.csv")
    certify(tmp_path, ["server", "client/0"], days=10)
    tls = context(Identity.in_folder(tmp_path, "server"), is_server=True)
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    said: list[str] = []
    own: list[str] = []

    async def main() -> None:
        waits = asyncio.Event()

        def log(line: str) -> None:
            own.append(line)
            waits.set()

        options = ProcessOptions(tmp_path / "own", tmp_path, log, seeded=True, with_faults=False, patience=60.0)
        notifying = asyncio.create_task(
            joining.tell_unusable("client/0", "30 rows", deployed, "127.0.0.1", port, options)
        )
        await waits.wait()
        digest = digest_of(deployed, seeded=True)
        hub = Hub(["client/0"], digest, tls, HubState(bytes(16)), Limits(), said.append, lambda: None)
        await hub.listen("127.0.0.1", port)
        await notifying
        await hub.close()

    loop = RealLoop()
    try:
        loop.run(main())
    finally:
        loop.finish()
    assert own[0].startswith("30 rows. The server was not reached")
    assert any("client/0 cannot use its data; its own output says why" in line for line in said)
