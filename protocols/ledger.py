"""A client's ledger of its noisy releases: each content is released once in a round, regardless of repeated requests.

A privacy budget counts releases: noise that is drawn again for the same data can be averaged away. So before a client
sends a noisy sum, a noisy answer or hashes with flipped bits, it enters on its disk the round and a SHA-256 of the
content. From then on it sends, for this round, the same content or nothing, and nothing for an earlier round: in
another attempt, after a crash, and in a deployed client that was started again.

| what | asked by | content |
| --- | --- | --- |
| sums of private cells | `tacit.protocols.cells.cells` | the vector with its noise; sum i only in round i |
| hashes | `tacit.protocols.xclp.xclp`, with `privacy.hash_epsilon` | planes' seed and vectors: flips follow from them |
| models with the client's part of the noise | `tacit.protocols.federated.round` | the vectors, as they are summed |
| answers about public points | `tacit.protocols.cotraining.round` | the predictions, as they are sent |

The client knows from the scenario how many rounds there are, and refuses a call to a later one (`rounds`). Labels sent
as answers need no entry: they follow from a secret that lasts (`randomised`). Rounds of secure averaging have further
rules in `tacit.protocols.sums.sum`: a client's masked values go into one sum of a round.
"""

import hashlib

from tacit.parties.party import Party
from tacit.protocols.values import BadValues

__all__ = ["release"]

_RELEASED = "released"  # on a client's disk


def release(me: Party, what: str, content: bytes) -> None:
    """Record that `me` releases `content` as `what` in its round; call it before anything is sent.

    Raises BadValues, which ends its part of the round, if `me` has released other content as `what` in this round, or
    any content as `what` in a later round.
    """
    released = me.disk.get(_RELEASED, {})
    number, digest = released.get(what, (0, b""))
    entry = (me.round, hashlib.sha256(content).digest())
    if number > me.round or (number == me.round and digest != entry[1]):
        me.refuse(f"release {what} of round {me.round}: it has done so in round {number}")
        raise BadValues(f"{what} of round {me.round} were asked for a second time")
    if number < me.round:
        me.disk[_RELEASED] = released | {what: entry}
