"""The benchmark of predicted survival: its files, and the independence of draws with consecutive seeds."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from scipy import stats
from typer.testing import CliRunner

from tacit.benchmarks.command import app
from tacit.benchmarks.survival.cases import case
from tacit.benchmarks.survival.ranges import Spread, spread
from tacit.benchmarks.survival.shares import read_compared
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.fates import fates_of
from tacit.sim.faults import Crash
from tacit.sim.streams import generator
from tacit.sim.triggers import Faults, Population

CASE = "fedavg, fewest"
SCENARIO = read("xclp-digits", ["data.clients=3", "fault=[]", "expect={}", "protocol.hamming=plaintext"]).scenario


def survival(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["survival", *map(str, arguments)])
    assert done.exit_code in (0, 1), done.output
    return done.stdout


def test_a_compared_scenario_is_added_to_the_file_beside_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "survival.json"
    assert CASE in survival("--only", CASE, "--runs", 4, "--json", file)
    (first,) = read_compared(file)
    assert (first.case, first.runs, first.otherwise) == (CASE, 4, 0)
    shown = survival("--only", "xclp, groups", "--runs", 2, "--json", file)
    found = read_compared(file)
    assert [one.case for one in found] == ["xclp, groups", CASE] and found[1] == first
    assert CASE in shown and first.verdict in shown
    refused = CliRunner().invoke(app, ["survival", "--only", "xclp"])
    assert refused.exit_code == 2 and CASE in refused.output


def test_ranges_of_seeds_are_consecutive(tmp_path: Path) -> None:
    file = tmp_path / "ranges.json"
    survival("--only", CASE, "--ranges", 2, "--runs", 5, "--json", file)
    (written,) = json.loads(file.read_bytes())
    assert written == {"case": CASE, "runs": 5, "completed": list(spread(CASE, 2, 5).completed)}
    assert sum(written["completed"]) == sum(spread(CASE, 1, 10).completed)


@pytest.mark.parametrize("completed", [(30, 41, 29, 35), (10, 90), (0, 0), (100, 100, 100)])
def test_the_spread_is_tested_by_pearsons_chi_square(completed: tuple[int, ...]) -> None:
    found = Spread("", 100, completed)
    if len(set(completed)) == 1:
        assert (found.square, found.probability) == (0, 1)
    else:
        table = [completed, [100 - one for one in completed]]
        known = stats.chi2_contingency(table, correction=False)
        assert (found.square, found.probability) == pytest.approx((known.statistic, known.pvalue))


def crashes_by_fault(seed: int) -> int:
    faults = Faults([Crash("client/*", at="lsh.hash", probability=0.25)], seed)
    return sum(bool(faults.at_step(f"client/{number}", "lsh.hash", "before", 1)) for number in range(3))


def crashes_by_dropout(seed: int) -> int:
    names = [f"client/{number}" for number in range(3)]
    faults = Faults([Crash("client/*", share=0.25, step="lsh.hash")], seed, Population(names))
    return sum(bool(faults.at_step(name, "lsh.hash", "before", 1)) for name in names)


@pytest.mark.parametrize("lost", [crashes_by_fault, crashes_by_dropout])
def test_neighbouring_seeds_give_independent_losses(lost: Callable[[int], int]) -> None:
    """The numbers of seeds without a loss, in 60 ranges of 100, and of consecutive such seeds are as expected."""
    whole = [lost(seed) == 0 for seed in range(6000)]
    found = Spread("", 100, tuple(sum(whole[first : first + 100]) for first in range(0, 6000, 100)))
    assert 0.001 < found.probability < 0.999
    exact = 0.75**3
    assert abs(sum(whole) - 6000 * exact) <= 3 * (6000 * exact * (1 - exact)) ** 0.5
    pairs = sum(one and other for one, other in zip(whole[::2], whole[1::2], strict=True))
    assert abs(pairs - 3000 * exact**2) <= 3 * (3000 * exact**2 * (1 - exact**2)) ** 0.5


# --- three scenarios whose ends follow from the losses only


def survivals(seed: int, fault: int, chance: float, times: int) -> list[list[bool]]:
    """For each of four clients, the number of times that it survives the fault at a step."""
    streams = [generator(seed, "fault", fault, f"client/{number}", "chance") for number in range(4)]
    return [(stream.random(times) >= chance).tolist() for stream in streams]


def restarted_run_completes(seed: int) -> bool:
    """The end of fedavg+xclp: at most one client is lost in the first Hamming step, and not all others in the
    second."""
    every = survivals(seed, 0, 0.15, 2)
    left = [second for first, second in every if first]
    return len(left) >= 3 and any(left)


def shares_are_revealed(seed: int) -> bool:
    """The end of xclp with shares: three clients deal, and a majority of the dealing clients reveal shares."""
    dealt = [number for number, (first,) in enumerate(survivals(seed, 0, 0.12, 1)) if first]
    revealed = survivals(seed, 1, 0.12, 1)
    return len(dealt) >= 3 and sum(revealed[number][0] for number in dealt) > len(dealt) // 2


def buffered_run_completes(seed: int) -> bool:
    """The end of fedbuff: two clients send an update, and one of them another one."""
    every = [first + (first and second) for first, second in survivals(seed, 0, 0.45, 2)]
    return sum(count > 0 for count in every) >= 2 and max(every) == 2


def at_least(least: int, clients: int, chance: float) -> float:
    return float(stats.binom.sf(least - 1, clients, chance))


ENDS = {
    "fedavg+xclp": (restarted_run_completes, sum(float(stats.binom.pmf(n, 4, 0.85)) * (1 - 0.15**n) for n in (3, 4))),
    # two or more send an update, minus the cases in which none sends another one
    "fedbuff": (buffered_run_completes, at_least(2, 4, 0.55) - sum(
        float(stats.multinomial.pmf([4 - n, n, 0], 4, [0.45, 0.55 * 0.45, 0.55**2])) for n in (2, 3, 4)
    )),
    "xclp, shamir": (shares_are_revealed, sum(
        float(stats.binom.pmf(n, 4, 0.88)) * at_least(n // 2 + 1, n, 0.88) for n in (3, 4)
    )),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("title", ENDS)
def test_the_shares_of_many_ranges_of_seeds_vary_as_binomial_ones(title: str) -> None:
    """200 ranges of 250 consecutive seeds, the first of which are those of the table in docs/howto/survival.md.

    A test of 199 degrees of freedom at 0.001 on each side finds shares whose variance is 1.53 times that of independent
    draws, or 0.63 times, with a probability of 90 %, however long the ranges are. The share of all 50,000 seeds is
    within 0.7 % of the exact one.
    """
    (ends, exact), scenario = ENDS[title], read(case(title)).scenario
    seeds = range(scenario.seed, scenario.seed + 200)
    assert [fate.completed for fate in fates_of(scenario, seeds)] == list(map(ends, seeds))
    firsts = range(scenario.seed, scenario.seed + 50_000, 250)
    found = Spread(title, 250, tuple(sum(map(ends, range(first, first + 250))) for first in firsts))
    assert 0.001 < found.probability < 0.999
    assert abs(found.share - exact) <= 3 * (exact * (1 - exact) / 50_000) ** 0.5
