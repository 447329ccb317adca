"""Runs over TLS: the results and bytes of the simulator, and one folder for the records of all processes."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tacit.scenarios.files.reading import load
from tacit.scenarios.running.folder import FolderError, Result, byte_rows
from tacit.scenarios.running.runner import run
from tacit.scenarios.schema.scenario import Scenario
from tests.deployed.together import Together

ROOT = Path(__file__).parents[2]
SMALL = ["data.limit=90", "data.clients=3", "network.latency=0ms", "protocol.deadline=20s", "fault=[]"]
XCLP = [*SMALL, "protocol.hamming=plaintext", "protocol.bits=64", "expect.lost=[]"]


def simulated(scenario: Scenario, path: Path) -> Result:
    return run(scenario, out=path / "simulated", engine="inline")


def assert_alike(real: Result, simulated: Result) -> None:
    """Assert equal results, and equal bytes by step and message type."""
    assert (real.outcome, real.reason, real.accuracy) == (simulated.outcome, simulated.reason, simulated.accuracy)
    # None if the models of rounds stay with their parties.
    assert real.equals_plaintext in (None, simulated.equals_plaintext)
    digests = ("labels_digest", "hamming_digest", "model_digest", "endings", "output")
    assert {name: getattr(real, name) for name in digests} == {name: getattr(simulated, name) for name in digests}
    assert sorted(byte_rows(real.folder), key=str) == sorted(byte_rows(simulated.folder), key=str)


ROWS = ["data.clients=6", "protocol.rounds=2"]


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [*ROWS, "protocol.recovery=lightsecagg", "protocol.identity=signed"],
        [*ROWS, "protocol.recovery=two-servers"],
        pytest.param([*ROWS, "protocol.recovery=flamingo"], marks=pytest.mark.long),
    ],
)
def test_labels_and_bytes_equal_those_of_the_simulator(changes: list[str], tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "own_sum.py", tmp_path)
    text = (ROOT / "scenarios" / "library" / "xclp-digits.toml").read_text(encoding="utf-8")
    (tmp_path / "rows.toml").write_text('plugins = ["own_sum.py"]\n' + text, encoding="utf-8")
    scenario = load(tmp_path / "rows.toml", [*XCLP, *changes])
    together = Together(scenario, tmp_path)
    real = together.run()
    assert real.equals_plaintext
    assert_alike(real, simulated(scenario, tmp_path))


SECURE = [*SMALL, "training.rounds=2", "training.averaging=secure", "protocol.name=fedavg"]
COMMITTEE = [*SECURE, "training.averaging=committee", "sum.value_bits=12"]
CODED = [*SECURE, "training.averaging=lightsecagg", "sum.value_bits=12", "protocol.identity=signed"]
FLAMINGO = [*SECURE, "training.averaging=flamingo", "training.rounds=3", "sum.decryptor_rounds=2"]
FEDCT = [*SMALL, "cotraining.rounds=2", "learner.name=decision-tree"]
PRIO3 = [*FEDCT, "cotraining.votes=prio3", "protocol.identity=signed", "public.size=20"]


NOISY = [*SMALL, "data.clients=6", "training.rounds=2", "sum.tolerated_dropouts=0.1", "expect.lost=[]"]
NOISY_SUMS = [f"training.averaging={name}" for name in ("secure", "lightsecagg", "committee", "flamingo")]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("fedavg-xclp-digits", SECURE),
        ("fedavg-xclp-digits", COMMITTEE),
        ("fedavg-xclp-digits", CODED),
        ("fedavg-xclp-digits", FLAMINGO),
        ("fedct-digits", FEDCT),
        ("fedct-digits", PRIO3),
        *(pytest.param("private-dropouts", [*NOISY, one], marks=pytest.mark.long) for one in NOISY_SUMS),
        pytest.param("fedct-digits", [*PRIO3, "privacy.votes_epsilon=20.0"], marks=pytest.mark.long),
    ],
)
def test_models_and_bytes_equal_those_of_the_simulator(name: str, changes: list[str], tmp_path: Path) -> None:
    scenario = load(name, changes)
    real = Together(scenario, tmp_path).run()
    assert real.model_digest
    assert_alike(real, simulated(scenario, tmp_path))


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path / "run.sqlite")) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gathered")
    return Together(load("xclp-digits", XCLP), path, seeded=False).run().folder


def test_every_message_arrives_after_it_was_sent(gathered: Path) -> None:
    found = rows(gathered, "SELECT sent, received, fate, hops, sender, receiver FROM messages")
    assert found
    assert all(fate == "received" and sent <= received for sent, received, fate, *_ in found)
    assert all(hops == (1 if "server" in ends else 2) for *_, hops, of, to in found for ends in [(of, to)])


def test_events_are_numbered_in_the_order_of_their_times(gathered: Path) -> None:
    tables = ("events", "wait_begins", "wait_ends")
    found = sorted(row for table in tables for row in rows(gathered, f"SELECT n, time FROM {table}"))
    assert [n for n, _ in found] == list(range(1, len(found) + 1))
    assert [time for _, time in found] == sorted(time for _, time in found)
    assert rows(gathered, "SELECT count(*) FROM waits WHERE ended IS NULL") == [(0,)]


def test_the_processor_time_of_jobs_is_in_the_record_and_in_the_result(gathered: Path) -> None:
    ended = rows(gathered, "SELECT party, step, number, value FROM events WHERE kind = 'processor'")
    begun = rows(gathered, "SELECT party, step, number FROM events WHERE kind = 'compute'")
    assert sorted(one[:3] for one in ended) == sorted(begun)
    clients = [value for party, *_, value in ended if party != "server"]
    assert clients and min(clients) >= 0
    result = json.loads((gathered / "result.json").read_text())
    assert result["client_seconds"] == pytest.approx(sum(clients)) and result["client_seconds"] > 0


def test_secrets_of_a_deployed_run_come_from_the_operating_system(gathered: Path, tmp_path: Path) -> None:
    again = Together(load("xclp-digits", XCLP), tmp_path, seeded=False).run()
    query = "SELECT digest FROM events WHERE type = 'Join' AND kind = 'send'"
    assert not {*rows(gathered, query)} & {*rows(again.folder, query)}


def test_a_folder_without_a_process_record_is_refused_by_name(tmp_path: Path) -> None:
    from tacit.scenarios.deploying.gathered import parts_in

    with pytest.raises(FolderError, match=r"no record-1\.sqlite"):
        parts_in([tmp_path])
