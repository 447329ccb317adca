"""The bytes of a secure sum by the number of clients: complete (Bonawitz) and in a graph (SecAgg+).

For each n there is a sum of vectors of 1,000 numbers in a star, including its keys: the set-up of the round and
`secure_sum`, the same with signed identities, and `secure_sum` in a graph of the default tolerance. The payload by
formula (`tacit.protocols.crypto.sizes`) must equal that of a run, which is made if n is small enough; messages between
clients count on both hops. If flwr is installed, the serialized bytes of its SecAgg+ are shown as well, with the same
number of neighbours, or one fewer if that is odd.
"""

import importlib.util
import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from rich.console import Console

from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play_out
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto.regular_graph import Tolerance, degree_of
from tacit.protocols.identities import Identities
from tacit.protocols.parts import Among, payloads
from tacit.protocols.sums.secure_sum import SecAgg, SecAggPlus
from tacit.protocols.sums.sum import Sum, SumSettings
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import print_table
from tacit.scenarios.console.table import Column, Table, columns_of
from tacit.scenarios.schema.scenario import ProtocolKeys, Scenario
from tacit.sim.compute import Free
from tacit.sim.conditions import Conditions
from tacit.sim.latency import parse_latency
from tacit.sim.world import World

__all__ = [
    "SumRow",
    "flower_bytes",
    "measure",
    "print_sums",
]


# The bytes of Flower's SecAgg+, measured on its own messages: its server's workflow and its clients' code, unchanged.
#
# A grid in this process passes each message to the client's code and returns its reply, counting each message as it is
# serialised for gRPC. The model sent down is empty, so that only the sum counts. Flower: Beutel et al., 2020.


def flower_bytes(clients: int, shares: int, threshold: int, dimension: int) -> int | None:
    """Bytes of all messages of a sum of vectors of `dimension` numbers; None if flwr is not installed.

    Each client deals `shares`, one of them to itself, of which `threshold` restore a secret. Raises RuntimeError if the
    sum is wrong.
    """
    if importlib.util.find_spec("flwr") is None:
        return None
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.client.mod import secaggplus_mod
    from flwr.common import Code, FitIns, FitRes, Parameters, Status, ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.common.serde import message_from_proto, message_to_proto
    from flwr.compat.common import recorddict_compat as compat
    from flwr.server import LegacyContext
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
    from flwr.supercore.task_identity import TaskIdentity

    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    nodes = range(1, clients + 1)
    vectors = {node: np.full(dimension, node / clients, np.float32) for node in nodes}
    contexts = {node: Context(0, node, {}, RecordDict(), {}) for node in nodes}

    def fit(message: Any, context: Any) -> Any:
        parameters = ndarrays_to_parameters([vectors[context.node_id]])
        result = FitRes(Status(Code.OK, ""), parameters, 1, {})
        return Message(compat.fitres_to_recorddict(result, False), reply_to=message)

    class Grid:
        """Passes each message to its client, and counts it and the reply."""

        total = 0

        def send_and_receive(self, messages: Iterable[Any], **_: Any) -> list[Any]:
            return [self._sent(self._answered(self._sent(message))) for message in messages]

        def _answered(self, message: Any) -> Any:
            return secaggplus_mod(message, contexts[message.metadata.dst_node_id], fit)

        def _sent(self, message: Any) -> Any:
            serialised = message_to_proto(message)
            self.total += serialised.ByteSize()
            return message_from_proto(serialised)

    class Strategy:
        """Calls every client, and stores the average."""

        average: Any = None

        def configure_fit(self, *_: Any) -> list[Any]:
            return [(SimpleNamespace(node_id=node), FitIns(Parameters([], ""), {})) for node in nodes]

        def aggregate_fit(self, number: int, results: Any, failures: Any) -> tuple[None, dict[str, Any]]:
            self.average = parameters_to_ndarrays(results[0][1].parameters)[0]
            return None, {}

    strategy, grid = Strategy(), Grid()
    manager = SimpleNamespace(num_available=lambda: clients)
    context = LegacyContext(Context(0, 0, {}, RecordDict(), {}), None, strategy, manager)
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    context.state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(Parameters([], ""), True)
    SecAggPlusWorkflow(shares, threshold)(grid, context)
    expected = np.mean(list(vectors.values()), axis=0)
    if strategy.average is None or not np.allclose(strategy.average, expected, atol=1e-2):
        raise RuntimeError(f"the sum of Flower's SecAgg+ among {clients} clients is not the sum of their vectors.")
    return grid.total


_DIMENSION = 1000
_DEADLINE = 60.0
_NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))


