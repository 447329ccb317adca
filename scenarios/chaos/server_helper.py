"""A lying server asks the helper of a sum: for a second set of clients, for too few, and with one client's content.

A helper adds the secrets of one set of clients in a round, of no fewer than the sum's least. Two sets differ by a few
clients' vectors, and a smaller set shows more than a sum may. All parties run their production code, in miniature. The
server's requests to the helper are changed by the clients that they name, whatever the sum computes.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from msgspec import structs

from tacit.parties.fleet.fleet import HELPER
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play
from tacit.parties.server import Dismissed
from tacit.protocols.outcome import Abort
from tacit.protocols.sums.helper import HelperKeys
from tacit.protocols.sums.lying.base import DEADLINE
from tacit.protocols.values import BadValues
from tacit.scenarios.chaos.miniature import Miniature
from tacit.scenarios.chaos.server_world import Calling, Contributor, FreshWorld, contribute, inputs_of
from tacit.sim.compute import Free
from tacit.sim.wire import Message, Packet
from tacit.sim.world import World

__all__ = ["TRICKS", "ask_helper"]

_OF_KEYS = tuple(HelperKeys.messages)  # they precede the sum

TRICKS = {
    "second": "asks for a second set of clients",
    "fewer": "asks for fewer clients than the least",
    "copied": "puts the content of one client under every name",
}
"""The changes of one request of the server to the helper. All but the first take the request's place."""


def ask_helper(miniature: Miniature) -> tuple[int, str]:
    """Run the sum of `miniature` once for each of the `TRICKS` in each request to the helper that names clients.

    Returns the number of requests that were changed, and what is wrong, or "". The helper may not answer a changed one.
    """
    honest = _Run(miniature)
    if honest.problem or not honest.answers:
        return 0, honest.problem or "with an honest server the helper gives no answer"
    least = miniature.lying.sum.least_of(miniature.settings)
    tried = 0
    for place, request in enumerate(honest.requests):
        for trick, words in TRICKS.items():
            if _changed(request, trick, miniature.names, least) is None:
                continue
            tried += 1
            run = _Run(miniature, place, trick, least)
            if run.problem:
                return tried, f"a server that {words}: {run.problem}"
            if not run.reached:
                return tried, f"a server that {words}: its request did not reach the helper: nothing was tried"
            if more := len(run.answers) - (len(honest.answers) if trick == "second" else run.before):
                kinds = ", ".join(dict.fromkeys(run.answers[-more:])) if more > 0 else ""
                if kinds:
                    return tried, f"a server that {words} in {type(request).__name__}: the helper answers with {kinds}"
    return tried, ""


class _Run:
    """A run with one request changed by a `trick`, or an honest one.

    `requests` to the helper; the types of its `answers`, of which it gave the first ones `before` the changed request
    was sent; `reached`: true if that was delivered; `problem`: the failure of a program, or "".
    """

    def __init__(self, miniature: Miniature, place: int = -1, trick: str = "", least: int = 0) -> None:
        self.requests: list[Message] = []
        self.answers: list[str] = []
        self.before, self.reached, self.problem = 0, False, ""
        self.miniature, self.place, self.trick, self.least = miniature, place, trick, least
        self._due = 0  # requests that are on their way
        world = FreshWorld(miniature.seed, cost=Free(), hashed=False)
        values = inputs_of(miniature)
        clients = [Contributor(world, name, values, miniature, contribute) for name in miniature.names]
        server = _Asking(world, miniature, self)
        world.taps.sent.append(self._sent)
        world.taps.delivered.append(self._delivered)
        try:
            world.loop.run(play([server, *server.lying.helpers(world), *clients], server))
        except Exception as error:
            if server.failure is not None:
                raise
            self.problem = f"a program fails: {type(error).__name__}: {error}"
        finally:
            world.loop.finish()

    def asked(self, request: Message) -> list[Message]:
        """The messages that the server sends to the helper in the place of `request`."""
        self.requests.append(request)
        if len(self.requests) != self.place + 1 or not self.trick:
            return [request]
        changed = _changed(request, self.trick, self.miniature.names, self.least)
        self.before = len(self.answers)
        if changed is None:
            return [request]
        sent = [request, changed] if self.trick == "second" else [changed]
        self._due = len(sent)
        return sent

    def _sent(self, packet: Packet) -> None:
        if packet.sender == HELPER and packet.type not in {one.__name__ for one in _OF_KEYS}:
            self.answers.append(packet.type)

    def _delivered(self, time: float, packet: Packet) -> None:
        if self._due and packet.receiver == HELPER and packet.type == type(self.requests[self.place]).__name__:
            self._due -= 1
            self.reached = not self._due


class _Asking(Calling):
    """The production server, whose requests to the helper a `run` sees and changes."""

    def __init__(self, world: World, miniature: Miniature, run: _Run) -> None:
        super().__init__(world, miniature.names)
        self.miniature, self.lying, self.aborts, self._run = miniature, miniature.lying, [], run

    async def main(self) -> None:
        with suppress(Abort, NoAnswer, BadValues):
            await self.lying.serve(self, await self.call(1, 1, self.miniature.min_clients))
        await self.world.loop.hold(DEADLINE)  # a late answer counts, too

    def send_each(self, receivers: Iterable[str], message: Message) -> None:
        receivers = tuple(receivers)
        if receivers != (HELPER,) or isinstance(message, (*_OF_KEYS, Dismissed)):
            super().send_each(receivers, message)
            return
        for one in self._run.asked(message):
            super().send_each(receivers, one)


def _changed(request: Message, trick: str, names: Sequence[str], least: int) -> Message | None:
    """`request` by the `trick`; None if it names no clients, or too few for a second set.

    Clients are named by the keys of a map, or by a list of names, beside which other lists have an entry for each.
    """
    fields: dict[str, Any] = {key: getattr(request, key) for key in request.__struct_fields__}
    named = next((list(one) for one in fields.values() if _names_some(one, names)), [])
    count = {"second": len(named) - 1, "fewer": least - 1, "copied": len(named)}[trick]
    if len(named) <= least or count < 1:
        return None
    changed: dict[str, Any] = {}
    for key, one in fields.items():
        if _names_some(one, names) and isinstance(one, dict):
            copied = dict.fromkeys(one, next(iter(one.values())))
            changed[key] = copied if trick == "copied" else {name: one[name] for name in named[:count] if name in one}
        elif isinstance(one, list) and len(one) == len(named):
            is_copied = trick == "copied" and not _names_some(one, names)
            changed[key] = [one[0]] * len(one) if is_copied else one[:count]
    if all(changed[key] == fields[key] for key in changed):
        return None
    return structs.replace(request, **changed)


def _names_some(content: Any, names: Sequence[str]) -> bool:
    return isinstance(content, dict | list) and bool(content) and all(one in names for one in content)
