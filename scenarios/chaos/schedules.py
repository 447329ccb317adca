"""The faults that `tacit chaos` tries: crashes at every step that was taken, pairs of them, and random mixtures."""

from collections.abc import Iterable, Iterator

from tacit.scenarios.chaos.drawing import Course, Draw, DrawEachRound
from tacit.scenarios.chaos.fault_kinds import fault_of_each_round, random_fault
from tacit.sim.faults import AnyFault, Crash, Fault
from tacit.sim.streams import generator

__all__ = ["Schedule", "random_schedules", "single_crashes", "text"]

Schedule = tuple[AnyFault, ...]

_MOST_FAULTS = 4

_EACH_ROUND = 0.2
"""The share of schedules with a further fault, which strikes clients that are drawn again in each round."""


def text(fault: Fault) -> str:
    """The fault in one line, such as ``crash client/3 before lsh.hash``."""
    words = [fault.kind, fault.get("party") or "*"]
    for key, value in fault.given().items():
        if isinstance(value, tuple):
            value = " or ".join(value)
        if key != "party":
            words.append(key.replace("_", " ") if value is True else f"{key.replace('_', ' ')} {value}")
    return " ".join(words)


def single_crashes(course: Course, parties: Iterable[str] | None = None) -> Iterator[Schedule]:
    """Yield a crash before and after each occurrence of each step; of `parties` only, if given."""
    chosen = None if parties is None else set(parties)
    for party, step, count in course.steps:
        if chosen is None or party in chosen:
            for occurrence in range(1, count + 1):
                later = None if occurrence == 1 else occurrence
                yield (Crash(party, before=step, occurrence=later),)
                yield (Crash(party, after=step, occurrence=later),)


def random_schedules(course: Course, count: int, seed: int, deadline: float) -> Iterator[Schedule]:
    """Yield `count` schedules of one to four faults of all kinds, from the streams (seed, "chaos", number).

    With the probability 0.2 another one strikes a share or a number of the clients, drawn again in each round; it is
    from the stream (seed, "chaos each round", number). Outages last from a part of the run to more than `deadline`, the
    longest wait of the server in seconds.
    """
    for number in range(count):
        draw = Draw(course, generator(seed, "chaos", number), deadline)
        faults = [random_fault(draw) for _ in range(draw.integer(1, _MOST_FAULTS))]
        further = DrawEachRound(course, generator(seed, "chaos each round", number), deadline)
        yield (*faults, *([fault_of_each_round(further)] if further.chance(_EACH_ROUND) else []))
