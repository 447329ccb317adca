"""The keys of a scenario: each with its type, unit, default and the protocols that use it.

The structs are the single source: files are converted into them (`tacit.scenarios.files.reading`), and
`tacit.scenarios.schema.keys` derives the table that `tacit keys` and the docs print. Rules that a type cannot express,
such as k below the number of points, are checked in `tacit.scenarios.files.checks`.

The keys `scale`, [scales.paper] and [table] of a scenario file: many runs that fill in a table of a paper.

They define how the runs of one file differ, so they belong to files and not to the `Scenario` of a run.
`tacit.scenarios.files.table_layout` checks the rules that types cannot express, `tacit.scenarios.sweeping.tables` runs
the table.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from tacit.parties.data.features import FEATURES
from tacit.parties.fleet.energy import PROCESSORS, RADIOS
from tacit.parties.fleet.keys import ClientKeys, HostKeys, LinkKeys
from tacit.protocols.tables import (
    Byzantine,
    Cells,
    Cotraining,
    Learner,
    Model,
    Privacy,
    ProtocolKeys,
    Public,
    SumKeys,
    Training,
)
from tacit.sim.faults import AnyFault, Fault
from tacit.sim.table import Keys, about
from tacit.sim.units import Duration

__all__ = [
    "LISTS", "OWN", "REPEATED", "Attack", "Byzantine", "Cells", "Client", "Column", "Cotraining", "Data", "Device",
    "Expect", "Fault", "Host", "Learner", "Link", "Model", "Network", "Order", "Part", "Privacy", "ProtocolKeys",
    "Public", "Row", "Scale", "Scenario", "ScenarioError", "ScenarioFile", "SumKeys", "Table", "Training", "as_table",
]  # fmt: skip


class Expect(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[expect]: the expectations that make the file a test; only the given keys are compared.

    In addition, every fault without a probability must be applied.
    """

    outcome: Annotated[
        Literal["completed", "aborted", "failed"] | None,
        about("Expected outcome of the run. `failed`: every client is lost, or no client gets labels."),
    ] = None
    reason: Annotated[str | None, about("Text that the reason of the outcome must contain.")] = None
    equals_plaintext: Annotated[
        bool | None, about("`true` requires that every round equals the oracle, which is computed in plain numpy.")
    ] = None
    accuracy_at_least: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        about("Lowest accuracy that the run may have, as in result.json. A run without an accuracy does not meet it."),
    ] = None
    lost: Annotated[
        tuple[str, ...] | None,
        about(
            "Exactly the parties that must be lost, in any round: `client/3`, or with the step, `client/3 at "
            "hamming.evaluate`."
        ),
    ] = None

    lost_at_most: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        about(
            "Largest number of parties that may be lost, in all rounds together. Cannot be combined with `lost`.",
            unit="parties",
        ),
    ] = None
    lost_includes: Annotated[
        tuple[str, ...] | None,
        about(
            "Parties that must be lost, written as in `lost`; others may be lost too. Cannot be combined with `lost`."
        ),
    ] = None

    @property
    def losses(self) -> tuple[tuple[str, str, str], ...]:
        """Key, party and step of each entry in `lost` and `lost_includes`; the step is "" if none is given."""
        return tuple(
            (key, *entry.partition(" at ")[::2])
            for key in ("lost", "lost_includes")
            for entry in getattr(self, key) or ()
        )


# The table [attack]: the attack of a curious server.


