"""Records the sums of an app: its clients' updates before and after each mod, and the server's aggregates.

A `Recorder` is installed around a run in this process (``engine = "inline"``). It inserts mods between those of the app
that only record replies, and records the calls of the strategy. `without` names mods that are left out, and then
SecAgg+'s workflow is replaced by the plain one: the same app without its secure sum.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.flower.adapter import SERVER, identified, round_of, watchers, weight_of
from tacit.sim.seeding import drawing_from, states

try:
    from flwr.app import Array, ArrayRecord, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server import LegacyContext, Server
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.server.workflow.default_workflows import default_fit_workflow
    from flwr.serverapp.strategy import Strategy
except ImportError as error:
    raise ImportError(f"flwr has not what Tacit takes of it: {error}") from error

__all__ = ["Aggregation", "Arrays", "Recorder", "Update"]

Arrays = dict[str, NDArray[Any]]
"""Arrays of a model by name, in the order of the app."""

_SETTINGS, _STAGE, _SETUP = "secaggplus_configs", "stage", "setup"
_HARMLESS = ("fixedclipping_mod", "adaptiveclipping_mod", "message_size_mod", "arrays_size_mod", "LocalDpMod")
"""Flower's mods that are no secure sum."""


@dataclass(frozen=True, eq=False)
class Update:
    """A client's reply to a training message, as it left the app or one of its mods (`mod`, "" for the app).

    `message` is the id of the message, `weight` the number of examples, None if the reply has none.
    """

    message: str
    node: int
    mod: str
    arrays: Arrays
    weight: float | None


@dataclass(frozen=True, eq=False)
class Aggregation:
    """A call of the strategy: the data `given` for each node, the result `found`, and a way to `repeat` it.

    `repeat` takes arrays by node and returns the result of the strategy in its state at that time, None if it fails.
    """

    round: int
    given: Mapping[int, Arrays]
    found: Arrays | None
    repeat: Callable[[Mapping[int, Arrays]], Arrays | None]


