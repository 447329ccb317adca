"""Python processes that start warm: forked from a process that has imported Tacit, which otherwise takes a second each.

Such a process does the same as ``python ARGUMENTS`` with its arguments, streams, folder and variables, and ends by the
same signals with the same codes. Python's decisions at startup are already made: the locale, the hash seed, the
imported modules. Tests of these start Python itself. The engine ``auto`` is ``inline``, as on one core: a pool would
start cold. Tests of pools name the engine.

A `shell` can start such processes, too.
"""

import atexit
import gc
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

__all__ = ["CORE", "LEARNING", "Process", "Shell", "build_commands_once", "run", "shell"]

LEARNING = ("sklearn.tree", "torch")
"""Libraries that parties learn with, which take seconds to import."""

CORE = "TACIT_TESTS_CORE"
"""The variable with the number of the only core that a warm process may use. It does not see the variable."""

Words = Sequence[str | Path]


class Process:
    """A running Python process, with descriptors or streams that the caller has opened for it."""

    def __init__(
        self,
        command: Words,
        *,
        stdin: Any = subprocess.DEVNULL,
        stdout: Any = subprocess.DEVNULL,
        stderr: Any = subprocess.DEVNULL,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        imported: Sequence[str] = (),
    ) -> None:
        """Begin `command`, whose first word is ``sys.executable``, with these modules `imported` besides."""
        first, *arguments = map(str, command)
        assert first == sys.executable, command
        variables = dict(os.environ if env is None else env)
        request = {"arguments": arguments, "cwd": str(cwd or Path.cwd()), "env": variables}
        read, written = os.pipe()
        with open(os.devnull, "r+b") as nothing:
            streams = [nothing if stream == subprocess.DEVNULL else stream for stream in (stdin, stdout, stderr)]
            files = [stream if isinstance(stream, int) else stream.fileno() for stream in streams]
            socket.send_fds(_warm(*imported), [json.dumps(request).encode()], [*files, written])
        os.close(written)
        self.args = [first, *arguments]
        self.returncode: int | None = None
        self._status = os.fdopen(read, "rb", buffering=0)
        self.pid = int(self._status.readline())

    def wait(self, timeout: float = 120) -> int:
        """Return the exit code, or minus the signal that ended the process. Raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            with self._status:
                self.returncode = int(self._status.readline())
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self.send_signal(signal.SIGKILL)


def build_commands_once() -> None:
    """Let typer build the commands of each of its apps once in this process, and not at every call.

    Those of ``tacit`` take 35 ms. An app that got further commands or groups is built again.
    """
    from typer import main

    if hasattr(main.get_command, "__wrapped__"):
        return
    build, built = main.get_command, dict[tuple[int, ...], tuple[Any, Any]]()

    @wraps(build)
    def get_command(app: Any) -> Any:
        key = (id(app), len(app.registered_commands), len(app.registered_groups))
        if key not in built:
            built[key] = (app, build(app))  # with the app, so that no other gets its number
        return built[key][1]

    main.get_command = get_command
    if testing := sys.modules.get("typer.testing"):
        testing._get_command = get_command  # type: ignore[attr-defined]


def run(
    command: Words, *, cwd: str | Path | None = None, env: Mapping[str, str] | None = None, check: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run `command`, and return its exit code and output, like `subprocess.run`."""
    pipes = [os.pipe() for _ in range(2)]
    process = Process(command, stdout=pipes[0][1], stderr=pipes[1][1], cwd=cwd, env=env)
    with ThreadPoolExecutor(2) as threads:
        reading = []
        for read, written in pipes:
            os.close(written)
            reading.append(threads.submit(_whole, read))
        output, errors = (one.result() for one in reading)
    done = subprocess.CompletedProcess(process.args, process.wait(), output, errors)
    if check:
        done.check_returncode()
    return done


class Shell(NamedTuple):
    """The program and the descriptor by which a shell starts processes warm.

    `folder`: holds ``tacit``, for its path of programs. `python`: the words before a script and its arguments.
    `descriptor`: a descriptor of this process, which the shell inherits and passes on.
    """

    folder: Path
    python: tuple[str, ...]
    descriptor: int


