"""The global random generators of Python, numpy and torch, from which code that is not Tacit's draws.

Tacit itself draws from streams (`tacit.sim.streams`). A user's network, sum, server step or data set may call
``random.random()``, ``numpy.random.normal()`` or ``torch.randn()``. Such code runs inside `seeded`, or, if it waits
for messages, as a `carried` coroutine: the generators start from a stream of its own and are restored afterwards.

A generator that the code makes itself without a seed is out of reach, with one exception: inside these contexts
``numpy.random.default_rng()``, called by this name, takes its seed from numpy's global generator.
"""

import random
import sys
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import coroutine
from typing import Any, TypeVar

import numpy as np

__all__ = ["Generators", "carried", "carried_on", "drawing_from", "run_seeded", "seeded", "states"]

R = TypeVar("R")

_default_rng: Callable[..., Any] = np.random.default_rng
_numpy: Any = np.random
_spare: list[Any] = []
"""Generators of numpy that nobody uses: to make one takes a tenth of a millisecond."""

_own: ContextVar["Generators | None"] = ContextVar("generators", default=None)
"""The generators of the coroutine that runs; its tasks inherit them."""


def _seeded_rng(seed: Any = None) -> Any:
    """Replace ``numpy.random.default_rng``: without a `seed` it takes one from numpy's global generator."""
    return _default_rng(np.random.randint(2**31, size=4) if seed is None else seed)


def states() -> tuple[Any, ...]:
    """The states of the global generators of Python, numpy and, if it is loaded, torch."""
    torch = sys.modules.get("torch")
    return random.getstate(), np.random.get_state(), torch.get_rng_state() if torch else None


def _set(before: tuple[Any, ...]) -> None:
    torch = sys.modules.get("torch")
    random.setstate(before[0])
    np.random.set_state(before[1])
    if torch and before[2] is not None:
        torch.set_rng_state(before[2])


@contextmanager
def drawing_from(found: tuple[Any, ...]) -> Iterator[None]:
    """Inside this context the global generators have the `states` that were `found`; afterwards they continue as
    before."""
    before, rng = states(), _numpy.default_rng
    _set(found)
    _numpy.default_rng = _seeded_rng
    try:
        yield
    finally:
        _numpy.default_rng = rng
        _set(before)


class _Awaited(MetaPathFinder):
    """Seeds torch with a `number` if it is imported: whether some other code has imported it must make no difference.

    `before`: the state of its generator before that.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self.before: Any = None

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_seed(module: Any) -> None:
                execute(module)
                self.before = module.get_rng_state()
                module.default_generator.manual_seed(self._number)

            spec.loader.exec_module = execute_and_seed  # type: ignore[method-assign]
        return spec


class Generators:
    """The global generators of some code, seeded with a `number` in [0, 2^64) and kept between two uses.

    As a context it puts them in place, and the former ones back. A value of numpy's that is drawn in pairs
    (``numpy.random.normal``) is not kept from one use to the next.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._kept: tuple[Any, Any, Any] | None = None
        self._before: tuple[Any, ...] = ()
        self._awaited: _Awaited | None = None

    def __enter__(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None:
            self._awaited = _Awaited(self._number % 2**63)
            sys.meta_path.insert(0, self._awaited)
        state = torch.get_rng_state() if torch else None
        self._before = random.getstate(), _numpy.get_bit_generator(), _numpy.default_rng, state
        if self._kept is None:
            own = _spare.pop() if _spare else np.random.MT19937(0)
            random.seed(self._number)
            own._legacy_seeding(self._number % 2**32)  # what numpy.random.seed does
            if torch:
                torch.default_generator.manual_seed(self._number % 2**63)
        else:
            python, own, tensor = self._kept
            random.setstate(python)
            if torch and tensor is not None:
                torch.set_rng_state(tensor)
            elif torch:  # which somebody else has imported in between
                torch.default_generator.manual_seed(self._number % 2**63)
        _numpy.set_bit_generator(own)
        _numpy.default_rng = _seeded_rng

    def __exit__(self, *_: object) -> None:
        torch = sys.modules.get("torch")
        self._kept = random.getstate(), _numpy.get_bit_generator(), torch.get_rng_state() if torch else None
        self._restore()

    def _restore(self) -> None:
        python, bits, rng, tensor = self._before
        self._before = ()
        random.setstate(python)
        _numpy.set_bit_generator(bits)
        _numpy.default_rng = rng
        if self._awaited is not None:
            tensor = self._awaited.before
            if self._awaited in sys.meta_path:
                sys.meta_path.remove(self._awaited)
            self._awaited = None
        if tensor is not None:
            sys.modules["torch"].set_rng_state(tensor)


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Inside this context the global generators of Python, numpy and torch start from `number`, in [0, 2^64);
    afterwards they continue as before."""
    generators = Generators(number)
    generators.__enter__()
    try:
        yield
    finally:
        own = _numpy.get_bit_generator()
        generators._restore()
        _spare.append(own)


def run_seeded(number: int, function: Callable[..., R], arguments: tuple[Any, ...]) -> R:
    """Return `function(*arguments)`, computed in the context `seeded`: a job of code that is not Tacit's."""
    with seeded(number):
        return function(*arguments)


@coroutine
def _carried(generators: Generators, program: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
    send, value = program.send, None
    while True:
        with generators:
            try:
                awaited = send(value)
            except StopIteration as end:
                found: R = end.value
                return found
        try:
            send, value = program.send, (yield awaited)
        except GeneratorExit:
            program.close()
            raise
        except BaseException as error:
            send, value = program.throw, error


async def carried(generators: Generators, program: Coroutine[Any, Any, R]) -> R:
    """Await `program`, a coroutine, each of whose steps, and of the tasks that it creates, draws from `generators`."""
    token = _own.set(generators)
    try:
        return await _carried(generators, program)
    finally:
        _own.reset(token)


def carried_on(program: Coroutine[Any, Any, R]) -> Coroutine[Any, Any, R]:
    """The coroutine of a new task: `program`, with the generators of the coroutine that creates it, if it has some."""
    generators = _own.get()
    return program if generators is None else _carried_task(generators, program)


async def _carried_task(generators: Generators, program: Coroutine[Any, Any, R]) -> R:
    return await _carried(generators, program)
