"""Attacks on counts by two aggregators: by one aggregator alone, by both together, and by dishonest clients."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from tacit.benchmarks.attacks.finding import Finding, by_rank, randomness, share
from tacit.parties.learning.vectors import decode, encode
from tacit.protocols.cotraining.byzantine import Lie
from tacit.protocols.cotraining.secure_votes import counted, packed
from tacit.protocols.crypto import fixed_point
from tacit.protocols.crypto.vdaf import FIELD64, InvalidReport
from tacit.protocols.crypto.words import Quantised
from tacit.protocols.federated.byzantine import FalseUpdate
from tacit.protocols.sums import reports
from tacit.protocols.sums.batch import Task, out_of_range
from tacit.scenarios.chaos.server_world import Miniature
from tacit.sim.streams import Entropy

__all__ = [
    "filled_batch", "helper_alone", "leader_alone", "scaled_models", "second_batch", "stuffed_votes",
    "swapped_helper_key",
]  # fmt: skip

_POINTS, _CLASSES = 20, 10
_TASK = Task("votes", (_POINTS, _CLASSES))
_CONTEXT = b"attack"


def _shares(
    number: int, added: NDArray[np.uint64] | None = None, task: Task = _TASK, measured: NDArray[Any] | None = None
) -> tuple[NDArray[np.int64], bytes, list[bytes]]:
    """The measurement of one client, by default random labels; its nonce and public share; the leader's and helper's
    shares."""
    labels = randomness("reports", number).integers(_CLASSES, size=_POINTS) if measured is None else measured
    entropy = Entropy.seeded(number, "reports")
    nonce, rand = entropy.bytes(16), entropy.bytes(task.prio3.rand_bytes)
    public, shares = task.prio3.shard(_CONTEXT, labels.tolist(), nonce, rand)
    size = task.elements * FIELD64.size
    if added is not None:
        more = FIELD64.decode(added.astype("<u8").tobytes())
        shares[0] = FIELD64.encode(FIELD64.settle(FIELD64.decode(shares[0][:size]) + more)) + shares[0][size:]
    return labels, nonce + public, shares


def _outputs(nonce_and_public: bytes, shares: list[bytes]) -> list[NDArray[np.object_]]:
    """The numbers (n, C) below the modulus that each aggregator derives from a report."""
    prio3, found = _TASK.prio3, []
    for place, one in enumerate(shares):
        state, _ = prio3.prepare_init(bytes(32), _CONTEXT, place, nonce_and_public[:16], nonce_and_public[16:], one)
        found.append(np.array(FIELD64.to_ints(state.output_share), object).reshape(_POINTS, _CLASSES))
    return found


def _alone(place: int, who: str, quick: bool) -> Finding:
    """The share of labels found from the numbers of one aggregator, and from those of both."""
    trials, right, both = 20 if quick else 100, 0.0, 0.0
    for number in range(trials):
        labels, public, shares = _shares(number)
        seen = _outputs(public, shares)
        right += share(_largest(seen[place]), labels)
        both += share(_largest((seen[0] + seen[1]) % FIELD64.modulus), labels)
    return Finding(
        f"both aggregators' shares; ours is the {who}'s alone",
        f"{who}: each client's labels of public points",
        both / trials,
        right / trials,
        1 / _CLASSES,
        trials * _POINTS,
        remark="the server and the helper together read every vote: they must not collude",
    )


def _largest(values: NDArray[np.object_]) -> NDArray[np.int64]:
    return values.astype(np.float64).argmax(1)


def leader_alone(quick: bool = False) -> Finding:
    """The server reads its shares of votes (docs/howto/prio3.md)."""
    return _alone(0, "server", quick)


def helper_alone(quick: bool = False) -> Finding:
    """The helper reads its shares of votes."""
    return _alone(1, "helper", quick)


_VOTES = "server: each client's labels of public points"
_SIGNED = 'ours is protocol.identity = "signed"; without it nothing prevents this'
_FIVE = Miniature("prio3 votes, signed", clients=5, min_clients=5)
_UNSIGNED = structs.replace(_FIVE, kind="prio3 votes")


def swapped_helper_key(quick: bool = False) -> Finding:
    """The server shows its own key as the helper's, and opens both shares. In ours, the helper signs its key."""
    return by_rank("a swapped key of the helper", _VOTES, _FIVE, "batch; swap 0 1 2 3 4", _UNSIGNED, remark=_SIGNED)


