"""A lying server of sums in a field whose clients sign the survivors before they open a sum."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.server import Server
from tacit.protocols.crypto.mersenne import GF31, Elements
from tacit.protocols.setup import Group
from tacit.protocols.sums import consistency
from tacit.protocols.sums.lying.base import SHORT, Lying, Setting, Values
from tacit.protocols.sums.sum import Sum
from tacit.sim.wire import Message

__all__ = ["LyingToSigners", "numbers"]


def numbers(values: Values) -> Elements:
    """Real `values` of magnitude 1 at most as numbers of a field, for sums in that field."""
    return np.rint((values.reshape(-1) + 1) * (1 << 20)).astype(np.uint64)


class LyingToSigners(Lying):
    """A lying server of a sum in a field whose clients sign; those that collude sign whatever they are shown."""

    scripts = True

    def __init__(self, setting: Setting, kind: type[Sum] | None = None) -> None:
        super().__init__(setting, kind)
        self._signatures: dict[tuple[int, tuple[str, ...], tuple[str, ...]], dict[str, bytes]] = {}

    @property
    def word_bits(self) -> int:
        return GF31.bits

    def encoded(self, values: Values) -> NDArray[Any]:
        return numbers(values)

    def group(self, me: Any) -> Group:
        """The clients of the last round of `me`."""
        group: Group = me.group
        return group

    async def begin(self, me: Server, names: list[str], to: list[str]) -> None:
        sum_ = self.sum
        me.broadcast(to, sum_.requests.others[0]())
        await me.collect(sum_.masked[0], to, deadline=SHORT)

    async def sign(
        self,
        me: Server,
        signers: tuple[str, ...],
        collude: Sequence[str],
        statement: tuple[Sequence[str], Sequence[str]],
        to: list[str],
        answer: type[Message],
    ) -> None:
        """Collect the `signers`' signatures on `statement`, let those that `collude` sign too, and send `to` all its
        signatures so far.

        `statement`: the clients that sign, and the survivors. `answer`: the message that opens the sum.
        """
        among, survivors = map(tuple, statement)
        group = self.group(me)
        signed = self._signatures.setdefault((me.attempt, signers, survivors), {})
        for machine in map(self.parties.__getitem__, collude):
            keys = machine.group.identities
            if keys is not None and machine.group.digest == group.digest and machine.attempt == me.attempt:
                signed[machine.name] = await consistency.signature_of(machine, keys, among, survivors)
        honest = [name for name in signers if name not in collude]
        found = await me.collect(consistency.Agreed, honest, deadline=SHORT)
        signed |= {name: answer.signature for name, answer in found.answers.items()}
        known = {name: signature for name, signature in signed.items() if name in signers}
        me.broadcast(to, consistency.Agreement([signers.index(name) for name in known], list(known.values())))
        await me.collect(answer, to, deadline=SHORT)
