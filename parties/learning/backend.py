"""Torch as every training module uses it: one thread, deterministic, on the processor or a GPU.

Torch is in the extra `train`. Code that draws from global generators (initialisation, dropout, a user's network) runs
inside `seeded`, which sets them and restores them afterwards; all other code uses its own generators. One thread is
used because small batches gain nothing from several, parties compute at the same time, and sums over several threads
would depend on their number.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tacit.parties.learning.extras import require
from tacit.sim import seeding
from tacit.sim.compute import interrupts_held_back, preloaded
from tacit.sim.setting_error import SettingError
from tacit.sim.streams import derive

preloaded.add("tacit.parties.learning.sgd")  # in workers, while this process imports torch

try:
    with interrupts_held_back():
        import torch
        from torch import nn
except ModuleNotFoundError:
    require("torch", "train", "training")
    raise

__all__ = ["Tensor", "choose_device", "generator", "nn", "seeded", "torch"]

Tensor = torch.Tensor

torch.set_num_threads(1)
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False


def choose_device(name: str) -> torch.device:
    """The device written as ``cpu``, ``cuda``, or ``auto`` (the GPU if there is one). Raises ValueError."""
    if name not in ("auto", "cpu", "cuda"):
        raise SettingError("device", name, "must be auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device = 'cuda', but torch finds no GPU here; device = 'auto' takes the processor then")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def generator(seed: int | bytes, *names: str | int) -> torch.Generator:
    """A generator on the processor for the stream (seed, names)."""
    return torch.Generator().manual_seed(_number(seed, *names))


@contextmanager
def seeded(device: torch.device, seed: int | bytes, *names: str | int) -> Iterator[None]:
    """Set the global generators of torch, numpy and Python to the stream (seed, names) inside the context, and restore
    them afterwards."""
    number = _number(seed, *names)
    with seeding.seeded(number):
        torch.default_generator.manual_seed(number)
        if device.type == "cuda":
            with torch.random.fork_rng(devices=[torch.cuda.current_device()]):
                torch.cuda.manual_seed(number)
                yield
        else:
            yield


def _number(seed: int | bytes, *names: str | int) -> int:
    return int.from_bytes(derive(seed, "torch", *names)[:8], "big")
