"""SCAFFOLD: control variates correct the drift of clients whose data differ.

Karimireddy et al., SCAFFOLD: Stochastic controlled averaging for federated learning, ICML 2020, Algorithm 1 with
option II. Client i has a control variate c_i, the server c, all 0 at first. For K steps at rate lr client i goes

    y <- y - lr (g(y) - c_i + c),    then    c_i+ = c_i - c + (x - y) / (K lr)    (lines 10, 12),

where x are the parameters that the round began with. It sends y and c_i+ - c_i, and keeps c_i+. Over the cohort S of N
clients the server averages the models as FedAvg does (a global step size of 1), and

    c <- c + |S|/N mean_{i in S}(c_i+ - c_i)    (lines 16, 17).

Control variates cover the trained parameters, which come first in a network's vector; running statistics have none.
They are as many bytes again as the trained part of the model, both ways.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import Active, Addition, PlainUpdate, Run
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.tasks import Batch
from tacit.parties.learning.vectors import Layout, decode, encode
from tacit.parties.server import Server
from tacit.protocols.federated.method import Averaged, Extra
from tacit.sim.setting_error import SettingError

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor

__all__ = ["Controls", "Scaffold", "server_control", "update"]


# --- client term


@dataclass(frozen=True)
class Scaffold(Addition):
    """Control variates. `received` is c, or empty in the first round; `sent` is c_i+ - c_i and `kept` c_i+."""

    vectors: ClassVar[float] = 1.0

    def check(self, update: PlainUpdate) -> None:
        if update.momentum:
            before = "SCAFFOLD's control variates are those of plain steps: "
            raise SettingError("momentum", update.momentum, "must be 0", before)

    def begin(self, run: Run, received: bytes, kept: bytes) -> Active:
        return _Controlled(run, received, kept)


class _Controlled(Active):
    def __init__(self, run: Run, received: bytes, kept: bytes) -> None:
        self._run = run
        self._start = [parameter.detach().clone() for parameter in run.parameters]
        self._server = self._vector(received, "SCAFFOLD's control variate")
        self._own = self._vector(kept, "the client's own control variate")
        self._correction = [c - own for c, own in zip(self._server, self._own, strict=True)]

    def _vector(self, data: bytes, what: str) -> "list[Tensor]":
        from tacit.parties.learning.parameters import split

        return split(data, self._start, what) if data else [start.new_zeros(start.shape) for start in self._start]

    def gradients(self, batch: Batch) -> None:
        for parameter, correction in zip(self._run.parameters, self._correction, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(correction)
            elif correction.any():  # a gradient of 0: other clients' batches have reached this parameter
                parameter.grad = correction.clone()

    def finish(self) -> tuple[bytes, bytes]:
        from tacit.parties.learning.parameters import join

        length = self._run.steps * self._run.rate
        if not length:  # nothing was learnt about the drift
            return join([own.new_zeros(own.shape) for own in self._own]), join(self._own)
        ends = zip(self._start, self._run.parameters, self._correction, strict=True)
        new = [(start - parameter.detach()) / length - correction for start, parameter, correction in ends]
        change = [fresh - own for fresh, own in zip(new, self._own, strict=True)]
        return join(change), join(new)


# --- server term


class Controls(Averaged):
    """The server's control variate c, sent to all beside the model."""

    weighted: ClassVar[bool] = False

    def layout(self, spec: ModelSpec) -> Layout:
        return jobs.trained_layout(spec)

    async def take(self, me: Server, mean: bytes, sent: Mapping[str, bytes], models: Mapping[str, bytes]) -> None:
        layout = jobs.trained_layout(me.settings.spec)  # type: ignore[attr-defined]
        self._vector = server_control(self._vector, mean, len(sent) / len(me.clients), layout)


def server_control(control: bytes, mean: bytes, share: float, layout: Layout | None = None) -> bytes:
    """c + |S|/N mean(c_i+ - c_i): c after a round, from the `mean` change of those that answered, a `share` of all.

    `control` is c before it; b"" stands for 0. Without a `layout` all numbers are float32.
    """
    before = decode(control, layout) if control else np.float32(0)
    return encode(before + share * decode(mean, layout), layout)


# --- the method


def update() -> tuple[Extra, ...]:
    """The extras of SCAFFOLD: control variates."""
    return ((Scaffold(), Controls),)
