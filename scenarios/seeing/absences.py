"""The lost parties with the causes, each cause once: since when, in which rounds, and how long the server waited in
vain."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from tacit.parties.server import Loss
from tacit.scenarios.seeing.causes import Cause, Reason
from tacit.scenarios.seeing.facts import Facts
from tacit.sim.units import format_duration

__all__ = ["Absence", "Key", "grouped", "key_of"]

Key = tuple[object, ...]


class Absence(Struct, frozen=True, kw_only=True):
    """The losses of one party that have one cause.

    `cause` is the reason in words, "" if it is not recorded, and `kind` is the kind of the last reason of its chain,
    and `state` that of the device while a fault lasts ("" for other kinds).
    `step` and `time` (virtual seconds) are those of the first loss, `rounds` the rounds in which the party's answer is
    missing. In `waits` waits, `waited` seconds in all, the server waited for the party until a deadline passed.
    `because` are the reasons of the first loss, and `losses` all of the losses.
    """

    party: str
    kind: str
    state: str
    cause: str
    step: str
    time: float
    rounds: tuple[int, ...]
    waits: int
    waited: float
    because: tuple[str, ...]
    losses: tuple[Loss, ...]

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps at which the party was lost, each once."""
        return tuple(dict.fromkeys(loss.step for loss in self.losses))

    @property
    def consequence(self) -> str:
        """The consequence in words: the rounds that the party missed, and the time that the server waited for it."""
        found = [f"missing from {rounds_text(self.rounds)}"] if self.rounds else []
        if self.waits:
            times = f"{self.waits} times" if self.waits > 1 else "once"
            found.append(f"the server waited for it {times}, {format_duration(self.waited)} in all")
        return "; ".join(found)

    @property
    def text(self) -> str:
        """The absence in one line."""
        first = self.losses[0]
        actions = dict.fromkeys(f"at {loss.step}: {loss.action}" for loss in self.losses)
        more = f" ({len(self.losses)} losses)" if len(self.losses) > 1 and not self.rounds else ""
        what = f"{self.party}: {self.cause}" if self.cause else f"{self.party} at {first.step}: {first.action}"
        done = [next(iter(actions))] if self.cause and len(actions) == 1 else []
        return "; ".join(filter(None, (what + more, *done, self.consequence)))


def rounds_text(rounds: Sequence[int]) -> str:
    """The numbers of rounds as text: ``round 2``, ``rounds 2 to 60``, or ``rounds 2, 5 to 8``."""
    starts = [0, *(place for place, (one, other) in enumerate(pairwise(rounds), 1) if other != one + 1)]
    spans = [(rounds[start], rounds[end - 1]) for start, end in zip(starts, [*starts[1:], len(rounds)], strict=True)]
    shown = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in spans)
    return f"round{'s' * (len(rounds) > 1)} {shown}"


def key_of(party: str, cause: Cause, action: str) -> Key:
    """Return a key that is equal for losses of one party with one cause: the party and the ends of the chains of
    reasons.

    Faults are distinguished by the time at which they began; messages, jobs and refusals by their kind only.
    """
    root = cause.root
    if root is None:
        return party, action
    return party, root.kind, root.party, root.time if root.kind == "fault" and not root.message else None


def grouped(losses: Iterable[Loss], facts: Facts, cause_of: Callable[[Loss], Cause]) -> list[Absence]:
    """An entry for each party and cause, in the order of their first losses."""
    groups: dict[Key, list[tuple[Loss, Cause]]] = {}
    for loss in losses:
        cause = cause_of(loss)
        groups.setdefault(key_of(loss.party, cause, loss.action), []).append((loss, cause))
    return [_absence(members, facts) for members in groups.values()]


def _absence(members: Sequence[tuple[Loss, Cause]], facts: Facts) -> Absence:
    first, cause = members[0]
    losses = tuple(loss for loss, _ in members)
    rounds = {loss.round for loss in losses}
    missed = sorted(number for number in rounds if first.party not in facts.answered.get(number, ()))
    spans = sorted(
        (wait.began, wait.ended or wait.began)
        for wait in facts.waits_for(first.party)
        if wait.party == "server" and wait.how in ("deadline", "gone") and wait.stamp[0] in rounds
        and (first.party in wait.silent or not wait.silent)
    )  # fmt: skip
    return Absence(
        party=first.party,
        kind="" if cause.root is None else cause.root.kind,
        state="" if cause.root is None else cause.root.state,
        cause=_words(cause.root, first.party),
        step=first.step,
        time=first.time,
        rounds=tuple(missed),
        waits=len(spans),
        waited=_covered(spans),
        because=cause.reasons,
        losses=losses,
    )


def _words(root: Reason | None, party: str) -> str:
    if root is None or root.kind in ("unknown", "wait"):
        return ""
    return root.text.removeprefix(f"{party} ")


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """The number of seconds within at least one of the `spans`, which are sorted."""
    found, until = 0.0, 0.0
    for began, ended in spans:
        found += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return found
