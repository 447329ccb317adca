"""Continues a training run that has ended for more rounds: `tacit run --resume DIR --set training.rounds=60`.

A training run keeps its state after its last round in the file ``last``, in the format of a checkpoint. The run goes on
from there with the same seeds, so its trace is that of a run that had as many rounds from the start. What follows from
the number of rounds, apart from the end, would differ from the first round on: then Tacit refuses, and says what.
"""

import hashlib
import pickle
import shutil
import sqlite3
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

from msgspec import structs

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from tacit.scenarios.running.folder import LAST, FolderError, ending_of, locked, scenario_text
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.running.whole import RECORD, check_whole, written_first
from tacit.scenarios.schema.scenario import Scenario

__all__ = ["continue_for", "rounds_asked"]

_ROUNDS = ("training.rounds", "cotraining.rounds")
"""The keys that give the number of rounds."""

_CAUSES = {
    "private": "the noise of private averages is chosen for all rounds (privacy.epsilon)",
    "averaging": "the secure sum is chosen so that no round of the run fails (sum.failure_exponent)",
    "method": "the algorithm changes its losses over all rounds",
    "learners": "clients learn by a plan for all rounds",
}
"""The consequences of the number of rounds, by the setting that differs."""


def rounds_asked(changes: list[str]) -> tuple[str, int] | None:
    """The key and the number of rounds, if `changes` are that one key; None otherwise."""
    if len(changes) != 1:
        return None
    key, _, value = changes[0].partition("=")
    return (key.strip(), int(value)) if key.strip() in _ROUNDS and value.strip().isdigit() else None


def continue_for(path: Path, key: str, rounds: int, out: Path | None = None) -> Path:
    """Make the ended run in the folder `path` one of this number of `rounds`, for `resume`; return its folder.

    With `out` a copy of the folder is made first, and the run in `path` stays as it is. Raises FolderError, without
    changing anything, for a run that cannot go on as if it had had more rounds from the start.
    """
    if not (path / "scenario.toml").is_file():
        raise FolderError(f"{path}: holds no scenario.toml; allowed: the folder of a run")
    check_whole(path)
    if (ending := ending_of(path)) is None:
        raise FolderError(f"{path}: this run was interrupted; `tacit run --resume {path}` ends it first")
    if ending.outcome != "completed":
        raise FolderError(f"{path}: this run has {ending.outcome}; only a completed run goes on for more rounds")
    scenario = load(path)
    if key not in PROTOCOLS[scenario.protocol.name].uses:
        raise FolderError(f"{path}: {scenario.protocol.name} has no key {key}; only training goes on for more rounds")
    table, name = key.split(".")
    had = getattr(getattr(scenario, table), name)
    if rounds <= had:
        raise FolderError(f"{path}: {key} is {rounds}, and this run had {had}; allowed: more")
    checkpoint = _last(path, scenario)
    if _lost(path, had):
        problem = "its last round was lost, after which a longer run may end"
        raise FolderError(f"{path}: {problem}; {_again(path, key, rounds)}")
    longer = load(path, [f"{key}={rounds}"])
    first, second = (_settings_of(one) for one in (scenario, longer))
    if causes := [*_differences(first, second)]:
        problem = f"a run of {rounds} rounds differs from its first round on: {'; '.join(causes)}"
        raise FolderError(f"{path}: {problem}; {_again(path, key, rounds)}")
    if out is not None:
        shutil.copytree(path, out)
    checkpoint = structs.replace(checkpoint, longer=second.patience - first.patience)
    return _changed(out or path, key, rounds, checkpoint)


def _again(path: Path, key: str, rounds: int) -> str:
    return f"`tacit run {path} --set {key}={rounds}` runs it from the start"


def _last(path: Path, scenario: Scenario) -> Checkpoint:
    """The state of the run after its last round. Raises FolderError."""
    if scenario.entropy != "seeded":
        raise FolderError(f'{path}: with entropy = "os" the keys and secrets of a run are removed when it ends')
    found = read_checkpoint(path, LAST)
    if found is None:
        why = (
            "training.checkpoint_every is 0" if not scenario.training.checkpoint_every else "a client was at work then"
        )
        raise FolderError(f"{path}: it has no file {LAST} with the state after its last round ({why})")
    return found


def _lost(path: Path, number: int) -> bool:
    """True if round `number` of the run was lost."""
    with closing(sqlite3.connect(f"{(path / RECORD).absolute().as_uri()}?mode=ro", uri=True)) as record:
        (found,) = record.execute("SELECT count(*) FROM rounds WHERE round = ? AND problem <> ''", (number,)).fetchone()
    return bool(found)


def _differences(first: Any, second: Any) -> Iterator[str]:
    """Yield what differs from its beginning on in a run with the settings `second`, of more rounds than `first`."""
    last = first.rounds
    if first.evaluates(last) and hasattr(first, "concurrency"):
        yield "clients at work were dismissed after its last round, so that they tested the model"
    elif first.evaluates(last) and not second.evaluates(last):
        yield "clients have tested the model after its last round, which is no multiple of training.evaluate_every"
    elif hasattr(first, "sums_figures") and first.sums_figures(last) and not second.sums_figures(last):
        yield "clients have tested models in its last round, in which a longer run does not (training.evaluate_every)"
    if getattr(first, "questions", 0):
        yield "a curious server asks in its last rounds (attack.kind)"
    for field in fields(first):
        one, other = getattr(first, field.name), getattr(second, field.name)
        if field.name == "averaging" and getattr(getattr(first, "private", None), "noise", None) is not None:
            continue  # the noise that its sums carry is that of `private`, which is compared
        if field.name == "keys":
            one, other = (structs.replace(keys, rounds=0) for keys in (one, other))
        if field.name != "rounds" and not _equal(one, other):
            yield _CAUSES.get(field.name, f"its {field.name.replace('_', ' ')} follows from the number of rounds")


def _settings_of(scenario: Scenario) -> Any:
    simulation = Simulation(scenario, engine="inline")
    try:
        return simulation.server.settings
    finally:
        simulation.close()


def _equal(one: Any, other: Any) -> bool:
    try:
        if one == other:
            return True
    except ValueError:  # of arrays
        pass
    return pickle.dumps(one) == pickle.dumps(other)  # of objects without an equality of their own


def _changed(folder: Path, key: str, rounds: int, checkpoint: Checkpoint) -> Path:
    """Make the run in `folder` one that was broken off after its last round and has more `rounds`."""
    table, name = key.split(".")
    with locked(folder):
        content = tomllib.loads((folder / "scenario.toml").read_text(encoding="utf-8"))
        content[table][name] = rounds
        text = scenario_text(content)
        write_checkpoint(folder, structs.replace(checkpoint, scenario=hashlib.sha256(text.encode()).digest()))
        (folder / "result.json").unlink()
        (folder / "scenario.toml").write_text(text, encoding="utf-8")
        with closing(sqlite3.connect(folder / RECORD)) as record:
            first = [(digest, name) for name, digest in written_first(folder).items()]
            record.executemany("UPDATE files SET sha256 = ? WHERE path = ?", first)
            record.commit()
        (folder / LAST).unlink()
    return folder
