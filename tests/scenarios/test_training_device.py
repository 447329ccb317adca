"""The device that trains networks changes neither messages nor virtual time: a GPU, and a stand-in for one.

The stand-in rounds as badly as no device does: whenever a vector is loaded into a network, its numbers change by some
percent. So models, features, predictions and labels all differ, and what a run sends and counts must not follow them.
"""

from pathlib import Path

import pytest
import torch

from tacit import Result, load, run
from tacit.parties.learning import jobs, parameters
from tacit.parties.learning.backend import Tensor
from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.spec import ModelSpec
from tacit.protocols.registry import PROTOCOLS
from tests.photographs import drawn

FAMILIES = {
    "averaging": ("fedavg", "training.momentum=0.5", "training.augmentation=rotate-flip"),
    "averaging, by Adam": ("fedavg", "training.optimizer=adam", "training.learning_rate=0.01"),
    "secure averaging of quantised numbers": ("fedavg", "training.averaging=secure", "sum.value_bits=16"),
    "control variates": ("scaffold",),
    "a proximal term": ("fedprox",),
    "pseudo-labels by XCLP": ("fedavg+xclp",),
    "pseudo-labels by XCLP, and a teacher": ("fedprop+mt",),
    "pseudo-labels by each client": ("fedavg+perclient-lp",),
    "pseudo-labels by the network": ("fedavg+network",),
    "consistency between clients": ("fedmatch",),
    "two views of a point": ("fedsiam", "training.augmentation=translate-flip"),
    "buffered averaging": ("fedbuff", "training.buffer=3"),
    "prediction with a trained network": ("fedavg-then-xclp",),
    "differential privacy": ("dp-fedavg",),
    "co-training by labels": ("fedct", "public.size=40"),
    "co-training by probabilities": ("dd", "public.size=40"),
    "teachers": ("pate", "public.size=40"),
    "the 13-layer network on pixels, and pseudo-labels by XCLP": (
        "fedavg+xclp", "data.name=cifar10", "model.name=cnn13", "model.width=0.02",
        "training.augmentation=translate-flip",
    ),
    "inference of membership": ("fedavg", "attack.kind=membership", "attack.points=20", "training.rounds=1"),
}  # fmt: skip
"""For each family the protocol and further changes to the tiny scenario."""


@pytest.fixture
def scenario(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the tiny scenario, with images in place of CIFAR-10 in its folder."""
    drawn(tiny.parent / "data", monkeypatch, 80, 20)
    return tiny


ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")


def _ran(scenario: Path, family: str, device: str, out: str) -> Result:
    protocol, *changes = FAMILIES[family]
    quick = ["learner.steps=3", "cotraining.rounds=2"] if "learner.steps" in PROTOCOLS[protocol].uses else []
    asked = [f"protocol.name={protocol}", *quick, *changes, f"training.device={device}"]
    result = run(load(scenario, asked), out=scenario.parent / out)
    assert result.error is None and result.outcome == "completed", result.reason
    return result


def _differ_in_content_only(here: Result, there: Result) -> None:
    for field in ("shape_hash", "virtual_seconds", "message_count", "bytes_total", "bytes_payload", "lost"):
        assert getattr(there, field) == getattr(here, field), field


@pytest.mark.parametrize("family", FAMILIES)
@ON_GPU
def test_a_gpu_changes_neither_shape_nor_bytes_nor_virtual_time(scenario: Path, family: str) -> None:
    here, there = (_ran(scenario, family, device, device) for device in ("cpu", "cuda"))
    assert (here.environment["device"], there.environment["device"]) == ("cpu", torch.cuda.get_device_name())
    _differ_in_content_only(here, there)


ALIKE = {
    "averaging, by Adam", "a proximal term", "pseudo-labels by XCLP", "pseudo-labels by each client",
    "pseudo-labels by the network",
}  # fmt: skip
"""Families that send what others send, tested by the long tests."""


@pytest.mark.parametrize("family", [pytest.param(one, marks=[pytest.mark.long] * (one in ALIKE)) for one in FAMILIES])
def test_rounding_of_another_device_changes_neither_shape_nor_bytes_nor_virtual_time(
    scenario: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = _ran(scenario, family, "cpu", "here")
    exactly, random = parameters._load, torch.Generator().manual_seed(7)

    def badly(tensors: list[Tensor], data: bytes, what: str) -> None:
        exactly(tensors, data, what)
        with torch.no_grad():
            for tensor in filter(torch.is_floating_point, tensors):
                tensor.mul_(1 + 0.03 * torch.randn(tensor.shape, generator=random))

    monkeypatch.setattr(parameters, "_load", badly)
    there = _ran(scenario, family, "cpu", "there")
    assert there.trace_hash != here.trace_hash  # models or what follows from them were sent
    _differ_in_content_only(here, there)


def test_modelled_work_does_not_depend_on_the_device() -> None:
    spec = ModelSpec("linear", (1, 8, 8), 10)
    works = [jobs.train_work(spec, LocalUpdate(device=device), 20, 0) for device in ("auto", "cpu", "cuda")]
    assert works[0] == works[1] == works[2]
