"""The reasons why parties were missed, late or lost: chains of recorded facts, each the reason for the previous one.

Only recorded facts are used: who waited for what and until when, what happened to each message, and who was down,
paused, slow, asleep or computing. If the record has no further fact, the chain says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from tacit.parties.presence import Heartbeat
from tacit.scenarios.seeing.facts import Facts, Spell, Waiting
from tacit.scenarios.seeing.messages import Message
from tacit.sim.faults import Delay
from tacit.sim.link import SENDER_GONE
from tacit.sim.transport import BEHIND, BY_FAULT, CUT
from tacit.sim.units import format_duration

__all__ = ["ROOTS", "Cause", "Causes", "Chain", "Reason"]

_NAMED = 3
"""The most parties that a chain names at a time."""

ROOTS = ("fault", "link", "device", "choice")
"""The kinds of reasons that may end a chain: a fault of the scenario; a message that its link lost or delayed; a device
that computes or sleeps; a program's refusal."""

_TRIED = 50
"""The most silent parties that are explained in search of `_NAMED` chains."""

_UNRECORDED = "why is not recorded"


class Reason(Struct, frozen=True):
    """A fact of a chain: its kind, the virtual time (s) at which it began, and the fact in words.

    `kind` is wait, message, unknown, or one of `ROOTS`. `party` is the affected party, `parties` are all parties that
    the reason names, and `message` is the number of its message, 0 if it has none. `state`: the device's while the
    fault lasts, in words (down, slow, ...), "" for other reasons.
    """

    kind: str
    time: float
    text: str
    party: str = ""
    parties: tuple[str, ...] = ()
    message: int = 0
    state: str = ""


Chain = tuple[Reason, ...]


@dataclass(frozen=True)
class Cause:
    """Chains of reasons: in each, the first reason explains the event, and the next one explains the first."""

    chains: tuple[Chain, ...] = ()

    @classmethod
    def of(cls, *reasons: Reason) -> "Cause":
        """One chain of these reasons."""
        return cls((reasons,) if reasons else ())

    def then(self, other: "Cause") -> "Cause":
        """The last chain of this cause, continued by the reasons in `other`."""
        if not (self.chains and other.chains):
            return self or other
        *before, last = self.chains
        first, *beside = other.chains
        return Cause((*before, (*last, *first), *beside))

    def beside(self, other: "Cause") -> "Cause":
        """Both causes in parallel; of chains with the same end only the first."""
        ends = {chain[-1] for chain in self.chains}
        return Cause((*self.chains, *(chain for chain in other.chains if chain[-1] not in ends)))

    @property
    def root(self) -> Reason | None:
        """The end of the first chain that ends with one of `ROOTS`, else of the first chain; None if there is none."""
        ends = [chain[-1] for chain in self.chains]
        return next((one for one in ends if one.kind in ROOTS), ends[0] if ends else None)

    def apart(self) -> tuple["Cause", ...]:
        """One cause for each chain."""
        return tuple(Cause((chain,)) for chain in self.chains)

    @property
    def is_whole(self) -> bool:
        """True if every chain ends with one of `ROOTS`, and there is one."""
        return bool(self.chains) and all(chain[-1].kind in ROOTS for chain in self.chains)

    @property
    def reasons(self) -> tuple[str, ...]:
        """All reasons in words, each once, chain after chain."""
        return tuple(dict.fromkeys(reason.text for chain in self.chains for reason in chain))

    @property
    def parties(self) -> tuple[str, ...]:
        """All parties that the chains name."""
        return tuple(dict.fromkeys(name for chain in self.chains for reason in chain for name in reason.parties))

    @property
    def messages(self) -> tuple[int, ...]:
        """The numbers of all messages in the chains."""
        return tuple(dict.fromkeys(one.message for chain in self.chains for one in chain if one.message))

    def __bool__(self) -> bool:
        return bool(self.chains)


