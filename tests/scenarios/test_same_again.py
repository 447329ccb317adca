"""A lying server that calls to the same round in other bytes, or sends what no client can use beside the model."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tacit.parties.learning.vectors import Layout, canonical
from tacit.protocols.cotraining.round import CotrainingRound, CotrainingServer
from tacit.protocols.federated.fedavg import TrainingRound
from tacit.protocols.federated.round import TrainingServer
from tacit.scenarios.files.reading import load
from tacit.scenarios.files.result import Result
from tacit.scenarios.running.runner import run

COMMON = ["data.limit=200", "data.clients=4", "data.labeled=1.0", "expect={}", "fault=[]", "engine=inline"]
AVERAGES = [*COMMON, "protocol.name=fedavg", "training.rounds=2", "training.epochs=1", "model.name=linear"]


def texts(result: Result, kind: str) -> set[str]:
    with closing(sqlite3.connect(result.folder / "run.sqlite")) as record:
        return {note for (note,) in record.execute("SELECT note FROM events WHERE kind = ?", (kind,))}


def test_equal_numbers_have_equal_bytes() -> None:
    layout = Layout((("float16", 3), ("bfloat16", 3), ("float32", 3), ("float64", 3)))
    words = ("<u2", "<u2", "<u4", "<u8")
    nan, signs = (0x7E01, 0x7FC1, 0x7FC00001, 0x7FF8000000000001), (0x8000, 0x8000, 0x80000000, 0x8000000000000000)

    def vector(zero: int, nans: Sequence[int]) -> bytes:
        rows = zip(words, signs, nans, strict=True)
        return b"".join(np.array([zero * sign, one, 1], kind).tobytes() for kind, sign, one in rows)

    one, other = vector(0, nan), vector(1, [bits | sign for bits, sign in zip(nan, signs, strict=True)])
    assert one != other and canonical(one, layout) == canonical(other, layout)
    infinite = np.array([np.inf, -np.inf, -1.0], "<f4").tobytes()
    assert canonical(infinite, Layout((("float32", 3),))) == infinite


@pytest.mark.parametrize(
    ("averaging", "refused"),
    [
        ("secure", "take part in round 2: it begins as round 1, for which it has sent masked values"),
        ("prio3", "release its share of the sum: a batch with the same basis was released before"),
    ],
)
def test_a_model_with_zeros_of_the_other_sign_is_the_same(
    averaging: str, refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    first: list[bytes] = []

    def send(me: TrainingServer, members: Sequence[str]) -> None:
        zeros = np.frombuffer(me.model, "<f4").copy()
        zeros[:5] = -0.0 if first else 0.0
        first.append(zeros.tobytes())
        if len(first) == 2:
            others = np.frombuffer(first[0], "<f4").copy()
            others[:5] = -0.0
            first[1] = others.tobytes()
            assert first[0] != first[1] and np.array_equal(np.frombuffer(first[0], "<f4"), others)
        me.model = first[-1]
        me.send_each(members, TrainingRound(me.model, []))

    monkeypatch.setattr(TrainingServer, "send_model", send)
    monkeypatch.setattr(TrainingServer, "standstill", lambda self, number: "")
    result = run(
        load("fedavg-xclp-digits", [*AVERAGES, f"training.averaging={averaging}", "sum.value_bits=12"]),
        out=tmp_path / "run",
    )
    assert f"refused to {refused}" in texts(result, "metric")


def test_a_consensus_in_other_bits_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = CotrainingServer.broadcast

    def broadcast(me: CotrainingServer, parties: Sequence[str], message: object) -> None:
        if isinstance(message, CotrainingRound) and message.agreed:
            message = CotrainingRound(message.agreed[:-1] + bytes([message.agreed[-1] | 0x80]))
        honest(me, parties, message)

    monkeypatch.setattr(CotrainingServer, "broadcast", broadcast)
    changes = [*COMMON, "cotraining.votes=secure", "cotraining.rounds=2", "learner.name=random-forest"]
    result = run(load("fedct-digits", [*changes, "public.size=47"]), out=tmp_path / "run")
    assert "CotrainingRound from server: the bits after the last label are not all 0" in texts(result, "drop")


@pytest.mark.parametrize(
    ("algorithm", "model", "additions", "why"),
    [
        ("fedavg", b"", [b"junk"], "state for 1 additions, but the update has 0"),
        ("scaffold", b"", [b"junk"], "SCAFFOLD's control variate"),
        ("fedavg", b"junk", [], "the model: "),
    ],
)
def test_what_no_client_can_use_is_refused_by_name(
    algorithm: str, model: bytes, additions: list[bytes], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")

    def send(me: TrainingServer, members: Sequence[str]) -> None:
        me.send_each(members, TrainingRound((model or me.model) if "client/1" in members else me.model, additions))

    monkeypatch.setattr(TrainingServer, "send_model", send)
    result = run(load("fedavg-xclp-digits", [*AVERAGES, f"protocol.name={algorithm}"]), out=tmp_path / "run")
    assert any(note.startswith("TrainingRound from server: ") and why in note for note in texts(result, "drop"))
    assert all("the server sent invalid values: " in ending for name, ending in result.endings.items())
