"""The exact odds of averages of models over rounds, compared with predicted runs."""

import math

import pytest
from scipy import stats
from typer.testing import CliRunner

from tacit.scenarios.command.main import app
from tacit.scenarios.files.dropouts import dropouts
from tacit.scenarios.files.odds import odds_of
from tacit.scenarios.files.reading import Loaded, read
from tacit.scenarios.sweeping.survival import exact_odds, survival_of

ROUNDS = 3
SMALL = ["fault=[]", "expect={}", "training.extra=0", "training.share=1", "data.limit=240", "data.labeled=1.0"]
SMALL += ["protocol.name=fedavg", f"training.rounds={ROUNDS}", "model.name=linear", "data.partition=iid", "client=[]"]
WORDS = ["sum.value_bits=8", "sum.clip=2.0"]
SHARE = 0.6
"""Two of three rounds need a result."""


def loaded(way: str, *changes: str) -> Loaded:
    words = [] if way in ("plain", "secure", "secagg+") else WORDS
    return read("training-stragglers", [*SMALL, *words, f"training.averaging={way}", *changes])


def left(clients: int, chance: float, least: int) -> float:
    """The probability that at least `least` of the clients are left, if each is lost with this chance."""
    return float(stats.binom.sf(least - 1, clients, 1 - chance))


def lost_early(result: float, nobody: float = 0.0) -> float:
    """The probability of two results or more in three rounds that may all be lost; the run fails if the last one is
    lost with all clients, which has the probability `nobody`."""
    return float(stats.binom.sf(1, ROUNDS, result)) - result**2 * nobody


def lost_late(result: float, nobody: float = 0.0) -> float:
    """The probability of a result in the first two rounds: a round that is lost after masking ends the run."""
    return result**2 * (1 - nobody)


