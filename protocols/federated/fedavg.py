"""FedAvg: clients train on their labels alone, the server averages the models.

McMahan et al., Communication-efficient learning of deep networks from decentralized data, AISTATS 2017, Algorithm 1.
The XCLP paper's baseline FedAvg (labeled only), and the server update that the others build on.
"""

from protocols.federated.method import Extra, Method, Options

__all__ = ["fedavg", "update"]


def update() -> tuple[Extra, ...]:
    """As a server update: nothing beside the models."""
    return ()


def fedavg(options: Options) -> Method:
    """Labels alone."""
    return Method()
