"""Bytes on the wire compared with the formulas, and the bandwidths at which fewer bytes outweigh more computing.

First, a real round of XCLP for each case and variant of SecureHamming: all parties, all messages, on a mesh, where each
message is sent once. The measured bytes must equal the formulas (`payloads` of the parts) for every message type: a
difference is printed, and the exit code is 1. A variant that would take too long for a case has a row with only the
formula. `payload` are the byte strings and the names of parties inside the messages, `sealing` nonces and tags of
messages between clients, `envelope` the rest of a message with its TLS records; `round` is the payload of the whole
round.

Second, secure sums of many clients, complete or in a graph (`tacit.benchmarks.bytes.sums`). Third, votes counted in a
secure sum, compared with plain votes (`tacit.benchmarks.bytes.votes`). Fourth, the crossover of Paillier and
oblivious-transfer extension (`tacit.benchmarks.bytes.crossover`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from tacit.benchmarks.bytes import sums, votes
from tacit.benchmarks.bytes.crossover import Grid, crossings, print_crossings, save_plot, sweep
from tacit.benchmarks.measure import environment, write_json
from tacit.benchmarks.plots import check_plot
from tacit.parties.data.splits import Shard
from tacit.parties.playing import play_out
from tacit.protocols.parts import Among, payloads
from tacit.protocols.xclp.choices import hamming_payloads, variant_of
from tacit.protocols.xclp.declaration import Propagation
from tacit.protocols.xclp.xclp import Parameters, XclpClient, XclpServer
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Table, columns_of
from tacit.scenarios.schema.scenario import Network, ProtocolKeys, Scenario
from tacit.sim.compute import Free
from tacit.sim.conditions import Conditions
from tacit.sim.latency import parse_latency
from tacit.sim.streams import generator
from tacit.sim.wire import LedgerRow
from tacit.sim.world import World

__all__ = ["Case", "Difference", "Row", "cases_of", "main", "measure"]

VARIANTS: dict[str, dict[str, Any]] = {
    "plaintext": {"hamming": "plaintext"},
    "paillier": {"hamming": "paillier"},
    "paillier unpacked": {"hamming": "paillier", "packing": "none"},
    "iknp": {"hamming": "iknp"},
    "naor-pinkas": {"hamming": "naor-pinkas"},
    "direct": {"hamming": "direct"},
}
"""The [protocol] table of a scenario for each variant."""

_LABELED = 3  # every third point of a client has a label


@dataclass(frozen=True)
class Case:
    """Clients with n_j `points`, L = `bits`, Paillier keys of `key_bits`; `run` are the variants to run."""

    points: tuple[int, ...]
    bits: int
    key_bits: int
    classes: int
    run: tuple[str, ...]
    group: str = "p256"

    @property
    def title(self) -> str:
        """The case in words."""
        points = ", ".join(map(str, self.points))
        return f"n = {points}; L = {self.bits}; {self.key_bits}-bit keys; {self.group}; {self.classes} classes"

    @property
    def named(self) -> dict[str, int]:
        """The number of points n_j of each client."""
        return {f"client/{number}": count for number, count in enumerate(self.points)}

    @property
    def labeled(self) -> dict[str, int]:
        """The number of labeled points l_j of each client."""
        return {name: -(-count // _LABELED) for name, count in self.named.items()}

    def protocol(self, variant: str) -> ProtocolKeys:
        """The [protocol] table of a scenario with this case's sizes."""
        sizes: dict[str, Any] = {"bits": self.bits, "key_bits": self.key_bits, "group": self.group}
        return ProtocolKeys(insecure_keys=self.key_bits < 2048, **sizes, **VARIANTS[variant])


@dataclass(frozen=True)
class Difference:
    """A message type whose payload differs from the formula."""

    type: str
    measured: int
    formula: int


@dataclass(frozen=True)
class Row:
    """The bytes of SecureHamming's pair messages and the payload of the whole round; None if not measured."""

    case: Case
    variant: str
    formula: int
    round_formula: int
    payload: int | None = None
    sealing: int | None = None
    envelope: int | None = None
    round_payload: int | None = None
    differences: list[Difference] = field(default_factory=list)


def cases_of(quick: bool) -> list[Case]:
    """Small cases with all variants and keys of 512 bits, then larger ones with keys of 2048 bits."""
    everything, large = tuple(VARIANTS), ("plaintext", "paillier", "iknp", "direct")
    most = tuple(variant for variant in VARIANTS if variant != "naor-pinkas")
    small = [Case((5, 5, 5), 64, 512, 3, everything), Case((13, 90, 30), 256, 512, 10, most)]
    quick_ones = [*small, *(Case((count, count), 1024, 2048, 10, large) for count in (50, 200))]
    if quick:
        return quick_ones
    return [
        *quick_ones,
        Case((5, 5, 5), 64, 512, 3, ("iknp", "naor-pinkas"), group="modp-2048"),
        Case((200, 200), 1024, 3072, 10, large),
        Case((100, 100, 100), 4096, 2048, 10, large),
    ]


