"""How a party's part in a protocol ends when it does not end with a result, and what becomes of impossible values."""

from collections.abc import Iterator
from contextlib import contextmanager

from parties.party import Party

__all__ = ["Abort", "BadValues", "require", "values_of"]


class Abort(Exception):
    """The server ends the round for all: too few parties are left. The text says how many and what was needed."""


class BadValues(Exception):
    """What a party sent decodes, and cannot be. The text names the sender, the message and what is wrong."""


def require(count: int, what: str, least: int, limit: str = "min_clients") -> None:
    """Raise Abort when fewer than `least` are left; `what` says who was counted, `limit` what asks for so many."""
    if count < least:
        raise Abort(f"{count} {what} are left; {limit} is {least}")


@contextmanager
def values_of(me: Party, sender: str, what: str) -> Iterator[None]:
    """While `me` works with the values of `what` from `sender`: a ValueError is traced, and becomes BadValues."""
    try:
        yield
    except ValueError as error:
        problem = BadValues(f"{what} from {sender}: {error}")
        me.world.note("drop", me.name, step=me.step_name, note=str(problem))
        raise problem from None
