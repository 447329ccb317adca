"""Signed identities: a server that swaps, replays or splits messages is refused and named; honest runs are
unchanged."""

import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from tacit import Network, ProtocolKeys, Scenario
from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.playing import play_out
from tacit.parties.server import Server
from tacit.protocols import identity_files, setup
from tacit.protocols.crypto.agreement import KeyPair
from tacit.protocols.identities import SIGNATURE_BYTES, Claim, Identities
from tacit.protocols.outcome import Abort
from tacit.protocols.parts import Among, payloads
from tacit.protocols.setup import Roster, SeedAgreed
from tacit.protocols.sums import consistency
from tacit.protocols.sums.consistency import Agreed, Agreement
from tacit.protocols.sums.dealing import DealtKey, DealtKeys, Survivors
from tacit.protocols.values import BadValues
from tacit.protocols.xclp.declaration import Propagation
from tacit.protocols.xclp.rowsums import Restart, Summing
from tacit.protocols.xclp.rowsums_graph import Adjacent, InGraph
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.sim.compute import Free
from tacit.sim.faults import Crash
from tacit.sim.world import World

SIZES = [4, 3, 3, 4, 2, 3, 3, 2, 3, 4]
NAMES = tuple(f"client/{i}" for i in range(len(SIZES)))
KNOWN = Identities.simulated(7)
RECOVERIES = {"restart": Restart, "secure": Shamir, "secagg+": InGraph}


def notes(run, text: str) -> list[str]:
    return [event.party for event in run.events if text in event.note]


def signed(federation, make_shards, recovery: str = "secure", **given):
    return federation(make_shards(SIZES), recovery=RECOVERIES[recovery](), identities=KNOWN, **given)


@pytest.mark.parametrize("variant", ["plaintext", "paillier"])
@pytest.mark.parametrize("recovery", RECOVERIES)
def test_a_run_with_signed_identities_has_the_same_result(federation, make_shards, recovery: str, variant: str) -> None:
    few = make_shards(SIZES[:4])
    runs = [
        federation(few, recovery=RECOVERIES[recovery](), variant=variant, identities=known).run()
        for known in (None, KNOWN)
    ]
    for run in runs:
        assert run.server.record.contributors == NAMES[:4]
        run.assert_equals_oracle()
    types = [{packet.type for packet in run.packets} for run in runs]
    assert types[1] - types[0] == (set() if recovery == "restart" else {"Agreed", "Agreement"})


@pytest.mark.parametrize("recovery", RECOVERIES)
def test_the_payload_of_signed_runs_by_type_equals_the_formula(federation, make_shards, recovery: str) -> None:
    run = signed(federation, make_shards, recovery, topology="mesh").run()
    found: dict[str, int] = {}
    for row in run.world.ledger.rows():
        found[row.type] = found.get(row.type, 0) + row.payload
    protocol = ProtocolKeys(hamming="plaintext", recovery=recovery, identity="signed")
    tables = Scenario(protocol=protocol, network=Network(topology="mesh"))
    formula = payloads(Propagation().takes, tables, Among(dict.fromkeys(NAMES, 1)))
    of_keys = {"Join", "Roster", "DealtKey", "DealtKeys", "Adjacent", "Agreed", "Agreement", "Revealed"}
    assert {kind: found[kind] for kind in formula if kind in of_keys} == {
        kind: size for kind, size in formula.items() if kind in of_keys
    }
    assert found["Join"] == len(NAMES) * (32 + SIGNATURE_BYTES)


@pytest.mark.parametrize("step", ["rowsums.deal", "rowsums.mask", "rowsums.agree", "rowsums.reveal"])
@pytest.mark.parametrize("recovery", ["secure", "secagg+"])
def test_clients_lost_at_any_step_are_left_out_of_a_signed_run(
    federation, make_shards, recovery: str, step: str
) -> None:
    lost = ("client/2", "client/9")
    run = signed(federation, make_shards, recovery, faults=[Crash(name, before=step) for name in lost]).run()
    assert tuple(client.name for client in run.labeled_clients) == tuple(n for n in NAMES if n not in lost)
    run.assert_equals_oracle()


def test_with_more_than_a_third_lost_there_is_no_sum(federation, make_shards) -> None:
    """Seven of ten must sign."""
    assert consistency.needed(10) == 7
    for count, completes in ((3, True), (4, False)):
        faults = [Crash(name, before="rowsums.mask") for name in NAMES[:count]]
        run = signed(federation, make_shards, faults=faults).run()
        assert bool(run.labeled_clients) == completes
        if not completes:
            assert "6 clients are left; protocol.threshold is 7" in run.server.aborted


