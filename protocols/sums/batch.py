"""A batch of reports of Prio3: the statement that each report proves, and the computations of an aggregator.

Each round has a batch of its own (`Batch`), bound to the run, to the round and to what the measurements are (`Task`).
An aggregator takes the first step with its share of each report, checks it with the other aggregator's, and adds those
that are accepted (draft-irtf-cfrg-vdaf, Section 7.2). The messages are those of `reports`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.parties.party import Party
from tacit.protocols.crypto.vdaf import FIELD64, InvalidReport, PrepareState, Prio3
from tacit.protocols.privacy.aggregated import AggregatorNoise
from tacit.protocols.sums.helper import SEALING_BYTES
from tacit.sim.hollow import blank, filled, hollow

__all__ = [
    "CHECKSUM_BYTES", "HELPER_SHARE", "LEADER", "Batch", "Circuit", "FalseVector", "Held", "Task", "aggregated",
    "checksum_of", "noised", "noised_work", "out_of_range", "prepared", "unsharded",
]  # fmt: skip

LEADER, HELPER_SHARE = 0, 1
"""The numbers of the aggregators' shares."""

CHECKSUM_BYTES = 32

Circuit = Literal["votes", "integers", "category"]


@dataclass(frozen=True)
class Task:
    """A circuit with its parameters, which all parties know beforehand: what the reports of a batch are of.

    `votes`: a class for each point (points, classes); `integers`: a number of them from 0 to a bound (length, maximum);
    `category`: one of a number (categories,). `based`: a batch has a basis (`SumSettings.basis`).
    """

    circuit: Circuit
    parameters: tuple[int, ...]
    based: bool = False

    @property
    def prio3(self) -> Prio3:
        """The instance of Prio3. Raises ValueError for parameters that it does not allow."""
        return _instance(self.circuit, self.parameters)

    @property
    def elements(self) -> int:
        """The field elements that encode a measurement."""
        return self.prio3.circuit.measurement_length

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a sum."""
        return self.parameters if self.circuit == "votes" else self.parameters[:1]

    @property
    def most(self) -> int:
        """The largest number of one measurement in a sum."""
        return self.parameters[1] if self.circuit == "integers" else 1

    @property
    def report_bytes(self) -> int:
        """The bytes of a report."""
        prio3 = self.prio3
        shares = prio3.input_share_bytes(LEADER) + prio3.input_share_bytes(HELPER_SHARE)
        return prio3.nonce_bytes + prio3.public_share_bytes + shares + SEALING_BYTES


class FalseVector(NamedTuple):
    """A false client's contribution: a valid `vector`, and what is `added` to the elements of the leader's share."""

    vector: Any
    added: NDArray[np.uint64] | None


def out_of_range(wanted: NDArray[np.int64], vector: NDArray[np.uint64], bits: int) -> NDArray[np.uint64] | None:
    """The elements by which a report whose first numbers are `wanted` differs from that of `vector`, of `bits` each.

    None where they are the same.
    """
    more = np.zeros((len(vector), bits), np.int64)
    more[: len(wanted), 0] = wanted - vector[: len(wanted)].astype(np.int64)  # the element of weight 1
    elements = more.reshape(-1)
    wrapped = elements.astype(np.uint64) + np.uint64(FIELD64.modulus) * (elements < 0)  # modulo 2^64
    return wrapped if elements.any() else None


@lru_cache(8)
def _instance(circuit: Circuit, parameters: tuple[int, ...]) -> Prio3:
    if circuit == "votes":
        return Prio3.one_hot_vec(*parameters, field=FIELD64)
    if circuit == "integers":
        length, maximum = parameters
        return Prio3.sum_vec(length, max_measurement=maximum, field=FIELD64)
    return Prio3.histogram(*parameters)


@dataclass(frozen=True)
class Batch:
    """The reports of one round. `context` binds them to it."""

    task: Task
    context: bytes = b""

    @property
    def prio3(self) -> Prio3:
        """The instance of Prio3."""
        return self.task.prio3

    @classmethod
    def of(cls, me: Party, task: Task, basis: bytes) -> "Batch":
        """The batch of the round that `me` is in, over values that were made from `basis`."""
        place = f"{me.round}/{task.circuit}/{','.join(map(str, task.parameters))}/".encode()
        return cls(task, hashlib.sha256(b"tacit batch/" + me.world.run_id + place + basis).digest())


@dataclass(frozen=True)
class Held:
    """An aggregator's hold of one report after its first step; `problem`: why there is none."""

    state: PrepareState | None = field(default=None, repr=False)
    prepare_share: bytes = field(default=b"", repr=False)
    problem: str = ""


