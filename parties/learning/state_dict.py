"""Networks from files of weights, and files of weights from networks: tensors by the names of the state dict.

| file | read | written |
| --- | --- | --- |
| safetensors | yes | yes |
| a state dict, saved by `torch.save`, read with `weights_only=True` | yes | no |
| ``model.npz`` of a training run | yes | by the run |

A file must have each tensor of the network's state dict, and no other, in the network's shapes and types. A tensor that
has several names in the network (tied weights) may be under one of them. The vector of ``model.npz`` has only the
tensors that travel; the others are those of the built network, or of the file that the run itself began from.

No code of a file is run: safetensors and npz hold numbers, and torch's reader refuses everything but tensors.
"""

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.backend import Tensor, nn, torch
from tacit.parties.learning.extras import require
from tacit.parties.learning.networks import NeuralNetwork
from tacit.parties.learning.spec import KEY, ModelSpec, Weights
from tacit.parties.learning.vectors import Layout, encode
from tacit.sim.setting_error import Problem

__all__ = ["Named", "load_weights", "own_tensors", "tensors_in", "vector_tensors", "write_safetensors"]

_SHOWN = 3
"""The most tensors that an error lists."""


class Named(msgspec.Struct, frozen=True):
    """A tensor in the vector of a network: its name in the state dict, its shape, and the name of its type."""

    name: str
    shape: tuple[int, ...]
    dtype: str


def load_weights(network: NeuralNetwork, weights: Weights) -> None:
    """Give `network` the tensors of the file `weights`. Raises Problem, naming file and tensor, if it does not
    fit."""
    weights.check()
    found, whole = tensors_in(weights.path)
    own = own_tensors(network)
    _check_names(own, found, weights.path, whole)
    for name in (name for name in own if name in found):
        _check_tensor(name, own[name], found[name], weights.path)
    with torch.no_grad():
        for name, tensor in found.items():
            own[name].copy_(tensor)


def own_tensors(network: nn.Module) -> dict[str, Tensor]:
    """The tensors of the network's state dict by name, not copied; extra state that is no tensor is left out.

    Names are those of the user's module, where the network is made of one.
    """
    front = getattr(network, "prefix", "")
    state = network.state_dict(keep_vars=True).items()
    return {name.removeprefix(front): one for name, one in state if isinstance(one, Tensor)}


def tensors_in(path: str) -> tuple[dict[str, Tensor], bool]:
    """The tensors in the file by name, and true if these must be all of the network's. Raises Problem."""
    try:
        if not zipfile.is_zipfile(path):
            return (_torch_file(path) if _is_pickle(path) else _safetensors(path)), True
        with zipfile.ZipFile(path) as held:
            names = held.namelist()
        if any(name.endswith(".npy") for name in names):
            return _model_of_run(path)
        return _torch_file(path), True
    except (OSError, zipfile.BadZipFile) as error:
        _refuse(path, f"cannot be read: {error}")


def _is_pickle(path: str) -> bool:
    with Path(path).open("rb") as file:
        return file.read(1) == b"\x80"  # what torch.save wrote before version 1.6


def _safetensors(path: str) -> dict[str, Tensor]:
    require("safetensors", "train", "a file of weights")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        allowed = "allowed: safetensors, a state dict saved by torch.save, model.npz of a run"
        _refuse(path, f"is not a whole file of safetensors ({error}); {allowed}")


def _torch_file(path: str) -> dict[str, Tensor]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        _refuse(path, f"is no state dict of tensors alone ({reason:.200}); save it by torch.save(module.state_dict())")
    if not isinstance(found, Mapping):
        _refuse(path, f"holds an object of type {type(found).__name__}; allowed: a state dict (names and tensors)")
    strange = [str(name) for name, one in found.items() if not isinstance(one, Tensor)]
    if strange:
        inner = [name for name in strange if isinstance(found[name], Mapping)]
        hint = f"; save that one alone, if {inner[0]!r} is the state dict" if inner else ""
        _refuse(path, f"holds {strange[0]!r}, an object of type {type(found[strange[0]]).__name__}, not a tensor{hint}")
    return {str(name): one for name, one in found.items()}


