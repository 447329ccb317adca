import json
import subprocess
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tacit.benchmarks.command import app
from tacit.benchmarks.scale import growth
from tacit.benchmarks.scale.growth import CURVES, Curve
from tests import warm


def small(size):
    return ["fault=[]", "expect={}", 'protocol.hamming="plaintext"', "protocol.bits=64", f"data.limit={size}"]


@pytest.fixture
def curves(monkeypatch):
    def set_to(*found):
        monkeypatch.setattr(growth, "CURVES", found)
        monkeypatch.setattr(growth, "TABLES", {})

    return set_to


@pytest.fixture(autouse=True)
def started_warm(monkeypatch):
    """Each size is run in a process of its own that starts warm."""
    runner = SimpleNamespace(run=lambda command, **_: warm.run(command), TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(growth, "subprocess", runner)


def test_each_size_is_run_and_its_time_memory_and_messages_are_written(curves, tmp_path):
    curves(Curve("points", "XCLP", "points", "xclp-digits", small, (60, 120), (60, 120), rounds=2))
    files = ["--json", str(tmp_path / "growth.json"), "--plot", str(tmp_path / "growth.svg")]
    done = CliRunner().invoke(app, ["scale", "--quick", *files], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "points: XCLP" in done.output and "120 points" in done.output
    content = json.loads((tmp_path / "growth.json").read_text())
    assert [one["size"] for one in content["points"]] == [60, 120]
    for one in content["points"]:
        assert one["outcome"] == "completed" and one["messages"] > 0 and one["memory"] > 5e7
        assert 0 < 2 * one["each"] < one["seconds"]
    assert content["growth"][0]["time"] is not None
    assert (tmp_path / "growth.svg").read_text().startswith("<?xml")


def test_larger_sizes_are_left_out_after_one_that_fails(curves):
    curves(Curve("points", "XCLP", "points", "xclp-digits", small, (5, 60), (5, 60)))
    done = CliRunner().invoke(app, ["scale", "--quick"], env={"COLUMNS": "300"})
    assert done.exit_code == 1
    assert "allowed: 1 to 5" in " ".join(done.output.split()) and "60 points" not in done.output


def test_the_exponent_is_that_of_the_largest_sizes():
    def point(size, each):
        return growth.Point("points", "XCLP", "points", size, each, each, 1000 * size, 1, "completed")

    found = growth.growth([point(1, 5.0), *(point(size, 3e-6 * size**2) for size in (1_000, 2_000, 4_000))])
    assert [one.time for one in found] == [pytest.approx(2.0)]
    assert [one.memory for one in found] == [pytest.approx(1.0)]
    assert growth.growth([point(7, 1.0)])[0].time is None


def test_an_unknown_topic_is_refused_in_one_line():
    done = CliRunner().invoke(app, ["scale", "--only", "nothing"])
    assert done.exit_code != 0 and "--only: nothing is not a topic; allowed: points" in str(done.exception)


def test_curves_of_a_topic_are_adjacent_and_their_sizes_ascend():
    topics = [curve.topic for curve in CURVES]
    assert topics == sorted(topics, key=topics.index)
    for curve in CURVES:
        assert list(curve.sizes) == sorted(set(curve.sizes)) and list(curve.quick) == sorted(set(curve.quick))