def prepared(batch: Batch, key: bytes, aggregator: int, nonce: bytes, public_share: bytes, share: bytes) -> Held:
    """The first step of an `aggregator` with its `share` of a report."""
    try:
        return Held(*batch.prio3.prepare_init(key, batch.context, aggregator, nonce, public_share, share))
    except InvalidReport as problem:
        return Held(problem=str(problem))


def _hollow_aggregate(
    batch: Batch, held: Sequence[Held], messages: Sequence[bytes], refused: Sequence[str]
) -> tuple[bytes, list[str]]:
    return blank(batch.prio3.aggregate_share_bytes), list(refused)


@hollow(_hollow_aggregate)
def aggregated(
    batch: Batch, held: Sequence[Held], messages: Sequence[bytes], refused: Sequence[str]
) -> tuple[bytes, list[str]]:
    """The aggregate share of the reports that are accepted, and why each other one is refused."""
    prio3, outputs, problems = batch.prio3, [], []
    for one, message, problem in zip(held, messages, refused, strict=True):
        if not problem:
            assert one.state is not None
            try:
                outputs.append(prio3.prepare_next(batch.context, one.state, message))
            except InvalidReport as why:
                problem = str(why)
        problems.append(problem)
    return prio3.aggregate(outputs), problems


@hollow(lambda batch, share, noise, seed: share)
def noised(batch: Batch, share: bytes, noise: AggregatorNoise, seed: bytes) -> bytes:
    """The aggregate `share` with the noise that an aggregator draws from its `seed`."""
    field = batch.prio3.field
    drawn = field.from_ints(noise.drawn(seed, batch.prio3.circuit.output_length).tolist())
    return field.encode(field.settle(field.decode(share) + drawn))


def noised_work(batch: Batch) -> dict[str, int]:
    """The operations of `noised`."""
    numbers = batch.prio3.circuit.output_length
    return {"vector.add": 200 * numbers, "aes.byte": 80 * numbers, "ring.add": numbers}


def _hollow_unshard(batch: Batch, own: bytes, other: bytes, count: int, noise: AggregatorNoise | None = None) -> Any:
    return filled(batch.task.shape, np.int64, count)


@hollow(_hollow_unshard)
def unsharded(
    batch: Batch, own: bytes, other: bytes, count: int, noise: AggregatorNoise | None = None
) -> NDArray[np.int64] | None:
    """The sum of `count` reports; None where the helper's share is malformed, or gives what they cannot add up to.

    With `noise`, whose numbers may be below 0, a number of the sum is that nearest to 0 modulo the field's prime.
    """
    try:
        total = np.array(batch.prio3.unshard([own, other], count), object)
    except InvalidReport:
        return None
    if noise is not None:
        prime = batch.prio3.field.modulus
        total = np.where(total > prime // 2, total - prime, total)
        most = count * batch.task.most + noise.reach
        return total.astype(np.int64) if len(total) == 0 or abs(total).max() <= most else None
    return total.astype(np.int64) if total.max(initial=0) <= count * batch.task.most else None


def checksum_of(nonces: Sequence[bytes]) -> bytes:
    """The XOR of the SHA-256 of each, as in DAP."""
    total = 0
    for nonce in nonces:
        total ^= int.from_bytes(hashlib.sha256(nonce).digest(), "big")
    return total.to_bytes(CHECKSUM_BYTES, "big")
