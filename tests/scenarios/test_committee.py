"""Sums by a committee: the plaintext oracle's average under losses, the bytes of the formula, and refusals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from tacit import Result, Scenario, ScenarioError, run
from tacit.parties.server import Server
from tacit.protocols.crypto.agreement import KEY_BYTES
from tacit.protocols.crypto.quorum import Assumed, NotCarried
from tacit.protocols.crypto.sealing import OVERHEAD, PairChannel
from tacit.protocols.sums import committee, consistency
from tacit.protocols.sums.committee import Committee
from tacit.sim.hollow import Blank
from tests.scenarios.test_lightsecagg import crashes, refusals, with_eight_clients

WAY = ("protocol.name=fedavg", "training.averaging=committee", "sum.value_bits=12", "sum.clip=1.0")


def scenario(tiny: Path, *changes: str, faults: str = "") -> Scenario:
    return with_eight_clients(tiny, *WAY, *changes, faults=faults)


def ran(tiny: Path, *changes: str, faults: str = "") -> Result:
    return run(scenario(tiny, *changes, faults=faults), out=tiny.parent / "run")


@pytest.mark.parametrize(("weighting", "bits"), [("points", 2), ("equal", 12), ("points", 32)])
def test_the_average_equals_that_of_the_quantised_models_under_any_losses(
    tiny: Path, weighting: str, bits: int
) -> None:
    """All eight clients are members, five of which must sign: one is lost before its upload, two after it, which then
    counts."""
    faults = crashes('before = "sum.mask"', 'before = "sum.hold"', 'before = "sum.sign"')
    found = ran(tiny, f"training.weighting={weighting}", f"sum.value_bits={bits}", faults=faults)
    assert found.outcome == "completed" and found.equals_plaintext
    first, second = found.round_records
    assert first.averaged == tuple(f"client/{i}" for i in (0, 2, 3, 4, 5, 6, 7)) and first.equals_plaintext
    assert second.averaged == tuple(f"client/{i}" for i in (0, 4, 5, 6, 7)) and second.equals_plaintext


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ('before = "sum.hold"', "4 of 8 members reported their shares; 5 are needed"),
        ('before = "sum.sign"', "4 of 8 members signed its set; 5 are needed"),
        ('before = "sum.reveal"', "4 of 8 members answered; 5 are needed"),
    ],
)
def test_more_lost_members_than_tolerated_abort_the_run_without_a_sum(tiny: Path, step: str, problem: str) -> None:
    found = ran(tiny, faults=crashes(*[step] * 4))
    assert found.outcome == "aborted" and problem in found.reason
    assert len(found.round_records) == 1 and not found.round_records[0].averaged


@pytest.mark.parametrize("way", [("sum.value_bits=32",), ("protocol.identity=signed",)])
def test_bytes_of_a_committee_by_formula_prediction_and_run_are_equal(tiny: Path, way: tuple[str, ...]) -> None:
    """Four of eight clients are members: each client sends the other members three shares and a seed."""
    one = scenario(tiny, "training.rounds=1", "sum.tolerated_dropouts=0.13", *way)
    counted = tacit.bytes(run(one, out=tiny.parent / "calm"))
    sent = {row.type: row.payload for row in counted.rows}
    assert counted.formula == sent == {row.type: row.payload for row in tacit.predict(one).rows}
    assert {row.type: row.messages for row in counted.rows}["SharesHeld"] == 4


def test_a_prediction_under_losses_equals_the_run(tiny: Path) -> None:
    faults = crashes('before = "sum.mask"', 'at = "sum.hold"', 'before = "sum.sign"')
    one = scenario(tiny, "training.rounds=1", faults=faults)
    found, predicted = run(one, out=tiny.parent / "lossy"), tacit.predict(one)
    assert found.equals_plaintext
    sent = {row.type: (row.messages, row.payload) for row in tacit.bytes(found).rows}
    assert sent == {row.type: (row.messages, row.payload) for row in predicted.rows}
    assert sent["Agreed"][0] == 5 and sent["VectorShare"][0] == 2 * 7 * 7  # over two hops


def test_a_member_signs_and_answers_one_set_a_round(tiny: Path) -> None:
    """The messages are received twice: members answer once in a round, and the trace says so."""
    faults = "".join(
        f'[[fault]]\nkind = "duplicate"\nmessage = "{message}"\npeer = "client/2"\n'
        for message in ("SharesWanted", "CommitteeSurvivors", "Agreement")
    )
    found = ran(tiny, "training.rounds=1", faults=faults)
    assert found.equals_plaintext
    answers = {row.type: row.messages for row in tacit.bytes(found).rows}
    assert (answers["SharesHeld"], answers["Agreed"], answers["CommitteeSum"]) == (8, 8, 8)


def test_a_server_that_names_two_sets_gets_signatures_and_answers_for_one(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members sign the first set that they are shown; without enough signatures of a set, no member answers."""
    honest = consistency.witness

    async def lying(me: Server, identities: Any, names: Sequence[str], survivors: Sequence[str], *rest: Any) -> Any:
        bits = committee.bits
        fewer = committee.CommitteeSurvivors(bits(names, names), bits(survivors[1:], survivors))
        me.broadcast(names, fewer)
        return await honest(me, identities, names, survivors, *rest)

    monkeypatch.setattr(committee.consistency, "witness", lying)
    found = ran(tiny, "training.rounds=1", "engine=inline")
    assert found.equals_plaintext and sum("once a round is all" in note for note in refusals(found)) == 7

    async def other(me: Server, identities: Any, names: Sequence[str], survivors: Sequence[str], *rest: Any) -> Any:
        return await honest(me, identities, names, survivors[1:], *rest)

    monkeypatch.setattr(committee.consistency, "witness", other)
    found = run(scenario(tiny, "training.rounds=1", "engine=inline"), out=tiny.parent / "other")
    assert found.outcome == "failed" and {loss.action for loss in found.lost} == {
        "it did not sign who is in the sum: the round ends without one"
    }
    assert "CommitteeSum" not in {row.type for row in tacit.bytes(found).rows}


