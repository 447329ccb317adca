"""Presence as a part of every protocol: heartbeats, and what the keys of [protocol] may say of it."""

from collections.abc import Sequence
from typing import Any

from tacit.parties.presence import BEAT, Heartbeat
from tacit.protocols.parts import Choice, Part
from tacit.protocols.steps import Step
from tacit.sim.conditions import CONNECTION, HEARTBEAT
from tacit.sim.setting_error import Problem
from tacit.sim.wire import Message

__all__ = ["PRESENCE"]


class Connections(Part):
    """The end of each connection, as the server sees it: no message."""

    messages: Sequence[type[Message]] = ()

    def check_tables(self, tables: Any) -> None:
        if tables.network.transport != "tcp":
            problem = f'"{CONNECTION}" needs network.transport = "tcp"; allowed here: "none", "{HEARTBEAT}"'
            raise Problem("protocol.presence", problem)


class Heartbeats(Part):
    """A message without content from each client, each interval; how many depends on the time that the run takes."""

    takes = (Step("client", BEAT, "say that it is there, each interval; with `presence = heartbeat`"),)
    messages: Sequence[type[Message]] = (Heartbeat,)


PRESENCE = Choice("protocol.presence", {CONNECTION: Connections(), HEARTBEAT: Heartbeats()})
