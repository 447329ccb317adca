"""Deviations from co-training: the tables [attack] and [byzantine]."""

from dataclasses import replace

import numpy as np

from tacit.protocols.cotraining.byzantine import Lie
from tacit.protocols.cotraining.local_training import Public
from tacit.protocols.cotraining.round import CotrainingSettings
from tacit.protocols.experiment.experiment import Setting
from tacit.protocols.experiment.probe import probe_of
from tacit.sim.streams import derive

__all__ = ["byzantine_clients", "threatened"]


def byzantine_clients(clients: int, byzantine: int) -> tuple[str, ...]:
    """The names of the Byzantine ones among `clients`: the last."""
    return tuple(f"client/{i}" for i in range(clients - byzantine, clients))


def threatened(settings: CotrainingSettings, setting: Setting, questions: int) -> CotrainingSettings:
    """`settings` with the points that a curious server asks about, and what Byzantine clients send."""
    tables = setting.tables
    lie = Lie(tables.byzantine.kind, settings.public.labels, derive(tables.seed, "byzantine"))
    false = byzantine_clients(tables.data.clients, tables.byzantine.clients)
    settings = replace(settings, byzantine=dict.fromkeys(false, lie))
    if not tables.attack.kind:
        return settings
    probe = probe_of(setting.parts, list(setting.shards.values()), tables.attack.points, tables.seed)
    asked = Public(probe.points, np.full(len(probe.labels), -1))
    return replace(settings, asked=asked, questions=questions)
