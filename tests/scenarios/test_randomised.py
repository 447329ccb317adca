"""Randomised labels and hash bits in whole runs: unchanged by crashes, returns, rounds and resumed runs."""

import numpy as np
import pytest
from msgspec import structs

from tacit import Privacy, Scenario, load, run
from tacit.protocols.experiment.experiment import Setting
from tacit.protocols.privacy.released import released, with_rounds_again
from tacit.scenarios.deploying.plain_state import lasting_secret
from tacit.scenarios.reporting.printed import outcome_lines
from tacit.scenarios.running.folder import LASTING, FolderError
from tacit.scenarios.running.runner import Watch, resume
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.trace import Event

SMALL = ["data.limit=120", "data.clients=4", "data.labeled=0.5", "protocol.bits=64", "protocol.k=5", "engine=inline"]
CALM = [*SMALL, "fault=[]", "expect.lost=[]", "network.latency=1ms"]
NOISY = ["privacy.hash_epsilon=1.5", "privacy.label_epsilon=1"]
BACK = """
title = "A client crashes in the first of three rounds, and comes back"
seed = 3
engine = "inline"
[data]
name = "digits"
limit = 120
clients = 4
labeled = 0.5
[protocol]
name = "xclp"
hamming = "direct"
bits = 64
k = 5
rounds = 3
deadline = "5s"
[privacy]
hash_epsilon = 1.5
label_epsilon = 1.0
[network]
latency = "1ms"
[[fault]]
kind = "crash"
party = "client/1"
at = "lsh.hash"
back_after = "1s"
"""


@pytest.mark.parametrize("hamming", ["plaintext", "direct", "paillier", pytest.param("iknp", marks=pytest.mark.long)])
def test_every_variant_equals_the_oracle_under_noise(hamming: str, tmp_path) -> None:
    changes = [f"protocol.hamming={hamming}", "protocol.key_bits=512", "protocol.insecure_keys=true", "data.limit=60"]
    result = run(load("xclp-digits", [*CALM, *NOISY, *changes]), out=tmp_path / "run")
    assert (result.outcome, result.equals_plaintext) == ("completed", True)
    assert result.randomised is not None and result.randomised.rounds == 1
    assert not result.randomised.guaranteed  # entropy = "seeded"


def test_variants_give_equal_results_under_noise(tmp_path) -> None:
    runs = [
        run(load("xclp-digits", [*CALM, *NOISY, f"protocol.hamming={hamming}"]), out=tmp_path / hamming)
        for hamming in ("plaintext", "direct")
    ]
    assert runs[0].hamming_digest == runs[1].hamming_digest and runs[0].labels_digest == runs[1].labels_digest
    quiet = run(load("xclp-digits", [*CALM, "protocol.hamming=direct"]), out=tmp_path / "quiet")
    assert quiet.hamming_digest != runs[0].hamming_digest
    assert quiet.baselines == runs[0].baselines  # baselines are computed in plaintext, without noise
    assert quiet.randomised is None


class Kept(Watch):
    """A watch that stores each client's labels and bits, with and without flips, for each round."""

    def __init__(self) -> None:
        self.labels: dict[str, list[np.ndarray]] = {}
        self.flips: dict[tuple[str, int], np.ndarray] = {}

    def look(self, simulation: Simulation) -> None:
        for client in simulation.clients:
            self.labels.setdefault(client.name, []).append(client.shard.labels.copy())
            if getattr(client, "bits_of_round", None) is not None:
                self.flips[client.name, client.hashed_in] = client.bits_of_round ^ client.bits_as_hashed


def played(scenario: Scenario, **how) -> tuple[Simulation, Kept]:
    simulation, kept = Simulation(scenario, engine="inline", **how), Kept()
    simulation.server.observers.append(lambda record: kept.look(simulation))
    simulation.run()
    simulation.close()
    return simulation, kept


