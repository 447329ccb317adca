"""Changes with noise of the clients in a secure sum: what is left of the noise under losses, and who reveals what."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tacit.parties.data.sets import load
from tacit.parties.data.splits import shards
from tacit.parties.learning import jobs
from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import decode, encode
from tacit.parties.server import Server
from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.federated.averaging import Record
from tacit.protocols.federated.dp_fedavg import Clipped
from tacit.protocols.federated.method import Method
from tacit.protocols.federated.noisy_changes import NoisyChanges
from tacit.protocols.federated.round import TrainingClient, TrainingServer
from tacit.protocols.identities import Identities
from tacit.protocols.privacy.distributed import Distributed, Excess
from tacit.protocols.privacy.removable import Kind
from tacit.protocols.privacy.rotated import Rounding, centred
from tacit.protocols.sums import dealing
from tacit.protocols.sums.dealing import Revealed, Survivors
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.sim.faults import Crash, Fault
from tacit.sim.streams import Entropy
from tacit.sim.world import World
from tests.protocols.federated.rounds import run_rounds, training_settings

SPEC = ModelSpec("linear", (1, 8, 8), 10)
CLIENTS, CLIP = 8, 0.3
SHARDS = shards(load("digits", 160), CLIENTS, "iid", 0.5, 1)
FIRST = jobs.initial(SPEC, 1)
START = decode(FIRST).astype(float)
UPDATE = LocalUpdate(epochs=1, labeled_batch=10, learning_rate=0.5, device="cpu")
STILL = structs.replace(UPDATE, learning_rate=1e-30)  # the model stays as it is, so what moves it is noise


def noise_of(
    epsilon: float = 4.0, tolerated: int = 2, components: Kind = "all", rounds: int = 1, excess: Excess = "refuse"
) -> Distributed:
    return Distributed(
        Rounding(len(START), CLIP), epsilon, 1e-5, rounds, CLIENTS, 1, tolerated, components, excess=excess
    )


def trained(
    noise: Distributed, *faults: Fault, update: LocalUpdate = STILL, first: bytes = FIRST, **changes: Any
) -> tuple[bytes, list[Record], World]:
    identities = Identities.simulated(1).withstanding(1)
    averaging = NoisyChanges(SecAgg(identities=identities, of_run=Assumed(CLIENTS, 1, 0), noise=noise))
    private = Clipped(CLIP, 0.0, "clients", noise)
    agreed = training_settings(
        SPEC, update, Method(), CLIENTS, private=private, averaging=averaging,
        **{"rounds": noise.rounds, "min_clients": 2, "deadline": 10.0, **changes},
    )  # fmt: skip
    server, _, records, world = run_rounds(agreed, SHARDS, first, faults)
    return server.model, records, world


def sent(world: World, kind: str) -> int:
    return sum(row.messages for row in world.ledger.rows() if row.type == kind)


def deviation(model: bytes, survivors: int) -> float:
    """The deviation of the noise in the sum of changes, in units of length."""
    return float(np.std(decode(model) - START) * survivors)


@pytest.mark.parametrize("components", ["all", "log2"])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_the_noise_of_a_sum_is_what_is_left_of_its_survivors(components: Kind, lost: int) -> None:
    """650 numbers: the deviation is right to 10%, which is 3.6 deviations of its estimate."""
    noise = noise_of(components=components)
    faults = [Crash(f"client/{i}", at="sum.mask") for i in range(1, 1 + lost)]
    model, records, world = trained(noise, *faults)
    survivors = CLIENTS - lost
    assert len(records[0].averaged) == survivors
    parts = noise.parts(CLIENTS)
    due = math.sqrt(survivors * parts.left(lost)) / noise.rounding.units
    assert deviation(model, survivors) == pytest.approx(due, rel=0.1)
    honest = (survivors - 1) * parts.left(lost)
    assert honest >= noise.variance and (components == "log2" or honest == noise.variance)
    assert sent(world, "NoiseSeeds") == (survivors if parts.removed(lost) else 0)


def test_a_client_that_is_lost_before_it_reveals_leaves_its_noise_in() -> None:
    noise = noise_of()
    model, records, world = trained(noise, Crash("client/3", at="sum.reveal"))
    assert len(records[0].averaged) == CLIENTS and sent(world, "NoiseSeeds") == CLIENTS - 1
    parts = noise.parts(CLIENTS)
    due = math.sqrt((CLIENTS - 1) * parts.left(0) + parts.added) / noise.rounding.units
    assert deviation(model, CLIENTS) == pytest.approx(due, rel=0.1)


def test_with_more_losses_than_are_tolerated_nobody_reveals_anything() -> None:
    faults = [Crash(f"client/{i}", at="sum.mask") for i in range(3)]
    model, records, world = trained(noise_of(tolerated=2), *faults)
    assert records[0].averaged == () and model == FIRST
    assert (sent(world, "Revealed"), sent(world, "NoiseSeeds")) == (0, 0)
    assert len(trained(noise_of(tolerated=3), *faults)[1][0].averaged) == CLIENTS - 3


def test_the_average_is_that_of_clipped_changes() -> None:
    """With an epsilon of 40; the changes are longer than the clip."""
    noise = noise_of(40.0)
    model = trained(noise, update=UPDATE)[0]
    changes = [trained_alone(i) - START for i in range(CLIENTS)]
    assert min(np.linalg.norm(change) for change in changes) > CLIP
    expected = sum(change * CLIP / np.linalg.norm(change) for change in changes) / CLIENTS
    parts = noise.parts(CLIENTS)
    expected_error = math.sqrt(len(START) * (CLIENTS * parts.left(0) + CLIENTS / 4)) / noise.rounding.units / CLIENTS
    moved = decode(model) - START
    assert np.linalg.norm(moved - expected) == pytest.approx(expected_error, rel=0.15)
    # along the expected change the error is that of one number in 650
    along = moved @ expected / np.linalg.norm(expected) ** 2
    assert along == pytest.approx(1, abs=4 * expected_error / math.sqrt(len(START)) / np.linalg.norm(expected))


def trained_alone(number: int) -> np.ndarray:
    agreed = training_settings(SPEC, UPDATE, Method(), CLIENTS)
    client = TrainingClient(World(1), f"client/{number}", SHARDS[number], agreed)
    seed = World(1).entropy(f"client/{number}", 1, 1, 1, "training").bytes(32)
    return decode(jobs.train(SPEC, FIRST, client.data(None), UPDATE, 0, seed).parameters).astype(float)


@pytest.mark.parametrize("number", [0.0, 0.25, 1.5 * 2**22])
def test_no_model_of_the_server_meets_noise_or_rounding(number: float) -> None:
    """Changes of 1 are exact in float32 beside each of the numbers."""
    noise = noise_of()
    private = Clipped(CLIP, 0.0, "clients", noise)
    before, change = np.full(len(START), number, np.float32), np.zeros(len(START), np.float32)
    change[:2] = 1.0, -1.0
    found = private.rounded(encode(before), encode(before + change), b"run", 1, Entropy.seeded(1))
    still = private.rounded(encode(0 * before), encode(change), b"run", 1, Entropy.seeded(1))
    assert np.array_equal(found, still)
    back = noise.rounding.unrounded(centred(found, noise.word_bits), noise.rotation(b"run", 1), 1)
    assert np.linalg.norm(back) == pytest.approx(CLIP, rel=0.3)
    assert private.problem(encode(before), 1) == ""


def test_clients_whose_training_diverges_stay_in_the_sum_with_zeros() -> None:
    noise = noise_of()
    model, records, _ = trained(noise, update=structs.replace(UPDATE, learning_rate=1e38, epochs=3))
    assert len(records[0].averaged) == CLIENTS
    due = math.sqrt(CLIENTS * noise.parts(CLIENTS).left(0)) / noise.rounding.units
    assert deviation(model, CLIENTS) == pytest.approx(due, rel=0.1)


def test_a_server_that_names_two_sets_gets_no_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the clients see all survivors, the others one less: no set gets five signatures."""

    async def two_sets(me: Server, attempt: Any, survivors: tuple[str, ...], *rest: Any) -> Any:
        half = len(survivors) // 2
        me.broadcast(survivors[:half], Survivors(list(survivors)))
        me.broadcast(survivors[half:], Survivors(list(survivors[1:])))
        await me.collect(Revealed, survivors, deadline=5.0)
        return await honest(me, attempt, survivors, *rest)

    honest = dealing.uncover
    monkeypatch.setattr(dealing, "uncover", two_sets)
    _, records, world = trained(noise_of())
    assert records[0].averaged == ()
    assert (sent(world, "Revealed"), sent(world, "NoiseSeeds")) == (0, 0)


