"""The lies of a server, as data: single lies of an otherwise honest server, and programs of moves.

A `Lie` changes one message of an honest server, and the server continues normally. A `Move` is one action of a server
without a protocol; a program of moves asks honest clients in any order and with any sets. Both are well-formed on the
wire. As text they look like

    Survivors#1 omit 2; DealtKeys#2 replay
    start 0 1 2; keys 0 1 2; want 0 1 2; left 0 1 to 0; left 0 1 2 to 1 2

where clients are given by their numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product

import numpy as np
from msgspec import Struct

__all__ = [
    "LIES",
    "MOVES",
    "OF_PRESENCE",
    "Lie",
    "Move",
    "Program",
    "fixed",
    "parse",
    "programs",
    "random_lies",
    "random_program",
    "single_lies",
    "survivors_of_its_own",
    "text",
]

LIES = {
    "omit": "the client is missing from the set, for all receivers",
    "differ": "the client alone is shown a set without another client",
    "alone": "the client is shown a set of only itself",
    "skip": "the client is sent nothing",
    "twice": "the message is sent a second time",
    "replay": "the previous message of this type is sent again, as a new one",
    "stale": "the first message of this type is sent again, unchanged",
    "other": "the message's number is increased by 1; of reports, a bit of a key, count or answer is turned",
    "fewer": "the last entry of the message's lists is missing (reports)",
    "double": "the first entry of the message's lists is in it twice (reports)",
    "gone": "from the message on, the server believes that the client is gone, who lives",
    "alive": "the client's machine fails with the message, and the server believes that it is there",
    "old": "the client's machine fails and comes back, and the server states its earlier incarnation",
}
"""The kinds of lies, each with the change that it makes."""

OF_PRESENCE = ("gone", "alive", "old")
"""The kinds of lies about who is present."""

_OF_A_CLIENT = ("omit", "differ", "alone", "skip", *OF_PRESENCE)
_OF_A_SET = ("omit", "differ", "alone")
_OF_REPORTS = ("fewer", "double")

MOVES = {
    "start": "an attempt begins, with these clients",
    "again": "the same attempt begins again",
    "ahead": "an attempt of the next round begins, with the same attempt number",
    "keys": "these clients' dealt keys are announced: A",
    "want": "masked values are requested",
    "left": "these clients are announced as survivors: U3",
    "end": "the sum is announced as complete",
    "reopen": "everybody is dismissed, and the same round is opened again",
    "next": "everybody is dismissed, and the next round is opened, with another model",
    "stay": "everybody is dismissed, and the next round is opened, with the same model",
    "back": "everybody is dismissed, and the next round is opened, with the first model",
    "crash": "these clients' machines fail and come back; of reports without clients, the helper's",
    "batch": "a batch of reports is opened with the helper",
    "ask": "these clients are asked for reports, with the helper's key",
    "swap": "these clients are asked for reports, with a key of the server",
    "job": "the helper is sent the latest report of each of these clients",
    "first": "the helper is sent the first report of each of these clients",
    "all": "the helper is sent every report of these clients",
    "own": "the helper is sent the reports of these clients, and the server's own under other names",
    "share": "the helper is asked for its share of the sum over these clients",
}
"""The kinds of moves, each with the server's action."""


class Lie(Struct, frozen=True):
    """A lie about the `occurrence`-th message of a type; `client` is the number of the client that it concerns, or None
    for all."""

    message: str
    occurrence: int
    kind: str
    client: int | None = None


class Move(Struct, frozen=True):
    """A move with the clients `names`, sent to the clients `to`."""

    kind: str
    names: tuple[int, ...] = ()
    to: tuple[int, ...] = ()


Program = tuple[Lie | Move, ...]
"""A program of lies only, or of moves only."""


def text(program: Program) -> str:
    """The program in one line, in the format of `parse`."""
    return "; ".join(map(_text, program))


def _text(one: Lie | Move) -> str:
    if isinstance(one, Lie):
        return f"{one.message}#{one.occurrence} {one.kind}{'' if one.client is None else f' {one.client}'}"
    to = ["to", *one.to] if one.to != one.names else []
    return " ".join(map(str, [one.kind, *one.names, *to]))


