"""The interface of the party that a mailbox belongs to."""

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
        """True while the party is paused."""

    def after_pause(self, call: Callable[[], object]) -> None:
        """Call `call()` when the owner resumes."""

    def check_alive(self) -> None:
        """Raise an error if the owner is down and can take no messages."""

    def open(self, frame: Frame, kind: type[M]) -> M | None:
        """Decode the message in `frame`; if it is unreadable, drop it and return None."""

    def interrupted(self, source: str, message: Message) -> None:
        """Raise because of a message of a type in `interrupts`."""

    def waits(self, types: tuple[str, ...], sources: tuple[str, ...], deadline: float) -> Wait | None:
        """Report to observers that a wait begins; return None if there are no observers."""

    def waited(self, wait: Wait) -> None:
        """Report the end of a wait."""

    def are_gone(self, sources: dict[str, None], over: Callable[[], bool] | None = None) -> bool:
        """Return true if all of `sources` are known to be gone, or some are and `over()` is true."""
