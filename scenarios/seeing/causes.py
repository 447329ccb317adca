"""Why somebody was missed, late or lost: a chain of recorded facts, each the reason of the one before.

Only what is recorded is said: who waited for what and until when, what became of each message, who was down, paused,
slow or computing. Where the record ends, the chain says so.
"""

from dataclasses import dataclass, field

from scenarios.seeing.facts import Facts, Message, Spell, Waiting
from sim.link import SENDER_GONE
from sim.transport import CUT
from sim.units import format_duration

__all__ = ["Cause", "Causes"]

_NAMED = 3
"""How many parties a chain names at a time."""

_UNRECORDED = "why is not recorded"


@dataclass(frozen=True)
class Cause:
    """A chain of `reasons`, each in words. `parties` and `messages` are those that it names."""

    reasons: tuple[str, ...] = ()
    parties: tuple[str, ...] = ()
    messages: tuple[int, ...] = ()

    def __add__(self, other: "Cause") -> "Cause":
        return Cause(
            (*self.reasons, *(one for one in other.reasons if one not in self.reasons)),
            tuple(dict.fromkeys((*self.parties, *other.parties))),
            tuple(dict.fromkeys((*self.messages, *other.messages))),
        )

    def __bool__(self) -> bool:
        return bool(self.reasons)


@dataclass(frozen=True)
class _Search:
    """A chain that is followed: at which time, from which round on, and which waits have been looked into.

    `only_lost`: nothing is said of a party that itself only waits for whoever waits.
    """

    at: float
    round: int
    only_lost: bool
    seen: set[tuple[str, int]] = field(default_factory=set)


def _cause(reason: str, *parties: str, message: Message | None = None) -> Cause:
    return Cause((reason,), parties, () if message is None else (message.number,))


