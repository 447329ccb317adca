"""Paillier keys that a round refuses, at the server and at each client, and the cost of checking them."""

from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from tacit.protocols.crypto import key_proof
from tacit.protocols.crypto.paillier import PublicKey, generate
from tacit.protocols.setup import Join, Keys, Roster
from tacit.protocols.xclp.hamming_paillier import PaillierHamming, proof_context
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.sim.compute import Modelled
from tacit.sim.streams import Entropy

BITS = 16
OURS = PaillierHamming(BITS, 512, insecure=True)
CRAFTED = PublicKey(3**323).to_bytes() + bytes(8 * 64)


class Publishing(PaillierHamming):
    """A variant that publishes `data` instead of its key's modulus and proof."""

    def __init__(self, data: bytes) -> None:
        super().__init__(BITS, 512, insecure=True)
        self.data = data

    async def generate_keys(self, me) -> Keys:
        return Keys(self.data, (await super().generate_keys(me)).private)


def with_variants(run, ours, theirs=None, who="client/2"):
    """Make all clients use the variant `ours`, except `who`, which uses `theirs`."""
    for party in (run.server, *run.clients):
        variant = theirs if theirs and party.name == who else ours
        party.parameters = replace(party.parameters, variant=variant)
    return run


def assert_left_out(run, who: str, why: str) -> None:
    """Assert that `who` is lost and gets the reason `why`, and that the others get results."""
    ((party, step, action),) = [(loss.party, loss.step, loss.action) for loss in run.server.lost]
    assert (party, step) == (who, "setup.keys")
    assert action.startswith("left out of the round: its Paillier key is refused: ")
    assert why in action
    others = [client for client in run.clients if client.name != who]
    assert run.client(who).ending.startswith("dismissed: the round goes on without you: your Paillier key is refused: ")
    assert why in run.client(who).ending
    assert [client.ending for client in others] == ["completed"] * len(others)
    assert run.server.record.members == tuple(client.name for client in others)
    run.assert_equals_oracle()


def test_a_peer_with_a_512_bit_key_is_refused_in_a_2048_bit_run(federation, make_shards) -> None:
    run = with_variants(federation(make_shards([3, 4, 2]), bits=BITS), PaillierHamming(BITS, 2048), OURS).run()
    assert_left_out(run, "client/2", "a 512-bit modulus with its proof, where a 2048-bit modulus with its proof takes")


@pytest.mark.parametrize(
    ("published", "why"),
    [
        (lambda run_id: CRAFTED, "a prime below 65,537 divides the modulus"),
        (lambda run_id: proof_for(run_id, "client/1"), "the proof does not hold"),
        (lambda run_id: proof_for(b"another run", "client/2"), "the proof does not hold"),
        (lambda run_id: proof_for(run_id, "client/2")[:64], "64 bytes, where"),
        (lambda run_id: b"", "0 bytes, where"),
    ],
)
def test_a_key_without_a_proof_of_its_own_is_refused(federation, make_shards, published, why) -> None:
    run = federation(make_shards([3, 4, 2]), bits=BITS)
    with_variants(run, OURS, Publishing(published(run.world.run_id))).run()
    assert_left_out(run, "client/2", why)


def proof_for(run_id: bytes, name: str) -> bytes:
    key = generate(512, Entropy.seeded(1, "key"), insecure=True)
    return key_proof.prove(key, proof_context(run_id, name))


def test_a_modulus_in_a_variant_without_moduli_is_refused(federation, make_shards) -> None:
    run = with_variants(federation(make_shards([3, 4, 2]), bits=BITS), PlaintextHamming(BITS), OURS).run()
    assert run.client("client/2").ending.endswith("your contribution is refused: none was due")
    assert run.server.record.members == ("client/0", "client/1")


def with_changed_roster(run, change: Callable[[Roster], Roster]):
    """Make the server send a changed list of keys."""
    broadcast = run.server.broadcast
    run.server.broadcast = lambda parties, message: broadcast(
        parties, change(message) if isinstance(message, Roster) else message
    )
    return run


@pytest.mark.parametrize(
    ("swapped", "why"),
    [(CRAFTED, "a prime below 65,537"), (bytes(1152), "a 1024-bit modulus with its proof, where a 512")],
)
def test_every_client_refuses_a_list_with_a_bad_key(federation, make_shards, swapped, why) -> None:
    def change(roster: Roster) -> Roster:
        first, _, *rest = roster.contributions
        return msgspec.structs.replace(roster, contributions=[first, swapped, *rest])

    run = with_changed_roster(federation(make_shards([3, 4, 2]), variant="paillier", bits=BITS), change).run()
    for client in run.clients:
        assert client.labels is None
        if client.name == "client/1":  # this client sees that the key is not its own
            assert "the keys that are ascribed to client/1 are not those that it sent" in client.ending
        else:
            assert "Roster from server: the Paillier key of client/1 is refused: " in client.ending
            assert why in client.ending
    assert not [packet for packet in run.packets if packet.type == "EncryptedBits"]
    notes = [event.note for event in run.events if event.kind == "drop" and event.party == "client/0"]
    assert any("the Paillier key of client/1 is refused" in note for note in notes)


def test_proving_and_verifying_are_charged(federation, make_shards) -> None:
    run = federation(make_shards([3, 4, 2]), variant="paillier", bits=BITS, cost=Modelled())
    found = {}

    def begun(party, step, work, function, arguments):
        for name, count in work.items():
            if "proof" in name:
                assert step == ("setup.keys" if party == "server" or "root" in name else "setup.seed")
                found[party, name] = found.get((party, name), 0) + count

    run.world.taps.begun.append(begun)
    run.run()
    clients = [client.name for client in run.clients]
    assert found == {
        **{(name, "paillier-512.proof-root"): 8 for name in clients},
        **{(name, "paillier-512.proof-check"): 8 * 3 for name in ("server", *clients)},
    }
    joins = [packet.payload for packet in run.packets if packet.type == Join.__name__]
    assert joins == [32 + 9 * 64] * 3


def test_fresh_powers_change_no_result_and_no_size(federation, make_shards) -> None:
    powers, fresh = (
        federation(make_shards([3, 4, 5]), variant=variant, bits=100, cost=Modelled()).run()
        for variant in ("paillier", "fresh")
    )
    fresh.assert_equals_oracle()
    np.testing.assert_array_equal(fresh.server.record.h, powers.server.record.h)
    for one, other in zip(fresh.clients, powers.clients, strict=True):
        np.testing.assert_array_equal(one.labels.z, other.labels.z)
        np.testing.assert_array_equal(one.labels.labels, other.labels.labels)

    def sent(run, kind: str) -> list[tuple[str, str, int]]:
        return sorted((packet.sender, packet.receiver, packet.size) for packet in run.packets if packet.type == kind)

    for kind in ("Join", "EncryptedBits", "EncryptedDistances", "Masks", "MaskedDistances"):
        assert sent(fresh, kind) == sent(powers, kind)
    digests = [{p.digest for p in run.packets if p.type == "EncryptedDistances"} for run in (powers, fresh)]
    assert not digests[0] & digests[1]