def test_clients_lost_in_the_set_up_do_not_count_for_the_quorum(federation, make_shards) -> None:
    """Server and clients agree on |P|, which is then smaller than the Roster."""
    run = signed(federation, make_shards, faults=[Crash(name, before="setup.seed") for name in NAMES[6:]]).run()
    assert run.server.record.contributors == NAMES[:6]
    run.assert_equals_oracle()


# Lying servers


def with_changed_messages(run, change: Callable[[str, object], object | None]):
    """`run` with a server whose messages to each client are replaced by `change`; None: not sent."""
    send_each = run.server.send_each

    def each(receivers, message) -> None:
        for name in receivers:
            if (shown := change(name, message)) is not None:
                send_each((name,), shown)

    run.server.send_each = each
    return run.run()


def with_other(keys: list[bytes], place: int, key: bytes) -> list[bytes]:
    return [key if at == place else old for at, old in enumerate(keys)]


STRANGER = KeyPair(bytes([9]) * 32).public


def with_server_key(kind: str, message):
    """A copy of `message` in which client/3's key is replaced by the server's own."""
    if kind == "set-up" and isinstance(message, Roster):
        return structs.replace(message, public_keys=with_other(message.public_keys, 3, STRANGER))
    if kind == "modulus" and isinstance(message, Roster):
        whole = message.contributions[3]
        other = bytes([whole[0] ^ 1]) + whole[1:]
        return structs.replace(message, contributions=with_other(message.contributions, 3, other))
    if kind == "points" and isinstance(message, Roster):
        return structs.replace(message, points=[*message.points[:3], message.points[3] + 1, *message.points[4:]])
    if kind == "incarnation" and isinstance(message, Roster):
        return structs.replace(message, incarnations=[*message.incarnations[:3], 2, *message.incarnations[4:]])
    if kind == "dealt" and isinstance(message, DealtKeys):
        key = STRANGER + message.public_keys[3][32:]
        return structs.replace(message, public_keys=with_other(message.public_keys, 3, key))
    return message


@pytest.mark.parametrize("kind", ["set-up", "modulus", "points", "incarnation", "dealt"])
def test_a_swapped_key_is_refused_and_named(federation, make_shards, kind: str) -> None:
    given = {"variant": "paillier"} if kind == "modulus" else {}
    few = make_shards(SIZES[:5])
    run = federation(few, recovery=Shamir(), identities=KNOWN, **given)
    with_changed_messages(run, lambda name, message: with_server_key(kind, message) if name != "client/3" else message)
    what = "dealt key" if kind == "dealt" else "set-up key"
    assert set(notes(run, f"the signature of client/3 on its {what} does not verify")) == set(NAMES[:5]) - {"client/3"}
    assert not run.labeled_clients


def test_without_signatures_a_swapped_key_goes_unseen(federation, make_shards) -> None:
    run = federation(make_shards(SIZES[:5]), recovery=Shamir())
    with_changed_messages(
        run, lambda name, message: with_server_key("dealt", message) if name == "client/0" else message
    )
    assert not notes(run, "signature")


def test_keys_of_an_earlier_round_or_attempt_are_refused(federation, make_shards) -> None:
    """The server replays client/3's keys of the first round in the second."""
    old: dict[str, object] = {}

    def replayed(name: str, message):
        if not isinstance(message, Roster):
            return message
        first = old.setdefault("roster", message)
        if message is first or name == "client/3":
            return message
        keys, published = [message.public_keys, message.contributions], [first.public_keys[3], first.contributions[3]]
        both = [with_other(*one) for one in ((keys[0], 3, published[0]), (keys[1], 3, published[1]))]
        return structs.replace(message, public_keys=both[0], contributions=both[1])

    run = with_changed_messages(
        federation(make_shards(SIZES[:5]), recovery=Shamir(), identities=KNOWN, rounds=2), replayed
    )
    blamed = notes(run, "the signature of client/3 on its set-up key does not verify")
    assert set(blamed) == set(NAMES[:5]) - {"client/3"}
    assert all(1 in client.results and 2 not in client.results for client in run.clients)


