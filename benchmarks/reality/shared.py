"""Four uploads at once over real TCP compared with Tacit's transports: until the last byte of the last one.

Four machines of `tacit.benchmarks.reality.lab`, each with a line of 8 Mbit/s, send equally much to one server, whose
line carries all of them, half of them or one. Connections are open. The arithmetic beside them is the latency plus the
bytes / the rate of the slower end: of one client's line, or of the server's for all.
"""

import json
import statistics
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tacit.benchmarks.measure import described, environment, write_json
from tacit.benchmarks.reality.exchange import PORT, make_certificates
from tacit.benchmarks.reality.lab import Line, open_lab
from tacit.benchmarks.reality.tcp import (
    TRANSPORTS,
    packet_of,
    secured,
    sent_at,
    start_receiver,
    start_senders,
)  # fmt: skip
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Table
from tacit.sim.conditions import Conditions
from tacit.sim.latency import parse_latency
from tacit.sim.loop import SimLoop
from tacit.sim.network import LinkNetwork
from tacit.sim.trace import Trace
from tacit.sim.wire import Ledger, Packet

__all__ = ["SharedRow", "main", "modelled"]

_COUNT, _RATE, _LATENCY = 4, 8e6, 0.04
_SERVERS = (32e6, 16e6, 8e6)
_SIZES = (100_000, 1_000_000, 10_000_000)
_LET_PASS = 1.0  # seconds until nothing of a new connection is in flight


@dataclass(frozen=True)
class SharedRow:
    """Seconds until `_COUNT` messages of `size` bytes have arrived over a server's line of `rate` bits per second."""

    rate: float
    size: int
    real: float
    repeats: int
    arithmetic: float
    tcp: float
    reliable: float
    datagram: float


def main(quick: bool = False, json_file: Path | None = None, repeats: int | None = None) -> int:
    """Measure and print a table, and write it to `json_file`. Returns 1 if TCP's model is off by more than 15%, or one
    of the others from arithmetic by more than 5%."""
    console = make_console()
    found = environment(())
    console.print(described(found))
    sizes, repeats = _SIZES[:-1] if quick else _SIZES, repeats or (1 if quick else 3)
    rows = [_measure(rate, size, repeats) for rate in _SERVERS for size in sizes]
    seconds = kinds.decimals(2)
    columns = (
        Column("server", kinds.significant(6, factor=1e-6, suffix=" Mbit/s"), "rate"),
        Column("size", kinds.decimals(0, suffix=" B")),
        Column("real, s", seconds, "real"),
        Column("real / tcp", seconds, of=lambda row: row.real / row.tcp),
        *(Column(f"{name}, s", seconds, name) for name in ("tcp", "reliable", "datagram", "arithmetic")),
    )
    title = f"{_COUNT} clients of {_RATE / 1e6:g} Mbit/s and {1e3 * _LATENCY:g} ms send at once"
    print_table(console, Table.of(rows, columns, title, grouped=1))
    write_json(json_file, environment=found, quick=quick, rows=rows)
    flows = [abs(one / row.arithmetic - 1) for row in rows for one in (row.reliable, row.datagram)]
    return int(any(abs(row.real / row.tcp - 1) > 0.15 for row in rows) or max(flows) > 0.05)


def _measure(rate: float, size: int, repeats: int) -> SharedRow:
    lines = {"server": Line(up=rate, down=rate, queue=60.0)}
    ports = {f"client/{number}": PORT + number for number in range(_COUNT)}
    times = []
    with tempfile.TemporaryDirectory() as folder, open_lab(lines | dict.fromkeys(ports, _LINE)) as lab:
        make_certificates(Path(folder))
        receivers = [start_receiver(lab, folder, port) for port in ports.values()]
        for _ in range(repeats):
            sent = sent_at(*start_senders(lab, folder, ports, [((_LET_PASS, size, False),)]))
            got = [json.loads(receiver.stdout.readline()) for receiver in receivers if receiver.stdout is not None]
            times.append(max(one[0] for one in got) - min(one[0] for one in sent))
    models = [modelled(kind, _RATE, rate, size, _LATENCY) for kind in TRANSPORTS]
    arithmetic = _LATENCY + 8 * secured(size) * max(1 / _RATE, _COUNT / rate)
    return SharedRow(rate, size, statistics.median(times), repeats, arithmetic, *models)


_LINE = Line(_LATENCY, _RATE, _RATE, queue=60.0)


def modelled(transport: str, client: float, server: float, size: int, latency: float, count: int = _COUNT) -> float:
    """The virtual seconds until `count` messages of `size` bytes, sent at once, have arrived at one server.

    `client` and `server` are the rates of their lines in bits per second, `latency` is in seconds.
    """
    conditions = Conditions("mesh", parse_latency(f"{1e3 * latency}ms"), transport=transport)
    loop = SimLoop()
    network = LinkNetwork(loop, Trace(), Ledger(), 1, conditions)
    arrived: list[float] = []

    def take(packet: Packet) -> None:
        if packet.size > 1:
            arrived.append(loop.env.now)

    network.attach("server", take, server / 8, server / 8)
    for number in range(count):
        name = f"client/{number}"
        network.attach(name, take, client / 8, client / 8)
        loop.env.at(0.0, partial(network.send, packet_of(name, "server", 1)))  # opens the connection
        loop.env.at(_BEGIN, partial(network.send, packet_of(name, "server", secured(size))))
    while loop.env.live:
        loop.env.step()
    loop.finish()
    return max(arrived) - _BEGIN


_BEGIN = 10.0  # virtual seconds: the connections are open
