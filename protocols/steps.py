"""The named steps of a protocol: what a scenario's faults strike at and what bytes are counted by."""

from dataclasses import dataclass

__all__ = ["Step"]


@dataclass(frozen=True)
class Step:
    """A step taken by every party of one `role`, client, server or helper, once a round unless `what` says more."""

    role: str
    name: str
    what: str
