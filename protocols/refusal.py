"""What a client refuses, so that no server learns more of its values than a protocol states.

The trace names each refusal; the client does not answer, and goes on. The round and attempt of actions that must not be
repeated are stored on its disk: neither another call of a protocol nor a crash makes it forget.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from parties.party import Party

__all__ = ["Least", "enter", "is_of_round", "latest", "refuse"]

Stamp = tuple[int, int]
"""A round and an attempt."""


@dataclass(frozen=True)
class Least:
    """The fewest clients among which a client lets its values be summed: `clients`, of those that are `counted`.

    None counts all.
    """

    clients: int
    counted: Container[str] | None = None

    def problem(self, names: Sequence[str]) -> str:
        """The problem of a sum over `names`; "" if they are enough."""
        count = sum(self.counted is None or name in self.counted for name in set(names))
        if count >= self.clients:
            return ""
        return f"{count} clients{'' if self.counted is None else ' with labels'} are fewer than {self.clients}"


def refuse(me: Party, what: str) -> None:
    """Note that `me` refuses to do `what`."""
    me.world.note("metric", me.name, step=me.step_name, note=f"refused to {what}")


def latest(me: Party, what: str) -> Stamp:
    """The latest (round, attempt) in which `me` entered `what`, in any incarnation; (0, 0): none."""
    round_number, attempt = me.disk.get("entered", {}).get(what, (0, 0))
    return round_number, attempt


def enter(me: Party, what: str) -> bool:
    """Enter that `me` does `what` in this attempt. False where it has done so in this attempt or a later one."""
    now = (me.round, me.attempt)
    if now <= latest(me, what):
        return False
    me.disk["entered"] = me.disk.get("entered", {}) | {what: now}
    return True


def is_of_round(me: Party, number: int) -> bool:
    """Whether `me` is still in round `number`, that of its keys; if not, the trace says what it refuses.

    Keys are derived from the set-up and the attempt's number: in a later round the same number would repeat them.
    """
    if me.round != number:
        refuse(me, f"begin a sum of round {me.round}: its keys are of round {number}")
    return me.round == number
