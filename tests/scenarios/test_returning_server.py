"""A server that is lost and returns: rounds continue with the next, a run of one round ends, and all outputs say so."""

from collections import Counter
from pathlib import Path

import pytest

from tacit.scenarios.files.reading import load
from tacit.scenarios.files.result import Result
from tacit.scenarios.running.runner import run

XCLP = ["data.limit=60", "data.clients=3", "protocol.hamming=plaintext", "protocol.bits=64", "protocol.k=3"]
FEDCT = [
    "data.limit=60", "data.clients=3", "data.labeled=1.0", "protocol.name=fedct", "learner.name=decision-tree",
    "cotraining.rounds=3", "training.min_clients=2",
]  # fmt: skip
SECURE = ["data.limit=60", "data.clients=3", "training.rounds=3", "training.averaging=secure", "model.name=linear"]
NOT_AGAIN = "the server was lost and is back: what it had received is gone, and nobody is asked for it twice"


def run_with_server_crashes(name: str, changes: list[str], path: Path, *faults: str) -> Result:
    """The run in which the server crashes according to the keys in `faults`, and returns a second later."""
    tables = ", ".join(f'{{kind="crash", party="server", back_after="1s", {keys}}}' for keys in faults)
    return run(load(name, [*changes, f"fault=[{tables}]", "expect={}"]), out=path, engine="inline")


def lost(result: Result) -> list[tuple[int, str, str]]:
    return [(loss.round, loss.party, loss.step) for loss in result.lost]


def problems(result: Result) -> list[str]:
    return [getattr(one, "problem", "") for one in result.round_records]


def test_cotraining_continues_with_the_next_round_after_a_servers_return(tmp_path: Path) -> None:
    result = run_with_server_crashes("fedct-digits", FEDCT, tmp_path / "a", 'after="cotrain.agree", occurrence=2')
    assert (result.outcome, result.reason) == ("completed", "")
    assert lost(result) == [(2, "server", "cotrain.agree")]
    assert problems(result) == ["", "the server was lost in it", ""]
    assert set(result.endings.values()) == {"completed"}
    again = run_with_server_crashes("fedct-digits", FEDCT, tmp_path / "b", 'after="cotrain.agree", occurrence=2')
    assert again.trace_hash == result.trace_hash


def test_a_server_may_crash_twice_and_before_the_first_round(tmp_path: Path) -> None:
    faults = 'before="train.enroll"', 'before="cotrain.agree", occurrence=1', 'before="train.open", occurrence=3'
    result = run_with_server_crashes("fedct-digits", FEDCT, tmp_path / "a", *faults)
    assert result.outcome == "completed"
    assert lost(result) == [(1, "server", "train.enroll"), (1, "server", "cotrain.agree"), (3, "server", "train.open")]
    assert problems(result) == ["the server was lost in it", "", ""]


