"""The result of a run, in the form of ``result.json``."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from tacit.parties.fleet.energy import Energy
from tacit.protocols.experiment.simulated import ACCURACY, ResultFields, Strike
from tacit.sim.units import format_bytes, format_duration

if TYPE_CHECKING:
    from tacit.parties.learning.backend import nn

__all__ = ["PluginFile", "Result", "Vulnerability", "data_frame", "draw_results"]

MODEL = "model.npz"
"""The name of the file with the models of a run."""


_NAMED = 4
"""The most parties that a line names."""

_draw: list[Callable[["Result"], str]] = []
"""The function that makes HTML of a result, if one was passed to `draw_results`."""


def draw_results(draw: Callable[["Result"], str]) -> None:
    """Make notebooks show each result as the HTML that `draw` returns.

    Drawing reads the record of a run, which this module must not import. Therefore the function is passed in.
    """
    _draw[:] = [draw]


class Vulnerability(Struct, frozen=True, kw_only=True):
    """The success of an attack in distinguishing members of a client's training data.

    `auc`, the vulnerability, is the mean over the `clients` of the area under the ROC curve of each one's membership
    scores, in [0, 1]: 0.5 is guessing. `attack` is the attack's name and `signal` its input: labels, probabilities,
    parameters or counts, from `messages` recorded messages of the types `types`, in `epochs` rounds (K, the attack
    epochs). `members` counts the points of each client that were asked about, and `nonmembers` the points asked
    about that no client has, the same for all clients. `shadow_models` is the number of models the attacker trained.
    """

    attack: str
    signal: str
    types: tuple[str, ...]
    auc: float
    clients: dict[str, float]
    epochs: int
    messages: int
    members: dict[str, int]
    nonmembers: int
    shadow_models: int


class PluginFile(Struct, frozen=True):
    """A plugin of a run: the path of its copy in the run's folder, or of its file, and the SHA-256 of its content."""

    file: str
    sha256: str