@dataclass(eq=False)
class Recorder:
    """Records the rounds, updates and aggregates of a run of an app.

    `rounds` has the round of each training message by its id, `nodes` its node, `arrived` the ids of the messages whose
    replies the app was given, without errors. `models` has the arrays sent to clients for training by round,
    `evaluated` those for evaluation, `settings` SecAgg+'s. `mods`: the app's, the outermost first. `watched`: the app
    has a strategy of Flower's, whose calls are `aggregations`.
    """

    without: frozenset[str] = frozenset()
    rounds: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    arrived: set[str] = field(default_factory=set)
    models: dict[int, Arrays] = field(default_factory=dict)
    evaluated: dict[int, Arrays] = field(default_factory=dict)
    settings: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    updates: list[Update] = field(default_factory=list)
    aggregations: list[Aggregation] = field(default_factory=list)
    mods: list[str] = field(default_factory=list)
    watched: bool = False
    _waves: int = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Inside this context, apps that are imported and run in this process are recorded."""
        with ExitStack() as stack:
            for owner, name, replacement in self._replacements():
                before = getattr(owner, name)
                setattr(owner, name, replacement)
                stack.callback(setattr, owner, name, before)
            watchers.append(self)
            stack.callback(watchers.remove, self)
            yield

    def secure_mod(self, named: str | None) -> str | None:
        """The mod that `named` asks for, None for "none"; otherwise the outermost one that hides updates, if any.

        A mod hides an update if its result is not nearly proportional to it, as a clipped update is. Mods of Flower
        that are no secure sum do not count. Raises LookupError if the app has no mod of that name.
        """
        if named == "none":
            return None
        if named is not None:
            if named not in self.mods:
                raise LookupError(named)
            return named
        changed: set[str] = set()
        inner: dict[str, Update] = {}
        for one in self.updates:  # the innermost first
            if one.mod and one.message in inner and _is_hidden(inner[one.message], one):
                changed.add(one.mod)
            inner[one.message] = one
        return next((mod for mod in self.mods if mod in changed and mod not in _HARMLESS), None)

    def before(self, mod: str | None) -> dict[str, Update]:
        """The updates as they entered `mod`, by the id of the message; without a mod as clients sent them."""
        found: dict[str, Update] = {}
        passed: set[str] = set()
        for one in self.updates:
            if one.mod == mod:
                passed.add(one.message)
            elif one.message not in passed:
                found[one.message] = one
        return found

    def sent_arrays(self) -> dict[str, Update]:
        """The updates as they left the clients, by the id of the message."""
        return {one.message: one for one in self.updates}

    # As a watcher of the grid

    def sent(self, messages: Sequence[Any]) -> None:
        """Record the round of training messages, their model, and SecAgg+'s settings."""
        training = [one for one in messages if one.has_content() and _is_training(one)]
        with_arrays = [one for one in training if _arrays(one.content)]
        self._waves += bool(with_arrays)
        for one in training:
            number = round_of(one) or max(1, self._waves)
            self.rounds[one.metadata.message_id] = number
            self.nodes[one.metadata.message_id] = one.metadata.dst_node_id
            record = one.content.config_records.get(_SETTINGS)
            if record is not None and record.get(_STAGE) == _SETUP:
                self.settings.setdefault(number, dict(record))
            if one in with_arrays and number not in self.models:
                self.models[number] = _arrays(one.content)
        for one in messages:
            if one.has_content() and one.metadata.message_type.partition(".")[0] == "evaluate":
                number = round_of(one) or max(1, self._waves)
                if number not in self.evaluated and (arrays := _arrays(one.content)):
                    self.evaluated[number] = arrays

    def received(self, messages: Sequence[Any]) -> None:
        """Record the replies that the app is given."""
        self.arrived.update(one.metadata.reply_to_message_id for one in messages if not one.has_error())

    # What is replaced while it is installed

    def _replacements(self) -> Iterator[tuple[Any, str, Any]]:
        recorder = self
        of_app, train, new_api = ClientApp.__init__, ClientApp.train, Strategy.start
        of_context, of_server = LegacyContext.__init__, Server.__init__

        def init(app: Any, client_fn: Any = None, mods: Any = None) -> None:
            innermost = [recorder._tap("")] if client_fn is not None else []
            of_app(app, client_fn, [*recorder._between(mods or []), *innermost])

        def trains(app: Any, action: str = "default", *, mods: Any = None) -> Any:
            return train(app, action, mods=[*recorder._between(mods or []), recorder._tap("")])

        def start(strategy: Any, *arguments: Any, **named: Any) -> Any:
            recorder._watch(strategy, "aggregate_train", _of_messages, _arrays_of, _as_messages)
            return new_api(strategy, *arguments, **named)

        def context(made: Any, *arguments: Any, **named: Any) -> None:
            of_context(made, *arguments, **named)
            recorder._watch(made.strategy, "aggregate_fit", _of_results, _arrays_in, _as_results)

        def server(made: Any, *arguments: Any, **named: Any) -> None:
            of_server(made, *arguments, **named)
            recorder._watch(made.strategy, "aggregate_fit", _of_results, _arrays_in, _as_results)

        yield ClientApp, "__init__", init
        yield ClientApp, "train", trains
        yield Strategy, "start", start
        yield LegacyContext, "__init__", context
        yield Server, "__init__", server
        if self.without:
            yield SecAggPlusWorkflow, "__call__", lambda workflow, grid, context: default_fit_workflow(grid, context)

    def _between(self, mods: Iterable[Any]) -> Iterator[Any]:
        """Yield the app's mods, each preceded by a mod that records its result."""
        for mod in mods:
            if (name := _name(mod)) not in self.without:
                if name not in self.mods:
                    self.mods.append(name)
                yield self._tap(name)
                yield mod

    def _tap(self, mod: str) -> Callable[..., Any]:
        def tap(message: Any, context: Any, call_next: Any) -> Any:
            reply = call_next(message, context)
            if _is_training(message) and isinstance(reply, Message) and reply.has_content():
                node, identity = message.metadata.dst_node_id, message.metadata.message_id
                arrays = _arrays(reply.content)
                if arrays or mod:
                    self.updates.append(Update(identity, node, mod, arrays, _weight(reply.content)))
            return reply

        return tap

    def _watch(self, strategy: Any, method: str, given: Any, found: Any, again: Any) -> None:
        """Record each call of a `method` of `strategy`."""
        if method in vars(strategy):
            return
        self.watched = True
        real = getattr(strategy, method)

        def watched(server_round: int, replies: Iterable[Any], *failures: Any, **named: Any) -> Any:
            every, earlier = list(replies), None
            with suppress(Exception):  # a strategy that cannot be copied cannot be repeated
                earlier = copy.deepcopy(strategy)
            received, generators = given(every), states()

            def repeat(arrays: Mapping[int, Arrays]) -> Arrays | None:
                if earlier is None or not set(arrays) <= set(received):
                    return None
                with suppress(Exception), identified(SERVER), drawing_from(generators):
                    mine = copy.deepcopy(earlier)
                    repeated: Arrays | None = found(
                        getattr(type(mine), method)(mine, server_round, *again(every, arrays))
                    )
                    return repeated
                return None

            result = real(server_round, every, *failures, **named)
            self.aggregations.append(Aggregation(server_round, received, found(result), repeat))
            return result

        setattr(strategy, method, watched)