@dataclass(frozen=True)
class SumRow:
    """The payloads of a sum of `clients` by formula: complete, `signed`, and in a graph of degree `k`.

    `measured`: the payloads of runs; `wire`: all bytes of the runs, `seconds`: their processor time; `flower`: the
    bytes of Flower's SecAgg+. None if not measured.
    """

    clients: int
    k: int
    threshold: int
    complete: int
    signed: int
    graph: int
    measured: tuple[int, ...] | None = None
    wire: tuple[int, ...] | None = None
    seconds: tuple[float, ...] | None = None
    flower: int | None = None

    @property
    def different(self) -> bool:
        """True if a run sent a payload that differs from the formula."""
        return self.measured not in (None, (self.complete, self.signed, self.graph))


class _Contributor(Client):
    def __init__(self, world: World, name: str, one: Sum, settings: SumSettings) -> None:
        super().__init__(world, name, _NOTHING)
        self.sum, self.settings = one, settings

    async def main(self) -> None:
        with suppress(DismissedError, NoAnswer):
            if self.sum.agrees:
                await self.recv(setup.RoundStart, self.server, _DEADLINE)
            await self.sum.contribute(self, lambda: np.ones(_DIMENSION), self.settings)


class _Adder(Server):
    def __init__(self, world: World, names: Sequence[str], one: Sum, settings: SumSettings) -> None:
        super().__init__(world, names)
        self.sum, self.settings = one, settings

    async def main(self) -> None:
        self.advance(1, 0)
        total = await self.sum.total(self, self.clients, self.settings)
        assert (total.values == len(self.clients)).all()


def measure(most: int) -> list[SumRow]:
    """A row for each number of clients, with runs of those up to `most`."""
    rows = []
    for n in (10, 20, 50, 100, 200, 500, 1000):
        names, degree = [f"client/{i}" for i in range(n)], degree_of(n, Tolerance())
        sums = SecAgg(), SecAgg(identities=Identities.simulated(1)), SecAggPlus()
        every, signed, graph = (_formula(one, names) for one in sums)
        found = [_run(names, one) for one in sums] if n <= most else []
        (measured, wire, seconds) = zip(*found, strict=True) if found else (None, None, None)
        shares = degree.k + 1 - degree.k % 2  # including the client's own; Flower needs an odd number
        flower = flower_bytes(n, shares, shares // 2 + 1, _DIMENSION) if n <= most else None
        rows.append(SumRow(n, degree.k, degree.threshold, every, signed, graph, measured, wire, seconds, flower))
    return rows


def _formula(one: Sum, names: Sequence[str]) -> int:
    """Bytes of payload of a sum among `names`."""
    tables = Scenario(protocol=ProtocolKeys(identity="none" if one.identities is None else "signed"))
    among = Among(dict.fromkeys(names, 1), dimension=_DIMENSION, sum=one)
    return sum(size or 0 for size in payloads((one,), tables, among).values())


def _run(names: Sequence[str], one: Sum) -> tuple[int, int, float]:
    """The payload and all bytes of a sum among `names`, and its processor time in seconds."""
    world = World(1, conditions=Conditions("star", parse_latency("1ms")), cost=Free())
    settings = SumSettings(_DIMENSION, len(names), min_clients=2, deadline=_DEADLINE)
    began = time.process_time()
    play_out([_Adder(world, names, one, settings), *(_Contributor(world, name, one, settings) for name in names)])
    seconds = time.process_time() - began
    return world.ledger.total("payload"), world.ledger.total("total"), seconds


def print_sums(console: Console, rows: Sequence[SumRow]) -> None:
    """Print a table of bytes per client, by the number of clients."""
    ways = ("Bonawitz", "signed", "SecAgg+")
    of_formula, milliseconds = ("complete", "signed", "graph"), kinds.decimals(2, factor=1e3)

    def each(count: int | None, row: SumRow) -> int | None:
        return None if count is None else count // row.clients

    def row_of(row: SumRow) -> tuple[Any, ...]:
        formulas = (each(getattr(row, name), row) for name in of_formula)
        sent = (each(size, row) for size in (*(row.wire or (None,) * 3), row.flower))
        seconds = (None if one is None else one / row.clients for one in row.seconds or (None,) * 3)
        return (row.clients, row.k, row.threshold, *formulas, row.complete / row.graph, *sent, *seconds)

    columns = (
        *columns_of(("clients", "k", "t", *ways), kinds.COUNT),
        Column("ratio", kinds.decimals(2)),
        *columns_of((*(f"{way}, sent" for way in ways), "Flower's SecAgg+, sent"), kinds.COUNT),
        *columns_of((f"{way}, ms" for way in ways), milliseconds),
    )
    title = f"secure sums of {_DIMENSION:,} numbers: bytes and milliseconds a client, payload by formula and all sent"
    print_table(console, Table(columns, map(row_of, rows), title))
    for row in rows:
        if row.different:
            problem = (
                f"NOT THE FORMULA'S  {row.clients} clients: {row.measured}, not {(row.complete, row.signed, row.graph)}"
            )
            console.print(problem, style="bold red", markup=False, highlight=False, soft_wrap=True)
