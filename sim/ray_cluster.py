"""A connection to Ray (https://docs.ray.io), which runs calls on this machine or on the nodes of a cluster.

Ray moves only bytes that this module encodes and decodes: a call's function and arguments, and its outcome. A long
array or byte string among the arguments is put into Ray's store once and reused; Ray itself would store it at every
call. Results are copies that belong to the caller, like those of a pool.
"""

import atexit
import functools
import hashlib
import importlib.util
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import Any, TypeVar

from tacit.sim import own_code, plugged
from tacit.sim.compute import ONE_THREAD, interrupts_held_back

__all__ = [
    "LARGE",
    "ONE_CPU",
    "RETRIES",
    "SILENCE",
    "Cluster",
    "ClusterError",
    "carried_out",
    "installed",
    "line_of",
    "outcome_of",
    "own_node",
    "unfit",
]

R = TypeVar("R")

LARGE = 100_000
"""The size in bytes from which a part of the arguments is put into the store; Ray sends shorter ones with the call."""

_NO_ANSWER = 5.0
"""The seconds that a head has for accepting a connection."""

SILENCE = 60.0
"""The seconds that a node, or the head, has for answering a question before it counts as frozen.

A busy node starts a process for its first answer, which may take it ten seconds. Ray by itself counts a frozen node as
dead after 75 s, but does not end the calls that the node has begun, and does not detect a frozen head for minutes.
"""

_ASKING = 15.0
"""The seconds between two questions to the nodes."""

_PACKAGES = ("numpy", "scipy", "scikit-learn", "simpy", "gmpy2", "msgspec", "cryptography", "pycryptodome", "torch")
"""The packages whose versions may change results."""


class ClusterError(OSError):
    """A cluster that cannot be used, or no longer. The message is one line."""


