"""The ledger equals the formulas to the byte."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit import Network, ProtocolKeys, Scenario
from tacit.protocols.parts import Among, payloads
from tacit.protocols.xclp.declaration import Propagation
from tacit.protocols.xclp.recipe import RECIPES

HAMMING = ("plaintext", "paillier", "unpacked", "iknp", "naor-pinkas", "direct")


def formula_of(run, variant, **keys) -> dict[str, int]:
    chosen = {"hamming": "paillier", "packing": "none"} if variant == "unpacked" else {"hamming": variant}
    points = {client.name: len(client.shard.rows) for client in run.clients}
    labeled = {client.name: int(client.shard.labeled.sum()) for client in run.clients}
    tables = Scenario(
        protocol=ProtocolKeys(key_bits=512, insecure_keys=True, **chosen, **keys), network=Network(topology="mesh")
    )
    found = payloads((Propagation(),), tables, Among(points, labeled, 3))
    return {kind: size for kind, size in found.items() if size}


def measured(run) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in run.world.ledger.rows():
        found[row.type] += row.payload
    return {kind: size for kind, size in found.items() if size}


@pytest.mark.parametrize("variant", HAMMING)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    points=st.lists(st.integers(1, 6), min_size=2, max_size=4),
    bits=st.sampled_from([8, 57, 100]),
    rows=st.sampled_from(["unlabeled", "paper"]),
    recipe=st.sampled_from(list(RECIPES.values())),
)
def test_the_payload_of_xclp_by_type_equals_the_formula(
    federation, make_shards, variant, points, bits, rows, recipe
) -> None:
    if variant == "naor-pinkas":
        bits //= 8  # one transfer per bit is slow
    run = federation(make_shards(points), variant=variant, bits=bits, rows=rows, recipe=recipe, topology="mesh").run()
    assert measured(run) == formula_of(run, variant, bits=bits, rows=rows, recipe=recipe.name)


@pytest.mark.parametrize("variant", ["plaintext", pytest.param("iknp", marks=pytest.mark.long)])
def test_names_of_different_lengths_are_counted_in_every_message(federation, make_shards, variant) -> None:
    """In each of the variants another client of the pair sends masks."""
    run = federation(make_shards([2, 3, *[1] * 9]), variant=variant, bits=8, topology="mesh").run()
    assert {len(client.name) for client in run.clients} == {8, 9}
    assert measured(run) == formula_of(run, variant, bits=8)
    assert measured(run)["Members"] == measured(run)["SeedAgreed"] == measured(run)["Summing"] == 11 * 89


def test_bits_beyond_one_group_of_slots_take_two_groups(federation, make_shards) -> None:
    run = federation(make_shards([70, 3, 65]), variant="paillier", bits=130, topology="mesh").run()
    row = next(row for row in run.world.ledger.rows() if (row.type, row.receiver) == ("EncryptedBits", "client/1"))
    assert row.payload == 2 * 130 * 128


def test_a_star_carries_messages_between_clients_twice(federation, make_shards) -> None:
    totals = {}
    for topology in ("mesh", "star"):
        run = federation(make_shards([4, 5, 6]), topology=topology).run()
        rows = run.world.ledger.rows()
        totals[topology] = sum(row.payload for row in rows)
        between = sum(row.payload + row.sealing for row in rows if row.sealing and not row.relayed)
        relayed = sum(row.payload + row.sealing for row in rows if row.relayed)
        assert relayed == (between if topology == "star" else 0)
    assert totals["star"] > totals["mesh"]
