"""The adapter to the package `flwr`: its messages as bytes, its apps as functions, its grid on Tacit's network.

Only this module, imported when a run begins, and `tacit.protocols.flower.recording` import flwr.
`tacit.protocols.flower.declaration` has the lowest and the highest tested version; code for differences between
versions belongs here. flwr: Beutel et al., Flower: a friendly federated learning research framework, 2020.
"""

import gc
import hashlib
import importlib
import logging
import reprlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tacit.protocols.flower.apps import App, in_app, place_in_app
from tacit.protocols.flower.exchanges import STAGES
from tacit.protocols.flower.stand_ins import EPOCH, JOB, VIRTUAL, stand_ins
from tacit.protocols.flower.threads import Exited, exit_of, in_world
from tacit.sim.seeding import drawing_from, seeded, states

try:
    from flwr import serverapp
    from flwr.app import Context, Message, RecordDict
    from flwr.app.error import Error
    from flwr.clientapp import ClientApp
    from flwr.common.constant import ErrorCode
    from flwr.common.serde import context_from_proto, context_to_proto, message_from_proto, message_to_proto
    from flwr.proto.message_pb2 import Context as ProtoContext
    from flwr.proto.message_pb2 import Message as ProtoMessage
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import Strategy
    from flwr.supercore import date
    from flwr.supercore.run import Run
    from flwr.supercore.task_identity import TaskIdentity
except ImportError as error:
    raise ImportError(f"flwr has not what Tacit takes of it: {error}") from error

__all__ = [
    "SERVER",
    "Answer",
    "Outgoing",
    "Reply",
    "Watcher",
    "World",
    "answer",
    "first_context",
    "identified",
    "load",
    "round_of",
    "serve",
    "watchers",
    "weight_of",
]

RUN = 1
SERVER = 1
"""The number of the run, and of the server among the nodes, as in Flower."""

_SERVER = str(Path(str(serverapp.__file__)).parents[1] / "server")
"""The folder of Flower's code for apps of the older API, which starts threads."""

_LARGE = 1 << 20
"""The bytes sent at once from which on replies of the round before are garbage-collected.

Flower's records form reference cycles, few of which hold many bytes, so Python would keep them for many rounds.
"""

_RECORD, _STAGE = "secaggplus_configs", "stage"
_NAMES = tuple(STAGES)


class Outgoing(NamedTuple):
    """A message to a node, as bytes: its `number` in the run, the node, its stage, its round, and its lifetime in
    seconds.

    The round is 0 if the message does not contain it.
    """

    number: int
    node: int
    stage: int
    round: int
    seconds: float
    body: bytes


class Reply(NamedTuple):
    """The known facts of a reply: the node, the error ("" if none), and its numbers, with their weight."""

    node: int
    error: str
    figures: Mapping[str, float]
    weight: float


class Answer(NamedTuple):
    """A client's reply, and its node's context after it, as bytes; the failure of the app, "" if none; seconds
    `slept`."""

    body: bytes
    context: bytes
    failed: str
    slept: float


class World(Protocol):
    """The interface of the grid to the world; all but `clock` are called, and awaited, in the loop's thread.

    `pull` returns no bytes for a message whose reply is no longer waited for.
    """

    def clock(self) -> float: ...
    async def nodes(self) -> list[int]: ...
    async def push(self, messages: list[Outgoing]) -> None: ...
    async def pull(self, numbers: list[int]) -> dict[int, bytes]: ...
    async def exchange(self, messages: list[Outgoing], timeout: float | None) -> dict[int, bytes]: ...
    def note(self, replies: list[Reply], stage: int) -> None: ...


class Watcher(Protocol):
    """Sees all traffic of a server app's grid: the messages of each call that sends some, and its return value."""

    def sent(self, messages: Sequence[Message]) -> None: ...
    def received(self, messages: Sequence[Message]) -> None: ...


watchers: list[Watcher] = []
"""The watchers of the grids in this process; empty except during an audit (`tacit.protocols.flower.recording`)."""


# Apps


