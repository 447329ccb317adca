"""The tables [model], [training] and [byzantine] of a scenario: the network, its training, and false clients."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Protocol

from msgspec import Meta

from tacit.parties.learning.local_update import LocalKeys
from tacit.parties.learning.metrics import OF_CLASSES
from tacit.parties.learning.spec import MODELS
from tacit.parties.learning.tasks import TASKS
from tacit.protocols.federated.registry import AVERAGINGS, UPDATES, Weighting
from tacit.protocols.sums.keys import SumKeys
from tacit.protocols.xclp.keys import XclpTables
from tacit.sim.table import Keys, about, joined

__all__ = [
    "BufferKeys", "Byzantine", "CohortKeys", "EvaluationKeys", "ExtraKeys", "LabelKeys", "LearningKeys", "Model",
    "RoundKeys", "SelectionKeys", "Training", "TrainingTables",
]  # fmt: skip


class Model(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[model]: the network, whose inputs and classes are those of the data."""

    name: Annotated[str, about("The network: {listed}.", listed=MODELS)] = "linear_embedding"
    width: Annotated[float, about("Channels of `cnn13`, relative to those of the paper.", gt=0, unit="factor")] = 1.0
    embedding: Annotated[int, about("Number of features of `linear_embedding`.", ge=1, unit="features")] = 128
    normalised: Annotated[
        bool | None, about("`true` scales features to length 1. By default, only `cnn13` and `resnet18` scale them.")
    ] = None
    mean: Annotated[
        tuple[float, ...],
        about("One number per channel. The network subtracts it from pixel values, which are in [0, 1]."),
    ] = ()
    private: Annotated[
        tuple[str, ...],
        about(
            "Parts of the network that stay with each client: patterns such as `head`, `*.norm.*` or "
            "`type:BatchNorm*`, which fit names of the state dict, of modules, or types of modules. Never sent."
        ),
    ] = ()
    frozen: Annotated[
        tuple[str, ...], about("Parts of the network that are not trained, as such patterns. Never sent.")
    ] = ()
    kept: Annotated[
        tuple[str, ...],
        about(
            "Buffers that each update begins with as they were built, as such patterns. Never sent. By default "
            "buffers of floating point are averaged."
        ),
    ] = ()
    std: Annotated[
        tuple[float, ...], about("One number per channel. The network divides by it after subtracting `mean`.")
    ] = ()
    weights: Annotated[
        str,
        about(
            "File with the weights from which training starts: safetensors, a state dict saved by `torch.save`, or "
            "the `model.npz` of a run. Names, shapes and types must be those of the network's state dict. Empty: "
            "random weights. The path is relative to the scenario file.",
            unit="file",
        ),
    ] = ""

    def idle(self) -> Mapping[str, str]:
        return {} if self.name == "cnn13" else {"width": 'model.name = "cnn13"'}


class LearningKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of all training in rounds."""

    moved: ClassVar[Mapping[str, str]] = {key: f"sum.{key}" for key in SumKeys.__struct_fields__}

    evaluate_every: Annotated[
        int, about("Test the models every N rounds and at the end. Testing takes no virtual time.", ge=1, unit="rounds")
    ] = 1
    checkpoint_every: Annotated[
        int,
        about(
            "Write a checkpoint for `tacit run --resume` every N rounds (0: never). If a client is still computing "
            "when the round ends, Tacit writes it after a later round; `fedbuff` does not wait. Checkpoints do not "
            "change the run.",
            ge=0,
            unit="rounds",
        ),
    ] = 10
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        about("Where networks are trained: `auto` uses a GPU if there is one. Virtual time does not change."),
    ] = "auto"


class CohortKeys(LearningKeys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of training in rounds that each have a cohort, also of co-training."""

    min_clients: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        about(
            "Smallest number of models (in co-training: predictions) in a round. With fewer, the round is lost and "
            "nothing changes. The default is 1. Clients refuse a secure average over fewer than this number, at least "
            "2. For secure averages the default is the number of clients that a sum is sure to cover if just over "
            "half of the cohort survives (2 to 4). A larger value needs more survivors. With noise added at the "
            "clients, the default is more than half of the smallest cohort.",
            unit="clients",
        ),
    ] = None

    def fewest(self, unless_given: int = 1) -> int:
        """The value of `min_clients`, or its default `unless_given`."""
        return unless_given if self.min_clients is None else self.min_clients


class RoundKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of a round in which clients train one model, besides those of their local training."""

    task: Annotated[str, about("The task, which says loss, predictions and metrics: {listed}.", listed=TASKS)] = (
        "classification"
    )
    rounds: Annotated[int, about("Number of rounds.", ge=1, unit="rounds")] = 20
    share: Annotated[
        float,
        about(
            "tau: share of clients drawn in each round. The share is drawn from clients with labels and from those "
            "without, each rounded up. Protocols that train on labels only draw no clients without labels.",
            gt=0,
            le=1,
        ),
    ] = 1.0
    update: Annotated[
        str,
        about(
            "Addition to local training: `fedavg`, none; `fedprox`, a proximal term; `scaffold`, control variates. "
            "The protocols `fedprox` and `scaffold` set it themselves.",
            registry=UPDATES,
        ),
    ] = "fedavg"
    mu: Annotated[float, about("Weight of the proximal term of `fedprox`.", ge=0)] = 0.01
    averaging: Annotated[
        str,
        about(
            "Averaging of models, by a secure sum, so that the server sees only the average, or in plain: {listed}.",
            registry=AVERAGINGS,
            listed=AVERAGINGS,
        ),
    ] = "plain"
    weighting: Annotated[
        Weighting | None,
        about(
            "Weight of a model in the average: `equal` for all, or `points`, the number of points it was trained on "
            "in an epoch. The default is that of the algorithm's paper: `points` for `fedavg` and `fedprox`, `equal` "
            "for all others. It is also `equal` with another `training.update` than these two, and with `prio3`, "
            "whose proof bounds no weights."
        ),
    ] = None
    metrics: Annotated[
        tuple[str, ...],
        about(
            "Further metrics of the model on the test points, in each round that is tested: {listed}; or metrics of "
            "the task. By default, only the score of `classification`, and all metrics of other tasks.",
            listed=OF_CLASSES,
        ),
    ] = ()


class ExtraKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The key of a round that ends before all clients that were called have answered."""

    extra: Annotated[
        int,
        about(
            "Over-selection: number of clients called in each round beyond `share`. The round ends when it has as "
            "many models as without them. Later clients are dismissed and do not count as lost.",
            ge=0,
            unit="clients",
        ),
    ] = 0


class SelectionKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The key of training that selects a model by points that no client has."""

    validation: Annotated[
        float,
        about("Share of the training points that no client gets. They select the model of the best round.", ge=0, lt=1),
    ] = 0.1


class LabelKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of training on pseudo-labels."""

    label_from: Annotated[
        int, about("First round with pseudo-labels. Earlier rounds train on labels only.", ge=1, unit="round")
    ] = 1
    class_weights: Annotated[
        Literal["none", "own"],
        about(
            "`own`: once there are pseudo-labels, each point has the weight n / (C count). C is the number of "
            "classes, n the client's number of labels and pseudo-labels, and `count` their number in the point's "
            "class. The XCLP authors' code counts over the cohort instead."
        ),
    ] = "none"


class EvaluationKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The key of the evaluation by clients."""

    evaluation: Annotated[
        Literal["none", "plain", "secure"],
        about(
            "`plain`: after each round that is tested, the server sends the model to all clients. They test it on "
            "the points that they hold out (`data.held_out`) and send figures, which the server adds. `secure`: the "
            "clients of a round test the model with which it begins, and the secure sum of the round adds their "
            "figures, so the server sees only the sums; needs a secure `training.averaging`. In co-training, clients "
            "test their own models, and `secure` needs a secure sum of votes (`cotraining.votes`). With an outline of "
            "private files and no test points, `plain` is the default, with a fifth of the points."
        ),
    ] = "none"


class BufferKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of training in which models are averaged as they arrive."""

    concurrency: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        about(
            "M_c: number of clients that train at the same time (default: `share` of the clients with labels).",
            unit="clients",
        ),
    ] = None
    buffer: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        about(
            "K: number of models after which the server updates its model, which ends a round. The default is 10, or "
            "half of the clients that train at the same time (rounded up) if that is fewer.",
            unit="models",
        ),
    ] = None
    staleness: Annotated[
        float,
        about(
            "a: a change that is tau server updates old has the weight (1 + tau)^-a. With 0, all changes have equal "
            "weight.",
            ge=0,
        ),
    ] = 0.5
    server_rate: Annotated[
        float,
        about("eta_g: factor of the mean of the buffered changes.", gt=0, unit="factor"),
    ] = 1.0


_DESCRIPTION = "[training]: rounds of local updates, and the averaging of models."
_PARTS = (
    CohortKeys, RoundKeys, LocalKeys, ExtraKeys, SelectionKeys, LabelKeys, EvaluationKeys, BufferKeys,
)  # fmt: skip

if TYPE_CHECKING:

    class Training(
        CohortKeys, RoundKeys, LocalKeys, ExtraKeys, SelectionKeys, LabelKeys, EvaluationKeys, BufferKeys,
        kw_only=True, frozen=True, forbid_unknown_fields=True,
    ):  # fmt: skip
        """[training]: rounds of local updates, and the averaging of models."""

else:
    Training = joined("Training", _DESCRIPTION, *_PARTS)


class Byzantine(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[byzantine]: clients that send false labels or models. In co-training, accuracy is that of the honest clients."""

    clients: Annotated[int, about("Number of Byzantine clients: the last ones.", ge=0, unit="clients")] = 0
    kind: Annotated[
        Literal["random", "flipped", "colluding", "stuffed", "scaled", "noise"],
        about(
            "Labels that Byzantine clients send in co-training: `random` labels; `flipped`, the class after the "
            "predicted one; `colluding`, all the same wrong label for a point. With secure votes also `stuffed`: "
            "`flipped` labels with `weight` votes; `scaled`: the client's own labels with `weight` votes; `noise`: "
            "random counters. In federated training, the update that they send: `scaled`, their own one times "
            "`weight`; `stuffed`, the same with the opposite sign; `noise`, normal random numbers with the standard "
            "deviation `weight`."
        ),
    ] = "random"
    weight: Annotated[
        int,
        about(
            "`stuffed` and `scaled`: number of votes, or factor of the update, of each Byzantine client. `noise` of "
            "an update: its standard deviation.",
            ge=1,
            le=60000,
        ),
    ] = 1000
    clipped: Annotated[
        bool,
        about(
            "In federated training with `sum.value_bits`: `true` clips the numbers of a false model to "
            "`sum.clip`, so that no proof refuses them."
        ),
    ] = False

    def idle(self) -> Mapping[str, str]:
        return {} if self.clients else dict.fromkeys(("kind", "weight", "clipped"), "byzantine.clients > 0")


class TrainingTables(XclpTables, Protocol):
    """The tables that federated training uses."""

    @property
    def model(self) -> Model: ...
    @property
    def training(self) -> Training: ...
    @property
    def byzantine(self) -> Byzantine: ...
