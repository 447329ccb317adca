"""Mistakes in user classes that Python does not detect: a method that is never called, or is called differently.

A class of a plugin derives from one of Tacit, which calls its methods by their names. A method with a misspelt name is
never called, and one with other parameters fails in the middle of a run: both are found when the class is added.
"""

import difflib
import inspect
from inspect import Parameter
from types import FunctionType

from tacit.sim import plugged

__all__ = ["check_class"]

_CLOSE = 0.75
"""The least similarity of two names for one to count as a misspelling of the other; 1 means equal."""


def check_class(kind: type) -> None:
    """Check the attributes that a plugin's class defines against those of the classes of Tacit that it derives from.

    Warns of each whose name is close to one that Tacit asks for. Raises ValueError for a method that is not defined by
    `async def` where Tacit awaits it, or the other way round, and for one that cannot be called as Tacit calls it.
    """
    bases = [one for one in reversed(kind.__mro__) if _is_of_tacit(one)]
    own = [one for one in reversed(kind.__mro__) if not _is_of_tacit(one) and _root(one) == _root(kind)]
    known = {name: one for one in bases for name in vars(one) if _is_public(name)}
    defined = {name: one for one in own for name in vars(one) if _is_public(name)}
    for name, owner in defined.items():
        if name in known:
            _check_method(owner, name, known[name])
        elif close := difflib.get_close_matches(name, [one for one in known if one not in defined], 1, _CLOSE):
            hint = f"did you mean {close[0]}? A name of your own may begin with _"
            plugged.warn(f"{place_of(owner, name)}Tacit does not use {owner.__name__}.{name}; {hint}")


def place_of(kind: type, name: str = "") -> str:
    """The file and the line of the class, or of its method `name`, as the beginning of a line; "" if unknown."""
    code = getattr(vars(kind).get(name), "__code__", None)
    try:
        file = code.co_filename if code else inspect.getfile(kind)
        line = code.co_firstlineno if code else inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        return ""
    return f"{file}: line {line}: "


def _is_of_tacit(kind: type) -> bool:
    return _root(kind) == "tacit" and not plugged.is_plugged(kind.__module__)


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _check_method(owner: type, name: str, base: type) -> None:
    mine, theirs = vars(owner)[name], vars(base)[name]
    if not (inspect.isfunction(mine) and inspect.isfunction(theirs)):
        return
    where, awaited = f"the {name} of {owner.__name__}", inspect.iscoroutinefunction(theirs)
    if inspect.iscoroutinefunction(mine) != awaited:
        raise ValueError(f"{where} must be defined by {'async def' if awaited else 'def'}.")
    wanted = _parameters(theirs)
    try:
        inspect.signature(mine).bind(*wanted)
    except TypeError as error:
        raise ValueError(f"{where} must take ({', '.join(wanted)}): {error}.") from None


def _parameters(method: FunctionType) -> list[str]:
    """The names of the positional parameters without defaults of a method of Tacit."""
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(method).parameters.values()
    return [one.name for one in parameters if one.kind in kinds and one.default is Parameter.empty]
