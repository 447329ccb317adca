"""No 16 consecutive bytes of a client's secrets occur in bytes that others see: sent, or opened by another client."""

from collections.abc import Iterable
from functools import wraps

import numpy as np
import pytest

from tacit.protocols.crypto import iknp, naor_pinkas
from tacit.protocols.crypto.agreement import KeyPair, SharedSecret
from tacit.protocols.crypto.paillier import PrivateKey
from tacit.protocols.crypto.sealing import PairChannel
from tacit.protocols.xclp.rowsums import Restart
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.sim.faults import Crash
from tacit.sim.streams import Entropy
from tacit.sim.world import World

RUN = 16
CLASSES = 10
SECURE = ["paillier", "unpacked", "iknp", "naor-pinkas"]
RECOVERIES = [Restart(), Shamir()]


class Secrets:
    """Byte strings that no other party may see, by kind, collected during a federation's run; and those that clients
    opened."""

    def __init__(self) -> None:
        self.kinds: dict[str, set[bytes]] = {}
        self.opened: list[bytes] = []

    def add(self, kind: str, *values: bytes | bytearray) -> None:
        self.kinds.setdefault(kind, set()).update(map(bytes, values))

    def add_data(self, run) -> None:
        """Add the clients' own data, in every layout in which they might be sent."""
        for client in run.clients:
            bits, shard = client.bits_of_round, client.shard
            for order in ("big", "little"):
                self.add("bits", np.packbits(bits, bitorder=order).tobytes())
                self.add("bits", *(np.packbits(row, bitorder=order).tobytes() for row in bits))
            self.add("bits as bytes", bits.astype(np.uint8).tobytes())
            for dtype in ("<f8", "<f4"):
                self.add("features", shard.features.astype(dtype).tobytes())
            for labels in (shard.labels, shard.labels[shard.labeled]):
                self.add("labels", *(labels.astype(dtype).tobytes() for dtype in ("u1", "<i4", "<i8")))

    def found_in(self, seen: Iterable[bytes]) -> set[str]:
        """The kinds of secrets of which 16 consecutive bytes occur in one of the byte strings `seen`."""
        kind_of = {
            value[i : i + RUN]: kind
            for kind, values in self.kinds.items()
            for value in values
            for i in range(len(value) - RUN + 1)
            if is_distinctive(value[i : i + RUN])
        }
        beginnings = np.unique(np.frombuffer(b"".join(run[:8] for run in kind_of), "<u8"))
        found = set()
        for data in map(bytes, seen):
            at_each_byte = np.ndarray(max(len(data) - RUN + 1, 0), "<u8", data, strides=(1,))
            for place in np.flatnonzero(np.isin(at_each_byte, beginnings)):
                found.add(kind_of.get(data[place : place + RUN], ""))
        return found - {""}


def is_distinctive(part: bytes) -> bool:
    """True if a part is distinctive: neither a run of one number nor a row of small numbers, like many honest messages
    have.

    In wide integers, 16 bytes hold four labels or two; then only runs of different labels other than 0 count.
    """
    values = set(part)
    return len(values - {0}) >= 2 and len(values) >= 3