_CLIENT = """\
import json, os, signal, socket, sys

channel = socket.socket(fileno=int(sys.argv[1]))
read, written = os.pipe()
request = {"arguments": sys.argv[2:], "cwd": os.getcwd(), "env": dict(os.environ)}
socket.send_fds(channel, [json.dumps(request).encode()], [0, 1, 2, written])
os.close(written)
with os.fdopen(read) as status:
    process, code = int(status.readline()), int(status.readline())
if code < 0:
    if -code == signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""A program that begins a process, and ends with its code or by its signal. It passes no signals on to the process."""


@cache
def shell(*imported: str) -> Shell:
    """Return a program and a descriptor for shells of this process, whose ``tacit`` then starts warm.

    It has `imported` these modules besides.
    """
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    client, program, descriptor = folder / "client.py", folder / "tacit", _warm(*imported).fileno()
    client.write_text(_CLIENT, encoding="utf-8")
    python = (sys.executable, "-IS", str(client), str(descriptor))
    program.write_text(f'#!/bin/sh\nexec {shlex.join((*python, str(_TACIT)))} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return Shell(folder, python, descriptor)


_TACIT = Path(sys.executable).parent / "tacit"


def _whole(descriptor: int) -> str:
    """The text written to a pipe until its other end is closed."""
    with open(descriptor, encoding="utf-8") as file:
        return file.read()


@cache
def _warm(*modules: str) -> socket.socket:
    """A socket to the process from which others are forked, which has imported `modules`; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), *modules], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, env=environment, cwd="/", pass_fds=[theirs.fileno()],
        )  # fmt: skip

    def end() -> None:
        ours.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)

    atexit.register(end)
    return ours


# --- in the process from which others are forked


def _serve(channel: socket.socket, modules: Sequence[str]) -> None:
    """Fork a process for each request, and return in it; the forking process ends with its client."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import()
    for name in modules:
        with suppress(ImportError):  # an extra that is not installed
            import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        data, files, *_ = socket.recv_fds(channel, 1 << 20, 4)
        if not data:
            os._exit(0)
        if os.fork() == 0:
            channel.close()
            break
        for file in files:
            os.close(file)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    *streams, status = files
    if child := os.fork():
        for file in streams:
            os.close(file)
        os.write(status, f"{child}\n".encode())
        _, ending = os.waitpid(child, 0)
        os.write(status, f"{os.waitstatus_to_exitcode(ending)}\n".encode())
        os._exit(0)
    os.close(status)
    _begin(streams, **json.loads(data))


def _import() -> None:
    """Import the modules that the commands and the public interface use."""
    import_module("tacit.sim.engines").cores = lambda: 1
    tacit = import_module("tacit")
    for name in tacit.__all__:
        getattr(tacit, name)
    app = import_module("tacit.__main__").commands()
    sys.modules.pop("tacit.__main__")
    build_commands_once()
    for _ in import_module("typer.main").get_command(app).commands.values():  # each is imported
        pass


def _begin(streams: Sequence[int], arguments: list[str], cwd: str, env: dict[str, str]) -> None:
    """Run the arguments like Python would; an exception ends this process like it would end Python."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for place, file in enumerate(streams):
        os.dup2(file, place)
        os.close(file)
    os.chdir(cwd)
    if (core := env.pop(CORE, None)) is not None:
        os.sched_setaffinity(0, {int(core)})
    os.environ.clear()
    os.environ.update(env)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc]  # noqa: SIM115
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    sys.path[:0] = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    how, *words = arguments
    if how == "-m":
        sys.path.insert(0, cwd)
        sys.argv = words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif how == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *words[1:]]
        sys.modules["__main__"] = module = ModuleType("__main__")
        exec(compile(words[0], "<string>", "exec"), vars(module))
    else:
        sys.path.insert(0, str(Path(how).resolve().parent))
        sys.argv = arguments
        runpy.run_path(how, run_name="__main__")


if __name__ == "__main__":
    del sys.path[0]  # removes the folder of this file
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
