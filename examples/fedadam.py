"""A plugin that adds a small network, and FedAdam as the server's update of the mean model.

Reddi et al., Adaptive federated optimization, ICLR 2021, Algorithm 2. With Delta_t = mean of the clients' models - x_t,

    m_t = beta1 m_{t-1} + (1 - beta1) Delta_t            m_{-1} = 0
    v_t = beta2 v_{t-1} + (1 - beta2) Delta_t^2          v_{-1} = tau^2
    x_{t+1} = x_t + eta m_t / (sqrt(v_t) + tau)
"""

from dataclasses import dataclass

import numpy as np
from torch import nn

from tacit import ModelSpec, ServerUpdate, add_model, add_server_update


@dataclass(frozen=True)
class FedAdam(ServerUpdate):
    eta: float = 0.03
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    vectors = 8.0  # additions of two models that a step costs, for its virtual time

    def step(self, state, model, mean):
        m, v = state or (np.zeros_like(model), np.full_like(model, self.tau**2))
        delta = mean - model
        m = self.beta1 * m + (1 - self.beta1) * delta
        v = self.beta2 * v + (1 - self.beta2) * delta**2
        return model + self.eta * m / (np.sqrt(v) + self.tau), (m, v)


def tiny_cnn(spec: ModelSpec) -> tuple[nn.Module, nn.Module]:
    channels, height, width = spec.shape
    convolution = nn.Sequential(nn.Conv2d(channels, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    outputs = 8 * ((height - 2) // 2) * ((width - 2) // 2)
    return nn.Sequential(*convolution, nn.Linear(outputs, 32), nn.ReLU()), nn.Linear(32, spec.classes)


add_model("tiny_cnn", "one convolution and a hidden layer", tiny_cnn, smallest=4)
add_server_update("fedadam", "Adam's step at the server (Reddi et al. 2021)", server=FedAdam())
