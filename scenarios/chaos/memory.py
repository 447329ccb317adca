"""An engine that remembers the results of jobs, most of which are equal in thousands of runs of one scenario.

A job's result depends only on its arguments, as for a pool, so the trace is that of any other engine.
"""

import hashlib
import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Remembering"]

R = TypeVar("R")


class Remembering:
    """Runs a job in this process when its result is due, unless one with the same arguments has run.

    It stores at most `most` bytes of results, the most recently used. Each use returns a copy.
    """

    name = "inline"
    least = 0.0

    def __init__(self, most: int = 64 << 20) -> None:
        self._most, self._size = most, 0
        self._results: OrderedDict[bytes, bytes] = OrderedDict()

    def submit(self, function: Callable[..., R], arguments: tuple[Any, ...]) -> "_Remembered":
        return _Remembered(self, function, arguments)

    def close(self) -> None:
        pass

    @property
    def computed(self) -> int:
        """The number of jobs whose results are stored."""
        return len(self._results)

    def forget(self) -> None:
        """Drop all results, because the functions may have changed."""
        self._results.clear()
        self._size = 0

    def result(self, function: Callable[..., R], arguments: tuple[Any, ...]) -> R:
        """The job's result."""
        try:
            key = hashlib.sha256(_plain_pickle((function, arguments))).digest()
        except (pickle.PicklingError, AttributeError, TypeError, ValueError):  # not all of it can be pickled
            return function(*arguments)
        known = self._results.get(key)
        if known is None:
            known = self._results[key] = pickle.dumps(function(*arguments))
            self._size += len(known)
            while self._size > self._most:
                _, oldest = self._results.popitem(last=False)
                self._size -= len(oldest)
        else:
            self._results.move_to_end(key)
        copy: R = pickle.loads(known)
        return copy


def _plain_pickle(value: Any) -> bytes:
    """Pickle `value` so that equal values have equal bytes, even if parts of them are shared objects."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer)
    pickler.fast = True
    pickler.dump(value)
    return buffer.getvalue()


class _Remembered:
    def __init__(self, memory: Remembering, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._memory, self._function, self._arguments = memory, function, arguments

    def result(self) -> Any:
        return self._memory.result(self._function, self._arguments)

    def cancel(self) -> None:
        self._arguments = ()