@given(st.integers(2, 400), st.integers(0, 40), st.floats(0, 0.9), st.floats(0, 0.9), st.integers(1, 60))
def test_two_quorums_share_an_honest_member_and_losses_leave_one(
    called: int, absent: int, tolerated: float, corrupt: float, exponent: int
) -> None:
    assumed, clients = Assumed.of(called, corrupt, tolerated), max(1, called - absent)
    if clients < assumed.colluding + 2:
        with pytest.raises(NotCarried, match=f"{assumed.colluding} of {called} clients .* {clients} joined"):
            Committee.among(clients, assumed, exponent)
        return
    one = Committee.among(clients, assumed, exponent)
    assert 2 * one.quorum - one.members > one.private  # the fewest members that two quorums have in common
    assert one.private >= 1 <= one.block and one.needed <= one.members <= clients and one.tolerated >= 0
    assert one.failure <= -exponent or one.failure == 0
    if one.members == clients:
        assert one.private == max(1, assumed.colluding)
        lost = assumed.left_to_lose(clients)
        assert one.tolerated == lost or (one.failure == 0 and 2 * lost + one.private >= clients)


def test_the_committee_of_a_thousand_clients_is_printed_with_its_tolerances() -> None:
    one = Committee.among(1000, Assumed.of(1000, 0.1, 0.1))
    assert str(one) == (
        f"{one.members} members of 1000 clients; {one.private} of them may collude with the server; "
        f"{one.tolerated} may be lost ({one.members - one.quorum} before signing, "
        f"{one.members - one.needed} before answering); blocks of {one.block}; "
        f"failure in a run at most 2^{one.failure:.1f}"
    )
    assert (one.members, one.private, one.block) == (106, 35, 36)
    assert one.tolerated == min(one.members - one.quorum, one.members - one.needed) == 35


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["sum.value_bits=exact"], "set sum.value_bits"),
        (["sum.tolerated_dropouts=0.5"], "withstands the loss of 3, not of 4; allowed: less than 0.5"),
        (["protocol.name=dp-fedavg", "privacy.noise_at=clients"], "would round the noise"),
        (["data.clients=1", "training.min_clients=2"], "1 joined: a sum needs 3"),
    ],
)
def test_incompatible_keys_of_a_committee_are_refused(tiny: Path, changes: list[str], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        ran(tiny, *changes)


@pytest.mark.parametrize("averaging", ["committee", "lightsecagg"])
def test_a_prediction_encrypts_no_vectors(tiny: Path, monkeypatch: pytest.MonkeyPatch, averaging: str) -> None:
    """Among 1,000 clients that would be gigabytes of zeros."""
    sizes: list[int] = []

    one = scenario(tiny, f"training.averaging={averaging}", "training.rounds=1", "sum.tolerated_dropouts=0.13")
    with monkeypatch.context() as patched:
        patched.setattr(PairChannel, "seal", _counting(PairChannel.seal, sizes))
        assert tacit.predict(one).outcome == "completed"
    assert len(sizes) >= 8 * 3 and max(sizes) < 2 * KEY_BYTES + OVERHEAD


def _counting(seal: Any, sizes: list[int]) -> Any:
    """Return `seal`, which appends the size of each result that has contents to `sizes`, and 0 for others."""

    def counted(*arguments: Any) -> bytes:
        sealed: bytes = seal(*arguments)
        sizes.append(0 if isinstance(sealed, Blank) else len(sealed))
        return sealed

    return counted
