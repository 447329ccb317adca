"""Attacks on a sum over many rounds (Flamingo): by a server with colluding decryptors, and by one that shows two sets.

Clients and set-up are those of production, in the miniature of `tacit chaos --server`, with five clients, four of them
decryptors. One decryptor may collude with the server; two can decrypt, and three must sign the set of survivors.
"""

from msgspec import structs

from tacit.benchmarks.attacks.finding import Finding, share
from tacit.benchmarks.attacks.weakened import unsigned
from tacit.scenarios.chaos.server_lies import parse
from tacit.scenarios.chaos.server_rounds import RoundsView
from tacit.scenarios.chaos.server_world import Miniature, contribute, performed

__all__ = ["both_kinds", "too_many_decryptors"]

_SUM = Miniature("flamingo", clients=5, min_clients=3)
_ALL = "0 1 2 3 4"


def _recovered(miniature: Miniature, program: str) -> tuple[float, int]:
    """The largest share of an honest client's vector that the server reads, and the length of a vector."""
    view, _, failure = performed(miniature, parse(program, miniature.clients), contribute, 0)
    assert isinstance(view, RoundsView) and not failure
    read = view.without_known_masks()
    return max(share(*one) for one in read.values()), len(next(iter(read.values()))[0])


def too_many_decryptors(quick: bool = False) -> Finding:
    """The server follows the protocol, and enough decryptors collude with it to decrypt by themselves."""
    honest = f"start {_ALL}; left {_ALL}"
    weakened, size = _recovered(structs.replace(_SUM, colluding=2), honest)
    ours, _ = _recovered(_SUM, honest)
    sought = "server and decryptors: the vector of one client, from two of four decryptors and from one"
    return Finding("t + 1 decryptors help the server", sought, weakened, ours, 0.0, size)


def both_kinds(quick: bool = False) -> Finding:
    """One decryptor is shown a client as a survivor and opens its own mask; others see it as lost and open its pair
    masks."""
    view, _, _ = performed(_SUM, parse(f"start {_ALL}", 5), contribute, 0)
    assert isinstance(view, RoundsView)
    honest = [name.removeprefix("client/") for name in view.decryptors if name not in view.colluding]
    first, others = honest[0], " ".join(honest[1:])
    victim = honest[-1]
    rest = " ".join(str(number) for number in range(5) if str(number) != victim)
    program = f"start {_ALL}; left {_ALL} to {first}; left {rest} to {others}"
    with unsigned():
        weakened, size = _recovered(_SUM, program)
    ours, _ = _recovered(_SUM, program)
    return Finding("decryptors without signatures", "server: the vector of one client", weakened, ours, 0.0, size)
