"""Predictions of many runs under losses: probabilities, draws of dropouts, and output."""

import json
import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.console import Console
from scipy import stats
from typer.testing import CliRunner, Result

import tacit
from tacit.benchmarks.survival.cases import CASES, case
from tacit.benchmarks.survival.shares import compared
from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.outcome import Reason
from tacit.protocols.registry import PROTOCOLS, using
from tacit.protocols.sums.committee import Committee
from tacit.protocols.sums.sum import FEW_VALUES
from tacit.scenarios.command import survival as survival_command
from tacit.scenarios.command.main import app
from tacit.scenarios.files.dropouts import dropouts
from tacit.scenarios.files.odds import odds_of
from tacit.scenarios.files.reading import load, read
from tacit.scenarios.running import outlook
from tacit.scenarios.running.fates import Fate, fates_of
from tacit.scenarios.running.kept_fates import Kept
from tacit.scenarios.running.outlook import cautions, survival_cautions
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.scenarios.sweeping import survival as survival_module
from tacit.scenarios.sweeping.survival import Survival, choose, enough_runs, left_open, survival_of, too_few, wilson
from tacit.sim.faults import Fault

TINY = ["protocol.hamming=plaintext", "protocol.bits=8", "protocol.k=3", "data.limit=60", "data.clients=6", "fault=[]"]
TINY += ["expect={}", "protocol.oracle=false"]
FOUR = [*TINY, "data.clients=4"]
SHAMIR = "protocol.recovery=secure"
FEDAVG = ["fault=[]", "expect={}", "training.rounds=1", "training.extra=0", "training.share=0.5", "data.clients=8"]
FEDAVG += ["training.min_clients=3", "data.limit=100", "protocol.name=fedavg"]


def tiny(*changes: str) -> Scenario:
    return read("xclp-digits", [*TINY, *changes]).scenario


def predict(*arguments: str | Path) -> Result:
    changes = [part for change in TINY for part in ("--set", change)]
    return CliRunner().invoke(app, ["predict", "xclp-digits", *changes, *map(str, arguments)])


# --- against real runs


@pytest.mark.parametrize("title", CASES)
def test_each_predicted_run_ends_like_the_real_run_with_its_seed(title: str) -> None:
    scenario = read(case(title)).scenario
    first = scenario.seed
    for fate in fates_of(scenario, range(first, first + 3)):
        with closing(Simulation(structs.replace(scenario, seed=fate.seed), engine="inline")) as simulation:
            real = simulation.run()
        assert (fate.outcome, fate.reason) == (real.outcome, real.reason)
        assert fate.reason.record() == Reason.of(real.reason).record()
        assert fate.seconds == pytest.approx(simulation.now, rel=1e-9)
        if title != "private-cells":  # its noise is drawn from the operating system
            assert fate.bytes == sum(row.payload + row.sealing + row.envelope for row in simulation.ledger.rows())
        places = {(loss.party, loss.step, loss.round) for loss in real.lost}
        assert sorted(fate.lost) == sorted((party, step) for party, step, _ in places)


@pytest.mark.long
@pytest.mark.parametrize("title", CASES)
def test_the_share_of_completed_real_runs_equals_the_predicted_one(title: str) -> None:
    """25 runs reveal a prediction that is wrong for one seed of nine with a probability of 95 %."""
    found = compared(title, 25)
    assert found.apart <= 3 and not found.otherwise


# --- against exact formulas


def probability_of_enough(clients: int, chance: float, least: int) -> float:
    """The probability that at least `least` of the clients are left, if each is lost with this chance."""
    return float(stats.binom.sf(least - 1, clients, 1 - chance))


EXACT = [
    ("xclp-digits", FOUR, "40%@setup.keys", probability_of_enough(4, 0.4, 3)),
    ("xclp-digits", [*FOUR, SHAMIR], "45%@rowsums.reveal", probability_of_enough(4, 0.45, 3)),
    ("training-stragglers", FEDAVG, "30%@train.update", probability_of_enough(4, 0.3, 3)),
    ("training-stragglers", FEDAVG, "4@train.update", float(stats.hypergeom.cdf(1, 8, 4, 4))),
    ("xclp-digits", FOUR, "0.35@rowsums.mask", probability_of_enough(4, 0.35, 3)),
    ("xclp-digits", [*FOUR, SHAMIR, "protocol.threshold=4"], "15%@lsh.hash", probability_of_enough(4, 0.15, 4)),
]


