"""The party `helper` of a sum that two servers take, and what clients seal for it.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| helper.key | HelperCalled | server -> helper | 0 | a round begins |
| helper.key | KeyOfHelper | helper -> server | 32 | the public key of the helper for this round |
| helper.key | HelperReady | server -> each client | 32 | the same key |

A helper serves one round after another. The server opens each of them, and dismisses the helper if one ends early.

Security: semi-honest. The server relays the key unchanged: one that swaps it can open what is sealed.

A text is sealed by X25519 with a fresh pair, HKDF-SHA256 and AES-256-GCM, and bound to the run, the round and the
client. The construction is that of HPKE's base mode (RFC 9180); the encoding is not. The helper makes a key for each
round, so it cannot open a text of another round.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tacit.parties.client import Client, DismissedError
from tacit.parties.fleet.fleet import HELPER
from tacit.parties.life import Observed
from tacit.parties.party import NoAnswer, Party
from tacit.parties.server import Dismissed, Server
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, derive_key
from tacit.protocols.crypto.sealing import NONCE_BYTES, TAG_BYTES
from tacit.protocols.outcome import Abort, Overtaken
from tacit.protocols.parts import Among, Part, Step
from tacit.protocols.values import BadValues
from tacit.sim.hollow import blank, hollow
from tacit.sim.streams import derive
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = [
    "SEALING_BYTES", "Helper", "HelperCalled", "HelperKeys", "HelperReady", "KeyOfHelper", "SealingKey", "call_helper",
    "from_helper", "key_of_helper", "sealed_for",
]  # fmt: skip

SEALING_BYTES = KEY_BYTES + TAG_BYTES
"""The bytes by which a sealed text is longer than the text."""


class Helper(Party):
    """A second server. It serves one round after another, for `patience` virtual seconds at most.

    `opens`: the message of the server that opens a round. `ending` says how its latest round ended.
    """

    opens: type[Message]
    ending = Observed(lambda: "no batch was opened")
    interrupts: ClassVar[tuple[type[Message], ...]] = (Dismissed,)

    def __init__(
        self, world: World, patience: float, server: str = "server", name: str = HELPER, **access: Any
    ) -> None:
        super().__init__(world, name, **access)
        self.patience = patience
        self.server = self.authority = server
        self.until: float | None = None

    def interrupted(self, source: str, message: Message) -> None:
        assert isinstance(message, Dismissed)
        raise DismissedError(message)

    def state(self) -> dict[str, Any]:
        return super().state() | {"until": self.until}

    async def serve(self, opened: Any) -> None:
        """Do its part in the round that the message `opened`."""
        raise NotImplementedError(f"{type(self).__name__} does not say what a helper does")

    async def main(self) -> None:
        clock = self.world.loop.time
        end = self.until = clock() + self.patience if self.until is None else self.until
        while clock() < end:
            try:
                self.rest(True)
                opened = await self.recv(self.opens, self.server, end - self.since)
            except DismissedError:
                continue
            except NoAnswer:
                return
            self.rest(False)
            try:
                with self.unless((self.opens,), (self.server,), Overtaken()):
                    await self.serve(opened)
                self.ending = "completed"
            except DismissedError as dismissed:
                self.ending = f"dismissed: {dismissed.reason}"
            except Overtaken:
                self.ending = "its last batch was over before it was done"
            except NoAnswer as problem:
                self.ending = f"no answer from the server: {problem}"
            except BadValues as problem:
                self.ending = f"the server sent invalid values: {problem}"


async def from_helper(me: Server, kind: type[Any], deadline: float) -> Any:
    """The helper's answer. Raises Abort where it does not come, or where the helper says that it gives none."""
    try:
        return await me.recv(kind, HELPER, deadline)
    except NoAnswer:
        me.lose([HELPER], "it did not answer: the batch is over")
        raise Abort("the helper did not answer within {deadline:g} s", deadline=deadline) from None


# Its key of a round, for a sum of `tacit.protocols.sums.sum`


class HelperCalled(Message):
    announces: ClassVar[bool] = True


class KeyOfHelper(Message):
    key: bytes


