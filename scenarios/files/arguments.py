"""Checks of arguments from Python code to the public functions: a wrong type is a TypeError in one line."""

import reprlib
from collections.abc import Iterable
from typing import Any

__all__ = ["check_count", "check_type", "check_types"]


def check_type(name: str, value: object, types: type | tuple[type, ...], allowed: str) -> None:
    """Raise TypeError unless `value`, the argument `name`, is an instance of `types`; `allowed` names them in the
    message."""
    wanted = types if isinstance(types, tuple) else (types,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise TypeError(f"{name} is {reprlib.repr(value)}, of type {type(value).__name__}; allowed: {allowed}")


def check_types(name: str, values: Iterable[Any], kind: type, allowed: str) -> None:
    """Raise TypeError unless `values`, the argument `name`, is a list or tuple of `kind`; `allowed` is for the
    message."""
    check_type(name, values, (list, tuple), allowed)
    for number, value in enumerate(values):
        check_type(f"{name}[{number}]", value, kind, allowed)


def check_count(name: str, value: object, least: int) -> None:
    """Raise TypeError unless `value`, the argument `name`, is a whole number, and ValueError if it is below `least`."""
    check_type(name, value, int, f"a whole number from {least}")
    if isinstance(value, int) and value < least:
        raise ValueError(f"{name} is {value}; allowed: a whole number from {least}")
