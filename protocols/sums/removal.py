"""Removal of noise from a secure sum: clients of U3 reveal the seeds of noise that was added for losses.

| who | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| server | SignedSurvivors | server -> each in U3 | (n + m) / 8 + 64 q | U3, as q members signed it |
| client | NoiseSeeds | j in U3 -> server | 16 for each seed | seeds of the parts that are not needed |

Each client adds noise for T lost clients, in parts (`privacy.removable`). D = n - |U3| is the number of lost clients,
and n the size of the set that is signed together with U3: A where clients deal keys among A, all clients of the set-up
in other sums.

Clients reveal seeds for this U3, depending on the sum:

- `secure`, `lightsecagg`: each client of U3 signs it, and reveals together with its shares, for the U3 of its shares.
- `committee`, `flamingo`: a few members sign U3. After q of them have, the server shows each client of U3 the set with
  the q signatures, and a client reveals once it has checked them (SignedSurvivors). Members do the same.
- `secagg+`: clients see their neighbours alone, and reveal nothing: noise is made for the smallest set
  (`components = "none"`), of which the server says that it is no smaller. It must be honest for that.

Two sets cannot both have enough signatures while at most C clients sign whatever the server likes, so no honest client
reveals for a second D. A client also reveals once a round at most, which its disk remembers. The signatures must
therefore be by long-term keys, as the server could replace keys of the round, and they must withstand the C clients
whose noise does not count, one at least. `check` refuses other settings at every party. A client refuses a set of fewer
than T + C + 2 clients, and an U3 of fewer than n - T before it reveals any share. A client that crashed reveals nothing
more.

The server waits for all of U3 for at most half a deadline and subtracts the noise of the revealed parts. A client that
does not reveal leaves its noise in, which costs accuracy and no privacy. Seeds that were not received may only be late,
so what is left in is never counted for anybody's privacy. A client that reveals seeds of other noise than it has added
spoils the sum unseen, as with any other wrong input.

The noise of a client is drawn once, when it first masks in a round; chunks that are sent again have the same noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols.crypto import quorum
from tacit.protocols.crypto.masking import Ring
from tacit.protocols.crypto.words import packed_bytes
from tacit.protocols.identities import SIGNATURE_BYTES, Identities
from tacit.protocols.outcome import Reason, require
from tacit.protocols.parts import Among, Part, Step, Taken
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.removable import SEED_BYTES, Seeds
from tacit.protocols.privacy.spent import Carried
from tacit.protocols.sums.sum import Requests, Sum, SumSettings
from tacit.protocols.values import understood
from tacit.sim.wire import Message

__all__ = [
    "NO_BUDGET", "REVEAL", "NoiseSeeds", "Removal", "Revealing", "SignedSurvivors", "asked", "carried", "check",
    "check_sum", "counted", "fewest_left", "least_left", "noisy", "removed_bytes", "require_carried", "without_noise",
]  # fmt: skip

REVEAL = Step("client", "noise.reveal", "check who signed the survivors, and reveal seeds of noise that is not needed")

NO_BUDGET = "take part in a sum: epsilon would be {epsilon:.4g}, above {budget:g}"
"""The kind of what a client refuses whose budget is used up."""

Revealing = Callable[[Sequence[str]], None]
"""Reveals the seeds of a client for a set of survivors, once a round."""


class SignedSurvivors(Message):
    members: bytes
    clients: bytes
    places: list[int]
    incarnations: list[int]
    signatures: list[bytes]


class NoiseSeeds(Message):
    reveals_noise: ClassVar[bool] = True
    seeds: bytes


def asked(requests: Requests, noise: Distributed | None) -> Requests:
    """The `requests` of a sum in which few clients sign the survivors, with SignedSurvivors if noise is removed."""
    if noise is None or not noise.removes:
        return requests
    return replace(requests, others=(*requests.others, SignedSurvivors))


def check(noise: Distributed | None, identities: Identities | None, colluding: int | None) -> None:
    """Raise ValueError if `noise` is removed, but the signatures on survivors do not suffice for it.

    `identities`: the long-term keys that sign the survivors, if any. `colluding`: how many clients may sign whatever
    the server likes without two sets having enough signatures; None: that follows from how many clients join.
    """
    if noise is None or not (noise.tolerated or noise.excess != "refuse"):
        return
    if identities is None and not noise.removes and noise.excess == "refuse":
        return
    if identities is None:
        raise ValueError(
            "noise is removed only where clients sign the survivors with long-term keys: without them a server names "
            'other survivors to each client, and removes noise that is needed; use components = "none"'
        )
    if colluding is None or colluding < noise.colluding:
        problem = f"signatures withstand {colluding} colluding clients"
        raise ValueError(f"{problem}, and noise of {noise.colluding} does not count: they must be as many.")


def check_sum(one: Sum, settings: SumSettings) -> None:
    """Raise ValueError as `check` does, for a sum whose signatures withstand the C of its own tolerance."""
    check(one.noise, one.identities, max(1, one.tolerance.of(settings.called).colluding))


def least_left(noise: Distributed | None, clients: int, least: int) -> int:
    """The fewest survivors of n = `clients` that a sum may have: `least`; with `noise` at least n - T."""
    return least if noise is None else max(least, noise.least_left(clients))


def fewest_left(noise: Distributed, clients: int, threshold: int, signed: bool) -> int:
    """The least size of U3 to which a client reveals shares, so that a sum is over at least n - T of n = `clients`.

    It is n - T where U3 is `signed`, as only one U3 has enough signatures. Otherwise it may be larger, as a server may
    show each client another U3 (`quorum.fewest_left`).
    """
    least = noise.least_left(clients)
    return least if signed else quorum.fewest_left(clients, threshold, least, noise.colluding)


def carried(me: Client, clients: int, noise: Distributed | None) -> bool:
    """True if `me` may take part: any `noise` fits n = `clients` and its budget. If not, the trace says why."""
    if noise is not None and noise.ends:
        me.refuse(Reason(NO_BUDGET, epsilon=noise.spent_with_another, budget=noise.epsilon))
        return False
    if noise is None or noise.fewest <= clients <= noise.clients:
        return True
    me.refuse(f"take part in a sum: noise is made for {noise.fewest} to {noise.clients} clients, not for {clients}")
    return False


def require_carried(clients: int, noise: Distributed | None) -> None:
    """Raise Abort if there are fewer `clients` than `noise`, if any, is made for."""
    if noise is not None:
        require(clients, "clients", noise.fewest, "the least, with noise for lost clients,")


async def noisy(
    me: Client, vector: NDArray[Any], clients: int, noise: Distributed | None
) -> tuple[NDArray[Any], Revealing | None]:
    """The words of `vector` (numbers,) plus the noise of `me` for n = `clients`, and a function that reveals its seeds.

    Call it once a round, before the first words are sent. Without `noise` it returns the vector unchanged, and None.
    """
    if noise is None:
        return vector, None
    parts = noise.parts(clients)
    seeds = Seeds.drawn(parts, me.entropy("seeds of noise"))
    _count(me, noise, noise.left(clients, noise.least_left(clients)))
    words: NDArray[np.uint64] = await me.compute(noise.draws_work(len(parts.variances)), noise.words, vector, seeds)
    return words, partial(_reveal, me, noise, seeds, clients)


def _reveal(me: Client, noise: Distributed, seeds: Seeds, clients: int, survivors: Sequence[str]) -> None:
    """Send the server the seeds of the parts of noise that are not needed if `survivors` of n = `clients` are left."""
    left = len(set(survivors))
    if not noise.least_left(clients) <= left <= clients:
        me.refuse(f"reveal seeds of noise: {clients - left} of {clients} clients are lost, more than may be")
    elif me.once_a_round("noise.reveal", "reveal seeds of noise: it has"):
        _count(me, noise, noise.left(clients, left))
        if revealed := seeds.revealed(noise.removable(clients, left)):
            me.send(me.server, NoiseSeeds(revealed))


_COUNTED = "noise of sums"  # on a client's disk


def _count(me: Client, noise: Distributed, variance: int) -> None:
    """With `excess` = "end", store the `variance` with which this sum counts, after those of the sums `before`."""
    if noise.excess == "end":
        me.disk[_COUNTED] = (*noise.before, variance)


def counted(me: Client) -> tuple[int, ...]:
    """The stored variances of noise, one for each sum in which `me` has masked values (`Distributed.before`)."""
    found: tuple[int, ...] = me.disk.get(_COUNTED, ())
    return found


async def without_noise(
    me: Server, clients: int, survivors: Sequence[str], ring: Ring, noise: Distributed | None, deadline: float
) -> tuple[Ring, Carried | None]:
    """The sum without the noise that is not needed, and the noise that it still carries, if any.

    `ring`: the sum over U3 = `survivors` of n = `clients`, who are asked for the seeds of their noise.
    """
    if noise is None:
        return ring, None
    left = len(survivors)
    due = removed_bytes(noise, clients, left)
    if not due:
        return ring, noise.carried(clients, left, left)
    parts, lost = noise.parts(clients), noise.removable(clients, left)

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
    return found, noise.carried(clients, left, len(shown))


def removed_bytes(noise: Distributed | None, clients: int, left: int) -> int:
    """The bytes of seeds that each survivor reveals if this number of `clients` is `left`; 0 without any removal."""
    if noise is None or not noise.removes:
        return 0
    return SEED_BYTES * noise.parts(clients).seeds_revealed(noise.removable(clients, left))


class Removal(Part):
    """The removal of noise as a part of a round of training with `round.Called`.

    `few_sign`: the server shows clients the survivors with the signatures of a few members.
    """

    def __init__(self, few_sign: bool = False) -> None:
        self._few_sign = few_sign

    @property
    def takes(self) -> Sequence[Taken]:
        return (REVEAL,) if self._few_sign else ()

    @property
    def messages(self) -> Sequence[type[Message]]:
        return (SignedSurvivors, NoiseSeeds) if self._few_sign else (NoiseSeeds,)

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        settings: Any = getattr(among, "settings", None)  # those of a round of training
        noise = settings and settings.private and settings.private.noise
        n = len(among.names)
        if noise is None or not noise.fewest <= n <= noise.clients:
            return {}
        if not (seeds := n * removed_bytes(noise, n, n)):
            return {}
        found = {"NoiseSeeds": seeds}
        if self._few_sign:
            members, signatures = among.sum.signing(n)
            sets = packed_bytes(n, 1) + packed_bytes(members, 1)
            found["SignedSurvivors"] = n * (sets + signatures * SIGNATURE_BYTES)
        return found

    def waits(self, tables: Any) -> int:
        return 1
