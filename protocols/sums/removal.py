"""Removal of noise from a secure sum: clients of U3 reveal the seeds of noise that was added for losses.

| who | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| client, with Revealed | NoiseSeeds | j in U3 -> server | 16 for each seed | seeds of the parts that are not needed |

Each client adds noise for T lost clients, in parts (`privacy.removable`). n = |A|, D = n - |U3|. A client reveals seeds
only together with its shares, so only for the one U3 for which it answers in an attempt, and with signed sets only
after enough clients have signed that U3: no honest client reveals for a second D. For that, signatures must withstand
the C clients whose noise does not count, one at least, so scenarios that tolerate losses state no smaller C. It refuses
an A of fewer than T + C + 2 clients, and an U3 of fewer than n - T before any share. A client that crashed reveals
nothing more.

The server waits for all of U3 for at most half a deadline and subtracts the noise of the revealed parts. A client that
does not reveal leaves its noise in, which costs accuracy and no privacy. Seeds that were not received may only be late,
so what is left in is never counted for anybody's privacy.

The noise of a client is drawn once, when it first masks in a round; chunks that are sent again have the same noise.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.parts import Among, Part
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.removable import SEED_BYTES, Seeds
from tacit.protocols.sums.dealing import Dealt
from tacit.protocols.sums.masking import Ring
from tacit.protocols.sums.refusal import refuse
from tacit.protocols.values import understood
from tacit.sim.wire import Message

__all__ = ["NoiseSeeds", "Removal", "carried", "noisy", "without_noise"]


class NoiseSeeds(Message):
    seeds: bytes


def carried(me: Client, dealt: Dealt, noise: Distributed) -> bool:
    """True if `noise` is made for the clients of A; then U3 needs n - T of them. If not, the trace says why."""
    n = len(dealt.names)
    if noise.fewest <= n <= noise.clients:
        dealt.fewest = max(dealt.fewest, noise.least_left(n))
        return True
    refuse(me, f"take part in a sum: noise is made for {noise.fewest} to {noise.clients} clients, not for {n}")
    return False


async def noisy(me: Client, vector: NDArray[Any], dealt: Dealt, noise: Distributed) -> NDArray[np.uint64]:
    """The words of `vector` (numbers,) with the noise of `me` in this attempt, whose seeds it reveals with its shares.

    Call it once an attempt, before the first words are sent.
    """
    parts = noise.parts(len(dealt.names))
    seeds = Seeds.drawn(parts, me.entropy("seeds of noise"))
    dealt.then = partial(_reveal, me, seeds, len(dealt.names))
    words: NDArray[np.uint64] = await me.compute(noise.draws_work(len(parts.variances)), noise.words, vector, seeds)
    return words


def _reveal(me: Client, seeds: Seeds, clients: int, survivors: Sequence[str]) -> None:
    """Reveal the seeds of the parts that are not needed if `survivors` of this number of `clients` are left."""
    if revealed := seeds.revealed(clients - len(set(survivors))):
        me.send(me.server, NoiseSeeds(revealed))


async def without_noise(
    me: Server, names: Sequence[str], survivors: Sequence[str], ring: Ring, noise: Distributed, deadline: float
) -> Ring:
    """Subtract from `ring`, the sum over U3 = `survivors` of A = `names`, the noise that is not needed."""
    parts, lost = noise.parts(len(names)), len(names) - len(survivors)
    due = SEED_BYTES * parts.seeds_revealed(lost)
    if not due:
        return ring

    def seeds_of(name: str, answer: NoiseSeeds) -> bytes:
        if len(answer.seeds) != due:
            raise ValueError(f"seeds of {len(answer.seeds)} bytes, not {due}")
        return answer.seeds

    answers = (await me.collect(NoiseSeeds, survivors, deadline=deadline / 2)).answers
    revealed = understood(me, answers, seeds_of)
    if silent := [name for name in survivors if name not in revealed]:
        note = f"noise is left in: seeds of {', '.join(silent)} were not received"
        me.world.note("drop", me.name, step=me.step_name, note=note)
    work = noise.draws_work(len(revealed) * len(parts.removed(lost)))
    shown = [revealed[name] for name in survivors if name in revealed]
    found: Ring = await me.compute(work, noise.removed, ring, parts, lost, shown)
    return found


class Removal(Part):
    """The removal of noise as a part of a round of training with `round.Called`."""

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        settings: Any = getattr(among, "settings", None)  # those of a round of training
        noise = settings and settings.private and settings.private.noise
        n = len(among.names)
        if noise is None or not noise.fewest <= n <= noise.clients:
            return {}
        return {"NoiseSeeds": n * SEED_BYTES * noise.parts(n).seeds_revealed(0)}

    def waits(self, tables: Any) -> int:
        return 1
