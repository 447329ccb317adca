"""Prio3 refuses a report with any wrong part; correct reports give the plaintext sum."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto.vdaf import FIELD64, FIELD128, InvalidReport, Prio3
from tacit.protocols.crypto.vdaf.circuits import OneHotVec, best_chunk_length, wire_points
from tacit.protocols.crypto.vdaf.prime_field import Elements
from tacit.sim.streams import Entropy

CONTEXT = b"tests"
KEY = bytes(range(32))

VALID: dict[str, tuple[Prio3, st.SearchStrategy[Any], Callable[[Any], Any]]] = {
    "count": (Prio3.count(), st.integers(0, 1), np.asarray),
    "sum": (Prio3.sum(1000), st.integers(0, 1000), np.asarray),
    "sum-vec": (
        Prio3.sum_vec(5, max_measurement=300, shares=3),
        st.lists(st.integers(0, 300), min_size=5, max_size=5),
        np.asarray,
    ),
    "sum-vec-64": (
        Prio3.sum_vec(5, 8, field=FIELD64),
        st.lists(st.integers(0, 255), min_size=5, max_size=5),
        np.asarray,
    ),
    "histogram": (Prio3.histogram(7), st.integers(0, 6), lambda bucket: np.arange(7) == bucket),
    "multihot": (
        Prio3.multihot_count_vec(6, 3, 2),
        st.sets(st.integers(0, 5), max_size=3).map(lambda chosen: [int(i in chosen) for i in range(6)]),
        np.asarray,
    ),
    "one-hot": (
        Prio3.one_hot_vec(4, 3),
        st.lists(st.integers(0, 2), min_size=4, max_size=4),
        lambda chosen: np.array(chosen)[:, None] == np.arange(3),
    ),
    "one-hot-64": (
        Prio3.one_hot_vec(3, 4, field=FIELD64),
        st.lists(st.integers(0, 3), min_size=3, max_size=3),
        lambda chosen: np.array(chosen)[:, None] == np.arange(4),
    ),
}
"""Instances, their valid measurements, and the contribution of a measurement to the plaintext result."""

NAMES = sorted(VALID)


def prepare(prio3: Prio3, nonce: bytes, public: bytes, inputs: list[bytes], context: bytes = CONTEXT) -> list[Elements]:
    """The output shares of one report. Raises InvalidReport."""
    each = [prio3.prepare_init(KEY, context, j, nonce, public, inputs[j]) for j in range(prio3.shares)]
    message = prio3.prepare_shares_to_prepare_message(context, [share for _, share in each])
    return [prio3.prepare_next(context, state, message) for state, _ in each]


def shard(prio3: Prio3, measurement: Any, number: int = 0) -> tuple[bytes, bytes, list[bytes]]:
    """The nonce, public share and input shares of report `number`."""
    entropy = Entropy.seeded(1, "prio3", number)
    nonce = entropy.bytes(prio3.nonce_bytes)
    return nonce, *prio3.shard(CONTEXT, measurement, nonce, entropy.bytes(prio3.rand_bytes))


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=12)
@given(data=st.data())
def test_a_batch_gives_the_plaintext_sum_and_its_sizes_equal_the_formulas(name: str, data: st.DataObject) -> None:
    prio3, measurements, plaintext = VALID[name]
    batch = data.draw(st.lists(measurements, min_size=1, max_size=3))
    outputs = []
    for number, measurement in enumerate(batch):
        nonce, public, inputs = shard(prio3, measurement, number)
        assert len(public) == prio3.public_share_bytes
        assert [len(share) for share in inputs] == [prio3.input_share_bytes(j) for j in range(prio3.shares)]
        outputs.append(prepare(prio3, nonce, public, inputs))
    aggregates = [prio3.aggregate(row) for row in zip(*outputs, strict=True)]
    assert {len(share) for share in aggregates} == {prio3.aggregate_share_bytes}
    expected = sum(np.asarray(plaintext(measurement)).astype(int) for measurement in batch)
    assert np.array_equal(prio3.unshard(aggregates, len(batch)), expected)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_one_changed_bit_of_any_message_is_refused(name: str, data: st.DataObject) -> None:
    """The soundness error is below 2^-50 for all of these, so no change that hypothesis finds is accepted."""
    prio3, measurements, _ = VALID[name]
    assert prio3.soundness_error < 2**-50
    nonce, public, inputs = shard(prio3, data.draw(measurements))
    message = {"nonce": nonce, "public": public} | {f"input {j}": share for j, share in enumerate(inputs)}
    # The nonce of a report without joint randomness only chooses the random point; every nonce is right for it.
    choices = [key for key in message if message[key] and (public or key != "nonce")]
    key = data.draw(st.sampled_from(choices))
    bit = data.draw(st.integers(0, 8 * len(message[key]) - 1))
    changed = bytearray(message[key])
    changed[bit // 8] ^= 1 << bit % 8
    message[key] = bytes(changed)
    with pytest.raises(InvalidReport):
        prepare(prio3, message["nonce"], message["public"], [message[f"input {j}"] for j in range(prio3.shares)])


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_a_changed_prepare_share_or_message_is_refused(name: str, data: st.DataObject) -> None:
    prio3, measurements, _ = VALID[name]
    nonce, public, inputs = shard(prio3, data.draw(measurements))
    each = [prio3.prepare_init(KEY, CONTEXT, j, nonce, public, inputs[j]) for j in range(prio3.shares)]
    shares = [bytearray(share) for _, share in each]
    bit = data.draw(st.integers(0, 8 * len(shares[0]) - 1))
    shares[data.draw(st.integers(0, prio3.shares - 1))][bit // 8] ^= 1 << bit % 8
    with pytest.raises(InvalidReport):
        message = prio3.prepare_shares_to_prepare_message(CONTEXT, [bytes(share) for share in shares])
        for state, _ in each:
            prio3.prepare_next(CONTEXT, state, message)


@pytest.mark.parametrize("name", [name for name in NAMES if VALID[name][0].circuit.gadget.degree == 2])
@settings(deadline=None, max_examples=12)
@given(data=st.data())
def test_a_client_that_encodes_an_invalid_measurement_is_refused(name: str, data: st.DataObject) -> None:
    """The client follows the protocol except for its measurement, which is any invalid vector of elements."""
    prio3, _, _ = VALID[name]
    length = prio3.circuit.measurement_length
    values = data.draw(
        st.lists(st.sampled_from([0, 1, 2, -1, 1000, 1 << 20]), min_size=length, max_size=length).filter(
            lambda values: not _is_valid(name, values)
        )
    )
    nonce, public, inputs = shard(Cheating(prio3, values).prio3, None)
    with pytest.raises(InvalidReport):
        prepare(prio3, nonce, public, inputs)


class Cheating:
    """An instance whose encoding returns `values` for any measurement."""

    def __init__(self, honest: Prio3, values: list[int]) -> None:
        circuit = object.__new__(type(honest.circuit))
        circuit.__dict__ = dict(vars(honest.circuit))
        circuit.encode = lambda _: honest.field.from_small(np.array(values))  # type: ignore[method-assign]
        self.prio3 = Prio3(honest.algorithm, circuit, honest.shares, honest.proofs)


def _is_valid(name: str, values: list[int]) -> bool:
    bits = set(values) <= {0, 1}
    match name:
        case "histogram":
            return bits and sum(values) == 1
        case "multihot":
            return bits and sum(values[:6]) == values[6] + 2 * values[7]
        case "one-hot" | "one-hot-64":
            classes = VALID[name][0].circuit.classes  # type: ignore[attr-defined]
            return bits and all(sum(values[i : i + classes]) == 1 for i in range(0, len(values), classes))
    return bits


@pytest.mark.parametrize("votes", [[2, 1, 0, 1], [1, 1, 0, 0], [0, 0, 0, 0], [3, 0, 0, 1]])
def test_two_votes_for_one_point_are_refused_even_if_the_total_is_right(votes: list[int]) -> None:
    """A client votes twice for one point, and not at all for another: MultihotCountVec would accept the total."""
    prio3 = VALID["one-hot"][0]
    values = [int(column < count) for count in votes for column in range(3)]
    nonce, public, inputs = shard(Cheating(prio3, values).prio3, None)
    with pytest.raises(InvalidReport, match="proof fails"):
        prepare(prio3, nonce, public, inputs)


@pytest.mark.parametrize(
    ("prio3", "measurement"),
    [
        (Prio3.count(), 2),
        (Prio3.count(), -1),
        (Prio3.sum(1000), 1001),
        (Prio3.sum_vec(3, 4), [1, 2]),
        (Prio3.sum_vec(3, 4), [0, 0, 16]),
        (Prio3.sum_vec(2, max_measurement=1 << 100), [0, (1 << 100) + 1]),
        (Prio3.sum_vec(2, max_measurement=1 << 100), [0, 0.5]),
        (Prio3.sum(5), "3"),
        (Prio3.histogram(4), 4),
        (Prio3.histogram(4), 0.5),
        (Prio3.multihot_count_vec(4, 2), [1, 1, 1, 0]),
        (Prio3.multihot_count_vec(4, 2), [2, 0, 0, 0]),
        (Prio3.one_hot_vec(2, 3), [0, 3]),
        (Prio3.one_hot_vec(2, 3), [0]),
    ],
)
def test_an_honest_client_refuses_to_shard_an_invalid_measurement(prio3: Prio3, measurement: Any) -> None:
    with pytest.raises(ValueError, match="a measurement of"):
        shard(prio3, measurement)


def test_integers_beyond_a_word_are_summed() -> None:
    prio3 = Prio3.sum_vec(2, max_measurement=(1 << 100) + 5)
    measurement = [(1 << 100) + 5, 1 << 99]
    outputs = prepare(prio3, *shard(prio3, measurement))
    assert prio3.unshard([prio3.aggregate([share]) for share in outputs], 1) == measurement


def test_another_context_key_or_aggregator_refuses_the_report() -> None:
    prio3 = VALID["one-hot"][0]
    nonce, public, inputs = shard(prio3, [0, 1, 2, 0])
    with pytest.raises(InvalidReport):
        prepare(prio3, nonce, public, inputs, b"another context")
    first, second = (prio3.prepare_init(key, CONTEXT, 0, nonce, public, inputs[0])[1] for key in (KEY, bytes(32)))
    other = prio3.prepare_init(KEY, CONTEXT, 1, nonce, public, inputs[1])[1]
    prio3.prepare_shares_to_prepare_message(CONTEXT, [first, other])
    with pytest.raises(InvalidReport):
        prio3.prepare_shares_to_prepare_message(CONTEXT, [second, other])
    with pytest.raises(InvalidReport, match="input share of aggregator 1"):
        prio3.prepare_init(KEY, CONTEXT, 1, nonce, public, inputs[0])


@pytest.mark.parametrize("prio3", [Prio3.histogram(3), Prio3.one_hot_vec(2, 2, field=FIELD64)], ids=["128", "64"])
def test_an_element_of_the_modulus_or_more_is_refused(prio3: Prio3) -> None:
    measurement = 0 if isinstance(prio3.unshard([bytes(prio3.aggregate_share_bytes)] * 2, 0)[0], int) else [0, 1]
    nonce, public, inputs = shard(prio3, measurement)
    modulus = prio3.field.modulus.to_bytes(prio3.field.size, "little")
    with pytest.raises(InvalidReport, match="not below its modulus"):
        prepare(prio3, nonce, public, [modulus + inputs[0][len(modulus) :], inputs[1]])


@pytest.mark.parametrize("make", [lambda: Prio3.count(shares=1), lambda: Prio3.sum(0), lambda: Prio3.histogram(0)])
def test_parameters_without_a_meaning_are_refused(make: Callable[[], Prio3]) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()


def test_field64_takes_three_proofs_with_joint_randomness() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        Prio3.one_hot_vec(10, 10, field=FIELD64, proofs=1)
    one, three = Prio3.one_hot_vec(1000, 10), Prio3.one_hot_vec(1000, 10, field=FIELD64)
    assert math.log2(one.soundness_error) < -118
    assert math.log2(three.soundness_error) < -160
    assert three.input_share_bytes(0) < 0.6 * one.input_share_bytes(0)


def test_representations_of_states_have_no_secret() -> None:
    prio3 = VALID["histogram"][0]
    nonce, public, inputs = shard(prio3, 3)
    state, _ = prio3.prepare_init(KEY, CONTEXT, 0, nonce, public, inputs[0])
    assert repr(state) == "PrepareState(...)"


@given(length=st.integers(1, 400))
def test_no_chunk_length_makes_a_shorter_proof(length: int) -> None:
    def proof_length(chunk: int) -> int:
        return OneHotVec(length, 1, chunk).gadget.arity + 2 * (wire_points(-(-length // chunk)) - 1) + 1

    assert proof_length(best_chunk_length(length)) == min(map(proof_length, range(1, length + 1)))


def test_fields_have_the_moduli_of_the_draft() -> None:
    assert FIELD64.modulus == 2**32 * 4294967295 + 1
    assert FIELD128.modulus == 2**66 * 4611686018427387897 + 1
