"""DP-FedAvg against a few lines of numpy, and against FedAvg when nothing is private."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from tacit.parties.data.sets import load
from tacit.parties.data.splits import Shard, shards
from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import decode, encode
from tacit.parties.server import Server
from tacit.protocols.crypto import fixed_point
from tacit.protocols.federated.averaging import Averaging, Plain, Record
from tacit.protocols.federated.dp_fedavg import Clipped
from tacit.protocols.federated.method import Method
from tacit.protocols.federated.round import TrainingClient, TrainingServer
from tacit.protocols.federated.secure_averages import Secure
from tacit.protocols.privacy.gaussian import discrete_gaussian
from tacit.protocols.privacy.noise import gaussian
from tacit.protocols.sums import dealing
from tacit.protocols.sums.dealing import Revealed, Survivors
from tacit.sim.faults import Crash, Fault
from tacit.sim.streams import Entropy
from tacit.sim.world import World
from tests.protocols.federated.rounds import run_rounds, training_settings

SPEC = ModelSpec("linear", (1, 8, 8), 10)
SHARDS = shards(load("digits", 160), 4, "iid", 0.5, 1)
FIRST = jobs.initial(SPEC, 1)
UPDATE = LocalUpdate(epochs=1, labeled_batch=10, learning_rate=0.5, device="cpu")


def trained(
    private: Clipped | None, *faults: Fault, held: Sequence[Shard] = SHARDS, more: int = 0, **changes: Any
) -> tuple[TrainingServer, list[Record], World]:
    settings = training_settings(
        SPEC, UPDATE, Method(), len(SHARDS), private=private, **{"min_clients": 2, "deadline": 10.0, **changes}
    )
    called = replace(settings, keys=structs.replace(settings.keys, rounds=settings.rounds + more))
    server, _, records, world = run_rounds(settings, held, FIRST, faults, of_server=called)
    return server, records, world


def trained_alone(name: int) -> np.ndarray:
    """The result of client `name` in the first round, trained on its labels alone."""
    client = TrainingClient(World(1), f"client/{name}", SHARDS[name], training_settings(SPEC, UPDATE, Method(), 4))
    seed = World(1).entropy(f"client/{name}", 1, 1, 1, "training").bytes(32)
    return decode(jobs.train(SPEC, FIRST, client.data(None), UPDATE, 0, seed).parameters)


@pytest.mark.parametrize("averaging", [Plain(), Secure()])
def test_a_round_adds_the_average_of_clipped_changes_and_noise(averaging: Averaging) -> None:
    clip, multiplier, start = 0.3, 0.5, decode(FIRST).astype(float)
    changes = [trained_alone(i) - start for i in range(4)]
    assert min(np.linalg.norm(change) for change in changes) > clip
    expected = start + sum(change * clip / np.linalg.norm(change) for change in changes) / 4
    still = trained(Clipped(clip, 0.0), averaging=averaging)[0]
    np.testing.assert_allclose(decode(still.model), expected, atol=1e-6)
    server, records, _ = trained(Clipped(clip, multiplier), averaging=averaging)
    noise = gaussian(start.shape, World(1).entropy("server", 1, 1, server.attempt, "noise"))
    np.testing.assert_allclose(decode(server.model), expected + multiplier * clip / 4 * noise, atol=1e-6)
    assert math.isnan(records[0].loss)


@pytest.mark.parametrize("averaging", [Plain(), Secure()])
def test_without_noise_and_with_a_wide_clip_dp_fedavg_equals_fedavg(averaging: Averaging) -> None:
    plain = trained(None, averaging=averaging, rounds=2)[0]
    assert trained(Clipped(math.inf, 0.0), averaging=averaging, rounds=2)[0].model == plain.model
    assert trained(Clipped(1e6, 0.0), averaging=averaging, rounds=2)[0].model == plain.model
    assert trained(Clipped(1e6, 1e-6), averaging=averaging, rounds=2)[0].model != plain.model


def test_noise_at_clients_is_enough_for_the_fewest_models() -> None:
    private, start = Clipped(1.0, 8.0, "clients"), encode(np.zeros(40_000))
    parts = [private.words(start, start, 3, 32, 4, Entropy.seeded(1, i)) for i in range(4)]
    total = fixed_point.decode(parts[1] + parts[2] + parts[3], 32)  # the first knows its own noise
    assert np.std(total) == pytest.approx(8.0, rel=0.02)
    assert private.released(start, 4, Entropy.seeded(1)) == start
    assert np.std(decode(Clipped(1.0, 8.0).released(start, 4, Entropy.seeded(1)))) == pytest.approx(2.0, rel=0.02)


def test_noise_at_clients_has_at_least_the_promised_size_when_a_client_is_lost() -> None:
    private = Clipped(0.3, 0.5, "clients")
    server, records, world = trained(private, Crash("client/1", at="train.update"), averaging=Secure())
    assert len(records[0].averaged) == 3
    still = trained(Clipped(0.3, 0.0), Crash("client/1", at="train.update"), averaging=Secure())[0]
    noise = 3 * (decode(server.model) - decode(still.model))  # the noise in the sum
    assert np.std(noise) == pytest.approx(0.3 * 0.5 * math.sqrt(3), rel=0.1)  # promised: 0.15
    assert "LocalModel" not in {row.type for row in world.ledger.rows()}


@pytest.mark.parametrize("averaging", [Plain(), Secure()])
def test_clients_answer_no_more_rounds_than_agreed(averaging: Averaging) -> None:
    private = Clipped(0.3, 0.5, "server" if averaging.individual else "clients")
    records = trained(private, averaging=averaging, rounds=2, more=2)[1]
    assert [len(record.averaged) for record in records] == [4, 4, 0, 0]


@pytest.mark.parametrize("averaging", [Plain(), Secure()])
def test_a_client_without_labels_that_is_drawn_counts_like_the_others(averaging: Averaging) -> None:
    bare = replace(SHARDS[1], labeled=np.zeros_like(SHARDS[1].labeled))
    parties = [SHARDS[0], bare, SHARDS[2], SHARDS[3]]
    # The client is still drawn: the server does not know of its crash, as its Enrolled was lost.
    struck = Crash("client/1", at="train.enroll", back_after=1.0)
    server, records, _ = trained(Clipped(0.3, 0.0), struck, averaging=averaging, held=parties)
    assert records[0].averaged == tuple(f"client/{i}" for i in range(4))
    start = decode(FIRST).astype(float)
    moves = [change * 0.3 / np.linalg.norm(change) for change in (trained_alone(i) - start for i in (0, 2, 3))]
    np.testing.assert_allclose(decode(server.model), start + sum(moves) / 4, atol=1e-6)


def test_no_client_is_drawn_more_often_because_others_are_gone() -> None:
    away = [Crash(f"client/{i}", at="train.enroll") for i in range(3)]

    def drawn(private: Clipped | None) -> list[tuple[str, ...]]:
        return [one.cohort for one in trained(private, *away, share=0.5, rounds=6, min_clients=1)[1]]

    assert drawn(None) == [("client/3",)] * 6
    cohorts = drawn(Clipped(0.3, 0.5))
    assert {len(one) for one in cohorts} == {2} and not all("client/3" in one for one in cohorts)


def test_a_client_that_diverged_does_not_change_the_model() -> None:
    before, after = encode(np.zeros(3)), encode(np.array([1.0, np.nan, 2.0]))
    assert Clipped(1.0, 0.0).sent(before, after) == before


@pytest.mark.parametrize("number", [1.5 * 2**22, math.inf])
def test_a_client_with_noise_refuses_a_model_that_is_coarse_against_it(number: float) -> None:
    private, false = Clipped(0.3, 0.5, "clients"), encode(np.full(len(FIRST) // 4, number))
    settings = training_settings(
        SPEC, UPDATE, Method(), len(SHARDS), private=private, averaging=Secure(), min_clients=2, deadline=10.0
    )
    _, clients, records, world = run_rounds(settings, SHARDS, false)
    assert records[0].averaged == () and "MaskedChunk" not in {row.type for row in world.ledger.rows()}
    assert {client.ending for client in clients} != {"completed"}
    assert private.problem(FIRST, 1) == ""
    assert "apart, more than 0.0625" in private.problem(encode(np.full(3, 1.5 * 2**22)), 1)


@pytest.mark.parametrize("number", [0.0, 0.1, 1.5 * 2**22])
def test_no_model_touches_the_noise_of_a_client(number: float) -> None:
    private, start = Clipped(0.3, 0.5, "clients"), np.full(4000, number, np.float32)
    change = np.zeros(4000, np.float32)
    change[:2] = 1.0, -1.0  # exact in float32 beside each of the numbers, but .1
    words = private.words(encode(start), encode(start + change), 3, 32, 4, Entropy.seeded(1))
    own = (words - fixed_point.encode(start.astype(np.float64), 32, 4)).view(np.int64)
    still = private.words(encode(start), encode(start), 3, 32, 4, Entropy.seeded(1))
    noise = (still - fixed_point.encode(start.astype(np.float64), 32, 4)).view(np.int64)
    assert np.array_equal(noise, discrete_gaussian(0.3 * 0.5 / math.sqrt(3) * 2**32, (4000,), Entropy.seeded(1)))
    assert np.linalg.norm((own - noise) / 2**32) == pytest.approx(0.3, rel=1e-6)
    assert np.linalg.norm((own - noise) / 2**32) <= 0.3


def test_the_same_seed_gives_the_same_trace() -> None:
    one, two = trained(Clipped(0.3, 0.5), rounds=2), trained(Clipped(0.3, 0.5), rounds=2)
    assert one[2].trace.trace_hash == two[2].trace.trace_hash


def test_settings_without_privacy_are_refused() -> None:
    for private, changes, problem in (
        (Clipped(1.0, 1.0, "clients"), {}, "averaging = secure"),
        (Clipped(1.0, 1.0), {"weighting": "points"}, "counts more than one"),
    ):
        with pytest.raises(ValueError, match=problem):
            trained(private, **changes)
    for clip, multiplier in ((0.0, 1.0), (1.0, -1.0), (1.0, math.inf), (math.inf, 1.0)):
        with pytest.raises(ValueError, match=r"\(="):
            Clipped(clip, multiplier)


@pytest.mark.parametrize("min_clients", [1, 2, 3, 4])
def test_noise_at_clients_is_enough_for_the_fewest_survivors_that_clients_answer(
    min_clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients do not answer a server that names survivors whose noise would be too little."""
    asked, made_for, opened = dealing.uncover, [], []
    words = Clipped.words

    async def smaller_and_smaller(me: Server, attempt: Any, survivors: tuple[str, ...], *rest: Any) -> Any:
        for count in range(1, len(survivors) + 1):
            me.broadcast(survivors[:count], Survivors(list(survivors[:count])))
            answers = await me.collect(Revealed, survivors[:count], deadline=1.0)
            if answers.answers:
                opened.append(count)
        return await asked(me, attempt, survivors, *rest)

    def noted(self: Clipped, before: bytes, after: bytes, parts: int, *rest: Any) -> Any:
        made_for.append(parts + 1)  # one knows its own noise
        return words(self, before, after, parts, *rest)

    monkeypatch.setattr(dealing, "uncover", smaller_and_smaller)
    monkeypatch.setattr(Clipped, "words", noted)
    trained(Clipped(0.3, 0.5, "clients"), averaging=Secure(), rounds=1, min_clients=min_clients)
    assert set(made_for) == {max(2, min_clients)}
    assert opened and min(opened) >= max(made_for)
    assert min(opened) == max(3, min_clients)  # t is 3 of 4
