"""Temporary machines: network namespaces, joined by one router with a line to each.

```python
with open_lab({"server": Line(), "client/0": Line(0.04, 20e6, 20e6)}) as lab:
    server = lab.start("server", ["python", "server.py", lab.address("server")])
    lab.run("client/0", ["python", "client.py", lab.address("server")], timeout=60)
```

A path has the latencies of both lines, the sender's `up` and the receiver's `down`. Each machine has a device with an
address. The other end of all devices is `tacit.benchmarks.reality.forwarder`, so that the kernel needs to provide only
namespaces and TUN. TCP inside is the kernel's, with cubic, and without its memory of earlier connections.

Namespaces need root. If they cannot be made, `open_lab` prints the reason in one line, and provides the same on the
loopback device, without any shaping.
"""

import contextlib
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

__all__ = ["Lab", "Line", "Loopback", "Statistics", "open_lab", "unavailable"]

_ROOT = Path(__file__).parents[1]
_TUNSETIFF, _TUN_WITHOUT_HEADER = 0x400454CA, 0x0001 | 0x1000
_NO_METRICS = "echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save"
_ENDING = 5.0  # seconds for the machines' processes to end


@dataclass(frozen=True)
class Line:
    """The line between a machine and the router: one-way seconds, bits per second (0: unlimited), losses in [0, 1).

    `queue`: the most seconds that a packet waits for earlier packets, in each direction; otherwise it is dropped.
    """

    latency: float = 0.0
    up: float = 0.0
    down: float = 0.0
    loss: float = 0.0
    queue: float = 1.0


@dataclass(frozen=True)
class Statistics:
    """For each machine: bytes of IP packets sent and received, packets dropped by its queues, and packets lost.

    `late`: the router's lateness in seconds: median, 99th percentile, maximum. `cpu`: its CPU seconds.
    """

    sent: dict[str, int]
    received: dict[str, int]
    dropped: dict[str, int]
    lost: dict[str, int]
    late: tuple[float, float, float]
    cpu: float = 0.0


