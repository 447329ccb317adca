"""Sums with coded masks: the plaintext oracle's average under losses, the bytes of the formula, and who is refused."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit import Result, Scenario, ScenarioError, load, run
from tacit.parties.server import Server
from tacit.protocols.sums import lightsecagg

WAY = ("protocol.name=fedavg", "training.averaging=lightsecagg", "training.value_bits=12", "training.clip=1.0")


def eight(tiny: Path, *changes: str, faults: str = "") -> Scenario:
    """The scenario of `tiny` with `changes`, of eight clients of whom a sum may lose three."""
    tiny.write_text(tiny.read_text() + faults)
    return load(tiny, ["data.clients=8", "training.min_clients=3", "training.tolerated_dropouts=0.38", *changes])


def scenario(tiny: Path, *changes: str, faults: str = "") -> Scenario:
    return eight(tiny, *WAY, *changes, faults=faults)


def crashes(*steps: str) -> str:
    return "".join(
        f'[[fault]]\nkind = "crash"\nparty = "client/{number}"\n{step}\n' for number, step in enumerate(steps, 1)
    )


def ran(tiny: Path, *changes: str, faults: str = "") -> Result:
    return run(scenario(tiny, *changes, faults=faults), out=tiny.parent / "run")


@pytest.mark.parametrize("weighting", ["equal", "points"])
@pytest.mark.parametrize("bits", [2, 9, 16])
def test_the_average_is_that_of_the_quantised_models_whoever_is_lost(tiny: Path, weighting: str, bits: int) -> None:
    """Five of eight clients must answer: one is lost before its vector, two after it, which counts."""
    faults = crashes('before = "sum.mask"', 'before = "sum.reveal"', 'at = "sum.reveal"')
    found = ran(tiny, f"training.weighting={weighting}", f"training.value_bits={bits}", faults=faults)
    assert found.outcome == "completed" and found.equals_plaintext
    first, second = found.round_records
    assert first.averaged == tuple(f"client/{i}" for i in (0, 2, 3, 4, 5, 6, 7)) and first.equals_plaintext
    assert second.averaged == tuple(f"client/{i}" for i in (0, 4, 5, 6, 7)) and second.equals_plaintext


def test_more_losses_than_it_tolerates_leave_the_sum_masked_and_end_the_run(tiny: Path) -> None:
    found = ran(tiny, faults=crashes(*['before = "sum.reveal"'] * 4))
    assert found.outcome == "aborted"
    assert "the sum stays masked: 4 of 8 clients answered to CodedSurvivors; 5 are needed" in found.reason
    assert len(found.round_records) == 1 and not found.round_records[0].averaged


def test_bytes_by_formula_prediction_and_run_are_equal_and_do_not_grow_with_losses(tiny: Path) -> None:
    one = scenario(tiny, "training.rounds=1")
    calm = run(one, out=tiny.parent / "calm")
    counted = tacit.bytes(calm)
    sent = {row.type: row.payload for row in counted.rows}
    assert counted.formula == sent == {row.type: row.payload for row in tacit.predict(one).rows}
    lossy = run(scenario(tiny, "training.rounds=1", faults=crashes('before = "sum.mask"')), out=tiny.parent / "lossy")
    after = {row.type: row.payload for row in tacit.bytes(lossy).rows}
    assert after["CodedSum"] == sent["CodedSum"] // 8 * 7


def test_a_client_answers_one_set_of_survivors_a_round(tiny: Path) -> None:
    """The message is received twice: once a round is all, and the trace says so."""
    faults = '[[fault]]\nkind = "duplicate"\nmessage = "CodedSurvivors"\npeer = "client/2"\n'
    found = ran(tiny, "training.rounds=1", faults=faults)
    assert found.equals_plaintext
    answers = {row.type: row.messages for row in tacit.bytes(found).rows}
    assert answers["CodedSum"] == 8


def test_a_server_that_names_two_sets_gets_answers_for_one(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client answers the first set that it is shown, and refuses the other, in which one client is missing."""
    honest = lightsecagg._answers

    async def lying(me: Server, survivors: Sequence[str], *rest: Any) -> Any:
        me.broadcast(survivors[1:], lightsecagg.CodedSurvivors(list(survivors[1:])))
        return await honest(me, survivors, *rest)

    monkeypatch.setattr(lightsecagg, "_answers", lying)
    found = ran(tiny, "training.rounds=1", "engine=inline")
    with closing(sqlite3.connect(found.folder / "run.sqlite")) as record:
        query = "SELECT count(*) FROM events WHERE note LIKE '%once a round is all'"
        ((refused,),) = record.execute(query).fetchall()
    assert {row.type: row.messages for row in tacit.bytes(found).rows}["CodedSum"] == 8
    assert refused == 7


@given(st.integers(3, 300), st.floats(0, 0.9), st.floats(0, 0.9))
def test_two_sets_of_survivors_share_an_honest_client(clients: int, tolerated: float, corrupt: float) -> None:
    try:
        coding = lightsecagg.Coding.among(clients, tolerated, corrupt)
    except ValueError:
        assert corrupt * clients > clients - 2
        return
    assert 1 <= coding.private < coding.needed <= clients
    assert 2 * coding.needed - clients > coding.private  # the fewest that two sets of U share
    assert coding.tolerated <= tolerated * clients + 1e-6


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["training.value_bits=exact"], "set training.value_bits"),
        (["training.value_bits=30"], r"must stay below 2\^31 - 1; allowed: 2 to 27"),
        (["training.tolerated_dropouts=0.5"], "at most 3 may be lost; allowed: less than 0.5"),
        (["protocol.name=dp-fedavg", "privacy.noise_at=clients"], "would round the noise"),
    ],
)
def test_what_does_not_go_together(tiny: Path, changes: list[str], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        ran(tiny, *changes)