class Attack(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[attack]: an attack that infers from the messages which points a client was trained on."""

    kind: Annotated[
        Literal["", "membership"],
        about(
            "`membership`: membership inference with shadow models (Shokri et al. 2017) on the contents of messages. "
            "The contents are then kept in `run.sqlite`, and `vulnerability` is in `result.json`. Half of the "
            "training points then belong to the attacker. Empty: no attack."
        ),
    ] = ""
    epochs: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        about(
            "K: number of last rounds whose models the attack uses (default: 500, or all). With predictions: number "
            "of times that the last round is repeated with the attack's points instead of the public points (default: "
            "1). With secure votes: number of last rounds in which the attack's points are added to the public "
            "points. The defaults are those of the FedCT paper.",
            unit="rounds",
        ),
    ] = None
    points: Annotated[
        int,
        about(
            "Points that the attack asks about: at most this number of each client's training points, and as many "
            "points that no client has.",
            ge=2,
            unit="points",
        ),
    ] = 500
    shadows: Annotated[
        int,
        about(
            "Number of times that the attacker runs the whole scenario with its own data. Each run gives one shadow "
            "model per client.",
            ge=1,
        ),
    ] = 1

    def idle(self) -> Mapping[str, str]:
        needed = 'attack.kind = "membership"'
        return {} if self.kind else {key: needed for key in self.__struct_fields__ if key != "kind"}


class ScenarioError(ValueError):
    """A scenario that cannot be run, as one line: the file, the key, the problem and the allowed values."""

    def __init__(self, where: str, key: str, problem: str) -> None:
        self.where, self.key = (" ".join(text.splitlines()) for text in (where, key))
        self.problem = " ".join(problem.split())
        places = (self.where, "" if self.where in (key, f"--{key}") else self.key, self.problem)
        super().__init__(": ".join(part for part in places if part))


Client, Link, Host = ClientKeys, LinkKeys, HostKeys
"""The tables of the scenario file that set values for single clients, links and hosts."""


class Data(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[data]: the clients' points, and their distribution among the clients."""

    name: Annotated[
        str, about("Name of a data set (see `tacit data list`). Set either this or `path`; the default is digits.")
    ] = ""
    path: Annotated[
        str, about("CSV or NPZ file with your own data; the path is relative to the scenario file.", unit="file")
    ] = ""
    label_column: Annotated[
        str,
        about(
            "Column of `path` with the class. For a task without classes (`training.task`), the columns with the "
            "numbers, or with zeros and ones, with commas between their names."
        ),
    ] = "label"
    client_column: Annotated[
        str, about('Column of `path` that names the client of each row, for `partition = "natural"`.')
    ] = "client"
    features: Annotated[
        str,
        about(
            "Conversion of each point before a run, which takes no virtual time: `identity`, none; "
            + "; ".join(f"`{name}`, {kind.description}" for name, kind in FEATURES.items() if kind)
            + ". The features are cached in the data folder."
        ),
    ] = "identity"
    clients: Annotated[
        int,
        about(
            "Number of clients. With a data set that has its own clients (`natural`), the default is their number.",
            ge=1,
        ),
    ] = 10
    partition: Annotated[
        str,
        about(
            "Split of the points among clients: `iid`; `dirichlet:A` (class shares from Dirichlet(A)); "
            "`dirichlet:A/B` (half of the points with A, half with B); `classes:C` (C classes per client); or "
            "`natural` (the data set's own clients, or the client column of a file)."
        ),
    ] = "iid"
    labeled: Annotated[float, about("Share of each client's points that have a label.", gt=0, le=1)] = 0.1
    labeled_clients: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        about("Number of clients that have labels: the first ones (default: all clients).", unit="clients"),
    ] = None
    labels_per_client: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        about(
            "Number of labels of each client that has labels; replaces `labeled`. With `iid`, the labels are spread "
            "over the classes as evenly as possible; otherwise they follow the client's class proportions.",
            unit="labels",
        ),
    ] = None
    labels_of_classes: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        about(
            "Number of classes that each client has labels of. The classes are assigned as by `classes:C`, whatever "
            "points the client holds. `labeled` is then a share of the client's points of these classes.",
            unit="classes",
        ),
    ] = None
    new: Annotated[
        float,
        about(
            "New points of each client, whose labels are predicted but which are not training data: a share if below "
            "1, otherwise a number. If there are new points, accuracy is measured on them only.",
            ge=0,
            unit="points",
        ),
    ] = 0.0
    without_labels: Annotated[
        tuple[str, ...],
        about('Clients without training data, such as `["client/3"]`. All their points are new points.'),
    ] = ()
    unlabeled: Annotated[
        float,
        about(
            "Share of the unlabeled training points that take part. With 0, all training data is labeled.", ge=0, le=1
        ),
    ] = 1.0
    held_out: Annotated[
        float,
        about(
            "Share of each client's labeled points that it holds out from training, to test models on them "
            "(`training.evaluation`). A client keeps at least one labeled point for training.",
            ge=0,
            lt=1,
        ),
    ] = 0.0
    test: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        about(
            "Number of test points. Tacit draws them with the seed from all rows, including upstream's test part; "
            "clients get the other rows. By default, data sets use upstream's split or the last fifth of the rows, "
            "and files have no test points.",
            unit="points",
        ),
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None, about("Largest number of points to use, for quick runs.", unit="points")
    ] = None


