"""The parts into which the points of a run are divided, and what each client gets of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tacit.parties.data.sets import Dataset
from tacit.parties.data.splits import Shard
from tacit.parties.fleet.fleet import Fleet

__all__ = ["Dealt", "Parts"]


@dataclass(frozen=True, eq=False)
class Parts:
    """The points of a run. `held` are the clients'. `test` and `validation` are held out; None if there are none.

    `public` are points that all parties know. If the run is attacked, `outside` are points that nobody has, for the
    attacker to ask about, and `attacker` is the attacker's data, as many points as all others together.
    """

    held: Dataset
    test: Dataset | None = None
    validation: Dataset | None = None
    outside: Dataset | None = None
    attacker: Dataset | None = None
    public: Dataset | None = None


class Dealt(NamedTuple):
    """The points of each client by its name, the devices and links of all parties, and all points of the run."""

    shards: Mapping[str, Shard]
    fleet: Fleet
    parts: Parts
