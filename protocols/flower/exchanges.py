"""The steps in which clients of a Flower app answer, and the messages of its server app in a call and in a round."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tacit.protocols.parts import Step

__all__ = ["IN_ROUND", "JOIN", "STAGES", "STEPS", "TRAINING", "Exchange", "RoundRecord"]


JOIN = "flower.join"

STAGES = {
    "flower.train": "a `train` message",
    "flower.evaluate": "an `evaluate` message",
    "flower.query": "a `query` message, or one of the older ways' other messages",
    "flower.setup": "SecAgg+: a client's public keys",
    "flower.share_keys": "SecAgg+: encrypted shares of its secrets",
    "flower.collect_masked_vectors": "SecAgg+: training, and the masked update",
    "flower.unmask": "SecAgg+: shares for taking off the masks",
}
"""The steps, each with the messages that are answered in it.

The names are Flower's. The order numbers them on the wire.
"""

STEPS = (
    Step("client", JOIN, "join the federation: at the start, after coming back, and when asked"),
    Step("server", JOIN, "wait for nodes before the app starts"),
    *(Step("client", name, f"run the client app on {what}") for name, what in STAGES.items()),
    *(
        Step("server", name, f"send {what}, and wait for the replies; each time that the app does")
        for name, what in STAGES.items()
    ),
)


TRAINING = ("flower.train", "flower.collect_masked_vectors")
"""The steps in which clients train: without SecAgg+, and with it."""

IN_ROUND = tuple(name for name in STAGES if name not in ("flower.evaluate", "flower.query"))
"""The steps in which models are aggregated."""


@dataclass
class Exchange:
    """The messages that the server app sent in one call: the clients asked, and the clients whose replies it was given.

    `figures` has each client's numbers with their weight, `errors` the errors that were replies, `ended` the virtual
    time at which the app continued.
    """

    round: int
    step: str
    began: float
    asked: tuple[str, ...]
    ended: float | None = None
    answered: tuple[str, ...] = ()
    errors: dict[str, str] = field(default_factory=dict)
    figures: dict[str, tuple[Mapping[str, float], float]] = field(default_factory=dict)


@dataclass(frozen=True)
class RoundRecord:
    """The messages that the server app sent and received in a round; `lost`: the reason why it did not end."""

    number: int
    exchanges: tuple[Exchange, ...]
    lost: str = ""

    @property
    def began(self) -> float:
        """The virtual time in seconds at which its first message was sent."""
        return self.exchanges[0].began

    @property
    def _main(self) -> list[Exchange]:
        """The exchanges of training; in a round without training, all exchanges."""
        training = [one for one in self.exchanges if one.step in TRAINING]
        return training or list(self.exchanges)

    @property
    def cohort(self) -> tuple[str, ...]:
        """The clients that were asked."""
        return tuple(dict.fromkeys(name for one in self._main for name in one.asked))

    @property
    def counted(self) -> tuple[str, ...]:
        """The clients whose replies the app was given, without errors."""
        names = (name for one in self._main for name in one.answered if name not in one.errors)
        return tuple(dict.fromkeys(names))
