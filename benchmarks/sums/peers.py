"""Other libraries' sums in the table: Flower's SecAgg+, and CKKS by TenSEAL with one key that all clients share.

Both run over Tacit's network with the same losses: Flower's app by `tacit flower` (`apps/secure.py`), TenSEAL as a
protocol of one part (`apps/ckks.py`). CPU seconds are measured, so virtual times differ a little from run to run, and
rows have no hash: both draw keys from the operating system.
"""

import importlib.util
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tacit.benchmarks import apps
from tacit.benchmarks.sums.table import (
    CORRUPT,
    DROPOUTS,
    LOST,
    MOST_NUMBERS,
    NETWORKS,
    SEED,
    Cell,
    Row,
    begun,
    run_counted,
)
from tacit.protocols.crypto.regular_graph import Tolerance, degree_of
from tacit.protocols.flower.declaration import FlowerApp
from tacit.protocols.flower.keys import FlowerKeys
from tacit.scenarios.files import plugins
from tacit.scenarios.files.reading import load
from tacit.scenarios.schema.scenario import Data, Network, Scenario
from tacit.sim import plugged

__all__ = ["FLOWER", "TENSEAL", "calls", "missing"]

FLOWER, TENSEAL = "flower-secagg+", "tenseal-ckks"
"""The names of their rows."""

_APPS = Path(apps.__file__).parent
_STEPS = {
    FLOWER: ("flower.setup", "flower.share_keys", "flower.collect_masked_vectors", "flower.unmask"),
    TENSEAL: ("ckks.encrypt", "ckks.decrypt"),
}
_SHOWN = ((0.0, ""), (0.3, "flower.collect_masked_vectors"))
"""The losses of Flower's cells among 100 clients that are measured: nobody, and those that cost the server most."""

_PACKAGES = {FLOWER: "flwr", TENSEAL: "tenseal"}


@dataclass(frozen=True)
class PeerCell(Cell):
    """A cell of a peer's sum."""

    @property
    def fidelity(self) -> str:
        """The source of the cell's figures: "measured", or "omitted" if a run takes minutes and shows nothing new."""
        if self.sum != FLOWER or self.clients <= 10:
            return "measured"
        shown = self.numbers <= MOST_NUMBERS and (self.lost, self.before) in _SHOWN
        return "measured" if shown else "omitted"

    @property
    def faults(self) -> list[str]:
        """The crashes of the clients that are lost, as in a scenario file."""
        return [f'{{kind="crash", party="client/{number}", before="{self.before}"}}' for number in self.gone]

    @property
    def links(self) -> Network:
        """The network."""
        latency, bandwidth = NETWORKS[self.network]
        return Network(latency=latency, bandwidth=bandwidth)


def calls(quick: bool) -> Iterator[tuple[Callable[[PeerCell], Row], PeerCell]]:
    """The peers' cells, each with the function that measures it.

    Flower: all losses at 10,000 numbers, and at a million the loss before its masked vectors. Among 100 clients each
    cell takes minutes, nearly all of them in the shares of secrets that Flower makes and puts together in Python
    (pycryptodome's `SecretSharing`). So two cells are measured there (`_SHOWN`), and the others are listed as omitted.
    TenSEAL: all losses at 10,000 numbers; a million among ten clients alone, as each sends 58 bytes a number.
    """
    for clients in (10,) if quick else (10, 100):
        for name, function in ((FLOWER, _flower), (TENSEAL, _tenseal)):
            yield function, PeerCell(name, clients, 10_000, "home")
            for before in _STEPS[name]:
                for lost in LOST[-1:] if quick else LOST:
                    yield function, PeerCell(name, clients, 10_000, "home", lost, before)
        if not quick:
            yield _flower, PeerCell(FLOWER, clients, 1_000_000, "home")
            yield _flower, PeerCell(FLOWER, clients, 1_000_000, "home", *_SHOWN[-1])
    if not quick:
        yield _tenseal, PeerCell(TENSEAL, 10, 1_000_000, "home")


def missing() -> list[str]:
    """A line for each peer that is not installed."""
    return [f"{name}: not installed (pip install {package})" for name, package in _PACKAGES.items() if not _has(name)]


def _has(name: str) -> bool:
    return importlib.util.find_spec(_PACKAGES[name]) is not None


def _absent(cell: PeerCell) -> Row:
    return begun(cell, fidelity="", outcome="not installed")


def _row(cell: PeerCell, scenario: Scenario, colluders: int) -> tuple[Row, bool | None]:
    found, figures = run_counted(scenario, cell.clients)
    figures["trace"] = ""
    row = begun(cell, fidelity="measured", outcome=found.outcome, colluders=colluders, **figures)
    return row, found.equals_plaintext


def _flower(cell: PeerCell) -> Row:
    """Flower's SecAgg+, with as many shares as Tacit's SecAgg+ has neighbours; a majority of them restores a secret."""
    if cell.fidelity == "omitted":
        return begun(cell, fidelity="omitted", outcome="not run")
    if not _has(FLOWER):
        return _absent(cell)
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    degree = degree_of(cell.clients, Tolerance(CORRUPT, DROPOUTS))
    shares = degree.k + 1 - degree.k % 2  # including the client's own; Flower needs an odd number
    threshold = shares // 2 + 1
    keys = FlowerKeys(name=FlowerApp.name, app=str(_APPS / "secure.py"))
    scenario = Scenario(seed=SEED, data=Data(clients=cell.clients), protocol=keys, network=cell.links, cost="measured")
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "average.npy"
        settings = {"NUMBERS": cell.numbers, "SHARES": shares, "THRESHOLD": threshold, "TIMEOUT": 60, "RESULT": result}
        os.environ |= {key: str(value) for key, value in settings.items()}
        try:
            row, _ = _row(cell, load(scenario, [f"fault=[{', '.join(cell.faults)}]"]), threshold - 1)
        finally:
            for key in settings:
                del os.environ[key]
        if not result.exists():
            return replace(row, outcome="no sum", equals_plaintext=None)
        average = np.load(result)
    out = cell.gone if cell.before != "flower.unmask" else range(0)
    expected = np.mean([(number + 1) / cell.clients for number in range(cell.clients) if number not in out])
    return replace(row, equals_plaintext=bool(abs(average - expected).max() < 1e-4))


def _tenseal(cell: PeerCell) -> Row:
    """CKKS by TenSEAL. No client may collude with the server: each has the key."""
    if not _has(TENSEAL):
        return _absent(cell)
    changes = {
        "data.name": "synthetic", "data.clients": cell.clients,
        "data.limit": max(200, 4 * cell.clients), "data.labeled": 1.0, "protocol.name": TENSEAL,
        "protocol.numbers": cell.numbers, "cost": "measured", "engine": "inline",
    }  # fmt: skip
    latency, bandwidth = NETWORKS[cell.network]
    changes |= {"network.latency": latency, "network.bandwidth": bandwidth}
    texts = [f"{key}={value}" for key, value in changes.items()]
    try:
        scenario = load(Scenario(plugins=(str(_APPS / "ckks.py"),)), [*texts, f"fault=[{', '.join(cell.faults)}]"])
        row, equal = _row(cell, scenario, 0)
    finally:
        plugins.give(())
        plugged.use(())
    return replace(row, equals_plaintext=equal)
