"""What parties of co-training do that the protocol does not say: the tables [attack] and [byzantine]."""

from dataclasses import replace

import numpy as np

from protocols.cotraining.byzantine import Lie
from protocols.cotraining.round import Settings
from protocols.cotraining.study import Public
from protocols.observing.experiment import Setting
from protocols.observing.probe import probe_of
from sim.streams import derive

__all__ = ["liars", "threatened"]

QUESTIONS = 1
"""K, the attack epochs on predictions, if nothing is said: as in the paper."""


def liars(clients: int, byzantine: int) -> tuple[str, ...]:
    """The names of the Byzantine ones among `clients`: the last."""
    return tuple(f"client/{i}" for i in range(clients - byzantine, clients))


def threatened(settings: Settings, setting: Setting) -> Settings:
    """`settings` with the points that a curious server asks about, and what Byzantine clients send."""
    tables = setting.tables
    lie = Lie(tables.byzantine.kind, settings.public.labels, derive(tables.seed, "byzantine"))
    settings = replace(settings, liars=dict.fromkeys(liars(tables.data.clients, tables.byzantine.clients), lie))
    if not tables.attack.kind:
        return settings
    probe = probe_of(setting.parts, list(setting.shards.values()), tables.attack.points, tables.seed)
    asked = Public(probe.points, np.full(len(probe.labels), -1))
    return replace(settings, asked=asked, questions=tables.attack.epochs or QUESTIONS)
