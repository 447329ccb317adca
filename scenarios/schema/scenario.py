"""What a scenario may say: every key with its type, unit, default and the protocols that use it.

The structs are the single source: files are converted into them (`scenarios.files.reading`), and
`scenarios.schema.keys` makes the table that `tacit keys` and the docs print. What a type cannot hold (k below the
number of points) is checked in `scenarios.files.checks`.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from parties.data.features import FEATURES
from protocols.registry import using
from protocols.xclp.variants import ROW_SUMS, VARIANTS
from scenarios.schema.attack import Attack, Byzantine
from scenarios.schema.cotraining import Cotraining, Learner, Public
from scenarios.schema.fault import DURATION, Duration, Expect, Fault
from scenarios.schema.privacy import Privacy
from scenarios.schema.training import Model, Training

__all__ = [
    "Attack",
    "Byzantine",
    "Cotraining",
    "Data",
    "Device",
    "Expect",
    "Fault",
    "Learner",
    "Model",
    "Network",
    "Privacy",
    "Protocol",
    "Public",
    "Scenario",
    "ScenarioError",
    "Training",
    "as_table",
]


class ScenarioError(ValueError):
    """A scenario that cannot be run, in one line: where it stands, which key, what is wrong and allowed."""

    def __init__(self, where: str, key: str, problem: str) -> None:
        self.where, self.key = (" ".join(text.splitlines()) for text in (where, key))
        self.problem = " ".join(problem.split())
        super().__init__(": ".join(part for part in (self.where, self.key, self.problem) if part))


_XCLP = {"protocols": using("xclp")}
_GRAPH = {"protocols": using("graph")}
_ONE_SHOT = {"protocols": using("one-shot")}
_RATE = {"unit": "rate"}


class Data(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[data]: whose points, and how they are spread over the clients."""

    name: Annotated[
        str, Meta(description="A data set (`tacit data list`); either this or `path`. Neither: digits.")
    ] = ""
    path: Annotated[
        str,
        Meta(
            description="A CSV or NPZ file of your own; relative to the scenario file.",
            extra={"unit": "file"},
        ),
    ] = ""
    label_column: Annotated[str, Meta(description="The column of `path` that holds the class.")] = "label"
    client_column: Annotated[
        str, Meta(description='The column of `path` that says whose row it is, for `partition = "natural"`.')
    ] = "client"
    features: Annotated[
        str,
        Meta(
            description="What becomes of each point before a run, at no virtual cost: `identity`, nothing; "
            + "; ".join(f"`{name}`, {kind.description}" for name, kind in FEATURES.items() if kind)
            + ". They are kept beside the data sets."
        ),
    ] = "identity"
    clients: Annotated[
        int,
        Meta(ge=1, description="How many clients share the points; taken from the file when it is `natural`."),
    ] = 10
    partition: Annotated[
        str,
        Meta(
            description="Who holds what: `iid`, `dirichlet:A` (class shares from Dirichlet(A)), `dirichlet:A/B` "
            "(half of the points with A, half with B), `classes:C` (C classes a client), or `natural` (the data "
            "set's own clients, of a file its client column)."
        ),
    ] = "iid"
    labeled: Annotated[float, Meta(gt=0, le=1, description="Share of each client's points that have a label.")] = 0.1
    labeled_clients: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Only the first so many clients have labels; without it, all.", extra={"unit": "clients"}),
    ] = None
    labels_per_client: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="So many labels for each client that has any, in place of `labeled`: with `iid` as even over "
            "the classes as can be, else in proportion to the client's classes.",
            extra={"unit": "labels"},
        ),
    ] = None
    new: Annotated[
        float,
        Meta(
            ge=0,
            description="Points of each client that are no training data but new, to be predicted: below 1 a share, "
            "else so many. If there are any, accuracy is measured on the new points alone.",
            extra={"unit": "points"},
        ),
    ] = 0.0
    without_labels: Annotated[
        tuple[str, ...],
        Meta(description='Clients without training data, as `["client/3"]`: all their points are new.'),
    ] = ()
    unlabeled: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of the training points without a label that take part; 0: training data is labeled.",
        ),
    ] = 1.0
    test: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="So many points for testing, drawn with the seed from all rows of a data set, upstream's test "
            "part among them, or of a file; clients get the others. Without it upstream's own split, or the last "
            "fifth; of a file none.",
            extra={"unit": "points"},
        ),
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Use only so many points, for a quick look.", extra={"unit": "points"}),
    ] = None