@pytest.mark.parametrize(
    ("name", "changes", "loss", "exact", "runs"),
    [*((*one, 20) for one in EXACT[:4]), *(pytest.param(*one, 60, marks=pytest.mark.long) for one in EXACT)],
)
def test_predictions_agree_with_exact_formulas(
    name: str, changes: list[str], loss: str, exact: float, runs: int
) -> None:
    found = survival_of(read(name, changes), runs, [loss])
    assert found.exact is not None
    assert found.exact.probability == pytest.approx(exact, rel=1e-12)
    assert abs(found.probability - exact) <= 3 * math.sqrt(exact * (1 - exact) / runs)


COMMITTEE = [one for one in FEDAVG if not one.startswith(("training.share", "data.clients"))]
COMMITTEE += ["data.clients=12", "training.averaging=committee", "sum.value_bits=12", "sum.clip=1.0"]
COMMITTEE += ["sum.tolerated_dropouts=0.2", "sum.corrupt_clients=0.1"]


OF_A_COMMITTEE = [
    ("5@sum.reveal", float(stats.hypergeom.cdf(2, 12, 5, 7))),
    ("30%@sum.hold", probability_of_enough(7, 0.3, 5)),
    ("6@sum.sign", float(stats.hypergeom.cdf(2, 12, 6, 7))),
]


@pytest.mark.parametrize(
    ("loss", "exact", "runs"),
    [
        *((*one, 16) for one in OF_A_COMMITTEE[:2]),
        *(pytest.param(*one, 60, marks=pytest.mark.long) for one in OF_A_COMMITTEE),
    ],
)
def test_a_committee_is_lost_as_often_as_the_hypergeometric_tail_says(loss: str, exact: float, runs: int) -> None:
    """Seven of twelve clients are members, of which two may be lost; other clients have no such step."""
    loaded = read("training-stragglers", COMMITTEE)
    among = Committee.among(12, Assumed.of(12, 0.1, 0.2))
    assert (among.members, among.tolerated) == (7, 2)
    found = survival_of(loaded, runs, [loss])
    assert abs(found.probability - exact) <= 3 * math.sqrt(exact * (1 - exact) / runs)


@pytest.mark.long
@pytest.mark.parametrize("recovery", ["restart", "secure"])
def test_several_dropouts_and_certain_losses_agree_with_the_formula(recovery: str) -> None:
    certain = 'fault=[{kind="crash",party="client/2",at="lsh.hash"}]'
    loaded = read("xclp-digits", [*TINY, f"protocol.recovery={recovery}", "protocol.min_clients=4", certain])
    found = survival_of(loaded, 60, ["10%@setup.keys", "15%@rowsums.mask"])
    assert found.exact is not None
    exact = found.exact.probability
    assert abs(found.probability - exact) <= 3 * math.sqrt(exact * (1 - exact) / 60)


def test_no_formula_is_given_for_losses_without_one() -> None:
    some = dropouts(["10%"], tiny())
    assert odds_of(tiny(), some) is None
    lossy = tiny("network.loss=0.1", "network.transport=datagram")
    assert odds_of(lossy, dropouts(["10%@lsh.hash"], lossy)) is None
    repeated = tiny('fault=[{kind="crash",party="client/*",at="rowsums.mask",probability=0.1}]')
    assert odds_of(repeated) is None


# --- numbers


@given(st.integers(1, 5000).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs))))
def test_the_confidence_interval_is_wilsons(counts: tuple[int, int]) -> None:
    successes, runs = counts
    low, high = wilson(successes, runs)
    known = stats.binomtest(successes, runs).proportion_ci(0.95, "wilson")
    assert (low, high) == pytest.approx((known.low, known.high), abs=1e-9)


@given(st.floats(0.01, 0.9999))
def test_the_required_number_of_runs_is_minimal(probability: float) -> None:
    runs = enough_runs(probability)
    assert wilson(runs, runs)[0] >= probability
    assert runs < 3 or wilson(runs - 2, runs - 2)[0] < probability


# --- dropouts


SIX = tiny()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "10%@lsh.hash",
            "each client crashes in each round with a chance of 0.1 before lsh.hash, until the next round",
        ),
        ("1,back_after=never", "1 client, drawn in each round, crashes before any step of it, for good"),
        (
            "2@lsh.hash,party=client/[0-3],back_after=5s",
            "2 clients of client/[0-3], drawn in each round, crash before lsh.hash, back after 5s",
        ),
        ("0%", "nobody"),
    ],
)
def test_a_dropout_is_described_in_words(text: str, words: str) -> None:
    assert dropouts([text], SIX)[0].words() == words


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ten", "no share of the clients"),
        ("120%", "is no chance"),
        ("7", "more than the 6 clients"),
        ("10%@sum.mask", "is not a step of a client in xclp"),
        ("10%@lsh.hsh", "did you mean lsh.hash"),
        ("10%,party=server", "is not a party|means the server"),
        ("10%,party=client/9", "is not a party"),
        ("10%,back_after=soon", "back_after"),
        ("10%,again=3s", "is not known"),
    ],
)
def test_invalid_dropouts_are_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        dropouts([text], SIX)


