"""torchvision with any version of torch, and a one-line error without it."""

import importlib.util
import subprocess
import sys

import pytest

from tacit.parties.learning.vision import torchvision

HIDE = """
import sys
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == sys.argv[1] else found(name)
from tacit.parties.learning.vision import torchvision
try:
    torchvision()
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="needs the extra train")
def test_torchvision_models_transforms_and_data_sets_can_be_used():
    import torch

    vision = torchvision()
    assert vision is torchvision()
    images = torch.zeros(2, 3, 32, 32)
    assert vision.models.resnet18(num_classes=7).eval()(images).shape == (2, 7)
    assert vision.transforms.v2.RandomHorizontalFlip(1.0)(images).shape == images.shape
    assert issubclass(vision.datasets.MNIST, torch.utils.data.Dataset)


@pytest.mark.parametrize("missing", ["torch", "torchvision"])
def test_without_torch_or_torchvision_one_line_names_the_command_to_install(missing):
    if missing == "torchvision" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is missing first")
    done = subprocess.run([sys.executable, "-c", HIDE, missing], capture_output=True, text=True, check=True)
    assert done.stdout == f"{missing} is not installed; get it by: pip install 'tacit-fl[train]'\n"
