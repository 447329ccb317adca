"""What parties of a simulation compute alike is computed once, and gives the same trace as if each computed it."""

from pathlib import Path

import numpy as np
import pytest

from tacit import load, run
from tacit.protocols.crypto.agreement import KeyPair
from tacit.protocols.xclp import lsh
from tacit.sim.alike import sharing
from tacit.sim.compute import Computing

CLIENTS = 5
CHANGES = ("fault=[]", "expect={}", "data.limit=60", f"data.clients={CLIENTS}", "protocol.hamming=plaintext")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count key agreements and drawings of planes."""
    counts = {"agree": 0, "planes": 0}
    agree, gaussian = KeyPair.agree, lsh.gaussian

    def agreed(pair: KeyPair, peer: bytes) -> bytes:
        counts["agree"] += 1
        return agree(pair, peer)

    def drawn(*arguments: object) -> object:
        counts["planes"] += 1
        return gaussian(*arguments)

    monkeypatch.setattr(KeyPair, "agree", agreed)
    monkeypatch.setattr(lsh, "gaussian", drawn)
    return counts


def test_a_secret_of_two_is_agreed_once_and_planes_are_drawn_once(
    tmp_path: Path, counted: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = load("xclp-digits", [*CHANGES, "engine=inline", "seed=20", "network.latency=normal:1s,1s"])
    once = run(scenario, out=tmp_path / "once")
    pairs, probes = CLIENTS * (CLIENTS - 1) // 2, CLIENTS  # the server probes each key
    fewer = dict(counted)
    assert pairs + probes <= fewer["agree"] < 2 * pairs + probes  # those that compute at the same time do it twice
    counted.update(agree=0, planes=0)
    monkeypatch.setattr(Computing, "shares", False)
    each = run(scenario, out=tmp_path / "each")
    assert counted["agree"] == 2 * pairs + probes
    assert fewer["planes"] < CLIENTS
    assert (once.trace_hash, once.virtual_seconds, once.labels_digest) == (
        each.trace_hash,
        each.virtual_seconds,
        each.labels_digest,
    )


def test_each_computes_everything_itself_where_jobs_are_measured(tmp_path: Path, counted: dict[str, int]) -> None:
    run(load("xclp-digits", [*CHANGES, "engine=inline", "cost=measured"]), out=tmp_path / "measured")
    assert counted["agree"] == CLIENTS * (CLIENTS - 1) + CLIENTS
    assert counted["planes"] >= CLIENTS


def test_planes_are_the_same_for_all_and_cannot_be_changed() -> None:
    seed = bytes(32)
    with sharing:
        one, other = lsh.planes(seed, 8, 3), lsh.planes(seed, 8, 3)
        assert one is other
        assert not np.array_equal(lsh.planes(bytes(31) + b"\1", 8, 3), one)
    alone = lsh.planes(seed, 8, 3)
    assert alone is not one
    assert np.array_equal(alone, one)
    with pytest.raises(ValueError, match="read-only"):
        one[0, 0] = 1.0