def load(app: App, *, again: bool = False) -> tuple[Any, Any]:
    """The app's ServerApp and ClientApp, imported once in a process, or `again`.

    Raises ImportError if they are missing, and any error of the app's modules.
    """
    if again:
        _loaded.cache_clear()
    return _loaded(app)


_folder = [""]
"""The folder of the last imported app, which is on Python's path."""


@cache
def _loaded(app: App) -> tuple[Any, Any]:
    earlier, _folder[0] = _folder[0], app.folder
    if earlier in sys.path:
        sys.path.remove(earlier)
    for name, module in list(sys.modules.items()):  # another app's may have the same names
        file = getattr(module, "__file__", None) or ""
        if earlier and name != "__main__" and "site-packages" not in file and Path(file).is_relative_to(earlier):
            del sys.modules[name]
    sys.path.insert(0, app.folder)
    importlib.invalidate_caches()
    # What a module takes of `time` by its name is virtual, and what it draws as it is imported is the same every time.
    with stand_ins(app.folder, _SERVER), _drawing(app.name.encode()):
        found = _found(app.server, ServerApp), _found(app.client, ClientApp)
    _let_time_be_virtual()
    return found


def _found(reference: str, kind: type) -> Any:
    name, _, attribute = reference.partition(":")
    module = importlib.import_module(name)
    if attribute:
        value = getattr(module, attribute, None)
        if isinstance(value, kind):
            return value
        raise ImportError(f"{reference} is no {kind.__name__}")
    values = [value for value in vars(module).values() if isinstance(value, kind)]
    if len(values) != 1:
        raise ImportError(f"{module.__file__} has {len(values)} of {kind.__name__}; needed: one")
    return values[0]


# Time

_now = date.now


def _virtual_now() -> datetime:
    """The replacement of Flower's ``now()``: virtual time in an app, real time otherwise."""
    seconds = JOB.now()
    return _now() if seconds is None else datetime.fromtimestamp(EPOCH + seconds, tz=UTC)


def _let_time_be_virtual() -> None:
    """Replace time functions in all modules of Flower that have imported them by name."""
    instead: dict[Any, Any] = {_now: _virtual_now, **VIRTUAL}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "flwr":
            for key, value in list(vars(module).items()):
                if callable(value) and getattr(value, "__hash__", None) and isinstance(value, _FUNCTIONS):
                    setattr(module, key, instead.get(value, value))


_FUNCTIONS = (type(_now), type(id))


@contextmanager
def _drawing(seed: bytes) -> Iterator[None]:
    """Inside this context an app's code draws from generators seeded by the first 8 bytes of `seed`."""
    with drawing_from(states()), seeded(int.from_bytes(seed[:8])):
        yield


@contextmanager
def identified(node: int) -> Iterator[None]:
    """Inside this context messages are made in the name of `node`, and Flower logs nothing."""
    before = TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, node, 1
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.ERROR + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
        TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id = before


# The client's side: jobs, which any worker can run


def first_context(app: App, node: int, partition: int, partitions: int) -> bytes:
    """The initial context of a node, as bytes."""
    config: dict[str, Any] = {"partition-id": partition, "num-partitions": partitions}
    return _context_bytes(Context(RUN, node, config, RecordDict(), dict(app.config)))


def answer(app: App, message: bytes, context: bytes, seed: bytes, moment: float) -> Answer:
    """The client app's reply to `message`.

    `moment`: the virtual time at which it begins. An app that raises replies with an error, as in Flower, and so does
    one that ends its process or returns no message.
    """
    asked = message_from_proto(ProtoMessage.FromString(message))
    own = context_from_proto(ProtoContext.FromString(context))
    client: Any = None
    with identified(own.node_id), JOB.starting(moment):
        try:
            _, client = load(app)
            with _drawing(seed):
                reply, failed = client(asked, own), ""
            if not isinstance(reply, Message):
                raise _NoMessage(f"returned {reprlib.repr(reply)}; allowed: a Message")
        except (Exception, SystemExit) as raised:
            if isinstance(raised, SystemExit) and type(raised) not in (SystemExit, Exited):
                raise  # it is not the app's
            place = place_in_app(raised, app.folder) or _place_of(client, asked.metadata.message_type, app.folder)
            failed = f"{_described(raised)}{place}"
            code = ErrorCode.LOAD_CLIENT_APP_EXCEPTION
            if not isinstance(raised, ImportError):
                code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            reply = Message(Error(code, f"its app {failed}"), reply_to=asked)
        reply.metadata.__dict__["_message_id"] = _message_id(b"reply", asked.metadata.message_id.encode())
    if reply.has_error() and not failed:
        failed = f"replied with an error: {reply.error.reason}"
    return Answer(_message_bytes(reply), _context_bytes(own), failed, JOB.slept)


