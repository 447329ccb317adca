"""Prio3 (draft-irtf-cfrg-vdaf-20, section 7): verifiable sums of measurements that are split among aggregators.

A client splits its measurement and a proof of its validity among 2 to 255 aggregators (`shard`). Aggregator 0, the
leader, receives vectors; the others, the helpers, receive seeds from which they expand theirs. Every aggregator
computes a prepare share (`prepare_init`), anybody combines them (`prepare_shares_to_prepare_message`), and every
aggregator then has an output share (`prepare_next`), or the report is refused (`InvalidReport`). Output shares of the
accepted reports are added (`aggregate`); the collector adds the aggregate shares (`unshard`). The draft from version 18
on says "verify" and "verifier" where earlier ones, DAP and this module say "prepare".

Privacy: fewer than all aggregators learn nothing but the aggregate result, also if they deviate (malicious), as long as
one follows the protocol. All of them together read every measurement. The proof hides the measurement.

Robustness: with all aggregators honest, a client that does not know the verification key passes an invalid measurement
with probability at most `soundness_error` a try. Where joint randomness is used, it is derived from the shares by a
hash, so a client can try many shares offline: q tries multiply the error by q. An aggregator that deviates can spoil
the sum. Who knows the verification key can forge reports: clients must never learn it.

What callers must do: use a nonce for one report only and refuse it the second time, release an aggregate only of enough
accepted reports, and draw `rand` and the verification key from a cryptographic generator. Each task has a verification
key of its own, and a context that names the task and its parameters: the algorithm's identifier does not bind them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.protocols.crypto.vdaf.circuits import Circuit, Count, Histogram, MultihotCountVec, OneHotVec, Sum, SumVec
from tacit.protocols.crypto.vdaf.prime_field import FIELD128, Elements, PrimeField
from tacit.protocols.crypto.vdaf.proof_system import ProofSystem

if TYPE_CHECKING:
    from Crypto.Hash import TurboSHAKE128

__all__ = ["InvalidReport", "PrepareState", "Prio3", "derive_seed", "expand"]


# --- XofTurboShake128, the extendable output function of draft-irtf-cfrg-vdaf-20, section 6.2.1.
#
# The message is len(dst) (2 bytes, little-endian) | dst | len(seed) (1 byte) | seed | binder, the domain byte is 1. The
# domain separation tag dst (section 6.2.3) is version | class | algorithm | usage, in 1, 1, 4 and 2 bytes, big-endian,
# followed by the application's context.


SEED_BYTES = 32
VERSION = 18
"""The version byte of the drafts 18 to 20, whose test vectors are the same."""

_CLASS_VDAF = 0


def domain_separation_tag(algorithm: int, usage: int, context: bytes) -> bytes:
    """The tag of one `usage` of a VDAF with this `algorithm` identifier, bound to `context`.

    Raises ValueError for a context over 65527 bytes, which the tag's length does not hold.
    """
    if len(context) > 65535 - 8:
        raise ValueError(f"a context has at most 65527 bytes, not {len(context)}")
    return bytes([VERSION, _CLASS_VDAF]) + algorithm.to_bytes(4, "big") + usage.to_bytes(2, "big") + context


def derive_seed(seed: bytes, tag: bytes, binder: bytes) -> bytes:
    """The first SEED_BYTES of the output: a seed bound to `tag` and `binder`."""
    return bytes(_absorb(seed, tag, binder).read(SEED_BYTES))


def expand(field: PrimeField, seed: bytes, tag: bytes, binder: bytes, count: int) -> Elements:
    """`count` uniform elements of `field` from the output: (limbs, count). Encodings of p and more are skipped."""
    stream, data = _absorb(seed, tag, binder), b""
    while len(data) < count * field.size:
        data += field.below_modulus(stream.read(count * field.size - len(data)))
    return field.decode(data)


def _absorb(seed: bytes, tag: bytes, binder: bytes) -> "TurboSHAKE128.TurboSHAKE":
    from Crypto.Hash import TurboSHAKE128  # takes a tenth of a second, which commands without a sum need not

    stream = TurboSHAKE128.new(domain=1)
    stream.update(len(tag).to_bytes(2, "little") + tag + bytes([len(seed)]) + seed)
    stream.update(binder)
    return stream


# --- Prio3

MEASUREMENT_SHARE, PROOF_SHARE, JOINT_RANDOMNESS, PROVE_RANDOMNESS, QUERY_RANDOMNESS = 1, 2, 3, 4, 5
JOINT_RANDOMNESS_SEED, JOINT_RANDOMNESS_PART = 6, 7

ONE_HOT_VEC = 0xFFFF0001
"""Tacit's identifier for `OneHotVec`, in the range that the draft reserves for private use; on Field64 the next."""

