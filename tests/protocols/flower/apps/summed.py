"""Flower's SecAgg+ over updates of two layers, correct or with a bug: `bug` names it, `at` is its round.

Bugs of a mod change the update before Flower's own mod; bugs of the server are in a workflow derived from it.
"""

import numpy as np
from flwr.app import Context
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as compat
from flwr.server import LegacyContext, ServerConfig
from flwr.server import strategy as strategies
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.server.workflow.secure_aggregation import secaggplus_workflow
from flwr.serverapp import Grid, ServerApp

SHAPES = ((6, 5), (5,))


class Moving(NumPyClient):
    def __init__(self, own, settings):
        self.own, self.settings = own, settings

    def fit(self, parameters, config):
        random = np.random.default_rng(self.own)
        size = self.settings.get("size", 1.0)
        moved = [size * random.normal(size=shape) + 0.1 * old for shape, old in zip(SHAPES, parameters, strict=True)]
        examples = 100 * (self.own + 1) if self.settings.get("weighted", True) else 500
        return [one.astype(np.float32) for one in moved], self.settings.get("examples", examples), {}


def client_fn(context):
    return Moving(context.node_config["partition-id"], context.run_config).to_client()


def spoiled(fitres, bug, own):
    arrays = parameters_to_ndarrays(fitres.parameters)
    if bug == "weights":
        fitres.num_examples = 500
    elif bug == "sign" and own == 2:
        arrays = [-one for one in arrays]
    elif bug == "layer":
        arrays = [arrays[0], 0 * arrays[1]]
    elif bug == "float16":
        arrays = [one.astype(np.float16).astype(np.float32) for one in arrays]
    elif bug == "clip":
        arrays = [np.clip(one, -1, 1) for one in arrays]
    fitres.parameters = ndarrays_to_parameters(arrays)
    return fitres


def summing_mod(message, context, call_next):
    """SecAgg+, with the bug of a mod."""

    def trained(asked, own):
        reply = call_next(asked, own)
        fitres = spoiled(
            compat.recorddict_to_fitres(reply.content, keep_input=True),
            own.run_config.get("bug", ""),
            own.node_config["partition-id"],
        )
        found = compat.fitres_to_recorddict(fitres, keep_input=True)
        for name, record in (*found.array_records.items(), *found.metric_records.items()):
            reply.content[name] = record
        return reply

    return secaggplus_mod(message, context, trained)


class Workflow(SecAggPlusWorkflow):
    """SecAgg+, with the bug of a server."""

    bug = ""
    stale = None

    def collect_masked_vectors_stage(self, grid, context, state):
        went_well = super().collect_masked_vectors_stage(grid, context, state)
        if self.bug == "dropped" and state.legacy_results:
            state.aggregate_ndarrays[1:] = [one // 2 for one in state.aggregate_ndarrays[1:]]
        return went_well

    def unmask_stage(self, grid, context, state):
        called, survivors = len(state.sampled_node_ids), len(state.active_node_ids)
        real = secaggplus_workflow.dequantize

        def dequantize(vector, *settings):
            found = real(vector, *settings)
            if self.bug == "offset":  # the offset of all called clients
                found = [one + (survivors - called) * settings[0] for one in found]
            return found

        secaggplus_workflow.dequantize = dequantize
        try:
            return super().unmask_stage(grid, context, state)
        finally:
            secaggplus_workflow.dequantize = real


def stale_strategy(strategy):
    """`strategy`, changed to return the aggregate of the previous round."""
    real, kept = strategy.aggregate_fit, []

    def aggregate_fit(number, results, failures):
        kept.append(real(number, results, failures))
        return kept[max(0, len(kept) - 2)]

    strategy.aggregate_fit = aggregate_fit
    return strategy


client = ClientApp(client_fn=client_fn, mods=[summing_mod])
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    initial = ndarrays_to_parameters([np.zeros(shape, np.float32) for shape in SHAPES])
    kind = getattr(strategies, settings.get("strategy", "FedAvg"))
    strategy = kind(fraction_evaluate=0.0, initial_parameters=initial)
    own = LegacyContext(context, ServerConfig(num_rounds=settings.get("rounds", 2)), strategy)
    workflow = Workflow(
        5,
        3,
        timeout=10.0,
        max_weight=float(settings.get("max_weight", 1000.0)),
        clipping_range=float(settings.get("clipping", 8.0)),
        quantization_range=2 ** settings.get("bits", 22),
        modulus_range=2 ** settings.get("modulus", 32),
    )
    workflow.bug = settings.get("bug", "")
    DefaultWorkflow(fit_workflow=workflow)(grid, own)
