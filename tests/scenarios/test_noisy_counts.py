"""Counts of Prio3 with noise of both aggregators: an oracle that knows the noise, epsilon, bytes, and lost helpers."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit import Result, ScenarioError, load, run
from tacit.protocols.privacy.aggregated import AggregatorNoise, votes_shift
from tacit.protocols.privacy.skellam_accounting import epsilon_of
from tacit.protocols.sums.batch import Batch
from tacit.scenarios.chaos.campaign import Plan, campaign
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.taps import Taps
from tacit.sim.wire import Packet

TEXT = """
seed = 3
engine = "inline"
[data]
name = "digits"
clients = 6
labeled = 0.5
limit = 120
[public]
size = 12
[protocol]
name = "fedct"
deadline = "10s"
[model]
name = "linear"
[learner]
learning_rate = 0.01
steps = 5
[cotraining]
rounds = 3
votes = "prio3"
[privacy]
votes_epsilon = 20.0
delta = 1e-5
[training]
device = "cpu"
min_clients = 3
[network]
latency = "5ms"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "counts.toml"
    path.write_text(TEXT)
    return path


def ran(file: Path, *changes: str, fault: str = "", out: str = "run") -> Result:
    file.write_text(TEXT + fault)
    return run(load(file, list(changes)), out=file.parent / out)


class Seen:
    """The labels, noise and counts of each round, and the helper's shares as they were sent."""

    def __init__(self, taps: Taps) -> None:
        self.labels: dict[bytes, list[np.ndarray]] = {}
        self.noise: dict[bytes, dict[str, np.ndarray]] = {}
        self.counts: dict[bytes, np.ndarray] = {}
        self.shares: list[bytes] = []
        taps.computed.append(self._computed)
        taps.sent.append(self._sent)

    def _computed(self, party: str, step: str, arguments: tuple[Any, ...], result: Any) -> None:
        if not arguments or not isinstance(batch := arguments[0], Batch):
            return
        if step == "report.shard":
            self.labels.setdefault(batch.context, []).append(np.asarray(arguments[1]))
        if len(arguments) == 4 and isinstance(noise := arguments[2], AggregatorNoise):
            drawn = noise.drawn(arguments[3], int(np.prod(batch.task.shape)))
            self.noise.setdefault(batch.context, {})[party] = drawn
        if len(arguments) == 5 and isinstance(arguments[4], AggregatorNoise):
            self.counts[batch.context] = result

    def _sent(self, packet: Packet) -> None:
        if packet.type == "HelperAggregate":
            self.shares.append(packet.data)


def simulated(file: Path, *changes: str, fault: str = "") -> tuple[Any, Seen]:
    file.write_text(TEXT + fault)
    taps = Taps()
    seen = Seen(taps)
    simulation = Simulation(load(file, list(changes)), taps=taps)
    try:
        return simulation.run(), seen
    finally:
        simulation.close()


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Seen]:
    """What `simulated` returns without changes and faults; tests only read it."""
    return simulated(tmp_path_factory.mktemp("calm") / "counts.toml")


@pytest.mark.parametrize("name", ["fedct", "pate"])
def test_counts_are_those_of_the_votes_with_the_noise_of_both(file: Path, calm: tuple[Any, Seen], name: str) -> None:
    found, seen = calm if name == "fedct" else simulated(file, f"protocol.name={name}")
    assert found.outcome == "completed" and len(seen.counts) == (3 if name == "fedct" else 1)
    for context, counts in seen.counts.items():
        plain = np.zeros_like(counts)
        for labels in seen.labels[context]:
            plain[np.arange(len(labels)), labels] += 1
        server, helper = seen.noise[context]["server"], seen.noise[context]["helper"]
        assert np.array_equal(counts, plain + (server + helper).reshape(counts.shape))
        assert counts.min() < 0 and not np.array_equal(server, helper)
    drawn = np.concatenate([one[party] for one in seen.noise.values() for party in one]).astype(float)
    assert found.privacy.noise**2 / 2 == pytest.approx(drawn.var(), rel=6 / np.sqrt(len(drawn)))


