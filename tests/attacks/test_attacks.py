"""Each attack works on a weakened copy of the protocols, and fails on ours."""

import json
from dataclasses import replace

import pytest

from tacit.benchmarks.attacks import hashes
from tacit.benchmarks.attacks.finding import Finding
from tacit.benchmarks.attacks.table import ATTACKS, main

OUTSIDE = ("g, no distances", "o, corrupt", "o, survivors")
NOT_PREVENTED = ("d, guessed", *OUTSIDE)


@pytest.fixture(scope="module")
def quick() -> dict[str, Finding]:
    """The findings of each attack in a quick run."""
    return {letter: attack(True) for letter, attack in ATTACKS.items()}


@pytest.fixture(scope="module")
def guessed() -> list[hashes.Guess]:
    """The guesses of a server from hashes and distances, in a quick run."""
    return hashes.guesses(quick=True)


PREVENTED = [letter for letter in ATTACKS if letter not in NOT_PREVENTED]
TOO_FEW = ("i, pads",)
"""Attacks whose result in a quick run is not significant."""


def assert_broken_where_weakened_alone(finding: Finding) -> None:
    assert finding.weakened >= finding.stated
    assert finding.stated > finding.chance + finding.margin, "or the attack would be mere luck"
    assert abs(finding.ours - finding.chance) <= finding.margin, f"{finding.ours:.3f} for {finding.name}"


@pytest.mark.parametrize("letter", PREVENTED)
def test_each_attack_breaks_the_weakened_copy_and_not_the_protocol(letter: str, quick: dict[str, Finding]) -> None:
    assert_broken_where_weakened_alone(ATTACKS[letter](False) if letter in TOO_FEW else quick[letter])


@pytest.mark.long
@pytest.mark.parametrize("letter", PREVENTED)
def test_each_attack_breaks_the_weakened_copy_and_not_the_protocol_at_full_size(letter: str) -> None:
    assert_broken_where_weakened_alone(ATTACKS[letter](False))


def test_unlabeled_rows_leave_a_smaller_leak_of_labels_that_the_table_states() -> None:
    """The leak with rows = "unlabeled" is smaller than with "paper", but not zero, and the table must show that."""
    finding = ATTACKS["d, guessed"](False)
    assert finding.remark.startswith("residual leak, by specification")
    assert finding.weakened >= 0.85
    assert finding.chance + finding.margin < finding.ours < 0.6 < finding.weakened


def test_a_client_that_returns_no_distances_lets_the_server_read_bits(quick: dict[str, Finding]) -> None:
    """Nothing prevents this, and the table must state it."""
    finding = quick["g, no distances"]
    assert (finding.ours, finding.outside) == (1.0, True)
    assert finding.remark.startswith("OUTSIDE the semi-honest model")


@pytest.mark.parametrize("letter", ["o, corrupt", "o, survivors"])
def test_the_table_states_that_clients_miss_a_chosen_graph_and_other_survivors(
    letter: str, quick: dict[str, Finding]
) -> None:
    """Nothing prevents this, and the table must state it."""
    finding = quick[letter]
    assert (finding.ours, finding.outside) == (1.0, True) and finding.remark


def test_the_cost_of_preventing_crafted_keys_is_stated(quick: dict[str, Finding]) -> None:
    assert "ms to make" in quick["g, unproved key"].remark
    assert 's with "fresh"' in quick["g, common factor"].remark


def test_only_the_listed_attacks_succeed_on_the_protocol(quick: dict[str, Finding]) -> None:
    assert tuple(letter for letter, finding in quick.items() if finding.remains or finding.outside) == NOT_PREVENTED


def test_the_command_prints_and_writes_a_row_for_each_attack(
    tmp_path, capsys, monkeypatch, quick: dict[str, Finding], guessed: list[hashes.Guess]
) -> None:
    asked = []
    monkeypatch.setattr(hashes, "guesses", lambda quickly: guessed)
    for letter, finding in quick.items():
        monkeypatch.setitem(ATTACKS, letter, lambda quickly, finding=finding: asked.append(quickly) or finding)
    main(quick=True, json_file=tmp_path / "attacks.json")
    assert asked == [True] * len(quick)
    shown = capsys.readouterr().out
    assert "What an attack recovers" in shown
    assert "NOT AS STATED" not in shown
    written = json.loads((tmp_path / "attacks.json").read_text())
    assert {row["sees"] for row in written["hashes"]} == {"nothing", "H", "bits"}
    rows = written["findings"]
    assert [row["attack"] for row in rows] == list(ATTACKS)
    assert all(row["weakened"] > row["ours"] or row["outside"] for row in rows)
    assert [row["attack"] for row in rows if row["verdict"] == "outside the model"] == list(OUTSIDE)
    assert [row["attack"] for row in rows if row["verdict"] == "above chance"] == ["d, guessed"]


def test_hashes_and_distances_reveal_exactly_the_stated_angles_and_points(guessed: list[hashes.Guess]) -> None:
    """Alone, the server finds angles; with a client's help points: from planes and bits, or from H and enough
    points."""
    found = guessed
    assert hashes.problems(found) == []
    alone = {one.estimator for one in found if one.sees == "bits" and one.error is not None}
    assert len(alone) == 3
    by_epsilon = [one.cosine for one in found if (one.sees, one.estimator) == ("bits", "sum of planes")]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    worse = [replace(one, cosine=0.5) if one.sees == "bits" and one.cosine else one for one in found]
    assert hashes.problems(worse)[0] == "bits do not open points under known planes"


def test_a_finding_that_contradicts_its_statement_is_detected() -> None:
    assert Finding("x", "y", 1.0, 0.5, 0.5, 100).as_stated
    assert not Finding("x", "y", 0.9, 0.5, 0.5, 100).as_stated
    assert not Finding("x", "y", 1.0, 0.8, 0.5, 100).as_stated
    assert not Finding("x", "y", 1.0, 0.01, 0.0, 100).as_stated
    assert Finding("x", "y", 1.0, 0.8, 0.5, 100, remains=True).as_stated
    assert Finding("x", "y", 1.0, 1.0, 0.5, 100, outside=True).as_stated
    assert not Finding("x", "y", 1.0, 0.5, 0.5, 100, outside=True).as_stated