@pytest.mark.parametrize("recovery", ["secure", "secagg+"])
def test_a_list_of_participants_that_differs_between_clients_is_refused(federation, make_shards, recovery: str) -> None:
    """client/0 is shown that client/9 left during the set-up: with this list, signatures of second keys are invalid."""

    def fewer(name: str, message):
        if name == "client/0" and isinstance(message, SeedAgreed | DealtKeys | Survivors | Adjacent | Summing):
            names = [one for one in message.names if one != "client/9"]
            return structs.replace(message, names=names)
        return message

    run = with_changed_messages(signed(federation, make_shards, recovery), fewer)
    assert "client/0" in {loss.party for loss in run.server.lost if "its key to be dealt is refused" in loss.action}
    assert run.server.record.contributors == NAMES[1:9]


@pytest.mark.parametrize("kind", [DealtKey, Agreed])
def test_clients_with_wrong_signatures_are_named_and_left_out(federation, make_shards, kind: type) -> None:
    """Three clients sign their own keys, or the sets, wrongly: the server names them, and continues without them."""
    run, byzantine = signed(federation, make_shards), NAMES[2:5]

    def each(send_each, receivers, message) -> None:
        if kind is DealtKey and isinstance(message, DealtKey):
            message = DealtKey(message.public_key[:32] + bytes(SIGNATURE_BYTES))
        elif kind is Agreed and isinstance(message, Agreed):
            message = Agreed(bytes(SIGNATURE_BYTES))
        send_each(receivers, message)

    for name in byzantine:
        run.client(name).send_each = partial(each, run.client(name).send_each)
    run.run()
    what = "dealt key" if kind is DealtKey else "sets of a sum"
    named = {name for name in NAMES if notes(run, f"the signature of {name} on its {what} does not verify")}
    assert named and named <= set(byzantine)
    assert len(run.server.record.contributors) == (7 if kind is DealtKey else 10)
    run.assert_equals_oracle()


def test_keys_of_an_earlier_set_up_in_the_same_round_are_refused() -> None:
    """The server sets up two groups in one round, and shows client/1's key of the first in the second."""
    world, first = World(1, cost=Free()), list[Roster]()
    found: dict[str, str] = {}

    class Member(Client):
        async def main(self) -> None:
            for _ in range(2):
                await self.recv(setup.RoundStart, self.server, 10)
                try:
                    await setup.client(self, 10, identities=KNOWN)
                except BadValues as error:
                    found[self.name] = str(error)

    class Twice(Server):
        async def main(self) -> None:
            for _ in range(2):
                with suppress(Abort):
                    await setup.server(self, self.clients, 1, 2, 10, identities=KNOWN)

        def send_each(self, receivers, message) -> None:
            if isinstance(message, Roster):
                first.append(message)
                old = first[0]
                keys = with_other(message.public_keys, 1, old.public_keys[1])
                published = with_other(message.contributions, 1, old.contributions[1])
                message = structs.replace(message, public_keys=keys, contributions=published)
            super().send_each(receivers, message)

    play_out([Twice(world, NAMES[:3]), *(Member(world, name, NOTHING) for name in NAMES[:3])])
    assert len(first) == 2 and set(found) == set(NAMES[:3])
    assert all(
        "the signature of client/1 on its set-up key does not verify" in found[name]
        for name in ("client/0", "client/2")
    )


@pytest.mark.parametrize("recovery", ["secure", "secagg+"])
def test_different_views_of_the_survivors_are_not_answered(federation, make_shards, recovery: str) -> None:
    """Half of the clients are shown U3 without client/9: no set has seven signatures, so no share is revealed."""

    def split(name: str, message):
        if isinstance(message, Survivors) and name in NAMES[:5]:
            return Survivors([one for one in message.names if one != "client/9"])
        return message

    unsigned = with_changed_messages(federation(make_shards(SIZES), recovery=RECOVERIES[recovery]()), split)
    assert sum(packet.type == "Revealed" for packet in unsigned.packets) >= len(NAMES)
    run = with_changed_messages(signed(federation, make_shards, recovery), split)
    first = min(packet.attempt for packet in run.packets if packet.type == "Survivors")
    assert not [packet for packet in run.packets if packet.type == "Revealed" and packet.attempt == first]
    assert {loss.action for loss in run.server.lost} >= {"it did not sign who is left: summing starts again"}


@pytest.mark.parametrize("kind", ["other", "replayed", "few", "one for all", "nonsense", "places"])
def test_an_invalid_agreement_is_refused(federation, make_shards, kind: str) -> None:
    def changed(name: str, message):
        if not isinstance(message, Agreement) or name != "client/0":
            return message
        places, every = message.places, message.signatures
        return {
            "other": Agreement(places, [bytes(64)] * len(every)),
            "replayed": Agreement([*places[1:], places[0]], every),
            "few": Agreement(places[:6], every[:6]),
            "one for all": Agreement([places[0]] * 7, [every[0]] * 7),
            "nonsense": Agreement(places, [b"x" * i for i in range(len(every))]),
            "places": Agreement([-1, 99, 1 << 40, *places[3:]], every),
        }[kind]

    run = with_changed_messages(signed(federation, make_shards), changed)
    assert notes(run, "signed the sets that it sees") == ["client/0"]
    assert not [packet for packet in run.packets if (packet.type, packet.sender) == ("Revealed", "client/0")]
    run.assert_equals_oracle()


