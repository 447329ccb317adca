"""The results of a run of any protocol."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from tacit.parties.server import Loss
from tacit.protocols.privacy.spent import Randomised, Spent

__all__ = [
    "ACCURACY",
    "CLIENTS",
    "FIT",
    "SHOWN",
    "Ended",
    "Ending",
    "Prediction",
    "ResultFields",
    "Round",
    "Simulated",
    "Strike",
    "accuracy",
    "balanced_accuracy",
    "counting",
    "more_than",
    "prefixed",
    "shown_of_clients",
    "spread_of",
]


SHOWN = 12
"""The most parties that a cell of a table names."""

ACCURACY = "accuracy"
"""The name of the score of classification."""

CLIENTS, FIT = "clients_", "fit_"
"""How the names of figures begin that clients sent of tests on their own points, and that their own loop returned."""

Prediction = tuple[str, str, int, str, float]


class Strike(Struct, frozen=True):
    """A fault that struck: index of its [[fault]] table, kind, virtual time in seconds, parties.

    The index is -1 if the fault follows from a client's `availability`. For a message fault `party` is the sender and
    `peer` the receiver. `step`: the step that the party was in.
    """

    fault: int
    kind: str
    time: float
    party: str
    peer: str
    step: str
    message: str


class Round(Struct, frozen=True, kw_only=True):
    """The results of one round, which `began` at that virtual time. Experiments derive classes with further fields.

    `columns` are the titles of `cells`, which a table shows between the time of the beginning and the lost clients.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    round: int
    began: float
    lost: tuple[str, ...]

    def cells(self) -> tuple[str, ...]:
        """The cells of the round's row in a table, one for each of `columns`."""
        return ()

    def own(self) -> dict[str, float]:
        """Figures of the user's code, which a table shows after `cells`."""
        return {}

    @property
    def measured(self) -> dict[str, float]:
        """Further figures that are measured, which the record has beside the `figures` of its kind."""
        return {}

    def losses(self) -> str:
        """The lost clients as a table shows them."""
        shown = self.lost[:SHOWN]
        return ", ".join(shown) + more_than(shown, self.lost) or "nobody"


def spread_of(evaluation: Mapping[str, float]) -> str:
    """The metric in figures of an evaluation by clients whose spread over clients these have; "" if there is none, as
    in sums."""
    # Metrics come first, and one of a user's may end like this.
    return next((name.removesuffix("_worst") for name in reversed([*evaluation]) if name.endswith("_worst")), "")


def shown_of_clients(evaluation: Mapping[str, float]) -> dict[str, float]:
    """The figures of an evaluation by clients that tables show: the metric with a spread, the loss, and the worst.

    In sums, which have no spread, the metric is the first one that is not the loss.
    """
    score = spread_of(evaluation) or next((name for name in evaluation if name != "loss"), "")
    names = dict.fromkeys((score, "loss", f"{score}_worst"))
    return {name: evaluation[name] for name in names if name in evaluation}


def prefixed(prefix: str, figures: Mapping[str, float]) -> dict[str, float]:
    """The `figures`, with names that begin with `prefix`."""
    return {f"{prefix}{name}": value for name, value in figures.items()}


def more_than(shown: Sequence[str], names: Sequence[str]) -> str:
    """The number of `names` that are not `shown`, in words; "" for none."""
    left = len(names) - len(shown)
    return f" and {left:,} more" if left else ""


