"""Sums with coded masks: the plaintext oracle's average under losses, the bytes of the formula, and refusals."""

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
from tacit.protocols.crypto.quorum import Assumed, NotCarried
from tacit.protocols.sums import consistency, lightsecagg

WAY = ("protocol.name=fedavg", "training.averaging=lightsecagg", "sum.value_bits=12", "sum.clip=1.0")


def with_eight_clients(tiny: Path, *changes: str, faults: str = "") -> Scenario:
    """The scenario of `tiny` with `changes`, for eight clients, of which a sum may lose three."""
    tiny.write_text(tiny.read_text() + faults)
    return load(tiny, ["data.clients=8", "training.min_clients=3", "sum.tolerated_dropouts=0.38", *changes])


def scenario(tiny: Path, *changes: str, faults: str = "") -> Scenario:
    return with_eight_clients(tiny, *WAY, *changes, faults=faults)


def crashes(*steps: str) -> str:
    return "".join(
        f'[[fault]]\nkind = "crash"\nparty = "client/{number}"\n{step}\n' for number, step in enumerate(steps, 1)
    )


def ran(tiny: Path, *changes: str, faults: str = "") -> Result:
    return run(scenario(tiny, *changes, faults=faults), out=tiny.parent / "run")


@pytest.mark.parametrize(("weighting", "bits"), [("points", 2), ("equal", 9), ("points", 16)])
def test_the_average_equals_that_of_the_quantised_models_under_any_losses(
    tiny: Path, weighting: str, bits: int
) -> None:
    """Five of eight clients must sign and answer: one is lost before its vector, two after it, which then counts."""
    faults = crashes('before = "sum.mask"', 'before = "sum.agree"', 'at = "sum.reveal"')
    found = ran(tiny, f"training.weighting={weighting}", f"sum.value_bits={bits}", faults=faults)
    assert found.outcome == "completed" and found.equals_plaintext
    first, second = found.round_records
    assert first.averaged == tuple(f"client/{i}" for i in (0, 2, 3, 4, 5, 6, 7)) and first.equals_plaintext
    assert second.averaged == tuple(f"client/{i}" for i in (0, 4, 5, 6, 7)) and second.equals_plaintext


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("sum.mask", "masked values of 4 clients were received; 5 are needed"),
        ("sum.agree", "4 of 8 clients signed who is in the sum; 5 are needed"),
        ("sum.reveal", "4 of 8 clients added the pieces of the masks; 5 are needed"),
    ],
)
def test_more_losses_than_tolerated_leave_the_sum_masked_and_abort_the_run(tiny: Path, step: str, problem: str) -> None:
    found = ran(tiny, faults=crashes(*[f'before = "{step}"'] * 4))
    assert found.outcome == "aborted" and f"the sum stays masked: {problem}" in found.reason
    assert len(found.round_records) == 1 and not found.round_records[0].averaged


def test_bytes_by_formula_prediction_and_run_are_equal_with_and_without_losses(tiny: Path) -> None:
    way = ("protocol.identity=signed",)
    one = scenario(tiny, "training.rounds=1", *way)
    calm = run(one, out=tiny.parent / "calm")
    counted = tacit.bytes(calm)
    sent = {row.type: row.payload for row in counted.rows}
    assert counted.formula == sent == {row.type: row.payload for row in tacit.predict(one).rows}
    assert (sent["Agreed"], sent["Agreement"]) == (8 * 64, 8 * 5 * 64)
    lossy = run(
        scenario(tiny, "training.rounds=1", *way, faults=crashes('before = "sum.mask"')), out=tiny.parent / "lossy"
    )
    after = {row.type: row.payload for row in tacit.bytes(lossy).rows}
    assert after["CodedSum"] == sent["CodedSum"] // 8 * 7


def test_a_prediction_under_losses_equals_the_run(tiny: Path) -> None:
    one = scenario(
        tiny, "training.rounds=1", faults=crashes('before = "sum.mask"', 'before = "sum.agree"', 'at = "sum.reveal"')
    )
    found, predicted = run(one, out=tiny.parent / "lossy"), tacit.predict(one)
    assert found.equals_plaintext
    sent = {row.type: (row.messages, row.payload) for row in tacit.bytes(found).rows}
    assert sent == {row.type: (row.messages, row.payload) for row in predicted.rows}
    assert (sent["Agreed"][0], sent["CodedSum"][0]) == (6, 5)


def test_a_client_signs_and_answers_one_set_of_survivors_a_round(tiny: Path) -> None:
    """The messages are received twice: clients answer once in a round, and the trace says so."""
    faults = "".join(
        f'[[fault]]\nkind = "duplicate"\nmessage = "{message}"\npeer = "client/2"\n'
        for message in ("CodedSurvivors", "Agreement")
    )
    found = ran(tiny, "training.rounds=1", faults=faults)
    assert found.equals_plaintext
    answers = {row.type: row.messages for row in tacit.bytes(found).rows}
    assert (answers["Agreed"], answers["CodedSum"]) == (8, 8)


