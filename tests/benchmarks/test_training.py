import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from benchmarks import training, training_peers
from benchmarks.__main__ import app
from benchmarks.training_size import Contender, Size
from parties.datasets import store

TINY = Size(rounds=2, turns=1, clients=5, images=8, cohort=2, batch=3)


def test_the_plain_loop_ends_with_the_very_model_that_tacit_ends_with(tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "own"))
    monkeypatch.setattr(training, "QUICK", TINY)
    monkeypatch.setattr(training_peers, "is_installed", lambda name: False)
    result = CliRunner().invoke(app, ["training", "--quick", "--json", str(tmp_path / "rounds.json")])
    assert result.exit_code == 0, result.output
    assert "pfl: pfl not installed: skipped" in result.output
    content = json.loads((tmp_path / "rounds.json").read_text())
    assert [one["contender"] for one in content["standings"]] == ["plain loop", "Tacit"]
    for one in content["standings"]:
        assert len(one["rates"]) == TINY.turns
        assert min(one["rates"]) > 0
    assert content["size"]["rounds"] == TINY.rounds
    assert store.root() == tmp_path / "own"  # the images were its own for as long as it ran


def test_a_contender_that_does_other_work_is_refused():
    def lazy(federation):
        vector, steps = training.plain(federation)
        return vector, steps - 1

    with pytest.raises(RuntimeError, match="lazy has taken 11 steps and a model of 434472 bytes, not 12"):
        training.measure(TINY, [Contender("lazy", lazy)])

    def other(federation):
        return training.plain(replace(federation, labels=9 - federation.labels))

    with pytest.raises(RuntimeError, match="have ended with different models"):
        training.measure(TINY, [Contender("plain", training.plain, same=True), Contender("other", other, same=True)])
