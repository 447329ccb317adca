"""The attack on labels by one curious client: it solves for the others' labels from its columns of S and rows of Z."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.benchmarks.attacks.finding import Finding, randomness, share
from tacit.parties.data.sets import load
from tacit.parties.data.splits import Shard
from tacit.parties.playing import play_out
from tacit.protocols.crypto.fixed_point import decode
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.protocols.xclp.influence import Columns, Rows
from tacit.protocols.xclp.xclp import Parameters, XclpClient, XclpServer
from tacit.sim.compute import Free
from tacit.sim.wire import Message, Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = ["labels_by_guessed_coefficients", "labels_from_scores"]

_BITS = 1024
_CLASSES = 10

Values = NDArray[np.float64]
Places = NDArray[np.int64]
Use = Callable[[Values, Places, Places], tuple[Places, Values]]
M = TypeVar("M", bound=Message)


def labels_from_scores(quick: bool = False) -> Finding:
    """One client of three solves for the other clients' labels from the rows of its own labeled points.

    Labels are drawn at random, so points reveal nothing of them, and a guess is right once in ten. The client has its
    columns S[:, j], which are also rows of S, so on its labeled rows it knows all coefficients of the other labels.
    With rows = "paper" it gets Z on these rows, and has a linear system for the labels. With rows = "unlabeled" it gets
    Z on other rows only, has no such equation, and guesses.
    """
    return _finding("exactly", quick, _exact, remark="ours gives out no row with known coefficients")


def labels_by_guessed_coefficients(quick: bool = False) -> Finding:
    """The same attack with estimates of the unknown coefficients, which leaks labels from ours, too.

        S[u, o] ~ S[u, j] S[j, j]^-1 S[j, o]      (Nystroem)

    As each point has one label, the sum of a row shows the client how wrong the row is. This is less exact, and still
    far better than guessing: the rate on ours is ABOVE CHANCE, and more rounds over the same labels raise it. The exact
    scores on a client's own rows are the specified output of the protocol; only a coarser output would prevent this.
    """
    remark = "residual leak, by specification: exact scores are the output"
    return _finding("by Nystroem", quick, _estimated, remains=True, remark=remark)


def _finding(how: str, quick: bool, use: Use, **facts: Any) -> Finding:
    (paper, unknown), (ours, _) = (_attack(rows, quick, use) for rows in ("paper", "unlabeled"))
    name, sought = 'rows = "paper"; ours is rows = "unlabeled"', f"client: the labels of the others, {how}"
    return Finding(name, sought, paper, ours, 1 / _CLASSES, unknown, stated=0.75, **facts)


def _attack(rows: str, quick: bool, use: Use) -> tuple[float, int]:
    """The share of the other clients' labels that client/0 gets right, and the number of these labels.

    `use` selects the client's useful rows of Z, with their coefficients on its labeled rows of S.
    """
    random, each = randomness("labels"), 60 if quick else 100
    features = load("digits").features
    features = features[random.permutation(len(features))[: 3 * each]]
    features = features - features.mean(axis=0)
    labels = random.integers(_CLASSES, size=len(features))
    shards = []
    for first in range(0, len(features), each):
        labeled = np.zeros(each, bool)
        labeled[random.permutation(each)[: each // 2]] = True
        part = slice(first, first + each)
        shards.append(Shard(features[part], labels[part], labeled, np.arange(first, first + each)))
    client, packets = _run(shards, rows)
    assert client.labels is not None

    # The view of client/0: the labeled points, its columns of S, Z on its rows, its own labels.
    flags = np.concatenate([
        np.unpackbits(np.frombuffer(data, np.uint8), count=each).astype(bool) for data in _got(packets, Rows).flags
    ])  # fmt: skip
    own = np.flatnonzero(shards[0].labeled)
    others = np.flatnonzero(flags)[len(own) :]
    columns = np.frombuffer(_got(packets, Columns).values, "<f8").reshape(len(flags), len(own))
    mine = client.labels.rows  # the indices of the first client are the global ones
    z = decode(client.labels.z, client.parameters.fraction_bits)

    # S[u, o] = sum over own i of P[u, i] S[i, o]; P is the identity for u among its own labeled points.
    used, p = use(columns, own, mine)
    coefficients = p @ columns[others].T
    scores = (z - columns[mine] @ np.eye(_CLASSES)[shards[0].labels[own]])[used]
    gaps = np.abs(scores.sum(axis=1) - coefficients.sum(axis=1))
    found = _fit(coefficients, scores, 1 / (gaps + 1e-6), 3000).argmax(axis=1)
    return share(found, labels[others]), len(others)


def _exact(columns: Values, own: Places, mine: Places) -> tuple[Places, Values]:
    """The rows of labeled points, whose coefficients are known."""
    used = np.flatnonzero(np.isin(mine, own))
    return used, (mine[used][:, None] == own).astype(float)


def _estimated(columns: Values, own: Places, mine: Places) -> tuple[Places, Values]:
    """Return all rows, with their coefficients on the client's labeled rows by least squares."""
    p: Values = np.linalg.lstsq(columns[own], columns[mine].T, rcond=None)[0].T.astype(np.float64)
    return np.arange(len(mine), dtype=np.int64), p


def _run(shards: list[Shard], rows: str) -> tuple[XclpClient, list[Packet]]:
    """client/0 after XCLP over `shards`, and the packets sent to it."""
    world = World(1, cost=Free())
    packets: list[Packet] = []
    world.taps.sent.append(packets.append)
    settings = Parameters(PlaintextHamming(_BITS), len(shards), _CLASSES, bits=_BITS, k=3, rows=rows)
    clients = [XclpClient(world, f"client/{i}", own, settings) for i, own in enumerate(shards)]
    server = XclpServer(world, tuple(client.name for client in clients), settings)
    play_out([server, *clients])
    return clients[0], [packet for packet in packets if packet.receiver == "client/0"]


def _got(packets: list[Packet], kind: type[M]) -> M:
    """The only message of `kind` among `packets`."""
    (frame,) = [decode_frame(packet.data) for packet in packets if packet.type == kind.__name__]
    return decode_body(frame, frame.body, kind)


def _simplex(values: Values) -> Values:
    """The nearest point to each row among those with entries >= 0 that sum to 1."""
    descending = -np.sort(-values, axis=1)
    excess = descending.cumsum(axis=1) - 1
    counts = np.arange(1, values.shape[1] + 1)
    kept = ((descending - excess / counts) > 0).sum(axis=1)
    shift = excess[np.arange(len(values)), kept - 1] / kept
    return np.maximum(values - shift[:, None], 0)


def _fit(coefficients: Values, scores: Values, weights: Values, steps: int) -> Values:
    """Y >= 0 with rows that sum to 1 and the least weighted squares of coefficients Y - scores (projected gradient)."""
    a, b = coefficients * weights[:, None], scores * weights[:, None]
    gram, target, slope = a.T @ a, a.T @ b, (np.linalg.norm(a, 2) ** 2 if a.size else 1.0)
    y = ahead = np.full((a.shape[1], b.shape[1]), 1 / b.shape[1])
    t = 1.0
    for _ in range(steps):
        following = _simplex(ahead - (gram @ ahead - target) / slope)
        t_following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead = following + (t - 1) / t_following * (following - y)
        y, t = following, t_following
    return y