class Cluster:
    """A connection to the cluster at `address`, HOST:PORT or ``auto``; if empty, to a new cluster on this machine.

    An existing connection of this process is used and left open; others end with `close`. `nodes` are the current nodes
    in the format of ``ray.nodes()``. `silent` has the ids of nodes, current or earlier, that have not answered for
    `SILENCE` seconds; calls on a frozen node may never end. Raises ClusterError.
    """

    def __init__(self, address: str) -> None:
        if importlib.util.find_spec("ray") is None:
            raise ClusterError('Ray is not installed: pip install "tacit-fl[ray]"')
        with interrupts_held_back():  # importing its library, and starting processes, which inherit it
            import ray

            self.ray: Any = ray
            self.name = f"the Ray cluster at {address}" if address else "Ray on this machine"
            self._own = not ray.is_initialized()
            if self._own:
                self._connect(address)
        self._put: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._taken = 0
        self._heard = time.monotonic()
        self._over = threading.Event()
        self._asking = threading.Lock()
        self._questions: dict[Callable[..., Any], Any] = {}
        try:
            self.nodes = self._alive()
            self.silent: frozenset[str] = frozenset()
            threading.Thread(target=self._listen, name="asking the nodes of Ray", daemon=True).start()
            self._room = int(ray.cluster_resources().get("object_store_memory", 0)) // (4 * max(1, len(self.nodes)))
            if not self.cpus:
                what = f"none of its {len(self.nodes)} nodes gives a CPU; allowed: ray start without --num-cpus=0"
                raise ClusterError(f"{self.name} has no worker: {what}")
        except BaseException:
            self.close()
            raise

    @property
    def cpus(self) -> int:
        """The number of CPUs of the current nodes that answer."""
        return sum(int(node["Resources"].get("CPU", 0)) for node in self.nodes if node["NodeID"] not in self.silent)

    def check(self) -> None:
        """Raise ClusterError if the head is frozen."""
        if self.is_frozen:
            raise ClusterError(f"{self.name} is frozen: its head has not answered for {SILENCE:g} s")

    def answered(self, function: Callable[..., R], *arguments: Any) -> R:
        """Return ``function(*arguments)``, which asks the head. Raises ClusterError once the head is frozen."""
        found: Future[R] = Future()

        def ask() -> None:
            try:
                found.set_result(function(*arguments))
            except BaseException as error:
                found.set_exception(error)

        threading.Thread(target=ask, name="asking the head of Ray", daemon=True).start()
        while True:
            wait([found], timeout=1.0)
            if found.done():
                return found.result()
            self.check()

    def ask(self, node: str, function: Callable[..., R], *arguments: Any) -> Any:
        """A reference to the result of ``function(*arguments)`` on the node with that id, where it takes no CPU."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if function not in self._questions:
            self._questions[function] = self.ray.remote(num_cpus=0, max_retries=0)(function)
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        return self._questions[function].options(scheduling_strategy=there).remote(*arguments)

    def title(self, node: str) -> str:
        """The name and the address of the node with that id, for messages."""
        found = [one for one in self.nodes if one["NodeID"] == node]
        return f"{found[0]['NodeManagerHostname']} ({found[0]['NodeManagerAddress']})" if found else node

    @property
    def is_frozen(self) -> bool:
        """True if the head has not answered for too long."""
        return time.monotonic() - self._heard > SILENCE + _ASKING

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self.ray.nodes() if node["Alive"]]

    def _listen(self) -> None:
        """Ask each node and the head repeatedly.

        It runs in a thread, because a call to a frozen head does not return until the head thaws. By then the
        connection may be closed, and any other call of Ray would open one of its own.
        """
        asked: dict[str, Any] = {}
        heard = {node["NodeID"]: self._heard for node in self.nodes}
        while not self._over.wait(_ASKING):
            try:
                with self._asking:
                    if self._over.is_set():
                        return
                    self.nodes = self._alive()
                    self._heard = now = time.monotonic()
                    there = [node["NodeID"] for node in self.nodes if node["Resources"].get("CPU")]
                    ended = self.ray.wait(list(asked.values()), num_returns=len(asked), timeout=0)[0] if asked else []
                    asked = {node: reference for node, reference in asked.items() if reference not in ended}
                    heard |= {node: now for node in there if node not in asked}
                    self.silent = frozenset(node for node, since in heard.items() if now - since > SILENCE)
                    asked |= {node: self.ask(node, own_node) for node in there if node not in asked}
            except Exception:  # of many kinds: the connection ends, or the head restarts; then it is not heard
                continue

    def packed(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bytes, list[Any]]:
        """Encode the call ``function(*arguments)`` for `carried_out`: its bytes, and references to the long parts."""
        long: list[Any] = []

        def keep_short(buffer: pickle.PickleBuffer) -> bool:
            content = buffer.raw()
            if content.nbytes >= LARGE:
                long.append(self.put(content))
            return content.nbytes < LARGE

        call = (function, tuple(_marked(one) for one in arguments))
        data = self.ray.cloudpickle.dumps(call, protocol=5, buffer_callback=keep_short)
        return data, long

    def put(self, content: bytes | memoryview) -> Any:
        """A reference to `content` in Ray's store, where it is put unless the same content is there."""
        import numpy as np

        digest = hashlib.sha256(content).digest()
        if digest in self._put:
            self._put.move_to_end(digest)
            return self._put[digest][0]
        reference, size = self.ray.put(np.frombuffer(content, np.uint8)), len(content)
        self._put[digest] = reference, size
        self._taken += size
        while len(self._put) > 1 and self._taken > self._room:
            _, (_, size) = self._put.popitem(last=False)  # whoever still needs it has a reference
            self._taken -= size
        return reference

    def close(self) -> None:
        """Close the connection, and stop Ray if it was started here."""
        self._over.set()
        self._put = OrderedDict()
        with interrupts_held_back(), suppress(ClusterError):
            self.answered(self._close_after_question)
        if self._own:
            from ray._private import worker

            atexit.unregister(self.ray.shutdown)  # of a frozen head it would not end
            worker.print_to_stdstream = self._printing

    def _close_after_question(self) -> None:
        """Close the connection when no question is being asked: Ray ends a process that asks on a closed one."""
        with self._asking:
            if self._own:
                self.ray.shutdown()

    def _connect(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if host:
            try:
                socket.create_connection((host.strip("[]"), int(port)), _NO_ANSWER).close()
            except (OSError, OverflowError) as error:
                problem = getattr(error, "strerror", None) or str(error)
                raise ClusterError(f"no head of Ray answers at {address} ({problem})") from None
        with _quiet():
            try:
                self.ray.init(
                    address=address or "local",
                    include_dashboard=None if address else False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except Exception as error:  # of many kinds
                with suppress(Exception):
                    self.ray.shutdown()
                hint = "; is its token another, or RAY_AUTH_MODE?" if "Failed to connect" in str(error) else ""
                raise ClusterError(f"{self.name} cannot be used: {line_of(error)}{hint}") from error
        from ray._private import worker

        # It prints paragraphs about each worker that is lost, on standard output, whatever `log_to_driver` says.
        self._printing, worker.print_to_stdstream = worker.print_to_stdstream, lambda *_, **__: None


ONE_CPU: dict[str, Any] = {
    "num_cpus": 1,
    "runtime_env": {"env_vars": {**ONE_THREAD, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}},
}
"""Options of each worker. With the last variable Ray does not hide GPUs: a worker uses the device that others use."""

RETRIES = 3
"""The number of times that a call is repeated after its worker, or the worker's node, was lost."""

_USAGE = "RAY_USAGE_STATS_ENABLED"


@contextmanager
def _quiet() -> Iterator[None]:
    """Inside this context Ray reports no usage to its makers, logs nothing, and leaves the signal handlers unchanged.

    Its C++ library writes a line for each attempt to connect, bypassing Python, so standard error is redirected
    meanwhile.
    """
    usage, os.environ[_USAGE] = os.environ.get(_USAGE), "0"
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)
    main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} if main else {}
    with suppress(OSError, AttributeError, ValueError):
        sys.stderr.flush()
    errors, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(errors, 2)
        os.close(errors)
        os.close(nowhere)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        logger.setLevel(level)
        if usage is None:
            del os.environ[_USAGE]
        else:
            os.environ[_USAGE] = usage