def test_a_server_that_asks_twice_gets_the_seeds_of_one_set(monkeypatch: pytest.MonkeyPatch) -> None:
    async def twice(me: Server, attempt: Any, survivors: tuple[str, ...], *rest: Any) -> Any:
        found = await honest(me, attempt, survivors, *rest)
        smaller = survivors[:-1]
        me.broadcast(smaller, Survivors(list(smaller)))
        await me.collect(Revealed, smaller, deadline=5.0)
        return found

    honest = dealing.uncover
    monkeypatch.setattr(dealing, "uncover", twice)
    _, _, world = trained(noise_of())
    assert sent(world, "NoiseSeeds") == CLIENTS
    assert sent(world, "Revealed") == CLIENTS


def test_the_same_seed_gives_the_same_trace() -> None:
    one, two = (trained(noise_of(rounds=2), update=UPDATE) for _ in range(2))
    assert one[0] == two[0] and one[2].trace.trace_hash == two[2].trace.trace_hash


def test_epsilon_is_that_of_all_rounds_and_grows_with_them() -> None:
    noise = noise_of(4.0, rounds=20)
    assert 3.99 < noise.spent(20) <= 4.0 and noise.spent(1) < noise.spent(10) < noise.spent(20)
    assert noise.spent(0) == 0
    assert noise_of(4.0, rounds=20, tolerated=5).variance == noise.variance  # tolerance costs no noise that is left
    assert noise.wraps < 1e-4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"clients": 4, "tolerated": 2}, "of 4 clients 2 may be lost and 1 collude"),
        ({"epsilon": 1e-6}, "at most 2\\^36 and 57"),
    ],
)
def test_noise_that_nothing_carries_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(noise_of(), **changes)


