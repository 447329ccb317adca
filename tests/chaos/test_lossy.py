"""Links that lose messages: unaffected clients stay in, and the cost of retransmissions is reported and counted."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tacit import Scenario, ScenarioError, chaos
from tacit.parties.party import Collected, Party
from tacit.protocols.setup import SeedCheck
from tacit.scenarios.chaos.broad import calm_scenario
from tacit.scenarios.chaos.campaign import Plan, campaign, replayed, verdict
from tacit.scenarios.chaos.configurations import CONFIGURATIONS
from tacit.scenarios.chaos.excused import Affected
from tacit.scenarios.chaos.promises import check
from tacit.scenarios.chaos.trial import observed
from tacit.scenarios.schema.scenario import Fault, Link
from tacit.sim.wire import Message

NAMED = {one.name: one for one in CONFIGURATIONS}


def test_late_shares_do_not_lose_the_client_that_already_has_the_sum(small: Scenario) -> None:
    """The next round is called while the client still waits for shares: the sum that it has received counts."""
    protocol = structs.replace(small.protocol, recovery="secure", rounds=2, deadline="10s")
    network = structs.replace(small.network, topology="mesh")
    late = Fault(kind="delay", party="client/0", peer="client/3", message="DealtShares", by="4s")
    found = verdict(structs.replace(small, protocol=protocol, network=network, fault=(late,)))
    assert (found.outcome, found.lost, found.broken, found.faults_fired) == ("completed", (), (), 1)


def test_a_seed_is_drawn_with_which_a_run_over_lossy_links_completes(small: Scenario) -> None:
    lossy = structs.replace(
        small,
        protocol=structs.replace(small.protocol, deadline="2s"),
        network=structs.replace(small.network, transport="datagram", loss=0.05),
    )
    first = next(seed for seed in range(1, 100) if replayed(structs.replace(lossy, seed=seed)).outcome != "completed")
    findings = campaign(structs.replace(lossy, seed=first), Plan(schedules=1, singles=False))
    assert not findings.useless and len(findings.verdicts) == 2 and findings.seed is not None
    assert first < findings.seed < first + 20
    assert findings.verdicts[0].trace_hash == replayed(structs.replace(lossy, seed=findings.seed)).trace_hash


def test_chaos_without_any_run_that_completes_is_an_error(small: Scenario, tmp_path: Path) -> None:
    hopeless = structs.replace(small, network=structs.replace(small.network, transport="datagram", loss=0.9))
    with pytest.raises(ScenarioError, match=r"nothing was tried, for without any fault the run is .*; raise protocol"):
        chaos(hopeless, schedules=1, out=tmp_path / "here")
    assert json.loads((tmp_path / "here/chaos.json").read_text())["seed"] == hopeless.seed + 19


def test_a_retransmission_wait_after_a_partition_excuses_the_client() -> None:
    """TCP's retransmission timeouts double, so for a long time after the end of the partition nothing is received."""
    scenario = calm_scenario(NAMED["scaffold, secure, star, uneven, lossy TCP"], 7001)
    cut = Fault(kind="partition", party="client/3", peer="server", message="SeedCheck", lasts="20s")
    found = verdict(structs.replace(scenario, fault=(cut,)))
    assert "client/3" in found.lost and not found.broken


def test_a_delayed_seed_on_a_connection_excuses_all_that_wait_for_the_leader() -> None:
    """Over TCP the leader's other seeds wait behind it: they arrive when the server's wait is all but over."""
    scenario = calm_scenario(NAMED["dp-fedavg, less noise until epsilon, secure, lossy TCP"], 11758650)
    late = Fault(kind="delay", party="*", message="Seed", occurrence=9, by="9.757s")
    found = verdict(structs.replace(scenario, fault=(late,)))
    assert len(found.lost) == 6 and not found.broken


def with_loss(scenario: Scenario, transport: str, loss: float, deadline: str) -> Scenario:
    network = structs.replace(scenario.network, transport=transport)
    link = Link(party="client/2", peer="server", loss=loss)
    protocol = structs.replace(scenario.protocol, deadline=deadline)
    return structs.replace(scenario, network=network, link=(link,), protocol=protocol)


@pytest.mark.parametrize("transport", ["reliable", "tcp"])
def test_a_link_lossy_past_the_deadline_loses_only_its_client(small: Scenario, transport: str) -> None:
    lossy = with_loss(small, transport, 0.9, "4s")
    trial = observed(lossy)
    assert trial.simulated is not None and {loss.party for loss in trial.simulated.lost} == {"client/2"}
    assert Affected(trial).until.keys() == {"client/2"} and not check(trial)


@pytest.mark.parametrize("transport", ["reliable", "tcp"])
def test_a_loss_repaired_before_the_deadline_excuses_no_client(
    small: Scenario, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect = Party.collect

    async def deaf(self: Party, kind: type[Message], sources: Any, **how: Any) -> Collected[Any]:
        found = await collect(self, kind, sources, **how)
        if kind is not SeedCheck or "client/2" not in found.answers:
            return found
        return Collected({key: one for key, one in found.answers.items() if key != "client/2"}, ("client/2",))

    lossy = with_loss(small, transport, 0.5, "10min")
    assert not check(observed(lossy))
    monkeypatch.setattr(Party, "collect", deaf)
    trial = observed(lossy)
    assert any("lost on the link" in event.note for event in trial.events)
    assert "only clients with faults are lost" in {one.promise for one in check(trial)}