class HelperReady(Message):
    in_round: ClassVar[bool] = True
    key: bytes


OF_HELPER = ("network.helper_bandwidth", "device.helper_speed", "device.helper_cores")
"""The keys of the helper's machine."""


class HelperKeys(Part):
    """The key that the helper makes for a round, as a part of a sum."""

    takes = (
        Step("server", "helper.key", "open the round with the helper, and hand out the helper's key"),
        Step("helper", "helper.key", "make the key of the round"),
    )
    messages = (HelperCalled, KeyOfHelper, HelperReady)
    uses = OF_HELPER

    def payloads(self, tables: Any, among: Among) -> Mapping[str, int]:
        return {"KeyOfHelper": KEY_BYTES, "HelperReady": KEY_BYTES * len(among.names)}

    def waits(self, tables: Any) -> int:
        return 1


async def call_helper(me: Server, names: Sequence[str], deadline: float) -> bytes:
    """Open the round with the helper; returns its public key, which `names` get, too. Raises Abort."""
    with me.step("helper.key"):
        me.send(HELPER, HelperCalled())
        key: bytes = (await from_helper(me, KeyOfHelper, deadline)).key
        me.broadcast(names, HelperReady(key))
    return key


async def key_of_helper(me: Client, deadline: float) -> bytes:
    """The helper's public key of the round, as the server hands it out. Raises NoAnswer."""
    return (await me.recv(HelperReady, me.server, 2 * deadline)).key


# What is sealed for the helper


class SealingKey:
    """The key of one round for which clients seal texts. `public`: its 32 bytes that clients need."""

    def __init__(self, pair: KeyPair) -> None:
        self._pair = pair

    @classmethod
    async def generate(cls, me: Party) -> "SealingKey":
        """Generate the key of `me` for the round that it is in."""
        return cls(await me.compute({"x25519.keygen": 1}, KeyPair.generate, me.entropy("sealing key")))

    @property
    def public(self) -> bytes:
        """The public key."""
        return self._pair.public

    async def open(self, me: Party, sealed: Mapping[str, bytes]) -> dict[str, bytes]:
        """The texts that clients have `sealed`, by client, without those that are not authentic."""
        bound = {name: _bound(me, name) for name in sealed}
        return await me.compute({"x25519.agree": len(sealed)}, _opened, self._pair, dict(sealed), bound)


async def sealed_for(me: Party, key: bytes, text: bytes) -> bytes:
    """Seal `text` for the owner of the public `key`, `SEALING_BYTES` longer. Raises ValueError for an invalid key."""
    pair = KeyPair.generate(me.entropy("sealed"))
    return await me.compute({"x25519.keygen": 1, "x25519.agree": 1}, _sealed, pair, key, text, _bound(me, me.name))


def _bound(me: Party, client: str) -> bytes:
    return derive(me.world.run_id, "sealed", me.round, client)


def _key(secret: bytes, ephemeral: bytes, key: bytes, bound: bytes) -> bytes:
    """The key of one sealed text: of one use, so its nonce is 0."""
    return derive_key(secret, ephemeral + key + bound, "sealed for the helper", 0, 0, ())


@hollow(lambda pair, key, text, bound: blank(len(text) + SEALING_BYTES))
def _sealed(pair: KeyPair, key: bytes, text: bytes, bound: bytes) -> bytes:
    secret = _key(pair.agree(key), pair.public, key, bound)
    return pair.public + AESGCM(secret).encrypt(bytes(NONCE_BYTES), text, bound)


@hollow(lambda pair, sealed, bound: {name: blank(len(one) - SEALING_BYTES) for name, one in sealed.items()})
def _opened(pair: KeyPair, sealed: Mapping[str, bytes], bound: Mapping[str, bytes]) -> dict[str, bytes]:
    found = {}
    for name, one in sealed.items():
        ephemeral, text = one[:KEY_BYTES], one[KEY_BYTES:]
        try:
            secret = _key(pair.agree(ephemeral), ephemeral, pair.public, bound[name])
            found[name] = AESGCM(secret).decrypt(bytes(NONCE_BYTES), text, bound[name])
        except (InvalidTag, ValueError):
            continue
    return found
