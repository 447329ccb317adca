"""The parts that the points of a run fall into."""

from dataclasses import dataclass

from tacit.parties.data.sets import Dataset

__all__ = ["Parts"]


@dataclass(frozen=True, eq=False)
class Parts:
    """`held`: the clients' points. `test` and `validation` are nobody's; None where there are none.

    `public` are points that all parties know. Of a run that is attacked, `outside` are points that nobody has, for the
    attacker to ask about, and `attacker` those that it has itself, as many as the others together.
    """

    held: Dataset
    test: Dataset | None = None
    validation: Dataset | None = None
    outside: Dataset | None = None
    attacker: Dataset | None = None
    public: Dataset | None = None