@pytest.fixture
def secrets(monkeypatch) -> Secrets:
    """A recorder of keys and seeds when they are made, and of opened messages."""
    found = Secrets()

    def on_creation(kind: str, owner: type, read) -> None:
        original = owner.__init__

        @wraps(original)
        def init(self, *args, **kwargs) -> None:
            original(self, *args, **kwargs)
            found.add(kind, *read(self, *args))

        monkeypatch.setattr(owner, "__init__", init)

    def number(value) -> bytes:
        return int(value).to_bytes(-(-int(value).bit_length() // 8), "big")

    on_creation("x25519 key", KeyPair, lambda self, seed: [seed])
    on_creation("pair secret", SharedSecret, lambda self, secret, *_: [secret])
    on_creation("paillier factor", PrivateKey, lambda self, *_: [number(factor) for factor in self.factors])
    on_creation("transfer exponent", naor_pinkas.SenderKey, lambda self, *_: [number(self.exponent)])
    on_creation("base seeds", iknp.Receiver, lambda self, _, seeds: [seeds])
    on_creation("base choices", iknp.Sender, lambda self, _, choices, seeds: [choices, seeds])

    key, opened, entropy = SharedSecret.key, PairChannel.open, World.entropy

    def record_key(self, *args) -> bytes:
        found.add("derived key", value := key(self, *args))
        return value

    def record_open(self, *args) -> bytes:
        found.opened.append(value := opened(self, *args))
        return value

    class Recorded(Entropy):
        kind = ""

        def bytes(self, count: int) -> bytes:
            found.add(self.kind, value := super().bytes(count))
            return value

    def record_entropy(self, *names) -> Entropy:
        source = entropy(self, *names)
        if names[-1] not in ("group seed", "personal seed"):
            return source
        recorded = Recorded(source.key)
        recorded.kind = names[-1]
        return recorded

    monkeypatch.setattr(SharedSecret, "key", record_key)
    monkeypatch.setattr(PairChannel, "open", record_open)
    monkeypatch.setattr(World, "entropy", record_entropy)
    return found


@pytest.fixture
def play(federation, make_shards, secrets):
    def run(variant: str, recovery=RECOVERIES[0], faults=()):
        # One transfer for each bit of each pair of points is slow.
        sizes = [17, 1, 1] if variant == "naor-pinkas" else [20, 24, 18]
        shards = make_shards(sizes, classes=CLASSES, dimension=6)
        done = federation(
            shards, variant=variant, bits=128, classes=CLASSES, recovery=recovery, faults=faults, topology="star"
        ).run()
        secrets.add_data(done)
        done.assert_equals_oracle()
        return done

    return run


def kinds_made(variant: str, recovery) -> set[str]:
    """The kinds of secrets that a run makes, which the search must have."""
    made = {"bits", "bits as bytes", "features", "labels", "x25519 key", "pair secret", "derived key", "group seed"}
    if variant in ("paillier", "unpacked"):
        made |= {"paillier factor"}
    if variant in ("iknp", "naor-pinkas"):
        made |= {"transfer exponent"}
    if variant == "iknp":
        made |= {"base seeds", "base choices"}
    if recovery.name == "secure":
        made |= {"personal seed"}
    return made


@pytest.mark.parametrize(
    ("variant", "recovery"),
    [
        # The slowest variant is a long test, and so is one recovery of the second slowest.
        pytest.param(variant, recovery, id=f"{variant}-{recovery.name}", marks=[pytest.mark.long] if long else [])
        for variant in SECURE
        for recovery in RECOVERIES
        for long in [variant == "naor-pinkas" or (variant, recovery.name) == ("unpacked", "restart")]
    ],
)
def test_no_secret_is_in_any_message_except_the_group_seed(play, secrets, variant, recovery) -> None:
    run = play(variant, recovery)
    assert set(secrets.kinds) == kinds_made(variant, recovery)
    assert len(secrets.opened) == sum(packet.sealing > 0 for packet in run.packets) > 0
    assert secrets.found_in(packet.data for packet in run.packets) == set()
    # The clients share one seed, by design; nothing else.
    assert secrets.found_in(secrets.opened) == {"group seed"}


@pytest.mark.parametrize("recovery", RECOVERIES, ids=lambda recovery: recovery.name)
def test_no_secret_is_in_any_message_when_clients_are_lost(play, secrets, recovery) -> None:
    faults = [Crash("client/1", before="rowsums.mask")]
    run = play("iknp", recovery, faults)
    assert run.server.record.contributors == ("client/0", "client/2")
    assert secrets.found_in(packet.data for packet in run.packets) == set()
    assert secrets.found_in(secrets.opened) == {"group seed"}


@pytest.mark.parametrize("recovery", RECOVERIES, ids=lambda recovery: recovery.name)
def test_the_plaintext_variant_shows_bits_only_to_clients(play, secrets, recovery) -> None:
    run = play("plaintext", recovery)
    assert secrets.found_in(packet.data for packet in run.packets) == set()
    assert secrets.found_in(secrets.opened) == {"group seed", "bits"}


@pytest.mark.parametrize("dtype", ["u1", "<i4", "<i8"])
def test_the_search_for_secrets_finds_planted_ones(play, secrets, dtype) -> None:
    client = play("plaintext").clients[0]
    for kind, data in {
        "labels": client.shard.labels.astype(dtype).tobytes(),
        "features": client.shard.features[3].tobytes(),
        "bits": np.packbits(client.bits_of_round[5]).tobytes(),
        **{
            kind: max(secrets.kinds[kind]) for kind in ("x25519 key", "pair secret", "derived key")
        },  # the largest, so that it is not all zeros
    }.items():
        assert secrets.found_in([b"before" + data + b"after"]) == {kind}
