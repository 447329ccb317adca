"""Tests of the knowledge that one client of XCLP gains about the others, from its columns of S and its rows of Z."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.parties.data.sets import load
from tacit.parties.data.splits import Shard, shards
from tacit.parties.playing import play
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.xclp.graph import Influence, contribution, neighbour_graph
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.protocols.xclp.xclp import Parameters, XclpClient, XclpServer
from tacit.sim.compute import Free
from tacit.sim.world import World

BITS, CLASSES, K = 1024, 10, 10
POINTS = 240


class Run:
    """XCLP over `parts`, and the numbers that client/0 can derive from it."""

    def __init__(self, parts: list[Shard], seed: int, least: int) -> None:
        world = World(seed, cost=Free())
        self.parts = parts
        self.parameters = Parameters(PlaintextHamming(BITS), len(parts), CLASSES, bits=BITS, k=K, min_clients=least)
        self.clients = [XclpClient(world, f"client/{i}", part, self.parameters) for i, part in enumerate(parts)]
        self.server = XclpServer(world, tuple(client.name for client in self.clients), self.parameters)
        try:
            world.loop.run(play([self.server, *self.clients], self.server))
        finally:
            world.loop.finish()
        self.graph = neighbour_graph(self.server.record.h, BITS, K)
        starts = np.cumsum([0, *(len(part.labels) for part in parts)])
        self.own = [start + np.flatnonzero(part.labeled) for start, part in zip(starts, parts, strict=False)]

    def columns(self, client: int) -> NDArray[np.float64]:
        """The columns of S that a client gets."""
        return Influence(self.graph, self.parameters.alpha).columns(self.own[client])

    def scores(self, client: int) -> NDArray[np.uint64]:
        """The summand of `client` on the rows of client/0, in the ring."""
        part = self.parts[client]
        own = contribution(self.columns(client), part.labels[part.labeled], CLASSES)
        return encode(own[self._rows], self.parameters.fraction_bits, len(self.parts))

    @property
    def _rows(self) -> NDArray[np.int64]:
        labels = self.clients[0].labels
        assert labels is not None
        return labels.rows

    @property
    def rest(self) -> NDArray[np.uint64]:
        """Z on the rows of client/0, without its own part."""
        labels = self.clients[0].labels
        assert labels is not None
        return labels.z - self.scores(0)


def test_a_client_learns_which_classes_the_others_hold() -> None:
    right = 0
    for seed in range(1, 13):
        run = Run(shards(load("digits", POINTS), 3, "classes:4", 0.2, seed), seed, 3)
        held = {int(label) for part in run.parts[1:] for label in part.labels[part.labeled]}
        assert len(held) < CLASSES, "or there is nothing to tell"
        right += set(np.flatnonzero((run.rest != 0).any(axis=0)).tolist()) == held
    assert right == 12


def test_a_client_learns_most_neighbours_of_its_labeled_points() -> None:
    run = Run(shards(load("digits", POINTS), 3, "iid", 0.5, 1), 1, 3)
    edges, columns = run.graph.toarray() > 0, run.columns(0)
    hits = total = 0
    for point, column in zip(run.own[0], columns.T, strict=True):
        others = np.delete(np.arange(POINTS), point)
        count = int(edges[point].sum())
        nearest = others[np.argsort(-column[others])][:count]
        hits, total = hits + int(edges[point][nearest].sum()), total + count
    assert hits / total > 0.6  # guesses hit one in nineteen
    assert total / len(run.own[0]) / POINTS < 0.06


@pytest.mark.parametrize(("clients", "exactly"), [(2, True), (3, False)])
def test_of_two_labeled_clients_each_learns_the_others_scores(clients: int, exactly: bool) -> None:
    run = Run(shards(load("digits", POINTS), clients, "iid", 0.2, 1), 1, clients)
    same = np.array_equal(run.rest, run.scores(1))
    assert same is exactly
    if not exactly:
        assert np.array_equal(run.rest, run.scores(1) + run.scores(2))
