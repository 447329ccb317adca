"""Chaos finds planted bugs, and shrinks the faults to those that show them."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from tacit import Scenario
from tacit.parties.party import Collected, Party
from tacit.parties.server import Server
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.federated import fedavg
from tacit.protocols.sums.dealing import DealtKeys, Survivors
from tacit.protocols.xclp.rowsums import MaskedRows
from tacit.scenarios.chaos.broad import calm_scenario
from tacit.scenarios.chaos.campaign import Failure, Plan, campaign, first_run, verdict
from tacit.scenarios.chaos.configurations import CONFIGURATIONS
from tacit.scenarios.chaos.schedules import Schedule
from tacit.scenarios.chaos.shrinking import shrink
from tacit.scenarios.schema.scenario import Fault
from tacit.sim.wire import Message

SINGLES = Plan(schedules=0, quick=True)


@pytest.fixture
def with_shamir(small: Scenario) -> Scenario:
    return structs.replace(small, protocol=structs.replace(small.protocol, recovery="secure"))


def failures(scenario: Scenario, plan: Plan = SINGLES) -> dict[str, Failure]:
    return {failure.promise: failure for failure in campaign(scenario, plan).failures}


@pytest.mark.long
def test_chaos_finds_masks_reused_by_a_new_attempt(small: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result stays right, and the server learns the lost client's masks: only the keys show the bug."""
    key = SharedSecret.key
    monkeypatch.setattr(
        SharedSecret, "key", lambda self, purpose, attempt=0: key(self, purpose.split()[0], min(attempt, 1))
    )
    found = failures(small)
    assert set(found) == {"no mask is used twice"}
    (fault,) = found["no mask is used twice"].faults
    assert (fault.kind, fault.party.partition("/")[0]) == ("crash", "client")
    # Only a loss before masked values are sent makes a new attempt.
    assert fault.before in ("influence.request", "rowsums.mask") or fault.after == "influence.request"
    assert "uses a mask key of round 1" in found["no mask is used twice"].how


def test_chaos_finds_survivors_that_differ_between_clients(
    with_shamir: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a loss, the first survivor is sent a list that still has the lost client."""
    broadcast, everyone = Server.broadcast, list[str]()

    def disagreeing(self: Server, parties: Sequence[str], message: Message) -> None:
        if isinstance(message, DealtKeys):
            everyone[:] = message.names
        if isinstance(message, Survivors) and len(message.names) < len(everyone):
            broadcast(self, parties[:1], Survivors(list(everyone)))
            parties = parties[1:]
        broadcast(self, parties, message)

    monkeypatch.setattr(Server, "broadcast", disagreeing)
    found = failures(with_shamir)
    assert "all members get the same set" in found
    # Shares of both kinds do not combine.
    assert set(found) & {"the result equals the oracle's", "only losses abort a run"}
    for failure in found.values():
        assert len(failure.faults) == 1
        assert failure.faults[0].party.startswith("client/")


@pytest.mark.long
def test_chaos_finds_a_wait_without_a_deadline(small: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    collect = Party.collect

    async def for_ever(self: Party, kind: type[Message], sources: Sequence[str], **how: Any) -> Collected[Any]:
        return await collect(self, kind, sources, **(how | ({"deadline": 1e15} if kind is MaskedRows else {})))

    monkeypatch.setattr(Party, "collect", for_ever)
    found = failures(small)
    assert len(found["every run ends"].faults) == 1
    assert "it has not ended" in found["every run ends"].how
    assert found["every run ends"].faults[0].party.startswith("client/")


def test_chaos_reports_an_endless_wait_as_a_deadlock(small: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a timer is left: a deadlock, which is reported at once with the waiting parties."""
    collect = Party.collect

    async def for_ever(self: Party, kind: type[Message], sources: Sequence[str], **how: Any) -> Collected[Any]:
        found = await collect(self, kind, sources, **how)
        if kind is MaskedRows and found.missing:
            await self.world.loop.create_future()
        return found

    monkeypatch.setattr(Party, "collect", for_ever)
    found = failures(small)
    assert len(found["every run ends"].faults) == 1
    assert found["every run ends"].how.startswith("Deadlock: ") and "server" in found["every run ends"].how


def test_chaos_finds_an_average_that_ignores_the_numbers_of_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only clients with different numbers of points show the bug, so some configurations have such clients."""
    average = fedavg.average
    monkeypatch.setattr(fedavg, "average", lambda column, weights, layout: average(column, None, layout))
    plain = {one.name: one for one in CONFIGURATIONS if one.name.startswith("fedavg, plain, star")}
    found = {name: first_run(calm_scenario(one, 1)).promises_broken for name, one in plain.items()}
    assert {name for name, broken in found.items() if broken == {"the model equals the oracle's"}} == {
        name for name in plain if "uneven" in name
    }
    assert len(plain) == 3


def test_a_mixture_of_faults_is_shrunk_to_the_faults_that_break_the_promise(
    small: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third attempt repeats the masks of the second, so two losses in a row are needed."""
    key = SharedSecret.key
    monkeypatch.setattr(
        SharedSecret, "key", lambda self, purpose, attempt=0: key(self, purpose.split()[0], min(attempt, 5))
    )

    def breaks(faults: Schedule) -> bool:
        return "no mask is used twice" in {one.promise for one in verdict(structs.replace(small, fault=faults)).broken}

    mixture = (
        Fault(kind="duplicate", message="Join", occurrence=2),
        Fault(party="client/1", before="rowsums.mask", back_after="2s"),
        Fault(kind="pause", party="server", before="influence.solve", lasts="1s"),
        Fault(kind="leave", party="client/3", before="rowsums.mask", occurrence=2),
        Fault(kind="delay", message="SeedCheck", occurrence=3, by="50ms"),
    )
    small = structs.replace(small, protocol=structs.replace(small.protocol, min_clients=2))
    assert breaks(mixture)
    smallest = shrink(mixture, breaks, small.data.clients)
    assert smallest == (
        Fault(party="client/1", before="rowsums.mask"),
        Fault(party="client/3", before="rowsums.mask", occurrence=2),
    )