class Network(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[network]: the links between parties."""

    topology: Annotated[
        Literal["star", "mesh"],
        about("`star`: the server relays between clients; `mesh`: clients have links to each other."),
    ] = "star"
    latency: Annotated[
        str,
        about(
            "One-way latency of each message: `5ms`, `normal:MEAN,DEVIATION`, `lognormal:MEDIAN,SIGMA`, "
            "`uniform:LOW,HIGH` or `csv:FILE` (one latency per line, or a column named `latency`). Times need a unit. "
            "Draws of `normal` below 0 are 0, so the mean is above MEAN if DEVIATION is not small beside it.",
            unit="distribution",
        ),
    ] = "lognormal:40ms,0.3"
    bandwidth: Annotated[
        str,
        about("Bandwidth of each client, in each direction; or `unlimited`.", unit="rate"),
    ] = "20Mbit/s"
    up: Annotated[str | None, about("Uplink bandwidth of each client (default: `bandwidth`).", unit="rate")] = None
    down: Annotated[str | None, about("Downlink bandwidth of each client (default: `bandwidth`).", unit="rate")] = None
    server_bandwidth: Annotated[
        str, about("Bandwidth of the server, in each direction, shared by all clients.", unit="rate")
    ] = "1Gbit/s"
    helper_bandwidth: Annotated[
        str | None,
        about("Bandwidth of the helper of `prio3`, in each direction (default: `server_bandwidth`).", unit="rate"),
    ] = None
    jitter: Annotated[
        Duration, about("Random addition to each latency, uniform between 0 and this value.", unit="duration")
    ] = "0ms"
    loss: Annotated[float, about("Probability that a link loses a message.", ge=0, lt=1, unit="probability")] = 0.0
    transport: Annotated[
        Literal["reliable", "datagram", "tcp"],
        about(
            "`reliable`: lost messages are sent again, duplicates are removed, and the order is kept. `datagram`: "
            "lost messages stay lost, duplicates are removed, and the order can change. `tcp`: TCP connections with "
            "TLS, headers, a congestion window and retransmitted segments."
        ),
    ] = "reliable"
    retransmission_timeout: Annotated[
        Duration,
        about(
            "With `reliable`: time before a message without acknowledgement is sent again. It doubles with each "
            "retransmission, up to 60 s.",
            unit="duration",
        ),
    ] = "1s"


class Device(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[device]: the computing power of the parties."""

    speed: Annotated[
        float,
        about(
            "Speed of a client's core relative to the machine of the cost table (0.5: half as fast).",
            gt=0,
            unit="factor",
        ),
    ] = 1.0
    cores: Annotated[int, about("Number of cores of each client.", ge=1)] = 1
    server_speed: Annotated[
        float, about("Speed of the server's core relative to the machine of the cost table.", gt=0, unit="factor")
    ] = 1.0
    server_cores: Annotated[int, about("Number of cores of the server.", ge=1)] = 4
    helper_speed: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        about(
            "Speed of the core of the helper of `prio3` relative to the machine of the cost table (default: "
            "`server_speed`).",
            unit="factor",
        ),
    ] = None
    helper_cores: Annotated[
        Annotated[int, Meta(ge=1)] | None, about("Number of cores of the helper of `prio3` (default: `server_cores`).")
    ] = None
    handling: Annotated[
        Duration,
        about(
            "CPU time per message that a party sends or receives, on a core of speed 1: encoding, TLS, the event loop "
            "and the record. A party handles one message at a time, while its jobs run; both share the cores of its "
            "machine or [[host]]. A message leaves, and is delivered, after it was handled. `tacit bench reality "
            "--only deployed` measures this time.",
            unit="duration",
        ),
    ] = "0s"
    handling_rate: Annotated[
        str,
        about(
            "Bytes of messages that a core of speed 1 handles per second. This time is added to `handling`.",
            unit="rate",
        ),
    ] = "unlimited"
    radio: Annotated[
        str,
        about(
            "The radio of each client, to count its energy; none is counted without. "
            + ", ".join(f"`{name}`" for name in RADIOS)
            + ", `linear:UP,DOWN,BASE` or `linear:UP,DOWN,BASE,TAIL,SECONDS`: mW for each Mbit/s sent and received, mW "
            "while it is active, mW and seconds of its tail. Sources: docs/devices.md."
        ),
    ] = ""
    processor: Annotated[
        Annotated[float, Meta(ge=0)] | str,
        about(
            "The processor of each client, to count its energy; none is counted without. "
            + ", ".join(f"`{name}`" for name in PROCESSORS)
            + ", or the watts of one busy core. Sources: docs/devices.md."
        ),
    ] = ""


