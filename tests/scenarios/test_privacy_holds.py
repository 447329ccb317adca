"""The conditions of a printed epsilon: secret noise, a cohort counted as known if it is known, and all rounds
charged."""

import json
from pathlib import Path
from typing import Any

import dp_accounting
import dp_accounting.rdp
import numpy as np
import pytest
from numpy.typing import NDArray

from tacit import Result, Scenario, run
from tacit.parties.learning.vectors import decode
from tacit.protocols.cotraining.round import LocalPredictions
from tacit.protocols.privacy.noise import bernoulli, gaussian
from tacit.protocols.privacy.spent import Spent, privacy_lines
from tacit.scenarios.command.sweep import sweep
from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.files.reading import read
from tacit.scenarios.reporting.printed import outcome_lines
from tacit.scenarios.running.runner import Watch, carry_out, resume
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.sweeping.folder import Asked
from tacit.sim.streams import Entropy
from tacit.sim.taps import Taps
from tacit.sim.trace import Event
from tacit.sim.wire import Packet, decode_body, decode_frame
from tacit.sim.world import World

COTRAINED = """
title = "Three clients share randomised labels"
seed = 11
engine = "inline"
[data]
name = "digits"
clients = 3
labeled = 1.0
limit = 120
[public]
size = 60
[protocol]
name = "dp-fedct"
[learner]
name = "decision-tree"
[cotraining]
rounds = 2
[privacy]
epsilon = 0.1
[training]
device = "cpu"
"""

TRAINED = """
title = "Six clients train privately"
seed = 11
engine = "inline"
[data]
name = "digits"
clients = 6
labeled = 1.0
limit = 120
[protocol]
name = "dp-fedavg"
deadline = "10s"
[network]
latency = "5ms"
[model]
name = "linear"
[training]
rounds = 4
epochs = 1
learning_rate = 0.5
device = "cpu"
checkpoint_every = 1
[privacy]
noise = 5.0
clip = 0.5
"""

NOISE_5 = ("privacy.noise=5.0",)
HALF = ("training.share=0.5", *NOISE_5)
LOST_AFTER_SURVIVORS = """
[[fault]]
kind = "crash"
party = "client/{}"
at = "sum.reveal"
occurrence = 2
back_after = "1s"
"""


def scenario_of(folder: Path, text: str, *changes: str) -> Scenario:
    path = folder / "private.toml"
    path.write_text(text)
    return read(path, list(changes)).scenario


def privacy_of(result: Result) -> Spent:
    assert result.privacy is not None
    return result.privacy


def composed(multiplier: float, rounds: int, delta: float = 1e-5) -> float:
    """The epsilon of `rounds` Gaussian sums over all clients, computed by dp-accounting.

    One client's clipped change is replaced by another: the sum moves by 2 S, against noise of `multiplier` S.
    """
    accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    for _ in range(rounds):
        accountant.compose(dp_accounting.GaussianDpEvent(multiplier / 2))
    return float(accountant.get_epsilon(delta))


# --- anybody with the file's seed can remove the noise


def recovered_labels(scenario: Scenario, seed: int) -> float:
    """The share of the labels in all messages that a reader recovers by undoing the flips of `seed`."""
    packets: list[Packet] = []
    simulation = Simulation(
        scenario, engine="inline", taps=Taps(delivered=[lambda time, packet: packets.append(packet)])
    )
    try:
        privacy = simulation.run().privacy
        assert privacy is not None and privacy.flip is not None
        settings = simulation.server.settings
        clients = {client.name: client for client in simulation.clients}
        shape = (len(settings.public), settings.classes)
        right = []
        for packet in packets:
            if packet.type != "LocalPredictions" or packet.round != settings.rounds:
                continue
            frame = decode_frame(packet.data)
            sent = np.frombuffer(decode_body(frame, frame.body, LocalPredictions).predictions, np.uint8)
            noisy = np.unpackbits(sent, count=shape[0] * shape[1], bitorder="little").reshape(shape).astype(bool)
            own = World(seed).entropy(packet.sender, 1, packet.round, packet.attempt, "sharing")
            one_hot = noisy ^ bernoulli(privacy.flip, shape, Entropy(own.bytes(32)))
            client = clients[packet.sender]
            true = client.learner.predict(client.learnt, settings.public.points)
            right.append((one_hot == (true[:, None] == np.arange(shape[1]))).all(axis=1).mean())
        assert len(right) == len(clients)
        return float(np.mean(right))
    finally:
        simulation.close()


def test_with_the_seed_of_the_file_every_randomised_label_can_be_undone(tmp_path: Path) -> None:
    seeded = scenario_of(tmp_path, COTRAINED)
    assert recovered_labels(seeded, seeded.seed) == 1.0
    assert recovered_labels(seeded, seeded.seed + 1) < 0.05
    assert recovered_labels(scenario_of(tmp_path, COTRAINED, "entropy=os"), seeded.seed) < 0.05