def _name(mod: Any) -> str:
    return str(getattr(mod, "__name__", type(mod).__name__))


def _is_training(message: Any) -> bool:
    return bool(message.metadata.message_type.partition(".")[0] == "train")


def _arrays(content: Any) -> Arrays:
    """Copies of the arrays in `content`; with several records, their names are prefixes."""
    records = [(name, record) for name, record in content.array_records.items() if len(record)]
    several = len(records) > 1
    found: Arrays = {}
    for name, record in records:
        for key, array in record.items():
            with suppress(Exception):  # bytes that are no array of numpy, as trees of XGBoost are
                found[f"{name}/{key}" if several else str(key)] = np.array(array.numpy())
    return {key: array for key, array in found.items() if array.dtype.kind in "biuf"}


def _weight(content: Any) -> float | None:
    figures = {
        key.rpartition(".")[2]: float(value)
        for record in content.metric_records.values()
        for key, value in record.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return weight_of(figures)


_PROPORTIONAL = 0.9
"""The correlation of an update before and after a mod above which it does not count as hidden."""


def _is_hidden(before: Update, after: Update) -> bool:
    """Return true if the numbers of an update are hidden after a mod."""
    one, other = (
        np.concatenate([np.ravel(array).astype(np.float64) for array in each.arrays.values()] or [np.zeros(0)])
        for each in (before, after)
    )
    if one.shape != other.shape:
        return True
    size = float(np.linalg.norm(one) * np.linalg.norm(other))
    return bool(size) and float(one @ other) < _PROPORTIONAL * size


# Strategies of messages


def _of_messages(replies: Sequence[Any]) -> dict[int, Arrays]:
    return {one.metadata.src_node_id: _arrays(one.content) for one in replies if one.has_content()}


def _arrays_of(result: Any) -> Arrays | None:
    arrays = result[0] if isinstance(result, tuple) else result
    return _arrays(RecordDict({"arrays": arrays})) if isinstance(arrays, ArrayRecord) else None


def _as_messages(replies: Sequence[Any], arrays: Mapping[int, Arrays]) -> tuple[list[Any]]:
    """The replies of the nodes in `arrays`, with their arrays replaced by these."""
    found = []
    for one in replies:
        if one.has_content() and (mine := arrays.get(one.metadata.src_node_id)) is not None:
            changed = copy.deepcopy(one)
            (name,) = changed.content.array_records
            changed.content[name] = ArrayRecord({key: Array(value) for key, value in mine.items()})
            found.append(changed)
    return (found,)


# Strategies of the older way


def _numbered(arrays: Iterable[Any]) -> Arrays:
    return {str(number): np.array(one) for number, one in enumerate(arrays)}


def _of_results(results: Sequence[Any]) -> dict[int, Arrays]:
    return {proxy.node_id: _numbered(parameters_to_ndarrays(one.parameters)) for proxy, one in results}


def _arrays_in(result: Any) -> Arrays | None:
    parameters = result[0] if isinstance(result, tuple) else result
    return None if parameters is None else _numbered(parameters_to_ndarrays(parameters))


def _as_results(results: Sequence[Any], arrays: Mapping[int, Arrays]) -> tuple[list[Any], list[Any]]:
    found = [
        (
            proxy,
            FitRes(
                Status(Code.OK, ""),
                ndarrays_to_parameters(list(arrays[proxy.node_id].values())),
                one.num_examples,
                dict(one.metrics),
            ),
        )
        for proxy, one in results
        if proxy.node_id in arrays
    ]
    return found, []
