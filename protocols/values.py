"""Invalid values in messages: wrong lengths, invalid keys.

A party that sends such values is treated as if it had sent nothing, and the trace names it. A run never fails for them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from tacit.parties.party import Party
from tacit.parties.server import Server
from tacit.protocols.outcome import Reasoned
from tacit.sim.hollow import blank, hollow
from tacit.sim.wire import Message

__all__ = [
    "BadValues", "announced", "first_understood", "understood", "unlike_others", "values_of",
    "with_usable_keys",
]  # fmt: skip

M = TypeVar("M")
N = TypeVar("N", bound=Message)
R = TypeVar("R")


class BadValues(Reasoned):
    """A party's message decodes, but is invalid. The text names the sender, the message and the problem."""


class values_of:  # reads as a function, and is entered for every message
    """A context in which `me` processes values from `sender`: a ValueError is traced, and becomes BadValues."""

    __slots__ = ("_me", "_sender", "_what")

    def __init__(self, me: Party, sender: str, what: str) -> None:
        self._me, self._sender, self._what = me, sender, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if isinstance(error, ValueError):
            raise _traced(self._me, self._sender, self._what, error) from None


def _traced(me: Party, sender: str, what: str, error: ValueError) -> BadValues:
    """Trace that the message `what` of `sender` is invalid; returns what is to be raised."""
    problem = BadValues("{message} from {sender}: {problem}", message=what, sender=(sender,), problem=str(error))
    origin = ("", me.round, me.attempt)
    me.world.note(
        "drop", me.name, step=me.step_name, note=str(problem), sender=sender, origin=origin, detail=str(error)
    )
    return problem


def understood(me: Party, answers: Mapping[str, M], read: Callable[[str, M], R]) -> dict[str, R]:
    """The results of `read` for the senders' answers; answers with invalid values are left out."""
    found: dict[str, R] = {}
    for name, answer in answers.items():
        try:  # `values_of` without its calls: there is an answer for each pair of parties
            found[name] = read(name, answer)
        except BadValues:
            pass
        except ValueError as error:
            _traced(me, name, type(answer).__name__, error)
    return found


async def first_understood(
    me: Server, kind: type[N], names: Sequence[str], needed: int, deadline: float, read: Callable[[str, N], R]
) -> dict[str, R]:
    """Receive the first `needed` readable answers of `names`, or all that arrive by the deadline."""
    found: dict[str, R] = {}
    left, end = tuple(names), me.world.loop.time() + deadline
    while (lacking := needed - len(found)) > 0 and left and (seconds := end - me.world.loop.time()) > 0:
        sent = await me.collect(kind, left, deadline=seconds, quorum=lacking)
        found |= understood(me, sent.answers, read)
        left = sent.missing
        if me.are_gone(dict.fromkeys(left)):
            break
    return found


def unlike_others(me: Party, content: bytes) -> bytes:
    """Return `content`; in a hollow run, a blank of its length that equals no other value.

    For a value that begins a round, such as a consensus: parties refuse a second sum that begins with an equal one
    (`refusal.may_answer`, `reports`). Hollow contents would be equal in every round, where those of a run differ.
    """
    return content if me.world.hollow is None else blank(len(content))


def announced(me: Party, names: Sequence[str], among: Iterable[str]) -> tuple[str, ...]:
    """Return `names` if they are `me` and others of `among`, in the same order. Raises ValueError."""
    known = set(names)
    if me.name not in known or list(names) != [name for name in among if name in known]:
        raise ValueError(f"{len(names)} names are not those of {me.name} and others, in their order")
    return tuple(names)


async def with_usable_keys(
    me: Party, answers: Mapping[str, M], keys_of: Callable[[M], Sequence[bytes]]
) -> dict[str, M]:
    """The answers whose keys, returned by `keys_of`, are X25519 keys of full order.

    They are tested by a key agreement with each, at its cost.
    """
    keys = [key for answer in answers.values() for key in keys_of(answer)]
    problems = dict(zip(keys, await me.compute({"x25519.agree": len(keys)}, _problems, keys), strict=True))

    def usable(name: str, answer: M) -> M:
        if problem := next((problems[key] for key in keys_of(answer) if problems[key]), ""):
            raise ValueError(problem)
        return answer

    return understood(me, answers, usable)


@hollow(lambda keys: [""] * len(keys))
def _problems(keys: list[bytes]) -> list[str]:
    """The problem of each key; "" if there is none."""
    from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair

    probe, found = KeyPair(bytes(KEY_BYTES)), []
    for key in keys:
        try:
            probe.agree(key)
            found.append("")
        except ValueError as error:
            found.append(str(error))
    return found
