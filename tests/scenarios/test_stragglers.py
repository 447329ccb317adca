"""Stragglers: a synchronous round waits for them, over-selection and FedBuff do not; measured in virtual time."""

from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit import Result, load, run
from tacit.benchmarks.scale import fedbuff
from tacit.scenarios.command.main import app
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.seeing.plot import curves

OVER = ("training.share=0.75", "training.extra=3")
BUFFERED = ("protocol.name=fedbuff", "training.buffer=4")


@cache
def seconds_a_round(*changes: str, rounds: int = 4) -> float:
    changes = ("data.limit=360", "training.validation=0.0", f"training.rounds={rounds}", *changes)
    simulation = Simulation(load("training-stragglers", changes), engine="inline")
    try:
        result = simulation.run()
        assert (result.outcome, result.lost) == ("completed", [])
    finally:
        simulation.close()
    return (simulation.observer.ended[-1] - result.round_records[0].began) / rounds


def test_stragglers_make_synchronous_rounds_three_times_as_slow() -> None:
    assert seconds_a_round() / seconds_a_round("fault=[]") == pytest.approx(3.0, rel=0.02)


def test_over_selection_is_as_fast_as_without_stragglers() -> None:
    assert seconds_a_round(*OVER) <= 1.01 * seconds_a_round("fault=[]")


def test_fedbuff_moves_as_often_as_models_come() -> None:
    """In the time of an even round, nine clients answer, and three answer a third: ten models, four for each move."""
    assert seconds_a_round(*BUFFERED, rounds=40) == pytest.approx(seconds_a_round("fault=[]") * 4 / 10, rel=0.1)


@pytest.mark.long
def test_the_benchmark_states_the_time_at_which_each_method_reaches_the_target() -> None:
    even, fedavg, over, buffered, _ = fedbuff.measure(quick=True)
    assert None not in (even.until, fedavg.until, over.until, buffered.until)
    assert buffered.until < over.until < fedavg.until / 2
    assert fedavg.until == pytest.approx(3 * even.until, rel=0.02) and fedavg.models == even.models


@pytest.fixture(scope="module")
def asynchronous(tmp_path_factory: pytest.TempPathFactory) -> Result:
    changes = ["data.limit=240", "training.rounds=8", *BUFFERED]
    return run(load("training-stragglers", changes), out=tmp_path_factory.mktemp("buffered") / "run")


def test_rounds_and_curves_are_over_virtual_time(asynchronous: Result) -> None:
    folder = asynchronous.folder
    lines = (folder / "rounds.csv").read_text().splitlines()
    assert len(lines) == 9
    (curve,) = curves([folder], "time", "accuracy")
    assert [at for at, _ in curve.points] == sorted(at for at, _ in curve.points)
    assert curve.points[-1][0] <= asynchronous.virtual_seconds
    (staleness,) = curves([folder], "time", "staleness")
    assert staleness.points[0][1] == 0.0 and max(value for _, value in staleness.points) > 0.0


@pytest.mark.parametrize(("command", "shown"), [("events", "training is over"), ("bytes", "BufferedModel")])
def test_commands_show_events_and_bytes_of_an_asynchronous_run(asynchronous: Result, command: str, shown: str) -> None:
    done = CliRunner().invoke(app, [command, str(asynchronous.folder)])
    assert done.exit_code == 0, done.output
    assert shown in done.output


def test_the_formula_has_only_bytes_that_do_not_depend_on_the_run(tmp_path: Path) -> None:
    from tacit.scenarios.running.prediction import predicted

    scenario = load("training-stragglers", ["data.limit=240", "training.rounds=2", *OVER])
    folder = run(scenario, out=tmp_path / "over").folder
    found = predicted(folder, {"TrainingRound", "LocalModel", "Enroll"})
    assert found == {"TrainingRound": 2 * 12 * 4 * 650, "Enroll": 0}


def test_an_attacker_reads_the_single_models_that_fedbuff_sends(tmp_path: Path) -> None:
    changes = [
        "data.limit=360",
        "training.rounds=6",
        "attack.kind=membership",
        "attack.epochs=6",
        "attack.points=40",
        *BUFFERED,
    ]
    result = run(load("training-stragglers", changes), out=tmp_path / "attacked")
    assert result.vulnerability.types == ("BufferedModel",) and len(result.vulnerability.clients) >= 9


@pytest.mark.long
@pytest.mark.parametrize("changes", [OVER, BUFFERED], ids=["over-selection", "fedbuff"])
def test_the_trace_of_fedbuff_is_the_same_in_a_pool(changes: tuple[str, ...]) -> None:
    scenario, hashes = load("training-stragglers", ["data.limit=240", "training.rounds=3", *changes]), set()
    for engine in ("inline", "pool:2"):
        simulation = Simulation(scenario, engine=engine)
        try:
            result = simulation.run()
        finally:
            simulation.close()
        hashes.add((simulation.trace.trace_hash, simulation.trace.shape_hash, result.model_digest))
    assert len(hashes) == 1
