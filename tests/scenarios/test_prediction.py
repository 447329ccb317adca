"""The estimated time of SecureHamming against real runs, and the caution about a deadline that is too short for it."""

import contextlib
import sqlite3

import pytest

from tacit import load, run
from tacit.parties.data.splits import named
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.xclp.declaration import HammingTime, hamming_time
from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.files.splits import material_of

SMALL = ["data.limit=120", "data.clients=4", "network.latency=1ms", "network.bandwidth=2Mbit/s"]
VARIANTS = {
    "plaintext": ["protocol.hamming=plaintext"],
    "paillier": ["protocol.hamming=paillier"],
    "paillier, fresh": ["protocol.hamming=paillier", "protocol.rerandomise=fresh"],
    "iknp": ["protocol.hamming=iknp"],
    "iknp in a mesh": ["protocol.hamming=iknp", "network.topology=mesh", "network.up=500kbit/s"],
    "iknp through a narrow relay": ["protocol.hamming=iknp", "network.server_bandwidth=2Mbit/s"],
    "iknp on slow cores": ["protocol.hamming=iknp", "network.bandwidth=unlimited", "device.speed=0.01"],
    "naor-pinkas": ["protocol.hamming=naor-pinkas", "protocol.bits=8", "data.limit=40"],
    "direct": ["protocol.hamming=direct"],
}


def scenario(changes):
    return load("xclp-digits", [*SMALL, "expect.lost=[]", "fault=[]", "protocol.k=5", *changes])


def predicted_hamming_time(asked) -> HammingTime:
    material = material_of(asked)
    shards = PROTOCOLS[asked.protocol.name].largest(asked, named(material.shards))
    found = hamming_time(asked, shards, material.fleet)
    assert found is not None
    return found


def seconds_of_hamming(result):
    """The seconds from the first client's hamming.encode to the server's H."""
    with contextlib.closing(sqlite3.connect(result.folder / "run.sqlite")) as connection:
        ((begun, ended),) = connection.execute(
            "SELECT min(entered), max(\"left\") FILTER (WHERE step = 'hamming.collect') FROM steps "
            "WHERE step IN ('hamming.encode', 'hamming.collect') AND NOT (party = 'server' AND step = 'hamming.encode')"
        )
    return ended - begun


SLOW = ("paillier, fresh", "iknp on slow cores", "naor-pinkas")


@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=[pytest.mark.long] if name in SLOW else []) for name in VARIANTS]
)
def test_the_estimated_time_is_close_to_that_of_the_run(variant, tmp_path):
    asked = scenario([*VARIANTS[variant], "protocol.deadline=10000s", "data.clients=3"])
    result = run(asked, out=tmp_path / "run", engine="inline")
    assert result.outcome == "completed" and not result.lost
    assert 0.5 < predicted_hamming_time(asked).seconds / seconds_of_hamming(result) < 2


def test_too_short_a_deadline_is_reported_with_one_that_suffices(tmp_path):
    changes = ["protocol.hamming=iknp", "network.bandwidth=200kbit/s", "data.clients=3"]
    (line,) = cautions(scenario(changes))
    assert line.startswith('protocol.deadline = "60s": SecureHamming by iknp will take about ')
    enough = line.rpartition("; use ")[2].replace(" ", "").replace('"', "")
    assert enough.startswith("protocol.deadline=")
    asked = scenario([*changes, enough])
    assert cautions(asked) == []
    result = run(asked, out=tmp_path / "run", engine="inline")
    assert (result.outcome, result.lost, result.equals_plaintext) == ("completed", [], True)


@pytest.mark.parametrize("changes", [["network.bandwidth=unlimited", "network.server_bandwidth=unlimited"], []])
def test_a_sufficient_deadline_gives_no_caution(changes):
    assert cautions(scenario(["protocol.hamming=iknp", *changes])) == []


def test_free_computing_is_estimated_to_take_no_time():
    assert predicted_hamming_time(scenario(["cost=free"])).computing == 0
    one, four = (predicted_hamming_time(scenario([f"device.cores={cores}"])).computing for cores in (1, 4))
    assert one == pytest.approx(3 * four)  # with each of three other clients


def test_without_data_there_is_no_caution_about_time(tmp_path):
    file = tmp_path / "points.csv"
    file.write_text("x,label\n" + "".join(f"{i * i},{i % 3}\n" for i in range(60)))
    asked = load("xclp-digits", [f"data.path={file}", "data.clients=4", "protocol.k=5"])
    file.unlink()
    assert cautions(asked) == []
