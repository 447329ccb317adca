"""The bytes of votes on public points: each client's labels, or counts in a secure sum of one-hot counters.

For each number of clients there is one round of FedCT in a star with decision trees, on the number of public points in
[public]. The payload by formula must equal that of the run, including its keys and shares; messages between clients
count on both hops.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from rich.console import Console

from tacit.parties.data.splits import named
from tacit.protocols import setup
from tacit.protocols.parts import messages_in
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.sums import dealing
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import print_table
from tacit.scenarios.console.table import Column, Table
from tacit.scenarios.files.reading import load
from tacit.scenarios.files.splits import parts_of, split
from tacit.scenarios.running.simulation import Simulation

__all__ = ["VotesRow", "measure", "print_votes"]

_ROUND = (
    "cotraining.rounds=1", "learner.name=decision-tree", "learner.names=[]", "fault=[]", "expect={}", "engine=inline",
    "network.topology=star", "public.size=0.5", "cost=free",
)  # fmt: skip
_KEYS = tuple(kind.__name__ for kind in messages_in(setup, dealing))


@dataclass(frozen=True)
class VotesRow:
    """The payload of a round of votes of `clients` on `points`: plain, counted, and the `keys` and shares of the
    counting.

    The numbers are by formula; `measured` has what runs sent, plain and counted.
    """

    clients: int
    points: int
    plain: int
    counted: int
    keys: int
    measured: tuple[int, int]

    @property
    def different(self) -> bool:
        """True if a run sent a payload that differs from the formula."""
        return self.measured != (self.plain, self.counted)


def measure(clients: Sequence[int]) -> list[VotesRow]:
    """A row for each number of `clients`, on the digits."""
    rows = []
    for count in clients:
        formulas, sent, keys, points = [], [], 0, 0
        for votes in ("plain", "secure"):
            scenario = load("fedct-digits", [*_ROUND, f"data.clients={count}", f"cotraining.votes={votes}"])
            parts = parts_of(scenario)
            shards = named(split(parts.held, scenario.data, scenario.seed))
            found = PROTOCOLS["fedct"].sent_bytes(scenario, parts, shards) or {}
            formulas.append(sum(size or 0 for size in found.values()))
            keys = sum(found.get(kind) or 0 for kind in _KEYS)
            points = 0 if parts.public is None else len(parts.public.labels)
            with closing(Simulation(scenario, engine="inline")) as simulation:
                simulation.run()
                sent.append(sum(row.payload for row in simulation.ledger.rows() if row.type in found))
        plain, counted = formulas
        rows.append(VotesRow(count, points, plain, counted, keys, (sent[0], sent[1])))
    return rows


def print_votes(console: Console, rows: Sequence[VotesRow]) -> None:
    """Print a table of bytes per client, by the number of clients."""
    columns = (
        Column("clients", kinds.COUNT),
        Column("points", kinds.COUNT),
        Column("plain", kinds.COUNT, of=lambda row: row.plain // row.clients),
        Column("secure", kinds.COUNT, of=lambda row: row.counted // row.clients),
        Column("of which keys and shares", kinds.COUNT, of=lambda row: row.keys // row.clients),
        Column("secure / plain", kinds.decimals(1), of=lambda row: row.counted / row.plain),
    )
    print_table(console, Table.of(rows, columns, "votes of a round: payload a client by formula"))
    for row in rows:
        if row.different:
            problem = f"NOT THE FORMULA'S  votes of {row.clients}: {row.measured}, not {(row.plain, row.counted)}"
            console.print(problem, style="bold red", markup=False, highlight=False, soft_wrap=True)