class Result(ResultFields, kw_only=True):
    """The result of a run; all fields but `folder` and `error` are in ``result.json``.

    `outcome` is completed, aborted (the server was lost, or too few clients were left), failed (an error, or every
    client was lost) or interrupted (Ctrl-C); `reason` explains it. `ended_by` has the facts of the reason, None without
    one: its `kind` is the sentence with named places, and `values` has the numbers, texts and names at these places, or
    the reason behind it, again with kind and values. `unmet` has one line for each expectation of the scenario that was
    not met, and `unmet_keys` the key of each; it is "" for equality with the oracle, unless the scenario expects that.
    The measured results are the fields of `ResultFields`. `faults` are those that were applied. `resumed`: the rounds
    after which an interrupted run was resumed; 0 if it began again.

    Times are in seconds. `client_seconds`: virtual seconds of one core that all clients compute together; of a deployed
    run the seconds of processor time that their jobs took, or None if its records lack them. `peak_memory`: the most
    bytes that the process had held when the run ended, including earlier work of the process; workers report their own.
    `message_count` (in the file ``messages``) and the bytes count both hops of a relayed message, and all copies:
    `sent_again` of them are retransmissions, and `messages_lost` counts lost ones by reason. `segments_sent_again`
    counts the segments that TCP sent again because a link lost them, and `segment_bytes_sent_again` their bytes with
    headers; they are in none of the other counts. `vulnerability` is None unless the scenario has an [attack].

    `formula`: payload by message type by the protocol's formula, if the run completed and nobody was lost; None for a
    type whose number of messages depends on the run. `energy`: joules of the clients, by class and, for up to 200
    clients, of each; None if the scenario counts none.

    With more than 200 clients, `lost`, `faults`, `endings` and the losses in rounds cover only clients that were called
    to a round; the record has all clients. `plugins`: files of the user's own code, copied into the run's folder.
    `inputs`: the SHA-256 of each file or folder that the scenario names, such as ``data.path``, by its key; code that
    was copied is left out.
    """

    scenario: str
    title: str
    seed: int
    version: str
    fidelity: str
    entropy: str
    engine: str
    outcome: str
    reason: str
    ended_by: dict[str, Any] | None = None
    unmet: list[str]
    unmet_keys: list[str] = msgspec.field(default_factory=list)
    faults: list[Strike]
    virtual_seconds: float
    wall_seconds: float
    client_seconds: float | None = None
    peak_memory: int = 0
    resumed: list[int] = msgspec.field(default_factory=list)
    message_count: int = msgspec.field(name="messages")
    bytes_total: int
    bytes_payload: int
    bytes_sealing: int
    bytes_envelope: int
    sent_again: int = 0
    segments_sent_again: int = 0
    segment_bytes_sent_again: int = 0
    messages_lost: dict[str, int] = msgspec.field(default_factory=dict)
    trace_hash: str
    shape_hash: str
    formula: dict[str, int | None] | None = None
    energy: Energy | None = None
    vulnerability: Vulnerability | None = None
    warnings: list[str]
    plugins: list[PluginFile] = msgspec.field(default_factory=list)
    inputs: dict[str, str] = msgspec.field(default_factory=dict)
    environment: dict[str, Any]
    folder: Path = Path()
    error: BaseException | None = None

    def __repr__(self) -> str:
        """One line: the run, its outcome, its costs, the lost parties, and the folder."""
        lost = list(dict.fromkeys(loss.party for loss in self.lost))
        parts = (
            f"{self.scenario}, seed {self.seed}: {self.outcome}",
            "" if self.scored is None else f"{self.score} {self.scored:.4f}",
            format_bytes(self.bytes_total),
            f"virtual {format_duration(self.virtual_seconds)}",
            f"{len(lost)} lost ({', '.join(lost[:_NAMED])}{', ...' * (len(lost) > _NAMED)})" if lost else "",
            f"{len(self.unmet)} not as expected" if self.unmet else "",
        )
        return f"<Result of {', '.join(filter(None, parts))}; {self.folder}>"

    def _repr_html_(self) -> str | None:
        """The HTML for a notebook: verdict, bytes and a small timeline; None if the notebook should show the text
        instead."""
        return _draw[0](self) if _draw else None

    def frame(self, name: str) -> Any:
        """Return a view of the run's record as a pandas DataFrame.

        `name` is a view of ``run.sqlite``: events, messages, hops, rounds, steps, waits, computing, faults, losses,
        metrics, notices, refusals or outcomes. The page on the record in the documentation describes their columns.
        Raises ValueError for another name, ImportError without pandas, and sqlite3.Error for an unreadable record.
        """
        pandas = _pandas()
        path = self.folder / "run.sqlite"
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            views = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")
            known = {"events", *(view for (view,) in views)}
            if name not in known:
                raise ValueError(f"name is {name!r}; allowed: {', '.join(sorted(known))}")
            found = connection.execute(f"SELECT * FROM {name}")
            return pandas.DataFrame(found.fetchall(), columns=[column for column, *_ in found.description])

    @property
    def rounds_lost(self) -> int:
        """The number of recorded rounds that were lost: that ended without a result."""
        return sum(bool(getattr(one, "problem", "")) for one in self.round_records)

    def messages(self) -> Any:
        """One row for each message, from its sender to its receiver, as a pandas DataFrame. Raises the errors of
        `frame`."""
        return self.frame("messages")

    def rounds(self) -> Any:
        """One row for each round, with its metrics, cohort, bytes and virtual time, as a pandas DataFrame.

        The columns are those of ``rounds.csv``. See `frame` for errors.
        """
        found, measured = self.frame("rounds"), self.frame("metrics")
        measured = measured[(measured.party == "server") & (measured["round"] > 0) & (measured.name != ACCURACY)]
        found = found.join(measured.pivot_table("value", "round", "name"), on="round", rsuffix=" (measured)")
        return found if self.score == ACCURACY else found.drop(columns=ACCURACY)

    def steps(self) -> Any:
        """One row for each step that a party took, as a pandas DataFrame. See `frame` for errors."""
        return self.frame("steps")

    def events(self) -> Any:
        """One row for each event of the trace, as a pandas DataFrame. See `frame` for errors; `tacit.events` describes
        events."""
        return self.frame("events")

    def model(self, *, selected: bool = False) -> "nn.Module":
        """The network of a training run as a torch module in evaluation mode, with the weights of the last model.

        `selected`: those of the best round by held-out points instead. Each call builds a new module. The plugins of
        the run are imported, as they were for the run. Raises ScenarioError for a run without such a model.
        """
        trained = import_module("tacit.scenarios.files.trained")  # which imports this module
        network: nn.Module = trained.trained_network(self.folder, selected=selected)
        return network

    def record(self) -> dict[str, Any]:
        """The content of ``result.json``: the run and its outcome, its results, and the rest."""
        found = ResultFields.__struct_encode_fields__
        names = dict(zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True))
        own = [name for name in names if name not in (*found, "folder", "error")]
        first = own.index("faults")
        return {name: msgspec.to_builtins(getattr(self, names[name])) for name in (*own[:first], *found, *own[first:])}


def data_frame(lines: Iterable[Mapping[str, Any]]) -> Any:
    """Convert `lines` to a pandas DataFrame, with a column for each key. Raises ImportError without pandas."""
    return _pandas().DataFrame(list(lines))


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("a DataFrame needs pandas: pip install pandas") from None
    return pandas
