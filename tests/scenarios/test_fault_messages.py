"""Every message type that a run sends can be named in [[fault]], for every protocol and choice."""

import pytest
from msgspec import structs

from tacit import Data, Fault, Model, Network, ProtocolKeys, Scenario, Training
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.fault_checks import check_fault_places, messages_of
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Cotraining, Learner, Privacy, Public

AFTER_A_LOSS = {"Dismissed", "NewLeader", "RollCall", "Present"}
"""Message types that are sent only after a loss."""


def small(name: str) -> Scenario:
    """A scenario that runs in a fraction of a second."""
    cotraining = "cotraining.rounds" in PROTOCOLS[name].uses
    return Scenario(
        seed=3,
        engine="inline",
        entropy="os" if "privacy.epsilon" in PROTOCOLS[name].uses else "seeded",
        data=Data(name="digits", clients=1 if name == "centralised" else 4, labeled=0.5, limit=80),
        protocol=ProtocolKeys(
            name=name, hamming="plaintext", bits=8, k=3, deadline="10s", key_bits=512, insecure_keys=True
        ),
        model=Model(name="linear"),
        training=Training(rounds=2, epochs=1, device="cpu"),
        public=Public(size=0.4) if cotraining else Public(),
        learner=Learner(steps=2),
        cotraining=Cotraining(rounds=2),
        privacy=Privacy(),
        network=Network(latency="5ms"),
    )


def every_choice() -> list[Scenario]:
    found = []
    for name in (name for name, protocol in PROTOCOLS.items() if protocol.needs.points):  # the others run users' code
        plain = small(name)
        found.append(plain)
        choices = PROTOCOLS[name].choices(plain)
        if name == "xclp":
            for hamming in ("paillier", "iknp", "naor-pinkas", "direct"):
                few = structs.replace(plain.data, clients=3, limit=12)  # the same messages in less time
                found.append(
                    structs.replace(plain, data=few, protocol=structs.replace(plain.protocol, hamming=hamming))
                )
        if choices.get("protocol.recovery") == "restart":
            found.append(structs.replace(plain, protocol=structs.replace(plain.protocol, recovery="shamir")))
        if name == "xclp":
            changed = {"recovery": "secagg+", "identity": "signed"}
            found.append(structs.replace(plain, protocol=structs.replace(plain.protocol, **changed)))
        if "training.averaging" in choices and name != "fedmatch":  # fedmatch needs each client's model
            found.append(structs.replace(plain, training=structs.replace(plain.training, averaging="secure")))
    return found


def named(scenario: Scenario) -> str:
    return " ".join([scenario.protocol.name, *PROTOCOLS[scenario.protocol.name].choices(scenario).values()])


@pytest.mark.parametrize("scenario", every_choice(), ids=named)
def test_what_a_run_sends_is_what_faults_may_name(scenario: Scenario) -> None:
    simulation = Simulation(scenario, engine="inline")
    try:
        assert simulation.run().outcome == "completed"
    finally:
        simulation.close()
    sent = {row.type for row in simulation.ledger.rows()}
    allowed = set(messages_of(scenario))
    assert sent <= allowed
    assert allowed - sent <= AFTER_A_LOSS
    faults = tuple(Fault(kind="lose", message=message) for message in sorted(sent))
    check_fault_places(structs.replace(scenario, fault=faults))
