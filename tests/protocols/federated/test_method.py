"""Methods made from client terms and server terms of the tests, and rules that every built-in method follows."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacit.parties.data.sets import load
from tacit.parties.data.splits import shards
from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import Active, Addition, LocalUpdate, Run
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import Layout, decode, encode
from tacit.protocols.federated.algorithms import ALGORITHMS
from tacit.protocols.federated.averaging import Plain
from tacit.protocols.federated.method import Averaged, Companion, Extra, Method, Options
from tacit.protocols.federated.registry import UPDATES
from tacit.protocols.federated.round import TrainingServer
from tacit.protocols.federated.secure_averages import Secure
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.protocols.xclp.xclp import Parameters
from tests.protocols.federated.rounds import run_rounds, training_settings

SPEC = ModelSpec("linear", (1, 8, 8), 10)
CLIENTS = 3
SHARDS = shards(load("digits", 120), CLIENTS, "iid", 1.0, 1)
FIRST = jobs.initial(SPEC, 1)


def trained(method: Method, rounds: int = 1, **changes: Any) -> TrainingServer:
    """The server after some rounds of `method`."""
    additions = tuple(addition for addition, _ in method.additions)
    update = LocalUpdate(1, 50, 0.5, device="cpu", additions=additions)
    settings = training_settings(SPEC, update, method, CLIENTS, rounds=rounds, deadline=10.0, **changes)
    return run_rounds(settings, SHARDS, FIRST).server


@pytest.mark.parametrize("averaging", [Plain(), Secure()], ids=["plain", "secure"])
def test_terms_without_effect_leave_the_model_unchanged(averaging: Plain | Secure) -> None:
    extra: Extra = (Addition(), Companion)
    beside = trained(Method(additions=(extra,)), 2, averaging=averaging)
    assert beside.model == trained(Method(), 2, averaging=averaging).model


@dataclass(frozen=True)
class Counting(Addition):
    """An addition that sends one more number than the server sent."""

    def begin(self, run: Run, received: bytes, kept: bytes) -> Active:
        return _Counting(received)


class _Counting(Active):
    def __init__(self, received: bytes) -> None:
        self._sent = encode((decode(received) if received else np.zeros(1, np.float32)) + 1)

    def finish(self) -> tuple[bytes, bytes]:
        return self._sent, b""


class Counter(Averaged):
    def layout(self, spec: ModelSpec) -> Layout:
        return Layout((("float32", 1),))


def test_vectors_sent_beside_the_model_are_averaged_and_returned() -> None:
    counters: list[Counter] = []

    def make() -> Counter:
        counters.append(Counter())
        return counters[-1]

    server = trained(Method(additions=((Counting(), make),)), 3)
    ends = [decode(counter.outgoing("client/0")).tolist() for counter in counters]
    assert [end for end in ends if end] == [[3.0]]  # the other calls only determine sizes
    assert server.model == trained(Method(), 3).model


class Inline:
    """A server with the functions that a server term needs."""

    clients = tuple(f"client/{i}" for i in range(4))
    settings = SimpleNamespace(spec=SPEC)

    async def compute(self, work: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


@pytest.mark.parametrize("name", [*ALGORITHMS, *(f"fedavg, {name}" for name in UPDATES)])
@pytest.mark.parametrize("averaged", [(), ("client/0",), ("client/0", "client/1", "client/2")], ids=len)
def test_vectors_sent_beside_the_model_have_the_size_of_the_formula(name: str, averaged: tuple[str, ...]) -> None:
    options = Options(SPEC, Parameters(PlaintextHamming(64), CLIENTS, 10, bits=64), 1, "cpu")
    extras = UPDATES[name[8:]]() if name.startswith("fedavg, ") else ALGORITHMS[name](options).additions
    for _, make in extras:
        companion = make()
        vector = bytes(companion.size(SPEC))
        if averaged:
            sent, models = dict.fromkeys(averaged, vector), dict.fromkeys(averaged, FIRST)
            server: Any = Inline()
            with pytest.raises(StopIteration):
                companion.take(server, vector, sent, models).send(None)
        for client in ("client/0", "client/3"):
            assert len(companion.outgoing(client)) == companion.outgoing_size(SPEC, client, averaged)


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from tacit.parties.learning.local_update import LocalUpdate
from tacit.protocols.federated.registry import UPDATES
from tacit.protocols.federated.fedmatch import FedMatch
from tacit.protocols.federated.mean_teacher import MeanTeacher

print(len(LocalUpdate(additions=(FedMatch(), MeanTeacher(), *(UPDATES["fedprox"]()[0][:1]))).additions))
"""


def test_methods_can_be_named_without_torch() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3"]