def _model_of_run(path: str) -> tuple[dict[str, Tensor], bool]:
    """The tensors of the last model in the ``model.npz`` of a run."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if "tensors" not in arrays or "parameters" not in arrays:
                made = "co-training or an earlier version of Tacit" if "spec" in arrays else "another program"
                _refuse(path, f"was made by {made}: it names no tensors; `tacit model RUN` writes them by name")
            named = msgspec.json.decode(str(arrays["tensors"]), type=list[Named])
            spec = msgspec.json.decode(str(arrays["spec"]), type=ModelSpec)
            numbers = arrays["parameters"]
    except (ValueError, KeyError, msgspec.MsgspecError) as error:
        if isinstance(error, Problem):
            raise
        _refuse(path, f"is no model.npz of a run: {error}")
    rest: dict[str, Tensor] = {}
    if spec.weights is not None:  # frozen tensors of that run, which its vector does not have
        spec.weights.check()
        rest, _ = tensors_in(spec.weights.path)
    return rest | vector_tensors(named, numbers, path), False


def vector_tensors(named: list[Named], numbers: NDArray[np.floating], path: str) -> dict[str, Tensor]:
    """The tensors of a vector, as the file `path` has its `numbers`. Raises Problem if there are too few."""
    counts = [int(np.prod(one.shape, dtype=np.int64)) for one in named]
    layout = Layout.of(zip((one.dtype for one in named), counts, strict=True))
    if numbers.shape != (layout.numbers,):
        _refuse(path, f"holds {numbers.size} numbers in parameters, and names tensors with {layout.numbers}")
    vector, at, found = np.frombuffer(encode(numbers, layout), np.uint8).copy(), 0, {}
    for one, count in zip(named, counts, strict=True):
        kind: torch.dtype = getattr(torch, one.dtype)
        size = count * kind.itemsize
        found[one.name] = torch.from_numpy(vector[at : at + size].copy()).view(kind).view(one.shape)
        at += size
    return found


def _check_names(own: Mapping[str, Tensor], found: Mapping[str, Tensor], path: str, whole: bool) -> None:
    """Raise Problem for tensors that the network does not have and, if `whole`, for missing ones."""
    if strange := [name for name in found if name not in own]:
        first = f"tensor {strange[0]!r} is {_described(found[strange[0]])}, and the network has no such tensor"
        missing = [name for name in own if name not in found]
        _refuse(path, f"{first}{_and_others(strange)}{_expected(own, missing)}{_prefix(own, found)}")
    by_tensor = {id(own[name]): name for name in found}
    missing = [name for name, tensor in own.items() if id(tensor) not in by_tensor]
    if missing and whole:
        first = f"tensor {missing[0]!r} is missing: expected {_described(own[missing[0]])}"
        _refuse(path, f"{first}{_and_others(missing)}; found {_list(found)}")


def _check_tensor(name: str, own: Tensor, tensor: Tensor, path: str) -> None:
    """Raise Problem unless `tensor` has the shape and type of the network's tensor `own`, and finite numbers."""
    if tensor.shape != own.shape or tensor.dtype != own.dtype or tensor.layout != torch.strided:
        _refuse(path, f"tensor {name!r}: expected {_described(own)}, found {_described(tensor)}")
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        _refuse(path, f"tensor {name!r}: expected finite numbers, found some that are infinite or not a number")


def _described(tensor: Tensor) -> str:
    sparse = "" if tensor.layout == torch.strided else f"{str(tensor.layout).removeprefix('torch.')} "
    return f"{sparse}{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _expected(own: Mapping[str, Tensor], missing: list[str]) -> str:
    return f"; expected {_list({name: own[name] for name in missing})}" if missing else ""


def _list(tensors: Mapping[str, Tensor]) -> str:
    shown = [f"{name!r} ({_described(one)})" for name, one in [*tensors.items()][:_SHOWN]]
    more = len(tensors) - len(shown)
    return ", ".join(shown or ["no other tensor"]) + (f" and {more} more" if more else "")


def _and_others(names: list[str]) -> str:
    return f" (as {len(names) - 1} more)" if len(names) > 1 else ""


def _prefix(own: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> str:
    """A hint if the names of `found` would fit without, or with, the same text in front of each."""
    for front in dict.fromkeys(name.split(".")[0] + "." for name in found):
        if all(name.startswith(front) and name.removeprefix(front) in own for name in found):
            return f"; without {front!r} in front, the names would fit"
    for front in dict.fromkeys(name.split(".")[0] + "." for name in own):
        if all(front + name in own for name in found):
            return f"; with {front!r} in front, the names would fit"
    return ""


def _refuse(path: str, problem: str) -> NoReturn:
    raise Problem(KEY, f"{path}: {problem}")


def write_safetensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write `tensors` by name to the new file `path`, for `load_state_dict`. Raises FileExistsError and OSError."""
    require("safetensors", "train", "a file of weights")
    from safetensors.torch import save

    copied = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    content = save(copied, metadata={"format": "pt"})
    with path.open("xb") as file:
        file.write(content)