def test_a_client_whose_signature_is_wrong_is_left_out(federation, make_shards) -> None:
    other = Identities.simulated(8)
    run = signed(federation, make_shards)
    victim = run.client("client/4")
    victim.parameters = replace(victim.parameters, identities=other)
    run.run()
    assert "client/4" not in run.server.record.joined
    assert ["left out of the round: its set-up key is refused" in loss.action for loss in run.server.lost] == [True]
    run.assert_equals_oracle()


# Signatures and files


NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))


def problems(
    *, seed: int = 1, number: int = 1, attempt: int = 1, what: str = "key", claim: str = "client/0#1",
    parts: tuple[bytes, ...] = (b"a", b"bc"), by: str = "client/0", cut: int = 64,
) -> dict[str, str]:  # fmt: skip
    """The problems of parts that client/0 signed in run 1, round 1, attempt 1, if they are shown under other claims."""

    def run(world: World, job: Callable[[Client], Any], number: int) -> Any:
        party = Client(world, "client/0", NOTHING)
        party.advance(number, 1)
        return world.loop.run(job(party))

    signature = run(World(1, cost=Free()), lambda me: KNOWN.sign(me, "key", 1, b"a", b"bc"), 1)
    claims = {by: Claim(claim, parts, signature[:cut])}
    return run(World(seed, cost=Free()), lambda me: KNOWN.problems(me, what, attempt, claims), number)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2}, {"number": 2}, {"attempt": 2}, {"what": "keys"}, {"claim": "client/0#2"}, {"parts": (b"ab", b"c")},
        {"parts": (b"a", b"bd")}, {"parts": (b"a",)}, {"by": "client/1", "claim": "client/1#1"}, {"by": "client/1"},
        {"cut": 63}, {"cut": 0},
    ],
    ids=str,
)  # fmt: skip
def test_a_signature_is_invalid_for_any_other_context(change: dict[str, Any]) -> None:
    assert problems() == {}
    assert list(problems(**change)) == [change.get("by", "client/0")]


def test_an_unknown_signer_is_named() -> None:
    world = World(1, cost=Free())
    party = Client(world, "client/0", NOTHING)
    few = Identities({}, {})
    found = world.loop.run(few.problems(party, "key", 1, {"client/5": Claim("client/5#1", (b"a",), bytes(64))}))
    assert found == {"client/5": "no long-term key of client/5 is known"}
    with pytest.raises(ValueError, match="there is no private key of client/0 here"):
        world.loop.run(few.sign(party, "key", 1, b"a"))


def test_identity_files_hold_the_generated_keys(tmp_path: Path) -> None:
    identity_files.make(tmp_path, NAMES[:3])
    known = identity_files.load(tmp_path, NAMES[:3], ["client/1"])
    assert set(known.public) == set(NAMES[:3]) and set(known.private) == {"client/1"}
    mode = (tmp_path / "client-1.key").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    assert repr(known.private["client/1"]) not in repr(known)
    with pytest.raises(FileExistsError):
        identity_files.make(tmp_path, ["client/1"])


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("client-0.pub", b"nothing", "client-0.pub has no Ed25519 public key in PEM"),
        ("client-1.key", b"nothing", "client-1.key has no Ed25519 private key in PEM"),
    ],
)
def test_files_without_keys_are_refused(tmp_path: Path, file: str, content: bytes, problem: str) -> None:
    identity_files.make(tmp_path, NAMES[:2])
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ValueError, match=problem):
        identity_files.load(tmp_path, NAMES[:2], ["client/1"])


def test_a_private_key_of_another_party_is_refused(tmp_path: Path) -> None:
    identity_files.make(tmp_path, NAMES[:2])
    (tmp_path / "client-1.key").write_bytes((tmp_path / "client-0.key").read_bytes())
    with pytest.raises(ValueError, match="the private key of client/1 is not that of its public one"):
        identity_files.load(tmp_path, NAMES[:2], ["client/1"])
    with pytest.raises(ValueError, match="is 32 bytes"):
        Identities({"client/0": b"short"}, {})
