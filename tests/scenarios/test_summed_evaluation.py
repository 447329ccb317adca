"""Clients test the model with which a round begins, and its secure sum adds their figures."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tacit import Result, ScenarioError, load, predict, run
from tacit.parties.learning import jobs
from tacit.protocols.crypto.words import Quantised
from tacit.protocols.federated.averaging import Averages, SummedFigures
from tacit.protocols.federated.evaluation import ModelToTest
from tacit.protocols.federated.observer import TrainedRound
from tacit.scenarios.command.main import app
from tacit.scenarios.running.continuing import continue_for
from tacit.scenarios.running.folder import FolderError, byte_rows
from tacit.scenarios.running.runner import resume
from tacit.scenarios.running.simulation import Simulation

TINY = """
[data]
name = "digits"
clients = 6
limit = 240
labeled = 0.8
held_out = 0.3
[protocol]
name = "fedavg"
deadline = "5s"
[model]
name = "linear"
[training]
rounds = 3
epochs = 1
averaging = "secure"
evaluation = "secure"
checkpoint_every = 1
[network]
latency = "lognormal:20ms,0.5"
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of six clients whose figures are summed."""
    path = tmp_path_factory.mktemp("summed") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def calm(file: Path) -> Result:
    """The result of the run without faults."""
    return run(load(file), out=file.parent / "calm", engine="inline")


def figures(result: Result) -> list[dict[str, float]]:
    """The figures of each round."""
    found = [one.evaluation for one in result.round_records if isinstance(one, TrainedRound)]
    assert len(found) == len(result.round_records)
    return found


FEW = ["sum.value_bits=16", "training.weighting=equal"]
WAYS = {
    "secure": [],
    "secagg+": ["sum.value_bits=9"],
    "lightsecagg": [*FEW, "sum.tolerated_dropouts=0.2"],
    "committee": [*FEW, "sum.tolerated_dropouts=0"],
    "prio3": FEW,
    "flamingo": [],
}


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.long] * (way in ("secagg+", "flamingo"))) for way in WAYS]
)
def test_sums_are_those_of_figures_that_are_sent_in_plain(file: Path, tmp_path: Path, way: str) -> None:
    changes = [f"training.averaging={way}", "training.rounds=2", *WAYS[way]]
    plain = run(load(file, [*changes, "training.evaluation=plain"]), out=tmp_path / "plain", engine="inline")
    found = run(load(file, changes), out=tmp_path / "run", engine="inline")
    assert found.outcome == "completed" and found.equals_plaintext and not found.lost
    assert found.model_digest == plain.model_digest
    (oracle, _), (first, second) = figures(plain), figures(found)
    names = ("loss", "accuracy", "balanced_accuracy", "macro_f1", "clients", "points")
    assert set(second) == set(names) and first["clients"] == second["clients"] == 6
    for name in names:  # those of the model after the first round
        assert second[name] == pytest.approx(oracle[name], abs=1e-5 if name == "loss" else 1e-12)
    assert found.evaluation == second and found.evaluation_by_client == {}
    points = [{name: row["points"] for name, row in one.evaluation_by_class.items()} for one in (found, plain)]
    assert points[0] == points[1] and len(points[0]) == 10
    checked = CliRunner().invoke(app, ["bytes", str(found.folder), "--check"])
    assert checked.exit_code == 0, checked.output
    assert "ModelToTest" in {row.type for row in byte_rows(plain.folder)}
    assert "ModelToTest" not in {row.type for row in byte_rows(found.folder)}


def test_bytes_and_time_are_predicted(file: Path, calm: Result) -> None:
    predicted = predict(load(file), seeds=1)
    assert predicted.virtual_seconds == pytest.approx(calm.virtual_seconds)
    assert sum(row.total for row in predicted.rows) == calm.bytes_total
    none = predict(load(file, ["training.evaluation=none"]), seeds=1)
    masked, without = (sum(row.payload for row in one.rows if row.type == "MaskedChunk") for one in (predicted, none))
    assert masked - without == 3 * 6 * 8 * (1 + 1 + 10 * 10)  # rounds, clients, bytes of a number, figures


def test_models_are_tested_every_n_rounds_from_the_first_and_in_the_last(file: Path, tmp_path: Path) -> None:
    changes = ["training.rounds=4", "training.evaluate_every=2"]
    found = run(load(file, changes), out=tmp_path / "run", engine="pool:2")
    assert [bool(one) for one in figures(found)] == [True, False, True, True]
    assert sum(row.total for row in predict(load(file, changes), seeds=1).rows) == found.bytes_total


def test_a_client_lost_while_it_tests_is_in_neither_sum(file: Path, calm: Result, tmp_path: Path) -> None:
    struck = 'kind = "crash"\nparty = "client/1"\nbefore = "train.evaluate"\noccurrence = 2\nback_after = "9s"'
    (tmp_path / "tiny.toml").write_text(f"{TINY}[[fault]]\n{struck}\n")
    found = run(load(tmp_path / "tiny.toml"), out=tmp_path / "run", engine="inline")
    assert found.outcome == "completed" and found.equals_plaintext
    rounds = [one for one in found.round_records if isinstance(one, TrainedRound)]
    assert figures(found)[0] == figures(calm)[0] and figures(found)[1]["clients"] == 5
    assert "client/1" not in rounds[1].averaged and len(rounds[1].averaged) == 5
    assert figures(found)[1]["points"] < figures(calm)[1]["points"]


def test_a_lost_round_has_no_figures(file: Path, tmp_path: Path) -> None:
    struck = '[[fault]]\nkind = "crash"\nparty = "client/{}"\nbefore = "train.evaluate"\nround = 2\nback_after = "2s"\n'
    (tmp_path / "tiny.toml").write_text(TINY + "".join(struck.format(number) for number in range(4)))
    found = run(load(tmp_path / "tiny.toml"), out=tmp_path / "run", engine="inline")
    assert [bool(one) for one in figures(found)] == [True, False, True]


def test_figures_that_do_not_fit_are_zeros_and_the_model_stays_in_the_sum(
    file: Path, calm: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, done = jobs.evaluate, list[int]()

    def false(*arguments: object) -> bytes:
        sums = np.frombuffer(real(*arguments)).copy()  # type: ignore[arg-type]
        done.append(len(done))
        if len(done) == 1:
            sums[0] = np.nan
        if len(done) == 2:
            sums[0] = 1e12
        return sums.tobytes()

    monkeypatch.setattr("tacit.parties.learning.jobs.evaluate", false)
    found = run(load(file, ["training.rounds=1"]), out=tmp_path / "run", engine="inline")
    assert figures(found)[0]["clients"] == 4
    one = found.round_records[0]
    assert isinstance(one, TrainedRound) and len(one.averaged) == 6 and one.equals_plaintext and not found.lost


def test_a_server_that_asks_for_figures_by_themselves_gets_none(file: Path) -> None:
    simulation = Simulation(load(file, ["training.rounds=2"]), engine="inline")
    sent: list[str] = []
    simulation.server.world.taps.sent.append(lambda packet: sent.append(packet.type))
    server, real = simulation.server, simulation.server.average

    async def average(members: Sequence[str]) -> Averages:
        found = await real(members)
        server.advance(server.round, server.attempt + 1)
        server.broadcast(members, ModelToTest(server.model))
        return found

    server.average = average
    try:
        simulation.run()
    finally:
        simulation.close()
    assert sent.count("ModelToTest") == 12 and "Figures" not in sent and sent.count("MaskedChunk") == 12


def test_a_killed_and_resumed_run_has_the_same_figures(
    file: Path, calm: Result, break_off: Callable[..., None], tmp_path: Path
) -> None:
    break_off(file, tmp_path / "run", 200)
    found = resume(tmp_path / "run", engine="inline")
    assert found.resumed and found.trace_hash == calm.trace_hash and figures(found) == figures(calm)
    assert found.evaluation == calm.evaluation


def test_a_run_is_continued_only_where_its_last_round_would_have_had_figures_anyway(
    file: Path, calm: Result, tmp_path: Path
) -> None:
    run(load(file, ["training.rounds=2"]), out=tmp_path / "run", engine="inline")
    assert resume(continue_for(tmp_path / "run", "training.rounds", 3), engine="inline").trace_hash == calm.trace_hash
    run(load(file, ["training.rounds=2", "training.evaluate_every=2"]), out=tmp_path / "other", engine="inline")
    with pytest.raises(FolderError, match="clients have tested models in its last round"):
        continue_for(tmp_path / "other", "training.rounds", 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["training.averaging=plain"], r'"secure" adds figures in the secure sum .* and training.averaging is "plain"'),
        (["data.held_out=0"], r'no points of their own to test on, and training.evaluation is "secure"'),
        (["protocol.name=dp-fedavg", "privacy.epsilon=8"], "figures of labels without noise, which dp-fedavg"),
        (["protocol.name=fedbuff", "training.averaging=plain"], '"fedbuff" takes each model by itself'),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_an_error_before_the_run(file: Path, changes: list[str], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        load(file, changes)


@given(
    bits=st.integers(2, 32),
    clients=st.lists(
        st.tuples(st.integers(0, 2**24 - 2), st.floats(-(2.0**30), 2.0**30), st.booleans()), min_size=1, max_size=20
    ),
)
def test_sums_of_words_are_sums_of_figures(bits: int, clients: list[tuple[int, float, bool]]) -> None:
    form = SummedFigures((True, False, True))
    quantised = Quantised(bits, 1.0, len(clients))
    total = np.zeros(form.words(quantised), np.uint64)
    for points, loss, tested in clients:
        own = np.array([1.0, loss, points]) if tested else None
        assert own is None or not form.problem(own, quantised, 32, len(clients))
        words = form.encode(own, quantised)
        assert words.dtype == np.uint64 and len(words) == len(total) and int(words.max(initial=0)) <= quantised.largest
        total += words.astype(np.uint64)
    assert int(total.max()) < 1 << quantised.word_bits
    count, loss, points = form.decode(total, quantised).tolist()
    inside = [one for one in clients if one[2]]
    assert count == len(inside) and points == sum(one[0] for one in inside)
    assert loss == pytest.approx(sum(one[1] for one in inside), abs=len(clients) * 2**-16)
