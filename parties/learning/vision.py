"""torchvision, imported in a way that also works with a CPU-only build of torch.

torchvision's wheels are built for CUDA. Beside a torch without it their compiled library does not load, and importing
torchvision then fails at the first operator it describes ("operator torchvision::nms does not exist"). Models,
transforms and data sets need none of these operators: it is enough to declare the two that are described, without an
implementation. Everything in Tacit that uses torchvision imports it through this module.
"""

import functools
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["torchvision"]

_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)

_declared: list["torch.library.Library"] = []
"""The declared operators; the declarations would be removed with these objects."""


@functools.cache
def torchvision() -> ModuleType:
    """The module torchvision, with `models`, `transforms.v2` and `datasets`. Raises ModuleNotFoundError in one line."""
    for needed in ("torch", "torchvision"):
        if importlib.util.find_spec(needed) is None:
            raise ModuleNotFoundError(
                f"{needed} is not installed; get it by: pip install 'tacit-fl[train]'", name=needed
            )
    import torch

    if not _loads():
        library = torch.library.Library("torchvision", "DEF")
        for operator in _OPERATORS:
            library.define(operator)
        _declared.append(library)
    for part in ("datasets", "models", "transforms.v2"):
        importlib.import_module(f"torchvision.{part}")
    return importlib.import_module("torchvision")


def _loads() -> bool:
    """Try to load torchvision's compiled library, as importing torchvision does; return true on success."""
    import torch

    place = importlib.util.find_spec("torchvision")
    homes = (place.submodule_search_locations if place else None) or ()
    for library in (path for home in homes for path in Path(home).glob("_C*.so")):
        try:
            torch.ops.load_library(str(library))
        except OSError:
            continue
        return True
    return False
