"""The bytes of Flower's SecAgg+, measured on its own messages: its server's workflow and its clients' code, unchanged.

A grid in this process hands each message to the client's code and its reply back; what is counted is each message as
it is serialised for gRPC. The model goes down empty, so that what is left is the sum. Flower: Beutel et al., 2020.
"""

import importlib.util
import logging
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["flower_bytes"]


def flower_bytes(clients: int, shares: int, threshold: int, dimension: int) -> int | None:
    """Bytes of all messages of a sum of vectors of `dimension` numbers; None where flwr is not installed.

    Each client deals `shares`, one of them to itself, of which `threshold` restore a secret. Raises RuntimeError where
    the sum is wrong.
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
        """Hands each message to its client and counts it, and the reply."""

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
        """Asks every client, and keeps the average."""

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
