"""What Tacit promises of co-training, whatever faults come; `scenarios.chaos.promises` checks it with the rest."""

from collections.abc import Iterator

from scenarios.chaos.excused import Struck
from scenarios.chaos.trial import Trial

__all__ = ["agrees_on_what_came", "all_cotraining_rounds_come", "all_who_are_well_are_counted"]


def agrees_on_what_came(trial: Trial, struck: Struck) -> Iterator[str]:
    """What clients agree on is made of predictions that had come; a lost round leaves it as it was."""
    arrived = {
        (event.party, event.round)
        for event in trial.events
        if event.kind == "deliver" and event.peer == "server" and event.type == "LocalPredictions"
    }
    bodies = {one.round: one.body for one in trial.announcements if (one.type, one.attempt) == ("CotrainingRound", 1)}
    for record in trial.records:
        for name in record.answered:
            if (name, record.number) not in arrived or name not in record.cohort:
                yield f"{name} counts in round {record.number}, its predictions had not come"
        before, after = bodies.get(record.number), bodies.get(record.number + 1)
        if record.lost and None not in (before, after) and before != after:
            yield f"round {record.number} was lost ({record.lost}), and what clients agree on has changed"


def all_who_are_well_are_counted(trial: Trial, struck: Struck) -> Iterator[str]:
    """In each round, whoever has labels and is well from its beginning on counts; none is lost with all well.

    The server must be well, too, for who is.
    """
    able = {client.name for client in trial.simulation.clients if client.shard.labeled.any()}
    for record in trial.records:
        well = [name for name in record.cohort if struck.well_since(name, record.began)]
        if record.lost and record.cohort and len(well) == len(record.cohort) and "server" not in struck:
            yield f"round {record.number} was lost, and nothing struck a client: {record.lost}"
        missing = [] if record.lost else [name for name in well if name in able and name not in record.answered]
        if missing:
            yield f"round {record.number} counts without {', '.join(missing)}"


def all_cotraining_rounds_come(trial: Trial, struck: Struck) -> Iterator[str]:
    """A completed run has had all its rounds."""
    numbers = [record.number for record in trial.records]
    if trial.outcome == "completed" and numbers != list(range(1, trial.simulation.server.settings.rounds + 1)):
        yield f"rounds {', '.join(map(str, numbers))} were recorded"