class ResultFields(Struct, kw_only=True):
    """The results of a run. A run that was broken off has the last three fields, `privacy` and `randomised`.

    Accuracy is a share of the points that `measured_on` names. For training it is that of the last model, whose digest
    is `model_digest`, and `accuracy_selected` that of the model of `selected_round`, which was best on the points held
    out. For co-training it is the mean of `client_accuracy`, with their standard `deviation`, and no label of a public
    point changed after round `agreed_after`, None if one changed in the last; `message_bytes` are the payload of one
    message, up, down, and of FedAvg with the same network. XCLP's predictions also have `balanced_accuracy` and
    `balanced_baselines`: means of the shares of each class. `equals_plaintext`, `lost` and `round_records` (in a file
    ``rounds``) cover all rounds. `endings` is the end of each client's part, `privacy` the budget that differentially
    private protocols spent, `randomised` the effect of randomised labels and hashes, `output` the server's result of a
    declared protocol. `score` names the figure that stands for the whole: "accuracy", or for a task with another score
    one of `metrics`; `accuracy` is None then, and `metrics_selected` has the score of the model of `selected_round`.
    `metrics` are further metrics of training on the same points as the accuracy, and `by_class`
    precision, recall, F1 and points of each class. `evaluation` has the figures of the last evaluation by clients on
    points of their own, with the numbers of clients and points, and mean, 10th and 90th percentile and worst of the
    clients; `evaluation_by_class` and, for up to 200 clients, `evaluation_by_client` have the same apart. `fit` are the
    means over clients of what local training of one's own returned in the last round with a result, besides its loss.
    `unchanged` are, by client, the rounds in which it sent the model of dp-fedavg without a change, because its own had
    numbers that are infinite or not a number.
    """

    score: str = ACCURACY
    accuracy: float | None = None
    measured_on: str = ""
    accuracy_selected: float | None = None
    selected_round: int | None = None
    balanced_accuracy: float | None = None
    metrics: dict[str, float] = {}
    metrics_selected: dict[str, float] = {}
    by_class: dict[str, dict[str, float]] = {}
    evaluation: dict[str, float] = {}
    evaluation_by_class: dict[str, dict[str, float]] = {}
    evaluation_by_client: dict[str, dict[str, float]] = {}
    fit: dict[str, float] = {}
    unchanged: dict[str, list[int]] = {}
    deviation: float | None = None
    client_accuracy: dict[str, float] = {}
    agreed_after: int | None = None
    message_bytes: dict[str, int] = {}
    baselines: dict[str, float] = {}
    balanced_baselines: dict[str, float] = {}
    equals_plaintext: bool | None = None
    hamming_digest: str = ""
    labels_digest: str = ""
    model_digest: str = ""
    privacy: Spent | None = None
    randomised: Randomised | None = None
    output: list[float] | None = None
    lost: list[Loss] = []
    round_records: list[Round] = field(name="rounds", default_factory=list)
    endings: dict[str, str] = {}

    @property
    def scored(self) -> float | None:
        """The value of the `score`: the accuracy, or the metric of that name; None if it was not measured."""
        return self.accuracy if self.score == ACCURACY else self.metrics.get(self.score)

    @property
    def scored_selected(self) -> float | None:
        """The value of the `score` of the model of `selected_round`; None if no model was selected."""
        return self.accuracy_selected if self.score == ACCURACY else self.metrics_selected.get(self.score)

    @property
    def further(self) -> dict[str, float]:
        """The metrics that were `measured` besides the `score`."""
        return {name: value for name, value in self.measured.items() if name != self.score}

    @property
    def measured(self) -> dict[str, float]:
        """The metrics of the model besides accuracy, those of the last evaluation by clients (`clients_...`), and the
        figures of local training of one's own (`fit_...`)."""
        return self.metrics | prefixed(CLIENTS, self.evaluation) | prefixed(FIT, self.fit)


def _nothing(folder: Path) -> None:
    pass


class Simulated(ResultFields, kw_only=True):
    """The results of a run that ended by itself, for a `reason` with its facts, or a text.

    `predictions` are party, its name in the data set, row of the data set, label, confidence. `silent` maps the number
    of each fault that never struck to the reason. `keep` writes further files into the run's folder.
    """

    outcome: str
    reason: str
    predictions: list[Prediction] = []
    silent: dict[int, str] = {}
    keep: Callable[[Path], None] = _nothing


class Ended(NamedTuple):
    """A round that a server has reported: its `record`, the virtual time (s) and the server's step at that time."""

    record: Any
    time: float
    step: str


class Ending(NamedTuple):
    """The end of a run: its outcome, reason and losses, and the number of rounds with a result.

    `epsilon`: that of all charged rounds of a private protocol, infinite without a bound; None for others. The reason
    is a `tacit.protocols.outcome.Reason`, or a text without its facts.
    """

    outcome: str
    reason: str
    lost: list[Loss]
    held: int
    epsilon: float | None = None


# --- the accuracy of labels

Labels = NDArray[np.int64]


def accuracy(found: Labels, true: Labels) -> float | None:
    """The share of `found` (n,) that equal the `true` labels; -1 is wrong. None without points."""
    return float((found == true).mean()) if len(true) else None


def balanced_accuracy(found: Labels, true: Labels) -> float | None:
    """The mean of the accuracies of the classes among `true`, each class with equal weight; None without points."""
    classes = np.unique(true)
    return float(np.mean([(found == true)[true == c].mean() for c in classes])) if len(classes) else None


def counting(labels: Labels, labeled: NDArray[np.bool_], new: NDArray[np.bool_], any_new: bool) -> NDArray[np.bool_]:
    """The points of a client that count: the `new` ones if any client has some, else the unlabeled; with a known
    label."""
    return (new if any_new else ~labeled) & (labels >= 0)
