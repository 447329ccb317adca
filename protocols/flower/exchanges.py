"""The messages that the server app sent and received: in one call, and in a round."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Exchange", "RoundRecord"]

_TRAINING = ("flower.train", "flower.collect_masked_vectors")


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
        training = [one for one in self.exchanges if one.step in _TRAINING]
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