# --- the command and Python


def line_of(subject: str, printed: str) -> str:
    (line,) = [line for line in printed.splitlines() if line.startswith(subject)]
    return line.removeprefix(subject).strip()


def test_the_command_prints_and_writes_the_predicted_survival(tmp_path: Path) -> None:
    files = "--json", tmp_path / "found.json", "--html", tmp_path / "page.html"
    done = predict("--runs", "6", "--loss", "30%@rowsums.mask", "--survive", "0.5", *files)
    assert done.exit_code == 0, done.output
    (found,) = json.loads((tmp_path / "found.json").read_text())["survival"]
    assert (found["runs"], found["loss"]) == (6, ["30%@rowsums.mask"])
    assert found["interval"] == list(wilson(found["survived"], 6))
    assert {place["step"] for place in found["lost_at"]} == {"rowsums.mask"}
    assert f"({found['survived']} of 6 runs; " in done.stdout
    assert "95th percentile" in done.stdout and "rowsums.mask" in done.stdout
    page = (tmp_path / "page.html").read_text()
    assert "Distributions" in page and f"Target: {line_of('target', done.stdout)}." in page
    again = predict("--runs", "6", "--loss", "30%@rowsums.mask", "--json", "-", "--jobs", "1")
    assert json.loads(again.stdout)["survival"] == [found]


def test_the_cheapest_surviving_combination_is_named(tmp_path: Path) -> None:
    done = predict("--runs", "6", "--loss", "30%@lsh.hash", "--over", "data.clients=3,10", "--survive", "0.9")
    assert done.exit_code == 0, done.output
    assert "cheapest  by bytes" in done.stdout and "data.clients = 10" in done.stdout
    files = "--html", tmp_path / "page.html"
    none = predict("--runs", "6", "--over", "protocol.deadline=5s,50s", "--survive", "0.999", *files)
    warning, end = none.stdout.index(f"--runs {enough_runs(0.999)} or more"), none.stdout.index("cheapest  none")
    assert warning < end  # the warning is printed before the runs
    verdict = f"not shown: 6 runs do not show a probability of 0.999; {enough_runs(0.999):,} runs that all survive"
    assert f"open      protocol.deadline = 5s; protocol.deadline = 50s: {verdict}" in none.stdout
    assert f"protocol.deadline = 5s: {verdict}" in (tmp_path / "page.html").read_text()


@given(st.integers(1, 60), st.integers(0, 60), st.sampled_from([0.5, 0.9, 0.999, 1.0]))
def test_a_verdict_follows_from_the_confidence_interval(runs: int, lost: int, wanted: float) -> None:
    fate = Fate(0, "completed", Reason(), 0, 0.0, 0, ())
    end = structs.replace(fate, outcome="aborted")
    fates = [fate] * (runs - min(runs, lost)) + [end] * min(runs, lost)
    found = Survival((), PLAIN, (), tuple(fates))
    low, high = found.interval
    begin = "yes" if low >= wanted else "no:" if high < wanted else "not shown"
    assert found.verdict(wanted).startswith(begin)
    assert found.may_survive(wanted) == (begin == "not shown")
    if begin == "not shown" and found.completed == runs and wanted < 1:
        assert f"{enough_runs(wanted):,} runs that all survive" in found.verdict(wanted)


PLAIN = read("xclp-digits", TINY)


def test_cheaper_combinations_that_may_survive_are_named() -> None:
    """Completed runs of 20: 19 for the second cheapest combination, 20 for costlier ones, and 12 for the cheapest."""
    good = Fate(0, "completed", Reason(), 100, 1.0, 0, ())

    def of(completed: int, size: int) -> Survival:
        fates = [structs.replace(good, bytes=size)] * completed + [structs.replace(good, outcome="aborted")] * (
            20 - completed
        )
        return Survival((), PLAIN, (), tuple(fates))

    found = [of(20, 300), of(19, 200), of(12, 10), of(20, 400)]
    assert choose(found, "bytes", 0.8) is found[0]
    assert left_open(found, "bytes", 0.8) == [found[1]]
    assert choose(found, "bytes", 0.9) is None
    assert left_open(found, "bytes", 0.9) == [found[1], found[0], found[3]]
    assert choose(found, "bytes", None) is found[2]


