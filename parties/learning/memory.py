"""The memory of a network: all that its modules hold beside their tensors, which is put back before each job.

A module may count its calls, keep a hidden state, collect outputs in a list, or switch a part of it to another mode.
`Memory` remembers all attributes of all modules as they were built, and `Memory.restore` puts back what has changed
since. Attributes of numbers, texts and such containers, which nearly all modules have alone, are compared by one
operation a module. Others are compared by a copy: tensors and arrays, generators, objects, closures of hooks.

State outside of the network is not seen: globals of a plugin, attributes of its classes, files.
"""

import collections
import enum
import functools
import pickle
import types
import weakref
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from tacit.parties.learning.backend import Tensor, nn, torch
from tacit.parties.learning.spec import ModelSpec

__all__ = ["Memory"]

_ATOMS = (
    type(None), bool, int, float, complex, str, bytes, type, range, slice, enum.Enum, np.generic, np.dtype,
    torch.dtype, torch.device, torch.layout, torch.memory_format, types.ModuleType, types.BuiltinFunctionType,
    weakref.ReferenceType, type(Ellipsis), ModelSpec,
)  # fmt: skip
"""The types of values that do not change."""

_OWN = frozenset({"_parameters", "_buffers"})
"""The attributes of a module that hold the network's tensors, which `parameters` restores."""

_DIFFERENT = (RuntimeError, ValueError, TypeError)
"""The errors of comparing a number with a tensor or an array."""


class Memory:
    """The attributes of the modules of `network`, which has just been built, apart from its parameters and buffers."""

    def __init__(self, network: nn.Module, tensors: Collection[Tensor]) -> None:
        fixed = {id(tensor) for tensor in tensors} | {id(module) for module in network.modules()}
        self._pictures = _Pictures(fixed)
        self._modules = [_Attributes(module, self._pictures) for module in network.modules()]

    def restore(self) -> bool:
        """Put back what has changed; return false if the network must be built again for it."""
        return all([attributes.restore() for attributes in self._modules])


class _Attributes:
    """The attributes of one module."""

    def __init__(self, module: nn.Module, pictures: "_Pictures") -> None:
        self._now, self._pictures = module.__dict__, pictures
        self._count = len(self._now)
        self._plain: dict[str, Any] = {}
        self._others: dict[str, tuple[Any, Any]] = {}
        for name, value in self._now.items():
            if name == "_modules" or (name not in _OWN and _is_plain(value)):
                self._plain[name] = _copied(value) if name != "_modules" else dict(value)
            elif name not in _OWN:
                self._others[name] = value, pictures.tensor(value) if isinstance(value, Tensor) else pictures.of(value)

    def restore(self) -> bool:
        now = self._now
        try:
            same = len(now) == self._count and self._plain.items() <= now.items()
        except _DIFFERENT:
            same = False
        return (same or self._restore_plain()) and (not self._others or self._restore_others())

    def _restore_plain(self) -> bool:
        now = self._now
        for name in [name for name in now if not (name in self._plain or name in self._others or name in _OWN)]:
            del now[name]
        for name, value in self._plain.items():
            if name in now and _equal(now[name], value):
                continue
            if not _is_atom(value):
                return False
            now[name] = value
        return True

    def _restore_others(self) -> bool:
        now = self._now
        for name, (value, picture) in self._others.items():
            if isinstance(value, Tensor):
                now[name] = value
                if picture is not None and not picture.restored(value):
                    return False
            elif name not in now or picture is None or not _equal(self._pictures.of(now[name]), picture):
                return False
        return True


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except _DIFFERENT:
        return False


def _is_atom(value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        return not (value.__closure__ or value.__defaults__ or value.__kwdefaults__)
    if type(value) in (tuple, torch.Size, frozenset):
        return all(map(_is_atom, value))
    return isinstance(value, _ATOMS)


def _is_plain(value: Any) -> bool:
    if type(value) in (dict, collections.OrderedDict):
        return all(_is_atom(key) and _is_plain(one) for key, one in value.items())
    if type(value) in (list, tuple, set):
        return all(map(_is_plain, value))
    return _is_atom(value)


def _copied(value: Any) -> Any:
    if type(value) in (dict, collections.OrderedDict):
        return type(value)((key, _copied(one)) for key, one in value.items())
    return type(value)(map(_copied, value)) if type(value) in (list, tuple, set) else value


class _Numbers:
    """The numbers of a tensor at a time."""

    def __init__(self, tensor: Tensor) -> None:
        self._numbers = tensor.detach().clone()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Numbers) and torch.equal(self._numbers, other._numbers)

    def restored(self, tensor: Tensor) -> bool:
        """Put the numbers back into `tensor`; return false if it has got another shape or type."""
        if tensor.shape != self._numbers.shape or tensor.dtype != self._numbers.dtype:
            return False
        if not torch.equal(tensor, self._numbers):
            with torch.no_grad():
                tensor.detach().copy_(self._numbers)
        return True


class _Pictures:
    """Values as nested tuples that are equal if the values have not changed; objects with `fixed` ids never do."""

    def __init__(self, fixed: Collection[int]) -> None:
        self._fixed = fixed

    def tensor(self, value: Tensor) -> "_Numbers | None":
        """The numbers of `value`; None for one of the network's own, which others restore."""
        return None if id(value) in self._fixed else _Numbers(value)

    def of(self, value: object) -> Any:
        """The picture of `value`; None if there is none."""
        try:
            return self._of(value, {})
        except (pickle.PicklingError, RecursionError, AttributeError, *_DIFFERENT):
            return None

    def _of(self, value: Any, seen: dict[int, int]) -> Any:
        if id(value) in self._fixed:
            return "fixed", id(value)
        if _is_atom(value):
            return "atom", value
        if id(value) in seen:
            return "seen", seen[id(value)]
        seen[id(value)] = len(seen)
        inner = functools.partial(self._of, seen=seen)
        for kind, parts in _PARTS:
            if isinstance(value, kind):
                return type(value), tuple(part if isinstance(part, _Numbers) else inner(part) for part in parts(value))
        if callable(getattr(value, "getstate", None)):  # as Python's own generators
            return type(value), inner(value.getstate())
        if hasattr(value, "__dict__"):
            return type(value), inner(vars(value))
        return type(value), pickle.dumps(value)


_PARTS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (Tensor, lambda value: [_Numbers(value)]),
    (np.ndarray, lambda value: [value.shape, value.dtype.str, value.tolist() if value.dtype == object else bytes(value)]),  # noqa: E501
    (torch.Generator, lambda value: [_Numbers(value.get_state())]),
    (dict, lambda value: [part for item in value.items() for part in item] + _vars(value)),
    ((list, tuple, collections.deque), lambda value: [*value, *_vars(value)]),
    ((set, frozenset), lambda value: sorted(value, key=repr)),
    (types.FunctionType, lambda value: [
        value.__code__, *(cell.cell_contents for cell in value.__closure__ or ()), value.__defaults__,
        value.__kwdefaults__,
    ]),
    (types.CodeType, lambda value: [id(value)]),
    (types.MethodType, lambda value: [value.__func__, value.__self__]),
    (functools.partial, lambda value: [value.func, value.args, value.keywords]),
)  # fmt: skip
"""The parts of the picture of a value of each type."""


def _vars(value: object) -> list[Any]:
    return [vars(value)] if getattr(value, "__dict__", None) else []
