"""The tables [model], [training] and [byzantine] of a scenario: the network, its training, and false clients."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Protocol

from msgspec import Meta

from tacit.parties.learning.metrics import OF_CLASSES
from tacit.parties.learning.spec import MODELS
from tacit.parties.learning.tasks import TASKS
from tacit.protocols.federated.registry import AVERAGINGS, UPDATES, Weighting
from tacit.protocols.sums.keys import SumKeys
from tacit.protocols.xclp.keys import XclpTables
from tacit.sim.table import Keys, about

__all__ = ["Byzantine", "Model", "Training", "TrainingTables"]


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


class Training(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[training]: rounds of local updates, and the averaging of models."""

    moved: ClassVar[Mapping[str, str]] = {key: f"sum.{key}" for key in SumKeys.__struct_fields__}
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
    extra: Annotated[
        int,
        about(
            "Over-selection: number of clients called in each round beyond `share`. The round ends when it has as "
            "many models as without them. Later clients are dismissed and do not count as lost.",
            ge=0,
            unit="clients",
        ),
    ] = 0
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
    epochs: Annotated[int, about("Number of passes of a client over its points in a round.", ge=1)] = 5
    labeled_batch: Annotated[
        int,
        about(
            "Largest number of labeled points in a batch. A batch has at most the same number of unlabeled points.",
            ge=1,
            unit="points",
        ),
    ] = 50
    learning_rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        about(
            "Learning rate of the first round. By default 0.3 for clients with 50 labels in a batch and 0.1 for "
            "others, as in the paper (see `protocol.recipe`); with another `optimizer` than `sgd`, torch's default."
        ),
    ] = None
    decay_rounds: Annotated[
        int,
        about(
            "Round in which the learning rate, which follows a cosine (see `schedule`), would reach 0. With 0, the "
            "rate is constant. The schedule starts again with the first pseudo-labels (`label_from`).",
            ge=0,
            unit="rounds",
        ),
    ] = 2000
    schedule: Annotated[
        Literal["cosine", "linear", "step", "exponential", "constant"],
        about(
            "Learning rate by round, unless `decay_rounds` is 0: `cosine` and `linear` reach 0 at `decay_rounds`; "
            "`step` multiplies by `decay_factor` every `decay_rounds`; `exponential` does so in equal parts each "
            "round; `constant` changes nothing."
        ),
    ] = "cosine"
    decay_factor: Annotated[
        float,
        about("Factor of the learning rate in `decay_rounds`, for the schedules `step` and `exponential`.", gt=0, le=1),
    ] = 0.1
    warmup_rounds: Annotated[
        int,
        about("Number of first rounds in which the learning rate rises in equal steps. 0: none.", ge=0, unit="rounds"),
    ] = 0
    optimizer: Annotated[
        str,
        about(
            "Optimizer of local training: `sgd`, or another of torch.optim in lower case, such as `adamw`. A client "
            "makes a new one in each round. Without `learning_rate`, torch's default for it is used."
        ),
    ] = "sgd"
    optimizer_options: Annotated[
        tuple[str, ...],
        about('Options of the optimizer, each as NAME=VALUE, for example `["betas=[0.9, 0.99]", "eps=1e-7"]`.'),
    ] = ()
    gradient_clip: Annotated[
        float,
        about(
            "Largest norm of the gradient of all parameters together, to which each step scales longer ones. 0: none.",
            ge=0,
        ),
    ] = 0.0
    fit: Annotated[
        str,
        about(
            "Local training of your own, added by `add_fit`, instead of the loop over batches. Empty: that loop. Tacit "
            "computes its virtual time as that of the loop, times the `passes` of `add_fit`."
        ),
    ] = ""
    momentum: Annotated[float, about("Momentum of gradient descent.", ge=0, lt=1)] = 0.0
    weight_decay: Annotated[
        float, about("Weight decay: factor of the parameters that each step adds to the gradient.", ge=0)
    ] = 2e-4
    augmentation: Annotated[
        Literal["none", "translate-flip", "rotate-flip", "strong"],
        about(
            "Augmentation of images larger than 4 x 4 pixels: `translate-flip` shifts them by up to 4 pixels and "
            "mirrors them; `rotate-flip` rotates them by up to 10 degrees and mirrors them; `strong` changes them "
            "more."
        ),
    ] = "none"
    class_weights: Annotated[
        Literal["none", "own"],
        about(
            "`own`: once there are pseudo-labels, each point has the weight n / (C count). C is the number of "
            "classes, n the client's number of labels and pseudo-labels, and `count` their number in the point's "
            "class. The XCLP authors' code counts over the cohort instead."
        ),
    ] = "none"
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
    label_from: Annotated[
        int, about("First round with pseudo-labels. Earlier rounds train on labels only.", ge=1, unit="round")
    ] = 1
    validation: Annotated[
        float,
        about("Share of the training points that no client gets. They select the model of the best round.", ge=0, lt=1),
    ] = 0.1
    evaluate_every: Annotated[
        int, about("Test the models every N rounds and at the end. Testing takes no virtual time.", ge=1, unit="rounds")
    ] = 1
    metrics: Annotated[
        tuple[str, ...],
        about(
            "Further metrics of the model on the test points, in each round that is tested: {listed}; or metrics of "
            "the task. By default, only the score of `classification`, and all metrics of other tasks.",
            listed=OF_CLASSES,
        ),
    ] = ()
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

    def fewest(self, unless_given: int = 1) -> int:
        """The value of `min_clients`, or its default `unless_given`."""
        return unless_given if self.min_clients is None else self.min_clients


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


class TrainingTables(XclpTables, Protocol):
    """The tables that federated training uses."""

    @property
    def model(self) -> Model: ...
    @property
    def training(self) -> Training: ...
    @property
    def byzantine(self) -> Byzantine: ...
