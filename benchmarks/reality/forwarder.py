"""The router of a lab: carries IP packets between TUN devices, with the rates, delays and losses of their lines.

`python -m tacit.benchmarks.reality.forwarder CONFIG`, where CONFIG is the JSON of a list of machines: each has the
number of the open file of its device, its address, and the figures of its `tacit.benchmarks.reality.lab.Line`. A packet
occupies the sender's line for size / rate, after earlier packets; then it takes both latencies; then it occupies the
receiver's line in the same way. A packet that would wait longer than a line's queue allows is dropped, and losses are
drawn from a seeded generator. Sizes are those of IP packets. The due time of a packet does not depend on when earlier
ones were really delivered, so that this process's own lateness does not add up; the lateness is measured.

Commands are lines of JSON on standard input: ["cut", i, j], ["heal", i, j], and ["statistics"], which is answered by
one line. The process ends at the end of its input.
"""

import contextlib
import ctypes
import heapq
import json
import os
import random
import select
import sys
from dataclasses import dataclass
from time import monotonic, process_time

__all__ = ["Forwarder", "Port"]

_PACKET = 65_536
_BATCH = 64  # packets read from one device before the next device
_BUCKETS = 10_000  # buckets of lateness, 10 us each
_TIMER_SLACK = 29  # PR_SET_TIMERSLACK


@dataclass
class Port:
    """A machine's device and line: latency (s), bits per second (0: unlimited), loss probability, queue (s).

    `sent` and `received` are bytes; `dropped` counts packets that found a full queue, `lost` those drawn as lost.
    """

    file: int
    address: str
    latency: float
    up: float
    down: float
    loss: float
    queue: float
    up_free: float = 0.0
    down_free: float = 0.0
    sent: int = 0
    received: int = 0
    dropped: int = 0
    lost: int = 0


class Forwarder:
    """Carries packets between `ports`, with losses drawn from `seed`."""

    def __init__(self, ports: list[Port], seed: int = 0) -> None:
        self._ports = ports
        self._by_address = {bytes(map(int, port.address.split("."))): place for place, port in enumerate(ports)}
        self._random = random.Random(seed)
        self._due: list[tuple[float, int, int, bytes, bool]] = []
        self._number = 0
        self._cuts: set[tuple[int, int]] = set()
        self._late = [0] * _BUCKETS
        self._began = process_time()

    def serve(self, commands: int) -> None:
        """Forward packets until the file `commands` ends."""
        files = [port.file for port in self._ports]
        places = {file: place for place, file in enumerate(files)}
        for file in files:
            os.set_blocking(file, False)
        while True:
            wait = None if not self._due else max(0.0, self._due[0][0] - monotonic())
            ready, _, _ = select.select([commands, *files], (), (), wait)
            for file in ready:
                if file != commands:
                    self._read(places[file], file)
                elif not self._obey(os.read(commands, 4096)):
                    return
            self._pass_on()

    def _read(self, place: int, file: int) -> None:
        port = self._ports[place]
        try:
            for _ in range(_BATCH):
                self._enter(place, port, os.read(file, _PACKET))
        except BlockingIOError:
            pass

    def _enter(self, place: int, port: Port, packet: bytes) -> None:
        """Send a packet through the uplink of its sender."""
        target = self._by_address.get(packet[16:20])
        if packet[0] >> 4 != 4 or target is None or (place, target) in self._cuts:
            return
        now, port.sent = monotonic(), port.sent + len(packet)
        leaves = now
        if port.up:
            waits = max(0.0, port.up_free - now)
            if waits > port.queue:
                port.dropped += 1
                return
            leaves = port.up_free = now + waits + 8 * len(packet) / port.up
        if port.loss and self._random.random() < port.loss:
            port.lost += 1
            return
        far = self._ports[target]
        self._push(leaves + port.latency + far.latency, target, packet, not far.down)

    def _push(self, due: float, target: int, packet: bytes, last: bool) -> None:
        self._number += 1
        heapq.heappush(self._due, (due, self._number, target, packet, last))

    def _pass_on(self) -> None:
        """Send due packets through the downlink of their receivers, or deliver them."""
        heap = self._due
        while heap and heap[0][0] <= (now := monotonic()):
            due, _, target, packet, last = heapq.heappop(heap)
            port = self._ports[target]
            if last:
                port.received += len(packet)
                self._late[min(int((now - due) * 1e5), _BUCKETS - 1)] += 1
                with contextlib.suppress(OSError):  # the machine's device may be down
                    os.write(port.file, packet)
            elif port.loss and self._random.random() < port.loss:
                port.lost += 1
            elif (waits := max(0.0, port.down_free - due)) > port.queue:
                port.dropped += 1
            else:
                port.down_free = due + waits + 8 * len(packet) / port.down
                self._push(port.down_free, target, packet, True)

    def _obey(self, text: bytes) -> bool:
        for line in text.splitlines():
            match json.loads(line):
                case ["cut", near, far]:
                    self._cuts.add((near, far))
                case ["heal", near, far]:
                    self._cuts.discard((near, far))
                case ["statistics"]:
                    print(json.dumps(self._statistics()), flush=True)
        return bool(text)

    def _statistics(self) -> dict[str, object]:
        ports = [[port.sent, port.received, port.dropped, port.lost] for port in self._ports]
        late = [self._quantile(share) for share in (0.5, 0.99, 1.0)]
        return {"ports": ports, "late": late, "cpu": process_time() - self._began}

    def _quantile(self, share: float) -> float:
        """The lateness in seconds that this share of the delivered packets did not exceed."""
        left = share * sum(self._late)
        for bucket, count in enumerate(self._late):
            left -= count
            if left <= 0:
                return bucket * 1e-5
        return 0.0


def _main() -> None:
    with contextlib.suppress(OSError):  # real-time scheduling, to be on time among other processes
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    ctypes.CDLL(None).prctl(_TIMER_SLACK, 1, 0, 0, 0)
    config = json.loads(sys.argv[1])
    Forwarder([Port(**port) for port in config["ports"]], config["seed"]).serve(sys.stdin.fileno())


if __name__ == "__main__":
    _main()