@dataclass(frozen=True)
class _Search:
    """The state while a chain is followed: the latest time, the first round, and the waits that were already explained.

    `only_lost`: a party that itself only waits for the waiting party is not explained.
    """

    at: float
    round: int
    only_lost: bool
    seen: frozenset[tuple[str, int]] = field(default=frozenset())

    def by(self, at: float) -> "_Search":
        """The same search, limited to facts before an earlier time."""
        return _Search(min(self.at, at), self.round, self.only_lost, self.seen)

    def entered(self, party: str, wait: Waiting) -> "_Search":
        return _Search(self.at, self.round, self.only_lost, self.seen | {(party, wait.number)})


def _cause(kind: str, time: float, text: str, *parties: str, message: Message | None = None, state: str = "") -> Cause:
    party = parties[0] if parties else ""
    return Cause.of(Reason(kind, time, text, party, parties, 0 if message is None else message.number, state))


class Causes:
    """Explains events by `facts`. `datagrams`: lost messages are not sent again."""

    def __init__(self, facts: Facts, *, datagrams: bool = False) -> None:
        self._facts, self._datagrams = facts, datagrams

    def of_loss(self, party: str, round_number: int, time: float) -> Cause:
        """The reason why `party` was lost in a round: the wait for it that ended in vain before `time`, and its
        explanation."""
        noticed = [step for when, step in self._facts.losses.get((party, round_number), ()) if when == time]
        wait = self._wait_before(party, round_number, time, noticed[0]) if noticed else None
        if wait is not None:
            return self._waited(wait, party).then(self.of_silence(party, wait))
        if said := self._facts.objection(party, round_number, time):
            return _cause("choice", *said, party)
        down = self._facts.spell("down", party, 0.0, time)
        if down is not None and (down.ended is None or down.ended >= time or not noticed):
            return self._down(down)
        own = [
            one for one in self._facts.waits_of(party) if one.how in ("deadline", "gone") and (one.ended or 0.0) <= time
        ]
        if noticed or not own or own[-1].stamp[0] != round_number:
            of_round = self._spells(party, time, time) or self._of_missed(party, round_number, time)
            return of_round or self._of_earlier_round(party, time, noticed)
        found = Cause()
        for name in own[-1].missing[:_NAMED]:
            found = found.beside(self._waited(own[-1], name).then(self.of_silence(name, own[-1])))
        return found

    def _of_earlier_round(self, party: str, time: float, steps: Sequence[str]) -> Cause:
        """The latest wait for `party` in one of `steps` that ended in vain; it is lost until it answers."""
        waits = [
            wait
            for wait in self._facts.waits_for(party)
            if wait.step in steps and (wait.ended or 0.0) <= time and wait.how in ("deadline", "gone")
        ]
        silent = [wait for wait in waits if party in wait.silent]
        return self._waited(silent[-1], party).then(self.of_silence(party, silent[-1])) if silent else Cause()

    def _of_missed(self, party: str, round_number: int, time: float) -> Cause:
        """The fate of the last message that `party` waited for in the round and did not get."""
        waits = [wait for wait in self._facts.waits_of(party) if wait.stamp[0] == round_number and wait.began <= time]
        for wait in reversed(waits):
            for name in wait.sources:
                for one in self._sent(name, wait, time):
                    if not one.is_taken(time) and (one.struck or one.lost or one.dropped):
                        return self._of_message(one, time)
        return Cause()

    def of_silence(self, party: str, wait: Waiting, *, only_lost: bool = False) -> Cause:
        """The reason why the `wait` lacked messages from `party` when it ended.

        `only_lost`: nothing if the party itself only waited for the waiting party.
        """
        at = wait.ended if wait.ended is not None else float("inf")
        return self._of_silence(party, wait, _Search(at, wait.stamp[0], only_lost))

    def of_deadline(self, wait: Waiting) -> Cause:
        """The reason why the deadline of a `wait` passed: why senders were silent, else what stopped the waiting party
        itself."""
        ended = wait.ended or 0.0
        own = self._facts.spell("paused", wait.party, wait.began, ended)
        if own is not None and min(ended, own.ended or ended) - max(wait.began, own.began) > wait.deadline / 2:
            return self._spell(own)
        cause = Cause()
        for name in (wait.silent or wait.missing)[:_TRIED]:
            cause = cause.beside(self.of_silence(name, wait, only_lost=not wait.silent))
            if len(cause.chains) >= _NAMED:
                break
        if cause and (cause.is_whole or cause.chains[-1][-1].kind != "unknown"):
            return cause
        return self._spells(wait.party, wait.began, ended) or cause

    def of_delay(self, party: str, wait: Waiting) -> Cause:
        """The reason why the answer of `party`, received last, ended the `wait` so late."""
        ended = wait.ended or 0.0
        found = [one for one in self._facts.between(party, wait.party, wait.types) if one.received == ended]
        if not found:
            return self.of_late_entry(party, wait.began, ended)
        message = found[-1]
        if ended - message.sent > wait.alone / 2:
            return self._of_message(message, ended)
        before = self.of_late_entry(party, wait.began, message.sent)
        sent = f"{party} sent its {message.type} at {format_duration(message.sent)}"
        return before or _cause("message", message.sent, sent, party, message=message)

    def of_late_entry(self, party: str, begin: float, end: float, depth: int = 0) -> Cause:
        """The reason why `party` was behind others between `begin` and `end`: what stopped it, else its longest
        wait."""
        found = self._spells(party, begin, end) or self._slept(party, begin, end)
        waits = [one for one in self._facts.waits_of(party) if one.ended is not None and begin < one.ended <= end]
        if found or not waits:
            return found
        longest = max(waits, key=lambda one: (one.ended or 0.0) - max(one.began, begin))
        for name in (longest.silent or longest.missing)[:_NAMED] if longest.how in ("deadline", "gone") else ():
            found = found.beside(self._waited(longest, name).then(self.of_silence(name, longest, only_lost=True)))
        if not found and longest.last:
            found = self._waited(longest, longest.last)
            ended = longest.ended or 0.0
            sent = self._facts.between(longest.last, party, longest.types)
            message = next((one for one in sent if one.received == ended), None)
            if message is not None and ended - message.sent > (ended - max(longest.began, begin)) / 2:
                return found.then(self._of_message(message, ended))
            if depth < _NAMED:  # the message was sent late, not received late
                until = ended if message is None else message.sent
                found = found.then(self.of_late_entry(longest.last, begin, until, depth + 1))
        return found

    # Parts of chains

    def _of_silence(self, party: str, wait: Waiting, search: "_Search") -> Cause:
        if (party, wait.number) in search.seen:
            return Cause()
        search = search.entered(party, wait)
        known = self._facts.known_gone(party, search.at) if wait.how == "gone" else None
        if known is None:
            return self._of_absence(party, wait, search)
        since, note = known
        found = _cause("message", since, f"{party} was {note} (at {format_duration(since)})", party)
        return found.then(self._of_absence(party, wait, search) or self._of_missed_heartbeat(party, wait.party, since))

    def _of_missed_heartbeat(self, party: str, server: str, at: float) -> Cause:
        """The fate of the first heartbeat of `party` that the server had not received by the time `at`."""
        sent = self._facts.between(party, server, (Heartbeat.__name__,))
        missed = next((one for one in sent if one.sent <= at and not one.is_taken(at)), None)
        return Cause() if missed is None else self._of_message(missed, at)

    def _of_absence(self, party: str, wait: Waiting, search: "_Search") -> Cause:
        due = [one for one in self._sent(party, wait, search.at) if not one.is_taken(search.at)]
        if due:
            of_round = [one for one in due if one.stamp[0] >= search.round]
            return self._of_message((of_round or due)[0], search.at)
        return self._of_state(party, wait, search)

    def _wait_before(self, party: str, round_number: int, time: float, step: str) -> Waiting | None:
        """The wait before `time` in which `party` was missed: the server's last one in that `step`, else another
        party's."""
        found = [
            wait
            for wait in self._facts.waits_for(party)
            if wait.stamp[0] == round_number
            and (wait.ended or 0.0) <= time
            and wait.how in ("deadline", "gone", "until", "answered")
            and (party in wait.silent or not wait.silent)
        ]
        by_server = [wait for wait in found if wait.party == "server" and wait.step == step]
        chosen = by_server or [wait for wait in found if wait.how in ("deadline", "gone")]
        return chosen[-1] if chosen else None

    @staticmethod
    def _waited(wait: Waiting, party: str) -> Cause:
        types, where = " or ".join(wait.types), f" in {wait.step}" if wait.step else ""
        until = "its deadline at " if wait.how == "deadline" else ""
        end = f"until {until}{format_duration(wait.ended or 0.0)}"
        text = f"{wait.party} waited{where} for {types} from {party} {end}"
        return _cause("wait", wait.ended or 0.0, text, wait.party, party)

    def _sent(self, party: str, wait: Waiting, at: float) -> list[Message]:
        """The messages for the `wait` that `party` had sent by `at` and that the receiver's present incarnation could
        get."""
        back = self._facts.returned(wait.party, at)
        since = 0.0 if back is None or back.ended is None else back.ended
        return [
            one
            for one in self._facts.between(party, wait.party, wait.types)
            if one.stamp >= wait.stamp and one.sent <= at and (one.received is None or one.received >= since)
        ]

    def _of_message(self, one: Message, at: float, behind: tuple[int, ...] = ()) -> Cause:
        """The fate of a message that was not received in time, with its reasons, as of the time `at`."""
        what = f"{one.type} from {one.sender} to {one.receiver}, sent at {format_duration(one.sent)},"
        lost = [(time, why) for time, why in one.lost if time <= at]
        resent = [(time, why) for time, why in one.resent if time <= at]
        dropped = [(time, why) for time, why in one.dropped if time <= at and one.received is None]
        struck = [(fault, note) for time, fault, note in one.struck if time <= at]
        end = at if one.received is None else min(one.received, at)
        refused = one.refused if one.refused is not None and one.refused[0] <= at else None
        held = self._of_link("held", one, one.sent, lost[0][0] if lost and not one.again else end)
        reasons = []
        if lost:
            (time, why), count = lost[0], len(lost)
            copies = f"{count} copies of it from then on, " if count > 1 else ""
            again = f"sent again {one.again} time{'s' * (one.again != 1)}" if one.again else "not sent again"
            again += " (datagrams)" if self._datagrams and not one.again else ""
            reasons.append(f"was lost at {format_duration(time)} ({copies}{why}), {again}")
        if resent:
            (time, why), count = resent[0], len(resent)
            often = f"{count} times, first" if count > 1 else "once,"
            reasons.append(f"was sent again in part {often} at {format_duration(time)} ({why})")
        if dropped:
            time, why = dropped[-1]
            reasons.append(f"was dropped at {format_duration(time)}: {why}")
        reasons += [f"was held back ({held[0].note})"] if held else []
        delays = [note for fault, note in struck if fault == Delay.kind]
        reasons += [f"was delayed by a fault ({delays[0]})"] if delays else []
        if refused is not None:
            reasons.append(f"was refused at {format_duration(refused[0])}: {refused[1]}")
        elif one.received is not None:
            reasons.append(f"was received at {format_duration(one.received)}")
        elif not dropped and not (lost and not one.again):
            reasons.append("was not received")
        text = f"{what} {' and '.join(reasons)}"
        since = lost[0][0] if lost else resent[0][0] if resent else dropped[-1][0] if dropped else end

        def caused(kind: str, time: float = since) -> Cause:
            return _cause(kind, time, text, one.sender, one.receiver, message=one)

        times = [(time, time) for time, why in lost if why == CUT] or ([] if lost else [(one.sent, end)])
        cut = [spell for begin, until in times for spell in self._of_link("cut", one, begin, until)]
        if cut:  # includes messages that a relay must not carry on
            return caused("message", max(since, cut[0].began)).then(self._spell(cut[0]))
        if any(why == SENDER_GONE for _, why in lost):
            down = self._facts.spell("down", one.sender, one.sent, lost[0][0])
            return caused("choice") if down is None else caused("message").then(self._down(down))
        if struck or any(why == BY_FAULT for _, why in lost):
            return caused("fault")
        if held:
            return caused("message").then(self._spell(held[0]))
        if (lost or resent) and (not dropped or BEHIND not in {why for _, why in dropped}):
            return caused("link")
        if dropped and dropped[-1][1] != BEHIND:
            return caused("message").then(self._gone(one, dropped[-1][0])) or caused("choice")
        if kept := self._of_ends("paused", one, end, (end - one.sent) / 2):
            return caused("message").then(kept)
        if not self._datagrams and one.number not in behind and len(behind) < _NAMED:
            first = self._facts.before(one, at)
            if first is not None:
                follows = f"it was behind {first.type}, sent at {format_duration(first.sent)} on the same way"
                reason = _cause("message", since, follows, first.sender, first.receiver, message=first)
                return caused("message").then(reason).then(self._of_message(first, since, (*behind, one.number)))
        if kept := self._of_ends("slow", one, end) or self._of_ends("paused", one, end):
            return caused("message").then(kept)
        if refused is not None:
            late = one.late and self._of_late_sending(one)
            return caused("message").then(late) if late else caused("choice")
        return caused("link")

    def _of_late_sending(self, one: Message) -> Cause:
        """The reason why a message was sent late, from the time at which its sender began the round."""
        waits = [wait for wait in self._facts.waits_of(one.sender) if wait.stamp == one.stamp]
        return self.of_late_entry(one.sender, min((wait.began for wait in waits), default=0.0), one.sent)

    def _gone(self, one: Message, at: float) -> Cause:
        """The party that was down or had returned, so that a message was dropped at the time `at`."""
        for name in (one.receiver, one.relay, one.sender):
            if name and (down := self._facts.spell("down", name, one.sent, at)) is not None:
                return self._down(down)
        return Cause()

    def _of_link(self, kind: str, one: Message, begin: float, end: float) -> list[Spell]:
        """The spells of `kind`, cut or held, of a link on the way of a message, at any time from `begin` to `end`."""
        ways = {(one.sender, one.receiver), *(leg[:2] for leg in one.legs)}
        return [
            spell
            for spell in self._facts.of_links
            if spell.kind == kind and spell.lasts(begin, end) and any(spell.concerns(*way) for way in ways)
        ]

    def _of_ends(self, kind: str, one: Message, end: float, least: float = 0.0) -> Cause:
        """The party that was paused or slow (`kind`) for at least `least` seconds while a message passed through it."""
        for name in dict.fromkeys(filter(None, (one.sender, one.receiver, one.relay))):
            spell = self._facts.spell(kind, name, one.sent, end)
            if spell is not None and min(end, spell.ended or end) - max(one.sent, spell.began) >= least:
                return self._spell(spell)
        return Cause()

    def _is_untroubled(self, one: Message, at: float) -> bool:
        """True if a message was merely in transit at the time `at`: nothing affected it."""
        if one.received is None or one.lost or one.resent or one.dropped or one.struck:
            return False
        found = self._of_message(one, at)
        return len(found.reasons) == 1 and found.chains[0][0].kind == "link"

    def _later_call(self, party: str, wait: Waiting, at: float) -> Cause:
        """The fate of an unreceived message from `party` that would have ended the `wait` differently."""
        for one in self._facts.sent_to(wait.party, party):
            is_later = one.sent < at and one.stamp >= wait.stamp and one.type not in wait.types
            if is_later and (one.received is None or one.received > at) and not self._is_untroubled(one, at):
                return self._of_message(one, at)
        return Cause()

    def _of_state(self, party: str, wait: Waiting, search: "_Search") -> Cause:
        """The state of a party that had not sent the awaited message."""
        facts, at = self._facts, search.at
        if (down := facts.spell("down", party, at, at)) is not None:
            return self._down(down)
        if (paused := facts.spell("paused", party, at, at)) is not None:
            return self._spell(paused)
        if said := facts.objection(party, search.round, at):
            return _cause("choice", *said, party)
        waits = [one for one in facts.waits_of(party) if one.is_open(at) and one is not wait]
        own = min(waits, key=lambda one: (one.began + one.deadline, -one.number)) if waits else None
        back = facts.returned(party, at)
        if back is not None and (own is None or own.stamp < wait.stamp):  # the party has lost its memory of the round
            return self._of_return(back, own, at)
        if own is not None and own.stamp[0] > wait.stamp[0] and (given_up := self._of_given_up(party, wait, search)):
            return given_up  # the party is in a later round already
        if own is not None:
            return self._of_waiting(own, wait, search)
        found = self._of_work(party, wait.began, at) or self._slept(party, at, at)
        found = found or self._later_call(party, wait, at) or self._of_given_up(party, wait, search)
        if found or search.only_lost:
            return found
        return self._of_program(party, wait, at)

    def _of_return(self, back: Spell, own: Waiting | None, at: float) -> Cause:
        """The reason why a returned party has not taken part: its call was lost, or it had not been called yet."""
        for name in own.sources if own is not None else ():
            due = [one for one in self._sent(name, own, at) if not one.is_taken(at)] if own is not None else []
            if due and not self._is_untroubled(due[0], at):
                return self._of_message(due[0], at)
        return self._down(back)

    def _of_work(self, party: str, began: float, at: float) -> Cause:
        """The job that a party was in, and the reason why it was slow."""
        jobs = [job for job in self._facts.jobs.get(party, ()) if job.began <= at]
        slow = self._facts.spell("slow", party, began, at)
        if jobs and (slow is not None or jobs[-1].began + jobs[-1].seconds >= at):
            job, took = jobs[-1], "was computing" if slow is None else "had begun to compute"
            since = f"{party} {took} in {job.step} at {format_duration(job.began)}"
            text = f"{since}, a job of {format_duration(job.seconds)} at full speed"
            if slow is None:
                return _cause("device", job.began, text, party)
            return _cause("device", at, text, party).then(self._spell(slow))
        return Cause() if slow is None else self._spell(slow)

    def _slept(self, party: str, begin: float, end: float) -> Cause:
        """The longest sleep of a party's program between `begin` and `end`."""
        found = [one for one in self._facts.slept.get(party, ()) if one[1] <= end and one[1] + one[2] >= begin]
        if not found:
            return Cause()
        step, began, seconds = max(found, key=lambda one: one[2])
        text = f"{party} slept in {step} from {format_duration(began)} for {format_duration(seconds)} (its app's sleep)"
        return _cause("device", began, text, party)

    def _of_program(self, party: str, wait: Waiting, at: float) -> Cause:
        """The reason for a party that was up and neither waited nor computed: its program had ended."""
        types = " or ".join(wait.types)
        ending = self._facts.endings.get(party, "")
        if ending and not self._facts.spell("down", party, 0.0, at):
            text = f"{party} had sent no {types}: its part had ended: {ending}"
            if ending == "completed":
                text = f"{party} had sent no {types}: its program had ended without it; is a call in it not awaited?"
            return _cause("choice", at, text, party)
        return _cause("unknown", at, f"{party} had sent no {types}; {_UNRECORDED}", party)

    def _of_waiting(self, own: Waiting, other: Waiting, search: "_Search") -> Cause:
        """The reason why an awaited party was waiting itself."""
        at = search.at
        types = " or ".join(own.types)
        missing = [name for name in own.sources if self._lacks(name, own, at)]
        shown = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "")
        circle = [name for name in missing if name == other.party and not self._sent(name, own, at)]
        if circle == missing and (call := self._later_call(other.party, own, at)):
            text = f"{own.party} itself waited for {types} from {other.party}"
            return _cause("wait", at, text, own.party).then(call)
        if circle == missing:
            if search.only_lost:
                return Cause()
            earlier = self._of_given_up(own.party, other, search) or self._of_work(own.party, other.began, at)
            earlier = earlier or self._of_earlier_message(own.party, other, at)
            text = f"{own.party} itself waited for {types} from {other.party}, which had sent none"
            return earlier or (_cause("unknown", at, text, own.party) if missing else Cause())
        under_way = [one for name in missing for one in self._sent(name, own, at) if not one.is_taken(at)]
        if under_way and all(self._is_untroubled(one, at) for one in under_way):
            earlier = self._of_earlier(own, other, search)
            if earlier or search.only_lost:
                return earlier
        waits = _cause("wait", at, f"{own.party} itself waited for {types} from {shown}", own.party, *missing[:_NAMED])
        found = Cause()
        for name in missing[:_NAMED]:
            if name not in circle:
                found = found.beside(self._of_silence(name, own, search))
        return waits.then(found)

    def _of_given_up(self, party: str, other: Waiting, search: "_Search") -> Cause:
        """The reason why a party gave up waiting for messages that it needed before it could send those of `other`."""
        found = Cause()
        for wait in self._facts.waits_of(party):
            if wait.how in ("deadline", "gone") and wait.stamp >= other.stamp and (wait.ended or 0.0) <= search.at:
                for name in (wait.silent or wait.missing)[:_NAMED]:
                    silence = self._of_silence(name, wait, search.by(wait.ended or 0.0))
                    found = found.beside(self._waited(wait, name).then(silence))
        return found

    def _of_earlier_message(self, party: str, wait: Waiting, at: float) -> Cause:
        """The fate of the last lost answer of an earlier round, for a wait that accepts answers of any round."""
        sent = [one for one in self._facts.between(party, wait.party, wait.types) if one.sent <= at]
        gone = [one for one in sent if one.received is None and (one.lost or one.dropped)]
        return self._of_message(gone[-1], at) if gone else Cause()

    def _of_earlier(self, own: Waiting, other: Waiting, search: "_Search") -> Cause:
        """The reason why a party had not sent the messages of `other`, if those that it now waits for are merely in
        transit.

        It had given up waiting for messages that it needed; or it had done its part, and other parties lack its
        messages.
        """
        at, party = search.at, own.party
        found = self._of_given_up(party, other, search)
        if found:
            return found
        for name in (one for one in other.missing if one != party):
            for wait in self._facts.waits_of(name):
                if wait.is_open(at) and party in wait.sources and not self._has(party, wait, at):
                    text = f"{name} itself waited for {' or '.join(wait.types)} from {party}"
                    silence = self._of_silence(party, wait, search)
                    found = found.beside(_cause("wait", at, text, name, party).then(silence))
        return found or self._of_others(other, search)

    def _of_others(self, other: Waiting, search: "_Search") -> Cause:
        """The fate of the first message to `other` from its missing parties that was not merely in transit."""
        for name in other.missing:
            for one in self._sent(name, other, search.at):
                if not one.is_taken(search.at) and not self._is_untroubled(one, search.at):
                    return self._of_message(one, search.at)
        return Cause()

    def _lacks(self, name: str, wait: Waiting, at: float) -> bool:
        """True if no message of the `wait` was received from `name` by `at`, or a further one is in transit."""
        sent = self._sent(name, wait, at)
        return not sent or not all(one.is_taken(at) for one in sent)

    def _has(self, name: str, wait: Waiting, at: float) -> bool:
        """True if a message of the `wait` was received from `name` by `at`."""
        return any(one.is_taken(at) for one in self._sent(name, wait, at))

    def _spells(self, party: str, begin: float, end: float) -> Cause:
        """The spells that stopped a party between `begin` and `end`."""
        found = Cause()
        for spell in self._facts.spells_of(party):
            if spell.lasts(begin, end):
                found = found.beside(self._down(spell) if spell.kind == "down" else self._spell(spell))
        return found

    def _down(self, spell: Spell) -> Cause:
        back = "" if spell.ended is None else f" and was back at {format_duration(spell.ended)}"
        return _cause("fault", spell.began, f"{spell.party} {fall_text(spell)}{back}", spell.party, state="down")

    def _spell(self, spell: Spell) -> Cause:
        until = "" if spell.ended is None else f" to {format_duration(spell.ended)}"
        since = f"{format_duration(spell.began)}{until}" if until else f"since {format_duration(spell.began)}"
        says = {"cut": "cut off", "held": "held back"}.get(spell.kind, spell.kind)
        return _cause("fault", spell.began, f"{spell.party} was {says} {since} ({spell.note})", spell.party, state=says)


def fall_text(spell: Spell) -> str:
    """The fall of a party that is down, in words without its name."""
    where = f" in {spell.step}" if spell.step else ""
    trigger = f" ({spell.trigger})" if spell.trigger else ""
    return f"{spell.went} at {format_duration(spell.began)}{where}{trigger}"
