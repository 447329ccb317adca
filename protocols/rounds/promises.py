"""The promises of rounds, of training and co-training alike; chaos checks them with those of every protocol.

They are checked on messages delivered to the server and on its calls, not on its state.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, update_wrapper
from typing import Any

from tacit.parties.fleet.fleet import HELPER
from tacit.protocols.outcome import Reason
from tacit.protocols.promises import Affected, Promise, Trial, falls
from tacit.protocols.rounds.rounds import STANDSTILL, UNOPENED, Enroll, Enrolled
from tacit.protocols.sums.registry import SUMS
from tacit.sim.shares import rounded_up
from tacit.sim.trace import Fact
from tacit.sim.wire import Message

__all__ = ["promises_of_rounds"]


def who_is_heard_is_called(
    trial: Trial, affected: Affected, *, call: type[Message], share: float, labeled: bool
) -> Iterator[str]:
    """A client that is back and whose answer was received counts from the next round on: it is called, or drawn from.

    Others are asked, unless the server goes down in the round, or knows that they are gone. Nobody is called to a round
    that would begin with the model of an earlier one, or exceed epsilon. Training draws its share of those with labels,
    co-training calls everybody. If privacy depends on the draw, gone clients are drawn, too.
    """
    fell = falls(trial)
    eligible = {client.name for client in trial.simulation.clients if client.shard.labeled.any() or not labeled}
    openings, heard, reached = list[int](), dict[str, int](), set[tuple[int, str]]()
    gone, gone_at = set[str](), list[frozenset[str]]()
    for place, event in enumerate(trial.events):
        if event.kind == "enter" and (event.party, event.step) == ("server", "train.open"):
            openings.append(place)
            gone_at.append(frozenset(gone))
        elif event.fact == Fact.GONE:
            gone.add(event.party)
        elif event.fact == Fact.BACK:
            gone.discard(event.party)
        elif event.kind == "deliver" and event.type == Enrolled.__name__:
            heard.setdefault(event.party, place)
        elif event.kind == "send" and event.type in (call.__name__, Enroll.__name__) and event.attempt == 1:
            reached.add((event.round, event.peer))
        elif place in fell:  # its disk has what it knew as it opened the round
            heard = {name: when for name, when in heard.items() if openings and when < openings[-1]}
            gone.clear()
    opened = [record for record in trial.records if record.number <= len(openings)]  # more are another promise's
    for record in opened:
        if not record.cohort and (why := Reason.of(record.lost).kind) in UNOPENED:
            if why == STANDSTILL and trial.models[record.number - 1] not in trial.models[: record.number - 1]:
                yield f"round {record.number} was not opened, and no earlier one began with its model"
            continue
        away = gone_at[record.number - 1]
        known = [name for name, place in heard.items() if place < openings[record.number - 1] and name not in away]
        able = [name for name in known if name in eligible]
        called = [name for name in able if name in record.cohort]
        hidden = getattr(trial.simulation.server.settings, "private", None) is not None
        if len(called) < rounded_up(share, len(able)) - (len(away) if hidden else 0):
            left_out = sorted(set(able) - set(called))
            yield f"round {record.number} goes without {', '.join(left_out)}, and the server knew of them"
        begins, ends = (*openings, len(trial.events))[record.number - 1 : record.number + 1]
        cut = any(begins < place < ends for place in fell)  # as it opened the round, or later in it
        for client in () if cut else trial.simulation.clients:
            if client.name not in known and client.name not in away and (record.number, client.name) not in reached:
                yield f"{client.name} was neither called to round {record.number} nor asked whether it is there"


def ends_early_only_for_loss(trial: Trial, affected: Affected) -> Iterator[str]:
    """A run is aborted only when the server or clients of every round were affected, and fails only when all were."""
    assert trial.simulated is not None
    if trial.outcome == "completed":
        return
    server = trial.simulation.server
    if not server.alive:
        if "server" not in affected:
            yield f"the server is gone and no fault affected it: {trial.reason}"
        elif "server" not in {loss.party for loss in trial.simulated.lost}:
            yield "the server is lost, and the losses do not name it"
    elif trial.outcome == "failed" and len(affected.clients) < len(trial.simulation.clients):
        yield f"failed ({trial.reason}), and not every client was affected"
    elif not affected.clients and "server" not in affected and HELPER not in affected:
        yield f"{trial.outcome} ({trial.reason}), and nobody was affected"


def only_who_answered_counts(trial: Trial, affected: Affected, *, answers: Sequence[type[Message]]) -> Iterator[str]:
    """Each client that counts in a round was called to it, and its answer was received."""
    types = [kind.__name__ for kind in answers]
    arrived = {
        (event.party, event.round)
        for event in trial.events
        if event.kind == "deliver" and event.peer == "server" and event.type in types
    }
    for record in trial.records:
        for name in record.counted:
            if (name, record.number) not in arrived or name not in record.cohort:
                yield f"{name} counts in round {record.number}, its {types[0]} had not been received"


def all_who_are_well_count(
    trial: Trial, affected: Affected, *, silent: bool, extra: int, share: float
) -> Iterator[str]:
    """In each round, every cohort member that is unaffected from its beginning, and has something to send, counts.

    With `extra` additional clients called, all but that number are enough. No round is lost while the server and more
    than two thirds of its cohort with something to send are unaffected, and as many as any sum needs, however many of
    the others join it. Where few clients decide, such as decryptors or neighbours in a graph, any affected client may
    be one of them, also one that was affected in an earlier round, in which it got no share: no more may be affected
    than may be lost of them (`spare`). A cohort without known gone clients may be too small.
    """
    server, watched = trial.simulation.server, trial.scenario.protocol.presence != "none"
    least = max(server.settings.min_clients, server.fewest, trial.scenario.protocol.threshold or 0)
    able = {client.name for client in trial.simulation.clients if client.shard.labeled.any() or not silent}
    for record in trial.records:
        well = [name for name in record.cohort if affected.well_since(name, record.began)]
        speak = [name for name in well if name in able]
        enough = len(well) == len(record.cohort) or len(speak) >= max(least, 2 * len(record.cohort) // 3 + 1)
        called = max(rounded_up(share, len(trial.simulation.clients)), len(record.cohort))
        enough = enough and trial.always_opens(called, len(record.cohort), len(speak))
        spare = server.spare(len(record.cohort), record.number)
        enough = enough and (spare is None or len(affected.clients) <= spare)
        enough = enough and not (watched and len(record.cohort) < max(least, server.fewest))
        if record.lost and record.cohort and enough and "server" not in affected and HELPER not in affected:
            yield f"round {record.number} was lost with {len(well)} clients that no fault affected: {record.lost}"
        missing = [] if record.lost else [name for name in speak if name not in record.counted]
        if missing and len(record.counted) < len(record.cohort) - extra:
            yield f"round {record.number} counts without {', '.join(missing)}"


def enough_count(trial: Trial, affected: Affected) -> Iterator[str]:
    """A round in which fewer clients count than are needed is lost."""
    least = trial.simulation.server.settings.min_clients
    for record in trial.records:
        if not record.lost and len(record.counted) < least:
            yield f"round {record.number} counts with {len(record.counted)} clients; {least} are needed"


def all_rounds_are_held(trial: Trial, affected: Affected) -> Iterator[str]:
    """A completed run has had all its rounds."""
    numbers = [record.number for record in trial.records]
    if trial.outcome == "completed" and numbers != list(range(1, trial.simulation.server.settings.rounds + 1)):
        yield f"rounds {', '.join(map(str, numbers))} were recorded"


def nothing_is_summed_again(trial: Trial, affected: Affected) -> Iterator[str]:
    """After a lost round in which a client sent masked values, no client sends any: they would be alike."""
    types = {kind.__name__ for one in SUMS.values() for kind in one.opening_with or one.masked}
    masked = {event.round for event in trial.events if event.kind == "send" and event.type in types}
    for record in trial.records:
        later = [number for number in masked if number > record.number]
        if record.lost and record.number in masked and later:
            yield f"round {record.number} was lost, with masked values sent, and round {min(later)} sums again"


def promises_of_rounds(
    call: type[Message],
    share: float,
    *,
    labeled: bool,
    answers: Sequence[type[Message]],
    silent: bool = False,
    extra: int = 0,
) -> dict[str, Promise]:
    """The promises of rounds that draw a `share` of the clients, with `labeled` of those with labels, and `call` them.

    `answers`: the types of a client's answer. `silent`: a client without labels may have nothing to send. `extra`: the
    additional clients that are called and need not be waited for.
    """

    def with_these(broken: Callable[..., Iterator[str]], **keys: Any) -> Callable[..., Iterator[str]]:
        return update_wrapper(partial(broken, **keys), broken)

    return {
        "only losses end training early": Promise(ends_early_only_for_loss, True),
        "clients that are back are called": Promise(
            with_these(who_is_heard_is_called, call=call, share=share, labeled=labeled)
        ),
        "only clients that answered count": Promise(with_these(only_who_answered_counts, answers=answers)),
        "rounds with too few clients are lost": Promise(enough_count),
        "clients without faults count": Promise(
            with_these(all_who_are_well_count, silent=silent, extra=extra, share=share), True
        ),
        "completed training has all rounds": Promise(all_rounds_are_held, True),
        "no masked values follow a lost sum": Promise(nothing_is_summed_again),
    }
