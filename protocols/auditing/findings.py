"""The findings of an audit, a row for each aggregate of each round, and the losses that it tries."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct, field, structs

from tacit.protocols.auditing.judging import Verdict
from tacit.sim.faults import AnyFault, Crash, Slow
from tacit.sim.trace import Event

__all__ = ["CALM", "Audit", "Losses", "Row", "Watch", "ended", "losses"]

CALM = "calm"

_BACK = "30s"
"""The time after which a crashed client comes back, to take part in later rounds."""

_SLOWER = 10_000.0
"""The slowdown factor of a straggler, whose answer then arrives long after the end of its round."""

Watch = Callable[[int, int, str], None]
"""Called before each run with the number of ended runs, the total number, and the losses of this run."""


class Row(Struct, frozen=True, kw_only=True):
    """An aggregate of a round. `losses`: those of the run in words, or "calm"; `mod`: its secure mod, "" without one.

    `status`: "ok", "wrong", "no sum" or "unknown", with the `reason`. `error` and `bound`: the largest error, in the
    units of the aggregate, and the largest allowed one. `called` and `survivors` are numbers of clients.
    """

    losses: str
    mod: str
    round: int
    aggregate: str
    called: int
    survivors: int
    status: str
    reason: str = ""
    error: float | None = None
    bound: float | None = None

    def judged(self, verdict: Verdict) -> "Row":
        """The same row with a verdict."""
        return structs.replace(self, **vars(verdict))


class Audit(Struct, kw_only=True):
    """The result of an audit of `subject`, which aggregates by `rule`, in words; `notes` are for the user."""

    subject: str
    rule: str = ""
    mod: str = ""
    notes: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    @property
    def findings(self) -> list[Row]:
        """The rows whose aggregate is wrong."""
        return [row for row in self.rows if row.status == "wrong"]

    @property
    def compared(self) -> list[Row]:
        """The rows that were compared."""
        return [row for row in self.rows if row.status in ("ok", "wrong")]


def ended(trial: Any) -> str:
    """How a run ended, in words."""
    return f"{trial.outcome}{': ' * bool(trial.reason)}{trial.reason}"


class Losses(Struct, frozen=True):
    """The faults of a run, and their description."""

    faults: tuple[AnyFault, ...]
    words: str


def losses(
    events: Iterable[Event], steps: Sequence[str], clients: Sequence[str], at_once: int, main: Sequence[str] = ()
) -> list[Losses]:
    """The losses to try, from the `events` of a run without faults: `at_once` clients crash before, or after, each of
    `steps`.

    Clients crash in turn. A client that takes the step twice crashes at its second occurrence. The last entry is a
    straggler: a client that is slow from the first of the `main` steps that occurs, otherwise from the first step.
    """
    taken = Counter((event.party, event.step) for event in events if event.kind == "enter")
    found: list[Losses] = []
    turn = 0
    for step in steps:
        able = [name for name in clients if taken[name, step]]
        if len(able) <= at_once:
            continue
        for side in ("before", "after"):
            victims = [able[(turn + number) % len(able)] for number in range(at_once)]
            turn += at_once
            before, after = (step, None) if side == "before" else (None, step)
            faults = tuple(
                Crash(
                    name,
                    before=before,
                    after=after,
                    occurrence=2 if taken[name, step] > 1 else None,
                    back_after=_BACK,
                )
                for name in victims
            )
            again = " for the 2nd time" if any(fault.occurrence == 2 for fault in faults) else ""
            verb = "crash" if at_once > 1 else "crashes"
            found.append(Losses(faults, f"{', '.join(victims)} {verb} {side} {step}{again}"))
    slow = next((step for step in (*main, *steps) if sum(bool(taken[name, step]) for name in clients) > 1), None)
    if slow is not None:
        name = [each for each in clients if taken[each, slow]][-1]
        straggler = Slow(name, at=slow, factor=_SLOWER, lasts=_BACK)
        found.append(Losses((straggler,), f"{name} is a straggler from {slow} on"))
    return found