def released_model(folder: Path, *changes: str) -> NDArray[np.float32]:
    result = run(scenario_of(folder, TRAINED, "training.rounds=1", *changes), out=folder / "-".join(changes))
    with np.load(result.folder / "model.npz") as arrays:
        return decode(arrays["parameters"].astype("<f4").tobytes())


def test_with_the_seed_of_the_file_noise_can_be_subtracted_from_the_average(tmp_path: Path) -> None:
    bare = released_model(tmp_path, "privacy.noise=0.0").astype(float)
    noise = 5.0 * 0.5 / 6 * gaussian(bare.shape, World(11).entropy("server", 1, 1, 1, "noise"))
    seeded, secret = released_model(tmp_path, *NOISE_5), released_model(tmp_path, *NOISE_5, "entropy=os")
    assert np.abs(seeded - noise - bare).max() < 1e-5
    assert np.std(secret - noise - bare) > np.std(noise)


@pytest.mark.parametrize("text", [COTRAINED, TRAINED])
def test_an_epsilon_of_seeded_noise_is_reported_without_guarantee(tmp_path: Path, text: str) -> None:
    result = run(scenario_of(tmp_path, text), out=tmp_path / "seeded")
    stored = json.loads((result.folder / "result.json").read_text())
    assert not stored["privacy"]["guaranteed"]
    for said in (outcome_lines(result), stored["privacy"]["caveats"], stored["warnings"]):
        assert any('the guarantee needs entropy = "os"' in line for line in said)
    secret = run(scenario_of(tmp_path, text, "entropy=os"), out=tmp_path / "os")
    assert privacy_of(secret).guaranteed and not privacy_of(secret).caveats
    assert not any("NO guarantee" in line for line in outcome_lines(secret))
    assert not any("entropy" in line for line in secret.warnings)


TABLE = """
[table]
title = "epsilon"
seeds = 1
[[table.column]]
label = "epsilon"
measure = "privacy.epsilon"
unit = "1"
[[table.row]]
label = "one"
set = { "privacy.delta" = 1e-5 }
"""