@pytest.mark.parametrize("components", ["all", "log2"])
def test_a_sum_with_more_losses_than_are_tolerated_has_the_noise_that_it_counts_with(components: Kind) -> None:
    """Three of eight are lost, and noise is made for one: all parts of the five stay in."""
    noise = noise_of(tolerated=1, components=components, excess="charge")
    model, records, world = trained(noise, *[Crash(f"client/{i}", at="sum.mask") for i in (1, 2, 3)])
    assert len(records[0].averaged) == 5 and sent(world, "NoiseSeeds") == 0
    added, counted = noise.parts(CLIENTS).added, noise.left(CLIENTS, 5)
    assert counted == math.floor(4 * added) < noise.variance  # one of the five may collude
    assert deviation(model, 5) == pytest.approx(math.sqrt(5 * added) / noise.rounding.units, rel=0.1)
    assert noise.spent_on((counted,)) > noise.epsilon


def test_clients_refuse_a_round_that_exceeds_epsilon_though_the_server_opens_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Noise is made for one round. A client that crashed after it had masked, and is back, refuses, too."""
    monkeypatch.setattr(TrainingServer, "standstill", lambda self, number: "")
    noise = noise_of(excess="end")
    back = Crash("client/3", at="sum.reveal", back_after=0.1)
    _, records, world = trained(noise, back, update=UPDATE, rounds=2, deadline=5.0)
    assert [len(one.averaged) for one in records] == [CLIENTS, 0]
    assert sent(world, "TrainingRound") == 2 * CLIENTS and sent(world, "MaskedChunk") == CLIENTS


def test_a_server_opens_no_round_that_exceeds_epsilon() -> None:
    noise = noise_of()
    _, records, world = trained(noise, update=UPDATE, rounds=2)
    assert [len(one.averaged) for one in records] == [CLIENTS, 0]
    assert records[1].cohort == () and sent(world, "TrainingRound") == CLIENTS
    assert records[1].lost.kind.startswith("no round is opened")  # type: ignore[attr-defined]


@given(st.integers(0, 4), st.lists(st.integers(5, 8), max_size=3), st.integers(5, 8))
@settings(deadline=None, max_examples=40)
def test_the_fewest_survivors_are_those_with_which_epsilon_holds(tolerated: int, left: list[int], clients: int) -> None:
    noise = noise_of(tolerated=tolerated, rounds=4, excess="end")
    noise = noise.after([noise.left(CLIENTS, survivors) for survivors in left])
    if clients < noise.fewest or noise.ends:
        return
    least = noise.least_left(clients)
    floor = max(noise.colluding + 2, (clients + noise.colluding) // 2 + 1)
    assert min(floor, clients - tolerated) <= least <= clients - tolerated
    assert noise.spent_on((*noise.before, noise.left(clients, least))) <= noise.epsilon
    if least > floor:
        assert noise.spent_on((*noise.before, noise.left(clients, least - 1))) > noise.epsilon
    assert noise.unopened <= noise.left(clients, least)
