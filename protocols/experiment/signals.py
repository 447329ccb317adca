"""The signals that an attacker reads from messages: the confidence of each client in each point's label.

A message of the attacked type contains, for each of p points, a client's probability of every class: directly, or by a
label (which has probability 1), or by a model that the attacker runs itself. So all methods are attacked in the same
way, and differ only in their messages.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.experiment.experiment import Parts
from tacit.protocols.experiment.probe import Probe
from tacit.sim.wire import Message, Packet, decode_body, decode_frame

__all__ = ["AttackedMessages", "Probabilities", "Reader", "Received", "Way", "received", "signals"]

Probabilities = NDArray[np.float64]

Reader = Callable[[Message, NDArray[np.int64]], Probabilities]
"""Maps a message and the rows of the probe that are asked about to the probabilities of the classes, (p, classes)."""

_CERTAIN = 1e-7
"""The least distance of probabilities from 0 and 1: float32 has no more precision."""


class Received(NamedTuple):
    """A received message: its type, sender, receiver, round, attempt and frame."""

    type: str
    sender: str
    receiver: str
    round: int
    attempt: int
    frame: bytes


def received(packet: Packet) -> Received:
    """The received message of a `packet`."""
    return Received(packet.type, packet.sender, packet.receiver, packet.round, packet.attempt, packet.data)


@dataclass(frozen=True)
class Way:
    """The way in which one kind of message is read.

    `signal` is its content: labels, probabilities, parameters or counts. `probabilities` maps the message and the rows
    of the probe that are asked about to the probabilities of the classes, (p, classes). Messages count from the round
    and attempt `since` on; each client sends `epochs` of them. A message is about its sender or, with `to`, about its
    receiver.
    """

    signal: str
    message: type[Message]
    probabilities: Reader
    epochs: int
    since: tuple[int, int]
    to: bool = False

    def counts(self, one: Received) -> bool:
        """Return true if `one` is a message of this kind that counts."""
        return one.type == self.message.__name__ and (one.round, one.attempt) >= self.since


@dataclass(frozen=True)
class AttackedMessages:
    """The messages of a protocol that an attacker reads; the fields are those of `Way`.

    `reader` makes, from the points of a run and the probe, the function that reads a message.
    """

    signal: str
    message: type[Message]
    epochs: int
    since: tuple[int, int]
    reader: Callable[[Parts, Probe], Reader]
    to: bool = False

    def way(self, parts: Parts, probe: Probe) -> Way:
        """The way to read the messages of a run on `parts`, in which `probe` is asked about."""
        return Way(self.signal, self.message, self.reader(parts, probe), self.epochs, self.since, self.to)


def signals(
    way: Way, messages: Iterable[Received], rows: Mapping[str, NDArray[np.int64]], labels: NDArray[np.int64]
) -> tuple[dict[str, NDArray[np.float64]], int]:
    """The (p, f) signals of each client with a message, for the points `rows` (p,) of the probe asked about it.

    `labels` are those of the whole probe. Also returns the number of messages read.
    """
    found: dict[str, list[NDArray[np.float64]]] = {}
    for one in messages:
        client = one.receiver if way.to else one.sender
        if way.counts(one) and client in rows:
            asked = rows[client]
            frame = decode_frame(one.frame)
            probabilities = way.probabilities(decode_body(frame, frame.body, way.message), asked)
            found.setdefault(client, []).append(_of_one(probabilities, labels[asked]))
    several = way.epochs > 1
    return {client: _of_all(rounds, several) for client, rounds in found.items()}, sum(map(len, found.values()))


def _of_one(probabilities: Probabilities, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """The signals, (p, 3), of probabilities (p, classes). The first is log(q / (1 - q)), q being that of the label.

    Carlini et al., Membership inference attacks from first principles, S&P 2022, section V.A.
    """
    p = np.clip(probabilities.astype(np.float64), _CERTAIN, 1 - _CERTAIN)
    own = p[np.arange(len(labels)), labels]
    return np.stack([np.log(own) - np.log1p(-own), -(p * np.log(p)).sum(1), p.max(1)], 1)


def _of_all(rounds: list[NDArray[np.float64]], several: bool) -> NDArray[np.float64]:
    """The signals, (p, f), of the last round and, if `several` rounds are attacked, the mean over rounds.

    A client with a single message has the same number of signals as the others.
    """
    if not several:
        return rounds[-1]
    return np.concatenate([rounds[-1], np.mean(rounds, axis=0)], 1)
