"""FedMatch: labels teach one part of the parameters, agreement among clients on unlabeled points the other.

Jeong et al., Federated semi-supervised learning with inter-client consistency and disjoint learning, ICLR 2021, with
labels at the clients. The parameters are theta = sigma + psi. Labeled points move sigma only, by

    supervised * cross-entropy,

and unlabeled points psi only, where the network is sure of them (largest probability >= confidence), by

    consistency/H sum_h KL(f_h(x) || f(x)) + agreement * cross-entropy(vote, f(strong(x)))
        + l1 |psi| + l2 |sigma - psi|^2

with H helpers f_h (the clients whose models predict most alike), and for each point the class that network and helpers
vote for, ties to the lower one. At first psi is a sixth of theta. The server averages both,

    theta_{t+1} = sum_k n_k/n theta_{t+1}^k,    psi_{t+1} = sum_k n_k/n psi_{t+1}^k,

and sends a client theta, psi and the latest psi of its H = 2 helpers: four models down, two up.

Departures: the weights are a tenth of those in the code that the authors published, where the learning rate is 0.001;
l2, there 10, is 0.03, which at a rate of 0.3 pulls as hard. Both losses are taken at the same parameters, not one after
the other. The strong augmentation is that of `augmentation`, not RandAugment, and none for points that are no images.
Both parts are sent in full.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import Active, Addition, PlainUpdate, Run
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.tasks import Batch
from tacit.parties.learning.vectors import Layout
from tacit.parties.server import Server
from tacit.protocols.federated.method import Companion, Method, Options
from tacit.sim.compute import Work
from tacit.sim.hollow import hollow, together
from tacit.sim.setting_error import SettingError
from tacit.sim.streams import generator

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor
    from tacit.parties.learning.networks import NeuralNetwork

__all__ = ["HELPERS", "FedMatch", "Helpers", "choose_helpers", "fedmatch"]

HELPERS = 2
"""The number H of clients whose psi each client is sent."""

_FIRST_SHARE = 0.2 / 1.2  # of theta that psi begins with


# --- client term


@dataclass(frozen=True)
class FedMatch(Addition):
    """The losses of FedMatch, with their weights >= 0.

    `received` is psi, then each helper's psi, every one as long as the trained parameters; empty, psi is a sixth of
    theta and there is no helper. `sent` is psi after the update; the server averages it like the parameters.
    """

    supervised: float = 1.0
    consistency: float = 1e-3
    agreement: float = 1e-3
    l1: float = 1e-5
    l2: float = 0.03
    confidence: float = 0.75
    unlabeled: ClassVar[bool] = True
    passes: ClassVar[float] = 1.0
    vectors: ClassVar[float] = 2.0

    def check(self, update: PlainUpdate) -> None:
        weights = (self.supervised, self.consistency, self.agreement, self.l1, self.l2)
        if min(weights) < 0 or not 0 <= self.confidence <= 1:
            raise SettingError("confidence", self.confidence, "in [0, 1]", f"weights {weights} must be >= 0 and ")
        if update.momentum:
            raise SettingError("momentum", update.momentum, "must be 0", "FedMatch parts plain steps in two: ")
        rate = update.rate(update.labeled_batch, 0)
        if rate * self.l2 >= 1:  # psi would swing around sigma ever farther
            raise SettingError("l2", self.l2, f"must be below 1 / learning rate, {1 / rate:g}")

    def begin(self, run: Run, received: bytes, kept: bytes) -> Active:
        return _Disjoint(self, run, received)


class _Disjoint(Active):
    def __init__(self, settings: FedMatch, run: Run, received: bytes) -> None:
        from tacit.parties.learning.parameters import split

        self._settings, self._run = settings, run
        theta = [parameter.detach() for parameter in run.parameters]
        length = sum(tensor.numel() * tensor.element_size() for tensor in theta)
        if len(received) % length:
            raise ValueError(f"FedMatch: {len(received)} bytes are not whole vectors of {length}")
        parts = [received[at : at + length] for at in range(0, len(received), length)]
        split_parts = [split(part, theta, "FedMatch's psi") for part in parts]
        self._psi = split_parts[0] if parts else [_FIRST_SHARE * tensor for tensor in theta]
        self._sigma = [tensor - psi for tensor, psi in zip(theta, self._psi, strict=True)]
        self._helpers = [self._helper(place, psi) for place, psi in enumerate(split_parts[1:])]
        self._unsupervised: list[Tensor] = []

    def _helper(self, place: int, psi: "list[Tensor]") -> "NeuralNetwork":
        from tacit.parties.learning.backend import torch
        from tacit.parties.learning.parameters import cached, entries

        network = cached(self._run.spec, self._run.device, f"helper/{place}")
        trained, running = entries(network)
        values = [sigma + own for sigma, own in zip(self._sigma, psi, strict=True)]
        with torch.no_grad():
            for tensor, value in zip(trained + running, values + entries(self._run.network)[1], strict=True):
                tensor.copy_(value)
        return network.eval()

    def loss(self, batch: Batch) -> None:
        from tacit.parties.learning.backend import torch

        gradients = [torch.zeros_like(psi) for psi in self._psi]
        term = self._agreement(batch)
        if term is not None:
            found = torch.autograd.grad(
                term, self._run.parameters, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            gradients = [gradient.clone() for gradient in found]
        for gradient, psi, sigma in zip(gradients, self._psi, self._sigma, strict=True):
            gradient.add_(psi.sign(), alpha=self._settings.l1).add_(psi - sigma, alpha=2 * self._settings.l2)
        self._unsupervised = gradients

    def _agreement(self, batch: Batch) -> "Tensor | None":
        """The losses on the unlabeled points of which the network is confident; None without such a point."""
        from tacit.parties.learning.backend import nn, torch

        logits = batch.logits[batch.labeled :]
        sure = logits.detach().softmax(1).amax(1) >= self._settings.confidence if len(logits) else None
        if sure is None or not sure.any():
            return None
        logits = logits[sure]
        images = batch.images[batch.labeled :][sure]
        with torch.no_grad():
            helped = [helper(images) for helper in self._helpers]
        votes = sum(nn.functional.one_hot(each.detach().argmax(1), logits.shape[1]) for each in [logits, *helped])
        assert isinstance(votes, torch.Tensor)
        strong = logits
        if images.ndim == 4 and len(images) > 1:  # batch normalisation cannot work on a single point
            strong = self._run.network(batch.view("strong")[batch.labeled :][sure])
        term = self._settings.agreement * nn.functional.cross_entropy(strong, votes.argmax(1))
        own = logits.log_softmax(1)
        for each in helped:
            divergence = (each.softmax(1) * (each.log_softmax(1) - own)).sum(1).mean()
            term = term + self._settings.consistency / len(helped) * divergence
        return term

    def gradients(self, batch: Batch) -> None:
        rate, decay = self._run.rate, self._run.update.weight_decay
        scale = self._settings.supervised * len(batch.labels) / max(1, batch.labeled)  # a mean over the labeled ones
        parts = zip(self._run.parameters, self._sigma, self._psi, self._unsupervised, strict=True)
        for parameter, sigma, psi, unsupervised in parts:
            if parameter.grad is None:  # the labeled points do not reach it
                parameter.grad = parameter.new_zeros(parameter.shape)
            parameter.grad.mul_(scale)
            psi.mul_(1 - rate * decay).sub_(unsupervised, alpha=rate)
            sigma.mul_(1 - rate * decay).sub_(parameter.grad, alpha=rate)
            parameter.grad.add_(unsupervised)

    def finish(self) -> tuple[bytes, bytes]:
        from tacit.parties.learning.parameters import join

        return join(self._psi), b""


# --- server term


class Helpers(Companion):
    """FedMatch's psi, averaged, and for each client the psi of the `count` clients with the most similar
    predictions."""

    weighted: ClassVar[bool] = True
    individual: ClassVar[bool] = True

    def __init__(self, spec: ModelSpec, count: int, seed: int) -> None:
        self._spec, self._count, self._seed = spec, count, seed
        self._mean = b""
        self._own: dict[str, bytes] = {}
        self._models: dict[str, bytes] = {}
        self._chosen: dict[str, tuple[str, ...]] = {}

    def layout(self, spec: ModelSpec) -> Layout:
        return jobs.trained_layout(spec)

    def outgoing(self, client: str) -> bytes:
        return self._mean + together(self._own[name] for name in self._chosen.get(client, ()))

    def outgoing_size(self, spec: ModelSpec, client: str, averaged: Collection[str]) -> int:
        helpers = min(self._count, len(averaged) - 1) if client in averaged else 0
        return self.size(spec) * (bool(averaged) + helpers)

    async def take(self, me: Server, mean: bytes, sent: Mapping[str, bytes], models: Mapping[str, bytes]) -> None:
        self._mean = mean
        self._own |= sent
        self._models |= models
        names, vectors = list(self._models), list(self._models.values())
        work = self.take_work(self._spec, len(vectors))
        places = await me.compute(work, choose_helpers, self._spec, vectors, self._count, self._seed)
        self._chosen = {name: tuple(names[i] for i in chosen) for name, chosen in zip(names, places, strict=True)}

    def take_work(self, spec: ModelSpec, averaged: int) -> Work:
        return {"vector.add": averaged * jobs.size(spec)}

    def state(self) -> Any:
        return self._mean, self._own, self._models, self._chosen

    def restore(self, state: Any) -> None:
        self._mean, self._own, self._models, self._chosen = state


@hollow(
    lambda spec, vectors, count, seed: [
        tuple(other for other in range(len(vectors)) if other != place)[:count] for place in range(len(vectors))
    ]
)
def choose_helpers(spec: ModelSpec, vectors: Sequence[bytes], count: int, seed: int) -> list[tuple[int, ...]]:
    """The indices of the `count` other clients with the most similar predictions, for each of the parameter `vectors`.

    Similarity is the distance between the probabilities for one image of noise, drawn from the stream (seed, "noise").
    """
    noise = generator(seed, "noise").normal(0.5, 0.5, (1, *spec.shape)).clip(0, 1).astype(np.float32)
    outputs = np.concatenate([jobs.probabilities(spec, vector, noise) for vector in vectors])
    distances = np.linalg.norm(outputs[:, None] - outputs, axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : min(count, len(vectors) - 1)]
    return [tuple(int(place) for place in row) for row in nearest]


# --- the method


def fedmatch(options: Options) -> Method:
    """FedMatch with two helpers for each client."""
    return Method(additions=((FedMatch(), partial(Helpers, options.spec, HELPERS, options.seed)),))
