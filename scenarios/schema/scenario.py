"""The keys of a scenario: each with its type, unit, default and the protocols that use it.

The structs are the single source: files are converted into them (`tacit.scenarios.files.reading`), and
`tacit.scenarios.schema.keys` makes the table that `tacit keys` and the docs print. What a type cannot hold (k below the
number of points) is checked in `tacit.scenarios.files.checks`.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tacit.parties.data.features import FEATURES
from tacit.parties.fleet.energy import PROCESSORS, RADIOS
from tacit.parties.fleet.keys import ClientKeys, HostKeys, LinkKeys
from tacit.protocols.cells.keys import Cells
from tacit.protocols.cotraining.keys import Byzantine, Cotraining, Learner, Public
from tacit.protocols.federated.keys import Model, Training
from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.xclp.keys import ProtocolKeys
from tacit.scenarios.schema.expect import Expect
from tacit.sim.faults import AnyFault, Fault
from tacit.sim.table import Keys
from tacit.sim.units import DURATION, Duration

__all__ = [
    "Attack",
    "Byzantine",
    "Cells",
    "Client",
    "Cotraining",
    "Data",
    "Device",
    "Expect",
    "Fault",
    "Host",
    "Learner",
    "Link",
    "Model",
    "Network",
    "Privacy",
    "ProtocolKeys",
    "Public",
    "Scenario",
    "ScenarioError",
    "Training",
    "as_table",
]


# The table [attack]: what a curious server is after.


class Attack(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[attack]: whether the messages show which points a client was trained on."""

    kind: Annotated[
        Literal["", "membership"],
        Meta(
            description="`membership`: inference of membership with shadow models (Shokri et al. 2017) from the "
            "messages, whose contents are then kept in `run.sqlite`, and `vulnerability` in `result.json`. Half of the "
            "training points are then the attacker's own. Empty: none, and no contents are kept.",
        ),
    ] = ""
    epochs: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="K: the number of last rounds whose models are used; with predictions, how often the last "
            "round is opened again, with the points asked about in place of the public ones; with secure votes the "
            "number of last rounds in which these points are beside them. Without it, as in the "
            "FedCT paper, 500 (or all) for models, of which each is kept, and 1 for predictions.",
            extra={"unit": "rounds"},
        ),
    ] = None
    points: Annotated[
        int,
        Meta(
            ge=2,
            description="Points asked about: at most this number of each client's training data, and as many that "
            "nobody has.",
            extra={"unit": "points"},
        ),
    ] = 500
    shadows: Annotated[
        int,
        Meta(
            ge=1,
            description="How often the attacker runs the whole scenario with data of its own; each time gives as many "
            "shadow models as there are clients.",
        ),
    ] = 1


class ScenarioError(ValueError):
    """A scenario that cannot be run, in one line: where it stands, which key, what is wrong and allowed."""

    def __init__(self, where: str, key: str, problem: str) -> None:
        self.where, self.key = (" ".join(text.splitlines()) for text in (where, key))
        self.problem = " ".join(problem.split())
        places = (self.where, "" if self.where in (key, f"--{key}") else self.key, self.problem)
        super().__init__(": ".join(part for part in places if part))


_RATE = {"unit": "rate"}

Client, Link, Host = ClientKeys, LinkKeys, HostKeys
"""The tables that say what differs from party to party."""


