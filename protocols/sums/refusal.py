"""What a client refuses to do twice, so that no server learns more of its values than a protocol states.

The trace names each refusal (`Party.refuse`); the client does not answer, and continues. `Party.once` stores the round
and attempt of actions that must not be repeated: neither another call of a protocol nor a crash makes a client forget.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from tacit.parties.party import Party
from tacit.protocols.crypto.quorum import NotCarried

__all__ = [
    "END",
    "MASKED",
    "carries",
    "is_of_round",
    "may_answer",
    "may_mask_once",
    "sum_done",
    "sum_masked",
]

MASKED = "ask for masked values"
"""The ledger entry of a server before it asks for values of which a sum may be opened, now or later."""

END = "the end of a sum"
"""The place where a client rests after its part in a sum."""


def carries(me: Party, sizes: Callable[[int], Any], names: Sequence[str]) -> bool:
    """True if a sum among `names`, who joined, carries the clients that may collude; if not, the trace says why.

    `sizes` raises NotCarried for a number of clients that does not.
    """
    try:
        sizes(len(names))
    except NotCarried as error:
        me.refuse(f"take part in a sum: {error}")
        return False
    return True


def is_of_round(me: Party, number: int) -> bool:
    """Return true if `me` is still in round `number`, that of its keys; if not, trace the refusal.

    Keys are derived from the set-up and the attempt's number: in a later round the same number would repeat them.
    """
    if me.round != number:
        me.refuse(f"begin a sum of round {me.round}: its keys are of round {number}")
    return me.round == number


def may_mask_once(me: Party, number: int, names: Sequence[str], least: int) -> bool:
    """True if `me` may send its values in the sum that has begun, the only one of round `number` in which it does.

    If not, the trace says why: also where `names`, who take part, are fewer than `least`.
    """
    masked_in, _ = me.latest("sum.mask")
    if me.round != number:
        me.refuse(f"begin a sum of round {me.round}: its vector is of round {number}")
    elif masked_in >= number:
        me.refuse(f"begin a sum: it has sent masked values in round {masked_in}")
    elif len(names) < least:
        me.refuse(f"take part in a sum: {len(names)} clients are fewer than {least}")
    else:
        return me.once("deal") and me.once("sum.mask")
    return False


_CALLED, _SUMMED = "called over", "summed over"  # on a client's disk


def may_answer(me: Party, basis: bytes, *, again_once_done: bool = False) -> bool:
    """Return true if `me` may give masked values in a round that begins with `basis`, a model or consensus.

    It refuses if it has sent masked values made from the same `basis` in an earlier round: a late answer may have
    opened their sum, and one over other clients would differ by one client's values. With `again_once_done` it does not
    refuse if that sum was reported as done, because a consensus may stay the same from round to round. It compares
    SHA-256 digests on its disk. Give equal values in equal bytes: a server chooses the bytes that it sends.
    """
    digest = hashlib.sha256(basis).digest()
    number, done = me.disk.get(_SUMMED, {}).get(digest, (me.round, False))
    if number < me.round and not (done and again_once_done):
        me.refuse(f"take part in round {me.round}: it begins as round {number}, for which it has sent masked values")
        return False
    me.disk[_CALLED] = digest
    return True


def sum_masked(me: Party) -> None:
    """Store the basis of masked values, before the first ones of a sum are sent."""
    me.disk[_SUMMED] = me.disk.get(_SUMMED, {}) | {me.disk.get(_CALLED, b""): (me.round, False)}


def sum_done(me: Party) -> None:
    """Store that the sum with the latest masked values of `me` was reported as done."""
    summed = me.disk.get(_SUMMED, {})
    for digest, (number, _) in summed.items():
        if number == me.latest("sum.mask")[0]:
            me.disk[_SUMMED] = summed | {digest: (number, True)}
            return