def test_plain_averages_continue_with_the_next_round_after_a_servers_return(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    changes = [*SECURE, "protocol.name=fedavg", "training.averaging=plain"]
    result = run_with_server_crashes(
        "fedavg-xclp-digits", changes, tmp_path / "a", 'before="train.average", occurrence=2'
    )
    assert (result.outcome, result.reason) == ("completed", "")
    assert problems(result) == ["", "the server was lost in it", ""]


def test_a_server_crash_in_a_secure_average_ends_the_run(tmp_path: Path) -> None:
    """Another sum, from the same model over other clients, would differ from the first by one client's input."""
    pytest.importorskip("torch")
    changes = [*SECURE, "protocol.name=fedavg"]
    result = run_with_server_crashes("fedavg-xclp-digits", changes, tmp_path / "a", 'after="sum.collect", occurrence=2')
    assert (result.outcome, result.reason) == ("aborted", NOT_AGAIN)
    assert lost(result) == [(2, "server", "sum.collect")]
    assert problems(result) == ["", "the server was lost in it"]
    called = Counter(row.round for row in result.frame("messages").itertuples() if row.type == "RoundStart")
    assert called == {1: 3, 2: 3}
    assert set(result.endings.values()) == {f"aborted: {NOT_AGAIN}"}
    assert result.model_digest == run(load("fedavg-xclp-digits", [*changes, "training.rounds=1"])).model_digest


def test_a_server_crash_in_secure_votes_ends_the_run(tmp_path: Path) -> None:
    changes = [*FEDCT, "cotraining.votes=secure"]
    result = run_with_server_crashes("fedct-digits", changes, tmp_path / "a", 'after="sum.collect", occurrence=1')
    assert (result.outcome, result.reason) == ("aborted", NOT_AGAIN)
    again = run_with_server_crashes("fedct-digits", changes, tmp_path / "b", 'before="train.open", occurrence=2')
    assert again.outcome == "completed"  # between two rounds; the next one has another consensus


def test_a_server_crash_in_labelling_by_xclp_ends_the_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    changes = [*SECURE[:3], "model.name=linear_embedding", "training.label_from=2", *XCLP[2:]]
    result = run_with_server_crashes(
        "fedavg-xclp-digits", changes, tmp_path / "a", 'before="train.average", occurrence=2'
    )
    assert (result.outcome, result.reason) == ("aborted", NOT_AGAIN)
    early = run_with_server_crashes(
        "fedavg-xclp-digits", changes, tmp_path / "b", 'before="train.average", occurrence=1'
    )
    assert problems(early) == ["the server was lost in it", "", ""]


def test_a_round_is_charged_once_if_the_server_crashes_again_on_its_return(tmp_path: Path) -> None:
    changes = [*FEDCT[:3], "protocol.name=dp-fedct", *FEDCT[4:], "privacy.epsilon=8.0"]
    once = run(load("fedct-digits", [*changes, 'fault=[{kind="crash", party="server", after="cotrain.agree"}]',
                                     "expect={}"]))  # fmt: skip
    faults = 'after="cotrain.agree"', 'before="train.enroll", occurrence=2'
    tables = (
        f'{{kind="crash", party="server", back_after="1s", {faults[0]}}}, {{kind="crash", party="server", {faults[1]}}}'
    )
    twice = run(load("fedct-digits", [*changes, f"fault=[{tables}]", "expect={}"]))
    assert once.privacy is not None and twice.privacy is not None
    assert twice.privacy.rounds == once.privacy.rounds == 1


def test_a_server_crash_during_xclp_aborts_the_run_with_a_reason(tmp_path: Path) -> None:
    result = run_with_server_crashes("xclp-digits", XCLP, tmp_path / "a", 'before="influence.solve"')
    assert (result.outcome, result.reason) == ("aborted", NOT_AGAIN)
    assert lost(result) == [(1, "server", "influence.solve")]
    assert set(result.endings.values()) == {f"aborted: {NOT_AGAIN}"}
    assert not result.labels_digest or result.accuracy is None


def test_a_server_crash_before_xclp_lets_the_run_begin(tmp_path: Path) -> None:
    result = run_with_server_crashes("xclp-digits", XCLP, tmp_path / "a", 'before="setup.keys"')
    assert result.outcome == "completed" and result.equals_plaintext
    assert lost(result) == [(1, "server", "setup.keys")]


def test_a_server_crash_in_one_group_aborts_all_groups(tmp_path: Path) -> None:
    changes = ["data.limit=90", "data.clients=6", *XCLP[2:], "protocol.groups=2"]
    result = run_with_server_crashes("xclp-digits", changes, tmp_path / "a", 'before="rowsums.sum"')
    assert (result.outcome, result.reason) == ("aborted", NOT_AGAIN)
    late = run_with_server_crashes("xclp-digits", changes, tmp_path / "b", 'after="rowsums.sum", occurrence=2')
    assert late.outcome == "aborted" and late.equals_plaintext is not False  # the labels of one group
    assert set(result.endings.values()) == {f"aborted: {NOT_AGAIN}"}


def test_a_server_crash_during_xclp_after_training_ends_the_run(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    changes = [*SECURE[:2], "training.rounds=1", "protocol.name=fedavg-then-xclp", *XCLP[2:]]
    result = run_with_server_crashes("fedavg-xclp-digits", changes, tmp_path / "a", 'before="influence.solve"')
    assert (result.outcome, result.reason) == ("aborted", NOT_AGAIN)
    assert ("server", "influence.solve") in {(party, step) for _, party, step in lost(result)}
