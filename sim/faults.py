"""Faults that a scenario injects, and what triggers them."""

from dataclasses import dataclass

__all__ = ["Crash", "Crashed", "Faults"]


class Crashed(BaseException):
    """Raised inside a party at the moment it crashes. No `except Exception` of a protocol may catch it."""


@dataclass(frozen=True)
class Crash:
    """`party` loses all that is not on its disk and falls silent.

    Exactly one trigger: `before` or `after` a named step (at its `occurrence`-th time, from 1), or at the
    virtual `time` in seconds. With `back_after` seconds it comes back after that long, as a new incarnation.
    """

    party: str
    before: str = ""
    after: str = ""
    time: float | None = None
    occurrence: int = 1
    back_after: float | None = None

    def __post_init__(self) -> None:
        triggers = [bool(self.before), bool(self.after), self.time is not None]
        if sum(triggers) != 1:
            raise ValueError(f"the crash of {self.party} needs exactly one of before, after and time.")
        if self.occurrence < 1:
            raise ValueError(f"occurrence(={self.occurrence}) must be >= 1.")
        if self.time is not None and self.time < 0:
            raise ValueError(f"time(={self.time}) must be >= 0 seconds.")
        if self.back_after is not None and self.back_after < 0:
            raise ValueError(f"back_after(={self.back_after}) must be >= 0 seconds.")


class Faults:
    """All faults of a run. `fired` lists those that happened, in order."""

    def __init__(self, faults: tuple[Crash, ...] = ()) -> None:
        self._faults = faults
        self._reached: dict[tuple[str, str], int] = {}
        self.fired: list[Crash] = []

    def timed(self, party: str) -> list[Crash]:
        """The crashes of `party` at a virtual time."""
        return [fault for fault in self._faults if fault.party == party and fault.time is not None]

    def at_step(self, party: str, step: str, when: str) -> Crash | None:
        """The crash that is due now that `party` is `when` ("before" or "after") the `step`, if there is one."""
        if when == "before":
            self._reached[party, step] = self._reached.get((party, step), 0) + 1
        occurrence = self._reached.get((party, step), 0)
        for fault in self._faults:
            if fault.party == party and getattr(fault, when) == step and fault.occurrence == occurrence:
                return fault
        return None