def unavailable() -> str:
    """The reason why namespaces cannot be made here, in one line; "" if they can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are a part of Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun cannot be opened"
    name = f"tacit-{os.getpid()}-0"
    try:
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except FileNotFoundError:
        return "the command ip is not installed (iproute2)"
    except RuntimeError as error:
        return str(error)
    return ""


def open_lab(lines: Mapping[str, Line], seed: int = 0) -> "Lab | Loopback":
    """A lab of the machines that `lines` names. If `unavailable`, it is on loopback, and the reason is printed."""
    why = unavailable()
    if why:
        print(f"no shaped links: {why}; everything goes over loopback instead", file=sys.stderr)
        return Loopback(lines)
    return Lab(lines, seed)


class Loopback:
    """A lab whose machines are all this one: each has an address of 127.0.0.0/8, and links are not shaped."""

    is_shaped = False

    def __init__(self, lines: Mapping[str, Line]) -> None:
        self.machines = list(lines)
        self._started: list[subprocess.Popen[Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def address(self, machine: str) -> str:
        """The IPv4 address of `machine`. Raises ValueError if there is no such machine."""
        return f"127.0.0.{self.machines.index(machine) + 1}"

    def command(self, machine: str, arguments: Sequence[str]) -> list[str]:
        """Return a command that runs `arguments` on `machine`; the command's process becomes that program."""
        self.machines.index(machine)
        return list(arguments)

    def start(self, machine: str, arguments: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a process on `machine`, with the options of `subprocess.Popen`; `close` ends it."""
        process = subprocess.Popen(self.command(machine, arguments), **options)
        self._started.append(process)
        return process

    def run(self, machine: str, arguments: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run a process on `machine` to its end, with the options of `subprocess.run`."""
        return subprocess.run(self.command(machine, arguments), **options)

    def cut(self, sender: str, receiver: str) -> None:
        """Drop all packets from `sender` to `receiver`. Raises RuntimeError on loopback."""
        raise RuntimeError("loopback has no links that could be cut")

    def heal(self, sender: str, receiver: str) -> None:
        """Carry packets from `sender` to `receiver` again."""

    def statistics(self) -> Statistics | None:
        """Return the traffic that the router has carried; None on loopback."""
        return None

    def close(self) -> None:
        """End all processes that were started."""
        for process in self._started:
            if process.poll() is None:
                process.terminate()
        for process in self._started:
            try:
                process.wait(_ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Lab(Loopback):
    """A lab whose machines are namespaces. Use it as a context: it removes everything, even if the process is
    terminated.

    Raises RuntimeError if a namespace or device cannot be made.
    """

    is_shaped = True

    def __init__(self, lines: Mapping[str, Line], seed: int = 0) -> None:
        super().__init__(lines)
        if not 0 < len(lines) < 65_000:
            raise ValueError(f"a lab of {len(lines)} machines; allowed: 1 to 65,000")
        self._lines, self._seed = dict(lines), seed
        self._names: list[str] = []
        self._router: subprocess.Popen[str] | None = None
        self._handler: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def address(self, machine: str) -> str:
        """The IPv4 address of `machine`. Raises ValueError if there is no such machine."""
        number = self.machines.index(machine) + 1
        return f"10.77.{number // 256}.{number % 256}"

    def command(self, machine: str, arguments: Sequence[str]) -> list[str]:
        """Return a command that runs `arguments` on `machine`; the command's process becomes that program."""
        return ["ip", "netns", "exec", self._names[self.machines.index(machine)], *arguments]

    def cut(self, sender: str, receiver: str) -> None:
        """Drop all packets from `sender` to `receiver`."""
        self._order("cut", self.machines.index(sender), self.machines.index(receiver))

    def heal(self, sender: str, receiver: str) -> None:
        """Carry packets from `sender` to `receiver` again."""
        self._order("heal", self.machines.index(sender), self.machines.index(receiver))

    def statistics(self) -> Statistics:
        """Return the traffic that the router has carried since the lab was made."""
        self._order("statistics")
        assert self._router is not None and self._router.stdout is not None
        found = json.loads(self._router.stdout.readline())
        sent, received, dropped, lost = (
            dict(zip(self.machines, column, strict=True)) for column in zip(*found["ports"], strict=True)
        )
        return Statistics(sent, received, dropped, lost, tuple(found["late"]), found["cpu"])

    def close(self) -> None:
        """End all processes on the machines, and remove the machines."""
        super().close()
        if self._router is not None:
            assert self._router.stdin is not None
            with contextlib.suppress(OSError):
                self._router.stdin.close()
            self._router.kill()
            self._router.wait()
        for name in self._names:
            with contextlib.suppress(RuntimeError):
                _remove(name)
        self._names.clear()
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)
            self._handler = None

    def _make(self) -> None:
        _remove_orphans()
        files = []
        try:
            for number, machine in enumerate(self.machines, 1):
                name = f"tacit-{os.getpid()}-{number}-{id(self) % 10**6}"
                _ip("netns", "add", name)
                self._names.append(name)
                files.append(_device(name, self.address(machine)))
            ports = [
                {"file": file, "address": self.address(machine), **asdict(self._lines[machine])}
                for file, machine in zip(files, self.machines, strict=True)
            ]
            config = json.dumps({"ports": ports, "seed": self._seed})
            self._router = subprocess.Popen(
                [sys.executable, "-m", "tacit.benchmarks.reality.forwarder", config],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=files, cwd=_ROOT,
            )  # fmt: skip
        finally:
            for file in files:
                os.close(file)
        self.statistics()  # the router forwards as soon as it answers

    def _order(self, *words: object) -> None:
        assert self._router is not None and self._router.stdin is not None
        self._router.stdin.write(json.dumps(words) + "\n")
        self._router.stdin.flush()


def _device(namespace: str, address: str) -> int:
    """The open file of a new TUN device, the only network device of `namespace`."""
    file = os.open("/dev/net/tun", os.O_RDWR)
    made = fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", b"tacit%d", _TUN_WITHOUT_HEADER))
    device = made[:16].rstrip(b"\0").decode()
    try:
        _ip("link", "set", device, "netns", namespace, "name", "net0")
        _ip("netns", "exec", namespace, "sh", "-c", _NO_METRICS)
        batch = f"link set lo up\naddress add {address}/32 dev net0\nlink set net0 mtu 1500 txqueuelen 10000 up\n"
        _ip("-n", namespace, "-batch", "-", text=batch + "route add default dev net0 congctl cubic\n")
    except BaseException:
        os.close(file)
        raise
    return file


def _remove(namespace: str) -> None:
    """Kill all processes in `namespace`, and remove it."""
    for process in _ip("netns", "pids", namespace).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    _ip("netns", "del", namespace)


def _remove_orphans() -> None:
    """Remove the namespaces of labs whose process was killed."""
    for name in _ip("netns", "list").split():
        found = re.fullmatch(r"tacit-(\d+)-\d+(-\d+)?", name)
        if found and not Path("/proc", found[1]).exists():
            with contextlib.suppress(RuntimeError):
                _remove(name)


def _ip(*arguments: str, text: str = "") -> str:
    """Return the output of the command ip. Raises RuntimeError with its last line of output if it fails."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, input=text)
    if done.returncode:
        problem = (done.stderr.strip() or "it failed").splitlines()[-1]
        raise RuntimeError(f"ip {' '.join(arguments[:3])}: {problem}")
    return done.stdout
