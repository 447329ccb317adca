"""How a party's part in a protocol ends when it does not end with a result."""

__all__ = ["Abort", "require"]


class Abort(Exception):
    """The server ends the round for all: too few parties are left. The text says how many and what was needed."""


def require(count: int, what: str, min_clients: int) -> None:
    """Raise Abort when fewer than `min_clients` are left; `what` says who was counted."""
    if count < min_clients:
        raise Abort(f"{count} {what} are left; min_clients is {min_clients}")
