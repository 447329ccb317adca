"""How a party's part in a protocol ends without a result."""

__all__ = ["Abort", "Overtaken", "Withdrawn", "require"]


class Abort(Exception):
    """The server ends the round for all: too few parties are left. The text says how many and what was needed."""


class Withdrawn(Exception):
    """A client ends its part of the round, for what it has cannot be used. The text says why; the others go on."""


class Overtaken(Exception):
    """A later round began before the client received the end of its own."""


def require(count: int, what: str, least: int, limit: str = "min_clients") -> None:
    """Raise Abort when fewer than `least` are left; `what` says who was counted, `limit` which limit this is."""
    if count < least:
        raise Abort(f"{count} {what} are left; {limit} is {least}")
