"""Checks of XCLP and its graph, and cautions before a run."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence

import psutil

from tacit.parties.data.splits import Shard
from tacit.protocols.privacy.spending import randomised_cautions
from tacit.protocols.xclp.keys import XclpTables
from tacit.protocols.xclp.solvers import FACTORED
from tacit.protocols.xclp.timing import deadline_cautions
from tacit.sim.setting_error import Problem
from tacit.sim.units import format_bytes

__all__ = [
    "check_clients", "check_graph", "check_groups", "check_keys", "check_memory", "graph_memory", "xclp_cautions",
]  # fmt: skip

BYTES_PER_DISTANCE = 40
"""The peak memory in bytes for each of the n x n distances of up to 4,096 points, including the oracle's comparison.

Measured, inline: between 17 and 39, the latter with half of the points labeled.
"""

BYTES_PER_BLOCK = 3
"""The peak memory for each distance with more points: H and both of its parts, in flight or received.

Measured with 20,000 points.
"""

FACTORS = 1 << 31
"""The most bytes of the factors and of their inputs."""

BYTES_PER_PAIR = 35_000
"""The peak memory in bytes for each pair of clients, without its messages: all pairs run at the same time.

Measured with 50 and with 120 clients.
"""


def graph_memory(points: int, clients: int, labeled: float = 0.5, compared: bool = True) -> int:
    """The most bytes that XCLP holds among `clients` with this number of `points` together.

    `labeled`: the share of points with labels, whose columns are in flight. `compared`: the oracle holds the distances
    as well.
    """
    between = BYTES_PER_PAIR * (clients * (clients - 1) // 2)
    few = BYTES_PER_DISTANCE * min(points, FACTORED) ** 2
    if points <= FACTORED:
        return few + between
    blocks = BYTES_PER_BLOCK * points**2 + min(2 * points**2, FACTORS)
    return max(few, blocks + int(8 * labeled * points**2) + 2 * compared * points**2) + between


def check_keys(tables: XclpTables) -> None:
    """Raise Problem for insecure keys without `insecure_keys`, and for too few clients."""
    keys, data = tables.protocol, tables.data
    if keys.hamming == "paillier" and keys.key_bits < 2048 and not keys.insecure_keys:
        problem = f"{keys.key_bits} is insecure; allowed: 2048, 3072, or set protocol.insecure_keys = true"
        raise Problem("protocol.key_bits", problem)
    if data.partition != "natural" and data.clients < keys.min_clients:
        problem = f"{data.clients} is too small; allowed: {keys.min_clients} (protocol.min_clients) or more"
        raise Problem("data.clients", problem)


def check_groups(tables: XclpTables) -> None:
    """Raise Problem if there are more groups than the clients can fill."""
    groups, least, clients = tables.protocol.groups, tables.protocol.min_clients, tables.data.clients
    if groups > 1 and tables.data.partition != "natural" and clients // groups < least:
        problem = f"{groups} are too many: each needs {least} clients (protocol.min_clients)"
        raise Problem("protocol.groups", f"{problem}; allowed: 1 to {max(1, clients // least)}")


def check_graph(tables: XclpTables, points: int) -> None:
    """Raise Problem if there are too few `points` for k neighbours."""
    if tables.protocol.k >= points:
        problem = f"{tables.protocol.k} is too large; allowed: 1 to {points - 1} (n - 1)"
        raise Problem("protocol.k", problem)


def check_clients(tables: XclpTables, together: Collection[Shard], part: str = "") -> None:
    """Raise Problem if XCLP cannot run among the participants `together`; `part` describes them if they are not all
    clients."""
    keys = tables.protocol
    labeled = sum(bool(shard.labeled.any()) for shard in together)
    if not part and labeled < keys.min_clients <= len(together):
        problem = f"{keys.min_clients} is too large: {labeled} clients have labels; allowed: no more than these"
        raise Problem("protocol.min_clients", problem)
    if len(together) < keys.min_clients and part.startswith("a group"):
        problem = f"{keys.groups} is too large: a group of {len(together)} has fewer than {keys.min_clients} clients"
        raise Problem("protocol.groups", f"{problem} (protocol.min_clients); allowed: fewer groups")
    if len(together) < keys.min_clients:  # a natural partition's clients are known only now
        problem = f"{len(together)} is too small; allowed: {keys.min_clients} (protocol.min_clients) or more"
        raise Problem("data.clients", f"{part}{problem}")
    if keys.threshold is not None and keys.threshold > len(together):
        problem = f"{keys.threshold} is too large; allowed: 2 to {len(together)} (the clients)"
        raise Problem("protocol.threshold", problem)


def check_memory(tables: XclpTables, groups: Sequence[Collection[Shard]]) -> None:
    """Raise Problem if the points of the participants, in `groups` in parallel, do not fit into the memory."""
    points = sum(len(shard.rows) for group in groups for shard in group)
    clients = -(-sum(map(len, groups)) // len(groups))
    share, compared = tables.data.labeled, tables.protocol.oracle

    def needed(size: int) -> int:
        return len(groups) * graph_memory(-(-size // len(groups)), clients, share, compared)

    free = psutil.virtual_memory().available
    if needed(points) > free:
        most = bisect_right(range(1, points + 1), free, key=needed)
        problem = (
            f"{points} points need about {format_bytes(needed(points))} of memory and {format_bytes(free)} are free"
        )
        raise Problem("data.limit", f"{problem}; allowed here: 1 to {most}")


def xclp_cautions(tables: XclpTables, groups: Callable[[], list[dict[str, Shard]]]) -> list[str]:
    """A line for each choice that leaves XCLP without the secrecy it seems to have, or without enough time."""
    keys = tables.protocol
    clients = -(-tables.data.clients // keys.groups)
    try:
        held = groups()
    except (OSError, ValueError):  # the data cannot be read here: nothing is known of the time
        held = []
    found = next(filter(None, (deadline_cautions(tables, group) for group in held)), [])
    found += randomised_cautions(tables.privacy, tables.entropy)
    if keys.hamming == "plaintext":
        found.append('protocol.hamming = "plaintext": the server reads every hash, because distances are not encrypted')
    elif keys.hamming == "direct":
        problem = "the server receives every hash, and can reconstruct all points if one client helps it"
        found.append(f'protocol.hamming = "direct": {problem}; SecureHamming reveals only the distances')
    elif keys.key_bits < 2048:
        found.append(f"protocol.key_bits = {keys.key_bits}: insecure keys, for tests only")
    if keys.rows == "paper":
        found.append('protocol.rows = "paper": a curious client can compute the labels of other clients from its rows')
    if keys.min_clients <= 2:
        problem = "if only two clients have labels, each can compute the other's scores exactly; use 3 or more"
        found.append(f"protocol.min_clients = {keys.min_clients}: {problem}")
    if keys.recovery == "shamir" and keys.threshold is not None and 2 * keys.threshold <= clients:
        found.append(
            f"protocol.threshold = {keys.threshold}: this is at most half of {clients} clients, so a server that lies "
            "about the survivors could unmask one client; more than half of the clients in a sum are used instead"
        )
    return found
