"""Reasons that are easily confused: simultaneous pauses, lost calls, messages in flight."""

import json
from collections.abc import Mapping
from pathlib import Path

import tacit
from tacit import load, run
from tacit.scenarios.seeing.story import Line


def faults(*each: Mapping[str, object]) -> str:
    tables = (", ".join(f"{key} = {json.dumps(value)}" for key, value in keys.items()) for keys in each)
    return f"fault=[{', '.join('{' + table + '}' for table in tables)}]"


def events_of(quick: Path, *changes: str) -> list[Line]:
    changed = load(quick, ["expect={}", "protocol.deadline=10s", *changes])
    return tacit.events(run(changed, out=quick.parent / "out"), unfolded=True)


def losses(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.kind == "lost"]


def test_the_cause_of_a_loss_in_nested_pauses_is_the_longest_pause(quick: Path) -> None:
    first = {"kind": "pause", "party": "client/2", "time": "0s", "lasts": "10.05s"}
    second = {"kind": "pause", "party": "client/2", "time": "1s", "lasts": "2s"}
    (lost,) = losses(events_of(quick, faults(first, second)))
    assert lost.because[-1] == "client/2 was paused 1 s to 10.1 s (pause at 1 s)"


def test_a_client_cut_off_from_the_next_round_is_lost_because_of_the_partition(quick: Path) -> None:
    cut = {"kind": "partition", "party": "client/2", "peer": "server", "after": "setup.keys", "lasts": "25s"}
    first, second = losses(events_of(quick, faults(cut), "protocol.rounds=2"))
    assert (first.round, second.round) == (1, 2)
    assert second.because[1].startswith("client/2 itself waited for SeedAgreed or NewLeader from server")
    assert " from server to client/2, sent at " in second.because[2] and " was lost at " in second.because[2]
    assert "client/2 was cut off " in second.because[-1]


def test_a_client_never_called_to_a_round_is_lost_because_of_the_held_call(tiny: Path) -> None:
    """The client's own wait, for an answer to its enrolment, is not the cause."""
    hold = {"kind": "hold", "party": "server", "peer": "client/2", "message": "TrainingRound", "lasts": "12s"}
    first, *_ = losses(events_of(tiny, faults(hold), "protocol.name=fedavg"))
    assert first.because[1] == "client/2 itself waited for Enroll or TrainingRound from server"
    assert first.because[2].startswith("TrainingRound from server to client/2, sent at ")
    assert "was held back (hold of server and client/2 begins at TrainingRound)" in first.because[2]


def test_a_client_left_out_is_explained_by_its_lost_message_to_another_client(quick: Path) -> None:
    """The client has done its part, and waits for the next message, which is merely in flight."""
    lose = {"kind": "lose", "message": "PlainDistances", "party": "client/3", "peer": "client/2"}
    lines = events_of(quick, faults(lose), "network.transport=datagram")
    (lost,) = losses(lines)
    assert any(reason.startswith("PlainDistances from client/3 to client/2, sent at ") for reason in lost.because)
    assert any("(lost by a fault), not sent again (datagrams)" in reason for reason in lost.because)
    assert not any("RollCall" in reason for reason in lost.because)


def test_a_deadline_missed_in_a_pause_of_the_waiting_party_is_explained_by_the_pause(quick: Path) -> None:
    pause = {"kind": "pause", "party": "client/1", "message": "PlainDistances", "lasts": "12s"}
    lines = events_of(quick, faults(pause))
    (own,) = (line for line in lines if line.kind == "deadline" and line.party == "client/1" and line.time > 12)
    assert own.because[-1].startswith("client/1 was paused ")


def test_a_late_copy_is_not_the_cause_of_a_loss_if_the_first_was_in_time(quick: Path) -> None:
    """The second of two messages of a type is refused; this is not why the first was insufficient."""
    pause = {"kind": "pause", "party": "client/3", "message": "Masks", "occurrence": 2, "lasts": "11s"}
    lost = losses(events_of(quick, faults(pause)))
    assert lost and all("was refused" not in reason for line in lost for reason in line.because)
    assert all(line.because[-1].startswith("client/3 was paused ") for line in lost)


def test_a_short_pause_of_the_waiting_party_does_not_explain_that_a_client_is_silent(tiny: Path) -> None:
    crash = {"kind": "crash", "party": "client/1", "at": "train.update"}
    pause = {"kind": "pause", "party": "server", "time": "3s", "lasts": "1s"}
    lines = events_of(tiny, faults(crash, pause), "protocol.name=fedavg", "training.rounds=1")
    (own,) = (line for line in lines if line.kind == "deadline" and line.party == "server")
    assert own.because[-1].startswith("client/1 crashed at ")


def test_a_hold_that_begins_after_a_message_was_lost_did_not_hold_it_back(tiny: Path) -> None:
    lose = {"kind": "lose", "message": "LocalModel", "party": "client/2", "peer": "server"}
    hold = {"kind": "hold", "party": "client/2", "peer": "server", "time": "3s", "lasts": "1s"}
    datagrams = "network.transport=datagram"
    (lost,) = losses(events_of(tiny, faults(lose, hold), "protocol.name=fedavg", "training.rounds=1", datagrams))
    assert lost.because[-1].startswith("LocalModel from client/2 to server, sent at ")
    assert lost.because[-1].endswith("(lost by a fault), not sent again (datagrams)")
