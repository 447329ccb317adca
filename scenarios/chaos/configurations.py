"""The configurations that `tacit chaos --broad` goes through: every protocol with rounds, and XCLP, in small.

Each is a built-in scenario with changes, so that a failure's file is a scenario like any other. They are small because
faults strike steps and messages, not points.
"""

from msgspec import Struct

__all__ = ["CONFIGURATIONS", "Configuration"]


class Configuration(Struct, frozen=True):
    """A configuration: a `scenario` by name with `changes` in the form of ``--set``, under a unique `name`."""

    name: str
    scenario: str
    changes: tuple[str, ...]


_ALL = (
    "data.clients=4",
    'data.partition="iid"',
    "data.labeled=0.5",
    "protocol.min_clients=2",
    'protocol.deadline="10s"',
)
_CROSS = ("protocol.bits=32", "protocol.k=3", "protocol.key_bits=512", "protocol.insecure_keys=true")
_PLAIN = ("protocol.hamming=plaintext",)
_DIRECT = ("protocol.hamming=direct",)
_MESH = ("network.topology=mesh",)
_DATAGRAM = ("network.transport=datagram",)
_TCP = ("network.transport=tcp", "network.loss=0.05", "network.jitter=5ms")
_CLOSED = ("network.transport=tcp", "protocol.presence=connection")
_BEATS = ("protocol.presence=heartbeat", "protocol.heartbeat=1s", "protocol.heartbeat_misses=2")
_UNEVEN = ('data.partition="dirichlet:0.5"',)
_SECURE = ("training.averaging=secure", "training.min_clients=2")
_FEW_BITS = ("sum.value_bits=6", "sum.clip=0.5")
_CODED = (
    *("training.averaging=lightsecagg", "training.min_clients=2", "sum.tolerated_dropouts=0.38"),
    *("sum.value_bits=9", "sum.clip=0.5", "data.clients=8"),
)
_PROVED = ("training.averaging=prio3", "training.min_clients=2", "training.weighting=equal", *_FEW_BITS)
_PRIO3 = ("cotraining.votes=prio3", "training.min_clients=2", "public.size=20")
_VOTES = ("cotraining.votes=secure", *_PRIO3[1:])
_STANDS_STILL = ("sum.value_bits=8", "training.learning_rate=0.001")
_COMMITTEE = tuple(one.replace("lightsecagg", "committee") for one in _CODED)
_FLAMINGO = ("training.averaging=flamingo", "training.min_clients=2", "sum.decryptor_rounds=2", "data.clients=8")
_GRAPH = ("training.averaging=secagg+", "training.min_clients=2")
_TESTED = ("training.evaluation=plain", "data.held_out=0.3")
_SUM_TESTED = ("training.evaluation=secure", "data.held_out=0.3")
_SIGNED = ("protocol.identity=signed",)
_CELLS = ("data.limit=60", "protocol.min_clients=3", "cells.count=3", "cells.steps=1")
_SHAMIR = ("protocol.recovery=secure",)
_NOISY = (
    *("privacy.noise=skellam", "privacy.noise_at=clients", "privacy.epsilon=8.0", "privacy.clip=0.5"),
    *("privacy.tolerated=0.25", "training.min_clients=2", "training.weighting=equal", "data.clients=8"),
    "sum.tolerated_dropouts=0.13",
)
_REMOVED = (*_NOISY, *_SIGNED)
_UNTOLERATED = (*_REMOVED, "privacy.tolerated=0", "sum.corrupt_clients=0.13")
_LEFT_IN = (*_NOISY, "privacy.components=none")


def _rows_by(name: str, lost: float) -> tuple[str, ...]:
    """The keys of row sums by a secure sum, among clients of which two have no labels; `lost`: the tolerated share."""
    few = "data.clients=8", "data.labeled_clients=6", "protocol.min_clients=2", "protocol.rounds=2"
    return (f"protocol.recovery={name}", f"sum.tolerated_dropouts={lost}", "sum.corrupt_clients=0.1", *few)


def _xclp(what: str, *changes: tuple[str, ...], points: int = 20) -> Configuration:
    return Configuration(f"xclp, {what}", "xclp-digits", (*_ALL, *_CROSS, f"data.limit={points}", *sum(changes, ())))