class _NoMessage(TypeError):
    """A client app has returned something that is no message."""


def _described(error: BaseException) -> str:
    """The end of a client app with `error`, in words."""
    if isinstance(error, SystemExit):
        return f"called {exit_of(error)}"
    return str(error) if isinstance(error, _NoMessage) else f"raised {type(error).__name__}: {error}"


def _place_of(client: Any, kind: str, folder: str) -> str:
    """The file and line of the function of the app in `folder` that answers messages of this `kind`; "" if unknown."""
    name = kind if "." in kind else f"{kind}.default"
    left = [getattr(client, "_registered_funcs", {}).get(name), getattr(client, "_call", None)]
    for one in left:  # Flower and its mods wrap the function, which is then in a closure
        code = getattr(one, "__code__", None)
        if code is not None and (place := in_app(code.co_filename, code.co_firstlineno, folder)):
            return place
        if len(left) < _WRAPPED:
            left += [cell.cell_contents for cell in getattr(one, "__closure__", None) or ()]
    return ""


_WRAPPED = 100
"""The most nested wrappers in which the function of an app is searched for."""


def _message_bytes(message: Message) -> bytes:
    return bytes(message_to_proto(message).SerializeToString(deterministic=True))


def _context_bytes(context: Context) -> bytes:
    return bytes(context_to_proto(context).SerializeToString(deterministic=True))


def _message_id(*parts: bytes) -> str:
    return hashlib.sha256(b"/".join(parts)).hexdigest()


# The server's side: an app in a fiber


def serve(app: App, world: World, seed: bytes) -> None:
    """Run the server app to its end, in a fiber with virtual threads and time. Raises any error of the app."""
    server, _ = load(app)
    context = Context(RUN, SERVER, {}, RecordDict(), dict(app.config))
    with stand_ins(app.folder, _SERVER), identified(SERVER), _drawing(seed):
        server(WorldGrid(world, seed), context)


