"""The caution where a scenario's own faults would often leave a round without a sum of Flamingo or among neighbours."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit import load
from tacit.protocols.crypto.regular_graph import Tolerance
from tacit.protocols.sums import neighbours
from tacit.protocols.sums.flamingo import drawn_sums
from tacit.scenarios.command.main import app
from tacit.scenarios.files.odds import refusals_of
from tacit.scenarios.running.fates import fates_of
from tacit.scenarios.running.outlook import tolerance_cautions

SCENARIO = """
title = "Losses in each round"
seed = 1
[data]
name = "digits"
clients = 200
labeled = 1.0
[protocol]
name = "fedavg"
[model]
name = "linear"
[training]
averaging = "flamingo"
rounds = 50
min_clients = 120
[sum]
value_bits = 16
[[fault]]
kind = "crash"
party = "client/*"
share = 0.3
step = "sum.mask"
back_after = "0s"
"""
SMALL = ("data.clients=30", "training.min_clients=18")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "losses.toml"
    path.write_text(SCENARIO)
    return path


def test_a_sum_that_is_often_refused_gets_a_line_with_a_value_by_which_it_is_not(file: Path) -> None:
    (line,) = tolerance_cautions(load(file))
    found = refusals_of(load(file))
    assert found is not None and found.value == 0.23  # with 0.24, more than a third could be lost or corrupt
    assert 15 <= found.without <= 30 and found.fewer <= 10
    assert line == (
        f"fault.0.share = 0.3: {found.without} of 40 drawn rounds end without a sum of flamingo, as more clients may "
        f"be lost than sum.tolerated_dropouts(=0.1) allows for; with 0.23 it is {found.fewer}"
    )
    advised = refusals_of(load(file, ["sum.tolerated_dropouts=0.23"]))
    assert advised is not None and advised.without == found.fewer


def test_sums_among_neighbours_get_the_line_for_losses_of_those_that_have_dealt(file: Path) -> None:
    """Clients that are lost before they make keys are in no graph, which is drawn of the others."""
    in_graph = [*SMALL, "training.averaging=secagg+"]
    (line,) = tolerance_cautions(load(file, in_graph))
    found = refusals_of(load(file, in_graph))
    assert found is not None and found.value == 0.3
    assert 10 <= found.without <= 30 and found.fewer <= 5
    assert f"{found.without} of 40 drawn rounds end without a sum of secagg+" in line
    assert tolerance_cautions(load(file, [*in_graph, "fault.0.step=train.update"])) == []
    assert tolerance_cautions(load(file, [*in_graph, "sum.tolerated_dropouts=0.3"])) == []
    few = ["data.clients=5", "training.min_clients=2", "training.averaging=secagg+"]
    assert refusals_of(load(file, few)) is None  # a complete graph, of which a formula knows all


def test_drawn_sums_among_neighbours_need_the_least_clients_and_neighbours() -> None:
    tolerance = Tolerance()
    shares = [neighbours.drawn_sums(30, tolerance, 2, lost) for lost in (0.0, 0.2, 0.3, 0.4, 1.0)]
    assert shares == sorted(shares, reverse=True) and (shares[0], shares[-1]) == (40, 0)
    assert neighbours.drawn_sums(30, tolerance, 30, 0.2) == 0


@pytest.mark.parametrize(
    "changes",
    [
        ["fault.0.share=0.1"],
        ["fault=[]"],
        ["fault.0.step=sum.reveal"],  # its masked vector is in
        ["fault.0.round=3"],
        ["fault.0.party=client/1*"],
        ["training.averaging=secure"],
        ["training.averaging=plain", "fault.0.step=train.update"],
        ["expect.outcome=aborted"],
    ],
)
def test_other_losses_and_sums_get_none(file: Path, changes: list[str]) -> None:
    assert tolerance_cautions(load(file, changes)) == []


def test_a_count_is_a_share_and_of_any_step_only_those_up_to_masking_count(file: Path) -> None:
    crash = '{{kind="crash",party="client/*",{},back_after="0s"}}'
    ways = ('count=9,step="sum.mask"', 'share=0.3,step="sum.mask"', 'share=0.3,step="train.update"', "share=0.3")
    counted, masked, early, whenever = (
        refusals_of(load(file, [*SMALL, f"fault=[{crash.format(how)}]"])) for how in ways
    )
    assert counted == masked == early is not None
    assert whenever is None or whenever.without < masked.without


def test_two_faults_lose_those_that_either_strikes(file: Path) -> None:
    crash = '{{kind="crash",party="client/*",share={},step="sum.mask",back_after="0s"}}'
    twice = refusals_of(load(file, [*SMALL, f"fault=[{crash.format(0.2)},{crash.format(0.25)}]"]))
    once = refusals_of(load(file, [*SMALL, f"fault=[{crash.format(0.4)}]"]))  # 1 - 0.8 * 0.75
    assert twice is not None and once is not None and twice.keys == ("fault.0", "fault.1")
    assert (twice.without, twice.value, twice.fewer) == (once.without, once.value, once.fewer)


def test_predict_prints_the_line(file: Path) -> None:
    result = CliRunner().invoke(app, ["predict", str(file), *(f"--set={change}" for change in SMALL)])
    (line,) = [line for line in result.output.splitlines() if "drawn rounds" in line]
    assert line.startswith("WARNING  fault.0.share = 0.3: ")


@pytest.mark.long
@pytest.mark.parametrize("averaging", ["flamingo", "secagg+"])
def test_predicted_runs_of_one_round_end_without_a_sum_as_often_as_drawn_ones(file: Path, averaging: str) -> None:
    scenario = load(file, [*SMALL, "training.rounds=1", f"training.averaging={averaging}"])
    lost = sum(not one.completed for one in fates_of(scenario, range(24)))
    tolerance = Tolerance(0.1, 0.1, 40, 1)
    with_sum = (
        drawn_sums(30, None, tolerance, 18, 0.3)
        if averaging == "flamingo"
        else neighbours.drawn_sums(30, tolerance, 18, 0.3)
    )
    drawn = 40 - with_sum
    assert abs(lost / 24 - drawn / 40) < 0.4  # three standard deviations of the difference
