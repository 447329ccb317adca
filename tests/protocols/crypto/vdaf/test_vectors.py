"""Prio3 gives the draft's test vectors byte for byte, and refuses the invalid vectors of the draft.

draft_20.json.xz has all Prio3 vectors and the XOF's vectors of the repository cfrg/draft-irtf-cfrg-vdaf at its tag
draft-irtf-cfrg-vdaf-20 (version byte 18), unchanged except for white space, with the notice of their licence.
"""

import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.protocols.crypto.vdaf import FIELD64, FIELD128, InvalidReport, PrepareState, Prio3
from tacit.protocols.crypto.vdaf.circuits import Circuit, Polynomial, SumVec
from tacit.protocols.crypto.vdaf.prime_field import Elements
from tacit.protocols.crypto.vdaf.prio3 import derive_seed, expand

VECTORS = json.loads(lzma.decompress((Path(__file__).parent / "draft_20.json.xz").read_bytes()))
PRIO3 = VECTORS["prio3"]


class HigherDegree(Circuit):
    """The circuit 0, 1 or 2: x (x - 1) (x - 2) = 0, used in the draft's tests for its gadget of degree 3."""

    field = FIELD64
    gadget = Polynomial([0, 2, -3, 1])
    calls = measurement_length = output_length = evaluation_length = 1
    joint_randomness_length = joint_randomness_degree = 0

    def encode(self, measurement: int) -> Elements:
        return self.field.from_small(np.array([measurement]))

    def wires(self, measurement: Elements, joint_randomness: Elements, shares: int) -> Elements:
        return measurement[:, None]

    def outputs(self, measurement: Elements, gadget_outputs: Elements, shares: int) -> Elements:
        return gadget_outputs

    def decode(self, sums: list[int], count: int) -> int:
        return sums[0]


def instance(name: str, vector: dict[str, Any]) -> Prio3:
    shares = vector["shares"]
    parameters = {
        key: vector[key] for key in ("length", "max_weight", "max_measurement", "chunk_length") if key in vector
    }
    match name.split("_")[0]:
        case "Prio3Count":
            return Prio3.count(shares=shares)
        case "Prio3Sum":
            return Prio3.sum(**parameters, shares=shares)
        case "Prio3SumVec":
            return Prio3.sum_vec(**parameters, shares=shares)
        case "Prio3Histogram":
            return Prio3.histogram(**parameters, shares=shares)
        case "Prio3MultihotCountVec":
            return Prio3.multihot_count_vec(**parameters, shares=shares)
        case "Prio3SumVecWithMultiproof":
            return Prio3(0xFFFFFFFF, SumVec(**parameters, field=FIELD64), shares, proofs=3)
        case "Prio3HigherDegree":
            return Prio3(0xFFFFFFFF, HigherDegree(), shares)
    raise AssertionError(f"no instance for {name}")


class Replay:
    """The operations of one vector, each with its result and the expected one."""

    def __init__(self, name: str) -> None:
        self.vector = PRIO3[name]
        self.prio3 = instance(name, self.vector)
        self.key, self.context = (bytes.fromhex(self.vector[key]) for key in ("verify_key", "ctx"))
        self.states: dict[tuple[int, int], PrepareState] = {}
        self.outputs: dict[int, list[Elements]] = {}

    def run(self, operation: str, index: int, aggregator: int) -> tuple[Any, Any]:
        prio3, report = self.prio3, self.vector["reports"][index]
        nonce, rand, public = (bytes.fromhex(report[key]) for key in ("nonce", "rand", "public_share"))
        inputs = [bytes.fromhex(share) for share in report["input_shares"]]
        match operation:
            case "shard":
                return prio3.shard(self.context, report["measurement"], nonce, rand), (public, inputs)
            case "verify_init":
                state, share = prio3.prepare_init(self.key, self.context, aggregator, nonce, public, inputs[aggregator])
                self.states[index, aggregator] = state
                return share.hex(), report["verifier_shares"][0][aggregator]
            case "verifier_shares_to_message":
                shares = [bytes.fromhex(share) for share in report["verifier_shares"][0]]
                message = prio3.prepare_shares_to_prepare_message(self.context, shares)
                return message.hex(), report["verifier_messages"][0]
            case "verify_next":
                message = bytes.fromhex(report["verifier_messages"][0])
                output = prio3.prepare_next(self.context, self.states[index, aggregator], message)
                self.outputs.setdefault(aggregator, []).append(output)
                return prio3.field.encode(output).hex(), "".join(report["out_shares"][aggregator])
            case "aggregate":
                return prio3.aggregate(self.outputs[aggregator]).hex(), self.vector["agg_shares"][aggregator]
            case "unshard":
                shares = [bytes.fromhex(share) for share in self.vector["agg_shares"]]
                return prio3.unshard(shares, len(self.vector["reports"])), self.vector["agg_result"]
        raise AssertionError(f"unknown operation {operation}")


@pytest.mark.parametrize("name", sorted(PRIO3))
def test_every_operation_gives_the_published_test_vector(name: str) -> None:
    replay = Replay(name)
    for entry in replay.vector["operations"]:
        operation = entry["operation"], entry.get("report_index", 0), entry.get("aggregator_id", 0)
        if entry["success"]:
            result, expected = replay.run(*operation)
            assert result == expected, operation
        else:
            with pytest.raises(InvalidReport):
                replay.run(*operation)


def test_the_xof_gives_its_published_test_vector() -> None:
    vector = VECTORS["xof"]
    seed, tag, binder = (bytes.fromhex(vector[key]) for key in ("seed", "dst", "binder"))
    assert derive_seed(seed, tag, binder).hex() == vector["derived_seed"]
    elements = expand(FIELD128, seed, tag, binder, vector["length"])
    assert FIELD128.encode(elements).hex() == vector["expanded_vec_field128"]