SUM_VEC_FIELD64 = 0xFFFF0003
"""Tacit's identifier for SumVec on Field64."""


INVALID_PROOF = "the report's proof fails: its measurement is invalid, or a share was altered"
"""The reason for which a report is refused whose measurement is invalid."""


class InvalidReport(ValueError):
    """A report, or a message about it, is refused: it is malformed or its proof fails. It is not to be aggregated."""


@dataclass(frozen=True)
class PrepareState:
    """An aggregator's state of one report between `prepare_init` and `prepare_next`. Secret."""

    output_share: Elements
    joint_randomness_seed: bytes
    """The seed that this aggregator used, b"" without joint randomness."""

    def __repr__(self) -> str:
        return "PrepareState(...)"


class Prio3:
    """An instance of Prio3 for one circuit: `algorithm` identifies it, `shares` aggregators, `proofs` proofs a report.

    Made by `count`, `sum`, `sum_vec`, `histogram`, `multihot_count_vec`, `one_hot_vec`. Stateless: one instance serves
    any number of reports and parties, all of which must use the same parameters.

    `nonce_bytes` is 16, `verify_key_bytes` 32; `rand_bytes` is what `shard` takes of randomness: a seed of 32 bytes an
    aggregator, and with joint randomness as much again. All aggregators of a task share one verification key.
    """

    nonce_bytes = 16
    verify_key_bytes = SEED_BYTES

    def __init__(self, algorithm: int, circuit: Circuit, shares: int = 2, proofs: int = 1) -> None:
        if not 2 <= shares <= 255:
            raise ValueError(f"shares(={shares}) must be 2 to 255: the number of aggregators")
        if not 1 <= proofs <= 255:
            raise ValueError(f"proofs(={proofs}) must be 1 to 255")
        self.algorithm, self.circuit, self.shares, self.proofs = algorithm, circuit, shares, proofs
        self.field: PrimeField = circuit.field
        self._system = ProofSystem(circuit)
        self._joint = circuit.joint_randomness_length > 0
        self.rand_bytes = shares * SEED_BYTES * (1 + self._joint)

    @classmethod
    def count(cls, *, shares: int = 2) -> "Prio3":
        """Prio3Count: measurements 0 or 1; the result is how many are 1."""
        return cls(1, Count(), shares)

    @classmethod
    def sum(cls, max_measurement: int, *, shares: int = 2) -> "Prio3":
        """Prio3Sum: integers in [0, max_measurement]; the result is their sum. max_measurement < 2^63."""
        return cls(2, Sum(max_measurement), shares)

    @classmethod
    def sum_vec(
        cls,
        length: int,
        bits: int | None = None,
        chunk_length: int | None = None,
        *,
        max_measurement: int | None = None,
        shares: int = 2,
        field: PrimeField = FIELD128,
    ) -> "Prio3":
        """Prio3SumVec: `length` integers in [0, max_measurement]; the result is the sum by place.

        Exactly one of `bits`, for a maximum of 2^bits - 1, and `max_measurement` is given. The default chunk length
        makes the shortest proof. On Field64, which is Tacit's choice and not the draft's, there are three proofs, and
        shares are half as long.
        """
        if (bits is None) == (max_measurement is None):
            raise ValueError("sum_vec takes exactly one of bits and max_measurement")
        maximum = (1 << bits) - 1 if bits is not None else max_measurement
        assert maximum is not None
        circuit = SumVec(length, maximum, chunk_length, field)
        return cls(3, circuit, shares) if field is FIELD128 else cls(SUM_VEC_FIELD64, circuit, shares, proofs=3)

    @classmethod
    def histogram(cls, length: int, chunk_length: int | None = None, *, shares: int = 2) -> "Prio3":
        """Prio3Histogram: a bucket in [0, length); the result is the number of measurements in each bucket."""
        return cls(4, Histogram(length, chunk_length), shares)

    @classmethod
    def multihot_count_vec(
        cls, length: int, max_weight: int, chunk_length: int | None = None, *, shares: int = 2
    ) -> "Prio3":
        """Prio3MultihotCountVec: `length` bits of which at most `max_weight` are 1; the result is the sum by place."""
        return cls(5, MultihotCountVec(length, max_weight, chunk_length), shares)

    @classmethod
    def one_hot_vec(
        cls,
        points: int,
        classes: int,
        chunk_length: int | None = None,
        *,
        shares: int = 2,
        field: PrimeField = FIELD128,
        proofs: int | None = None,
    ) -> "Prio3":
        """Tacit's own circuit `OneHotVec`: one class in [0, classes) a point; the result is counts by point and class.

        With Field64, three proofs (the default there, as the draft demands) give shorter leader shares than one proof
        on Field128, the default.
        """
        fewest = 1 if field is FIELD128 else 3
        proofs = fewest if proofs is None else proofs
        if proofs < fewest:
            raise ValueError(f"proofs(={proofs}) must be at least {fewest} with joint randomness on {field}")
        # One identifier a field, so that no two instances derive the same randomness from a seed.
        algorithm = ONE_HOT_VEC + (field is not FIELD128)
        return cls(algorithm, OneHotVec(points, classes, chunk_length, field), shares, proofs)

    # Sizes

    @property
    def public_share_bytes(self) -> int:
        """Bytes of a public share: a seed an aggregator with joint randomness, else 0."""
        return self.shares * SEED_BYTES if self._joint else 0

    def input_share_bytes(self, aggregator: int) -> int:
        """Bytes of the input share of `aggregator`: the measurement and proofs for 0, a seed for others; a blind."""
        elements = self.circuit.measurement_length + self.proofs * self._system.proof_length
        share = self.field.size * elements if aggregator == 0 else SEED_BYTES
        return share + SEED_BYTES * self._joint

    @property
    def prepare_share_bytes(self) -> int:
        """Bytes of a prepare share: a verifier share a proof, and a seed with joint randomness."""
        return self.field.size * self.proofs * self._system.verifier_length + SEED_BYTES * self._joint

    @property
    def prepare_message_bytes(self) -> int:
        """Bytes of a prepare message: a seed with joint randomness, else 0."""
        return SEED_BYTES * self._joint

    @property
    def aggregate_share_bytes(self) -> int:
        """Bytes of an aggregate share: one field element an output."""
        return self.field.size * self.circuit.output_length

    @property
    def soundness_error(self) -> float:
        """The draft's bound (section 9.7): (circuit's error + proof system's error)^proofs, for one try of a client."""
        return self._system.soundness_error**self.proofs

    # Clients

    def shard(self, context: bytes, measurement: Any, nonce: bytes, rand: bytes) -> tuple[bytes, list[bytes]]:
        """The public share and the aggregators' input shares of `measurement` (section 7.2.1).

        `nonce` is public and used once; `rand` is `rand_bytes` uniform bytes that are used for nothing else. Raises
        ValueError for a measurement that is invalid, before anything is derived.
        """
        _check_length("nonce", nonce, self.nonce_bytes)
        _check_length("rand", rand, self.rand_bytes)
        seeds = [rand[i : i + SEED_BYTES] for i in range(0, len(rand), SEED_BYTES)]
        encoded = self.circuit.encode(measurement)
        stride, helpers = 1 + self._joint, range(1, self.shares)
        shares, blinds = seeds[:-stride:stride], seeds[1:-stride:stride] if self._joint else []
        leader = encoded.copy()
        parts = [b""]
        for j in helpers:
            helper = self._measurement_share(context, j, shares[j - 1])
            leader -= helper
            if self._joint:
                parts.append(self._part(context, j, blinds[j - 1], nonce, self.field.encode(helper)))
        leader_bytes = self.field.encode(leader)
        leader_blind = seeds[-2] if self._joint else b""
        joint = self.field.zeros(0)
        if self._joint:
            parts[0] = self._part(context, 0, leader_blind, nonce, leader_bytes)
            joint = self._joint_randomness(context, self._seed(context, parts))
        prove = self._expand(PROVE_RANDOMNESS, context, seeds[-1], b"", self._system.prove_randomness_length)
        proofs = [
            self._system.prove(encoded, one, other)
            for one, other in zip(self._each(prove), self._each(joint), strict=True)
        ]
        leader_proofs = np.concatenate(proofs, axis=1)
        for j in helpers:
            leader_proofs -= self._proofs_share(context, j, shares[j - 1])
        first = leader_bytes + self.field.encode(leader_proofs) + leader_blind
        others = [share + blind for share, blind in zip(shares, blinds or [b""] * len(shares), strict=True)]
        return b"".join(parts), [first, *others]

    # Aggregators

    def prepare_init(
        self, verify_key: bytes, context: bytes, aggregator: int, nonce: bytes, public_share: bytes, input_share: bytes
    ) -> tuple[PrepareState, bytes]:
        """The state and the prepare share of `aggregator` for one report (section 7.2.2).

        Raises InvalidReport if the nonce or a share is malformed; ValueError for another key or aggregator.
        """
        _check_length("verify_key", verify_key, self.verify_key_bytes)
        if not 0 <= aggregator < self.shares:
            raise ValueError(f"aggregator(={aggregator}) must be 0 to {self.shares - 1}")
        _check_received("nonce", nonce, self.nonce_bytes)
        _check_received("public share", public_share, self.public_share_bytes)
        _check_received(f"input share of aggregator {aggregator}", input_share, self.input_share_bytes(aggregator))
        share, blind = input_share, b""
        if self._joint:
            share, blind = input_share[:-SEED_BYTES], input_share[-SEED_BYTES:]
        if aggregator == 0:
            length = self.circuit.measurement_length
            elements = self._decode("the leader's input share", share)
            measurement, proofs = elements[:, :length], elements[:, length:]
            encoded = share[: length * self.field.size]
        else:
            measurement = self._measurement_share(context, aggregator, share)
            proofs = self._proofs_share(context, aggregator, share)
            encoded = self.field.encode(measurement) if self._joint else b""
        seed, part, joint = b"", b"", self.field.zeros(0)
        if self._joint:
            part = self._part(context, aggregator, blind, nonce, encoded)
            parts = [public_share[i : i + SEED_BYTES] for i in range(0, len(public_share), SEED_BYTES)]
            parts[aggregator] = part
            seed = self._seed(context, parts)
            joint = self._joint_randomness(context, seed)
        query = self._expand(QUERY_RANDOMNESS, context, verify_key, nonce, self._system.query_randomness_length)
        each = zip(self._each(proofs), self._each(query), self._each(joint), strict=True)
        try:
            verifiers = [self._system.query(measurement, *arguments, self.shares) for arguments in each]
        except ValueError as error:
            raise InvalidReport(str(error)) from None
        state = PrepareState(self.field.settle(self.circuit.truncate(measurement)), seed)
        return state, self.field.encode(np.concatenate(verifiers, axis=1)) + part

    def prepare_shares_to_prepare_message(self, context: bytes, prepare_shares: Sequence[bytes]) -> bytes:
        """The prepare message of one report from the prepare shares of all aggregators, in their order.

        Raises InvalidReport if a share is malformed or a proof fails; ValueError for another number of shares.
        """
        if len(prepare_shares) != self.shares:
            raise ValueError(f"{len(prepare_shares)} prepare shares were given, not {self.shares}")
        end = self.prepare_share_bytes - SEED_BYTES * self._joint
        verifiers = self.field.zeros(end // self.field.size)
        for j, share in enumerate(prepare_shares):
            _check_received(f"prepare share of aggregator {j}", share, self.prepare_share_bytes)
            verifiers += self._decode(f"the prepare share of aggregator {j}", share[:end])
        if not all(self._system.decide(verifier) for verifier in self._each(self.field.settle(verifiers))):
            raise InvalidReport(INVALID_PROOF)
        return self._seed(context, [share[end:] for share in prepare_shares]) if self._joint else b""

    def prepare_next(self, context: bytes, state: PrepareState, message: bytes) -> Elements:
        """The output share of an accepted report: field elements (limbs, output_length).

        Raises InvalidReport if the message is malformed or the aggregators did not use the same joint randomness.
        `context` is unused, as in the draft's Prio3.
        """
        _check_received("prepare message", message, self.prepare_message_bytes)
        if message != state.joint_randomness_seed:
            raise InvalidReport("the report's joint randomness is not the one that its shares give")
        return state.output_share

    def aggregate(self, output_shares: Iterable[Elements]) -> bytes:
        """The aggregate share of one aggregator: the sum of its output shares, which may be none."""
        total = self.field.zeros(self.circuit.output_length)
        for output_share in output_shares:
            total = self.field.settle(total + output_share)
        return self.field.encode(total)

    def unshard(self, aggregate_shares: Sequence[bytes], count: int) -> Any:
        """The aggregate result of `count` measurements from the aggregate shares of all aggregators.

        An integer for Count and Sum, integers by place for SumVec, Histogram and MultihotCountVec, by point and class
        for OneHotVec. Sums are modulo the field's modulus: `count` times the largest value must stay below it. Raises
        ValueError for another number of shares and InvalidReport for a malformed one.
        """
        if len(aggregate_shares) != self.shares:
            raise ValueError(f"{len(aggregate_shares)} aggregate shares were given, not {self.shares}")
        total = self.field.zeros(self.circuit.output_length)
        for j, share in enumerate(aggregate_shares):
            _check_received(f"aggregate share of aggregator {j}", share, self.aggregate_share_bytes)
            total += self._decode(f"the aggregate share of aggregator {j}", share)
        return self.circuit.decode(self.field.to_ints(total), count)

    # Derivations (section 7.2.6)

    def _tag(self, usage: int, context: bytes) -> bytes:
        return domain_separation_tag(self.algorithm, usage, context)

    def _expand(self, usage: int, context: bytes, seed: bytes, binder: bytes, length: int) -> Elements:
        """`length` elements a proof."""
        binder = bytes([self.proofs]) + binder
        return expand(self.field, seed, self._tag(usage, context), binder, self.proofs * length)

    def _measurement_share(self, context: bytes, aggregator: int, seed: bytes) -> Elements:
        tag, length = self._tag(MEASUREMENT_SHARE, context), self.circuit.measurement_length
        return expand(self.field, seed, tag, bytes([aggregator]), length)

    def _proofs_share(self, context: bytes, aggregator: int, seed: bytes) -> Elements:
        return self._expand(PROOF_SHARE, context, seed, bytes([aggregator]), self._system.proof_length)

    def _joint_randomness(self, context: bytes, seed: bytes) -> Elements:
        return self._expand(JOINT_RANDOMNESS, context, seed, b"", self.circuit.joint_randomness_length)

    def _part(self, context: bytes, aggregator: int, blind: bytes, nonce: bytes, encoded: bytes) -> bytes:
        binder = bytes([aggregator]) + nonce + encoded
        return derive_seed(blind, self._tag(JOINT_RANDOMNESS_PART, context), binder)

    def _seed(self, context: bytes, parts: Sequence[bytes]) -> bytes:
        return derive_seed(bytes(SEED_BYTES), self._tag(JOINT_RANDOMNESS_SEED, context), b"".join(parts))

    def _each(self, elements: Elements) -> list[Elements]:
        """The equal parts of `elements` for each proof."""
        return np.split(elements, self.proofs, axis=1)

    def _decode(self, name: str, data: bytes) -> Elements:
        try:
            return self.field.decode(data)
        except ValueError as error:
            raise InvalidReport(f"{name} is malformed: {error}") from None


def _check_length(name: str, value: bytes, expected: int) -> None:
    if len(value) != expected:
        raise ValueError(f"{name} has {len(value)} bytes, not {expected}")


def _check_received(name: str, value: bytes, expected: int) -> None:
    if len(value) != expected:
        raise InvalidReport(f"the {name} has {len(value)} bytes, not {expected}")
