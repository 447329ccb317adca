"""Forged reports of Prio3 and deviating aggregators: honest aggregators refuse them, and the batch continues."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from msgspec.structs import replace

from tacit import Result, load, run
from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.playing import play_out
from tacit.parties.server import Server
from tacit.protocols.crypto.agreement import KeyPair
from tacit.protocols.crypto.vdaf import FIELD64
from tacit.protocols.outcome import Abort
from tacit.protocols.sums import reports
from tacit.protocols.sums.batch import Batch, Task, aggregated, checksum_of
from tacit.protocols.sums.reports import HelperPart, Report
from tacit.protocols.sums.sum import SumHelper, SumSettings
from tacit.sim.compute import Free
from tacit.sim.streams import Entropy
from tacit.sim.wire import Message
from tacit.sim.world import World
from tests.scenarios.test_prio3 import AVERAGES, FAULT, TINY

KEY, HELPER, BOUND = bytes(32), KeyPair(bytes([7]) * 32), bytes(range(32))
INTEGERS = Batch(Task("integers", (5, 255)), b"context")
LARGEST = np.full(5, 255)
honest = reports._shard

Verdict = tuple[bool, bool]
"""Two truth values: the helper accepts the report; the leader accepts it."""


def report(seed: int, batch: Batch = INTEGERS, measurement: Any = LARGEST, added: Any = None) -> Report:
    entropy = Entropy.seeded(seed, "client")
    nonce, rand, pair = entropy.bytes(16), entropy.bytes(batch.prio3.rand_bytes), KeyPair.generate(entropy)
    return Report(*honest(batch, measurement, nonce, rand, added, pair, HELPER.public, BOUND))


def verdict(sent: Report, batch: Batch = INTEGERS, opened: Batch | None = None) -> Verdict:
    """The verdicts of the two aggregators of a `batch`; the helper is shown the batch `opened` instead, if given."""
    held = reports._prepare(batch, KEY, [sent])
    part = HelperPart(BOUND, sent.nonce, sent.public_share, sent.helper_share, held[0].prepare_share)
    if held[0].problem:
        return False, False
    _, messages, refused = reports._serve_job(opened or batch, KEY, HELPER, [part], [""])
    _, problems = aggregated(batch, held, messages, refused)
    return not refused[0], not problems[0]


def report_with_two_helper_shares(
    batch: Batch, measurement: Any, nonce: bytes, rand: bytes, added: Any, pair: KeyPair, key: bytes, bound: bytes
) -> tuple[bytes, ...]:
    """A report that the helper accepts and the leader refuses: the leader is shown a false part of the helper's share.

    The two then use different joint randomness, and the proof is made for the sum of their wires. The proof passes
    because all bits are 1: then the products that the circuit sums are 0 for any randomness.
    """
    prio3, context = batch.prio3, batch.context
    circuit, system, field = prio3.circuit, prio3._system, prio3.field
    share, blind, leader_blind, prove = (rand[i : i + 32] for i in range(0, 128, 32))
    encoded = circuit.encode(np.full(batch.task.shape, batch.task.most).tolist())
    helper = prio3._measurement_share(context, 1, share)
    leader = field.settle(encoded - helper)
    own = prio3._part(context, 0, leader_blind, nonce, field.encode(leader))
    other, false = prio3._part(context, 1, blind, nonce, field.encode(helper)), bytes(32)
    joints = [prio3._joint_randomness(context, prio3._seed(context, [own, part])) for part in (false, other)]
    length, proofs = circuit.joint_randomness_length, []
    randomness = prio3._expand(4, context, prove, b"", system.prove_randomness_length)
    for number, seeds in enumerate(prio3._each(randomness)):
        by_leader, by_helper = (joint[:, number * length : (number + 1) * length] for joint in joints)
        wires = field.settle(circuit.wires(leader, by_leader, 2) + circuit.wires(helper, by_helper, 2))
        proofs.append(_proof(system, _Wired(circuit, wires), seeds, by_leader))
    proof = field.settle(np.concatenate(proofs, axis=1) - prio3._proofs_share(context, 1, share))
    public, shares = own + false, [field.encode(leader) + field.encode(proof) + leader_blind, share + blind]
    secret = reports._sealing_key(pair.agree(key), pair.public, key, bound)
    sealed = reports.AESGCM(secret).encrypt(bytes(12), shares[1], bound + nonce + public)
    return nonce, public, shares[0], pair.public + sealed


class _Wired:
    """A circuit with given wires."""

    def __init__(self, circuit: Any, wires: Any) -> None:
        self._circuit, self._given = circuit, wires

    def wires(self, *_: Any) -> Any:
        return self._given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._circuit, name)


def _proof(system: Any, circuit: Any, seeds: Any, joint: Any) -> Any:
    system.circuit, before = circuit, system.circuit
    try:
        return system.prove(None, seeds, joint)
    finally:
        system.circuit = before


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "reports.toml"
    path.write_text(TINY)
    return path


def run_small(file: Path, *changes: str, fault: str = "") -> Result:
    file.write_text(TINY + fault)
    return run(load(file, list(changes)), out=file.parent / "run")


def test_honest_reports_pass_and_forged_ones_do_not() -> None:
    sent, other = report(1), report(2)
    assert verdict(sent) == (True, True)
    bent = parts_of(sent)
    for name, size in (("public_share", 64), ("leader_share", 40), ("helper_share", 96)):
        for place in (0, size // 2, size - 1):
            data = bytearray(getattr(sent, name))
            data[place] ^= 1
            assert verdict(Report(**bent | {name: bytes(data)})) == (False, False), (name, place)
        assert verdict(Report(**bent | {name: getattr(other, name)})) == (False, False), name
    assert verdict(Report(**bent | {"nonce": other.nonce})) == (False, False)
    over = np.zeros(INTEGERS.task.elements, np.uint64)
    over[3] = 1
    assert verdict(report(1, added=over)) == (False, False)


def parts_of(sent: Report) -> dict[str, bytes]:
    return {name: getattr(sent, name) for name in ("nonce", "public_share", "leader_share", "helper_share")}


def test_a_report_for_other_labels_bounds_or_models_is_refused(file: Path) -> None:
    class Me:
        round, name = 1, "client/0"

        class world:
            run_id = b"run"

    def batch(task: Task, basis: bytes = b"") -> Batch:
        return Batch.of(Me, task, basis)  # type: ignore[arg-type]

    first = batch(Task("integers", (5, 255)), b"model")
    contexts = {
        one.context
        for one in (first, batch(Task("integers", (5, 254)), b"model"), batch(Task("integers", (5, 255)), b"other"),
                    batch(Task("votes", (5, 255)), b"model"))
    }  # fmt: skip
    assert len(contexts) == 4
    assert verdict(report(1, first), first, batch(Task("integers", (5, 255)), b"other")) == (False, False)


def test_a_report_that_one_aggregator_accepts_does_not_end_the_batch(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entropy = Entropy.seeded(3, "client")
    nonce, rand, pair = entropy.bytes(16), entropy.bytes(128), KeyPair.generate(entropy)
    sent = Report(*report_with_two_helper_shares(INTEGERS, LARGEST, nonce, rand, None, pair, HELPER.public, BOUND))
    assert verdict(sent) == (True, False)

    def shard(batch: Batch, *arguments: Any) -> tuple[bytes, ...]:
        false = arguments[-1] == reports._bound(batch, "client/1")
        return (report_with_two_helper_shares if false else honest)(batch, *arguments)

    monkeypatch.setattr(reports, "_shard", shard)
    result = run_small(file, *AVERAGES)
    assert {one.averaged for one in result.round_records} == {("client/0", "client/2", "client/3")}
    assert (result.outcome, result.equals_plaintext) == ("completed", True)


def replace_messages(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Any, Any], Any]) -> None:
    """Replace every message of a type by `change` of the message and its sender."""
    send = reports.Party.send

    def changed(me: Any, receiver: str, message: Any) -> None:
        for one in change(me, message) if type(message).__name__ == name else [message]:
            send(me, receiver, one)

    monkeypatch.setattr(reports.Party, "send", changed)


def test_a_leader_gets_one_sum_of_enough_reports(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader leaves out all reports but one after they were accepted, asks twice, and asks for reports not
    accepted."""

    def one_alone(me: Any, wanted: Any) -> list[Any]:
        nonces = me.disk[reports._TAKEN][1]
        return [reports.AggregateShareWanted(1, checksum_of(nonces[:1]), nonces[1:])]

    for change, reason in (
        (one_alone, "did not answer"),
        (lambda me, one: [reports.AggregateShareWanted(one.count, bytes(32), [])], "did not answer"),
    ):
        with monkeypatch.context() as patch:
            replace_messages(patch, "AggregateShareWanted", change)
            result = run(load(file, []), out=file.parent / f"run{id(change)}")
            assert result.outcome == "aborted" and reason in result.reason
            assert "sent invalid values" in result.endings["helper"]
    replace_messages(monkeypatch, "AggregateShareWanted", lambda me, one: [one, one])
    result = run_small(file)
    sent = result.frame("messages")
    assert (sent.type == "HelperAggregate").sum() == len(result.round_records) == 3


