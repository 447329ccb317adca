"""Counts of messages by party and span of time, for runs with too many messages to draw each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tacit.scenarios.seeing.facts import Waiting
from tacit.scenarios.seeing.messages import Message
from tacit.scenarios.seeing.timeline.model import Bar, Model
from tacit.sim.units import format_duration

__all__ = ["Counts", "reduced"]

_CELLS = 48_000
"""The most cells at the first attempt; each further attempt has a quarter."""

_Lasting = TypeVar("_Lasting", Bar, Waiting)

_KEPT = 8_000
"""The most messages that are drawn one by one at the first attempt."""


@dataclass(frozen=True)
class Counts:
    """Counts by bucket of `width` seconds and by party, in columns with an element for each cell that is not empty.

    `sent` and `received` count the messages that the party, a place in the model's `parties`, sent and received in
    the bucket; `bytes` are of those that it sent.
    """

    width: float
    bucket: Sequence[int]
    party: Sequence[int]
    sent: Sequence[int]
    received: Sequence[int]
    bytes: Sequence[int]


def reduced(model: Model, attempt: int) -> tuple[Model, Counts]:
    """The model with fewer messages, jobs and waits, and the counts of all its messages.

    Messages that were lost, repeated or not received, and those on the critical path, are kept as far as there is room.
    Each further `attempt`, from 0, keeps fewer.
    """
    share = 4**attempt
    buckets = max(1, min(2000, _CELLS // share // max(1, len(model.parties))))
    width = model.end / buckets or 1.0
    kept = sorted(_chief(model)[: _KEPT // share], key=lambda one: (one.sent, one.number))
    numbers = {one.number for one in kept}
    copies = [one for one in model.copies if one.number in numbers]
    waits = _longest(model.waits, _KEPT // share)
    bars = _longest(_joined(model.bars, width), _KEPT // share)
    text = (
        f"Of {len(model.messages):,} messages {len(kept):,} are drawn singly: those that were lost, sent again or not "
        f"received, and those of the critical path, as far as there is room. All are counted by party and "
        f"{format_duration(width)}. Of {len(model.waits):,} waits the {len(waits):,} longest are drawn, of "
        f"{len(model.bars):,} jobs {sum(bar.jobs for bar in bars):,}, some as one."
    )
    bands, marks = model.bands[: _KEPT // share], model.marks[: _KEPT // share]
    path = model.path if len(model.path) <= _CELLS // share else []
    small = replace(
        model, messages=kept, copies=copies, bars=bars, waits=waits, counted=text,
        bands=bands, marks=marks, path=path, rounds=model.rounds[: _KEPT // share], steps=model.steps[: _KEPT // share],
        folded=model.folded,
    )  # fmt: skip
    return small, _counts(model, width)


def _longest(spans: Sequence[_Lasting], most: int) -> list[_Lasting]:
    """The longest spans, at most `most`, in their order; without those that are as long as the first one left out."""
    lengths = list(map(_length, spans))
    least = sorted(lengths, reverse=True)[most] if len(lengths) > most else -1.0
    return [one for one, length in zip(spans, lengths, strict=True) if length > least]


def _length(span: Bar | Waiting) -> float:
    return float("inf") if span.ended is None else span.ended - span.began


def _chief(model: Model) -> list[Message]:
    """The messages to draw: first those with troubles, then those on the critical path."""
    columns, path = model.columns, {(one.peer, one.type, one.ended) for one in model.path if one.peer}
    troubled = [
        one
        for one in columns.where(columns.noted)
        if one.received is None or one.lost or one.again or one.struck or one.refused
    ]
    numbers = {one.number for one in troubled}
    followed = columns.where(np.isin(columns.received, [time for _, _, time in path]))
    return troubled + [
        one for one in followed if (one.receiver, one.type, one.received) in path and one.number not in numbers
    ]


def _counts(model: Model, width: float) -> Counts:
    columns, many = model.columns, len(model.parties)
    sent, received, size = (np.zeros((int(model.end / width) + 1) * many, np.int64) for _ in range(3))
    begun = (columns.sent / width).astype(np.int64) * many + columns.sender
    np.add.at(sent, begun, 1)
    np.add.at(size, begun, columns.bytes)
    taken = ~np.isnan(columns.received)
    np.add.at(received, (columns.received[taken] / width).astype(np.int64) * many + columns.receiver[taken], 1)
    cells = np.flatnonzero(sent | received)
    found = (cells // many, cells % many, sent[cells], received[cells], size[cells])
    return Counts(width, *(column.tolist() for column in found))


def _joined(bars: Sequence[Bar], width: float) -> list[Bar]:
    """Jobs, of which those of a party in one step are joined if the gap is shorter than the second job and than
    `width`."""
    found: list[Bar] = []
    last: dict[str, int] = {}
    for bar in bars:
        place = last.get(bar.party)
        before = None if place is None else found[place]
        if (
            place is not None
            and before
            and before.step == bar.step
            and bar.began - before.ended < min(width, bar.ended - bar.began)
        ):
            ended = max(before.ended, bar.ended)
            found[place] = before._replace(
                ended=ended, seconds=before.seconds + bar.seconds, jobs=before.jobs + bar.jobs
            )
        else:
            last[bar.party] = len(found)
            found.append(bar)
    return found
