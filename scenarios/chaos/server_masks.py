"""Masked values that leave clients: under a server that repeats its requests, and whether they look random.

A sum must give each vector away under one mask only, and no mask to two vectors. Both are seen in the messages by which
masked values leave a client (`Sum.masked`), whatever the sum computes.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from tacit.parties.life import Present
from tacit.protocols.crypto.words import packed_bytes
from tacit.protocols.sums.masking import read
from tacit.scenarios.chaos.server_noise import Asking, asked_again
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.faults import Crash
from tacit.sim.taps import Taps
from tacit.sim.wire import Message, Packet, decode_body, decode_frame

__all__ = ["ask_for_masks", "masked_vectors", "not_random"]

_AWAY = "1s"
_FEWEST = 32
"""The fewest words of a vector that is judged."""
_CLOSE = 16
"""Words are close to 0 if they are within 1 / 16 of their range: of random ones 1 in 8 is."""
_MOST = 0.5
"""The largest share of words close to 0 among 32 or more random ones; a larger one has a probability below 2^-25."""


def ask_for_masks(scenario: Scenario, asking: Asking, kinds: Sequence[type[Message]]) -> tuple[int, str]:
    """Let the server of `scenario` repeat its requests; returns the number of masked messages and what is wrong, or "".

    At most one set of masked values, in messages of `kinds`, may leave a client for a round, and for a model that
    rounds begin with.
    """
    count = scenario.data.clients
    fails = (Crash(f"client/{j}", at=asking.at, back_after=_AWAY) for j in range(count))
    small = structs.replace(scenario, entropy="os", fault=tuple(fails) if asking.at else ())
    names, left = {kind.__name__ for kind in kinds}, dict[tuple[str, str, Any], dict[tuple[int, ...], set[bytes]]]()
    sent_ones = 0

    def watch(parties: Any, taps: Taps) -> None:
        present: Present[Any] = Present(parties)

        def sent(packet: Packet) -> None:
            nonlocal sent_ones
            if packet.type not in names:
                return
            sent_ones += 1
            over = present[packet.sender].disk.get("called over", b"")
            stamp = packet.round, packet.attempt, packet.incarnation
            for what, key in (("round", packet.round), ("model", over)):
                left.setdefault((packet.sender, what, key), {}).setdefault(stamp, set()).add(packet.digest)

        taps.sent.append(sent)

    failure = asked_again(small, asking, watch)
    if failure:
        return sent_ones, f"a client's program fails: {failure}"
    for (party, what, _), stamps in left.items():
        first, *later = stamps.values()
        if any(digests - first for digests in later):
            (number, attempt, *_), *_ = [*stamps][1:]
            return (
                sent_ones,
                f"{party} sends masked values again for one {what}, in attempt {attempt} of round {number}",
            )
    return sent_ones, ""


def masked_vectors(
    scenario: Scenario, kinds: Sequence[type[Message]], bits: int, runs: int = 2
) -> list[tuple[str, NDArray[np.uint64]]]:
    """The vectors in the open in messages of `kinds`, with words of `bits`, each with the client and the round.

    They are of all rounds of a number of `runs` of `scenario`, in which parties draw fresh randomness.
    """
    known: Mapping[str, type[Message]] = {kind.__name__: kind for kind in kinds}
    found: list[tuple[str, NDArray[np.uint64]]] = []

    def sent(packet: Packet) -> None:
        if packet.type in known:
            frame = decode_frame(packet.data)
            if not frame.sealed:
                message = decode_body(frame, frame.body, known[packet.type])
                where = f"{packet.type} of {packet.sender} in round {packet.round}"
                found.extend((where, words) for words in _vectors(message, bits))

    for _ in range(runs):
        taps = Taps()
        taps.sent.append(sent)
        simulation = Simulation(structs.replace(scenario, entropy="os"), engine="inline", taps=taps)
        try:
            simulation.run()
        finally:
            simulation.close()
    return found


def _vectors(message: Message, bits: int) -> Iterator[NDArray[np.uint64]]:
    for field in message.__struct_fields__:
        data = getattr(message, field)
        if isinstance(data, bytes):
            count = 8 * len(data) // bits
            if count >= _FEWEST and packed_bytes(count, bits) == len(data):
                (words,) = read(data, [count], bits)
                yield words.astype(np.uint64)


def not_random(vectors: Sequence[tuple[str, NDArray[np.uint64]]], modulus: int) -> str:
    """What is wrong with masked `vectors` of words modulo `modulus`; "" if they look random, and so do their
    differences."""
    for where, words in vectors:
        if _share_close(words, modulus) > _MOST:
            return f"the words in {where} are close to 0: they are not masked"
    for (one, first), (other, second) in combinations(vectors, 2):
        if len(first) == len(second):
            difference = first - second  # modulo 2^64
            if modulus < 1 << 64:
                difference = (first + np.uint64(modulus) - second) % np.uint64(modulus)
            if _share_close(difference, modulus) > _MOST:
                return f"the words in {one} and in {other} have the same mask"
    return ""


def _share_close(words: NDArray[np.uint64], modulus: int) -> float:
    near = np.uint64(modulus // _CLOSE)
    return float(np.mean((words < near) | (words > np.uint64(modulus - 1) - near)))