class Scenario(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True, weakref=True):
    """A whole scenario. One made in Python is checked when it is run; `load` checks while reading."""

    title: Annotated[str, about("One line that describes the scenario.")] = ""
    name: Annotated[str, about("Name used for run folders (default: the name of the file).")] = ""
    seed: Annotated[int, about("Seed of everything random in the run.", ge=0, le=2**63 - 1)] = 0
    cost: Annotated[
        str,
        about(
            "Virtual time of computations: `free`, `modelled` (number of operations times the cost table), "
            "`modelled:avx512-ifma` (Paillier as on a processor with AVX-512 IFMA), `measured` (wall-clock time) or "
            "`replayed:RUN_DIR` (times measured in that run)."
        ),
    ] = "modelled"
    engine: Annotated[
        str,
        about(
            "Where computations run: `auto`, `inline`, `pool:N`, `ray` or `ray:HOST:PORT`. This never changes the "
            "result."
        ),
    ] = "auto"
    entropy: Annotated[
        Literal["seeded", "os"],
        about(
            "Randomness of keys, masks and noise: `seeded` follows from the seed, so runs are repeatable and "
            "insecure; `os` draws from the operating system."
        ),
    ] = "seeded"
    fidelity: Annotated[
        Literal["real", "sized"],
        about(
            "`sized` skips the cryptography of SecureHamming: messages keep their real sizes, computations keep their "
            "modelled time, and results are those of the plaintext protocol. Use it for many rounds. A run of more "
            "than 20,000 points without training, faults and losses then computes no results at all."
        ),
    ] = "real"
    plugins: Annotated[
        tuple[str, ...],
        about(
            "Python files of your own to load, in the scenario's folder or below. `FILE#sha256=DIGEST` accepts the "
            "file only with this content. `--plugin FILE` loads further files; `--set` cannot change this key.",
            unit="file",
        ),
    ] = ()
    size: Annotated[Literal["", "long"], about("`long` marks a scenario that takes minutes.")] = ""
    data: Data = Data()
    protocol: ProtocolKeys = ProtocolKeys()
    model: Model = Model()
    training: Training = Training()
    sum: SumKeys = SumKeys()
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
    """Return the scenario as plain dictionaries with all defaults filled in, without keys whose value is None."""

    def strip(value: object) -> object:
        if isinstance(value, dict):
            return {key: strip(item) for key, item in value.items() if item is not None}
        return [strip(item) for item in value] if isinstance(value, list | tuple) else value

    table = strip(msgspec.to_builtins(scenario, enc_hook=str))
    assert isinstance(table, dict)
    table["fault"] = [{"kind": fault.kind, **fault.given()} for fault in scenario.fault]
    return table


