"""What a client refuses that is called to a round, so that no server learns more of its values than a protocol states.

The trace names each refusal (`Party.refuse`); the client does not answer, and continues. What must not be repeated is
stored on its disk: neither another call of a protocol nor a crash makes it forget.
"""

import hashlib

from tacit.parties.party import Party

__all__ = ["CALLED", "END", "MASKED", "SUMMED", "may_answer"]

MASKED = "ask for masked values"
"""The ledger entry of a server before it asks for values of which a sum may be opened, now or later."""

END = "the end of a sum"
"""The place where a client rests after its part in a sum."""

CALLED, SUMMED = "called over", "summed over"
"""On a client's disk: the basis of the present round, and the round of each basis of masked values with true once their
sum was reported as done. `sums.sum` stores these."""


def may_answer(me: Party, basis: bytes, *, again_once_done: bool = False) -> bool:
    """Return true if `me` may give masked values in a round that begins with `basis`, a model or consensus.

    It refuses if it has sent masked values made from the same `basis` in an earlier round: a late answer may have
    opened their sum, and one over other clients would differ by one client's values. With `again_once_done` it does not
    refuse if that sum was reported as done, because a consensus may stay the same from round to round. It compares
    SHA-256 digests on its disk. Give equal values in equal bytes: a server chooses the bytes that it sends.
    """
    digest = hashlib.sha256(basis).digest()
    number, done = me.disk.get(SUMMED, {}).get(digest, (me.round, False))
    if number < me.round and not (done and again_once_done):
        me.refuse(f"take part in round {me.round}: it begins as round {number}, for which it has sent masked values")
        return False
    me.disk[CALLED] = digest
    return True