def parse(line: str, clients: int) -> Program:
    """Parse the program in `line`, for `clients` clients. Raises ValueError if it is invalid."""
    found = tuple(_parse(part.split(), part.strip(), clients) for part in line.split(";") if part.strip())
    if not found or len({type(one) for one in found}) > 1:
        raise ValueError(f"{line!r} must be lies alone or moves alone, at least one")
    return found


def _parse(words: list[str], part: str, clients: int) -> Lie | Move:
    first, _, occurrence = words[0].partition("#")
    if occurrence:
        kind = words[1] if len(words) > 1 else ""
        if (
            kind not in LIES
            or not occurrence.isdigit()
            or len(words) > 3
            or (len(words) == 3) != (kind in _OF_A_CLIENT)
        ):
            raise ValueError(f"{part!r} must be MESSAGE#NUMBER LIE [CLIENT]; lies are {', '.join(LIES)}")
        return Lie(first, int(occurrence), kind, _numbers(words[2:], part, clients)[0] if words[2:] else None)
    if first not in MOVES:
        raise ValueError(
            f"{part!r} must begin with a move, one of {', '.join(MOVES)}, or be a lie such as Survivors#1 twice"
        )
    cut = words.index("to") if "to" in words else len(words)
    names = _numbers(words[1:cut], part, clients)
    return Move(first, names, _numbers(words[cut + 1 :], part, clients) if cut < len(words) else names)


def _numbers(words: Sequence[str], part: str, clients: int) -> tuple[int, ...]:
    if not all(word.isdigit() and int(word) < clients for word in words):
        raise ValueError(f"{part!r} must name clients by numbers from 0 to {clients - 1}")
    return tuple(map(int, words))


def single_lies(sent: Iterable[tuple[str, int, bool, bool]], clients: Sequence[int]) -> Iterator[Program]:
    """Yield every single lie to or about these `clients`.

    `sent` has for each message type the number of messages, true if they have names, and true if they have a number.
    """
    for message, count, has_names, has_number in sent:
        for occurrence in range(1, count + 1):
            for kind in LIES:
                if kind in _OF_REPORTS:
                    continue
                if (kind in _OF_A_SET and not has_names) or (kind == "other" and not has_number):
                    continue
                if kind in OF_PRESENCE and occurrence not in (1, count):
                    continue
                some = clients[1:2] if kind in OF_PRESENCE else clients  # any client is as good, and each takes time
                for client in some if kind in _OF_A_CLIENT else (None,):
                    yield (Lie(message, occurrence, kind, client),)


# Programs

_Set = tuple[int, ...]


def _sets(clients: int, quick: bool) -> list[_Set]:
    """The sets of clients that are tried as A and as U3: all, all but the last, the first two (not if `quick`), the
    first."""
    everybody = tuple(range(clients))
    return list(dict.fromkeys([everybody, everybody[:-1], *([] if quick else [(0, 1)]), (0,)]))


def _attempt(a: _Set, answers: Iterable[Sequence[tuple[_Set, _Set]]] = (), start: str = "start") -> Program:
    """The moves of an attempt among A, followed by each of `answers`, as (U3, receivers)."""
    moves = [Move(start, a, a), Move("keys", a, a), Move("want", a, a)]
    return (*moves, *(Move("left", names, to) for answer in answers for names, to in answer))


