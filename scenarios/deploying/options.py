"""The options of any party's process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tacit.sim.deployed.connection import Limits

__all__ = ["ProcessOptions"]


@dataclass(frozen=True)
class ProcessOptions:
    """The options of `tacit serve` and `tacit join`.

    `path` is the folder of the process, `certificates` that of its certificate and key. `seeded`: its keys are those of
    the simulator, and not secret. `with_faults`: it crashes as in the scenario. `patience`: the seconds to wait for
    other parties. `engine`: the place where jobs run. `log` is called with messages for the user. `data`: a file with
    the party's own points, instead of its share of the scenario's.
    """

    path: Path
    certificates: Path
    log: Callable[[str], object]
    seeded: bool = False
    with_faults: bool = False
    patience: float = 300.0
    limits: Limits = field(default_factory=Limits)
    engine: str = "inline"
    data: Path | None = None
