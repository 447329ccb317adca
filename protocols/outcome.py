"""How a party's part in a protocol ends when it does not end with a result."""

__all__ = ["Abort", "require"]


class Abort(Exception):
    """The server ends the round for all: too few parties are left. The text says how many and what was needed."""


def require(count: int, what: str, least: int, limit: str = "min_clients") -> None:
    """Raise Abort when fewer than `least` are left; `what` says who was counted, `limit` what asks for so many."""
    if count < least:
        raise Abort(f"{count} {what} are left; {limit} is {least}")