def test_reasons_that_differ_in_numbers_are_counted_together() -> None:
    lost = "round {number} is lost: {why}"
    reasons = (
        Reason(lost, number=1, why=Reason(FEW_VALUES, count=7, needed=8)),
        Reason(lost, number=3, why=Reason(FEW_VALUES, count=10, needed=8)).with_lost(["client/1"]),
        Reason(lost, number=2, why="the server was lost in it"),
        Reason("no answer after {after:g} s of {clients}", after=2.5, clients=["client/3", "client/14"]),
        Reason("no answer after {after:g} s of {clients}", after=2.5, clients=["client/2"]),
        *(Reason("{points:,} points", points=points) for points in (1200, 900, 800)),
    )
    ends = [Fate(place, "aborted", reason, 0, 0.0, 1, ()) for place, reason in enumerate(reasons)]
    assert Survival((), PLAIN, (), tuple(ends)).endings() == [
        ("aborted: 800 to 1,200 points", 3),
        ("aborted: round 1 to 3 is lost: masked values of 7 to 10 clients were received; 8 are needed", 2),
        ("aborted: no answer after 2.5 s of some clients", 2),
        ("aborted: round 2 is lost: the server was lost in it", 1),
    ]


def test_different_texts_of_reasons_are_counted_separately() -> None:
    """A protocol of the user's may end a run with a text: its numbers and names are not read out of it."""
    texts = ["1,200 points of {client/1}", "900 points of {client/2}", "1,200 points of {client/1}", ""]
    ends = [Fate(place, "aborted", Reason.of(text), 0, 0.0, 1, ()) for place, text in enumerate(texts)]
    assert Survival((), PLAIN, (), tuple(ends)).endings() == [
        ("aborted: 1,200 points of {client/1}", 2),
        ("aborted: 900 points of {client/2}", 1),
        ("aborted: no reason", 1),
    ]


def test_lost_parties_and_steps_are_counted_by_runs() -> None:
    """A party lost at a step in several rounds of one run counts once as lost, and each time as a loss."""
    twice = Fate(0, "completed", Reason(), 0, 0.0, 0, (("client/1", "a"), ("client/1", "a"), ("client/2", "b")))
    once = Fate(1, "completed", Reason(), 0, 0.0, 0, (("client/2", "a"), ("client/1", "a")))
    found = Survival((), PLAIN, (), (twice, once))
    assert found.steps() == [("a", 2, 2.0), ("b", 1, 0.5)]
    assert found.parties_at("a") == [("client/1", 2), ("client/2", 1)]
    assert found.parties_at("b") == [("client/2", 1)]
    assert found.parties() == [("client/1", 2), ("client/2", 2)]
    assert found.record()["lost_at"][0] == {
        "step": "a", "runs": 2, "losses_a_run": 2.0, "parties": {"client/1": 2, "client/2": 1},
    }  # fmt: skip


def test_among_equal_costs_the_choice_with_fewer_lost_rounds_is_named() -> None:
    one = Fate(0, "completed", Reason(), 100_000, 1.0, 2, (), rounds=40)
    found = [Survival((), PLAIN, (), (structs.replace(one, bytes=size, rounds_lost=lost),))
             for size, lost in ((100_010, 3), (100_020, 1), (101_000, 0))]  # fmt: skip
    assert choose(found, "bytes", None) is found[1]


# --- survival and the rounds of a run


@pytest.mark.parametrize(("share", "needed"), [(0.9, 18), (0.0, 1), (0.05, 1), (0.06, 2), (1.0, 20)])
def test_a_run_survives_if_it_completes_and_enough_of_its_rounds_have_a_result(share: float, needed: int) -> None:
    fates = [Fate(lost, "completed", Reason(), 0, 0.0, lost, (), rounds=20) for lost in range(21)]
    fates.append(Fate(21, "aborted", Reason(), 0, 0.0, 0, (), rounds=20))
    found = Survival((), PLAIN, (), tuple(fates), share=share)
    assert (found.survived, found.completed, found.runs) == (21 - needed, 21, 22)
    assert found.need == f"completes with a result in at least {needed} of 20 rounds"
    assert found.interval == wilson(21 - needed, 22)
    record = found.record()
    assert (record["survived"], record["rounds"], record["rounds_needed"]) == (21 - needed, 20, needed)


LOSING = ["fault=[]", "expect={}", "protocol.name=fedavg", "data.clients=4", "data.limit=60", "training.rounds=6"]
LOSING += ["training.min_clients=3", "training.share=1.0", "training.extra=0", "protocol.deadline=5s"]