def main(
    quick: bool = False,
    json_file: Path | None = None,
    plot: Path | None = None,
    *,
    cases: Sequence[Case] | None = None,
    grid: Grid | None = None,
    most: int | None = None,
) -> int:
    """Measure, print, and write the files. Returns the exit code: 1 if a formula is wrong.

    `cases`, `grid` and `most`, if given, replace those that follow from `quick`.
    """
    console = make_console()
    if plot is not None:
        check_plot(plot)
    rows = []
    for case in cases_of(quick) if cases is None else cases:
        measured = measure(case)
        print_table(console, _table(case, measured))
        _print_differences(console, measured)
        rows += measured
    summed = sums.measure((20 if quick else 100) if most is None else most)
    sums.print_sums(console, summed)
    voted = votes.measure((5,) if quick else (5, 10, 20))
    votes.print_votes(console, voted)
    grid = Grid.make(quick) if grid is None else grid
    points = sweep(grid)
    found = crossings(points)
    print_crossings(console, found, grid)
    unequal = any(one.different for one in summed) or any(one.different for one in voted)
    different = unequal or any(row.differences for row in rows)
    packages = ("numpy", "gmpy2", "pycryptodome", "cryptography", "msgspec", "simpy", "flwr")
    found_in = {"environment": environment(packages), "quick": quick, "rows": rows, "sums": summed, "votes": voted}
    write_json(json_file, **found_in, grid=grid, points=points, crossings=found, equal=not different)
    if plot is not None:
        save_plot(plot, points, found)
    verdict = "NOT EQUAL: see above" if different else "every measured payload equals its formula, type by type"
    console.print(verdict, style="bold red" if different else "")
    return int(different)


def measure(case: Case) -> list[Row]:
    """The rows of `case`, one for each variant."""
    rows = []
    for variant in VARIANTS:
        protocol = case.protocol(variant)
        tables = Scenario(protocol=protocol, network=Network(topology="mesh"))
        found = payloads((Propagation(),), tables, Among(case.named, case.labeled, case.classes))
        expected = {kind: size or 0 for kind, size in found.items()}
        hamming = hamming_payloads(protocol, case.named)
        bytes_sent = sum(hamming.values()), sum(expected.values())
        if variant not in case.run:
            rows.append(Row(case, variant, *bytes_sent))
            continue
        ledger = _run(case, protocol)
        sent = [row for row in ledger if row.type in hamming]
        payload, sealing, envelope = (sum(getattr(row, name) for row in sent) for name in _COLUMNS)
        total = sum(row.payload for row in ledger)
        differences = _compare(ledger, expected)
        rows.append(Row(case, variant, *bytes_sent, payload, sealing, envelope, total, differences))
    return rows


_COLUMNS = ("payload", "sealing", "envelope")


def _compare(ledger: Sequence[LedgerRow], expected: Mapping[str, int]) -> list[Difference]:
    measured = dict.fromkeys(expected, 0)
    for row in ledger:
        measured[row.type] = measured.get(row.type, 0) + row.payload
    return [
        Difference(kind, size, expected.get(kind, 0))
        for kind, size in measured.items()
        if size != expected.get(kind, 0)
    ]


def _run(case: Case, protocol: ProtocolKeys) -> list[LedgerRow]:
    """The ledger of one round of XCLP over random points; computing takes no virtual time."""
    world = World(1, conditions=Conditions("mesh", parse_latency("1ms")), cost=Free())
    parameters = Parameters(
        variant=variant_of(protocol),
        clients=len(case.points),
        classes=case.classes,
        bits=case.bits,
        k=3,
        min_clients=2,
    )
    clients = [
        XclpClient(world, name, _shard(number, count, case.classes), parameters)
        for number, (name, count) in enumerate(case.named.items())
    ]
    server = XclpServer(world, tuple(client.name for client in clients), parameters)
    play_out([server, *clients])
    if server.aborted:
        raise RuntimeError(f"the round was aborted: {server.aborted}")
    return world.ledger.rows()


def _shard(number: int, count: int, classes: int) -> Shard:
    random = generator(1, "points", str(number))
    labels = random.integers(classes, size=count)
    features = random.normal(size=(count, 8)) + labels[:, None]
    return Shard(features, labels, np.arange(count) % _LABELED == 0, np.arange(count))


def _table(case: Case, rows: Sequence[Row]) -> Table:
    plain = next(row.formula for row in rows if row.variant == "plaintext")
    columns = (
        Column("SecureHamming", key="variant"),
        *columns_of(("formula", "payload", "sealing", "envelope"), kinds.COUNT),
        Column("x plaintext", kinds.significant(4), of=lambda row: row.formula / plain),
        Column("formula, round", kinds.COUNT, "round_formula"),
        Column("payload, round", kinds.COUNT, "round_payload"),
    )
    return Table.of(rows, columns, case.title)


def _print_differences(console: Console, rows: Sequence[Row]) -> None:
    for row in rows:
        for difference in row.differences:
            where = f"NOT THE FORMULA'S  {row.variant}, {difference.type}"
            sizes = f"{difference.measured:,} bytes were sent, the formula says {difference.formula:,}"
            console.print(f"{where}: {sizes}", style="bold red", markup=False, highlight=False, soft_wrap=True)
