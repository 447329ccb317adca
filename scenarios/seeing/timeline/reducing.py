"""Counts of messages by party and span of time, for runs with too many messages to draw each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.scenarios.seeing.facts import Message, Waiting
from tacit.scenarios.seeing.timeline.model import Bar, Model
from tacit.sim.units import format_duration

__all__ = ["Cell", "Counts", "reduced"]

_CELLS = 48_000
"""The most cells at the first attempt; each further attempt has a quarter."""

_Lasting = TypeVar("_Lasting", Bar, Waiting)

_KEPT = 8_000
"""The most messages that are drawn one by one at the first attempt."""


class Cell(NamedTuple):
    """The messages that a party sent and received in one bucket, and the bytes of those that it sent."""

    bucket: int
    party: str
    sent: int
    received: int
    bytes: int


@dataclass(frozen=True)
class Counts:
    """The cells; a bucket is `width` seconds long."""

    width: float
    cells: Sequence[Cell]


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
    return small, Counts(width, list(_cells(model, width)))


def _longest(spans: Sequence[_Lasting], most: int) -> list[_Lasting]:
    """The longest spans, at most `most`, in their order; without those that are as long as the first one left out."""
    lengths = sorted(map(_length, spans), reverse=True)
    least = lengths[most] if len(lengths) > most else -1.0
    return [one for one in spans if _length(one) > least]


def _length(span: Bar | Waiting) -> float:
    return float("inf") if span.ended is None else span.ended - span.began


def _chief(model: Model) -> list[Message]:
    """The messages to draw: first those with troubles, then those on the critical path."""
    path = {(one.peer, one.type, one.ended) for one in model.path if one.peer}
    troubled = [
        one for one in model.messages if one.received is None or one.lost or one.again or one.struck or one.refused
    ]
    numbers = {one.number for one in troubled}
    ends = {time for _, _, time in path}
    followed = [
        one for one in model.messages if one.received in ends and (one.receiver, one.type, one.received) in path
    ]
    return troubled + [one for one in followed if one.number not in numbers]


def _cells(model: Model, width: float) -> Iterator[Cell]:
    place, many = {name: number for number, name in enumerate(model.parties)}, len(model.parties)
    sent, received, size = (np.zeros((int(model.end / width) + 1) * many, np.int64) for _ in range(3))

    def cells(times: Iterable[float], parties: Iterable[str]) -> NDArray[np.int64]:
        buckets = (np.fromiter(times, float) / width).astype(np.int64)
        return buckets * many + np.fromiter((place[name] for name in parties), np.int64)

    begun = cells((one.sent for one in model.messages), (one.sender for one in model.messages))
    np.add.at(sent, begun, 1)
    np.add.at(size, begun, np.fromiter((one.bytes for one in model.messages), np.int64))
    taken = [one for one in model.messages if one.received is not None]
    np.add.at(received, cells((one.received or 0.0 for one in taken), (one.receiver for one in taken)), 1)
    for cell in np.flatnonzero(sent | received).tolist():
        yield Cell(cell // many, model.parties[cell % many], int(sent[cell]), int(received[cell]), int(size[cell]))


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
