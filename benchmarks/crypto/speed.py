"""The speed of the cryptography on one core, compared with other libraries.

Peers, each skipped if it is not installed (the extra `peers`): python-paillier (`phe`, with gmpy2), HEU's ZPaillier
(`sf-heu`, C++), TNO's `tno.mpc.encryption-schemes.paillier` and LightPHE. pyca/cryptography and pycryptodome are always
installed. The draft's Python reference of Prio3 is a peer if its folder is given. Contenders run in turns; each turn
gives a ratio for each contender, and the median of the ratios is reported.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from rich.console import Console
from threadpoolctl import threadpool_limits

from tacit.benchmarks.crypto.costs import check_word, measure_costs, measure_processors, update_costs, write_costs
from tacit.benchmarks.crypto.ot import measure_iknp, measure_naor_pinkas
from tacit.benchmarks.crypto.paillier import PEERS, measure_paillier_race
from tacit.benchmarks.crypto.pair import PairSize, iknp_pair, measure_pair, packed_pair
from tacit.benchmarks.crypto.prio3 import find_reference, measure_prio3
from tacit.benchmarks.crypto.symmetric import measure_masks, measure_symmetric
from tacit.benchmarks.measure import Standing, described, environment, print_standings, write_json
from tacit.benchmarks.plots import check_plot, plot_standings
from tacit.protocols.crypto import paillier
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import make_console, print_table
from tacit.scenarios.console.table import Column, Table
from tacit.sim.streams import Entropy

__all__ = ["main"]

_PACKAGES = (
    "gmpy2",
    "numpy",
    "pycryptodome",
    "phe",
    "sf-heu",
    "tno.mpc.encryption-schemes.paillier",
    "lightphe",
    "cryptography",
)

Durations = dict[str, dict[str, float]]
"""Seconds of each part of a task."""


def main(
    quick: bool = False,
    json_file: Path | None = None,
    costs_file: Path | None = None,
    plot_file: Path | None = None,
    prio3_folder: Path | None = None,
    only: str = "",
) -> None:
    """Measure and print; with `costs_file`, instead measure the cost table and write it there.

    `only`: with `costs_file`, the first word of the operations to measure; the rest of the file stays as it is.
    `prio3_folder` has the draft's reference of Prio3. `quick`: one length of keys, fewer turns, smaller batches, and of
    the pairs of 500 x 500 only the one by IKNP.
    """
    console = make_console()
    if only:
        try:
            if costs_file is None:
                raise ValueError("it needs --costs with a cost table, whose other entries stay as they are")
            check_word(costs_file, only)
            costs = measure_costs(quick=quick, only=only)
            update_costs(costs_file, only, costs, measure_processors(quick=quick, only=only))
        except ValueError as error:
            raise SystemExit(f"error: --only: {error}") from None
        console.print(f"replaced {len(costs)} entries of {costs_file}")
        return
    if costs_file is not None:
        write_costs(costs_file, measure_costs(quick=quick), measure_processors(quick=quick))
        console.print(f"wrote {costs_file}")
        return
    if plot_file is not None:
        check_plot(plot_file)
    reference = None if prio3_folder is None else find_reference(prio3_folder)
    found = environment(_PACKAGES)
    machine = described(found) + "; one core"
    console.print(machine)
    peers = _peers([module for module, _ in PEERS.values()], console)
    with threadpool_limits(1):
        standings, masks = _races(peers, reference, quick, console)
        pair = measure_pair(peers.get("phe.paillier"), quick, console)
        durations = _pairs(quick)
    _print_durations(durations, console)
    seconds = {"pair_seconds": durations, "mask_seconds": masks}
    write_json(json_file, environment=found, quick=quick, pair=pair, **seconds, standings=standings)
    if plot_file is not None:
        plot_standings(plot_file, f"Operations a second. {machine}", standings)


def _peers(modules: Sequence[str], console: Console) -> dict[str, ModuleType]:
    """The installed ones of `modules`, by name; prints a line on missing ones."""
    found = {}
    for module in modules:
        try:
            found[module] = importlib.import_module(module)
        except ImportError:
            console.print(f"{module} is not installed: skipped")
    return found


def _races(
    peers: dict[str, ModuleType], reference: ModuleType | None, quick: bool, console: Console
) -> tuple[list[Standing], dict[str, float]]:
    """The results of all races, and the seconds that all masks of a client take."""
    standings: list[Standing] = []

    def add(title: str, rows: list[Standing]) -> None:
        print_standings(title, rows, console)
        standings.extend(rows)

    turns = 3 if quick else 9
    for bits in (2048,) if quick else (2048, 3072):
        add(f"Paillier, {bits}-bit modulus", measure_paillier_race(bits, peers, turns))
    transfers = measure_naor_pinkas(32 if quick else 256, turns)
    add("Oblivious transfer", transfers + measure_iknp(1 << 16 if quick else 1 << 20, turns))
    masks, seconds = measure_masks(turns)
    add("Secure sums and channels", measure_symmetric(turns) + masks)
    add("Prio3, reports", measure_prio3(reference, quick, min(turns, 3) if reference else turns))
    console.print("all masks: " + ", ".join(f"{name} {value:.3f} s" for name, value in seconds.items()))
    return standings, seconds


def _pairs(quick: bool) -> Durations:
    """The seconds of whole pairs of 500 x 500 vectors, measured once each."""
    size = PairSize(500, 500, 1024)
    durations = {"IKNP, 500 x 500, L = 1024": iknp_pair(size, 1)}
    if not quick:
        key = paillier.generate(2048, Entropy.seeded(1, "benchmark", "pairs"))
        for length in (1024, 4096):
            parts = packed_pair(PairSize(500, 500, length), key, 1)
            durations[f"Paillier-2048, 500 x 500, L = {length}"] = parts
    return durations


def _print_durations(durations: Durations, console: Console) -> None:
    columns = (
        Column("distances of a whole pair", of=lambda one: one[0]),
        Column("seconds", kinds.decimals(2), of=lambda one: sum(one[1].values())),
        Column("parts", of=lambda one: ", ".join(f"{part} {s:.2f}" for part, s in one[1].items())),
    )
    print_table(console, Table.of(durations.items(), columns))
