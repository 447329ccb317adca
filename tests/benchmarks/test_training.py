import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tacit.benchmarks.command import app
from tacit.benchmarks.training import peers, speed
from tacit.benchmarks.training.size import Contender, Size
from tacit.parties.datasets import store

TINY = Size(rounds=2, turns=1, clients=5, images=8, cohort=2, batch=3)


def test_the_plain_loop_and_tacit_end_with_the_same_model(tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "own"))
    monkeypatch.setattr(speed, "QUICK", TINY)
    monkeypatch.setattr(peers, "is_installed", lambda name: False)
    result = CliRunner().invoke(app, ["training", "--quick", "--json", str(tmp_path / "rounds.json")])
    assert result.exit_code == 0, result.output
    assert "pfl: pfl not installed: skipped" in result.output
    content = json.loads((tmp_path / "rounds.json").read_text())
    assert [one["contender"] for one in content["standings"]] == ["plain loop", "Tacit", "Tacit, pool:2"]
    for one in content["standings"]:
        beside = 2 if one["contender"] == "plain loop" else 1  # it runs in turns with each of the two others
        assert len(one["rates"]) == beside * TINY.turns
        assert min(one["rates"]) > 0
    assert [one["contender"] for one in content["normalised"]] == ["plain loop", "Tacit"]
    assert "a second with batch normalisation; 0.9 are wanted" in result.output.replace("\n", " ")
    assert content["size"]["rounds"] == TINY.rounds
    assert store.root() == tmp_path / "own"  # the random images replaced the data only during the run


def plain_loop_result(federation):
    """The plain loop as a contender."""
    loop = speed._Loop(federation)
    while loop.end is None:
        loop.next_round()
    return loop.end


def test_a_contender_with_other_steps_or_another_model_is_refused():
    def lazy(federation, after_round):
        vector, steps = plain_loop_result(federation)
        return vector, steps - 1

    with pytest.raises(RuntimeError, match="lazy has taken 11 steps and a model of 434472 bytes, not 12"):
        speed.measure(TINY, [Contender("lazy", lazy, here=False, once=True)])

    def other(federation, after_round):
        return plain_loop_result(replace(federation, labels=9 - federation.labels))

    with pytest.raises(RuntimeError, match="other and the plain loop have ended with different models"):
        speed.measure(TINY, [Contender("other", other, same=True)])


def test_time_of_the_plain_loop_between_rounds_is_not_counted_for_the_contender(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(speed, "_now", lambda: (clock[0], clock[0]))

    def slow(federation):
        for _ in range(2):
            clock[0] += 3.0
            yield
        clock[0] += 3.0
        return federation.vector, federation.size.steps

    def contender(federation, after_round):
        for _ in range(2):
            clock[0] += 4.0
            after_round()
        return federation.vector, federation.size.steps

    monkeypatch.setattr(speed, "plain", slow)
    loop, own = speed.measure(replace(TINY, turns=2), [Contender("slower", contender)])
    assert (loop.rates, own.rates) == ([2 / 9] * 2, [2 / 8] * 2)
    assert own.share == own.processor_share == [9 / 8] * 2
