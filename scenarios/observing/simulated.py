"""What came out of a run that ended by itself, whatever was run."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from parties.server import Loss
from scenarios.observing.privacy import Spent

__all__ = ["Prediction", "Round", "Simulated", "SoFar", "Strike"]

Prediction = tuple[str, str, int, str, float]


class Strike(Struct, frozen=True):
    """That a fault struck: its number among the scenario's [[fault]], its kind, the virtual time in seconds, whom.

    Of a fault of messages `party` is the sender and `peer` the receiver. `step`: what the party was in.
    """

    fault: int
    kind: str
    time: float
    party: str
    peer: str
    step: str
    message: str


class Round(Struct, frozen=True, kw_only=True):
    """What came of one round, which `began` at that virtual time. An experiment says more of its own rounds.

    `columns` are the titles of `cells`, which a table shows between when it began and who was lost.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    round: int
    began: float
    lost: tuple[str, ...]

    def cells(self) -> tuple[str, ...]:
        """The round's line of a table, one cell for each of `columns`."""
        return ()

    def losses(self) -> str:
        """Who was lost, as a table shows it."""
        return ", ".join(self.lost) or "nobody"


class SoFar(Struct, frozen=True):
    """What had come of a run when it was broken off: its rounds, how each client's latest part ended, who was lost.

    `privacy`: what had been revealed by then, of differentially private protocols.
    """

    rounds: list[Round]
    endings: dict[str, str]
    lost: list[Loss]
    privacy: Spent | None = None


def _nothing(folder: Path) -> None:
    pass


class Simulated(Struct, kw_only=True):
    """What came out.

    `accuracy` is a share of the points that `measured_on` names; `balanced_accuracy`, which XCLP's predictions have, is
    the mean of such shares over the classes; of training, `accuracy_selected` that of the model of the round
    `selected_round`, which did best on the points held out. None where there are no such points.
    Of co-training `accuracy` is the mean of `client_accuracy`, that of each client's own model, and `deviation` their
    standard deviation; after round `agreed_after` no label of a public point changed any more; `message_bytes` are the
    payload of a client's message ("up"), of the server's ("down"), and of FedAvg's model. `equals_plaintext` is that of
    all rounds. `output`: what the server of a declared protocol ended with. `predictions` are party, its name in the
    data set, row of the data set, label, confidence. `endings` says for each client how its part ended. `silent` says
    of each fault that never came, by its number, that it did not. `keep` writes what else there is into the run's
    folder.
    """

    outcome: str
    reason: str
    accuracy: float | None
    measured_on: str = ""
    accuracy_selected: float | None = None
    selected_round: int | None = None
    balanced_accuracy: float | None = None
    deviation: float | None = None
    client_accuracy: dict[str, float] = {}
    agreed_after: int | None = None
    message_bytes: dict[str, int] = {}
    privacy: Spent | None = None
    output: list[float] | None = None
    baselines: dict[str, float] = {}
    balanced_baselines: dict[str, float] = {}
    hamming_digest: str = ""
    labels_digest: str = ""
    model_digest: str = ""
    lost: list[Loss]
    rounds: list[Round]
    equals_plaintext: bool | None = None
    predictions: list[Prediction] = []
    endings: dict[str, str]
    silent: dict[int, str]
    keep: Callable[[Path], None] = _nothing
