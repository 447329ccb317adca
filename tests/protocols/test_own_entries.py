"""A client compares the server's entries about it with what it sent, and takes no part if they differ."""

from collections.abc import Callable

import numpy as np
import pytest
from msgspec import structs

from tacit.protocols.setup import Roster
from tacit.protocols.xclp.influence import Rows
from tacit.sim.wire import Message

SIZES = [4, 5, 9, 4]
PLACE = 2
NAME = f"client/{PLACE}"
OTHER_KEYS = f"the keys that are ascribed to {NAME} are not those that it sent"


@pytest.fixture
def run_with_changed_messages(federation, make_shards):
    """A function that makes the run in which the server changes each message of a type to NAME."""

    def run(kind: type[Message], change: Callable[[Message], Message], variant: str = "paillier"):
        made = federation(make_shards(SIZES), variant=variant)
        send = made.server.send_each

        def changed(receivers, message) -> None:
            for receiver in receivers:
                lie = isinstance(message, kind) and receiver == NAME
                send((receiver,), change(message) if lie else message)

        made.server.send_each = changed
        return made.run()

    return run


def with_entry(field: str, value: Callable[[object], object]) -> Callable[[Message], Message]:
    """A change of NAME's value in the list `field` of a message."""

    def change(message: Message) -> Message:
        entries = list(getattr(message, field))
        entries[PLACE] = value(entries[PLACE])
        return structs.replace(message, **{field: entries})

    return change


def assert_refused(run, kind: str, why: str) -> None:
    assert run.client(NAME).ending == f"the server sent invalid values: {kind} from server: {why}"
    assert run.client(NAME).labels is None
    assert [event.party for event in run.events if why in event.note] == [NAME]
    others = [client for client in run.clients if client.name != NAME]
    assert run.labeled_clients == others
    run.assert_equals_oracle()


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("public_keys", lambda key: bytes(31) + b"\x09", OTHER_KEYS),
        ("contributions", lambda modulus: modulus[::-1], OTHER_KEYS),
        ("contributions", lambda modulus: b"", OTHER_KEYS),
        ("points", lambda n: n + 1, f"10 points are ascribed to {NAME}, which has 9"),
        ("incarnations", lambda n: n + 1, f"incarnation 2 is ascribed to {NAME}, which is in its 1."),
    ],
)
def test_a_changed_entry_of_a_client_in_the_roster_is_refused(run_with_changed_messages, field, value, why) -> None:
    assert_refused(run_with_changed_messages(Roster, with_entry(field, value)), "Roster", why)


@pytest.mark.parametrize("bit", [0, 8], ids=["labeled", "unlabeled"])
def test_changed_flags_of_a_clients_rows_are_refused(run_with_changed_messages, bit: int) -> None:
    def flipped(flags: bytes) -> bytes:
        bits = np.unpackbits(np.frombuffer(flags, np.uint8))
        bits[bit] ^= 1
        return np.packbits(bits).tobytes()

    why = f"the labeled points that are ascribed to {NAME} are not those that it sent"
    assert_refused(run_with_changed_messages(Rows, with_entry("flags", flipped), "plaintext"), "Rows and Columns", why)
