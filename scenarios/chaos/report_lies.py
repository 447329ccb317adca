"""The lies and programs that are tried on counts by two aggregators: of a lying leader, or of a lying helper."""

from collections.abc import Iterable, Iterator

import numpy as np

from tacit.scenarios.chaos.report_world import BY_HELPER
from tacit.scenarios.chaos.server_lies import Lie, Move, Program

__all__ = ["report_programs"]

_KINDS = ("twice", "replay", "stale", "other", "fewer", "double")
_RANDOM = ("batch", "ask", "job", "job", "first", "all", "share", "share", "again", "reopen", "next", "stay", "crash")


def report_programs(
    clients: int, sent: Iterable[tuple[str, int, bool, bool]], signed: bool, schedules: Iterable[np.random.Generator]
) -> Iterator[Program]:
    """Yield fixed programs, then every single lie about the messages `sent`, then a random program for each generator.

    `sent` has types of messages with their numbers. `signed`: keys and reports are signed, so that the leader may also
    swap the helper's key and send reports of its own. No program lies for both aggregators.
    """
    yield from _fixed(clients, signed)
    singles = [
        Lie(message, occurrence, kind)
        for message, count, *_ in sent for occurrence in range(1, count + 1) for kind in _KINDS
        if signed or (message, kind) != ("ReportsWanted", "other")
    ]  # fmt: skip
    skipped = [Lie("ReportsWanted", occurrence, "skip", n) for occurrence in (1, 2) for n in range(clients)]
    yield from ((one,) for one in (*singles, *skipped))
    sides = [[one for one in singles if (one.message in BY_HELPER) == by_helper] for by_helper in (False, True)]
    for number, random in enumerate(schedules):
        if number % 3:
            yield _random_program(random, clients)
        elif lies := sides[number // 3 % 2]:
            chosen = random.choice(len(lies), size=min(3, len(lies)), replace=False)
            yield tuple(lies[place] for place in sorted(chosen.tolist()))


def _fixed(clients: int, signed: bool) -> Iterator[Program]:
    everybody = tuple(range(clients))
    fewer = everybody[:-1]

    def moves(*kinds: str | tuple[str, tuple[int, ...]]) -> Program:
        """The moves of these kinds, among everybody unless clients are given."""
        pairs = [(one, everybody) if isinstance(one, str) else one for one in kinds]
        return tuple(Move(kind, names, names) for kind, names in pairs)

    nobody: tuple[int, ...] = ()
    counted = ("batch", "ask", "job", "share")
    yield moves(*counted)
    for few in ((0,), (0, 1)[: clients - 1]):
        yield moves("batch", "ask", "job", ("share", few))
        yield moves("batch", ("ask", few), ("job", few), ("share", few))
        yield moves("batch", ("ask", few), "again", ("ask", few), "again", ("ask", few), ("all", few), ("share", few))
    for between in ("again", "reopen", "stay", "next"):
        yield moves(*counted, between, "batch", "ask", ("job", fewer), ("share", fewer))
        yield moves(*counted, between, "ask", ("job", fewer), ("share", fewer))
        yield moves(*counted, ("crash", nobody), between, "batch", "ask", ("job", fewer), ("share", fewer))
        yield moves(*counted, *(("crash", (n,)) for n in everybody), between, "batch", "ask", "job", ("share", fewer))
    yield moves(*counted, "next", *counted, "back", "batch", "ask", ("job", fewer), ("share", fewer))
    yield moves(*counted, "share", ("share", fewer))
    yield moves("batch", "ask", "job", "job", "share")
    yield moves("batch", "ask", "job", "batch", "first", "share")
    yield moves("batch", "ask", "job", ("crash", nobody), "batch", "first", ("share", fewer))
    yield moves("batch", "ask", "all", "all", ("share", fewer))
    if signed:
        yield moves("batch", "swap", "job", "share")
        yield moves("batch", "ask", ("own", everybody[:1]), "share")
        yield moves("batch", "ask", ("own", everybody[:1]), ("share", everybody[:1]))


def _random_program(random: np.random.Generator, clients: int) -> Program:
    everybody = tuple(range(clients))
    moves = [Move("batch", everybody, everybody), Move("ask", everybody, everybody)]
    for _ in range(int(random.integers(3, 12))):
        kind = _RANDOM[int(random.integers(len(_RANDOM)))]
        names = tuple(n for n in everybody if random.random() < 0.7) or everybody
        if kind == "crash":
            names = names[:1] if random.random() < 0.5 else ()
        moves.append(Move(kind, names, names))
    return tuple(moves)