def line_of(error: BaseException) -> str:
    """The message of `error` in one line of at most 300 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:297]}..."


class _Bytes:
    """Long bytes to send: pickled as a buffer, which plain bytes are not."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return bytes, (pickle.PickleBuffer(self._content),)


def _marked(value: Any, deep: bool = True) -> Any:
    """Wrap long bytes in `value`, or in a short list or tuple, as `_Bytes`."""
    if type(value) is bytes and len(value) >= LARGE:
        return _Bytes(value)
    if deep and type(value) in (list, tuple) and len(value) <= 64:
        return type(value)(_marked(one, False) for one in value)
    return value


# --- in the worker


def own_node() -> str:
    """The id of the node that this process is on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def carried_out(data: bytes, long: Sequence[Any]) -> bytes:
    """Run, in a worker, the call encoded in `data`. Returns its encoded result or exception, for `outcome_of`.

    `long`: the long parts, shared read-only arrays of uint8. The function gets copies.
    """
    from ray import cloudpickle

    try:
        function, arguments = pickle.loads(data, buffers=[bytearray(part) for part in long])
        outcome = True, function(*arguments)
        return bytes(cloudpickle.dumps(outcome, protocol=5))
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        try:
            found = bytes(cloudpickle.dumps((False, (error, text)), protocol=5))
            pickle.loads(found)
        except Exception:  # some cannot be pickled, others not be made again
            found = pickle.dumps((False, (RuntimeError(f"{type(error).__name__}: {error}"), text)))
        return found


class _InWorker(Exception):
    """The traceback of an exception in a worker, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def outcome_of(found: bytes) -> Any:
    """Decode the outcome that `carried_out` returned. Returns the result of the call or raises its exception."""
    ended, value = pickle.loads(found)
    if ended:
        return value
    error, text = value
    error.__cause__ = _InWorker(text)  # as the exceptions of a pool; what is to blame is looked for there
    raise error


@functools.cache
def installed() -> dict[str, str]:
    """The versions of the packages that affect results, and a digest of Tacit's own modules."""
    found = {"Tacit's code": own_code.digest()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def unfit(wanted: dict[str, str], modules: plugged.Shipped) -> str:
    """Load the plugins `modules` in a worker.

    Returns why its results could differ from its caller's, "" if they cannot.
    """
    plugged.receive(modules)
    here = installed()
    other = [f"{name} {here[name]}, not {version}" for name, version in wanted.items() if here[name] != version]
    if other:
        return f"the node {socket.gethostname()} has {', '.join(other)}; install the same on all nodes"
    try:
        plugged.active()
    except plugged.PluginError as error:
        return f"the node {socket.gethostname()} cannot use a plugin: {line_of(error)}"
    return ""