def _training(name: str, what: str, *changes: tuple[str, ...]) -> Configuration:
    own = ("protocol.rounds=1", "data.limit=60", "model.name=linear", "training.rounds=3", "training.epochs=1")
    whole = (*_ALL, *_CROSS, *_PLAIN, *own, "training.averaging=plain", "training.validation=0.0")
    where = ('training.device="cpu"', "training.min_clients=1", "training.label_from=2", f"protocol.name={name}")
    return Configuration(f"{name}, {what}", "training-secure-average", (*whole, *where, *sum(changes, ())))


def _cotraining(name: str, what: str = "", *changes: tuple[str, ...]) -> Configuration:
    own = ("data.limit=80", "public.size=0.4", "model.name=linear", "learner.steps=4", "cotraining.rounds=3")
    whole = (*_ALL, *own, 'training.device="cpu"', f"protocol.name={name}")
    return Configuration(f"{name}{what and f', {what}'}", "fedct-digits", (*whole, *sum(changes, ())))


CONFIGURATIONS = (
    _xclp("Paillier, restart, star", ("protocol.rounds=2",)),
    _xclp("Paillier, shamir, star", ("protocol.rounds=2",), _SHAMIR),
    _xclp("Paillier, restart, mesh", _MESH),
    _xclp("Paillier, shamir, mesh, datagram", _SHAMIR, _MESH, _DATAGRAM, ("protocol.rounds=2",)),
    _xclp(
        "Naor-Pinkas, shamir, star, datagram",
        _SHAMIR,
        _DATAGRAM,
        ("protocol.hamming=naor-pinkas", "protocol.bits=8"),
        points=12,
    ),
    _xclp("IKNP, restart, mesh, datagram", _MESH, _DATAGRAM, ("protocol.hamming=iknp",)),
    _xclp("plaintext, restart, star, three rounds", _PLAIN, ("protocol.rounds=3",)),
    _xclp("plaintext, shamir, mesh, three rounds", _PLAIN, _SHAMIR, _MESH, ("protocol.rounds=3",)),
    _xclp(
        "plaintext, shamir, star, seven clients",
        _PLAIN,
        _SHAMIR,
        ("data.clients=7", "protocol.min_clients=3"),
        points=28,
    ),
    _xclp(
        "plaintext, secagg+, star, eight clients",
        _PLAIN,
        ("protocol.recovery=secagg+", "data.clients=8", "protocol.rounds=2"),
        points=32,
    ),
    _xclp("direct, restart, star, lossy", _DIRECT, ("network.loss=0.05", "network.jitter=5ms", "protocol.rounds=2")),
    _xclp("direct, shamir, mesh, datagram", _DIRECT, _SHAMIR, _MESH, _DATAGRAM, ("protocol.rounds=2",)),
    _xclp(
        "plaintext, shamir, signed, star", _PLAIN, _SHAMIR, _SIGNED, ("data.clients=7", "protocol.rounds=2"), points=28
    ),
    _xclp("plaintext, restart, star, lossy", _PLAIN, ("network.loss=0.05", "network.jitter=5ms", "protocol.rounds=2")),
    _training("fedavg", "plain, star"),
    _training("fedavg", "secure, star", _SECURE),
    _training("fedavg", "secure, signed, datagram", _SECURE, _SIGNED, _DATAGRAM, ("data.clients=6",)),
    _training("fedavg", "plain, mesh, datagram", _MESH, _DATAGRAM),
    _training("fedavg", "secure, mesh, datagram", _SECURE, _MESH, _DATAGRAM),
    _training("fedavg", "secure, a cohort of two thirds", _SECURE, ("data.clients=6", "training.share=0.67")),
    _training("fedavg", "plain, one more than needed", ("training.share=0.5", "training.extra=1")),
    _training("fedbuff", "star", ("training.buffer=2",)),
    _training(
        "fedbuff", "mesh, datagram, three at work", _MESH, _DATAGRAM, ("training.concurrency=3", "training.buffer=2")
    ),
    _training("fedavg", "secure, lossy", _SECURE, ("network.loss=0.05",)),
    _training("fedavg", "lightsecagg, star", _CODED),
    _training("fedavg", "lightsecagg, mesh, datagram", _CODED, _MESH, _DATAGRAM),
    _training("scaffold", "lightsecagg, lossy TCP", _CODED, _TCP),
    _training("fedavg", "lightsecagg, signed, connections watched", _CODED, _SIGNED, _CLOSED),
    _training("fedavg", "prio3, star", _PROVED),
    _training("scaffold", "prio3, lossy TCP", _PROVED, _TCP),
    _cotraining("fedct", "prio3, star", _PRIO3),
    _cotraining("fedct", "prio3, datagram", _PRIO3, _DATAGRAM),
    _cotraining("fedct", "secure votes, datagram", _VOTES, _DATAGRAM),
    _cotraining("dp-pate", "prio3, lossy TCP", _PRIO3, _TCP, ("privacy.noise=1.0",)),
    _training("fedavg", "committee, star", _COMMITTEE),
    _training("fedavg", "committee, mesh, datagram", _COMMITTEE, _MESH, _DATAGRAM),
    _training("fedavg", "committee, signed, connections watched", _COMMITTEE, _SIGNED, _CLOSED),
    _training("scaffold", "committee, numbers of 61 bits, lossy TCP", _COMMITTEE, _TCP, ("sum.value_bits=32",)),
    _training("fedavg", "flamingo, star", _FLAMINGO),
    _training("fedavg", "flamingo, mesh, datagram, values of 6 bits", _FLAMINGO, _MESH, _DATAGRAM, _FEW_BITS),
    _training("fedavg", "flamingo, signed, connections watched", _FLAMINGO, _SIGNED, _CLOSED),
    _training("fedavg", "secagg+, complete graph", _GRAPH),
    _training("fedavg", "secagg+, eight clients, values of 6 bits", _GRAPH, _FEW_BITS, ("data.clients=8",)),
    _training(
        "fedavg",
        "secure, values of 12 bits, by points",
        _SECURE,
        ("sum.value_bits=12", "training.weighting=points"),
    ),
    _training("fedavg", "secagg+, eight clients", _GRAPH, ("data.clients=8",)),
    _training("fedavg", "secagg+, eight clients, datagram", _GRAPH, _DATAGRAM, ("data.clients=8",)),
    _training("fedavg", "secure, a model that stands still", _SECURE, _STANDS_STILL),
    _training("fedavg", "secagg+, nine clients, mesh", _GRAPH, _MESH, ("data.clients=9",)),
    _training("fedavg+xclp", "plain, restart"),
    _training("fedavg+xclp", "secure, shamir, mesh", _SECURE, _SHAMIR, _MESH),
    _training("fedavg+xclp", "secure, restart, datagram", _SECURE, _DATAGRAM),
    _training("fedprop", "plain, star"),
    _training("fedprop", "secure, mesh", _SECURE, _MESH),
    _training("fedprop+mt", "secure, datagram", _SECURE, _DATAGRAM),
    _training("fedavg+perclient-lp", "secure", _SECURE),
    _training("fedavg+network", "plain"),
    _training("fedsem+", "secure", _SECURE),
    _training("fedmatch", "plain"),
    _training("fedsiam", "secure", _SECURE),
    _training("fedavg+mt", "plain, mesh", _MESH),
    _training("fedprox", "secure, star", _SECURE),
    _training("scaffold", "plain, datagram", _DATAGRAM),
    _training("scaffold", "secure, star", _SECURE),
    _training("scaffold", "secure, mesh", _SECURE, _MESH),
    _training("scaffold", "secagg+, eight clients, lossy", _GRAPH, ("data.clients=8", "network.loss=0.05")),
    _training("dp-fedavg", "noise removed, secure, star", _SECURE, _REMOVED),
    _training("dp-fedavg", "noise removed, secure, mesh, datagram", _SECURE, _REMOVED, _MESH, _DATAGRAM),
    _training(
        "dp-fedavg",
        "noise in log2 parts, lightsecagg, lossy TCP",
        _REMOVED,
        _TCP,
        ("training.averaging=lightsecagg", "privacy.components=log2"),
    ),
    _training(
        "dp-fedavg", "noise removed, committee, datagram", _REMOVED, _DATAGRAM, ("training.averaging=committee",)
    ),
    _training(
        "dp-fedavg", "noise removed, flamingo, connections watched", _REMOVED, _CLOSED, ("training.averaging=flamingo",)
    ),
    _training(
        "dp-fedavg",
        "less noise charged, secure, datagram",
        _SECURE,
        _UNTOLERATED,
        _DATAGRAM,
        ("privacy.excess_losses=charge",),
    ),
    _training(
        "dp-fedavg",
        "less noise until epsilon, secure, lossy TCP",
        _SECURE,
        _UNTOLERATED,
        _TCP,
        ("privacy.excess_losses=end",),
    ),
    _training("dp-fedavg", "noise left in, secagg+", _LEFT_IN, ("training.averaging=secagg+",)),
    _training("dp-fedavg", "noise left in, secure", _LEFT_IN, ("training.averaging=secure",)),
    _cotraining("fedct", "prio3 with noise, datagram", _PRIO3, _DATAGRAM, ("privacy.votes_epsilon=20.0",)),
    _cotraining("fedct"),
    _cotraining("fedct", "mesh, datagram", _MESH, _DATAGRAM),
    _cotraining("dp-fedct"),
    _cotraining("dd"),
    _cotraining("fedmd"),
    _cotraining("pate"),
    _cotraining("dp-pate"),
    _cotraining("local"),
    Configuration("private-cells, star", "private-cells", (*_ALL, *_CELLS)),
    Configuration("private-cells, mesh", "private-cells", (*_ALL, *_CELLS, *_MESH)),
    Configuration("private-cells, mesh, datagram", "private-cells", (*_ALL, *_CELLS, *_MESH, *_DATAGRAM)),
    Configuration("private-cells, star, lossy TCP", "private-cells", (*_ALL, *_CELLS, *_TCP)),
    _xclp("plaintext, shamir, mesh, lossy TCP", _PLAIN, _SHAMIR, _MESH, _TCP, ("protocol.rounds=2",)),
    _xclp("Paillier, restart, star, lossy TCP", _TCP),
    _xclp("plaintext, shamir, star, uneven", _PLAIN, _SHAMIR, _UNEVEN, points=40),
    _training("fedavg", "plain, star, uneven, lossy TCP", _UNEVEN, _TCP),
    _training("fedavg", "plain, star, uneven", _UNEVEN),
    _training("fedavg", "secure, mesh, uneven", _SECURE, _MESH, _UNEVEN),
    _training("scaffold", "secure, star, uneven, lossy TCP", _SECURE, _UNEVEN, _TCP),
    _training("fedavg", "secagg+, eight clients, lossy TCP", _GRAPH, _TCP, ("data.clients=8",)),
    _training("fedbuff", "uneven, lossy TCP", _UNEVEN, _TCP, ("training.buffer=2",)),
    _cotraining("fedct", "uneven, lossy TCP", _UNEVEN, _TCP),
    _xclp("plaintext, shamir, star, connections watched", _PLAIN, _SHAMIR, _CLOSED, ("protocol.rounds=3",)),
    _xclp("Paillier, restart, mesh, datagram, heartbeats", _MESH, _DATAGRAM, _BEATS, ("protocol.rounds=2",)),
    _training("fedavg", "plain, heartbeats", _BEATS, ("training.share=0.67", "data.clients=6")),
    _training("fedavg", "secure, mesh, connections watched", _SECURE, _MESH, _CLOSED),
    _training("fedavg", "secagg+, eight clients, heartbeats", _GRAPH, _BEATS, ("data.clients=8",)),
    _training("fedavg+xclp", "plain, restart, heartbeats", _BEATS),
    _training("scaffold", "secure, star, lossy TCP, connections watched", _SECURE, _TCP, _CLOSED),
    _training("fedbuff", "mesh, datagram, heartbeats", _MESH, _DATAGRAM, _BEATS, ("training.buffer=2",)),
    _training("fedbuff", "connections watched", _CLOSED, ("training.concurrency=3", "training.buffer=2")),
    _cotraining("fedct", "connections watched", _CLOSED),
    _cotraining("pate", "datagram, heartbeats", _DATAGRAM, _BEATS),
    Configuration("private-cells, star, heartbeats", "private-cells", (*_ALL, *_CELLS, *_BEATS)),
    _xclp("plaintext, lightsecagg, mesh, datagram", _PLAIN, _rows_by("lightsecagg", 0.34), _MESH, _DATAGRAM, points=40),
    _xclp("plaintext, committee, star, lossy TCP", _PLAIN, _rows_by("committee", 0.1), _TCP, points=40),
    _xclp("plaintext, flamingo, three rounds", _PLAIN, _rows_by("flamingo", 0.1), ("protocol.rounds=3",), points=40),
    _training("fedavg", "plain, tested by clients", _TESTED, _DATAGRAM),
    _training("fedavg", "secure, tested by clients in the sum", _SECURE, _SUM_TESTED),
    _training("fedbuff", "tested by clients", _TESTED, ("training.buffer=2",)),
    _training("fedbuff", "tested by clients, datagram", _TESTED, _DATAGRAM, ("training.buffer=2",)),
    _training("fedbuff", "tested by clients, heartbeats", _TESTED, _BEATS, ("training.buffer=2",)),
    _cotraining("fedct", "tested by clients, datagram", _TESTED, _DATAGRAM),
    _cotraining("fedct", "secure votes, tested by clients in the sum", _VOTES, _SUM_TESTED),
)
