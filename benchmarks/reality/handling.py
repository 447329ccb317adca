"""The cost of each message, and of its bytes, at a deployed process, measured between two processes on this machine.

A server and one client are processes connected by TLS, with their records, like in any deployed run. The server sends a
message, the client answers with one of the same size, and so on. Each reports the CPU time of its event loop from the
first message to the last. The cost per message is measured with small messages over the loopback device. The cost per
byte is measured with large messages over a link, because over a slow link they are read in more and smaller pieces.
"""

import math
import re
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from tacit.benchmarks.reality.lab import Line, Loopback, open_lab
from tacit.scenarios.deploying.local import Local
from tacit.scenarios.files.reading import load
from tacit.sim import plugged
from tacit.sim.handling import Handling

__all__ = ["measure_handling", "measure_message", "write_scenario"]

_SMALL, _MANY = 100, 500
_LARGE, _FEW = 1_000_000, 4

_SCENARIO = """
plugins = ["parcels.py"]
[data]
name = "digits"
clients = 1
limit = 20
[protocol]
name = "parcels"
deadline = "600s"
"""

_PLUGIN = '''
"""A server and its client send each other messages of `size` bytes, in turns, and say what that took of their CPUs."""

import sys
import time

from tacit.sim.wire import Message
from tacit import Found, OneShot, ProtocolKeys, Step, add_protocol


class ParcelThere(Message):
    content: bytes


class ParcelBack(Message):
    content: bytes


class Keys(ProtocolKeys, kw_only=True, frozen=True):
    count: int = 10
    size: int = 100
    min_clients: int = 1


def say(began):
    print(f"handled {time.thread_time() - began} s", file=sys.stderr, flush=True)


class Parcels(OneShot):
    name, summary = "parcels", "messages there and back"
    learned = {"server": "nothing", "client": "nothing"}
    keys, agrees = Keys, False
    own_steps = (Step("client", "parcel.back", "send back"), Step("server", "parcel.there", "send"))

    async def client(self, me, keys, group):
        with me.step("parcel.back"):
            began = time.thread_time()
            for _ in range(keys.count):
                parcel = await me.recv(ParcelThere, me.server, 600.0)
                me.send(me.server, ParcelBack(parcel.content))
            say(began)

    async def server(self, me, keys, group):
        with me.step("parcel.there"):
            began = time.thread_time()
            for _ in range(keys.count):
                me.send(group.names[0], ParcelThere(bytes(keys.size)))
                await me.recv(ParcelBack, group.names[0], 600.0)
            say(began)
        return Found(group.names, [0.0])

    def oracle(self, keys, shards):
        return [0.0]


add_protocol(Parcels())
'''


def write_scenario(folder: Path) -> Path:
    """Write the scenario and its plugin into `folder`, and return the scenario's file."""
    file = folder / "parcels.toml"
    file.write_text(_SCENARIO)
    (folder / "parcels.py").write_text(_PLUGIN)
    return file


def measure_message(repeats: int) -> float:
    """CPU seconds to send or to receive a small message: the median of `repeats` measurements."""
    found = [_seconds(Loopback({"server": Line(), "client/0": Line()}), _SMALL, _MANY) for _ in range(repeats)]
    return statistics.median(found)


def measure_handling(line: Line, message: float, repeats: int) -> Handling:
    """The handling over a client's `line`, if a small message takes `message` seconds; the median of `repeats`."""
    lines = {"server": Line(), "client/0": line}
    each = statistics.median(_seconds(open_lab(lines), _LARGE, _FEW) for _ in range(repeats))
    return Handling(message, _LARGE / (each - message) if each > message else math.inf)


def _seconds(place: Loopback, size: int, count: int) -> float:
    """CPU seconds of one message of `size` bytes at one end, from `count` messages in each direction."""
    folder = Path(tempfile.mkdtemp(prefix="tacit-handling-"))
    file = write_scenario(folder)
    changes = [f"protocol.size={size}", f"protocol.count={count}"]
    options = [str(file), *(word for text in changes for word in ("--set", text)), "--insecure-seeded"]
    said: list[float] = []

    def hear(line: str) -> None:
        if found := re.search(r"handled (\S+) s", line):
            said.append(float(found[1]))

    try:
        with place as lab:
            _deploy(file, changes, options, folder, hear, lab)
    finally:
        plugged.use(())  # the plugin goes with its folder
        shutil.rmtree(folder, ignore_errors=True)
    return sum(said) / (4 * count)  # two ends handle two directions


def _deploy(
    file: Path, changes: list[str], options: list[str], folder: Path, hear: Callable[[str], object], lab: Loopback
) -> None:
    local = Local(
        load(str(file), changes), folder / "parties", options, with_faults=False, log=hear,
        address=lab.address("server"), around=lab.command,
    )  # fmt: skip
    local.run()
