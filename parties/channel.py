"""Channels that seal messages between two parties."""

from typing import Protocol

__all__ = ["Channel"]


class Channel(Protocol):
    """Seals and opens what two parties send to each other. `open` raises ValueError for what is not authentic.

    `bind` adds to what both must agree on.
    """

    overhead: int

    def seal(self, plaintext: bytes, associated_data: bytes) -> bytes: ...
    def open(self, sealed: bytes, associated_data: bytes) -> bytes: ...
    def bind(self, context: bytes) -> None: ...
