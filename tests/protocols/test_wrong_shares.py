"""Shares that are too short or wrong: their sender is named, and a sum continues if enough correct shares are left."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto import shamir
from tacit.protocols.crypto.share_errors import blamed, corrected
from tacit.protocols.sums.dealing import DealtShares, Revealed
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.sim.faults import Crash
from tacit.sim.streams import Entropy
from tacit.sim.wire import Message

SIZES = [5, 3, 6, 4, 2, 4, 3]
NAMES = tuple(f"client/{i}" for i in range(len(SIZES)))
SHARE = shamir.share_bytes(32)


@pytest.fixture
def summed(federation, make_shards):
    """A function that makes the run of seven clients in which `sender` changes each message of a type."""

    def run(kind: type[Message], sender: str, change: Callable[[str, Message], Message], *, threshold=None, faults=()):
        made = federation(make_shards(SIZES), recovery=Shamir(threshold), faults=faults)
        party = made.client(sender)
        send = party.send_each

        def changed(receivers, message) -> None:
            for receiver in receivers:
                send((receiver,), change(receiver, message) if isinstance(message, kind) else message)

        party.send_each = changed
        return made.run()

    return run


def notes(run, text: str) -> list[str]:
    """The parties that noted `text`."""
    return [event.party for event in run.events if text in event.note]


def wrong_share(share: bytes) -> bytes:
    """Another share that is valid by itself."""
    count = len(share) // shamir.WIDTH
    return np.random.default_rng(list(share)).integers(0, shamir.PRIME, count).astype("<u4").tobytes()


@pytest.mark.parametrize("bad", [b"", b"short", bytes(2 * SHARE + 1), b"\xff" * 2 * SHARE], ids=len)
def test_malformed_shares_for_all_are_blamed_on_their_dealer(summed, bad: bytes) -> None:
    run = summed(DealtShares, "client/4", lambda receiver, message: DealtShares(bad))
    assert set(notes(run, "DealtShares from client/4: ")) == set(NAMES) - {"client/4"}
    assert {loss.party for loss in run.server.lost} == {"client/4"}
    assert run.server.lost[0].action == "too few have its shares: summing starts again"
    assert run.server.record.contributors == tuple(name for name in NAMES if name != "client/4")
    run.assert_equals_oracle()


def test_a_malformed_share_for_one_client_loses_no_client(summed) -> None:
    run = summed(
        DealtShares, "client/4", lambda receiver, m: DealtShares(m.shares[:-1]) if receiver == "client/2" else m
    )
    assert notes(run, "DealtShares from client/4: two shares take 72 bytes, not 71") == ["client/2"]
    assert not run.server.lost and run.server.record.contributors == NAMES
    run.assert_equals_oracle()


@pytest.mark.parametrize("lost", [(), ("client/6",)], ids=["seeds", "seeds and a key"])
def test_a_holder_that_reveals_wrong_shares_is_named(summed, lost: tuple[str, ...]) -> None:
    faults = [Crash(name, before="rowsums.mask") for name in lost]
    run = summed(Revealed, "client/0", lambda _, m: Revealed([wrong_share(share) for share in m.shares]), faults=faults)
    assert notes(run, "Revealed from client/0: its shares do not fit those of the others") == ["server"]
    assert not notes(run, "DealtShares from")
    assert run.server.record.contributors == tuple(name for name in NAMES if name not in lost)
    run.assert_equals_oracle()


def test_a_dealer_of_wrong_shares_is_named(summed) -> None:
    cheated = ("client/0", "client/2")
    run = summed(DealtShares, "client/4", lambda to, m: DealtShares(wrong_share(m.shares)) if to in cheated else m)
    assert notes(run, "DealtShares from client/4: they do not fit together") == ["server"]
    assert not notes(run, "Revealed from")
    run.assert_equals_oracle()


def test_a_single_wrong_share_is_blamed_on_dealer_or_holder_without_a_loss(summed) -> None:
    run = summed(DealtShares, "client/4", lambda to, m: DealtShares(wrong_share(m.shares)) if to == "client/0" else m)
    assert notes(run, "the share that client/4 dealt to client/0 is wrong, or wrongly revealed") == ["server"]
    run.assert_equals_oracle()


def test_without_a_spare_share_a_wrong_one_aborts_the_sum_and_names_the_secret(summed) -> None:
    run = summed(
        DealtShares,
        "client/4",
        lambda to, m: DealtShares(wrong_share(m.shares)) if to == "client/0" else m,
        threshold=7,
    )
    assert run.server.aborted == (
        "the sum cannot be unmasked: the seed of client/4: its 7 shares do not fit together, "
        "8 right ones are needed to know whose are"
    )
    assert not run.labeled_clients


@settings(max_examples=100, deadline=None)
@given(data=st.data(), count=st.integers(2, 9), recognised=st.booleans())
def test_wrong_shares_are_found_up_to_the_number_of_spare_shares(
    data: st.DataObject, count: int, recognised: bool
) -> None:
    threshold = data.draw(st.integers(1, count))
    secret = data.draw(st.binary(min_size=32, max_size=32))
    dealt = [row.tobytes() for row in shamir.split([secret], threshold, count, Entropy.seeded(count))]
    shares = {x + 1: share for x, share in enumerate(dealt)}
    spare = max(0, count - threshold - (not recognised))
    bad = data.draw(st.sets(st.sampled_from(sorted(shares)), max_size=count))
    for x in bad:
        shares[x] = np.random.default_rng(x).integers(0, shamir.PRIME, 9).astype("<u4").tobytes()
    right = secret.__eq__ if recognised else None
    if len(bad) <= spare:
        assert corrected(shares, threshold, 32, right) == (secret, tuple(sorted(bad)))
    else:
        with pytest.raises(ValueError, match="do not fit together"):
            corrected(shares, threshold, 32, right)


def test_wrong_shares_are_blamed_on_the_common_holder_or_dealer() -> None:
    assert blamed([]) == []
    assert blamed([("a", "x"), ("a", "y")]) == ["Revealed from a: its shares do not fit those of the others"]
    assert blamed([("a", "x"), ("b", "x")]) == ["DealtShares from x: they do not fit together"]
    assert blamed([("a", "x")]) == ["the share that x dealt to a is wrong, or wrongly revealed: nobody knows which"]
