"""Protocols of one round that are declared (`protocols.one_shot`): building a run of one, and looking at it."""

from collections.abc import Sequence

import numpy as np

from parties.data.splits import named
from parties.server import Loss
from protocols import declaration
from protocols.observing.experiment import Setting
from protocols.observing.simulated import Simulated
from protocols.observing.struck import EndingsObserver
from protocols.one_shot import OneShot, OneShotClient, OneShotServer
from protocols.registry import declared

__all__ = ["OneRound"]


class OneRound:
    """The parties of a run of a declared protocol of one round, and its observer."""

    rounds = 1

    def __init__(self, setting: Setting) -> None:
        protocol = declared(setting.scenario.protocol.name)
        assert isinstance(protocol, OneShot)
        self._shards = named(setting.shards)
        self.server, self.clients = protocol.build(
            declaration.Setting(
                setting.world, setting.scenario.protocol, self._shards, setting.client_access, setting.server_access
            )
        )
        self.observer = _Observer(setting, protocol, self.server, self.clients)

    def plan(self) -> None:
        """Announce nothing: how long the computing of a declared protocol takes is known as it begins."""


class _Observer(EndingsObserver[OneShotClient]):
    """Compares what the server ended with with the protocol's oracle, over the clients whose inputs count."""

    def __init__(
        self, setting: Setting, protocol: OneShot, server: OneShotServer, clients: Sequence[OneShotClient]
    ) -> None:
        super().__init__(setting.world, clients, setting.faults)
        self._keys, self._protocol, self._server = setting.scenario.protocol, protocol, server
        self._shards = named(setting.shards)

    def sum_up(self) -> Simulated:
        """What came out, once all parties have ended."""
        server = self._server
        endings = self.endings()
        outcome, reason = self._outcome()
        output = None if server.found is None else np.asarray(server.found.value, np.float64).ravel().tolist()
        return Simulated(
            outcome=outcome,
            reason=reason,
            accuracy=None,
            output=output,
            lost=self._losses(),
            rounds=[],
            equals_plaintext=self._equals_oracle(),
            endings=endings,
            silent=self._struck.silent(),
        )

    def _outcome(self) -> tuple[str, str]:
        server = self._server
        if server.found is not None:
            return "completed", ""
        if not any(client.alive for client in self._named.values()):
            return "failed", "every client was lost"
        if not server.alive:
            return "aborted", f"the server was lost at {server.step_name or 'the start'}"
        return "aborted", server.aborted

    def _losses(self) -> list[Loss]:
        """Those that the server reported, with the steps at which they fell, and then those that it did not notice."""
        server, now = self._server, self.world.loop.time()
        found = [self._struck.noticed(loss, 0.0) for loss in server.lost]
        for party in (server, *self._named.values()):
            fall = self._struck.fall(party.name, 0.0, now)
            if fall is not None and party.name not in {loss.party for loss in found}:
                action = "every client ends without it" if party is server else "its part was not missed"
                found.append(Loss(party.name, fall.step, action, 1, fall.time))
        return found

    def _equals_oracle(self) -> bool | None:
        found = self._server.found
        if found is None:
            return None
        wanted = self._protocol.oracle(self._keys, {name: self._shards[name] for name in found.over})
        value, expected = (np.asarray(one, np.float64) for one in (found.value, wanted))
        return value.shape == expected.shape and bool((abs(value - expected) <= self._protocol.tolerance).all())
