"""Oblivious transfer 1 of 2 in batches: of two messages the receiver gets one, the sender never learns which.

| message | from -> to | bytes | what |
| --- | --- | --- | --- |
| set-up | sender -> receiver | 2 e | C, uniform in the group; g^r |
| request | receiver -> sender | e a transfer | PK_0, where PK_s = g^k and PK_{1-s} = C / PK_s |
| reply | sender -> receiver | 2 ceil(u / 8) a transfer | M_0 + pad_0, M_1 + pad_1 (exclusive or) |

s is the receiver's choice, k its fresh exponent, e the bytes of an element, u the bits of a message. r serves the whole
batch. The pads are hashes of PK_0^r and PK_1^r = C^r / PK_0^r; the receiver knows PK_s^r = (g^r)^k. In a *random*
transfer there is no reply: the pads themselves are the messages (as seeds for an extension).

pad_b = SHA-256(label, context, index, b, PK_b^r), in counter mode beyond 32 bytes. `context` names the run, round,
attempt and pair, `index` counts through the batch: no two transfers share a pad.

Source: M. Naor, B. Pinkas, "Efficient oblivious transfer protocols", SODA 2001, protocol 3.1.

Security: semi-honest. PK_0 is uniform whatever the choice, so the sender learns nothing, whatever it can compute
(with short exponents: as long as it cannot distinguish g^k from a uniform element). The receiver knows the discrete
logarithm of one of PK_0, PK_1 only, since it does not know that of C; the other pad hides its message under the
computational Diffie-Hellman assumption, SHA-256 being a random oracle. Every element that arrives is checked to be in
the group.

All functions are pure; what they need to keep is plain and can be pickled.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.crypto.groups import Group
from tacit.sim.streams import Entropy

__all__ = [
    "Request",
    "SenderKey",
    "draw",
    "receive",
    "receiver_pads",
    "receiver_pads_work",
    "request",
    "request_work",
    "send",
    "send_work",
    "sender_pads",
    "setup",
    "setup_work",
]

Pads = NDArray[np.uint8]

_LABEL = b"tacit/naor-pinkas/v1"
_DIGEST = 32


@dataclass(frozen=True)
class SenderKey:
    """The sender's state for a batch: r, and C^r as the group encodes it."""

    group: Group
    context: bytes
    exponent: int = field(repr=False)
    product: bytes = field(repr=False)


@dataclass(frozen=True)
class Request:
    """The receiver's state for its requests: choices s and exponents k, one for each transfer."""

    choices: NDArray[np.bool_] = field(repr=False)
    exponents: Sequence[int] = field(repr=False)

    def __post_init__(self) -> None:
        if self.choices.shape != (len(self.exponents),):
            raise ValueError(f"{len(self.exponents)} exponents do not fit choices of shape {self.choices.shape}")


def setup(group: Group, context: bytes, entropy: Entropy) -> tuple[SenderKey, bytes]:
    """Sender: start a batch.

    `context` must be new for each batch. Returns the state to keep, and the set-up message.
    """
    constant, r = group.random_element(entropy), group.random_exponent(entropy)
    message = group.encode(constant) + group.encode(group.generator_power(r))
    return SenderKey(group, context, r, group.encode(group.power(constant, r))), message


def draw(group: Group, choices: NDArray[np.bool_], entropy: Entropy) -> Request:
    """Receiver: decide on `choices` (bool, one for each transfer) and draw their exponents."""
    choices = np.asarray(choices, dtype=np.bool_)
    return Request(choices, [group.random_exponent(entropy) for _ in range(len(choices))])


def request(group: Group, setup_message: bytes, kept: Request) -> bytes:
    """Receiver: the message that requests the chosen messages.

    Raises ValueError unless the set-up message consists of two elements.
    """
    constant, _ = _decode_all(group, setup_message, 2, "set-up")
    own = [group.generator_power(exponent) for exponent in kept.exponents]
    places = np.flatnonzero(kept.choices).tolist()
    for place, other in zip(places, group.quotients(constant, [own[place] for place in places]), strict=True):
        own[place] = other
    return b"".join(map(group.encode, own))


def receiver_pads(group: Group, context: bytes, setup_message: bytes, kept: Request, size: int, first: int = 0) -> Pads:
    """Receiver: the pad of `size` bytes of the chosen message of each transfer, uint8 (transfers, size).

    `first`: the index in the batch of the first of these transfers. Raises ValueError like `request`.
    """
    _, power = _decode_all(group, setup_message, 2, "set-up")
    table = group.table(power, len(kept.exponents))
    expand = _Expander(group, context, size)
    choices = kept.choices.tolist()
    powers = table.powers(kept.exponents)
    return expand.array(
        expand.pad(first + i, choice, power) for i, (choice, power) in enumerate(zip(choices, powers, strict=True))
    )