def scenario_of(tmp_path, entropy: str) -> Scenario:
    path = tmp_path / "back.toml"
    path.write_text(BACK)
    return load(path, [f"entropy={entropy}"])


@pytest.mark.parametrize("entropy", ["seeded", "os"])
def test_a_returned_client_repeats_its_answers_so_that_averaging_reveals_none(tmp_path, entropy) -> None:
    simulation, kept = played(scenario_of(tmp_path, entropy))
    shards = [simulation.shards[i] for i in range(4)]
    changed = 0
    for number, shard in enumerate(shards):
        used = kept.labels[f"client/{number}"]
        assert len(used) == 3
        for labels in used[1:]:
            np.testing.assert_array_equal(labels, used[0])
        np.testing.assert_array_equal(used[0][~shard.labeled], shard.labels[~shard.labeled])
        changed += int((used[0] != shard.labels).sum())
        # A majority over the rounds is no better than one round.
        votes = np.stack(used)[:, shard.labeled]
        assert ((votes == shard.labels[shard.labeled]).sum(0) > 1.5).mean() == (votes[0] == votes[1]).mean() * (
            votes[0] == shard.labels[shard.labeled]
        ).mean()
    assert 20 < changed < 58  # each of 60 labels is kept with probability 0.23
    client = "client/1"
    assert (client, 1) not in kept.flips and {(client, 2), (client, 3)} <= set(kept.flips)
    fresh = kept.flips[client, 2] ^ kept.flips[client, 3]  # other planes use other coins
    assert 0.2 < fresh.mean() < 0.4


def test_randomised_answers_follow_from_the_lasting_secret(tmp_path) -> None:
    scenario = scenario_of(tmp_path, "os")
    one, again, other = (played(scenario, lasting=secret)[1].labels for secret in (b"1" * 32, b"1" * 32, b"2" * 32))
    assert all(np.array_equal(one[name][0], again[name][0]) for name in one)
    assert not all(np.array_equal(one[name][0], other[name][0]) for name in one)


TRAINED = ["training.rounds=4", "training.epochs=1", "data.limit=120", "training.checkpoint_every=1"]
TRAINED += ["protocol.hamming=direct", "protocol.bits=64", "training.label_from=2", "model.name=linear"]
TRAINED += ["training.validation=0.0", "network.latency=1ms", 'training.device="cpu"', "engine=inline"]
TRAINED += ["entropy=os", *NOISY]


class Broken(Watch):
    """A watch that interrupts a run once a round has begun."""

    def __init__(self, round_number: int) -> None:
        self.round_number = round_number

    def __call__(self, event: Event) -> None:
        if event.round >= self.round_number and event.kind == "send":
            raise KeyboardInterrupt


@pytest.mark.long
def test_a_resumed_run_draws_no_label_a_second_time(tmp_path, monkeypatch) -> None:
    """With the operating system's entropy, too; the secret is removed at the end of the run."""
    seen: list[dict[str, np.ndarray]] = []
    clients = Setting.registered

    def registered(self, *arguments):
        if self.shards.__class__.__name__ == "_RandomisedShards":
            seen.append({name: self.shards[name].labels.copy() for name in self.shards})
        return clients(self, *arguments)

    monkeypatch.setattr(Setting, "registered", registered)
    scenario = load("fedavg-xclp-digits", TRAINED)
    with pytest.raises(KeyboardInterrupt):
        run(scenario, out=tmp_path / "run", watch=Broken(3))
    assert (tmp_path / "run" / LASTING).stat().st_mode & 0o777 == 0o600
    result = resume(tmp_path / "run")
    assert result.outcome == "completed" and result.resumed
    assert len(seen) == 2 and all(np.array_equal(seen[0][name], seen[1][name]) for name in seen[0])
    assert not (tmp_path / "run" / LASTING).exists()
    assert result.randomised is not None and not result.randomised.guaranteed
    assert result.randomised.rounds == 4  # 2, 3 and 4, and the interrupted one
    assert "hashes of up to 1 rounds may have been sent a second time" in result.randomised.caveats[-1]


