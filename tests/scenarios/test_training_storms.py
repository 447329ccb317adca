"""Training under random mixtures of faults: a run ends, states how, and counts only clients that took part."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tacit import Data, Fault, Model, Network, ProtocolKeys, Scenario, Training, run
from tacit.protocols.registry import using
from tacit.protocols.rounds.rounds import SAME_AGAIN
from tacit.scenarios.files.fault_checks import steps_of
from tacit.scenarios.schema.scenario import Cotraining, Learner, Public

CLIENTS = 5


TRAINING = using("training.validation")
COTRAINING = [name for name in using("cotraining.rounds") if name != "centralised"]  # it has only one client


def random_scenario(seed: int, names: Sequence[str]) -> Scenario:
    """A small scenario of one of these protocols, with faults."""
    dice = random.Random(seed)
    name = dice.choice(names)
    secure = dice.random() < 0.4 and name not in ("fedmatch", "fedbuff", *COTRAINING)  # these need single models
    calm = Scenario(
        seed=seed,
        engine="inline",
        data=Data(name="digits", clients=CLIENTS, labeled=0.3, limit=100),
        protocol=ProtocolKeys(name=name, hamming="plaintext", bits=32, k=3, deadline="10s"),
        model=Model(name="linear"),
        training=Training(rounds=4, epochs=1, averaging="secure" if secure else "plain", min_clients=2, device="cpu"),
        public=Public(size=0.4) if name in COTRAINING else Public(),
        learner=Learner(steps=2),
        cotraining=Cotraining(rounds=4),
        network=Network(transport=dice.choice(("reliable", "datagram")), loss=dice.choice((0.0, 0.02))),
    )
    steps = steps_of(calm, ["client"])
    faults = (
        Fault(kind="crash", party="client/*", at=dice.choice(steps), probability=0.2, back_after="5s"),
        Fault(kind="pause", party="client/*", after=dice.choice(steps), probability=0.1, lasts="15s"),
        Fault(kind="partition", party=f"client/{dice.randrange(CLIENTS)}", at=dice.choice(steps), lasts="20s"),
        Fault(kind="leave", party=f"client/{dice.randrange(CLIENTS)}", at=dice.choice(steps), occurrence=2),
        Fault(kind="lose", probability=0.02),
        Fault(kind="corrupt", probability=0.02),
        Fault(kind="crash", party="server", time=f"{dice.randint(1, 60)}s"),
    )
    return Scenario(**{**{f: getattr(calm, f) for f in calm.__struct_fields__}, "fault": tuple(dice.sample(faults, 3))})


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 43))])
def test_training_under_random_faults_ends_with_a_stated_outcome(tmp_path: Path, seed: int) -> None:
    result = run(random_scenario(seed, TRAINING), out=tmp_path / "run")
    assert result.error is None
    assert result.outcome in ("completed", "aborted") or result.reason.startswith("every client was lost")
    ended = result.reason.startswith(("every round was lost: ", "the server was lost"))
    assert (result.outcome == "aborted") == (ended or result.reason.endswith(SAME_AGAIN))
    for one in result.round_records:
        assert set(one.averaged) <= set(one.cohort) and bool(one.averaged) == (not one.problem)
    completed = [one for one in result.round_records if not one.problem]
    assert result.outcome != "completed" or completed
    assert (result.selected_round is None) == (not completed)
    down = {fault.party for fault in result.faults if fault.kind in ("crash", "leave")}
    assert down <= {loss.party for loss in result.lost}


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 36))])
def test_co_training_under_random_faults_ends_with_a_stated_outcome(tmp_path: Path, seed: int) -> None:
    result = run(random_scenario(seed, COTRAINING), out=tmp_path / "run")
    assert result.error is None
    assert result.outcome in ("completed", "aborted") or result.reason.startswith("every client was lost")
    assert (result.outcome == "aborted") == result.reason.startswith(("every round was lost: ", "the server was lost"))
    for one in result.round_records:
        assert set(one.answered) <= set(one.cohort) and bool(one.answered) == (not one.problem)
    assert set(result.client_accuracy) <= {*(f"client/{i}" for i in range(CLIENTS)), "student"}
    down = {fault.party for fault in result.faults if fault.kind in ("crash", "leave")}
    assert down <= {loss.party for loss in result.lost}


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 22))])
def test_training_then_xclp_under_random_faults_ends_with_a_stated_outcome(tmp_path: Path, seed: int) -> None:
    result = run(random_scenario(seed, ("fedavg-then-xclp",)), out=tmp_path / "run")
    assert result.error is None
    assert result.equals_plaintext in (None, True)
    labeled = getattr(result.round_records[-1], "labeled", ())
    assert (result.outcome == "completed") <= bool(labeled) and (result.accuracy is not None) <= bool(labeled)
    assert result.outcome == "completed" or result.reason
    down = {fault.party for fault in result.faults if fault.kind in ("crash", "leave")}
    assert down <= {loss.party for loss in result.lost}
