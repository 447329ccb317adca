"""A server that returns during a run: the promises that then hold, and a bug of its next incarnation that is found."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from tacit import Scenario
from tacit.parties.server import Server
from tacit.protocols.sums.dealing import Survivors
from tacit.scenarios.chaos.broad import calm_scenario
from tacit.scenarios.chaos.campaign import Verdict, first_run, verdict
from tacit.scenarios.chaos.configurations import CONFIGURATIONS
from tacit.scenarios.chaos.schedules import random_schedules
from tacit.scenarios.schema.scenario import Fault
from tacit.sim.wire import Message


def crash(**where: object) -> Fault:
    return Fault(party="server", **({"back_after": "4s"} | where))  # type: ignore[arg-type]


SCHEDULES = {
    "a set that it was about to announce": ("xclp, Paillier, shamir, star", crash(message="Survivors", occurrence=6)),
    "rows of a mesh": ("xclp, plaintext, shamir, mesh, three rounds", crash(message="Rows", occurrence=2)),
    "the sum was sent, and had not left": (
        "xclp, plaintext, shamir, signed, star", crash(message="RoundStart", occurrence=13)
    ),
    "nothing is summed twice": ("xclp, plaintext, restart, star, three rounds", crash(before="influence.solve")),
    "nobody but the server was struck": ("fedprop, plain, star", crash(after="train.open", occurrence=3)),
    "every round was lost": ("pate", crash(before="cotrain.student")),
    "models of its former incarnation": ("fedavg, plain, star", crash(before="train.average", occurrence=2)),
    "signatures of members": ("fedavg, committee, star", crash(message="Agreement", occurrence=3)),
    "signatures of clients": ("fedavg, lightsecagg, star", crash(message="Agreement", occurrence=3)),
    "who is in a sum with coded masks": ("fedavg, lightsecagg, star", crash(message="CodedSurvivors", occurrence=12)),
    "a buffer": ("fedbuff, star", crash(before="train.buffer")),
    "who was heard before it knew": ("fedsem+, secure", crash(after="train.enroll")),
}  # fmt: skip


def scenario_of(name: str) -> Scenario:
    return calm_scenario(next(one for one in CONFIGURATIONS if one.name == name), 7101)


def verdict_under(name: str, *faults: Fault) -> Verdict:
    return verdict(structs.replace(scenario_of(name), fault=faults))


@pytest.mark.parametrize("what", SCHEDULES)
def test_a_server_that_returns_breaks_no_promise(what: str) -> None:
    found = verdict_under(*SCHEDULES[what])
    assert not found.broken and found.faults_fired == 1


def test_a_client_crash_at_enrolment_and_a_returning_server_break_no_promise() -> None:
    gone = Fault(party="client/3", before="train.enroll")
    found = verdict_under("dp-pate", crash(message="CotrainingRound"), gone)
    assert not found.broken and found.faults_fired == 2


def test_a_set_that_the_next_incarnation_announces_to_some_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    broadcast = Server.broadcast

    def planted(self: Server, parties: Sequence[str], message: Message) -> None:
        some = list(parties)[:-1] if isinstance(message, Survivors) and self.incarnation > 1 else parties
        broadcast(self, some, message)

    monkeypatch.setattr(Server, "broadcast", planted)
    found = verdict_under("fedavg, secure, star", crash(before="train.open"))
    assert "all members get the same set" in found.promises_broken


def test_chaos_draws_a_server_that_returns() -> None:
    course = first_run(scenario_of("fedavg, plain, star")).course
    drawn = [fault for one in random_schedules(course, 300, 1, 10.0) for fault in one if fault.party == "server"]
    crashes = [fault for fault in drawn if fault.kind == "crash"]
    back = [fault for fault in crashes if fault.back_after is not None]
    assert len(back) > len(crashes) / 2 and {bool(fault.before) for fault in back} == {True, False}