EIGHT, TOLERANT = "data.clients=8", ("data.clients=12", "sum.tolerated_dropouts=0.2")
OF_A_COMMITTEE = sum(  # seven of twelve clients are members, of whom five must be left, and ten of all clients
    float(stats.binom.pmf(lost, 12, 0.1) * stats.hypergeom.cdf(2, 12, lost, 7)) for lost in range(5)
)
CASES = [
    ("plain", (EIGHT, "training.min_clients=6"), "25%@train.update", lost_early(left(8, 0.25, 6), 0.25**8)),
    ("secure", (EIGHT, "training.min_clients=6"), "20%@train.update", lost_early(left(8, 0.2, 6), 0.2**8)),
    ("secagg+", (EIGHT, "training.min_clients=6"), "20%@train.update", lost_early(left(8, 0.2, 6), 0.2**8)),
    ("lightsecagg", (EIGHT, "sum.tolerated_dropouts=0.3"), "15%@sum.mask", lost_late(left(8, 0.15, 6), 0.15**8)),
    ("committee", (*TOLERANT, "training.min_clients=8"), "10%@sum.mask", lost_late(OF_A_COMMITTEE, 0.1**12)),
    ("prio3", (EIGHT, "training.min_clients=6"), "2@train.update", 1.0),
    ("secure", (EIGHT, "training.min_clients=5"), "15%@sum.mask", lost_late(left(8, 0.15, 6), 0.15**8)),
    ("secagg+", ("data.clients=5", "training.min_clients=4"), "15%@sum.mask", lost_late(left(5, 0.15, 4), 0.15**5)),
    ("lightsecagg", (EIGHT, "training.min_clients=6"), "20%@setup.keys", lost_early(left(8, 0.2, 6), 0.2**8)),
    ("committee", (*TOLERANT, "training.min_clients=10"), "20%@train.update", lost_early(left(12, 0.2, 10), 0.2**12)),
    (
        "flamingo", ("data.clients=10", "sum.corrupt_clients=0.05", "training.min_clients=8"), "20%@train.update",
        lost_early(left(10, 0.2, 8), 0.2**10),
    ),
    (
        "plain", ("data.clients=10", "training.share=0.5", "training.min_clients=4"), "3@train.update",
        lost_early(float(stats.hypergeom.cdf(1, 10, 3, 5))),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("way", "changes", "loss", "wanted", "runs"),
    [*((*one, 4) for one in CASES[:6]), *(pytest.param(*one, 40, marks=pytest.mark.long) for one in CASES)],
)
def test_runs_survive_as_often_as_the_formula_of_their_sum_says(
    way: str, changes: tuple[str, ...], loss: str, wanted: float, runs: int
) -> None:
    found = survival_of(loaded(way, *changes), runs, [loss], share=SHARE)
    assert found.exact is not None
    assert found.exact.probability == pytest.approx(wanted, rel=1e-9)
    assert abs(found.probability - wanted) <= 3 * math.sqrt(wanted * (1 - wanted) / runs)


@pytest.mark.long
@pytest.mark.parametrize(("way", "changes", "step", "most"), [
    (way, changes, loss.partition("@")[2], most)
    for (way, changes, loss, _), most in zip(CASES[:-1], (2, 2, 2, 2, None, 2, 2, 1, 2, 2, 2), strict=True)
    if most
])  # fmt: skip
def test_a_formula_and_its_runs_tolerate_the_same_number_of_losses(
    way: str, changes: tuple[str, ...], step: str, most: int
) -> None:
    """Few runs with a given number of losses find a limit that is off by one, which many with drawn ones may miss."""
    for lost, survived in ((most, 1.0), (most + 1, 0.0)):
        found = survival_of(loaded(way, *changes), 2, [f"{lost}@{step}"], share=SHARE)
        assert found.exact is not None and found.exact.probability == pytest.approx(survived, abs=1e-9)
        assert found.probability == survived, lost


@pytest.mark.parametrize(
    ("changes", "loss"),
    [
        ((), ["10%"]),  # before any step
        ((), ["10%@train.update,back_after=never"]),  # fewer clients in each round
        ((), ["10%@sum.reveal"]),
        (("network.loss=0.1",), ["10%@train.update"]),
        (("protocol.identity=signed",), ["10%@train.update"]),
        (('fault=[{kind="crash",party="client/1",at="train.update"}]',), []),  # of one round
    ],
)
def test_no_formula_is_used_where_more_than_numbers_of_drawn_clients_decides(
    changes: tuple[str, ...], loss: list[str]
) -> None:
    scenario = loaded("lightsecagg", EIGHT, *changes).scenario
    assert odds_of(scenario, dropouts(loss, scenario)) is None


def test_losses_in_a_graph_have_no_formula_from_masking_on() -> None:
    scenario = loaded("secagg+", "data.clients=60").scenario
    assert odds_of(scenario, dropouts(["10%@sum.mask"], scenario)) is None
    assert odds_of(scenario, dropouts(["10%@train.update"], scenario)) is not None


def test_no_formula_is_used_where_a_run_without_losses_loses_clients() -> None:
    """Training takes longer than the deadline, which the numbers of clients do not show."""
    slow = loaded("plain", EIGHT, "protocol.deadline=5s", 'client=[{name="client/3",speed=1e-9}]').scenario
    found = dropouts(["10%@train.update"], slow)
    assert odds_of(slow, found) is not None and exact_odds(slow, found) is None


def test_a_formula_takes_the_place_of_runs_and_says_so() -> None:
    changes = [part for change in [*SMALL, EIGHT, "training.rounds=1"] for part in ("--set", change)]
    arguments = ["predict", "training-stragglers", *changes, "--runs", "500", "--loss", "25%@train.update"]
    result = CliRunner().invoke(app, [*arguments, "--survive", "0.5"])
    assert result.exit_code == 0
    words = " ".join(result.output.split())
    assert "20 of 500 are made: a formula gives the probability" in words
    assert "exact 1.000000 (binomial: a run needs 1 of 8 clients)" in words or "exact 0.9999" in words


def test_survival_says_that_it_does_not_include_an_expected_accuracy() -> None:
    changes = [part for change in [*SMALL, EIGHT, "training.rounds=2"] for part in ("--set", change)]
    arguments = ["predict", "training-stragglers", *changes, "--runs", "2", "--loss", "25%@train.update"]
    plain = " ".join(CliRunner().invoke(app, arguments).output.split())
    assert "in at least 2 of 2 rounds" in plain and "whatever its accuracy" not in plain
    asked = CliRunner().invoke(app, [*arguments, "--set", "expect.accuracy_at_least=0.9"]).output
    assert "whatever its accuracy: no prediction trains" in " ".join(asked.split())
