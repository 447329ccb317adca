"""The parts into which the points of a run are divided."""

from dataclasses import dataclass

from tacit.parties.data.sets import Dataset

__all__ = ["Parts"]


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
