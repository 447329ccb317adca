"""The links of planned messages, for `sim.planned_course`, as in a run without losses; over TCP, with streams."""

from collections.abc import Callable
from typing import Protocol

from sim.clock import Environment
from sim.conditions import Conditions
from sim.link import Link, Pipe
from sim.tcp import TcpStream
from sim.tcp_losses import streams

__all__ = ["PlannedLinks"]


class _End(Protocol):
    """A party with its pipes, if they are limited."""

    name: str
    up: Pipe | None
    down: Pipe | None


class PlannedLinks:
    """Carries planned messages over links that are made as they are used; `seed`: of their latencies."""

    def __init__(self, env: Environment, conditions: Conditions, seed: int) -> None:
        self._env, self._conditions, self._seed = env, conditions, seed
        self._links: dict[tuple[str, str], Link] = {}
        self._streams: dict[tuple[str, str], TcpStream[PlannedCopy]] = {}

    def send(self, near: _End, far: _End, size: int, times: int, then: Callable[[], object]) -> None:
        """Send that many messages of `size` bytes, one after the other, and call `then` as the last arrives."""
        if self._conditions.transport != "tcp":
            self._link(near, far).send(size * times, then, lambda why: None)
            return
        ends = near.name, far.name
        if ends not in self._streams:
            self._streams |= streams(self._env, Calm(), (self._link(near, far), self._link(far, near)), ends)
        for number in range(times):
            self._streams[ends].send(PlannedCopy(size, then if number == times - 1 else _nothing))

    def _link(self, near: _End, far: _End) -> Link:
        ends, conditions = (near.name, far.name), self._conditions
        link = self._links.get(ends)
        if link is None:
            latency, _ = conditions.between(*ends)
            link = self._links[ends] = Link(
                self._env, latency, self._seed, ends, up=near.up, down=far.down,
                jitter=conditions.jitter, ordered=conditions.transport != "datagram",
            )  # fmt: skip
        return link


def _nothing() -> None:
    """What is called as a message arrives that is not the last."""


class PlannedCopy:
    """One hop of a planned message of `size` bytes; `then` is called as it arrives."""

    __slots__ = ("size", "then")

    delay = 0.0
    doomed = False

    def __init__(self, size: int, then: Callable[[], object]) -> None:
        self.size, self.then = size, then


class Calm:
    """A network without losses and faults around planned messages."""

    def arrive(self, copy: PlannedCopy) -> None:
        """Receive a copy at the end of its hop."""
        copy.then()

    def barrier(self, sender: str, receiver: str) -> None:
        """Nothing blocks messages."""

    def is_cut(self, sender: str, receiver: str) -> bool:
        """Nothing is cut."""
        return False

    def is_gone(self, copy: PlannedCopy) -> bool:
        """Nobody is lost."""
        return False

    def again(self, copy: PlannedCopy, note: str) -> PlannedCopy:
        """Nothing is sent again."""
        raise AssertionError(note)

    def end(self, kind: str, copy: PlannedCopy, why: str) -> None:
        """Nothing is lost."""
        raise AssertionError(why)
