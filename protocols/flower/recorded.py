"""What a run of an app will send, planned from an earlier run: an app's messages are known once it has run.

The messages of the earlier run are those of the planned one, with the same sizes and in the same order; how long they
travel, and how long clients compute, follows from the new scenario. It must have as many clients and the same settings.
"""

import sqlite3
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from protocols.flower.apps import App, read_app
from protocols.flower.flower import AppMessage, AppReply, NodeJoins
from protocols.flower.stages import JOIN, STAGES
from sim.compute import SECOND
from sim.planned import Blank, Planned, PlannedMessage, PlannedWork
from sim.setting_error import Problem

__all__ = ["planned_from"]

_KEY = "protocol.recorded"
_QUERY = """SELECT kind, party, peer, step, type, round, payload FROM events
WHERE kind IN ('send', 'deliver') AND type IN ('AppMessage', 'AppReply') ORDER BY n"""

_Row = tuple[str, str, str, str, str, int, int]


def planned_from(folder: str, app: App, names: Sequence[str], seconds: Sequence[float]) -> list[Planned]:
    """What is sent and computed in a run of `app` by clients `names`, from the run in `folder`; with nobody lost.

    `seconds`: what a client takes in each stage. Raises Problem where that run had another app or other settings, lost
    anybody, or is no run.
    """
    path = Path(folder)
    try:
        with closing(sqlite3.connect(f"{(path / 'run.sqlite').absolute().as_uri()}?mode=ro", uri=True)) as connection:
            rows: list[_Row] = connection.execute(_QUERY).fetchall()
        table = tomllib.loads((path / "scenario.toml").read_text(encoding="utf-8"))
        keys, clients = table["protocol"], table["data"]["clients"]
        earlier = read_app(str(path / keys["app"]), keys["run_config"])
    except (sqlite3.Error, OSError, ValueError, LookupError, TypeError):
        problem = f'"{folder}" does not hold a run of an app; allowed: the folder of one'
        raise Problem(_KEY, problem) from None
    if (earlier.server, earlier.client, earlier.config) != (app.server, app.client, app.config):
        problem = f"{path} ran {earlier.name} with other settings; allowed: a run of {app.name} with the same"
        raise Problem(_KEY, problem)
    if clients != len(names):
        raise Problem(_KEY, f"{path} has {clients} clients; allowed: a run with {len(names)}")
    joins: list[Planned] = [PlannedMessage(JOIN, name, ["server"], NodeJoins(), round=0) for name in names]
    return [*joins, *_app(path, rows, dict(zip(STAGES, seconds, strict=True)))]


def _app(path: Path, rows: Sequence[_Row], seconds: Mapping[str, float]) -> Iterator[Planned]:
    """The messages and replies in `rows`, and the clients' work between them."""
    replies: dict[str, deque[int]] = {}
    for kind, party, _, _, name, _, payload in rows:
        if (kind, name) == ("send", "AppReply"):
            replies.setdefault(party, deque()).append(payload)
    stages, number, batch = list(STAGES), 0, list[Planned]()
    for kind, party, peer, step, name, round_number, payload in rows:
        if name == "AppReply":
            if (kind, peer) == ("deliver", "server") or (kind, party) == ("deliver", "server"):
                yield from batch
                batch.clear()
            continue
        if kind == "deliver":
            continue
        number += 1
        sent = AppMessage(number, stages.index(step), Blank(payload))
        yield PlannedMessage(step, "server", [peer], sent, round=round_number)
        if not replies.get(peer):
            raise Problem(_KEY, f"in {path} {peer} did not answer every message; allowed: a run without losses")
        reply = AppReply(number, Blank(replies[peer].popleft()))
        batch.append(PlannedWork(step, peer, {SECOND: seconds[step]}))
        batch.append(PlannedMessage(step, peer, ["server"], reply, round=round_number))
    yield from batch
