"""The promises of co-training under any faults; chaos checks them with those of every protocol."""

from collections.abc import Iterator

from protocols.promises import Affected, Promise, Trial

__all__ = ["PROMISES"]


def agrees_on_what_came(trial: Trial, affected: Affected) -> Iterator[str]:
    """The consensus is made of predictions that were received; a lost round leaves it as it was."""
    arrived = {
        (event.party, event.round)
        for event in trial.events
        if event.kind == "deliver" and event.peer == "server" and event.type == "LocalPredictions"
    }
    bodies = {one.round: one.body for one in trial.announcements if (one.type, one.attempt) == ("CotrainingRound", 1)}
    for record in trial.records:
        for name in record.answered:
            if (name, record.number) not in arrived or name not in record.cohort:
                yield f"{name} counts in round {record.number}, its predictions had not been received"
        before, after = bodies.get(record.number), bodies.get(record.number + 1)
        if record.lost and None not in (before, after) and before != after:
            yield f"round {record.number} was lost ({record.lost}), and what clients agree on has changed"


def all_who_are_well_are_counted(trial: Trial, affected: Affected) -> Iterator[str]:
    """In each round, every client with labels that is well from its beginning on counts.

    No round is lost while all clients and the server are well.
    """
    able = {client.name for client in trial.simulation.clients if client.shard.labeled.any()}
    for record in trial.records:
        well = [name for name in record.cohort if affected.well_since(name, record.began)]
        if record.lost and record.cohort and len(well) == len(record.cohort) and "server" not in affected:
            yield f"round {record.number} was lost, and no fault affected a client: {record.lost}"
        missing = [] if record.lost else [name for name in well if name in able and name not in record.answered]
        if missing:
            yield f"round {record.number} counts without {', '.join(missing)}"


def all_cotraining_rounds_come(trial: Trial, affected: Affected) -> Iterator[str]:
    """A completed run has had all its rounds."""
    numbers = [record.number for record in trial.records]
    if trial.outcome == "completed" and numbers != list(range(1, trial.simulation.server.settings.rounds + 1)):
        yield f"rounds {', '.join(map(str, numbers))} were recorded"


PROMISES = {
    "agreed on what came": Promise(agrees_on_what_came),
    "who is well is counted": Promise(all_who_are_well_are_counted, True),
    "all rounds of co-training": Promise(all_cotraining_rounds_come, True),
}
