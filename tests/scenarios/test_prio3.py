"""Sums of reports of Prio3: votes and averages equal those in the clear, bytes by formula, lost helpers, false
clients."""

from pathlib import Path

import numpy as np
import pytest

from tacit import Result, ScenarioError, load, run
from tacit.protocols.cotraining.byzantine import Lie
from tacit.protocols.crypto.agreement import KeyPair
from tacit.protocols.crypto.vdaf import FIELD64
from tacit.protocols.sums.batch import Batch, Task, aggregated, unsharded
from tacit.protocols.sums.reports import HelperPart, Report, _prepare, _serve_job, _shard
from tacit.scenarios.chaos.campaign import Plan, campaign
from tacit.scenarios.files.reading import read
from tacit.scenarios.reporting.parties import party_tables
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.running.prediction import predict_run, predicted
from tacit.sim.streams import Entropy
from tests.scenarios.predictions import measured, predicted_bytes

TINY = """
seed = 3
engine = "inline"
[data]
name = "digits"
clients = 4
labeled = 0.5
limit = 160
[public]
size = 40
[protocol]
name = "fedct"
deadline = "10s"
min_clients = 2
[model]
name = "linear"
[learner]
learning_rate = 0.01
steps = 5
[cotraining]
rounds = 3
votes = "prio3"
[training]
device = "cpu"
[network]
latency = "5ms"
"""
FAULT = """
[[fault]]
kind = "crash"
party = "{party}"
{trigger}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "votes.toml"
    path.write_text(TINY)
    return path


def ran(file: Path, *changes: str, fault: str = "", out: str = "run") -> Result:
    file.write_text(TINY + fault)
    return run(load(file, list(changes)), out=file.parent / out)


@pytest.mark.parametrize("name", ["fedct", "pate", "dp-pate"])
def test_counts_equal_plain_votes_and_bytes_equal_the_formula(file: Path, name: str) -> None:
    changes = [f"protocol.name={name}"] + ["privacy.epsilon=8.0", "privacy.delta=1e-5"] * (name == "dp-pate")
    proved, plain = ran(file, *changes), ran(file, *changes, "cotraining.votes=plain", out="plain")
    assert (proved.outcome, proved.lost, proved.labels_digest) == ("completed", [], plain.labels_digest)
    assert proved.model_digest == plain.model_digest
    counted: dict[str, int] = {}
    for row in byte_rows(proved.folder):
        counted[row.type] = counted.get(row.type, 0) + row.payload
    assert counted["Report"] and predicted(proved.folder, counted) == counted


def test_a_client_without_labels_sends_an_empty_report_at_first(file: Path) -> None:
    result = ran(file, "data.labeled_clients=3")
    assert [len(one.answered) for one in result.round_records] == [3, 4, 4]
    counted: dict[str, int] = {}
    for row in byte_rows(result.folder):
        counted[row.type] = counted.get(row.type, 0) + row.payload
    assert predicted(result.folder, counted) == counted


@pytest.mark.parametrize("step", ["report.keys", "report.prepare"])
def test_a_lost_helper_ends_the_batch_and_may_return(file: Path, step: str) -> None:
    trigger = f'before = "{step}"\nback_after = "1s"'
    result = ran(file, fault=FAULT.format(party="helper", trigger=trigger))
    first, *others = result.round_records
    assert (result.outcome, first.problem) == ("completed", "the helper did not answer within 10 s")
    assert first.lost == ("helper",) and [len(one.answered) for one in others] == [4, 4]
    assert result.endings["helper"] == "completed"


def test_no_batch_follows_one_with_a_sum_that_may_still_be_opened(file: Path) -> None:
    trigger = 'before = "report.collect"\nback_after = "1s"'
    result = ran(file, fault=FAULT.format(party="helper", trigger=trigger))
    assert result.outcome == "aborted" and len(result.round_records) == 1
    assert "the helper did not answer" in result.reason


def test_a_lost_client_is_missing_from_the_batch(file: Path) -> None:
    result = ran(file, fault=FAULT.format(party="client/1", trigger='before = "report.shard"'))
    assert {one.answered for one in result.round_records} == {("client/0", "client/2", "client/3")}


@pytest.mark.parametrize("kind", ["stuffed", "noise"])
def test_a_client_that_stuffs_votes_is_refused_and_changes_no_count(file: Path, kind: str) -> None:
    result = ran(file, "byzantine.clients=1", f"byzantine.kind={kind}")
    assert {one.answered for one in result.round_records} == {("client/0", "client/1", "client/2")}
    (why,) = {loss.action for loss in result.lost}
    assert why.startswith("its report is refused: the report's proof fails")
    secure = ran(file, "byzantine.clients=1", f"byzantine.kind={kind}", "cotraining.votes=secure", out="secure")
    if kind == "stuffed":
        assert secure.round_records[0].agreed_accuracy < result.round_records[0].agreed_accuracy
    else:
        assert "counts are not those of votes" in secure.reason


def test_a_helper_is_a_party_for_faults_only_where_there_is_one(file: Path) -> None:
    fault = FAULT.format(party="helper", trigger='at = "report.prepare"')
    file.write_text(TINY + fault)
    load(file, [])
    with pytest.raises(ScenarioError, match='"helper" is not a party'):
        load(file, ["cotraining.votes=secure"])


def test_the_helper_has_a_machine_and_link_of_its_own(file: Path) -> None:
    fast = ran(file)
    changes = "device.helper_speed=0.05", "device.helper_cores=1", "network.helper_bandwidth=200kbit/s"
    slow = ran(file, *changes, out="slow")
    assert (slow.labels_digest, slow.bytes_total) == (fast.labels_digest, fast.bytes_total)
    assert slow.virtual_seconds > fast.virtual_seconds + 1
    server, helper, *_ = party_tables(load(file, ["device.server_cores=2", "device.helper_speed=0.5"]))[0].rows
    assert (server[0], server[-3:-1], helper[0], helper[-3:-1]) == ("server", ("2", "1"), "helper", ("2", "0.5"))
    with pytest.raises(ScenarioError, match=r"network\.helper_bandwidth"):
        load(file, ["network.helper_bandwidth=fast"])
    keys = read(file, ["device.helper_cores=2", "cotraining.votes=secure"]).needless
    assert keys["device.helper_cores"] == 'cotraining.votes = "prio3"'


# --- averages

AVERAGES = (
    "protocol.name=fedavg", "training.averaging=prio3", "sum.value_bits=8", "sum.clip=2.0",
    "training.rounds=2", "training.min_clients=2",
)  # fmt: skip


def payload_by_type(result: Result) -> dict[str, int]:
    """The bytes of payload by message type."""
    counted: dict[str, int] = {}
    for row in byte_rows(result.folder):
        counted[row.type] = counted.get(row.type, 0) + row.payload
    return counted


@pytest.mark.parametrize("identity", ["none", "signed"])
def test_proved_averages_equal_the_oracle_and_bytes_equal_the_formula(file: Path, identity: str) -> None:
    result = ran(file, *AVERAGES, f"protocol.identity={identity}")
    secure = ran(file, *AVERAGES, "training.averaging=secure", out="secure")
    assert (result.outcome, result.equals_plaintext, result.lost) == ("completed", True, [])
    assert result.model_digest == secure.model_digest  # exact: the same integers
    counted = payload_by_type(result)
    assert counted["Report"] and predicted(result.folder, counted) == counted
    assert [one.loss for one in result.round_records] == [one.loss for one in secure.round_records]


def test_after_an_unreleased_batch_the_same_model_can_be_averaged_again(file: Path) -> None:
    trigger = 'before = "report.prepare"\nback_after = "1s"'
    result = ran(file, *AVERAGES, fault=FAULT.format(party="helper", trigger=trigger))
    first, second = result.round_records
    assert (first.problem, second.problem) == ("the helper did not answer within 10 s", "")
    assert result.equals_plaintext and len(second.averaged) == 4


@pytest.mark.parametrize("name", ["scaffold", "fedavg+xclp"])
def test_proved_averages_work_with_scaffold_and_with_sums_before_training(file: Path, name: str) -> None:
    result = ran(file, *AVERAGES, f"protocol.name={name}", "protocol.hamming=plaintext", "protocol.bits=64")
    assert (result.outcome, result.equals_plaintext, len(result.round_records)) == ("completed", True, 2)


def test_proved_averages_need_integers_of_equal_weight(file: Path) -> None:
    with pytest.raises(ScenarioError, match=r"set sum\.value_bits"):
        ran(file, *AVERAGES, "sum.value_bits=exact")
    with pytest.raises(ScenarioError, match="bounds numbers and no weights"):
        ran(file, *AVERAGES, "training.weighting=points")


@pytest.mark.parametrize(("changes", "seed"), [((), 1), (AVERAGES, 2)])
def test_a_run_with_a_lost_helper_is_predicted_to_the_byte(file: Path, changes: tuple[str, ...], seed: int) -> None:
    trigger = 'before = "report.prepare"\nback_after = "1s"'
    file.write_text(TINY + FAULT.format(party="helper", trigger=trigger))
    scenario = read(str(file), [*changes, "network.latency=lognormal:40ms,0.3"], seed=seed).scenario
    prediction, (sent, seconds) = predict_run(scenario), measured(scenario)
    assert predicted_bytes(prediction) == sent
    assert prediction.virtual_seconds == pytest.approx(seconds, rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        ("public.size=10",),
        ("public.size=10", "byzantine.clients=1", "byzantine.kind=stuffed"),
        (*AVERAGES, "byzantine.clients=1", "byzantine.kind=noise", "protocol.identity=signed"),
    ],
)
def test_chaos_breaks_no_promise_of_prio3(file: Path, changes: tuple[str, ...]) -> None:
    scenario = load(file, ["cotraining.rounds=2", "learner.steps=1", *changes])
    assert campaign(scenario, Plan(schedules=15, singles=True)).failures == []


@pytest.mark.parametrize(
    "changes",
    [
        ("byzantine.kind=stuffed",),
        ("byzantine.kind=noise", "data.labeled_clients=3"),
        ("byzantine.kind=noise", "cotraining.votes=secure"),
        (*AVERAGES, "byzantine.kind=scaled"),
        (*AVERAGES, "byzantine.kind=noise", "protocol.identity=signed"),
        (*AVERAGES, "byzantine.kind=noise", "byzantine.clipped=true"),
        (*AVERAGES, "byzantine.kind=stuffed", "training.averaging=secure"),
    ],
)
def test_a_run_with_false_clients_is_predicted_to_the_byte(file: Path, changes: tuple[str, ...]) -> None:
    scenario = read(str(file), [*changes, "byzantine.clients=1", "protocol.deadline=10s"]).scenario
    prediction, (sent, seconds) = predict_run(scenario), measured(scenario)
    assert predicted_bytes(prediction) == sent
    assert prediction.virtual_seconds == pytest.approx(seconds, rel=0.01)


# --- reports

BATCH = Batch(Task("votes", (4, 3)), b"context")
LABELS = np.array([0, 2, 1, 1])
KEY, BOUND = bytes(32), bytes(range(32))


def report(helper: KeyPair, seed: bytes, lie: Lie | None = None) -> Report:
    entropy = Entropy.seeded(seed, "client")
    nonce, rand = entropy.bytes(16), entropy.bytes(BATCH.prio3.rand_bytes)
    pair = KeyPair.generate(entropy)
    added = None if lie is None else lie.added(LABELS, 3, entropy.bytes(32))
    return Report(*_shard(BATCH, LABELS, nonce, rand, added, pair, helper.public, BOUND))


def verdict(helper: KeyPair, sent: Report, *, bound: bytes = BOUND, fresh: str = "") -> tuple[str, np.ndarray | None]:
    """The reason why both aggregators refuse the report, or its counts."""
    held = _prepare(BATCH, KEY, [sent])
    part = HelperPart(bound, sent.nonce, sent.public_share, sent.helper_share, held[0].prepare_share)
    theirs, messages, refused = _serve_job(BATCH, KEY, helper, [part], [fresh])
    own, problems = aggregated(BATCH, held, messages, refused)
    share, _ = aggregated(BATCH, theirs, messages, problems)
    return problems[0], None if problems[0] else unsharded(BATCH, own, share, 1)


def test_both_shares_together_give_the_votes_and_one_alone_only_chance() -> None:
    helper = KeyPair(bytes([7]) * 32)
    problem, counts = verdict(helper, report(helper, b"1"))
    assert not problem and counts is not None
    assert counts.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 0]]
    size, right = BATCH.task.elements * FIELD64.size, 0
    for number in range(200):  # the most likely of 3 classes by the leader's share
        share = report(helper, bytes([number])).leader_share[:size]
        values = np.array(FIELD64.to_ints(FIELD64.decode(share)), np.float64).reshape(4, 3)
        right += int((values.argmax(1) == LABELS).sum())
    assert 0.25 < right / 800 < 0.42


@pytest.mark.parametrize(("task", "most"), [(Task("votes", (1, 3)), 1), (Task("integers", (3, 6)), 6)])
def test_shares_that_give_more_than_the_reports_can_add_up_to_are_refused(task: Task, most: int) -> None:
    """Two reports add up to twice the largest number of one at most."""
    for largest in (2 * most, 2 * most + 1):
        own, other = (
            FIELD64.encode(FIELD64.from_ints(numbers))
            for numbers in ([5, 0, 0], [(largest - 5) % FIELD64.modulus, 0, 1])
        )
        found = unsharded(Batch(task), own, other, 2)
        if largest <= 2 * most:
            assert found is not None and found.reshape(-1).tolist() == [largest, 0, 1]
        else:
            assert found is None


def test_a_report_for_another_helper_batch_or_nonce_or_with_a_false_proof_is_refused() -> None:
    helper, other = KeyPair(bytes([7]) * 32), KeyPair(bytes([8]) * 32)
    sent = report(helper, b"1")
    assert verdict(other, sent)[0] == "the helper cannot open its share"
    assert verdict(helper, sent, bound=bytes(32))[0] == "the helper cannot open its share"
    assert verdict(helper, sent, fresh="its nonce was used before")[0] == "its nonce was used before"
    for kind in ("stuffed", "noise"):
        assert "proof fails" in verdict(helper, report(helper, b"1", Lie(kind, LABELS, b"", 2)))[0]
