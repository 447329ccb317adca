"""Sized runs: bytes, times, shape and results are those of the real run."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.protocols.xclp.recipe import AUTHORS_CODE
from tacit.protocols.xclp.rowsums import Restart
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.protocols.xclp.sized import STAND_INS
from tacit.sim.compute import Modelled
from tacit.sim.faults import Corrupt, Crash, Fault, Lose, Pause

SECURE = ["paillier", "unpacked", "iknp", "naor-pinkas"]


def assert_same(build: Callable[..., object]) -> None:
    """Assert that the federations `build(None)` and `build(stand_ins)` run equally, except for the contents of
    messages."""
    real, sized = build(None).run(), build(STAND_INS).run()
    assert sized.world.ledger.rows() == real.world.ledger.rows()
    assert sized.world.loop.time() == real.world.loop.time()
    assert sized.world.trace.shape_hash == real.world.trace.shape_hash
    assert sized.server.lost == real.server.lost
    assert sized.server.record.contributors == real.server.record.contributors
    np.testing.assert_array_equal(sized.server.record.h, real.server.record.h)
    assert [client.ending for client in sized.clients] == [client.ending for client in real.clients]
    if real.labeled_clients:
        sized.assert_equals_oracle()
    for one, other in zip(sized.labeled_clients, real.labeled_clients, strict=True):
        np.testing.assert_array_equal(one.labels.z, other.labels.z)
        np.testing.assert_array_equal(one.labels.confidence, other.labels.confidence)


FAULTS: dict[str, tuple[Fault, ...]] = {
    "nobody": (),
    "before encoding": (Crash("client/0", before="hamming.encode"),),
    "while evaluating": (Crash("client/2", at="hamming.evaluate"),),
    "after reporting, and back": (Crash("client/1", after="hamming.report", back_after=5.0),),
    "while masking": (Crash("client/2", after="rowsums.mask"), Crash("client/0", at="rowsums.mask")),
    "a message broken": (
        Corrupt("client/1", peer="client/*", occurrence=2),
        Lose("client/*", peer="server", message="Masks"),
    ),
    "standing still": (Pause("client/1", at="hamming.report", lasts=0.5),),
}


TRANSFERS = ("iknp", "naor-pinkas")
"""The slowest variants, which are tested with faults alternately in the star and in the mesh."""


def is_tested_by_default(variant: str, turn: int, place: int) -> bool:
    """Return true if a variant is tested in this topology with the fault at this place.

    Paillier has the faults alternately in the star and in the mesh, and each slower variant has a third of them.
    """
    if variant == "paillier":
        return (turn + place) % 2 == 0
    return variant == "plaintext" or place % 3 == ("unpacked", *TRANSFERS).index(variant)


@pytest.mark.parametrize(
    ("variant", "topology", "faults"),
    [
        pytest.param(
            variant, topology, faults, marks=[] if is_tested_by_default(variant, turn, place) else [pytest.mark.long]
        )
        for variant in ("plaintext", *SECURE)
        for turn, topology in enumerate(("star", "mesh"))
        for place, faults in enumerate(FAULTS)
        if variant not in TRANSFERS or (turn + place) % 2 == 0
    ],
)
def test_bytes_times_and_results_of_a_sized_run_equal_the_real_run(
    federation, make_shards, variant, topology, faults
) -> None:
    recovery = Shamir() if topology == "star" else Restart()
    bits = 9 if variant == "naor-pinkas" else 100

    def build(stand_ins):
        return federation(
            make_shards([3, 6, 4, 2]), variant=variant, bits=bits, topology=topology, recovery=recovery, rounds=2,
            faults=FAULTS[faults], cost=Modelled(), stand_ins=stand_ins, access={"up": 1e6, "down": 1e6},
        )  # fmt: skip

    assert_same(build)


@pytest.mark.parametrize("variant", SECURE)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(points=st.lists(st.integers(1, 7), min_size=2, max_size=3), bits=st.sampled_from([8, 9, 63, 64, 65, 127]))
def test_heads_of_messages_in_a_sized_run_equal_the_real_run_for_any_sizes(
    federation, make_shards, variant, points, bits
) -> None:
    if variant == "naor-pinkas":  # a transfer for each bit of each pair of points
        points = [min(count, 3) for count in points[:2]]

    def build(stand_ins):
        return federation(
            make_shards(points), variant=variant, bits=bits, recipe=AUTHORS_CODE, cost=Modelled(), stand_ins=stand_ins
        )

    assert_same(build)


@pytest.mark.parametrize("points", [[73, 73], [74, 2, 146]])
def test_full_slots_in_a_sized_run_equal_the_real_run(federation, make_shards, points) -> None:
    """73 slots of 7 bits leave one bit of a plaintext of 512."""

    def build(stand_ins):
        return federation(
            make_shards(points), variant="paillier", bits=100, cost=Modelled(), stand_ins=stand_ins, min_clients=2
        )

    assert_same(build)


def test_fresh_powers_take_the_same_time_in_a_sized_run(federation, make_shards) -> None:
    def build(stand_ins):
        return federation(make_shards([3, 6, 4]), variant="fresh", bits=33, cost=Modelled(), stand_ins=stand_ins)

    assert_same(build)


@pytest.mark.parametrize("variant", SECURE)
def test_contents_of_messages_in_a_sized_run_are_stand_ins(federation, make_shards, variant) -> None:
    bits = 9 if variant == "naor-pinkas" else 64
    digests = [
        {packet.digest for packet in federation(
            make_shards([3, 4, 2]), variant=variant, bits=bits, stand_ins=stand_ins
        ).run().packets if packet.step.startswith("hamming") and packet.sealed}
        for stand_ins in (None, STAND_INS)
    ]  # fmt: skip
    assert digests[0] and digests[1] and not digests[0] & digests[1]
    again = federation(make_shards([3, 4, 2]), variant=variant, bits=bits, stand_ins=STAND_INS).run()
    assert digests[1] <= {packet.digest for packet in again.packets}


@pytest.mark.parametrize("variant", SECURE)
def test_every_costly_job_has_a_stand_in(federation, make_shards, variant) -> None:
    run = federation(make_shards([3, 4, 2]), variant=variant, bits=9)
    jobs = set()

    def begun(party, step, work, function, arguments):
        if any(name.startswith(("paillier", "p256", "iknp")) for name in work):
            jobs.add(getattr(function, "func", function))

    run.world.taps.begun.append(begun)
    run.run()
    assert jobs
    assert all(STAND_INS(job) is not job for job in jobs)
