"""The messages of a run in columns, for what is made of all of them: a large run has hundreds of thousands."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.scenarios.seeing.facts import Message

__all__ = ["MessageColumns", "columns_of"]


class MessageColumns(NamedTuple):
    """The `messages` that have a row in the view of that name, in the order of sending, with a column for each field.

    `sent` and `received` are virtual seconds, `received` of one that was not NaN. `sender` and `receiver` are places
    in the sequence of parties, `bytes` and `hops` those of all copies.
    """

    messages: list[Message]
    sent: NDArray[np.float64]
    received: NDArray[np.float64]
    sender: NDArray[np.int64]
    receiver: NDArray[np.int64]
    bytes: NDArray[np.int64]
    hops: NDArray[np.int64]


def columns_of(messages: Iterable[Message], parties: Sequence[str]) -> MessageColumns:
    """The columns of `messages`, whose senders and receivers are all among the `parties`."""
    every = [one for one in messages if one.is_sent]
    count = len(every)
    sent = np.fromiter((one.sent for one in every), np.float64, count)
    order = np.lexsort((np.fromiter((one.number for one in every), np.int64, count), sent))
    found = [every[place] for place in order.tolist()]
    places = {name: place for place, name in enumerate(parties)}
    return MessageColumns(
        found,
        sent[order],
        np.fromiter((np.nan if one.received is None else one.received for one in found), np.float64, count),
        np.fromiter((places[one.sender] for one in found), np.int64, count),
        np.fromiter((places[one.receiver] for one in found), np.int64, count),
        np.fromiter((one.bytes for one in found), np.int64, count),
        np.fromiter((one.hops for one in found), np.int64, count),
    )
