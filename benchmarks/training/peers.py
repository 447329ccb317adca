"""Other simulators of federated learning, with the same work as `tacit.benchmarks.training.speed`.

pfl (Apple) trains one client after the other in this process; Flower passes each client's update to the only worker of
Ray. Both draw their own batches, so the bits of their models differ. The start of Flower's and Ray's processes counts,
like that of any run. As it takes long, Flower runs in the first turn only.
"""

import contextlib
import importlib.util
import itertools
import logging
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from tacit.benchmarks.training.size import LEARNING_RATE, AfterRound, Contender, Federation, layers

__all__ = ["is_installed", "peers"]


def peers(console: Console) -> list[Contender]:
    """The installed peers; prints a line on the missing ones."""
    found = []
    for name, modules, run, here in (
        ("pfl", ("pfl",), _pfl, True),
        ("Flower on Ray", ("flwr", "ray"), _flower, False),
    ):
        missing = [module for module in modules if not is_installed(module)]
        if missing:
            console.print(f"{name}: {' and '.join(missing)} not installed: skipped")
        else:
            found.append(Contender(name, run, here=here, once=not here))
    return found


def is_installed(module: str) -> bool:
    """True if `module` can be imported; does not import it."""
    return importlib.util.find_spec(module) is not None


def _network() -> Any:
    from torch import nn

    class Network(nn.Sequential):
        """The benchmark's network, with the loss that pfl requires; counts its steps."""

        steps = 0

        def loss(self, images: Any, labels: Any, eval: bool = False) -> Any:
            if not eval:
                self.train()
                type(self).steps += 1
            return nn.functional.cross_entropy(self(images), labels)

        def metrics(self, images: Any, labels: Any, eval: bool = True) -> dict[str, Any]:
            return {}

    return Network(*layers())


def _load(network: Any, vector: bytes) -> None:
    import torch

    torch.nn.utils.vector_to_parameters(torch.from_numpy(np.frombuffer(vector, "<f4").copy()), network.parameters())


def _store(network: Any) -> bytes:
    import torch

    vector: bytes = torch.nn.utils.parameters_to_vector(network.parameters()).detach().numpy().tobytes()
    return vector


def _pfl(federation: Federation, after_round: AfterRound) -> tuple[bytes, int]:
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class RoundByRound(TrainingProcessCallback):
        def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Any]:
            after_round()
            return False, Metrics()

    size, network = federation.size, _network()
    _load(network, federation.vector)
    images = torch.from_numpy(federation.images[:, :, np.newaxis]).float() / 255
    labels = torch.from_numpy(federation.labels)
    cohorts = itertools.chain.from_iterable(federation.cohorts)
    data = FederatedDataset(
        lambda client: PyTorchTensorDataset((images[client], labels[client]), user_id=str(client)),
        lambda: next(cohorts),
    )
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0))
    with _quiet("pfl"):
        FederatedAveraging().run(
            NNAlgorithmParams(
                central_num_iterations=size.rounds,
                evaluation_frequency=size.rounds + 1,
                train_cohort_size=size.cohort,
                val_cohort_size=0,
            ),
            SimulatedBackend(data, data),
            model,
            NNTrainHyperParams(local_num_epochs=1, local_learning_rate=LEARNING_RATE, local_batch_size=size.batch),
            NNEvalHyperParams(local_batch_size=None),
            callbacks=[RoundByRound()],
            send_metrics_to_platform=False,
        )
    return _store(network), type(network).steps


def _flower(federation: Federation, after_round: AfterRound) -> tuple[bytes, int]:
    from flwr.client import ClientApp, NumPyClient
    from flwr.common import Context, ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import run_simulation

    size, first = federation.size, np.frombuffer(federation.vector, "<f4")
    ends: list[bytes] = []
    steps = 0

    class Averaging(FedAvg):
        def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
            nonlocal steps
            steps += sum(result.metrics["steps"] for _, result in results)
            found, metrics = super().aggregate_fit(server_round, results, failures)
            ends[:] = [parameters_to_ndarrays(found)[0].astype("<f4").tobytes()]
            after_round()
            return found, metrics

    def server(context: Context) -> ServerAppComponents:
        strategy = Averaging(
            fraction_fit=size.cohort / size.clients,
            fraction_evaluate=0.0,
            min_fit_clients=size.cohort,
            min_available_clients=size.clients,
            initial_parameters=ndarrays_to_parameters([first]),
        )
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=size.rounds))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, images=federation.images, labels=federation.labels)

        class Trainer(NumPyClient):
            def __init__(self, client: int) -> None:
                self.client = client

            def fit(self, parameters: Any, config: Any) -> Any:
                vector, taken = _trained(str(path), self.client, parameters[0], size.batch)
                return [vector], size.images, {"steps": taken}

        def client(context: Context) -> Any:
            return Trainer(int(context.node_config["partition-id"])).to_client()

        os.environ.setdefault("RAY_DEDUP_LOGS", "0")
        with _quiet("flwr"):
            run_simulation(
                ServerApp(server_fn=server),
                ClientApp(client_fn=client),
                size.clients,
                backend_config={
                    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
                    # "local" starts a new cluster even if one is running on this machine.
                    "init_args": {
                        "address": "local",
                        "num_cpus": 1,
                        "log_to_driver": False,
                        "logging_level": logging.ERROR,
                    },
                },
            )
    return ends[0], steps


@cache
def _data(path: str) -> tuple[Any, Any]:
    import torch

    torch.set_num_threads(1)
    with np.load(path) as data:
        return torch.from_numpy(data["images"][:, :, np.newaxis]).float() / 255, torch.from_numpy(data["labels"])


def _trained(path: str, client: int, vector: Any, batch: int) -> tuple[Any, int]:
    """The model and the steps of a client's update, in a worker of Ray."""
    import torch

    images, labels = (array[client] for array in _data(path))
    network = _network()
    _load(network, vector.tobytes())
    optimiser = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)
    for rows in torch.randperm(len(labels)).split(batch):
        optimiser.zero_grad()
        network.loss(images[rows], labels[rows]).backward()
        optimiser.step()
    return np.frombuffer(_store(network), "<f4"), type(network).steps


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    level, before = logger.level, logging.root.level
    logger.setLevel(logging.ERROR)
    logging.root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        logging.root.setLevel(before)