def refusals(found: Result) -> list[str]:
    with closing(sqlite3.connect(found.folder / "run.sqlite")) as record:
        return [note for (note,) in record.execute("SELECT note FROM events WHERE note LIKE 'refused to%'")]


def test_a_server_that_names_two_sets_gets_signatures_and_answers_for_one(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients sign the first set that they are shown; if the server's signatures are for another set, no client
    answers."""
    honest = consistency.witness

    async def lying(me: Server, identities: Any, names: Sequence[str], survivors: Sequence[str], *rest: Any) -> Any:
        me.broadcast(survivors[1:], lightsecagg.CodedSurvivors(list(survivors[1:])))
        return await honest(me, identities, names, survivors, *rest)

    monkeypatch.setattr(lightsecagg.consistency, "witness", lying)
    found = ran(tiny, "training.rounds=1", "engine=inline")
    assert found.equals_plaintext and sum("once a round is all" in note for note in refusals(found)) == 7
    assert {row.type: row.messages for row in tacit.bytes(found).rows}["CodedSum"] == 8

    async def other(me: Server, identities: Any, names: Sequence[str], survivors: Sequence[str], *rest: Any) -> Any:
        return await honest(me, identities, names, survivors[1:], *rest)

    monkeypatch.setattr(lightsecagg.consistency, "witness", other)
    found = run(scenario(tiny, "training.rounds=1", "engine=inline"), out=tiny.parent / "other")
    assert found.outcome == "aborted" and {loss.action for loss in found.lost} == {
        "it did not sign who is in the sum: the round ends without one"
    }
    assert "CodedSum" not in {row.type for row in tacit.bytes(found).rows}


@given(st.integers(3, 300), st.integers(0, 40), st.floats(0, 0.9), st.floats(0, 0.9))
def test_two_quorums_share_an_honest_client_and_tolerate_the_stated_dropouts(
    clients: int, absent: int, tolerated: float, corrupt: float
) -> None:
    assumed, joined = Assumed.of(clients, corrupt, tolerated), max(1, clients - absent)
    try:
        coding = lightsecagg.Coding.among(joined, assumed)
    except NotCarried:
        assert joined < assumed.colluding + 2
        return
    assert coding.private == max(1, assumed.colluding)
    assert 1 <= coding.private < coding.needed <= joined
    assert 2 * coding.quorum - joined > coding.private  # the fewest clients that two quorums have in common
    assert coding.quorum <= coding.needed
    assert coding.tolerated <= max(0, tolerated * clients - clients + joined) + 1e-6


@pytest.mark.parametrize(("private", "needed"), [(0, 5), (3, 3), (1, 9), (3, 5)])
def test_a_coding_in_which_no_quorum_answers_is_refused(private: int, needed: int) -> None:
    with pytest.raises(ValueError, match=rf"U\(={needed}\) must be"):
        lightsecagg.Coding(8, private, needed)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["sum.value_bits=exact"], "set sum.value_bits"),
        (["sum.value_bits=30", "training.weighting=equal"], r"must stay below 2\^31 - 1; allowed: 2 to 27"),
        (["sum.tolerated_dropouts=0.5"], "at most 3 may be lost; allowed: less than 0.5"),
        (["protocol.name=dp-fedavg", "privacy.noise_at=clients"], "would round the noise"),
    ],
)
def test_incompatible_keys_of_lightsecagg_are_refused(tiny: Path, changes: list[str], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        ran(tiny, *changes)


def test_clients_sign_no_set_of_fewer_survivors_than_a_sum_needs(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one of `min_clients`: a set of three would leave their masked sum open to the server later."""
    honest = Server.broadcast

    def lying(me: Server, parties: Sequence[str], message: Any) -> None:
        if isinstance(message, lightsecagg.CodedSurvivors):
            honest(me, parties[:3], lightsecagg.CodedSurvivors(message.names[:3]))
        honest(me, parties, message)

    monkeypatch.setattr(Server, "broadcast", lying)
    found = ran(tiny, "training.rounds=1", "engine=inline")
    assert sum("refused to sign: 3 survivors are fewer than" in note for note in refusals(found)) == 3
    assert {row.type: row.messages for row in tacit.bytes(found).rows}["Agreed"] == 8
    assert found.equals_plaintext and not found.lost


@pytest.mark.parametrize("way", [(), ("protocol.identity=signed",)])
def test_clients_that_are_back_sign_under_their_new_incarnations(tiny: Path, way: tuple[str, ...]) -> None:
    """Three clients come back for the second round, in which the signatures of two of them are needed."""
    back = 'before = "sum.mask"\nround = 1\nback_after = "2s"'
    found = ran(tiny, "engine=inline", *way, faults=crashes(back, back, back, 'before = "sum.agree"\nround = 2'))
    everybody = tuple(f"client/{i}" for i in range(8))
    assert found.outcome == "completed" and found.round_records[-1].averaged == everybody
    assert {(loss.party, loss.round) for loss in found.lost} >= {(f"client/{i}", 1) for i in (1, 2, 3)}
    assert found.equals_plaintext
