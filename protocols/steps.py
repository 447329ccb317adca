"""The named steps of a protocol, at which faults strike and by which bytes are counted."""

from dataclasses import dataclass

__all__ = ["Step"]


@dataclass(frozen=True)
class Step:
    """A step of every party of one `role` (client, server or helper), once a round unless `what` says otherwise."""

    role: str
    name: str
    what: str
