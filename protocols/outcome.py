"""The ways in which a party's part in a protocol ends without a result."""

__all__ = ["Abort", "Overtaken", "Withdrawn", "require"]


class Abort(Exception):
    """The server ends the round for all parties, because too few are left.

    The text has their number and the requirement.
    """


class Withdrawn(Exception):
    """A client ends its part of the round, because its data are unusable.

    The text has the reason; other clients continue.
    """


class Overtaken(Exception):
    """A later round began before the client received the end of its current one."""


def require(count: int, what: str, least: int, limit: str = "min_clients") -> None:
    """Raise Abort if `count` is below `least`; `what` describes who was counted, `limit` is the name of the limit."""
    if count < least:
        raise Abort(f"{count} {what} are left; {limit} is {least}")