class WorldGrid(Grid):
    """Flower's grid, on the network of a `world`."""

    def __init__(self, world: World, seed: bytes) -> None:
        self._world, self._seed = world, seed
        self._run = Run.create_empty(RUN)
        self._numbers: dict[str, int] = {}
        self._sent: dict[int, Message] = {}

    def set_run(self, run: Any) -> None:
        """Do nothing, because there is only one run."""

    @property
    def run(self) -> Any:
        """The run."""
        return self._run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """A message to a node."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """The nodes that have joined."""
        found: list[int] = in_world(self._world.nodes)
        return found

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages; returns their ids, by which replies can be pulled."""
        outgoing = self._all_outgoing(messages)
        if outgoing:
            in_world(lambda: self._world.push(outgoing))
        return [self._sent[one.number].metadata.message_id for one in outgoing]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that have arrived to the messages with these ids, each once; an error for each that has timed
        out."""
        numbers = [self._numbers[one] for one in message_ids if self._numbers.get(one) in self._sent]
        return self._replies(in_world(lambda: self._world.pull(numbers)))

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages, and wait for the replies, for at most `timeout` seconds.

        Without a timeout it waits for the lifetime of the messages or the scenario's deadline. The list has an error
        for each node that has not replied.
        """
        outgoing = self._all_outgoing(messages)
        if not outgoing:
            return []
        if sum(len(one.body) for one in outgoing) > _LARGE:
            gc.collect()
        found = in_world(lambda: self._world.exchange(outgoing, timeout))
        if timeout is not None:
            for one in outgoing:
                if one.number not in found:
                    del self._sent[one.number]
            return self._replies(found)
        return self._replies({**found, **{one.number: b"" for one in outgoing if one.number not in found}})

    def _all_outgoing(self, messages: Iterable[Message]) -> list[Outgoing]:
        every = list(messages)
        outgoing = [self._outgoing(message) for message in every]
        for watcher in watchers:
            watcher.sent(every)
        return outgoing

    def _outgoing(self, message: Message) -> Outgoing:
        number = len(self._numbers) + 1
        named = message.metadata
        named.__dict__["_message_id"] = identity = _message_id(self._seed, str(number).encode())
        self._numbers[identity], self._sent[number] = number, message
        body, stage = _message_bytes(message), _stage(message)
        return Outgoing(number, named.dst_node_id, stage, round_of(message), named.ttl, body)

    def _replies(self, bodies: Mapping[int, bytes]) -> list[Message]:
        """The messages in `bodies`; an error for each empty one."""
        found = []
        for number, body in bodies.items():
            if body:
                found.append((number, message_from_proto(ProtoMessage.FromString(body))))
            else:
                error = Error(ErrorCode.NODE_UNAVAILABLE, "no reply before the deadline")
                found.append((number, Message(error, reply_to=self._sent[number])))
        learned: dict[int, list[Reply]] = {}
        key = _weighted_by()
        for number, message in found:
            learned.setdefault(_stage(self._sent.pop(number)), []).append(_learned(message, key))
        for stage, replies in learned.items():
            self._world.note(replies, stage)
        messages = [message for _, message in found]
        for watcher in watchers:
            watcher.received(messages)
        return messages


def _stage(message: Message) -> int:
    """The index of the step in which a client answers `message`."""
    if message.has_content():
        record = message.content.config_records.get(_RECORD)
        name = f"flower.{record[_STAGE]}" if record is not None and _STAGE in record else ""
        if name in STAGES:
            return _NAMES.index(name)
    name = f"flower.{message.metadata.message_type.partition('.')[0]}"
    return _NAMES.index(name if name in STAGES else "flower.query")


def round_of(message: Message) -> int:
    """The round of `message`, from its group or its settings; 0 if neither contains one."""
    group = message.metadata.group_id
    if group.isascii() and group.isdigit():
        return int(group)
    records = message.content.config_records.values() if message.has_content() else ()
    return next((one for record in records if isinstance(one := record.get("server-round"), int)), 0)


_WEIGHTS = ("num-examples", "num_examples")


def _weighted_by() -> str:
    """The name of the number by which the strategy that now uses the grid weighs replies; "" if it says none.

    A strategy does not introduce itself to the grid, so it is looked for among the callers.
    """
    frame = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        key = getattr(caller, "weighted_by_key", None) if isinstance(caller, Strategy) else None
        if isinstance(key, str):
            return key
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def _learned(reply: Message, weighted_by: str = "") -> Reply:
    """The facts of a reply: the numbers in its metrics, by the last part of their names. Its weight is the number
    `weighted_by`, by default that of its examples."""
    node = reply.metadata.src_node_id
    if reply.has_error():
        return Reply(node, reply.error.reason or f"error {reply.error.code}", {}, 0.0)
    figures: dict[str, float] = {}
    for record in (*reply.content.metric_records.values(), *reply.content.config_records.values()):
        for key, value in record.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                figures[key.rpartition(".")[2]] = float(value)
    weight = figures.get(weighted_by, weight_of(figures))
    for name in _WEIGHTS:
        figures.pop(name, None)
    if _RECORD in reply.content.config_records:
        return Reply(node, "", {}, 0.0)
    return Reply(node, "", figures, 1.0 if weight is None else weight)


def weight_of(figures: Mapping[str, float]) -> float | None:
    """The number of examples among the numbers of a reply, None if it is missing."""
    return next((figures[name] for name in _WEIGHTS if name in figures), None)