def sender_pads(key: SenderKey, request_message: bytes, size: int, first: int = 0) -> Pads:
    """Sender: both pads of each transfer requested, uint8 (transfers, 2, size).

    `first`: index in the batch of the first of these transfers. Raises ValueError, naming the transfer, for a key that
    is no element of the group.
    """
    group = key.group
    count, rest = divmod(len(request_message), group.element_bytes)
    if rest:
        raise ValueError(f"a request is made of elements of {group.element_bytes} bytes, not {len(request_message)}")
    product = group.decode(key.product)
    expand = _Expander(group, key.context, size)
    keys = _decode_all(group, request_message, count, "request", first)
    powers = group.powers(keys, key.exponent)
    pads = []
    for index, (power, other) in enumerate(zip(powers, group.quotients(product, powers), strict=True), first):
        pads += [expand.pad(index, False, power), expand.pad(index, True, other)]
    return expand.array(pads).reshape(count, 2, size)


def send(key: SenderKey, request_message: bytes, messages: Pads, first: int = 0) -> bytes:
    """Sender: the reply that carries `messages`, uint8 (transfers, 2, size). Raises ValueError like `sender_pads`."""
    pads = sender_pads(key, request_message, messages.shape[-1], first)
    if messages.shape != pads.shape:
        raise ValueError(f"a request for {len(pads)} transfers does not fit messages of shape {messages.shape}")
    return (messages ^ pads).tobytes()


def receive(choices: NDArray[np.bool_], pads: Pads, reply: bytes) -> Pads:
    """Receiver: the chosen messages, uint8 (transfers, size). Raises ValueError when the reply's length is wrong."""
    if len(reply) != 2 * pads.size:
        raise ValueError(f"a reply to {len(pads)} requests takes {2 * pads.size} bytes, not {len(reply)}")
    masked = np.frombuffer(reply, np.uint8).reshape(len(pads), 2, pads.shape[1])
    return masked[np.arange(len(pads)), np.asarray(choices, np.intp)] ^ pads


def _decode_all(group: Group, data: bytes, count: int, name: str, first: int = 0) -> list[Any]:
    """Decode `count` elements. Raises ValueError that names the first invalid one."""
    size = group.element_bytes
    if len(data) != count * size:
        raise ValueError(f"{count} elements of {group.name} take {count * size} bytes, not {len(data)}")
    elements = []
    for i in range(count):
        try:
            elements.append(group.decode(data[i * size : (i + 1) * size]))
        except ValueError as error:
            raise ValueError(f"{name}, element {first + i}: {error}") from None
    return elements


class _Expander:
    """Expands group elements to pads of `size` bytes."""

    def __init__(self, group: Group, context: bytes, size: int) -> None:
        if size < 1:
            raise ValueError(f"size(={size}) must be >= 1 byte")
        self._group, self._size = group, size
        self._state = hashlib.sha256(_LABEL + len(context).to_bytes(8, "big") + context)

    def pad(self, index: int, branch: bool, element: Any) -> bytes:
        seed = index.to_bytes(8, "big") + bytes([branch]) + self._group.encode(element)
        pad = b""
        for block in range(-(-self._size // _DIGEST)):
            state = self._state.copy()
            state.update(block.to_bytes(4, "big") + seed)
            pad += state.digest()
        return pad[: self._size]

    def array(self, pads: Any) -> Pads:
        return np.frombuffer(b"".join(pads), np.uint8).reshape(-1, self._size)


def setup_work(group: Group) -> dict[str, int]:
    """The operations of `setup`. random-element: drawing C."""
    names = {"random-element": 1, "power": 1, "generator-power": 1, "encode": 3}
    return {f"{group.name}.{name}": times for name, times in names.items()}


def request_work(group: Group, count: int) -> dict[str, int]:
    """The operations of `draw` and `request` for `count` transfers, half of which choose 1.

    generator-power: g^k, including drawing k. divide: of two elements. encode, decode: to and from bytes, with the
    check.
    """
    work = {"generator-power": count, "divide": count // 2, "encode": count, "decode": 2}
    return {f"{group.name}.{name}": times for name, times in work.items()}


def receiver_pads_work(group: Group, count: int, size: int) -> dict[str, int]:
    """The operations of `receiver_pads`.

    multiply: a product by an entry of a table, or a squaring. table-entry: a product that becomes an entry.
    table-power: the digits of an exponent. pad-block: one hash.
    """
    comb = group.comb(count)
    work = {
        "table-entry": comb.entries + comb.bits,
        "table-power": count,
        "multiply": count * (comb.products + comb.squarings),
        "encode": count,
        "decode": 2,
        "pad-block": count * -(-size // _DIGEST),
    }
    return {f"{group.name}.{name}": times for name, times in work.items()}


def send_work(group: Group, count: int, size: int) -> dict[str, int]:
    """The operations of `sender_pads` or `send`. power: element^r."""
    work = {
        "power": count,
        "divide": count,
        "encode": 2 * count,
        "decode": count + 1,
        "pad-block": 2 * count * -(-size // _DIGEST),
    }
    return {f"{group.name}.{name}": times for name, times in work.items()}