@pytest.mark.long
def test_a_run_with_a_deleted_secret_is_not_resumed(tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(load("fedavg-xclp-digits", TRAINED), out=tmp_path / "run", watch=Broken(2))
    (tmp_path / "run" / LASTING).unlink()
    with pytest.raises(FolderError, match="what its randomised labels and hash bits were made of is gone"):
        resume(tmp_path / "run")


def test_a_seeded_run_keeps_no_secret(tmp_path) -> None:
    result = run(load("xclp-digits", [*CALM, *NOISY, "protocol.hamming=direct"]), out=tmp_path / "run")
    assert not (result.folder / LASTING).exists()


@pytest.mark.parametrize("protocol", ["fedct", "dd", "local"])
def test_labels_of_co_training_are_randomised(protocol: str, tmp_path) -> None:
    few = ["cotraining.rounds=2", "data.limit=100", "public.size=0.4", "model.name=linear", "learner.steps=2"]
    changes = [f"protocol.name={protocol}", *few, "privacy.label_epsilon=0.5", "engine=inline"]
    simulation = Simulation(load("fedct-digits", changes), engine="inline")
    used = [client.shard for client in simulation.clients]
    true = [simulation.shards[i] for i in range(len(used))]
    simulation.run()
    simulation.close()
    asked = [(one.labels != other.labels)[other.labeled] for one, other in zip(used, true, strict=True)]
    assert 0.6 < np.concatenate(asked).mean() < 1.0
    assert all((one.labels == other.labels)[~other.labeled].all() for one, other in zip(used, true, strict=True))


@pytest.mark.long
def test_resting_clients_get_the_same_answers_each_time() -> None:
    changes = ["data.limit=300", "data.clients=250", "training.rounds=1", "privacy.label_epsilon=1", "engine=inline"]
    scenario = load("many-clients", changes)
    simulation = Simulation(scenario, engine="inline")
    one, again = ([client.shard.labels.copy() for client in simulation.clients[:20]] for _ in range(2))
    simulation.close()
    assert all(np.array_equal(*pair) for pair in zip(one, again, strict=True))


def test_a_run_reports_the_privacy_of_its_answers(tmp_path) -> None:
    result = run(load("xclp-digits", [*CALM, *NOISY, "protocol.hamming=direct"]), out=tmp_path / "run")
    lines = outcome_lines(result)
    assert any(line.startswith("labels    epsilon = 1 each") for line in lines)
    assert any("1.5 a bit, 1 round of 64 bits" in line for line in lines)


def test_the_secret_of_a_deployed_party_is_made_once(tmp_path) -> None:
    first = lasting_secret(tmp_path)
    assert lasting_secret(tmp_path) == first and len(first) == 32
    assert (tmp_path / LASTING).stat().st_mode & 0o777 == 0o600
    (tmp_path / LASTING).write_bytes(b"short")
    with pytest.raises(ValueError, match="5 bytes, not 32"):
        lasting_secret(tmp_path)


def test_rounds_of_hashes_that_may_be_sent_twice_are_counted_twice() -> None:
    privacy = Privacy(label_epsilon=2.0, hash_epsilon=1.0)
    once, more = (released(privacy, "os", 10, 256, rounds, features=64) for rounds in (3, 5))
    assert once is not None and more is not None
    again = with_rounds_again(once, 2)
    assert again is not None and not again.guaranteed and len(again.caveats) == 1
    assert structs.replace(again, guaranteed=True, caveats=(), reconstruction=None) == structs.replace(
        more, reconstruction=None
    )
    assert again.reconstruction == pytest.approx(more.reconstruction)
    assert with_rounds_again(once, 0) == once
    labels = released(Privacy(label_epsilon=2.0), "os", 10, 0, 3)
    assert with_rounds_again(labels, 2) == labels
