"""The declaration of Flower apps as a protocol. It does not import Flower."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from tacit.parties.learning.extras import MissingExtra, require
from tacit.protocols.auditing.findings import Audit, Watch
from tacit.protocols.auditing.sums import Rule
from tacit.protocols.declaration import Declaration, Needs, Opened, by_name
from tacit.protocols.experiment.experiment import Dealt, Setting
from tacit.protocols.flower import flower
from tacit.protocols.flower.apps import code_of, read_app
from tacit.protocols.flower.auditing import audit_app
from tacit.protocols.flower.exchanges import STAGES, STEPS
from tacit.protocols.flower.flower import FlowerClient, FlowerServer, Nodes
from tacit.protocols.flower.keys import FlowerKeys, FlowerTables
from tacit.protocols.flower.observer import FlowerObserver
from tacit.protocols.parts import Part, messages_in
from tacit.protocols.promises import Affected, Perform, Promise, Trial
from tacit.sim.setting_error import Problem
from tacit.sim.units import duration

__all__ = ["DECLARATIONS", "HIGHEST", "LOWEST", "FlowerApp", "check_version"]


# Promises of a Flower app under any faults; what its own code makes of lost replies is the app's.


def ends_early_only_for_loss(trial: Trial, affected: Affected) -> Iterator[str]:
    """The server app ends by itself unless faults affected the server or a client."""
    if trial.outcome != "completed" and not affected.clients and "server" not in affected:
        yield f"{trial.outcome} ({trial.reason}), and nobody was affected"


def only_what_arrived_is_used(trial: Trial, affected: Affected) -> Iterator[str]:
    """The app is given only replies that arrived, and none of a dead client."""
    arrived = Counter[str]()
    for event in trial.events:
        if event.kind == "deliver" and event.type == "AppReply" and event.peer == "server":
            arrived[event.party] += 1
    used = Counter(name for one in trial.simulation.server.exchanges for name in one.answered if one.ended is not None)
    for name, count in used.items():
        if count > arrived[name]:
            yield f"the app was given {count} replies of {name}, of which {arrived[name]} had arrived"


def rounds_are_reported(trial: Trial, affected: Affected) -> Iterator[str]:
    """Each round that ended is reported, once, and each client that counts in it was asked."""
    assert trial.simulated is not None
    numbers = [one.round for one in trial.simulated.round_records]
    ended = [one.number for one in trial.records]
    if numbers[: len(ended)] != ended or len(set(numbers)) != len(numbers):
        yield f"rounds {ended} ended, and {numbers} are reported"
    for record in trial.records:
        if strange := set(record.counted) - set(record.cohort):
            yield f"{', '.join(sorted(strange))} counts in round {record.number}, and was not asked"


def who_is_well_is_heard(trial: Trial, affected: Affected) -> Iterator[str]:
    """The app is given a reply from each unaffected client that it sends a message to, unless the server went down."""
    if "server" in affected:
        return
    for one in trial.simulation.server.exchanges:
        missing = [name for name in one.asked if name not in one.answered and name not in affected]
        if one.ended is not None and missing:
            yield f"{one.step} of round {one.round} goes on without {', '.join(missing)}"


PROMISES = {
    "only losses end an app early": Promise(ends_early_only_for_loss, True),
    "only replies that arrived are used": Promise(only_what_arrived_is_used),
    "every round is reported": Promise(rounds_are_reported, True),
    "clients without faults are heard": Promise(who_is_well_is_heard),
}


LOWEST, HIGHEST = (1, 38), (1, 42)
"""The oldest version of flwr that Tacit runs, and the newest tested one."""

PATIENCE = 100
"""The number of time-outs after which a node that waits for a message assumes that the server is lost."""


def check_version() -> None:
    """Raise Problem if flwr is not installed, or is older than `LOWEST`."""
    try:
        require("flwr", "flower", "a Flower app")
    except MissingExtra as missing:
        raise Problem("protocol.name", str(missing)) from None
    found, numbers = _installed()
    if numbers < LOWEST:
        problem = f"flwr {found} is installed, which is too old; allowed: {_text(LOWEST)} or newer"
        raise Problem("protocol.name", problem)


def _installed() -> tuple[str, tuple[int, ...]]:
    """The version of the installed flwr, as its text and as its first two numbers."""
    found = metadata.version("flwr")
    return found, tuple(int(part) for part in found.split(".")[:2] if part.isdigit())


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _seconds(keys: FlowerKeys) -> tuple[float, ...]:
    """The seconds that a client takes in each stage."""
    training = dict.fromkeys(("flower.train", "flower.collect_masked_vectors"), keys.train_time)
    by_stage = {**training, "flower.evaluate": keys.evaluate_time}
    return tuple(duration(by_stage.get(stage, keys.query_time)) for stage in STAGES)


class Stages(Part):
    """The stages of an app, with the messages of each."""

    takes = STEPS
    messages = messages_in(flower)
    learned: Mapping[str, str] = {
        "server": "the contents of the app's replies: with FedAvg, each client's model; with SecAgg+, only their sum, "
        "if clients and server follow the protocol and enough shares are held",
        "client": "the messages that the server app sends to it",
    }

    def waits(self, tables: FlowerTables) -> int:
        keys = tables.protocol
        return math.ceil(PATIENCE * duration(keys.timeout) / duration(keys.deadline)) + 1

    def promises(self, tables: FlowerTables) -> Mapping[str, Promise]:
        return PROMISES


class FlowerApp(Declaration):
    """The declaration of a Flower app: its server app at the server, its client app at each client."""

    name = "flower"
    summary = "an app written for Flower, unchanged"
    papers = ("Beutel et al., Flower: a friendly federated learning research framework, 2020",)
    keys = FlowerKeys
    parts = (Stages(),)
    needs = Needs(points=False)
    server_returns = True

    def check_tables(self, tables: FlowerTables) -> None:
        """Raise Problem if the app does not exist or lacks a setting, and without flwr."""
        keys = tables.protocol
        read_app(keys.app, keys.run_config)
        for name in ("train_time", "evaluate_time", "query_time", "join", "timeout"):
            try:
                duration(getattr(keys, name))
            except ValueError as error:
                raise Problem(f"protocol.{name}", str(error)) from None
        check_version()

    def rounds(self, tables: FlowerTables) -> int:
        """The number of rounds in the settings of the app."""
        return read_app(tables.protocol.app, tables.protocol.run_config).rounds

    def code(self, tables: FlowerTables) -> Mapping[str, tuple[str, Mapping[str, Path]]]:
        """The code of the app."""
        return {"app": code_of(tables.protocol.app)}

    def cautions(self, tables: FlowerTables, dealt: Callable[[], Dealt]) -> list[str]:
        """A line for a version of flwr that is newer than those tested."""
        found, numbers = _installed()
        if numbers <= HIGHEST:
            return []
        return [f"flwr {found} is newer than {_text(HIGHEST)}, the newest version that Tacit is tested with"]

    def audit(
        self, tables: FlowerTables, perform: Perform, *, mod: str | None, rule: Rule | None, at_once: int, watch: Watch
    ) -> Audit:
        """Audit the app, with its secure mod and without it."""
        return audit_app(tables, perform, mod=mod, rule=rule, at_once=at_once, watch=watch)

    def opened(self, path: str) -> Opened:
        app = read_app(path)
        return Opened(app.name, app.nodes, FlowerKeys(name=self.name, app=str(Path(path).absolute())))

    def build(self, setting: Setting) -> "FlowerRun":
        return FlowerRun(setting)


class FlowerRun:
    """The parties of a run of an app, and their observer. The app is imported again for each run."""

    def __init__(self, setting: Setting) -> None:
        from tacit.protocols.flower import adapter

        keys, world = setting.keys, setting.world
        app = read_app(keys.app, keys.run_config)
        self.rounds = app.rounds
        adapter.load(app, again=True)
        timeout = duration(keys.timeout)
        nodes = Nodes(
            app=app,
            numbers=Nodes.numbers_of(world.seed, setting.shards),
            seconds=_seconds(keys),
            join=duration(keys.join),
            timeout=timeout,
            patience=PATIENCE * timeout,
        )
        self.clients: Sequence[FlowerClient] = setting.clients(FlowerClient, nodes)
        self.server = FlowerServer(world, tuple(setting.shards), nodes, **setting.access("server"))
        self.observer = FlowerObserver(world, self.clients, self.server, setting.faults)

    def plan(self) -> None:
        """Announce nothing: the work of an app is unknown in advance."""


DECLARATIONS = by_name(FlowerApp())
