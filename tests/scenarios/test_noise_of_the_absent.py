"""Noise is made for the clients that agreed to a sum, not for those that were called, who may be absent."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tacit import load
from tacit.protocols.privacy.distributed import Distributed
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.taps import Taps

CALLED, ABSENT, LOST, COLLUDING = 20, 3, 2, 4
TEXT = f"""
title = "Twenty clients, of whom three are absent and two are lost"
seed = 7
engine = "inline"
[data]
name = "digits"
clients = {CALLED}
labeled = 1.0
limit = 100
[protocol]
name = "dp-fedavg"
deadline = "10s"
identity = "signed"
[network]
latency = "5ms"
[model]
name = "linear"
[training]
rounds = 1
epochs = 1
device = "cpu"
averaging = "AVERAGING"
[privacy]
epsilon = 8.0
clip = 0.5
noise = "skellam"
noise_at = "clients"
tolerated = 0.25
"""
CORRUPT = {"secure": ["sum.corrupt_clients=0.2"]}
OTHERS = ["sum.corrupt_clients=0.2", "sum.tolerated_dropouts=0.25"]


class Seen:
    """The variance that is left of each client's noise: of the parts that it drew without those that were removed."""

    def __init__(self, taps: Taps) -> None:
        self.left: dict[str, Fraction] = {}
        self.removed: list[int] = []
        taps.computed.append(self._computed)

    def _computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        if step == "sum.mask" and len(arguments) == 2 and hasattr(arguments[1], "parts"):
            seeds = arguments[1]
            self.left[party] = seeds.parts.added - sum(
                (seeds.parts.variances[number] for number in seeds.parts.removed(LOST)), Fraction(0)
            )
            self.clients = seeds.parts.clients
        if party == "server" and len(arguments) == 4 and hasattr(arguments[1], "variances"):
            self.removed.append(len(arguments[3]))


@pytest.mark.parametrize("averaging", ["secure", "lightsecagg", "committee"])
def test_with_three_absent_and_two_lost_sixteen_honest_clients_leave_the_variance(
    averaging: str, tmp_path: Path
) -> None:
    absent = [(number, 'before = "train.enroll"') for number in range(ABSENT)]
    lost = [(number, 'before = "sum.mask"') for number in range(ABSENT, ABSENT + LOST)]
    path = tmp_path / "absent.toml"
    path.write_text(
        TEXT.replace("AVERAGING", averaging)
        + "".join(f'[[fault]]\nkind = "crash"\nparty = "client/{number}"\n{at}\n' for number, at in absent + lost)
    )
    taps = Taps()
    seen = Seen(taps)
    simulation = Simulation(load(path, CORRUPT.get(averaging, OTHERS)), taps=taps)
    try:
        found = simulation.run()
        noise: Distributed = simulation.server.settings.private.noise
    finally:
        simulation.close()
    (record,) = found.round_records
    survivors = CALLED - ABSENT - LOST
    assert len(record.averaged) == survivors and noise.colluding == COLLUDING
    assert seen.clients == CALLED - ABSENT and seen.removed == [survivors]
    left = sorted(seen.left[name] for name in record.averaged)
    assert sum(left[: survivors - COLLUDING]) == noise.variance  # whoever colludes
    assert [(one.clients, one.survivors) for one in found.privacy.carried] == [(CALLED - ABSENT, survivors)]
