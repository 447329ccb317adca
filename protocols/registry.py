"""The protocols that a scenario can name."""

from dataclasses import dataclass

from protocols import xclp
from protocols.steps import Step

__all__ = ["PROTOCOLS", "Protocol"]


@dataclass(frozen=True)
class Protocol:
    """A protocol's name in scenario files, one line about it, and its steps in the order in which they are taken."""

    name: str
    summary: str
    steps: tuple[Step, ...]


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (Protocol("xclp", "cross-client label propagation over a joint neighbourhood graph", xclp.STEPS),)
}