def fixed(clients: int, deals: bool) -> Iterator[Program]:
    """Yield fixed programs for any number of `clients` >= 4 that find mistakes in a client's rules for refusing to
    answer.

    `deals`: keys are dealt in shares, so that the server announces U3.
    """
    everybody = tuple(range(clients))
    fewer, most = everybody[:-1], everybody[: -max(1, clients // 9)]

    def summed(names: _Set, start: str = "start") -> Program:
        return _attempt(names, [[(names, names)]] if deals else (), start)

    yield summed(most)
    yield summed((0,))
    yield summed((0, 1))
    for between in ("start", "again", "ahead"):
        yield (*summed(everybody), *summed(fewer, between))
    for between in ("reopen", "next", "stay"):
        yield (*summed(everybody), Move(between), *summed(fewer))
        yield (*summed(everybody), *(Move("crash", (n,), (n,)) for n in everybody), Move(between), *summed(fewer))
    yield (*summed(everybody), Move("next"), *summed(everybody), Move("back"), *summed(fewer))
    if not deals:
        yield (Move("start", everybody, everybody), Move("again", fewer, fewer))
        return
    start, keys, want = (Move(kind, everybody, everybody) for kind in ("start", "keys", "want"))
    low, high = everybody[: clients // 2], everybody[clients // 2 :]
    for one, other in (((0, *high), low), (low, (0, *high)), (most, everybody), (everybody, fewer)):
        yield (start, keys, want, Move("left", one, one), Move("left", other, other))
        yield (start, keys, want, Move("left", one, everybody), Move("left", other, everybody))
        yield (start, keys, want, Move("left", one, low), Move("left", other, high))
    yield (start, keys, want, Move("left", most, most), Move("keys", most, most), Move("left", fewer, fewer))
    # The first client is shown a small A, in which few shares recover its seed. The two other clients of that A are
    # each shown that the other is lost, and the remaining clients that both are.
    few, rest = everybody[:3], everybody[3:]
    yield (
        start, Move("keys", few, few[:1]), Move("keys", everybody, everybody[1:]), want, Move("left", few, few[:1]),
        Move("left", (0, 1, *rest), few[1:2]), Move("left", (0, 2, *rest), few[2:]),
        Move("left", (0, *rest), rest),
    )  # fmt: skip


def survivors_of_its_own(around: Sequence[_Set], threshold: int) -> Program:
    """A program that shows each client in a graph its own set of survivors, and thereby reveals the first client's
    input.

    Of the holders of shares of each neighbour of the first client, t see the neighbour as lost; all see the first
    client as a survivor. `around`: each client and its neighbours, by number; t = `threshold`.
    """
    everybody = tuple(range(len(around)))
    # The number of lost neighbours that each client accepts.
    room = {n: len(near) - 1 - threshold for n, near in enumerate(around)}
    lost: dict[int, set[int]] = {n: set() for n in everybody}
    for gone in around[0]:
        holders = sorted((n for n in around[gone] if gone and n not in (gone, 0)), key=lambda n: -room[n])
        for holder in holders[:threshold]:
            lost[holder].add(gone)
            room[holder] -= 1
    shown = (Move("left", tuple(n for n in everybody if n not in lost[to]), (to,)) for to in everybody)
    return (*(Move(kind, everybody, everybody) for kind in ("start", "keys", "want")), *shown)


def programs(clients: int, deals: bool, quick: bool = False) -> Iterator[Program]:
    """Yield every short program, the shortest first. `deals`: keys are dealt in shares, so that the server announces
    U3."""
    sets = _sets(clients, quick)
    yield from _within_an_attempt(sets, deals)
    first = [(a, u) for a in sets for u in sets if set(u) <= set(a)] if deals else [(a, a) for a in sets]
    for (a, u), (again, left) in product(first, first):
        before, after = (_attempt(names, [[(some, some)]] if deals else ()) for names, some in ((a, u), (again, left)))
        for between in ("start", "again", *(() if quick and deals else ("ahead", "keys", "reopen", "crash", "next"))):
            if between == "crash":
                yield (*before, Move("crash", u[:1], u[:1]), Move("reopen"), *after)
            elif between in ("reopen", "next"):
                yield (*before, Move(between), *after)
            elif between == "keys":  # the second attempt has no start
                yield (*before, *after[1:])
            else:
                yield (*before, *_attempt(again, [[(left, left)]] if deals else (), between))
    if not deals and not quick:
        yield from _three_attempts(clients)


def _three_attempts(clients: int) -> Iterator[Program]:
    """Yield programs of three attempts: the first among all clients, the others each among any set with the first
    client.

    The second and third attempt have new numbers ("start") or pretend to be of the next round ("ahead").
    """
    everybody = tuple(range(clients))
    some = [(0, *others) for size in range(1, clients) for others in combinations(everybody[1:], size)]
    for between, one, other in product(("start", "ahead"), some, some):
        yield tuple(
            Move(kind, names, names) for kind, names in (("start", everybody), (between, one), (between, other))
        )


def _within_an_attempt(sets: list[_Set], deals: bool) -> Iterator[Program]:
    """Yield programs of one attempt: each A alone; two sets A or U3, shown to two halves; and two U3 in turn, with one
    A."""
    for a in sets:
        yield _attempt(a, [[(a, a)]] if deals else ())
    everybody = sets[0]
    low, high = everybody[: len(everybody) // 2], everybody[len(everybody) // 2 :]
    for one, other in product(sets, sets):
        if one == other:
            continue
        to_one, to_other = (tuple(n for n in half if n in names) for half, names in ((low, one), (high, other)))
        announced = "keys" if deals else "start"
        split = (Move(announced, one, to_one), Move(announced, other, to_other))
        if deals:
            yield (Move("start", everybody, everybody), *split, Move("want", everybody, everybody),
                   Move("left", one, to_one), Move("left", other, to_other))  # fmt: skip
            yield _attempt(everybody, [[(one, low), (other, high)]])
            yield _attempt(everybody, [[(one, everybody)], [(other, everybody)]])
        else:
            yield split
    if deals and len(everybody) > 3:
        yield from _one_by_one(everybody)


def _one_by_one(everybody: _Set) -> Iterator[Program]:
    """Yield programs of one attempt in which each client sees its own U3, with small intersections, or the first its
    own A."""
    clients = len(everybody)
    t, rest = clients // 2 + 1, everybody[3:]
    start, keys, want = (Move(kind, everybody, everybody) for kind in ("start", "keys", "want"))
    for size in (t, t + 1):
        lefts = []
        for one in everybody:
            others = [n for n in everybody[2:] if n != one]
            turn = one % len(others)
            first = list(dict.fromkeys([0, 1, one]))
            chosen = [*first, *others[turn:], *others[:turn]][:size]
            lefts.append(Move("left", tuple(sorted(chosen)), (one,)))
        yield (start, keys, want, *lefts)
    few = everybody[:3]
    yield (
        start, Move("keys", few, few[:1]), Move("keys", everybody, everybody[1:]), want,
        Move("left", few, few[:1]),
        *(Move("left", (0, one, *rest[: t - 2]), (one,)) for one in few[1:]), Move("left", (0, *rest), rest),
    )  # fmt: skip


def random_program(random: np.random.Generator, clients: int, most: int = 14) -> Program:
    """Draw a program of 4 to `most` moves, the first of which begins an attempt among all."""
    everybody = tuple(range(clients))

    def some() -> _Set:
        chosen = tuple(n for n in everybody if random.random() < 0.7)
        return chosen or everybody

    kinds = (
        "start",
        "again",
        "ahead",
        "keys",
        "keys",
        "want",
        "want",
        "left",
        "left",
        "left",
        "end",
        "reopen",
        "next",
        "crash",
    )
    moves = [Move("start", everybody, everybody)]
    for _ in range(int(random.integers(3, most))):
        kind = kinds[int(random.integers(len(kinds)))]
        if kind in ("reopen", "next"):
            moves.append(Move(kind))
            continue
        names = some()[:1] if kind == "crash" else some()
        moves.append(Move(kind, names, some() if kind in ("keys", "left") and random.random() < 0.5 else names))
    return tuple(moves)


def random_lies(random: np.random.Generator, lies: Sequence[Lie], most: int = 4) -> Program:
    """Draw two to `most` of `lies`, without repetition, in their order."""
    chosen = random.choice(len(lies), size=min(len(lies), int(random.integers(2, most + 1))), replace=False)
    return tuple(lies[place] for place in sorted(chosen.tolist()))
