"""The oracle against the protocols' own computation: equal to the last bit, without shared code."""

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.parties.data.sets import load
from tacit.parties.data.splits import shards
from tacit.protocols.crypto.fixed_point import decode, encode
from tacit.protocols.xclp import oracle
from tacit.protocols.xclp.graph import Influence, class_counts, contribution, neighbour_graph
from tacit.protocols.xclp.label_propagation import label_by, label_rows
from tacit.protocols.xclp.lsh import distances, hash_bits, planes
from tacit.protocols.xclp.recipe import AUTHORS_CODE, PAPER, Recipe
from tacit.sim.streams import derive

World = tuple[list[np.ndarray], list[np.ndarray]]


def assembled(
    bits: list[np.ndarray],
    labels: list[np.ndarray],
    contributors: set[int],
    classes: int,
    k: int,
    alpha: float,
    fraction_bits: int,
    recipe: Recipe = PAPER,
) -> np.ndarray:
    """Z in the ring, computed by the functions of the protocol's roles."""
    everyone = np.concatenate(bits)
    graph = neighbour_graph(distances(everyone, everyone), everyone.shape[1], k, recipe.edge_power)
    influence = Influence(graph, alpha)
    z = np.zeros((len(everyone), classes), dtype=np.uint64)
    start = 0
    for client, own in enumerate(labels):
        labeled = np.flatnonzero(own >= 0)
        if client in contributors:
            scores = contribution(influence.columns(start + labeled), own[labeled], classes)
            z += encode(scores, fraction_bits, len(contributors))
        start += len(own)
    return z


def assert_equal(outcome: oracle.Outcome, z: np.ndarray, fraction_bits: int) -> None:
    assert np.array_equal(outcome.z, z)
    labels, confidence = label_rows(decode(z, fraction_bits))
    assert np.array_equal(outcome.labels, labels)
    assert np.array_equal(outcome.confidence, confidence)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    length = draw(st.sampled_from([1, 2, 7, 16, 64]))
    sizes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=5).filter(any))
    # Points near a few centres, so that there are near and far neighbours, and ties.
    centres = random.random((3, length)) < 0.5
    flipped = draw(st.floats(0.0, 0.5))
    bits = [centres[random.integers(0, 3, n)] ^ (random.random((n, length)) < flipped) for n in sizes]
    labels = [np.where(random.random(n) < 0.4, random.integers(0, 3, n), -1) for n in sizes]
    return bits, labels


@given(
    world=worlds(),
    out=st.sets(st.integers(0, 4)),
    k=st.integers(1, 12),
    alpha=st.floats(0.01, 0.999),
    fraction_bits=st.sampled_from([8, 32, 40]),
)
@settings(max_examples=100)
def test_the_oracle_equals_the_protocols_parts_bit_for_bit(world, out, k, alpha, fraction_bits):
    bits, labels = world
    contributors = set(range(len(bits))) - out
    outcome = oracle.xclp(bits, labels, contributors, 3, k, alpha, fraction_bits)
    everyone = np.concatenate(bits)
    assert np.array_equal(outcome.distances, distances(everyone, everyone))
    assert_equal(outcome, assembled(bits, labels, contributors, 3, k, alpha, fraction_bits), fraction_bits)


@given(
    world=worlds(), out=st.sets(st.integers(0, 4)), k=st.integers(1, 12), rows=st.sampled_from(["unlabeled", "paper"])
)
def test_the_oracle_equals_the_protocols_parts_by_the_authors_recipe(world, out, k, rows):
    bits, labels = world
    contributors = set(range(len(bits))) - out
    outcome = oracle.xclp(bits, labels, contributors, 3, k, 0.9, recipe="authors-code", rows=rows)
    z = assembled(bits, labels, contributors, 3, k, 0.9, 32, AUTHORS_CODE)
    assert np.array_equal(outcome.z, z)
    counted = [own[own >= 0] for client, own in enumerate(labels) if client in contributors]
    counts = class_counts(np.concatenate([np.zeros(0, np.int64), *counted]), 3)
    for own, part in zip(labels, outcome.slices, strict=True):
        got = (own < 0) | (rows == "paper")
        found, confidence = label_by(AUTHORS_CODE, decode(z[part][got], 32), counts)
        assert np.array_equal(outcome.labels[part][got], found)
        assert np.array_equal(outcome.confidence[part][got], confidence)


@pytest.mark.parametrize("partition", ["iid", "dirichlet:0.5"])
def test_the_oracle_equals_the_parts_on_digits_without_one_clients_labels(partition):
    own = shards(load("digits"), 10, partition, 0.1, 7)
    shared = planes(derive(7, "group-seed"), 1024, 64)
    bits = [hash_bits(shard.features, shared) for shard in own]
    labels = [np.where(shard.labeled, shard.labels, -1) for shard in own]
    contributors = set(range(10)) - {3}
    outcome = oracle.xclp(bits, labels, contributors, 10, 10, 0.99)
    assert_equal(outcome, assembled(bits, labels, contributors, 10, 10, 0.99, 32), 32)


@given(worlds())
def test_the_oracles_hamming_distance_counts_differing_bits(world):
    rows = np.concatenate(world[0])
    assert np.array_equal(oracle.hamming(rows), (rows[:, None] != rows[None]).sum(axis=2))


@given(worlds())
def test_slices_of_the_oracle_are_the_rows_of_the_clients(world):
    bits, labels = world
    outcome = oracle.xclp(bits, labels, [], 3, 2, 0.9)
    assert [part.stop - part.start for part in outcome.slices] == [len(own) for own in bits]
    assert np.array_equal(np.concatenate([np.arange(part.start, part.stop) for part in outcome.slices]),
                          np.arange(len(outcome.z)))  # fmt: skip
    assert not outcome.z.any()
    assert (outcome.labels == -1).all()


def test_four_points_at_right_angles_have_no_influence_on_each_other():
    bits = [
        np.array([[0, 0, 0, 0], [1, 1, 0, 0]], dtype=bool),
        np.array([[1, 0, 1, 0], [0, 1, 1, 0]], dtype=bool),
    ]
    labels = [np.array([0, -1]), np.array([-1, -1])]
    outcome = oracle.xclp(bits, labels, [0, 1], 2, 3, 0.99)
    assert outcome.labels.tolist() == [0, -1, -1, -1]
    assert outcome.z.tolist() == [[2**32, 0], [0, 0], [0, 0], [0, 0]]


def test_a_lost_clients_points_stay_in_the_graph_but_its_labels_do_not_count():
    # A chain: the middle client connects the others, which are too far apart to be neighbours.
    chain = np.array([[0] * 12, [1] * 5 + [0] * 7, [1] * 10 + [0] * 2], dtype=bool)
    bits, labels = [chain[:1], chain[1:2], chain[2:]], [np.array([0]), np.array([1]), np.array([-1])]
    assert oracle.xclp(bits, labels, [0, 1, 2], 2, 2, 0.9).labels.tolist() == [1, 1, 1]
    assert oracle.xclp(bits, labels, [0, 2], 2, 2, 0.9).labels.tolist() == [0, 0, 0]


def test_the_oracle_imports_no_module_of_tacit():
    tree = ast.parse(Path(oracle.__file__).read_text(encoding="utf-8"))
    imported = {
        module.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert imported == {"collections", "concurrent", "dataclasses", "math", "numpy", "os", "scipy", "typing"}