class Data(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
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
            description="Conversion of each point before a run, at no virtual cost: `identity`, nothing; "
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
        Meta(description="How many clients have labels, the first ones; without it, all.", extra={"unit": "clients"}),
    ] = None
    labels_per_client: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="So many labels for each client that has any, in place of `labeled`: with `iid` as even over "
            "the classes as can be, else in proportion to the client's classes.",
            extra={"unit": "labels"},
        ),
    ] = None
    labels_of_classes: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Labels are of that number of classes only at each client, dealt as `classes:C` deals classes, "
            "whatever points it holds; `labeled` is then a share of its points of these classes.",
            extra={"unit": "classes"},
        ),
    ] = None
    new: Annotated[
        float,
        Meta(
            ge=0,
            description="Points of each client that are no training data but new, to be predicted: below 1 a share, "
            "else their number. If there are any, accuracy is measured on the new points alone.",
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
        Meta(description="The most points that are used, for a quick look.", extra={"unit": "points"}),
    ] = None


class Network(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
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
        Literal["reliable", "datagram", "tcp"],
        Meta(
            description="`reliable`: what a link loses is sent again, copies are removed, the order is kept; "
            "`datagram`: lost is lost, copies are removed, the order may change; `tcp`: connections with TLS, headers, "
            "windows that grow by round trips, segments sent again."
        ),
    ] = "reliable"
    retransmission_timeout: Annotated[
        Duration,
        Meta(
            description="The first wait of the reliable transport for an acknowledgement; it doubles up to 60 s.",
            extra=DURATION,
        ),
    ] = "1s"


class Device(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
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
    handling: Annotated[
        Duration,
        Meta(
            description="CPU time that a core of speed 1 takes for each message that a party sends or receives, "
            "outside of jobs: encoding, TLS, the event loop, the record. A party handles one message after the other, "
            "beside its jobs, with which it takes turns on the cores of its machine or [[host]]; a message leaves, and "
            "is delivered, once it is handled. `tacit bench reality --only deployed` measures it.",
            extra=DURATION,
        ),
    ] = "0s"
    handling_rate: Annotated[
        str,
        Meta(
            description="The bytes of messages that such a core handles a second, which adds to `handling`.",
            extra={"unit": "rate"},
        ),
    ] = "unlimited"
    radio: Annotated[
        str,
        Meta(
            description="The radio of each client, to count its energy; none is counted without. "
            + ", ".join(f"`{name}`" for name in RADIOS)
            + ", `linear:UP,DOWN,BASE` or `linear:UP,DOWN,BASE,TAIL,SECONDS`: mW for each Mbit/s sent and received, mW "
            "while it is active, mW for so many seconds after. Sources: docs/devices.md."
        ),
    ] = ""
    processor: Annotated[
        Annotated[float, Meta(ge=0)] | str,
        Meta(
            description="The processor of each client, to count its energy; none is counted without. "
            + ", ".join(f"`{name}`" for name in PROCESSORS)
            + ", or the watts of one busy core. Sources: docs/devices.md."
        ),
    ] = ""


class Scenario(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True, weakref=True):
    """A whole scenario. Made in Python it is checked when it is run; `load` checks as it reads."""

    title: Annotated[str, Meta(description="One line that says what happens.")] = ""
    name: Annotated[
        str, Meta(description="Name of its runs; without it, that of the file. A run's folder holds it.")
    ] = ""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1, description="Everything random in the run follows from it.")] = 0
    cost: Annotated[
        str,
        Meta(
            description="Cost of computing in virtual time: `free`, `modelled` (operations times the cost "
            "table), `modelled:avx512-ifma` (Paillier as on a processor with AVX-512 IFMA), `measured` (wall time) or "
            "`replayed:RUN_DIR`."
        ),
    ] = "modelled"
    engine: Annotated[
        str,
        Meta(
            description="Where computing runs: `auto`, `inline`, `pool:N`, `ray` or `ray:HOST:PORT`; never changes "
            "the result."
        ),
    ] = "auto"
    entropy: Annotated[
        Literal["seeded", "os"],
        Meta(description="Randomness of the cryptography: replayable, or the operating system's."),
    ] = "seeded"
    fidelity: Annotated[
        Literal["real", "sized"],
        Meta(
            description="`sized`: SecureHamming is not carried out; its messages have the real sizes, its computing "
            "takes the modelled time, and results are those of the plaintext protocol. For many rounds. A calm run of "
            "more than 20,000 points that trains nothing computes nothing else, and has no results."
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
    protocol: ProtocolKeys = ProtocolKeys()
    model: Model = Model()
    training: Training = Training()
    public: Public = Public()
    learner: Learner = Learner()
    cotraining: Cotraining = Cotraining()
    byzantine: Byzantine = Byzantine()
    privacy: Privacy = Privacy()
    cells: Cells = Cells()
    attack: Attack = Attack()
    network: Network = Network()
    device: Device = Device()
    client: tuple[ClientKeys, ...] = ()
    link: tuple[LinkKeys, ...] = ()
    host: tuple[HostKeys, ...] = ()
    fault: tuple[AnyFault, ...] = ()
    expect: Expect = Expect()


def as_table(scenario: Scenario) -> dict[str, object]:
    """The scenario as plain dictionaries with every default filled in, keys that say nothing left out."""

    def strip(value: object) -> object:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if item is not None}
        return [strip(item) for item in value] if isinstance(value, list | tuple) else value

    table = strip(msgspec.to_builtins(scenario, enc_hook=str))
    assert isinstance(table, dict)
    table["fault"] = [{"kind": fault.kind, **fault.given()} for fault in scenario.fault]
    return table
