"""Messages over real TCP compared with Tacit's transports: one-way times, from the sending call to the last byte.

There are two machines of `tacit.benchmarks.reality.lab`, with TCP's cubic and TLS 1.3 with certificates at both ends.
*new*: the first message of a connection, including its set-up; *open*: the first message of an open connection; *warm*:
the next message, as soon as the previous one is answered; *idle*: the next one after a pause in which the window has
shrunk. TLS's computations in a set-up are measured separately and added to the model's *new*. Real times are medians.
The transports "reliable" and "datagram" have neither set-up nor window: they are shown beside `tacit.sim.tcp`, which
alone is judged.

The router's own lateness, which is contained in the real times, is printed below each table.
"""

import contextlib
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tacit.benchmarks.measure import described, environment, seconds_each, write_json
from tacit.benchmarks.reality.exchange import PORT, context, make_certificates
from tacit.benchmarks.reality.lab import Line, Loopback, open_lab
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Table
from tacit.sim.conditions import Conditions
from tacit.sim.latency import parse_latency
from tacit.sim.loop import SimLoop
from tacit.sim.network import LinkNetwork
from tacit.sim.trace import Trace
from tacit.sim.wire import TLS_OVERHEAD, TLS_RECORD, Ledger, Packet

__all__ = [
    "SETTINGS", "TRANSPORTS", "Row", "Setting", "main", "measure", "modelled", "packet_of", "records", "secured",
    "sent_at", "start_receiver", "start_senders",
]  # fmt: skip

Step = tuple[float, int, bool]
"""Seconds after the answer to the previous message, bytes, and true if the set-up counts."""

_KINDS = ("new", "open", "warm", "idle")
_PAUSE = 10.0
_LET_PASS = 1.0  # seconds until nothing of a new connection is in flight


@dataclass(frozen=True)
class Setting:
    """The sender's line: one-way seconds, and bits per second, up and down."""

    latency: float
    rate: float

    def __str__(self) -> str:
        return f"{1e3 * self.latency:g} ms, {self.rate / 1e6:g} Mbit/s"


@dataclass(frozen=True)
class Row:
    """Seconds that a message of `size` bytes takes: median, minimum and maximum of `repeats`, and those of the models:
    `model` is that of TCP."""

    setting: str
    size: int
    kind: str
    real: float
    least: float
    most: float
    repeats: int
    model: float
    reliable: float
    datagram: float

    @property
    def ratio(self) -> float:
        """Real over modelled seconds."""
        return self.real / self.model


_MILLISECONDS = kinds.decimals(1, factor=1e3)
_COLUMNS = (
    Column("size", kinds.decimals(0, suffix=" B")),
    Column("connection", key="kind"),
    Column("real, ms", _MILLISECONDS, "real"),
    Column("least", _MILLISECONDS),
    Column("most", _MILLISECONDS),
    Column("tcp, ms", _MILLISECONDS, "model"),
    Column("real / tcp", kinds.decimals(2), "ratio"),
    Column("reliable, ms", _MILLISECONDS, "reliable"),
    Column("datagram, ms", _MILLISECONDS, "datagram"),
)

TRANSPORTS = ("tcp", "reliable", "datagram")
SETTINGS = (Setting(0.04, 20e6), Setting(0.005, 100e6), Setting(0.15, 5e6))
_SIZES = (1_000, 100_000, 300_000, 1_000_000, 10_000_000)


def main(quick: bool = False, json_file: Path | None = None, repeats: int | None = None) -> int:
    """Measure and print a table for each setting, and write all to `json_file`. Returns 1 if one is off by more than
    15%."""
    console = make_console()
    found = environment(())
    console.print(described(found))
    rows: list[Row] = []
    for setting in SETTINGS:
        made, late = measure(setting, _SIZES[:-1] if quick else _SIZES, repeats or (1 if quick else 5))
        rows += made
        print_table(console, Table.of(made, _COLUMNS, str(setting), grouped=1))
        console.print(f"the router was late by {late}")
    write_json(json_file, environment=found, quick=quick, rows=rows)
    return int(any(abs(row.ratio - 1) > 0.15 for row in rows))


def measure(setting: Setting, sizes: Sequence[int], repeats: int) -> tuple[list[Row], str]:
    """The rows of a setting, and a line on the router's lateness."""
    computing = _tls_computing()
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        open_lab({"server": Line(), "client/0": Line(setting.latency, setting.rate, setting.rate)}) as lab,
    ):
        make_certificates(Path(folder))
        receiver = start_receiver(lab, folder, PORT)
        assert receiver.stdout is not None
        for size in sizes:
            cases = [case for number in range(repeats) for case in _cases(size, number == 0)]
            sent = sent_at(*start_senders(lab, folder, {"client/0": PORT}, cases))
            got = [json.loads(receiver.stdout.readline()) for _ in cases]
            rows += _rows(setting, size, list(zip(cases, sent, got, strict=True)), computing)
        counted = lab.statistics()
    late = "" if counted is None else f"{_ms(counted.late[0])} (median), {_ms(counted.late[1])} (99th percentile)"
    return rows, late or "nothing: there was none, and links are those of loopback"


_ROOT = Path(__file__).parents[1]
_PROGRAM = (sys.executable, "-m", "tacit.benchmarks.reality.exchange")


def start_receiver(lab: Loopback, folder: str, port: int) -> "subprocess.Popen[str]":
    """Start a receiver on the server, with the certificates in `folder`; it prints the times of each connection."""
    command = [*_PROGRAM, "receive", folder, lab.address("server"), str(port)]
    receiver = lab.start("server", command, stdout=subprocess.PIPE, text=True, cwd=_ROOT)
    assert receiver.stdout is not None
    receiver.stdout.readline()
    return receiver


