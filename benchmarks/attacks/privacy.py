"""Attacks on noise that any reader of a scenario's file can compute, and on scores of only two clients."""

import numpy as np
from numpy.typing import NDArray

from tacit.benchmarks.attacks.finding import Finding, randomness, share
from tacit.parties.data.sets import load
from tacit.parties.data.splits import shards
from tacit.parties.playing import play_out
from tacit.protocols.cotraining.fedct import NoisyLabels
from tacit.protocols.crypto.fixed_point import decode, encode
from tacit.protocols.privacy.noise import bernoulli
from tacit.protocols.privacy.xor_mechanism import flip_probability
from tacit.protocols.xclp.graph import Influence, contribution, neighbour_graph
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.protocols.xclp.xclp import Parameters, XclpClient, XclpServer
from tacit.sim.compute import Free
from tacit.sim.streams import Entropy
from tacit.sim.world import World

__all__ = ["noise_from_the_files_seed", "scores_of_the_only_other"]

_CLASSES = 10
_SEED = 1


def noise_from_the_files_seed(quick: bool = False) -> Finding:
    """A reader of the scenario's file undoes the flips of DP-FedCT's labels, at epsilon = 0.1.

    The name of the client's stream of random bits is public; with entropy = "seeded" the only other input is the seed,
    which is in the file.
    """
    points = 2000 if quick else 5000
    labels = randomness("seeded").integers(_CLASSES, size=points)
    flip = flip_probability(0.1, 2 * points)

    def recovered(seeded: bool) -> float:
        own = World(_SEED, seeded=seeded).entropy("client/0", 1, 1, 1, "sharing")
        sent = NoisyLabels(flip=flip).send(labels, None, _CLASSES, own.bytes(32))
        noisy = np.unpackbits(np.frombuffer(sent, np.uint8), count=points * _CLASSES, bitorder="little")
        guessed = Entropy(World(_SEED).entropy("client/0", 1, 1, 1, "sharing").bytes(32))
        one_hot = noisy.reshape(points, _CLASSES).astype(bool) ^ bernoulli(flip, (points, _CLASSES), guessed)
        return share(one_hot.argmax(axis=1), labels)

    # The guess is the first set bit, at any position: labels are uniform, so it is right once in ten.
    return Finding(
        'entropy = "seeded"; ours is entropy = "os"',
        "a reader of the file: the labels under the noise of DP-FedCT",
        recovered(True),
        recovered(False),
        1 / _CLASSES,
        points,
        remark='every epsilon needs entropy = "os"',
    )


def scores_of_the_only_other(quick: bool = False) -> Finding:
    """A labeled client subtracts its own part from Z; the rest is the scores of the other labeled clients.

    If two clients have labels, the rest is exactly the scores of the other one. If three have labels, it is a sum. An
    entry counts as recovered if it is right to 2^-30.
    """
    two, entries = _exact_entries(2, quick)
    three, _ = _exact_entries(3, quick)
    return Finding(
        "min_clients = 2; ours is 3",
        "client: the scores of the only other client with labels",
        two,
        three,
        0.0,
        entries,
        remark="a warning says so where min_clients is 2",
    )


def _exact_entries(labeled: int, quick: bool) -> tuple[float, int]:
    """The share of client/1's scores that client/0 finds, if `labeled` of three clients have labels."""
    parts = shards(load("digits", 240 if quick else 480), 3, "iid", 0.5, 1, labeled_clients=labeled)
    world = World(_SEED, cost=Free())
    settings = Parameters(PlaintextHamming(1024), 3, _CLASSES, min_clients=labeled)
    able = [i for i, part in enumerate(parts) if part.labeled.any()]
    clients = [XclpClient(world, f"client/{i}", part, settings) for i, part in enumerate(parts)]
    server = XclpServer(world, tuple(client.name for client in clients), settings)
    play_out([server, *clients])
    found = clients[able[0]].labels
    assert found is not None
    starts = np.cumsum([0, *(len(part.labels) for part in parts)])
    influence = Influence(neighbour_graph(server.record.h, settings.bits, settings.k), settings.alpha)

    def scores(client: int) -> NDArray[np.float64]:
        part = parts[client]
        columns = influence.columns(starts[client] + np.flatnonzero(part.labeled))
        return contribution(columns, part.labels[part.labeled], _CLASSES)[starts[able[0]] + found.rows]

    rest = decode(found.z - encode(scores(able[0]), settings.fraction_bits, 3), settings.fraction_bits)
    right = np.abs(rest - scores(able[1])) < 2.0**-30
    return float(right.mean()), right.size
