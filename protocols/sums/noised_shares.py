"""Shares of a sum with an aggregator's noise, which are drawn once a batch and given again in the same bytes.

Two draws over the same reports would have half of the noise in their mean. The helper stores its share, with the
request that it answers, on its disk before it sends it (`reports`).
"""

from typing import Any

from tacit.parties.party import Party
from tacit.protocols.privacy.aggregated import SEED_BYTES, AggregatorNoise
from tacit.protocols.sums.batch import Batch, noised, noised_work
from tacit.protocols.values import BadValues

__all__ = ["keep", "kept", "with_noise"]

_NOISED = "released share with noise"  # on a helper's disk


async def with_noise(me: Party, batch: Batch, share: bytes, noise: AggregatorNoise | None) -> bytes:
    """The `share` of an aggregator with its `noise`, if any; call it once a batch."""
    if noise is None:
        return share
    seed = me.entropy("noise of counts").bytes(SEED_BYTES)
    noisy: bytes = await me.compute(noised_work(batch), noised, batch, share, noise, seed)
    return noisy


def _request(me: Party, wanted: Any) -> list[Any]:
    return [me.round, wanted.count, wanted.checksum, list(wanted.left_out)]


def keep(me: Party, wanted: Any, share: bytes) -> None:
    """Store the `share` with noise that answers what is `wanted`, an AggregateShareWanted."""
    me.disk[_NOISED] = [*_request(me, wanted), share]


def kept(me: Party, wanted: Any, server: str) -> bytes:
    """The share that was stored for what is `wanted` by `server`. Raises BadValues where it is another request."""
    *request, share = me.disk.get(_NOISED, [0, b""])
    if request != _request(me, wanted):
        me.refuse("release its share of the sum again: there is none with noise for these reports")
        raise BadValues(f"AggregateShareWanted from {server}: that of other reports was released before")
    found: bytes = share
    return found
