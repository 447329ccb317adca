"""Messages that the server app sent and received: in one go, and in a round."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Exchange", "RoundRecord"]

_TRAINING = ("flower.train", "flower.collect_masked_vectors")


@dataclass
class Exchange:
    """The messages that the server app sent in one go, and the replies: who was asked, and whose reply it was given.

    `figures` has each client's numbers with their weight, `errors` the errors that were replies, `ended` the virtual
    time at which the app went on.
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
    """The messages that the server app sent and received in a round; `lost`: why it did not end."""

    number: int
    exchanges: tuple[Exchange, ...]
    lost: str = ""

    @property
    def began(self) -> float:
        """When its first message was sent, in virtual seconds."""
        return self.exchanges[0].began

    @property
    def _main(self) -> list[Exchange]:
        """Those of training; of a round without training, all."""
        training = [one for one in self.exchanges if one.step in _TRAINING]
        return training or list(self.exchanges)

    @property
    def cohort(self) -> tuple[str, ...]:
        """Who was asked."""
        return tuple(dict.fromkeys(name for one in self._main for name in one.asked))

    @property
    def counted(self) -> tuple[str, ...]:
        """Whose replies the app was given, without those that are errors."""
        names = (name for one in self._main for name in one.answered if name not in one.errors)
        return tuple(dict.fromkeys(names))