@pytest.mark.parametrize("table", ["", TABLE])
def test_a_sweep_reports_an_epsilon_of_seeded_noise_without_guarantee(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    path = tmp_path / "swept.toml"
    path.write_text(COTRAINED + table)
    for entropy, caveats in (("seeded", 1), ("os", 0)):
        over = [] if table else ["privacy.delta=1e-5,1e-6"]
        sweep(Asked(file=str(path), over=over, changes=[f"entropy={entropy}"]), 1, tmp_path / entropy)
        lines = [line for line in capsys.readouterr().out.splitlines() if 'guarantee needs entropy = "os"' in line]
        assert [line.split()[0] for line in lines] == ["WARNING", "privacy"] * caveats
        assert f",{entropy}," in (tmp_path / entropy / "sweep.csv").read_text()
        if table:
            page = (tmp_path / entropy / "table.md").read_text()
            assert page.count('the guarantee needs entropy = "os"') == caveats


# --- drawn clients


def test_a_cohort_that_follows_from_the_seed_is_counted_as_known(tmp_path: Path) -> None:
    known = privacy_of(run(scenario_of(tmp_path, TRAINED, *HALF), out=tmp_path / "known"))
    assert known.epsilon == pytest.approx(composed(5.0, 4), rel=1e-6)
    assert known.cohort.startswith("known") and any("cohort known" in line for line in privacy_lines(known))
    hidden = privacy_of(run(scenario_of(tmp_path, TRAINED, *HALF, "entropy=os"), out=tmp_path / "hidden"))
    assert hidden.epsilon is not None and hidden.epsilon < 0.9 * composed(5.0, 4)
    assert hidden.cohort.startswith("hidden") and "not who was drawn" in hidden.covers


def test_the_noise_for_an_epsilon_counts_a_known_cohort_as_known(tmp_path: Path) -> None:
    asked = TRAINED.replace("noise = 5.0", "epsilon = 2.0")
    for entropy in ("seeded", "os"):
        scenario = scenario_of(tmp_path, asked, "training.share=0.5", f"entropy={entropy}")
        spent = privacy_of(run(scenario, out=tmp_path / entropy))
        assert spent.epsilon == pytest.approx(2.0, rel=1e-2) and spent.noise is not None
        if entropy == "seeded":
            assert composed(spent.noise, 4) == pytest.approx(2.0, rel=1e-2)
        else:
            assert composed(spent.noise, 4) > 2.2


def cohorts(result: Result) -> list[tuple[str, ...]]:
    return [tuple(one["cohort"]) for one in result.record()["rounds"]]


def test_the_server_draws_private_cohorts_from_its_own_entropy(tmp_path: Path) -> None:
    def drawn(*changes: str) -> list[tuple[str, ...]]:
        name = "-".join(changes).replace("/", "")
        scenario = scenario_of(tmp_path, TRAINED, "training.rounds=12", "training.share=0.5", *changes)
        return cohorts(run(scenario, out=tmp_path / name))

    one, two = (drawn("entropy=os", f"title={i}") for i in "ab")
    assert one != two  # equal by chance once in 20^12
    plain = drawn("protocol.name=fedavg")
    assert drawn("protocol.name=fedavg", "entropy=os") == plain
    seeded = drawn("entropy=seeded")
    assert seeded == drawn("entropy=seeded", "title=c") != plain
    assert {len(cohort) for cohort in (*one, *seeded)} == {3} and len(set(seeded)) > 6


# --- charged rounds


class InRound(Watch):
    """A watch that sends Ctrl-C when the first model of a round is received."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, event: Event) -> None:
        if event.kind == "deliver" and event.type == "LocalModel" and event.round == self.number:
            raise KeyboardInterrupt


def test_an_interrupted_run_is_charged_for_its_current_round(tmp_path: Path) -> None:
    scenario = scenario_of(tmp_path, TRAINED, "entropy=os")
    broken = carry_out(scenario, "broken", out=tmp_path / "broken", watch=InRound(2))
    assert broken.outcome == "interrupted" and len(broken.round_records) == 1
    spent = privacy_of(broken)
    assert (spent.rounds, spent.planned) == (2, 4) and spent.epsilon == pytest.approx(composed(5.0, 2), rel=1e-6)
    assert any("charged: 2 of 4 rounds" in line for line in outcome_lines(broken))
    stored = json.loads((broken.folder / "result.json").read_text())
    assert stored["privacy"]["epsilon"] == spent.epsilon


@pytest.mark.parametrize("entropy", ["seeded", "os"])
def test_a_resumed_run_draws_new_cohorts_and_reports_repeated_rounds(tmp_path: Path, entropy: str) -> None:
    scenario = scenario_of(tmp_path, TRAINED, *HALF, f"entropy={entropy}", "training.rounds=6")
    carry_out(scenario, "broken", out=tmp_path / "broken", watch=InRound(4))
    found = resume(tmp_path / "broken")
    assert found.outcome == "completed" and found.resumed == [3] and privacy_of(found).rounds == 6
    assert len(set(cohorts(found))) > 1
    if entropy == "seeded":  # the repetition is equal to the bit, and reveals nothing more
        unbroken = run(scenario, out=tmp_path / "unbroken")
        assert cohorts(found) == cohorts(unbroken) and found.model_digest == unbroken.model_digest
        assert privacy_of(found) == privacy_of(unbroken)
    else:
        assert not privacy_of(found).guaranteed and "held twice" in privacy_of(found).caveats[0]


def test_a_round_lost_after_naming_its_survivors_is_charged(tmp_path: Path) -> None:
    lost = "".join(LOST_AFTER_SURVIVORS.format(i) for i in range(3))
    secure = ("training.averaging=secure", "training.min_clients=4", "privacy.noise_at=clients")
    result = run(scenario_of(tmp_path, TRAINED + lost, *secure), out=tmp_path / "lost")
    problems: list[Any] = [one["problem"] for one in result.record()["rounds"]]
    assert [bool(problem) for problem in problems] == [False, True] and result.outcome == "aborted"  # no second sum
    spent = privacy_of(result)
    assert spent.rounds == 2 and spent.epsilon == pytest.approx(composed(5.0, 2), rel=1e-6)


SERVER_LOST = """
[[fault]]
kind = "crash"
party = "server"
at = "train.average"
occurrence = 2
"""


def test_rounds_without_called_clients_are_not_charged(tmp_path: Path) -> None:
    result = run(scenario_of(tmp_path, TRAINED + SERVER_LOST), out=tmp_path / "lost")
    assert result.outcome == "aborted"
    spent = privacy_of(result)
    assert (spent.rounds, spent.planned) == (2, 4) and spent.epsilon == pytest.approx(composed(5.0, 2), rel=1e-6)


def test_a_caution_is_given_for_two_labeled_clients(tmp_path: Path) -> None:
    text = TRAINED.replace('"dp-fedavg"', '"xclp"')
    for least, warned in ((2, 1), (3, 0)):
        lines = cautions(scenario_of(tmp_path, text, f"protocol.min_clients={least}", "protocol.hamming=plaintext"))
        assert sum("compute the other's scores exactly" in line for line in lines) == warned
    assert not any("min_clients" in line for line in cautions(scenario_of(tmp_path, TRAINED)))


def test_noise_at_clients_in_a_graph_gives_a_caution(tmp_path: Path) -> None:
    for way, warned in (("secagg+", 1), ("secure", 0)):
        changes = ("privacy.noise_at=clients", f"training.averaging={way}", "training.min_clients=2")
        lines = cautions(scenario_of(tmp_path, TRAINED, *changes))
        assert sum("only if the server follows the protocol" in line for line in lines) == warned
