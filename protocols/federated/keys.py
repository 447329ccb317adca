"""The tables [model] and [training] of a scenario: which network is trained, and how."""

from typing import Annotated, Literal, Protocol

from msgspec import Meta

from tacit.parties.learning.spec import MODELS
from tacit.protocols.federated.algorithms import UPDATES
from tacit.protocols.xclp.keys import XclpTables
from tacit.sim.table import Keys

__all__ = ["Model", "Training", "TrainingTables"]


class Model(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[model]: the network, whose inputs and classes are those of the data."""

    name: Annotated[
        str,
        Meta(
            description="The network: {listed}.",
            extra={"listed": MODELS},
        ),
    ] = "linear_embedding"
    width: Annotated[
        float,
        Meta(
            gt=0,
            description="The channels of `cnn13`, times those of the paper.",
            extra={"unit": "factor"},
        ),
    ] = 1.0
    embedding: Annotated[
        int,
        Meta(ge=1, description="The features of `linear_embedding`.", extra={"unit": "features"}),
    ] = 128
    normalised: Annotated[
        bool | None,
        Meta(
            description="True scales features to length 1; without it as is usual for the network "
            "(of `cnn13` and `resnet18` they are).",
        ),
    ] = None
    mean: Annotated[
        tuple[float, ...],
        Meta(description="One number a channel, taken off the values in [0, 1] inside the network."),
    ] = ()
    std: Annotated[
        tuple[float, ...],
        Meta(description="One number a channel, by which they are divided then."),
    ] = ()


class Training(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[training]: rounds of local updates, and how the models come together."""

    rounds: Annotated[int, Meta(ge=1, description="Rounds.", extra={"unit": "rounds"})] = 20
    share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="tau, the share of the clients that is drawn in each round: this share of those with labels "
            "and of the others, each rounded up; where labels alone are trained on, none of the others.",
        ),
    ] = 1.0
    extra: Annotated[
        int,
        Meta(
            ge=0,
            description="Over-selection: each round calls this number of clients more than `share` says, and is over "
            "with as many models as without them, the first that arrive. Who is later is dismissed, and no loss.",
            extra={"unit": "clients"},
        ),
    ] = 0
    concurrency: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="M_c, the clients that train at the same time; without it `share` of those with labels.",
            extra={"unit": "clients"},
        ),
    ] = None
    buffer: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="K: the server's model moves, and a round is over, once this number of models is in; without "
            "it 10, or half of those that train at the same time, rounded up, where that is fewer.",
            extra={"unit": "models"},
        ),
    ] = None
    staleness: Annotated[
        float,
        Meta(
            ge=0,
            description="a: what a client has changed since tau moves of the server's model counts (1 + tau)^-a; 0: as "
            "much as any other.",
        ),
    ] = 0.5
    server_rate: Annotated[
        float, Meta(gt=0, description="eta_g, times the mean of the changes in the buffer.", extra={"unit": "factor"})
    ] = 1.0
    epochs: Annotated[int, Meta(ge=1, description="Passes of a client over its points in a round.")] = 5
    labeled_batch: Annotated[
        int,
        Meta(
            ge=1,
            description="The most labeled points in a batch; as many others come beside them.",
            extra={"unit": "points"},
        ),
    ] = 50
    learning_rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="Rate of the first round; without it 0.3 for clients with 50 labels in a batch and 0.1 for "
            "others, as in the paper (see `protocol.recipe`).",
        ),
    ] = None
    decay_rounds: Annotated[
        int,
        Meta(
            ge=0,
            description="The round in which the learning rate, a cosine, would reach 0; 0: it stays as it is. With the "
            "first pseudo-labels (`label_from`) it begins again.",
            extra={"unit": "rounds"},
        ),
    ] = 2000
    momentum: Annotated[float, Meta(ge=0, lt=1, description="The momentum of the steps.")] = 0.0
    weight_decay: Annotated[float, Meta(ge=0, description="Times the parameters, in each step.")] = 2e-4
    augmentation: Annotated[
        Literal["none", "translate-flip", "rotate-flip", "strong"],
        Meta(
            description="How images of more than 4 x 4 pixels are changed: moved by up to 4 pixels and mirrored; "
            "turned by up to 10 degrees and mirrored; or more than that.",
        ),
    ] = "none"
    class_weights: Annotated[
        Literal["none", "own"],
        Meta(
            description="`own`: with pseudo-labels a point counts n / (C count) times as much, of the n labels and "
            "pseudo-labels that its client has, and `count` of its class; the XCLP paper's authors' code counts those "
            "of the cohort.",
        ),
    ] = "none"
    update: Annotated[
        str,
        Meta(
            description="Addition to any algorithm: nothing, a proximal term, or control variates. The protocols "
            "`fedprox` and `scaffold` have theirs.",
            extra={"registry": UPDATES},
        ),
    ] = "fedavg"
    mu: Annotated[float, Meta(ge=0, description="Weight of the proximal term of `fedprox`.")] = 0.01
    averaging: Annotated[
        Literal["plain", "secure", "secagg+", "lightsecagg"],
        Meta(
            description="`plain`: the server sees each client's model; `secure`: a secure sum, so it sees the average; "
            "`secagg+`: a secure sum for many clients, each of which deals and masks with k others in a random graph; "
            "`lightsecagg`: a secure sum whose opening costs the same whoever is lost, with `training.value_bits`.",
        ),
    ] = "plain"
    value_bits: Annotated[
        Annotated[int, Meta(ge=2, le=32)] | Literal["exact"],
        Meta(
            description="With a secure average: the bits of each number of a model that is summed. `exact`: a fixed "
            "point in words of 64 bits. With fewer bits, numbers are clipped to `training.clip` and rounded, and words "
            "are as wide as the sum needs.",
            extra={"unit": "bits"},
        ),
    ] = "exact"
    clip: Annotated[
        float,
        Meta(
            gt=0,
            description="With `training.value_bits`: the largest magnitude of a number of a model. Larger ones are "
            "clipped, and each round reports their share.",
        ),
    ] = 4.0
    largest_weight: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="With `training.value_bits` and `training.weighting` = `points`: the largest weight of a "
            "model. A client with more points counts as one with this number. Default: the largest number of labeled "
            "points of a client, which every party then knows.",
            extra={"unit": "points"},
        ),
    ] = None
    tolerated_dropouts: Annotated[
        float,
        Meta(
            ge=0,
            lt=1,
            description="The share of a cohort that may be lost in a sum by `secagg+` or `lightsecagg`: k, or U, is "
            "chosen so that it comes to its end then. Less than 1 with `corrupt_clients`; for `lightsecagg` less than "
            "half of what these leave.",
        ),
    ] = 0.1
    corrupt_clients: Annotated[
        float,
        Meta(
            ge=0,
            lt=1,
            description="The share of a cohort that may collude with a curious server without showing it anything of "
            "the others in a sum by `secagg+` or `lightsecagg`. With `secagg+` the server must draw a random graph.",
        ),
    ] = 0.1
    failure_exponent: Annotated[
        int,
        Meta(
            ge=1,
            le=128,
            description="Sums by `secagg+` withstand what they tolerate except with a probability of 2 to the power of "
            "minus this.",
        ),
    ] = 40
    weighting: Annotated[
        Literal["equal", "points"],
        Meta(
            description="Weight of a model in the average: one, or the points it was trained on in an epoch.",
        ),
    ] = "equal"
    min_clients: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="With fewer models, or predictions in co-training, the round is lost and all stays as it was; "
            "without it 1. Clients refuse a secure average over fewer: 2 or more, and without it as many as a sum "
            "holds for certain, whatever sets a server names, where t = more than half of the cohort survive (2 to 4). "
            "A larger number needs more survivors: about half of a cohort and half of these. With noise at the "
            "clients, which is made for this number, more than half of the smallest cohort.",
            extra={"unit": "clients"},
        ),
    ] = None
    label_from: Annotated[
        int,
        Meta(
            ge=1,
            description="The first round with pseudo-labels; those before train on labels alone.",
            extra={"unit": "round"},
        ),
    ] = 1
    validation: Annotated[
        float,
        Meta(
            ge=0,
            lt=1,
            description="Share of the training points that no client gets, to select the best round's model by.",
        ),
    ] = 0.1
    evaluate_every: Annotated[
        int,
        Meta(
            ge=1,
            description="Models are tested every N rounds, outside of virtual time, and at the end.",
            extra={"unit": "rounds"},
        ),
    ] = 1
    checkpoint_every: Annotated[
        int,
        Meta(
            ge=0,
            description="Every N rounds all is kept that `tacit run --resume` needs to go on, or after the "
            "next round that ends with no client at work, which `fedbuff` need not wait for; 0: never. It changes "
            "nothing about the run.",
            extra={"unit": "rounds"},
        ),
    ] = 10
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        Meta(
            description="Where networks really run: `auto` takes a GPU where there is one. Virtual time is the same.",
        ),
    ] = "auto"

    def fewest(self, unless_given: int = 1) -> int:
        """`min_clients`, or its default."""
        return unless_given if self.min_clients is None else self.min_clients


class TrainingTables(XclpTables, Protocol):
    """The tables that federated training uses."""

    @property
    def model(self) -> Model: ...
    @property
    def training(self) -> Training: ...