Overrides = dict[str, Any]
Scale = Literal["small", "paper"]

_SET = 'Keys and values, such as `{ "protocol.k" = 3 }`'


class Part(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys that rows and columns share."""

    label: Annotated[str, about("Text of the row's or column's heading; must be unique.")]
    label_paper: Annotated[str, about('Label at `scale = "paper"`, if the paper has another setting.')] = ""
    group: Annotated[
        str,
        about(
            "Heading over neighbouring rows or columns with the same group. `GROUP: LABEL` then names the row or "
            "column."
        ),
    ] = ""
    group_paper: Annotated[str, about('Group at `scale = "paper"`, if it differs.')] = ""
    only: Annotated[
        Literal["", "small", "paper"], about("Scale that the row or column is limited to (default: both scales).")
    ] = ""
    set: Annotated[Overrides, about(f"{_SET}, which override the file's in the runs of the row or column.")] = {}
    set_paper: Annotated[
        Overrides, about('Further keys and values at `scale = "paper"`; they override those of `set`.')
    ] = {}
    measure: Annotated[
        str,
        about(
            "Figure to show: a field of a run's result.json, with dots for nested fields, such as `accuracy`, "
            "`accuracy_selected`, `baselines.NAME`, `output.0` or `bytes_total`. Set it in rows or in columns "
            "(default: `accuracy`)."
        ),
    ] = ""
    unit: Annotated[
        Literal["", "%", "1", "B", "s"],
        about(
            "Unit of the figure: `%` (times 100, with two digits), `1` (unchanged), `B` (bytes) or `s` (a duration). "
            "Set it where `measure` is set (default: `%`)."
        ),
    ] = ""


class Column(Part, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[table.column]]: a column of the table."""


class Row(Part, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[table.row]]: a row of the table."""

    paper: Annotated[
        tuple[str, ...], about('Figures of the paper as printed there, one per column; `""` if there is none.')
    ] = ()


class Order(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[table.order]]: a claim of the paper, checked on each table: one mean is larger than another."""

    above: Annotated[str, about("Label of a column that must be higher in every row; or of a row, in every column.")]
    below: Annotated[str, about("Label of the column or row that must be lower.")]
    within: Annotated[tuple[str, ...], about("Labels of the rows (or columns) to compare (default: all).")] = ()


class Table(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[table]: the runs that `tacit sweep` makes and prints for a file with this table."""

    title: Annotated[str, about("Heading of the table (default: the file's title).")] = ""
    source: Annotated[str, about("Source of the layout and of the paper's figures.")] = ""
    paper_data: Annotated[
        str,
        about(
            "Data set of the paper's figures, such as `FEMNIST`, if `scale = \"small\"` uses another one. The paper's "
            "figures then have rows of their own."
        ),
    ] = ""
    seeds: Annotated[
        int, about("Number of runs per cell, with the file's seed and the seeds after it.", ge=1, unit="runs")
    ] = 3
    row: tuple[Row, ...] = ()
    column: tuple[Column, ...] = ()
    order: tuple[Order, ...] = ()


class Scales(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[scales]: other sizes of the same file."""

    paper: Annotated[Overrides, about(f"{_SET}, that `--set scale=paper` sets, before any other `--set`.")] = {}


class ScenarioFile(Scenario, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """All keys of a scenario file."""

    scale: Annotated[
        Scale, about("`small`: the file as written; `paper`: with the values in [scales.paper], the paper's setting.")
    ] = "small"
    scales: Scales = Scales()
    table: Table = Table()


OWN = ("scale", "scales", "table")
"""The keys of a file that do not belong to a scenario."""

REPEATED: dict[str, type[Struct]] = {"client": Client, "link": Link, "host": Host}
"""The tables that a file may repeat, beside `fault`, with the struct of each."""

LISTS = ("fault", *REPEATED)
"""The tables that a file may repeat."""