def start_senders(
    lab: Loopback, folder: str, ports: Mapping[str, int], cases: Sequence[Sequence[Step]]
) -> "list[subprocess.Popen[str]]":
    """Start a sender of the `cases` on each machine that `ports` names, to its port of the server, all together."""
    senders = []
    for machine, port in ports.items():
        command = [*_PROGRAM, "send", folder, lab.address("server"), str(port), json.dumps(cases)]
        senders.append(lab.start(machine, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT))
    for sender in senders:
        assert sender.stdout is not None
        sender.stdout.readline()
    for sender in senders:
        assert sender.stdin is not None
        sender.stdin.write("\n")
        sender.stdin.close()
    return senders


def sent_at(*senders: "subprocess.Popen[str]") -> list[list[float]]:
    """The times at which the messages of each connection of each sender were sent. Raises RuntimeError if it fails."""
    found = []
    for sender in senders:
        assert sender.stdout is not None
        found += [json.loads(line) for line in sender.stdout]
        if sender.wait():
            raise RuntimeError(f"a sender failed with exit status {sender.returncode}")
    return found


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


def _cases(size: int, with_idle: bool) -> Iterator[tuple[Step, ...]]:
    """Yield the connections for one repeat, with their messages."""
    yield (0.0, size, True), (0.0, size, False)
    yield ((_LET_PASS, size, False),)
    if with_idle:
        yield (_LET_PASS, size, False), (_PAUSE, size, False)


_PLACES = {"new": (0, 0), "warm": (0, 1), "open": (1, 0), "idle": (2, 1)}
"""The connection of `_cases`, and the message in it, for each kind of time."""


def _rows(setting: Setting, size: int, times: Sequence[Any], computing: float) -> Iterator[Row]:
    everything = list(_cases(size, True))
    models = {kind: [modelled(setting, case, kind) for case in everything] for kind in TRANSPORTS}
    for kind in _KINDS:
        place, message = _PLACES[kind]
        found = [got[message] - began[message] for case, began, got in times if case == everything[place]]
        extra = computing if kind == "new" else 0.0
        tcp, *others = (models[name][place][message] for name in TRANSPORTS)
        yield Row(
            str(setting), size, kind, statistics.median(found), min(found), max(found), len(found), tcp + extra, *others
        )


def modelled(setting: Setting, case: Sequence[Step], transport: str = "tcp") -> list[float]:
    """The virtual seconds of each message of a connection."""
    conditions = Conditions("mesh", parse_latency(f"{1e3 * setting.latency}ms"), transport=transport)
    loop = SimLoop()
    network = LinkNetwork(loop, Trace(), Ledger(), 1, conditions)
    sent: list[float] = []
    received: list[float] = []
    left = iter(case)

    def go_on(packet: Packet | None = None) -> None:
        step = next(left, None)
        if step is not None:
            pause, size, from_start = step
            if packet is None and not from_start:
                loop.env.at(0.0, partial(network.send, packet_of("client/0", "server", 1)))  # opens the connection
                received.append(0.0)
                sent.append(0.0)
            loop.env.at(loop.env.now + pause, partial(send, size))

    def send(size: int) -> None:
        sent.append(loop.env.now)
        network.send(packet_of("client/0", "server", secured(size)))

    def take(packet: Packet) -> None:
        if packet.size > 1:
            received.append(loop.env.now)
            network.send(packet_of("server", "client/0", secured(1)))

    network.attach("server", take)
    network.attach("client/0", go_on, setting.rate / 8, setting.rate / 8)
    go_on()
    while loop.env.live:
        loop.env.step()
    loop.finish()
    return [end - begin for begin, end in zip(sent, received, strict=True)][-len(case) :]


def secured(size: int) -> int:
    """The number of bytes that `size` bytes take in TLS records."""
    return size + TLS_OVERHEAD * -(-size // TLS_RECORD)


def packet_of(sender: str, receiver: str, size: int) -> Packet:
    """A packet of `size` bytes without content."""
    return Packet(b"", b"", bytes(32), sender, receiver, 1, "", "", "", 1, 0, False, size, 0, 0)


def _tls_computing() -> float:
    """The seconds that both ends compute in one TLS set-up."""
    with tempfile.TemporaryDirectory() as folder:
        make_certificates(Path(folder))
        ends = [context(Path(folder), kind) for kind in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER)]
        return seconds_each(partial(records, *ends), 1)


def records(client: ssl.SSLContext, server: ssl.SSLContext) -> list[int]:
    """The bytes of each flight of a TLS set-up; the session tickets are last."""
    ways = [ssl.MemoryBIO() for _ in range(4)]
    asks = client.wrap_bio(ways[0], ways[1], server_hostname="tacit")
    answers = server.wrap_bio(ways[2], ways[3], server_side=True)
    sizes = []
    steps: list[tuple[Callable[[], None], ssl.MemoryBIO, ssl.MemoryBIO]] = [
        (asks.do_handshake, ways[1], ways[2]),
        (answers.do_handshake, ways[3], ways[0]),
        (asks.do_handshake, ways[1], ways[2]),
        (answers.do_handshake, ways[3], ways[0]),
    ]
    for step, out, into in steps:
        with contextlib.suppress(ssl.SSLWantReadError):
            step()
        flight = out.read()
        sizes.append(len(flight))
        into.write(flight)
    return sizes