def test_epsilon_is_that_of_one_aggregators_noise_over_all_rounds(file: Path) -> None:
    found = ran(file)
    assert found.privacy is not None and 19.0 < found.privacy.epsilon <= 20.0
    assert found.privacy.noise == pytest.approx(math.sqrt(2 * 9))  # V = 9; 8 is too little
    shift = votes_shift(12)
    assert epsilon_of(9, shift, 3, 1e-5) == pytest.approx(found.privacy.epsilon) and epsilon_of(8, shift, 3, 1e-5) > 20
    assert found.privacy.rounds == 3 and found.privacy.epsilon_round < found.privacy.epsilon
    assert "not both together" in found.privacy.covers and not found.privacy.guaranteed  # seeded


def payload(rows: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row.type] += row.payload
    return found


def test_noise_costs_no_byte_and_the_forecast_is_right(file: Path) -> None:
    noisy, plain = ran(file), ran(file, "privacy.votes_epsilon=none", out="plain")
    sent = payload(tacit.bytes(noisy).rows)
    assert sent == payload(tacit.bytes(plain).rows) and dict(sent) == tacit.bytes(noisy).formula
    assert sent == payload(tacit.predict(load(file)).rows)
    assert plain.privacy is None


@pytest.mark.parametrize("way", ["crash", "delay"])
def test_a_helper_that_is_asked_twice_gives_the_same_bytes(file: Path, calm: tuple[Any, Seen], way: str) -> None:
    """Its answer is lost with it after it was stored, or late. The server asks again, and has the same counts."""
    before, undisturbed = calm
    fault = (
        '[[fault]]\nkind = "crash"\nparty = "helper"\nafter = "report.collect"\noccurrence = 2\nback_after = "3s"\n'
        '[[fault]]\nkind = "lose"\nparty = "helper"\nmessage = "HelperAggregate"\noccurrence = 2\n'
        if way == "crash"
        else '[[fault]]\nkind = "delay"\nby = "12s"\nparty = "helper"\nmessage = "HelperAggregate"\noccurrence = 2\n'
    )
    found, seen = simulated(file, *(["network.transport=datagram"] if way == "crash" else []), fault=fault)
    assert found.outcome == "completed" and len(seen.counts) == 3
    shares = [share[-12 * 10 * 8 :] for share in seen.shares]
    assert len(shares) == 4 and shares[1] == shares[2] and len(set(shares)) == 3
    begun = list(zip(seen.counts.values(), undisturbed.counts.values(), strict=True))[:2]
    assert all(np.array_equal(one, other) for one, other in begun)
    assert (found.labels_digest == before.labels_digest) == (way == "delay")  # the next incarnation draws other noise


def test_the_helper_gives_no_share_of_other_reports_again(file: Path) -> None:
    from tacit.protocols.sums import noised_shares
    from tacit.protocols.sums.reports import AggregateShareWanted
    from tacit.protocols.values import BadValues

    file.write_text(TEXT)
    simulation = Simulation(load(file))
    try:
        (helper,) = simulation._experiment.helpers  # its disk and nothing of its program
        wanted = AggregateShareWanted(5, bytes(32), [])
        noised_shares.keep(helper, wanted, b"share")
        assert noised_shares.kept(helper, wanted, "server") == b"share"
        for other in (AggregateShareWanted(4, bytes(32), []), AggregateShareWanted(5, bytes(32), [b"n"])):
            with pytest.raises(BadValues):
                noised_shares.kept(helper, other, "server")
    finally:
        simulation.close()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["cotraining.votes=secure"], "privacy.votes_epsilon: 20 needs two aggregators"),
        (["cotraining.votes=plain"], "privacy.votes_epsilon"),
        (["privacy.votes_epsilon=1e-4"], "privacy.votes_epsilon: .*at most 2\\^36"),
        (["privacy.votes_epsilon=0"], "privacy.votes_epsilon"),
    ],
)
def test_an_epsilon_without_two_aggregators_or_noise_is_refused(file: Path, changes: list[str], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        load(file, changes)


def test_chaos_breaks_no_promise_of_noisy_counts(file: Path) -> None:
    findings = campaign(load(file), Plan(schedules=10, singles=False, seed=4))
    assert not [one.broken for one in findings.verdicts if one.broken]
