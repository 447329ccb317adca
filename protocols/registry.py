"""The protocols that a scenario can name."""

from dataclasses import dataclass, field

from protocols.cotraining.round import steps as cotraining_steps
from protocols.declaration import Declaration
from protocols.federated import fedavg_then_xclp
from protocols.federated.round import steps as training_steps
from protocols.one_shot import OneShot
from protocols.steps import Step
from protocols.xclp import xclp
from sim.registry import Registry

__all__ = ["PROTOCOLS", "Protocol", "add", "declared", "using"]


@dataclass(frozen=True)
class Protocol:
    """A protocol's name in scenario files, one line about it, and its steps in the order in which they are taken.

    `parts` says what it is made of, and so which keys of a scenario it uses: "xclp" (cryptography among clients),
    "graph" (label propagation), "one-shot" (no training), "training" (of one model by all), "labels" (that with
    pseudo-labels), "cotraining" (clients with models of their own, and public points), "consensus" (of labels),
    "prediction" (after training, once), "private" (noise for differential privacy).
    """

    name: str
    summary: str
    steps: tuple[Step, ...]
    parts: frozenset[str] = field(default_factory=frozenset)

    @property
    def uses(self) -> tuple[str, ...]:
        """The keys that it uses and not every protocol does: names, and ``TABLE.*`` for all of a table."""
        found = [key for part, keys in _USES.items() if part <= self.parts for key in keys]
        found += ["training.validation"] if "training" in self.parts and "prediction" not in self.parts else []
        return (*found, *_OWN_USES.get(self.name, ()))

    @property
    def learns(self) -> bool:
        """Whether something is trained, in rounds."""
        return bool(self.parts & {"training", "cotraining"})


_XCLP_KEYS = "hamming key_bits insecure_keys packing rerandomise group short_exponents recovery threshold min_clients"
_TRAINING_KEYS = (
    "rounds share epochs labeled_batch learning_rate decay_rounds momentum weight_decay augmentation update mu "
    "averaging weighting"
)


def _of(table: str, keys: str) -> tuple[str, ...]:
    return tuple(f"{table}.{key}" for key in keys.split())


_LEARNING_KEYS = (
    "model.*",
    "public.*",
    "attack.*",
    *_of("training", "min_clients evaluate_every checkpoint_every device"),
)
_USES: dict[frozenset[str], tuple[str, ...]] = {
    frozenset(("xclp",)): _of("protocol", f"{_XCLP_KEYS} rows fraction_bits"),
    frozenset(("graph",)): _of("protocol", "bits k alpha"),
    frozenset(("one-shot",)): _of("protocol", "rounds"),
    frozenset(("training",)): (*_LEARNING_KEYS, *_of("training", _TRAINING_KEYS)),
    frozenset(("labels",)): ("training.label_from",),
    frozenset(("cotraining",)): (
        *_LEARNING_KEYS,
        "learner.*",
        "byzantine.*",
        *_of("cotraining", "rounds period"),
    ),
    frozenset(("consensus",)): _of("cotraining", "consensus quorum"),
    frozenset(("private",)): _of("privacy", "epsilon delta"),
}

_OWN_USES = {
    "dp-fedct": ("privacy.sensitivity",),
    "dp-pate": ("privacy.noise",),
    "dp-fedavg": ("privacy.noise", "privacy.clip", "privacy.noise_at"),
}

_CROSS = frozenset(("xclp", "graph", "labels"))
_ALONE = frozenset(("graph", "labels"))
_LABELS = frozenset(("labels",))
_CONSENSUS = frozenset(("consensus",))
_PRIVATE = frozenset(("private",))


def _training(name: str, summary: str, parts: frozenset[str] = frozenset(), secure: bool = True) -> Protocol:
    inside = xclp.STEPS if "xclp" in parts else ()
    steps = training_steps(labels="labels" in parts, inside=inside, secure=secure)
    return Protocol(name, summary, steps, parts | {"training"})


def _cotraining(name: str, summary: str, parts: frozenset[str] = frozenset(), student: bool = False) -> Protocol:
    return Protocol(name, summary, cotraining_steps(student=student), parts | {"cotraining"})


_SHIPPED: dict[str, "Protocol | Declaration"] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "xclp",
            "cross-client label propagation over a joint neighbourhood graph",
            xclp.STEPS,
            frozenset(("xclp", "graph", "one-shot")),
        ),
        Protocol(
            "fedavg-then-xclp",
            "federated averaging on the labeled points, then XCLP once on features of the model",
            training_steps(labels=False, after=fedavg_then_xclp.STEPS),
            frozenset(("xclp", "graph", "training", "prediction")),
        ),
        _training("fedavg", "federated averaging on the labeled points"),
        _training("fedavg+xclp", "federated averaging, pseudo-labels by XCLP among each round's clients", _CROSS),
        _training("fedprop", "the earlier form of fedavg+xclp: sums by secret sharing", _CROSS),
        _training("fedprop+mt", "fedprop with a mean teacher", _CROSS),
        _training("fedavg+perclient-lp", "federated averaging, pseudo-labels by each client's own graph", _ALONE),
        _training("fedavg+network", "federated averaging, pseudo-labels predicted by the model", _LABELS),
        _training("fedsem+", "federated averaging, pseudo-labels predicted by the model once", _LABELS),
        _training("fedmatch", "agreement with helpers on unlabeled points", secure=False),
        _training("fedsiam", "a siamese pair of networks held together on unlabeled points"),
        _training("fedavg+mt", "federated averaging with a mean teacher"),
        _training("fedprox", "fedavg with a proximal term"),
        _training("scaffold", "fedavg with control variates"),
        _training("dp-fedavg", "fedavg with clipped changes and Gaussian noise", _PRIVATE),
        _cotraining("fedct", "clients share hard labels of public points and learn from their consensus", _CONSENSUS),
        _cotraining("dp-fedct", "fedct with labels randomised by the XOR mechanism", _CONSENSUS | _PRIVATE),
        _cotraining("dd", "clients share class probabilities of public points and learn from their mean"),
        _cotraining("fedmd", "clients learn labeled public points, then digest each other's scores of them"),
        _cotraining("pate", "teachers label public points once, a student learns from their votes", student=True),
        _cotraining("dp-pate", "pate with Gaussian noise on the votes", _PRIVATE, student=True),
        _cotraining("local", "every client learns alone; nothing is shared"),
        _cotraining("centralised", "one party holds all points and learns from them"),
    )
}
PROTOCOLS: Registry["Protocol | Declaration"] = Registry("protocol", _SHIPPED)


def using(*parts: str) -> tuple[str, ...]:
    """The names of the protocols made of any of `parts`."""
    return tuple(name for name, protocol in _SHIPPED.items() if not protocol.parts.isdisjoint(parts))


def add(declaration: Declaration) -> None:
    """Let scenario files name the protocol of `declaration`, an instance of a class derived from `OneShot`.

    Raises ValueError for a name that is taken or invalid, and for what is declared wrongly.
    """
    if not isinstance(declaration, OneShot):
        raise ValueError(f"{declaration!r} is not an instance of a class derived from OneShot.")
    declaration.check_declared()
    PROTOCOLS.add(declaration.name, declaration)


def declared(name: str) -> Declaration | None:
    """The declaration of a protocol that was added; None of one that comes with Tacit, and of an unknown one."""
    found = PROTOCOLS.get(name)
    return found if isinstance(found, Declaration) else None
