"""The interface that a mailbox needs of the party that it belongs to."""

from collections.abc import Callable
from typing import ClassVar, Protocol, TypeVar

from tacit.sim.taps import Wait
from tacit.sim.wire import Frame, Message

__all__ = ["Kinds", "Owner"]

Kinds = tuple[type[Message], ...]
M = TypeVar("M", bound=Message)


class Owner(Protocol):
    """The party that a mailbox belongs to."""

    interrupts: ClassVar[Kinds]

    @property
    def paused(self) -> bool:
        """Standing still."""

    def after_pause(self, call: Callable[[], object]) -> None:
        """Call `call()` when the owner goes on."""

    def check_alive(self) -> None:
        """Raise, if nobody is there any more to take messages."""

    def open(self, frame: Frame, kind: type[M]) -> M | None:
        """The message in `frame`, or None after dropping what cannot be read."""

    def interrupted(self, source: str, message: Message) -> None:
        """Raise because of a message of a type in `interrupts`."""

    def waits(self, types: tuple[str, ...], sources: tuple[str, ...], deadline: float) -> Wait | None:
        """Report that a wait begins to those who look on; None if nobody does."""

    def waited(self, wait: Wait) -> None:
        """Report its end."""

    def are_gone(self, sources: dict[str, None], over: Callable[[], bool] | None = None) -> bool:
        """True if all of `sources` are known to be gone, or some are and `over()` is true."""