class Causes:
    """Explains by `facts`. `datagrams`: what is lost is not sent again."""

    def __init__(self, facts: Facts, *, datagrams: bool = False) -> None:
        self._facts, self._datagrams = facts, datagrams

    def of_loss(self, party: str, round_number: int, time: float) -> Cause:
        """Why `party` was lost in a round: who waited for it in vain before `time`, and why in vain."""
        noticed = [step for when, step in self._facts.losses.get((party, round_number), ()) if when == time]
        wait = self._wait_before(party, round_number, time, noticed[0]) if noticed else None
        if wait is not None:
            return self._waited(wait, party) + self.of_silence(party, wait)
        down = self._facts.spell("down", party, 0.0, time)
        if down is not None and (down.ended is None or down.ended >= time or not noticed):
            return self._down(down)
        own = [one for one in self._facts.waits_of(party) if one.how == "deadline" and (one.ended or 0.0) <= time]
        if noticed or not own or own[-1].stamp[0] != round_number:
            return Cause()
        found = Cause()
        for name in own[-1].missing[:_NAMED]:
            found += self._waited(own[-1], name) + self.of_silence(name, own[-1])
        return found

    def of_silence(self, party: str, wait: Waiting, *, only_lost: bool = False) -> Cause:
        """Why the `wait` had not what it wanted from `party` when it ended.

        `only_lost`: nothing where the party itself only waited for whoever waits.
        """
        at = wait.ended if wait.ended is not None else float("inf")
        return self._of_silence(party, wait, _Search(at, wait.stamp[0], only_lost))

    def of_deadline(self, wait: Waiting) -> Cause:
        """Why the deadline of a `wait` passed: why others were silent, else what kept the party itself from work."""
        cause = Cause()
        for name in (wait.silent or wait.missing)[:_NAMED]:
            cause += self.of_silence(name, wait, only_lost=not wait.silent)
        if cause and not cause.reasons[-1].endswith(_UNRECORDED):
            return cause
        return self._spells(wait.party, wait.began, wait.ended or 0.0) or cause

    def of_delay(self, party: str, wait: Waiting) -> Cause:
        """Why the answer of `party`, which was received last, ended the `wait` so late."""
        ended = wait.ended or 0.0
        found = [one for one in self._facts.between(party, wait.party, wait.types) if one.received == ended]
        if not found:
            return self.of_late_entry(party, wait.began, ended)
        message = found[-1]
        if ended - message.sent > wait.alone / 2:
            return self._spells(party, wait.began, message.sent) + self._of_message(message, message.sent)
        before = self.of_late_entry(party, wait.began, message.sent)
        return before or _cause(f"{party} sent its {message.type} at {format_duration(message.sent)}", party)

    def of_late_entry(self, party: str, begin: float, end: float) -> Cause:
        """Why `party` was not as far as others between the two times: what kept it, else for whom it waited longest."""
        found = self._spells(party, begin, end)
        waits = [one for one in self._facts.waits_of(party) if one.ended is not None and begin < one.ended <= end]
        if found or not waits:
            return found
        longest = max(waits, key=lambda one: (one.ended or 0.0) - max(one.began, begin))
        for name in (longest.silent or longest.missing)[:_NAMED] if longest.how == "deadline" else ():
            found += self._waited(longest, name) + self.of_silence(name, longest, only_lost=True)
        if not found and longest.last:
            found = self._waited(longest, longest.last) + self._spells(longest.last, begin, end)
        return found

    # The parts of a chain

    def _of_silence(self, party: str, wait: Waiting, search: "_Search") -> Cause:
        if (party, wait.number) in search.seen:
            return Cause()
        search.seen.add((party, wait.number))
        due = [one for one in self._sent(party, wait, search.at) if not one.is_taken(search.at)]
        if due:
            of_round = [one for one in due if one.stamp[0] >= search.round]
            return self._of_message((of_round or due)[0], search.at)
        return self._of_state(party, wait, search)

    def _wait_before(self, party: str, round_number: int, time: float, step: str) -> Waiting | None:
        """The wait before `time` in which `party` was missed: the server's last in that `step`, else somebody's."""
        found = [
            wait
            for wait in self._facts.waits_for(party)
            if wait.stamp[0] == round_number
            and (wait.ended or 0.0) <= time
            and wait.how in ("deadline", "until", "answered")
            and (party in wait.silent or not wait.silent)
        ]
        by_server = [wait for wait in found if wait.party == "server" and wait.step == step]
        chosen = by_server or [wait for wait in found if wait.how == "deadline"]
        return chosen[-1] if chosen else None

    @staticmethod
    def _waited(wait: Waiting, party: str) -> Cause:
        types, where = " or ".join(wait.types), f" in {wait.step}" if wait.step else ""
        until = "its deadline at " if wait.how == "deadline" else ""
        end = f"until {until}{format_duration(wait.ended or 0.0)}"
        return _cause(f"{wait.party} waited{where} for {types} from {party} {end}", wait.party, party)

    def _sent(self, party: str, wait: Waiting, at: float) -> list[Message]:
        """What `party` had sent by then of what the `wait` is for; not what an earlier incarnation received."""
        back = self._facts.returned(wait.party, at)
        since = 0.0 if back is None or back.ended is None else back.ended
        return [
            one
            for one in self._facts.between(party, wait.party, wait.types)
            if one.stamp >= wait.stamp and one.sent <= at and (one.received is None or one.received >= since)
        ]

    def _of_message(self, one: Message, at: float) -> Cause:
        """What became of a message that was not there in time."""
        what = f"{one.type} from {one.sender} to {one.receiver}, sent at {format_duration(one.sent)},"
        if one.refused is not None and one.received is not None and one.received <= at:
            time, why = one.refused
            return _cause(f"{what} was refused at {format_duration(time)}: {why}", one.sender, message=one)
        reasons = []
        if one.lost:
            (time, why), count = one.lost[0], len(one.lost)
            copies = f"{count} copies of it from then on, " if count > 1 else ""
            again = f"sent again {one.again} time{'s' * (one.again != 1)}" if one.again else "not sent again"
            again += " (datagrams)" if self._datagrams and not one.again else ""
            reasons.append(f"was lost at {format_duration(time)} ({copies}{why}), {again}")
        if one.dropped and one.received is None:
            time, why = one.dropped[-1]
            reasons.append(f"was dropped at {format_duration(time)}: {why}")
        end = one.received if one.received is not None else at
        of_link = [spell for spell in self._facts.of_links if spell.concerns(one.sender, one.receiver)]
        held = self._held(one, end)
        reasons += [f"was held back ({held[0].note})"] if held else []
        delays = [note for _, note in one.struck if note.startswith("delay")]
        reasons += [f"was delayed by a fault ({delays[0]})"] if delays else []
        if one.received is not None:
            reasons.append(f"was received at {format_duration(one.received)}")
        elif not one.dropped and not (one.lost and not one.again):
            reasons.append("was not received")
        found = _cause(f"{what} {' and '.join(reasons)}", one.sender, one.receiver, message=one)
        times = [(time, time) for time, why in one.lost if why == CUT] or ([] if one.lost else [(one.sent, end)])
        cut = [spell for spell in of_link if spell.kind == "cut"]  # a relay keeps what it is not to carry
        struck = [spell for spell in cut if any(spell.lasts(*both) for both in times)]
        if struck:
            return found + self._spell(struck[0])
        if any(why == SENDER_GONE for _, why in one.lost):
            down = self._facts.spell("down", one.sender, one.sent, one.lost[0][0])
            return found if down is None else found + self._down(down)
        if one.lost or one.struck or held:
            return found
        if not self._datagrams and (first := self._facts.before(one)) is not None:
            behind = f"it was behind {first.type}, sent at {format_duration(first.sent)} on the same way"
            return found + _cause(behind) + self._of_message(first, at)
        for name in (one.sender, one.receiver):
            for kind in ("slow", "paused"):
                if (spell := self._facts.spell(kind, name, one.sent, end)) is not None:
                    found += self._spell(spell)
        return found

    def _held(self, one: Message, end: float) -> list[Spell]:
        """What held the message back before `end`."""
        kept = [spell for spell in self._facts.of_links if spell.kind == "held" and spell.lasts(one.sent, end)]
        return [spell for spell in kept if spell.concerns(one.sender, one.receiver)]

    def _is_untroubled(self, one: Message, at: float) -> bool:
        """Whether nothing happened to a message that was sent before `at` and received after it."""
        troubled = one.received is None or one.lost or one.dropped or one.struck or self._held(one, one.received)
        return not troubled and len(self._of_message(one, at).reasons) == 1

    def _later_call(self, party: str, wait: Waiting, at: float) -> Cause:
        """What became of a message from `party` that would have ended the `wait` in another way, had it arrived."""
        for one in self._facts.sent_to(wait.party, party):
            is_later = one.sent < at and one.stamp >= wait.stamp and one.type not in wait.types
            if is_later and (one.received is None or one.received > at) and not self._is_untroubled(one, at):
                return self._of_message(one, at)
        return Cause()

    def _of_state(self, party: str, wait: Waiting, search: "_Search") -> Cause:
        """What a party did that had not sent what was waited for."""
        facts, at = self._facts, search.at
        if (down := facts.spell("down", party, at, at)) is not None:
            return self._down(down)
        if (paused := facts.spell("paused", party, at, at)) is not None:
            return self._spell(paused)
        waits = [one for one in facts.waits_of(party) if one.is_open(at) and one is not wait]
        own = min(waits, key=lambda one: (one.began + one.deadline, -one.number)) if waits else None
        back = facts.returned(party, at)
        is_new = back is not None and (own is None or own.stamp < wait.stamp)  # it has lost what it knew of the round
        found = self._down(back) if back is not None and is_new else Cause()
        if own is not None:
            return found + self._of_waiting(own, wait, search, is_new)
        jobs = [job for job in facts.jobs.get(party, ()) if job.began <= at]
        slow = facts.spell("slow", party, wait.began, at)
        if slow is not None:
            found += self._spell(slow)
        if jobs and (slow is not None or jobs[-1].began + jobs[-1].seconds >= at):
            job, took = jobs[-1], "was computing" if slow is None else "had begun to compute"
            since = f"{party} {took} in {job.step} at {format_duration(job.began)}"
            found += _cause(f"{since}, a job of {format_duration(job.seconds)} at full speed", party)
        found = found or self._later_call(party, wait, at)
        types = " or ".join(wait.types)
        return found if found or search.only_lost else _cause(f"{party} had sent no {types}; {_UNRECORDED}", party)

    def _of_waiting(self, own: Waiting, other: Waiting, search: "_Search", is_new: bool) -> Cause:
        """Why a party that is waited for waits itself; `is_new`: it has come back, and only waits to be called."""
        at = search.at
        types = " or ".join(own.types)
        missing = [name for name in own.sources if self._lacks(name, own, at)]
        shown = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "")
        circle = [name for name in missing if name == other.party and not self._sent(name, own, at)]
        if circle == missing and not is_new and (call := self._later_call(other.party, own, at)):
            return _cause(f"{own.party} itself waited for {types} from {other.party}", own.party) + call
        if circle == missing:
            reason = f"{own.party} itself waited for {types} from {other.party}, which had sent none"
            return Cause() if search.only_lost or is_new or not missing else _cause(reason, own.party)
        under_way = [one for name in missing for one in self._sent(name, own, at) if not one.is_taken(at)]
        if under_way and all(self._is_untroubled(one, at) for one in under_way):
            earlier = self._of_earlier(own, other, search)
            if earlier or search.only_lost:
                return earlier
        found = _cause(f"{own.party} itself waited for {types} from {shown}", own.party, *missing[:_NAMED])
        for name in missing[:_NAMED]:
            if name not in circle:
                found += self._of_silence(name, own, search)
        return found

    def _of_earlier(self, own: Waiting, other: Waiting, search: "_Search") -> Cause:
        """Why a party had not sent what `other` is for, if what it waits for by now is merely on its way.

        It has given up to wait for what it needed; or it has done its part, and others lack what it has sent to them.
        """
        at, party = search.at, own.party
        found = Cause()
        for wait in self._facts.waits_of(party):
            if wait.how == "deadline" and wait.stamp >= other.stamp and (wait.ended or 0.0) <= at:
                for name in (wait.silent or wait.missing)[:_NAMED]:
                    found += self._waited(wait, name) + self._of_silence(name, wait, search)
        if found:
            return found
        for name in (one for one in other.missing if one != party):
            for wait in self._facts.waits_of(name):
                if wait.is_open(at) and party in wait.sources and not self._has(party, wait, at):
                    found += _cause(f"{name} itself waited for {' or '.join(wait.types)} from {party}", name, party)
                    found += self._of_silence(party, wait, search)
        return found

    def _lacks(self, name: str, wait: Waiting, at: float) -> bool:
        """Whether nothing that the `wait` is for was received from `name` by then, or more of it is on its way."""
        sent = self._sent(name, wait, at)
        return not sent or not all(one.is_taken(at) for one in sent)

    def _has(self, name: str, wait: Waiting, at: float) -> bool:
        """Whether something that the `wait` is for was received from `name` by then."""
        return any(one.is_taken(at) for one in self._sent(name, wait, at))

    def _spells(self, party: str, begin: float, end: float) -> Cause:
        """What kept a party from its work between the two times."""
        found = Cause()
        for spell in self._facts.spells_of(party):
            if spell.lasts(begin, end):
                found += self._down(spell) if spell.kind == "down" else self._spell(spell)
        return found

    def _down(self, spell: Spell) -> Cause:
        went = "left" if spell.note.startswith("leave") else "crashed"
        trigger = spell.note.partition(" ")[2]
        where = f" in {spell.step}" if spell.step else ""
        back = "" if spell.ended is None else f" and was back at {format_duration(spell.ended)}"
        why = f" ({trigger})" if trigger else ""
        return _cause(f"{spell.party} {went} at {format_duration(spell.began)}{where}{why}{back}", spell.party)

    def _spell(self, spell: Spell) -> Cause:
        until = "" if spell.ended is None else f" to {format_duration(spell.ended)}"
        since = f"{format_duration(spell.began)}{until}" if until else f"since {format_duration(spell.began)}"
        says = {"paused": "paused", "slow": "slow", "cut": "cut off", "held": "held back"}[spell.kind]
        return _cause(f"{spell.party} was {says} {since} ({spell.note})", spell.party)