def test_runs_that_train_few_of_their_rounds_do_not_survive_and_the_output_says_so() -> None:
    loaded = read("training-stragglers", LOSING)
    found = survival_of(loaded, 8, ["70%@train.update,party=client/[1-3]"])
    few = found.completed - found.survived
    assert few > 1
    assert ("completed with a result in fewer than 6 of 6 rounds", few) in found.endings()
    changes = [part for change in LOSING for part in ("--set", change)]
    arguments = [
        "predict",
        "training-stragglers",
        *changes,
        "--runs",
        "8",
        "--loss",
        "70%@train.update,party=client/[1-3]",
    ]
    printed = CliRunner().invoke(app, [*arguments, "--survive", "0.5"]).stdout
    assert line_of("survives", printed).startswith(f"{found.probability:.4f}   ({found.survived} of 8 runs; ")
    assert "a run survives if it completes with a result in at least 6 of 6 rounds" in printed
    assert line_of("completes", printed).endswith(f"   ({found.completed} of 8 runs)")
    assert line_of("target", printed).startswith("no: ")
    printed = CliRunner().invoke(app, [*arguments, "--rounds", "0"]).stdout
    assert f"({found.completed} of 8 runs; " in printed and "\ncompletes" not in printed


def test_clients_that_a_dropout_strikes_are_back_in_the_next_round_unless_they_never_return() -> None:
    loaded = read("training-stragglers", LOSING)
    back = survival_of(loaded, 2, ["1@train.update"])
    assert [len(fate.lost) for fate in back.fates] == [6, 6] and back.survived == 2
    gone = survival_of(loaded, 2, ["1@train.update,back_after=never"])
    assert not gone.survived


def test_the_losses_of_the_option_may_be_in_the_scenario_and_strike_its_run_as_predicted() -> None:
    fault = '{kind="crash",party="client/*",share=0.4,step="any",back_after="0s"}'
    changes = [*(one for one in LOSING if one != "fault=[]"), f"fault=[{fault}]"]
    scenario = read("training-stragglers", changes).scenario
    (fate,) = fates_of(scenario, [scenario.seed])
    (option,) = survival_of(read("training-stragglers", LOSING), 1, ["40%"]).fates
    assert option == fate and fate.lost
    with closing(Simulation(scenario, engine="inline")) as simulation:
        end = simulation.run()
    assert {(loss.party, loss.step) for loss in end.lost} == set(fate.lost)
    assert simulation.now == pytest.approx(fate.seconds)


def test_clients_that_are_drawn_and_never_return_get_a_caution() -> None:
    gone = '{kind="crash",party="client/*",share=0.2,step="any"}'
    scenario = read("training-stragglers", [*LOSING[1:], f"fault=[{gone}]"]).scenario
    assert any(
        "fault.0.share = 0.2 without back_after, 26.2% of the clients are left" in one for one in cautions(scenario)
    )


# --- interrupted predictions


def test_runs_that_have_ended_are_kept_and_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, made = tmp_path / "kept.jsonl", []
    whole = survival_of(PLAIN, 6, ["30%@rowsums.mask"])

    def counted(scenario: Scenario, seeds: Sequence[int], where: str = "", *watch: Any) -> list[Fate]:
        if len(made) == 4:
            raise KeyboardInterrupt
        made.extend(seeds)
        return fates_of(scenario, seeds, where)

    monkeypatch.setattr(survival_module, "fates_of", counted)
    found = survival_of(PLAIN, 6, ["30%@rowsums.mask"], kept=Kept(file), partial=True)
    assert found.interrupted and found.fates == whole.fates[:4]
    with pytest.raises(KeyboardInterrupt):
        survival_of(PLAIN, 6, ["30%@rowsums.mask"])
    made.clear()
    with file.open("ab") as end:
        end.write(b'{"scenario":"cut o')  # of a process that was killed
    again = survival_of(PLAIN, 6, ["30%@rowsums.mask"], kept=Kept(file))
    assert len(made) == 2 and again.fates == whole.fates and not again.interrupted
    made.clear()
    other = survival_of(PLAIN, 2, ["20%@rowsums.mask"], kept=Kept(file))
    assert len(made) == 2 and not other.interrupted


