"""Masked values that leave clients: under a server that repeats its requests, and whether they look random.

A sum must give each vector away under one mask only, and no mask to two vectors. Both are seen in the messages by which
masked values leave a client (`Sum.masked`), whatever the sum computes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from tacit.parties.life import Present
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play
from tacit.protocols.crypto.masking import masks, read
from tacit.protocols.crypto.prg import KEY_BYTES
from tacit.protocols.crypto.words import packed_bytes
from tacit.protocols.outcome import Abort
from tacit.protocols.values import BadValues
from tacit.scenarios.chaos.miniature import Miniature
from tacit.scenarios.chaos.server_world import Called, Calling, Contributor, FreshWorld, contribute, inputs_of
from tacit.scenarios.running.simulation import Simulation
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.compute import Free
from tacit.sim.taps import Taps
from tacit.sim.wire import Message, Packet, decode_body, decode_frame
from tacit.sim.world import World

__all__ = ["REQUESTS", "ask_for_masks", "masked_vectors", "not_random", "seed_in_the_open"]

_FEWEST = 32
"""The fewest words of a vector that is judged."""
_CLOSE = 16
"""Words are close to 0 if they are within 1 / 16 of their range: of random ones 1 in 8 is."""
_MOST = 0.5
"""The largest share of words close to 0 among 32 or more random ones; a larger one has a probability below 2^-25."""


Request = tuple[int, int, bool]
"""A request for a sum: the number of the round, that of the model it begins with, and true if all clients' machines
fail and come back before."""

REQUESTS: dict[str, tuple[Request, ...]] = {
    "asks again in the same round": ((1, 1, False), (1, 1, False)),
    "asks again in the same round, after a crash": ((1, 1, False), (1, 1, True)),
    "asks again in a later round, for the same model": ((1, 1, False), (2, 1, False)),
    "asks again in a later round, after a crash": ((1, 1, False), (2, 1, True)),
    "asks for an earlier model, after another": ((1, 1, False), (2, 2, False), (3, 1, False)),
    "asks in an earlier round": ((1, 1, False), (2, 2, False), (1, 2, False)),
}
"""The ways in which a server asks for more than one sum of the same vectors, each with its requests."""


def ask_for_masks(miniature: Miniature, requests: Sequence[Request], kinds: Sequence[type[Message]]) -> tuple[int, str]:
    """Run the sum of `miniature` with a server that makes all `requests`, with the production code of all parties.

    Returns the number of masked messages, in `kinds`, that left a party, and what is wrong, or "": only one set of
    masked values may leave a client for a round, and for a model, and one share of a sum the helper for a round. It is
    also wrong if no client gets a later request.
    """
    world, names = FreshWorld(miniature.seed, cost=Free(), hashed=False), {kind.__name__ for kind in kinds}
    left: dict[tuple[str, str, Any], dict[tuple[int, ...], set[bytes]]] = {}
    values = inputs_of(miniature)
    clients = [Contributor(world, name, values, miniature, contribute) for name in miniature.names]
    server = _Repeating(world, miniature, requests, clients)
    parties: Present[Any] = Present(clients)
    count = again = 0

    def delivered(time: float, packet: Packet) -> None:
        nonlocal again
        again += packet.type == Called.__name__ and server.asked > 1

    def sent(packet: Packet) -> None:
        nonlocal count
        if packet.type not in names:
            return
        count += 1
        party = parties.get(packet.sender)  # None: the helper, which may give a sum in each round
        model = [] if party is None else [("model", party.disk.get("called over", b""))]
        stamp = packet.round, packet.attempt, packet.incarnation
        body = decode_frame(packet.data).body
        for what, key in (("round", packet.round), *model):
            left.setdefault((packet.sender, what, key), {}).setdefault(stamp, set()).add(body)

    world.taps.sent.append(sent)
    world.taps.delivered.append(delivered)
    try:
        world.loop.run(play([server, *server.lying.helpers(world), *clients], server))
    except Exception as error:
        if server.failure is not None:
            raise
        return count, f"a client's program fails: {type(error).__name__}: {error}"
    finally:
        world.loop.finish()
    for (party, what, _), stamps in left.items():
        first, *later = stamps.values()
        if any(bodies - first for bodies in later):
            number, attempt, _ = list(stamps)[-1]
            where = f"in attempt {attempt} of round {number}"
            return count, f"{party} sends masked values again for one {what}, {where}"
    return count, "" if again else "no repeated request reached a client: nothing was tried"


class _Repeating(Calling):
    """The production server, which makes all `requests`, one after another. `asked`: how many of them it has begun."""

    asked = 0

    def __init__(
        self, world: World, miniature: Miniature, requests: Sequence[Request], machines: Sequence[Contributor]
    ) -> None:
        super().__init__(world, miniature.names)
        self.miniature, self.requests, self.lying, self.aborts = miniature, requests, miniature.lying, []
        self._machines = machines

    async def main(self) -> None:
        for number, model, crash in self.requests:
            self.asked += 1
            for machine in self._machines if crash else ():
                machine.device.crash()
                machine.device.rejoin()
            with suppress(Abort, NoAnswer, BadValues):
                await self.lying.serve(self, await self.call(number, model, self.miniature.min_clients))
            self.dismiss(self.clients, "the next request")


def masked_vectors(
    scenario: Scenario, kinds: Sequence[type[Message]], bits: int, runs: int = 2
) -> tuple[list[tuple[str, NDArray[np.uint64]]], list[bytes]]:
    """The vectors in the open in messages of `kinds`, with words of `bits`, each with the client and the round.

    They are of all rounds of a number of `runs` of `scenario`, in which parties draw fresh randomness, and which have
    the same id. Beside them, all that the client of the first vector sends in the open in that round, encoded.
    """
    known: Mapping[str, type[Message]] = {kind.__name__: kind for kind in kinds}
    found: list[tuple[str, NDArray[np.uint64]]] = []
    opened: dict[tuple[int, str, int], list[bytes]] = {}
    owners: list[tuple[int, str, int]] = []
    run_id = b""

    def sent(packet: Packet) -> None:
        frame = decode_frame(packet.data)
        if frame.sealed:
            return
        opened.setdefault((run, packet.sender, packet.round), []).append(frame.body)
        if packet.type in known:
            message = decode_body(frame, frame.body, known[packet.type])
            where = f"{packet.type} of {packet.sender} in round {packet.round}"
            vectors = [(where, words) for words in _vectors(message, bits)]
            found.extend(vectors)
            owners.extend([(run, packet.sender, packet.round)] * len(vectors))

    for run in range(runs):  # noqa: B007
        taps = Taps()
        taps.sent.append(sent)
        simulation = Simulation(structs.replace(scenario, entropy="os"), engine="inline", taps=taps)
        run_id = run_id or simulation._world.run_id
        simulation._world.run_id = run_id  # what follows from public data is the same in all runs
        try:
            simulation.run()
        finally:
            simulation.close()
    return found, opened[owners[0]] if owners else []


def _vectors(message: Message, bits: int) -> Iterator[NDArray[np.uint64]]:
    for field in message.__struct_fields__:
        data = getattr(message, field)
        if isinstance(data, bytes):
            count = 8 * len(data) // bits
            if count >= _FEWEST and packed_bytes(count, bits) == len(data):
                (words,) = read(data, [count], bits)
                yield words.astype(np.uint64)


def not_random(vectors: Sequence[tuple[str, NDArray[np.uint64]]], modulus: int) -> str:
    """Return the problem with masked `vectors` of words modulo `modulus`; "" if they and their differences look
    random."""
    for where, words in vectors:
        if _share_close(words, modulus) > _MOST:
            return f"the words in {where} are close to 0: they are not masked"
    for (one, first), (other, second) in combinations(vectors, 2):
        if len(first) == len(second) and _share_close(_difference(first, second, modulus), modulus) > _MOST:
            return f"the words in {one} and in {other} have the same mask"
    return ""


def seed_in_the_open(vector: tuple[str, NDArray[np.uint64]], texts: Sequence[bytes], bits: int, modulus: int) -> str:
    """Return the problem if 32 bytes in a row of one of the `texts` are the seed of the mask of `vector`, with words of
    `bits`; "" if none are.

    The mask is the one of `SumSettings.mask`. Another way to make one is not tried.
    """
    where, words = vector
    words = words[:_FEWEST]
    for text in texts:
        for start in range(len(text) - KEY_BYTES + 1):
            (mask,) = masks([(text[start : start + KEY_BYTES], True)], [(0, len(words))], bits)
            if _share_close(_difference(words, mask.astype(np.uint64), modulus), modulus) > _MOST:
                return f"the seed of the mask in {where} is sent in the open"
    return ""


def _difference(first: NDArray[np.uint64], second: NDArray[np.uint64], modulus: int) -> NDArray[np.uint64]:
    if modulus == 1 << 64:
        return first - second  # modulo 2^64
    return (first + np.uint64(modulus) - second % np.uint64(modulus)) % np.uint64(modulus)


def _share_close(words: NDArray[np.uint64], modulus: int) -> float:
    near = np.uint64(modulus // _CLOSE)
    return float(np.mean((words < near) | (words > np.uint64(modulus - 1) - near)))