class Protocol(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[protocol]: what is computed and with which cryptography."""

    name: Annotated[str, Meta(description="Which protocol runs; its steps: `tacit steps NAME`.")] = "xclp"
    hamming: Annotated[
        str,
        Meta(
            description="How the server learns Hamming distances: Paillier encryption, oblivious-transfer extension, "
            "one oblivious transfer a bit (for small n and L), or in the clear, without secrecy.",
            extra={**_XCLP, "registry": VARIANTS},
        ),
    ] = "paillier"
    bits: Annotated[
        int, Meta(ge=8, le=65536, description="L, hash bits a point.", extra={**_GRAPH, "unit": "bits"})
    ] = 1024
    k: Annotated[int, Meta(ge=1, description="Nearest neighbours a point in the graph, below n.", extra=_GRAPH)] = 10
    alpha: Annotated[float, Meta(gt=0, lt=1, description="How far labels spread in the graph.", extra=_GRAPH)] = 0.99
    key_bits: Annotated[
        Literal[512, 1024, 2048, 3072],
        Meta(
            description="Paillier modulus; 512 and 1024 are insecure and need `insecure_keys`.",
            extra={**_XCLP, "unit": "bits"},
        ),
    ] = 2048
    insecure_keys: Annotated[bool, Meta(description="Allow keys of 512 and 1024 bits, for tests.", extra=_XCLP)] = False
    packing: Annotated[
        Literal["slots", "none"],
        Meta(
            description="Paillier: `slots` puts many points into one ciphertext, `none` one bit, as in the paper.",
            extra=_XCLP,
        ),
    ] = "slots"
    rerandomise: Annotated[
        Literal["powers", "fresh"],
        Meta(
            description="Paillier: what hides a result from the key's owner. `powers`: random powers of one number a "
            "pair, which assumes an honestly made key; `fresh`: an N-th power of its own, safe under any proved key, "
            "for one long exponentiation a result.",
            extra=_XCLP,
        ),
    ] = "powers"
    group: Annotated[
        Literal["p256", "modp-2048", "modp-3072"],
        Meta(description="Oblivious transfer: NIST P-256, or a safe prime's squares (RFC 3526).", extra=_XCLP),
    ] = "p256"
    short_exponents: Annotated[
        bool,
        Meta(
            description="Oblivious transfer in a modp group: exponents of 256 bits, by the short-exponent assumption.",
            extra=_XCLP,
        ),
    ] = False
    recovery: Annotated[
        str,
        Meta(
            description="What the summing does about a lost client: `restart` begins a new attempt; `shamir` makes up "
            "for it with shared secrets, and masked values that came count. FedProp always has `shamir`.",
            extra={**_XCLP, "registry": ROW_SUMS},
        ),
    ] = "restart"
    threshold: Annotated[
        Annotated[int, Meta(ge=2)] | None,
        Meta(
            description='With `recovery = "shamir"`: how many clients can make up for a lost one, '
            "where that is more than half of those who sum, who always can.",
            extra={**_XCLP, "unit": "clients"},
        ),
    ] = None
    min_clients: Annotated[
        int,
        Meta(
            ge=2,
            description="Fewer clients with labels in the summing: a clear abort; in training the round is lost.",
            extra=_XCLP,
        ),
    ] = 3
    recipe: Annotated[
        Literal["paper", "authors-code"],
        Meta(
            description="`authors-code`: edges cubed, class scores divided by the number of labels of the class (which "
            "clients then learn), confidences by the client's largest, as the XCLP paper's authors have programmed it; "
            "in training the learning rate is 0.05 with fewer than 20 labels in a batch.",
        ),
    ] = "paper"
    rows: Annotated[
        Literal["unlabeled", "paper"],
        Meta(
            description="Which rows a client gets: those of its unlabeled points, or all as in the paper "
            "(from which it can solve for the others' labels; from the unlabeled ones it can only guess them).",
            extra=_XCLP,
        ),
    ] = "unlabeled"
    fraction_bits: Annotated[
        int, Meta(ge=1, le=52, description="Fixed point of the summing.", extra={**_XCLP, "unit": "bits"})
    ] = 32
    deadline: Annotated[
        Duration,
        Meta(description="Longest wait of the server for answers, in virtual time.", extra=DURATION),
    ] = "60s"
    rounds: Annotated[int, Meta(ge=1, description="How often the protocol runs.", extra=_ONE_SHOT)] = 1


class Network(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[network]: the links between parties."""

    topology: Annotated[
        Literal["star", "mesh"],
        Meta(description="`star`: the server relays between clients; `mesh`: clients have links to each other."),
    ] = "star"
    latency: Annotated[
        str,
        Meta(
            description="One way, each message: `5ms`, `normal:MEAN,DEVIATION`, `lognormal:MEDIAN,SIGMA`, "
            "`uniform:LOW,HIGH` or `csv:FILE` (one delay a line).",
            extra={"unit": "distribution"},
        ),
    ] = "lognormal:40ms,0.3"
    bandwidth: Annotated[str, Meta(description="Each client's, up and down apart; or `unlimited`.", extra=_RATE)] = (
        "20Mbit/s"
    )
    up: Annotated[str | None, Meta(description="Each client's uplink, if not `bandwidth`.", extra=_RATE)] = None
    down: Annotated[str | None, Meta(description="Each client's downlink, if not `bandwidth`.", extra=_RATE)] = None
    server_bandwidth: Annotated[
        str, Meta(description="The server's, up and down apart, shared by all clients.", extra=_RATE)
    ] = "1Gbit/s"
    jitter: Annotated[Duration, Meta(description="Added to each latency, uniform from 0 to this.", extra=DURATION)] = (
        "0ms"
    )
    loss: Annotated[
        float,
        Meta(ge=0, lt=1, description="Chance that a message is lost on a link.", extra={"unit": "probability"}),
    ] = 0.0
    transport: Annotated[
        Literal["reliable", "datagram"],
        Meta(
            description="`reliable`: what a link loses is sent again, copies are removed, the order is kept; "
            "`datagram`: lost is lost, copies are removed, the order may change."
        ),
    ] = "reliable"
    retransmission_timeout: Annotated[
        Duration,
        Meta(
            description="Of the reliable transport: the first wait for an acknowledgement; it doubles up to 60 s.",
            extra=DURATION,
        ),
    ] = "1s"


class Device(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[device]: what the parties compute on."""

    speed: Annotated[
        float,
        Meta(
            gt=0,
            description="A client's core beside the machine of the cost table.",
            extra={"unit": "factor"},
        ),
    ] = 1.0
    cores: Annotated[int, Meta(ge=1, description="Cores of each client.")] = 1
    server_speed: Annotated[
        float, Meta(gt=0, description="The server's core beside the same machine.", extra={"unit": "factor"})
    ] = 1.0
    server_cores: Annotated[int, Meta(ge=1, description="Cores of the server.")] = 4


class Scenario(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A whole scenario. Made in Python it is checked when it is run; `load` checks as it reads."""

    title: Annotated[str, Meta(description="One line that says what happens.")] = ""
    name: Annotated[
        str, Meta(description="What its runs are called; without it, as the file. A run's folder holds it.")
    ] = ""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1, description="Everything random in the run follows from it.")] = 0
    cost: Annotated[
        str,
        Meta(
            description="What computing costs in virtual time: `free`, `modelled` (operations times the cost "
            "table), `measured` (wall time) or `replayed:RUN_DIR`."
        ),
    ] = "modelled"
    engine: Annotated[
        str, Meta(description="Where computing runs: `auto`, `inline` or `pool:N`; never changes the result.")
    ] = "auto"
    entropy: Annotated[
        Literal["seeded", "os"],
        Meta(description="Randomness of the cryptography: replayable, or the operating system's."),
    ] = "seeded"
    fidelity: Annotated[
        Literal["real", "sized"],
        Meta(
            description="`sized`: SecureHamming is not carried out; its messages have the real sizes, its computing "
            "takes the modelled time, and results are those of the plaintext protocol. For many rounds."
        ),
    ] = "real"
    plugins: Annotated[
        tuple[str, ...],
        Meta(
            description="Python files of your own that add what the file names, each in its folder or below; "
            "`FILE#sha256=DIGEST` takes no other content. `--plugin FILE` adds others; `--set` does not.",
            extra={"unit": "file"},
        ),
    ] = ()
    size: Annotated[Literal["", "long"], Meta(description="`long` marks a file that takes minutes.")] = ""
    data: Data = Data()
    protocol: Protocol = Protocol()
    model: Model = Model()
    training: Training = Training()
    public: Public = Public()
    learner: Learner = Learner()
    cotraining: Cotraining = Cotraining()
    byzantine: Byzantine = Byzantine()
    privacy: Privacy = Privacy()
    attack: Attack = Attack()
    network: Network = Network()
    device: Device = Device()
    fault: tuple[Fault, ...] = ()
    expect: Expect = Expect()


def as_table(scenario: Scenario) -> dict[str, object]:
    """The scenario as plain dictionaries with every default filled in, keys that say nothing left out."""

    def strip(value: object) -> object:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if item is not None}
        return [strip(item) for item in value] if isinstance(value, list | tuple) else value

    table = strip(msgspec.to_builtins(scenario, enc_hook=str))
    assert isinstance(table, dict)
    return table