def filled_batch(quick: bool = False) -> Finding:
    """The server fills a batch with reports of its own, and reads the one that is left. Ours: clients sign reports."""
    program = "batch; ask 0 1 2 3 4; own 0; share 0 1 2 3 4"
    return by_rank("a batch filled with the server's own reports", _VOTES, _FIVE, program, _UNSIGNED, remark=_SIGNED)


@contextmanager
def _willing() -> Iterator[None]:
    """Make the helper forget which batches it has released, and clients send a report as often as they are asked."""
    problem = reports.Reports._problem

    def forgetful(one: reports.Reports, helper: Any, *arguments: Any) -> str:
        helper.disk.pop(reports._RELEASED, None)
        return problem(one, helper, *arguments)

    with patch.object(reports.Reports, "_problem", forgetful), patch.object(reports, "release", lambda *_: None):
        yield


def second_batch(quick: bool = False) -> Finding:
    """The server opens a round a second time without one client, and reads the client's votes from the difference."""
    batches = (f"batch; ask {names}; job {names}; share {names}" for names in ("0 1 2 3 4 5", "1 2 3 4 5"))
    six = structs.replace(_UNSIGNED, clients=6)
    return by_rank("two counts in one round", _VOTES, six, "; reopen; ".join(batches), _willing())


def stuffed_votes(quick: bool = False) -> Finding:
    """A client counts each of its votes a thousand times; a secure sum accepts this, a proof rejects it."""
    trials, by_sum, by_proof = 10 if quick else 50, 0, 0
    for number in range(trials):
        labels, *_ = _shares(number)
        lie = Lie("stuffed", labels, b"", 1000)
        honest = packed((labels + 1) % _CLASSES, _POINTS, _CLASSES)
        try:
            counted(honest + lie.words(packed(labels, _POINTS, _CLASSES), b""), _POINTS, _CLASSES)
            by_sum += 1
        except ValueError:
            pass
        by_proof += _passes(number, lie.added(labels, _CLASSES, b""))
    name = "votes in a secure sum; ours are reports of Prio3"
    return Finding(name, "client: its votes count 1,000 times", by_sum / trials, by_proof / trials, 0.0, trials)


def scaled_models(quick: bool = False) -> Finding:
    """A client scales its update a thousand times, and moves an average by more than its numbers' bound allows."""
    trials, by_sum, by_proof = 10 if quick else 50, 0, 0
    bound, clients, numbers = 0.5, 10, 20
    quantised, before = Quantised(8, bound, clients), encode(np.zeros(numbers))
    false = FalseUpdate("scaled", numbers, 1000, 1)
    task = Task("integers", (numbers, quantised.largest))
    for number in range(trials):
        trained = encode(randomness("scaled", number).normal(0.0, 0.1, numbers))
        sent = decode(false.model(before, trained, "client/0", 1)).astype(np.float64)
        by_sum += bool(np.abs(fixed_point.decode(fixed_point.encode(sent, 32, clients), 32)).max() > 2 * bound)
        clipped = quantised.encode(sent)
        by_proof += _passes(
            number, out_of_range(quantised.unclipped(sent, 1 << 62), clipped, quantised.bits), task, clipped
        )
    name = "models in a secure sum; ours are reports of Prio3"
    return Finding(name, "client: its update counts 1,000 times", by_sum / trials, by_proof / trials, 0.0, trials)


def _passes(
    number: int, added: NDArray[np.uint64] | None, task: Task = _TASK, measurement: NDArray[Any] | None = None
) -> bool:
    """True if both aggregators accept the client's report, to whose share `added` was added."""
    prio3, (_, public, shares) = task.prio3, _shares(number, added, task, measurement)
    nonce, public = public[:16], public[16:]
    prepared = [prio3.prepare_init(bytes(32), _CONTEXT, i, nonce, public, one) for i, one in enumerate(shares)]
    try:
        message = prio3.prepare_shares_to_prepare_message(_CONTEXT, [one for _, one in prepared])
        for state, _ in prepared:
            prio3.prepare_next(_CONTEXT, state, message)
    except InvalidReport:
        return False
    return True