def test_a_signed_report_counts_once_and_only_under_its_signers_name(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server shows the helper reports under other names, twice, or changed: each such report is refused."""

    def changed(place: int, **fields: Any) -> Callable[[Any, Any], Any]:
        def change(me: Any, job: Any) -> list[Any]:
            parts = list(job.reports)
            parts[place] = replace(parts[place], **{name: value(parts) for name, value in fields.items()})
            return [type(job)(parts)]

        return change

    signed = "protocol.identity=signed"
    plain, other = (run(load(file, some), out=file.parent / f"plain{len(some)}") for some in ([], [signed]))
    assert (other.outcome, other.labels_digest, other.lost) == ("completed", plain.labels_digest, [])
    for number, (change, reason) in enumerate((
        (changed(1, bound=lambda parts: b"client/9#1"), "the signature of client/9 on its report does not verify"),
        (changed(1, bound=lambda parts: parts[0].bound), "another report of the same client is in the batch"),
        (changed(1, bound=lambda parts: b"client/1#2"), "the signature of client/1 on its report does not verify"),
        (changed(1, bound=lambda parts: b"server#1"), "it has no client's name"),
        (changed(1, bound=lambda parts: b"\xff"), "it has no client's name"),
        (changed(1, nonce=lambda parts: bytes(16)), "the signature of client/1 on its report does not verify"),
        (changed(1, helper_share=lambda parts: parts[0].helper_share), "the signature of client/1"),
        (changed(1, helper_share=lambda parts: b""), "the signature of client/1"),
    )):  # fmt: skip
        with monkeypatch.context() as patch:
            replace_messages(patch, "AggregationJob", change)
            result = run(load(file, [signed]), out=file.parent / f"run{number}")
        assert {loss.party for loss in result.lost} == {"client/1"}, number
        assert all(reason in loss.action for loss in result.lost), (number, result.lost)
        assert {one.answered for one in result.round_records} == {("client/0", "client/2", "client/3")}


def test_a_helper_that_answers_twice_or_short_does_not_confuse_the_leader(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run(load(file, []), out=file.parent / "plain")
    for name in ("AggregationJobAnswer", "HelperAggregate", "HelperKey"):
        with monkeypatch.context() as patch:
            replace_messages(patch, name, lambda me, one: [one, one])
            result = run(load(file, []), out=file.parent / name)
            assert (result.outcome, result.labels_digest) == ("completed", plain.labels_digest), name
    with monkeypatch.context() as patch:
        replace_messages(patch, "AggregationJobAnswer", lambda me, one: [type(one)(one.messages[1:], one.refused[1:])])
        result = run(load(file, []), out=file.parent / "short")
        assert "the helper answered for other reports" in result.reason
    replace_messages(
        monkeypatch, "HelperAggregate", lambda me, one: [type(one)(FIELD64.encode(FIELD64.decode(one.share) * 0 + 9))]
    )
    assert "malformed" in run_small(file).reason


def test_a_nonce_is_accepted_once_even_across_a_crash(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If two clients send one nonce, the second is refused, also by a helper that crashed and returned in between."""

    def shard(batch: Batch, measurement: Any, nonce: bytes, *rest: Any) -> tuple[bytes, ...]:
        return honest(batch, measurement, bytes(16) if rest[-1] != reports._bound(batch, "client/0") else nonce, *rest)

    monkeypatch.setattr(reports, "_shard", shard)
    result = run_small(file, fault=FAULT.format(party="helper", trigger='after = "report.prepare"\nback_after = "1s"'))
    assert "its report is refused: its nonce was used before" in {loss.action for loss in result.lost}


class Call(Message):
    """A message that opens a round, as a call to training does."""

    announces: ClassVar[bool] = True


class Leader(Server):
    """A server that asks for a sum over its clients for each of the `bases`, a round each; `found` has the outcomes."""

    bases: Sequence[bytes] = ()

    async def main(self) -> None:
        self.found: list[str] = []
        for number, basis in enumerate(self.bases, 1):
            self.advance(number, 0)
            self.broadcast(self.clients, Call())
            try:
                total = await reports.Reports().total(self, self.clients, settings(10.0, basis))
                self.found.append(" ".join(map(str, total.ring[0])))
            except Abort as abort:
                self.found.append(str(abort))


class Voter(Client):
    """A client that votes for class 1 in each of the batches with the `bases`."""

    bases: Sequence[bytes] = ()

    async def main(self) -> None:
        for basis in self.bases:
            await self.recv(Call, self.server, 30.0)
            await reports.Reports().contribute(self, lambda: np.array([1]), settings(30.0, basis))


VOTES = Task("votes", (1, 3))


def settings(deadline: float, basis: bytes = b"") -> SumSettings:
    return SumSettings(3, 2, 2, deadline, task=VOTES, basis=basis)


def test_a_helper_releases_one_sum_for_a_basis_whatever_comes_in_between() -> None:
    first, second = bytes(32), bytes([1]) * 32
    for bases, outcomes in (
        ([first, first], ["0 2 0", "the helper did not answer within 10 s"]),
        ([first, second, first], ["0 2 0", "0 2 0", "the helper did not answer within 10 s"]),
        ([b"", b""], ["0 2 0", "0 2 0"]),
    ):
        world, nothing = World(1, cost=Free()), np.zeros(0, np.int64)
        shard = Shard(np.zeros((0, 1)), nothing, np.zeros(0, np.bool_), nothing)
        voters = [Voter(world, f"client/{i}", shard) for i in range(2)]
        leader = Leader(world, [voter.name for voter in voters])
        for party in (leader, *voters):
            party.bases = bases
        helper = SumHelper(world, reports.Reports(), lambda number: settings(10.0), 1000.0)
        play_out([leader, helper, *voters])
        assert leader.found == outcomes
