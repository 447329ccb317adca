"""Twenty kinds of modules whose state could go from one job to the next, as a plugin that adds them as models."""

import random
from collections import deque
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tacit import ModelSpec, add_model

WIDTH = 6


def hidden(spec: ModelSpec, *more: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(spec.shape).numel(), WIDTH), *more)


class Centre(nn.Module):
    """Subtracts the mean of all points seen in training; `assigned`: new buffers take the place of the old ones."""

    total: Tensor
    seen: Tensor

    def __init__(self, assigned: bool) -> None:
        super().__init__()
        self.assigned = assigned
        self.register_buffer("total", torch.zeros(WIDTH))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.assigned:
            self.total, self.seen = self.total + x.detach().sum(0), self.seen + len(x)
        elif self.training:
            self.total += x.detach().sum(0)
            self.seen += len(x)
        return x - self.total / self.seen.clamp(min=1)


class Mask(nn.Module):
    """Drops the units that were zero in the last batch: a buffer of truth values, and one that no state dict holds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.ones(WIDTH, dtype=torch.bool))
        self.register_buffer("scale", torch.ones(WIDTH), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        found = x * self.kept.clone() * self.scale.clone()
        self.kept.copy_(x.detach().sum(0) > 0)
        self.scale.mul_(0.9)
        return found


class Attributes(nn.Module):
    """Memory in plain attributes: a number, a tensor that comes later, one that is changed, a list, an array."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.calls, self.mean = kind, 0, torch.zeros(WIDTH)
        self.before: Tensor | None = None
        self.queue: list[float] = []
        self.array, self.last = np.zeros(WIDTH, np.float32), deque([0.0], maxlen=3)

    def forward(self, x: Tensor) -> Tensor:
        mean = x.detach().mean(0)
        if self.kind == "number":
            self.calls += 1
            return x / self.calls
        if self.kind == "later":
            x, self.before = (x if self.before is None else x + self.before), mean
        elif self.kind == "changed":
            self.mean.mul_(0.5).add_(mean)
            x = x - self.mean
        elif self.kind == "list":
            self.queue.append(float(mean.sum()))
            x = x + sum(self.queue)
        elif self.kind == "array":
            self.array += mean.numpy()
            x = x + torch.from_numpy(self.array)
        else:
            self.last.append(float(mean.sum()))
            x = x + max(self.last)
        return x


class Draws(nn.Module):
    """Noise from a generator that the module holds."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.torch, self.numpy = torch.Generator().manual_seed(3), np.random.default_rng(3)
        self.kind, self.python = kind, random.Random(3)

    def forward(self, x: Tensor) -> Tensor:
        if self.kind == "torch":
            return x + torch.randn(x.shape, generator=self.torch)
        if self.kind == "numpy":
            return x + torch.from_numpy(self.numpy.standard_normal(tuple(x.shape)).astype(np.float32))
        return x + self.python.random()


class Hooked(nn.Module):
    """Adds a hook in every call, each of which adds to the output."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.inner(x)
        self.inner.register_forward_hook(lambda module, inputs, output: output + 0.1)
        return found


def closure(spec: ModelSpec) -> Any:
    """A hook whose closure remembers what it has seen."""
    seen: list[Tensor] = []

    def remember(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        seen.append(output.detach().mean(0))
        return output - sum(seen) / len(seen)

    body = hidden(spec)
    body.register_forward_hook(remember)
    return body, nn.Linear(WIDTH, spec.classes)


class Thaws(nn.Module):
    """Trains its layer at first, and freezes it and the mode of its dropout in the third call."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout, self.calls = nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == 3:
            self.dropout.eval()
            self.layer.requires_grad_(False)
        return x + self.dropout(self.layer(x))


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(8, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x.reshape(len(x), -1, 8))[0][:, -1]
        return found


class Stateful(nn.Module):
    """A cell that goes on from the state of the batch before."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(WIDTH, WIDTH)
        self.state: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        before = None if self.state is None else tuple(one.mean(0).expand(len(x), -1) for one in self.state)
        after: tuple[Tensor, Tensor] = self.cell(x, before)
        self.state = (after[0].detach(), after[1].detach())
        return after[0]


class Precise(nn.Module):
    def __init__(self, spec: ModelSpec, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(torch.Size(spec.shape).numel(), WIDTH).to(dtype), nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.norm(self.layer(x.flatten(1).to(self.layer.weight.dtype)).float())
        return found


def frozen(spec: ModelSpec) -> Any:
    body = hidden(spec)
    body.requires_grad_(False)
    return nn.Sequential(body, nn.Linear(WIDTH, WIDTH), nn.Tanh()), nn.Linear(WIDTH, spec.classes)


def lora(spec: ModelSpec) -> Any:
    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(torch.Size(spec.shape).numel(), WIDTH).requires_grad_(False)
            self.down, self.up = (
                nn.Parameter(torch.randn(2, self.layer.in_features) * 0.1),
                nn.Parameter(torch.zeros(WIDTH, 2)),
            )
            self.table = nn.Parameter(torch.zeros(4, dtype=torch.int8), requires_grad=False)
            self.spare = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = x.flatten(1)
            found: Tensor = self.layer(x) + x @ self.down.T @ self.up.T
            return found

    return Adapted(), nn.Linear(WIDTH, spec.classes)


def old_norms(spec: ModelSpec) -> Any:
    linear = nn.Linear(torch.Size(spec.shape).numel(), WIDTH)
    with_warning: Any = nn.utils.weight_norm
    return nn.Sequential(nn.Flatten(), with_warning(linear)), nn.utils.spectral_norm(nn.Linear(WIDTH, spec.classes))


def after(make: Any) -> Any:
    return lambda spec: (hidden(spec, make()), nn.Linear(WIDTH, spec.classes))


_spectral = nn.utils.parametrizations.spectral_norm
ZOO: dict[str, Any] = {
    "bn": after(lambda: nn.BatchNorm1d(WIDTH)),
    "bn_cumulative": after(lambda: nn.BatchNorm1d(WIDTH, momentum=None)),
    "spectral": lambda spec: (hidden(spec), _spectral(nn.Linear(WIDTH, spec.classes))),
    "old_norms": old_norms,
    "centred": after(lambda: Centre(False)),
    "centred_assigned": after(lambda: Centre(True)),
    "mask": after(Mask),
    **{f"attribute_{kind}": after(partial(Attributes, kind)) for kind in
       ("number", "later", "changed", "list", "array", "deque")},
    **{f"draws_{kind}": after(partial(Draws, kind)) for kind in ("torch", "numpy", "python")},
    "hooked": after(Hooked),
    "closure": closure,
    "thaws": after(Thaws),
    "stateful": after(Stateful),
    "lstm": lambda spec: (Recurrent("LSTM"), nn.Linear(WIDTH, spec.classes)),
    "gru": lambda spec: (Recurrent("GRU"), nn.Linear(WIDTH, spec.classes)),
    "half": lambda spec: (Precise(spec, torch.float16), nn.Linear(WIDTH, spec.classes)),
    "bfloat": lambda spec: (Precise(spec, torch.bfloat16), nn.Linear(WIDTH, spec.classes)),
    "lazy": lambda spec: (
        nn.Sequential(nn.Flatten(), nn.LazyLinear(WIDTH), nn.LazyBatchNorm1d()), nn.LazyLinear(spec.classes)
    ),
    "frozen": frozen,
    "lora": lora,
}  # fmt: skip
"""The functions that make body and last layer, by name."""

for name, build in ZOO.items():
    add_model(f"zoo_{name}", name, build)