def test_a_long_first_run_shows_its_rounds_and_the_time_of_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round takes 10 s: 40 s for each of 9 runs, two at a time; what comes before the first round is not repeated."""
    clock, out, shown = [0.0], Console(record=True, width=200), list[str]()
    monkeypatch.setattr(survival_command, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    report = survival_command._Report(out, lambda what, done, runs: shown.append(what), "phones", 1, 2)
    report(0, 0, 9, 0.0)
    for number in (1, 2, 3, 4):
        clock[0] += 100.0 if number == 1 else 10.0
        report.round(number, 4)
    assert shown[1:] == [f"phones: the first run, round {number} of 4" for number in (2, 3, 4)]
    (line,) = out.export_text(clear=False).splitlines()
    assert line == (
        "time      about 3 min 20 s for 9 runs, 2 at a time: about 40 s for the first one, by its first 1 of 4 rounds"
    )


def test_the_rounds_of_the_first_run_are_seen_as_they_begin() -> None:
    scenario = load("fedavg-xclp-digits", ["protocol.name=fedavg", "training.rounds=3", "data.limit=200", "expect={}"])
    seen = list[tuple[int, int]]()
    watched = fates_of(scenario, [1], "", lambda number, rounds: seen.append((number, rounds)))
    assert seen == [(1, 3), (2, 3), (3, 3)] and watched == fates_of(scenario, [1])


def test_a_file_of_kept_runs_with_other_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    with pytest.raises(ScenarioError, match="line 1 is no result of a run"):
        Kept(tmp_path / "notes.txt")
    with pytest.raises(ScenarioError, match="No such file"):
        survival_of(PLAIN, 1, kept=Kept(tmp_path / "no" / "kept.jsonl"))


def test_an_interrupted_command_prints_and_writes_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(scenario: Scenario, seeds: Sequence[int], where: str = "", *watch: Any) -> list[Fate]:
        if len(made) == 3:
            raise KeyboardInterrupt
        made.extend(seeds)
        return fates_of(scenario, seeds, where)

    monkeypatch.setattr(survival_module, "fates_of", counted)
    done = predict("--runs", "9", "--json", tmp_path / "found.json", "--html", tmp_path / "page.html")
    assert done.exit_code == 130
    assert "3 of 3 runs" in line_of("survives", done.stdout)
    assert "interrupted after 3 of 9 runs" in done.output
    record = json.loads((tmp_path / "found.json").read_text())
    assert record["interrupted"] and record["survival"][0]["runs"] == 3
    page = (tmp_path / "page.html").read_text()
    assert "interrupted" in page and "--runs 9 --set protocol.hamming=plaintext" in page
    assert "Survival of xclp-digits" in page and "at least" in page


def test_a_command_that_is_interrupted_in_its_first_run_says_that_it_has_no_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> list[Fate]:
        raise KeyboardInterrupt

    monkeypatch.setattr(survival_module, "fates_of", interrupted)
    found, kept = tmp_path / "found.json", tmp_path / "kept.jsonl"
    done = predict("--runs", "9", "--json", found, "--resume", kept)
    assert done.exit_code == 130 and "no run has ended" in done.output and not (found.exists() or kept.exists())


def test_too_few_runs_for_a_target_are_reported_before_the_first_run() -> None:
    assert "no number of runs does" in too_few([SIX], 100, [], 1.0)
    assert too_few([SIX], enough_runs(0.9), [], 0.9) == too_few([SIX], 1, [], None) == ""
    assert f"--runs {enough_runs(0.9)} or more can" in too_few([SIX], 5, [], 0.9)
    assert too_few([SIX], 5, ["10%@setup.keys"], 0.999) == ""  # a formula applies
    with pytest.raises(ScenarioError, match="not a step"):
        too_few([SIX], 5, ["10%@sum.mask"], None)


@pytest.mark.parametrize(
    "arguments", [["--loss", "10%"], ["--survive", "0.9"], ["--runs", "5", "--seeds", "2"], ["--html", "page.html"]]
)
def test_incompatible_options_are_refused(arguments: list[str]) -> None:
    done = predict(*arguments)
    assert done.exit_code == 2
    assert "--runs" in done.output


def test_the_python_interface_gives_the_same_prediction() -> None:
    found = tacit.predict(SIX, runs=6, loss=["2@lsh.hash"])
    assert (found.runs, found.completed, found.survived) == (6, 6, 6)
    assert [line["lost"] for line in found.lines()] == [2] * 6
    assert found.steps() == [("lsh.hash", 6, 2.0)]
    with pytest.raises(ValueError, match="loss needs runs"):
        tacit.predict(SIX, loss=["10%"])


# --- before a run


def with_crashes(chance: float | None, at: str, party: str = "client/*") -> Scenario:
    given = {} if chance is None else {"probability": chance}
    return structs.replace(SIX, fault=(Fault(kind="crash", party=party, at=at, **given),))


@pytest.mark.usefixtures("whole_outlook")
def test_a_scenario_that_rarely_completes_gets_a_caution_with_its_keys() -> None:
    (line,) = [one for one in cautions(with_crashes(0.7, "lsh.hash")) if "completes" in one]
    assert line.startswith("fault.0.probability = 0.7 at lsh.hash")
    assert "protocol.min_clients = 3" in line
    (line,) = [one for one in cautions(with_crashes(None, "lsh.hash", "client/[0-3]")) if "completes" in one]
    assert "a probability of 0," in line
    (line,) = [one for one in cautions(with_crashes(0.8, "rowsums.mask")) if "with the seeds" in one]
    assert "fault.0.probability = 0.8" in line


@pytest.mark.usefixtures("whole_outlook")
def test_trials_before_a_run_change_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = structs.replace(with_crashes(0.8, "rowsums.mask"), engine="inline")
    tried = tacit.run(scenario, out=tmp_path / "tried")
    assert any("with the seeds" in line for line in tried.warnings)
    monkeypatch.setattr(outlook, "_TRIALS", {})
    untried = tacit.run(scenario, out=tmp_path / "untried")
    assert not any("with the seeds" in line for line in untried.warnings)
    assert (tried.trace_hash, tried.outcome) == (untried.trace_hash, untried.outcome)


@pytest.mark.usefixtures("whole_outlook")
def test_scenarios_that_mostly_complete_or_expect_an_abort_get_no_caution() -> None:
    expected = structs.replace(with_crashes(0.9, "lsh.hash"), expect=tacit.Expect(outcome="aborted"))
    for scenario in (SIX, with_crashes(0.1, "lsh.hash"), with_crashes(0.1, "rowsums.mask"), expected):
        assert [one for one in cautions(scenario) if "complete" in one] == []


SUMS = {
    "plain": (), "secure": (), "secagg+": (), "flamingo": (), "lightsecagg": ("sum.value_bits=16",),
    "committee": ("sum.value_bits=16",), "prio3": ("sum.value_bits=16",),
}  # fmt: skip


def averaged(averaging: str, *changes: str) -> Scenario:
    two_rounds = ("training.rounds=2", "training.epochs=1", "training.extra=0", "model.name=linear")
    own = (f"training.averaging={averaging}", *SUMS[averaging], "protocol.name=fedavg", "protocol.deadline=10s")
    return tiny(*two_rounds, "training.min_clients=4", *own, *changes)


LOSSES = (
    ("fault=[{kind='crash',party='client/*',at='train.update',probability=0.8}]", "fault.0.probability = 0.8"),
    ("fault=[{kind='crash',party='client/[0-4]',at='train.update'}]", 'fault.0.kind = "crash"'),
    ("client=[{loss=0.97}]", "client.0.loss = 0.97"),
    ("client=[{share=0.9,speed=1e-9}]", "client.0.speed = 1e-09"),
    ("link=[{party='server',peer='client/*',loss=0.97}]", "link.0"),
    ("network.loss=0.95", "network.loss = 0.95"),
)
"""Losses that end most runs, with the key that is named; the tests that are not long take each with some sums."""


@pytest.mark.usefixtures("whole_outlook")
@pytest.mark.parametrize(
    ("averaging", "losses", "key"),
    [
        pytest.param(averaging, losses, key, marks=[pytest.mark.long] * ((turn + place) % 3 > 0))
        for turn, averaging in enumerate(SUMS)
        for place, (losses, key) in enumerate(LOSSES)
    ],
)
def test_every_sum_gets_a_caution_for_every_kind_of_loss_that_ends_most_runs(
    averaging: str, losses: str, key: str
) -> None:
    (line,) = survival_cautions(averaged(averaging, losses))
    assert line.startswith(f"{key} at train.update: " if key.startswith("fault") else f"{key}: ")
    ends = ("failed: every client was lost",) if "loss" in losses else ("aborted: ",)  # who never enrols is lost
    assert "complete" in line and line.partition("most are ")[2].startswith(ends)


@pytest.mark.usefixtures("whole_outlook")
@pytest.mark.parametrize("votes", ["plain", "secure", "prio3"])
def test_votes_that_rarely_complete_get_a_caution(votes: str) -> None:
    def voting(chance: float) -> list[str]:
        fault = f"fault=[{{kind='crash',party='client/*',at='cotrain.predict',probability={chance}}}]"
        few = ("cotraining.rounds=2", "learner.steps=2", "public.size=0.4", "training.min_clients=4")
        return survival_cautions(tiny("protocol.name=fedct", f"cotraining.votes={votes}", fault, *few))

    (line,) = voting(0.8)
    assert line.startswith("fault.0.probability = 0.8 at cotrain.predict: of ")
    assert voting(0.05) == []


@pytest.mark.usefixtures("whole_outlook")
def test_a_caution_names_only_the_keys_that_cause_the_losses() -> None:
    slow, away = "{name='client/0',preset='4g'}", "{name='client/[1-5]',loss=0.97}"
    (line,) = survival_cautions(averaged("secure", f"client=[{slow},{away}]", "network.loss=0.001"))
    assert line.startswith("client.1.loss = 0.97: of ")
    both = "{kind='crash',party='client/[0-2]',at='sum.mask'},{kind='crash',party='client/[3-5]',at='train.update'}"
    (line,) = survival_cautions(averaged("secure", f"fault=[{both}]"))  # each fault by itself loses too many clients
    assert line.startswith('fault.0.kind = "crash" at sum.mask and fault.1.kind = "crash" at train.update: of 2 runs')


@pytest.mark.usefixtures("whole_outlook")
def test_an_availability_that_ends_most_runs_is_named(tmp_path: Path) -> None:
    (tmp_path / "away.csv").write_text("trace,up,down\na,0,1us\nb,0,1us\nc,0,\n")
    (line,) = survival_cautions(averaged("secure", f"client=[{{availability='{tmp_path}/away.csv'}}]"))
    assert line.startswith("client.0.availability = ")


@pytest.mark.parametrize("extra", [(), ("protocol.recovery=secure",), ("training.averaging=secagg+",)])
def test_thresholds_that_no_run_can_reach_are_errors_in_every_protocol(extra: tuple[str, ...]) -> None:
    few = ["data.clients=5", "public.size=0.4", "sum.value_bits=16", *TINY[:4], *TINY[5:], *extra]
    for protocol in sorted({*(using(extra[0].partition("=")[0]) if extra else PROTOCOLS)} - {"flower"}):
        for key in BOUNDED:
            try:
                loaded = read("xclp-digits", [*few, f"protocol.name={protocol}", f"{key}=50"])
            except ScenarioError as error:
                _, _, name = key.partition(".")
                refused = extra and error.key == extra[0].partition("=")[0]  # this protocol has no such average
                assert refused or name in f"{error.key} {error.problem}", (protocol, key, str(error))
            else:
                assert key in {*loaded.unused, *loaded.needless}, (protocol, key)


BOUNDED = (
    "protocol.threshold", "protocol.min_clients", "protocol.groups", "training.min_clients", "training.buffer",
    "training.concurrency",
)  # fmt: skip


def test_a_threshold_without_effect_is_reported() -> None:
    done = predict("--runs", "1", "--set", "protocol.name=fedavg", "--set", "protocol.threshold=50")
    assert "protocol.threshold: not a key of fedavg" in done.stdout


def test_energy_has_a_distribution_and_is_minimized() -> None:
    counted = ["--set", "device.radio=4g", "--set", "device.processor=2"]
    done = predict("--runs", "4", "--json", "-", *counted)
    (found,) = json.loads(done.stdout)["survival"]
    assert found["figures"]["most_joules"]["all"]["mean"] < found["figures"]["joules"]["all"]["mean"]
    one = json.loads(predict("--seeds", "1", "--json", "-", *counted).stdout)["predicted"][0]
    fate = tacit.predict(tiny("device.radio=4g", "device.processor=2"), runs=1).fates[0]
    assert fate.joules == pytest.approx(one["energy"]["joules"])
    done = predict("--runs", "4", "--over", "device.radio=wifi,4g", "--by", "energy")
    assert "cheapest  by energy" in done.stdout and "device.radio = wifi" in done.stdout
    refused = predict("--runs", "4", "--by", "energy")
    assert refused.exit_code == 2 and "device.radio" in refused.output


def test_fewer_clients_with_labels_than_a_sum_needs_are_an_error() -> None:
    with pytest.raises(ScenarioError, match=r"protocol.min_clients: 4 is too large: 3 clients have labels"):
        tiny("data.labeled_clients=3", "protocol.min_clients=4")


@pytest.mark.parametrize(("deadline", "is_named"), [("70ms", True), ("200ms", False)])
def test_a_deadline_that_is_not_longer_than_a_round_trip_gets_a_caution(deadline: str, is_named: bool) -> None:
    slow = ["network.latency=10ms", "client=[{name='client/[0-1]',latency='40ms'}]"]
    lines = [one for one in cautions(tiny(f"protocol.deadline={deadline}", *slow)) if "round trip" in one]
    assert lines == [f'protocol.deadline = "{deadline}" is not longer than the round trip of 2 of 6 clients (80 ms): '
                     "their answers come too late"] * is_named  # fmt: skip
