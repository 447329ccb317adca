"""A party's disk in a file, and the file with its final state, which may be shared."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.protocols.setup import KEYS_ON_DISK
from tacit.protocols.sums.decryptors import KeyRing
from tacit.scenarios.deploying.plain_state import DiskFile, ending_of
from tacit.sim.compute import Free
from tacit.sim.world import World

NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))
ROOT, PRIVATE, SHARE = (bytes([n]) * 32 for n in (1, 2, 3))
RING = KeyRing(
    ("client/0", "client/1"), ("client/0#1", "client/1#2"), b"digest", {"client/0": ROOT}, {"client/0": b"key"},
    PRIVATE, 1, 1, ("client/1",), b"commitments", SHARE,
)  # fmt: skip


@pytest.fixture
def party() -> Client:
    return Client(World(1, cost=Free()), "client/0", NOTHING)


def test_stored_keys_survive_a_restart_until_their_removal(party: Client, tmp_path: Path) -> None:
    party.device.disk = DiskFile(tmp_path / "disk")
    RING.store(party)
    party.disk["entered"] = {"sum.mask": (2, 1)}
    party.device.disk = DiskFile(tmp_path / "disk")
    assert KeyRing.of(party) == RING
    party.disk.pop(KEYS_ON_DISK, None)
    party.disk.pop(KEYS_ON_DISK, None)
    party.device.disk = DiskFile(tmp_path / "disk")
    assert KeyRing.of(party) is None and party.disk == {"entered": {"sum.mask": (2, 1)}}


def test_the_recorded_ending_of_a_party_has_no_keys(party: Client) -> None:
    RING.store(party)
    party.disk["learner"] = b"learnt"
    written = msgspec.msgpack.encode(ending_of(party, []))
    assert b"learnt" in written
    assert not any(secret in written for secret in (ROOT, PRIVATE, SHARE))
