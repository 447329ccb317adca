"""Oblivious transfers per second, both parties on one core, with messages of 16 bytes. Every result is checked once."""

from collections.abc import Sequence

import numpy as np

from tacit.benchmarks.measure import Action, Standing, race
from tacit.protocols.crypto import iknp, naor_pinkas
from tacit.protocols.crypto.compiled import in_numpy
from tacit.protocols.crypto.groups import Group, find_group
from tacit.protocols.crypto.transfers import transfers
from tacit.sim.streams import Entropy, generator

__all__ = ["GROUPS", "measure_iknp", "measure_naor_pinkas"]

GROUPS = ("p256", "modp-2048-short", "modp-2048", "modp-3072-short", "modp-3072")

_BYTES = 16
_WIDTH = 32  # bits of a number in a correlated transfer


def measure_naor_pinkas(count: int, turns: int, groups: Sequence[str] = GROUPS) -> list[Standing]:
    """The rates of batches of `count` transfers in each of the `groups`, from set-up to messages."""
    contenders = {}
    for name in groups:
        plain, short, _ = name.partition("-short")
        contenders[f"Tacit, {name}"] = _naor_pinkas(find_group(plain, short_exponents=bool(short)), count), count
    return race(f"Naor-Pinkas, transfers in batches of {count}", contenders, turns)


def _naor_pinkas(group: Group, count: int) -> Action:
    entropy = Entropy.seeded(1, "benchmark", group.name)
    messages, choices = _messages(count)

    def transfer() -> np.ndarray:
        context = entropy.bytes(16)  # a new context for each batch
        key, setup = naor_pinkas.setup(group, context, entropy)
        kept = naor_pinkas.draw(group, choices, entropy)
        reply = naor_pinkas.send(key, naor_pinkas.request(group, setup, kept), messages)
        pads = naor_pinkas.receiver_pads(group, context, setup, kept, _BYTES)
        return naor_pinkas.receive(choices, pads, reply)

    assert (transfer() == _chosen(messages, choices)).all()
    return transfer


def measure_iknp(count: int, turns: int) -> list[Standing]:
    """The rates of extensions of `count` transfers: random, correlated (a number of 32 bits) and of chosen messages.

    The 128 base transfers, in P-256, are a separate task. Where transfers are computed by the processor's AES
    instructions, numpy's code is measured, too.
    """
    entropy, context = Entropy.seeded(1, "benchmark", "iknp"), b"benchmark"
    group = find_group("p256")

    def base() -> tuple[iknp.Sender, iknp.Receiver]:
        kept, setup = iknp.base_setup(group, context, entropy)
        sender, request = iknp.base_request(group, context, setup, entropy)
        return sender, iknp.base_seeds(kept, context, request)

    sender, receiver = base()
    senders, receivers = iknp.SenderStream(sender), iknp.ReceiverStream(receiver)
    messages, choices = _messages(count)
    delta = generator(1, "delta").integers(0, 2**_WIDTH, (count, 1), dtype=np.uint32)

    def extend() -> tuple[iknp.SenderBatch, iknp.ReceiverBatch]:
        message, batch = receivers.extend(choices)
        return senders.accept(message), batch

    def random() -> tuple[np.ndarray, np.ndarray]:
        sent, received = extend()
        return sent.random(_BYTES), received.random(_BYTES)

    def correlated() -> tuple[np.ndarray, np.ndarray]:
        sent, received = extend()
        r, corrections = sent.correlated(delta, _WIDTH)
        return r, received.correlated(corrections, _WIDTH)

    def chosen() -> np.ndarray:
        sent, received = extend()
        return received.chosen(sent.mask(messages), _BYTES)

    pads, pad = random()
    assert (pad == _chosen(pads.transpose(1, 0, 2), choices)).all()
    r, t = correlated()
    assert (t == r + delta * choices[:, None]).all()
    assert (chosen() == _chosen(messages, choices)).all()
    contenders: dict[str, Action]
    contenders = {"Tacit, random": random, "Tacit, correlated": correlated, "Tacit, chosen messages": chosen}
    if transfers() is not None:
        contenders |= {f"{name}, by numpy": in_numpy()(action) for name, action in contenders.items()}
    rows = race("IKNP base transfers", {"Tacit, p256": (base, iknp.BASE)}, turns)
    return rows + race(
        f"IKNP, transfers in batches of {count:,}", {name: (act, count) for name, act in contenders.items()}, turns
    )


def _messages(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Messages uint8 (count, 2, 16) and choices."""
    random = generator(1, "benchmark", "transfers", count)
    return random.integers(0, 256, (count, 2, _BYTES), dtype=np.uint8), random.integers(0, 2, count).astype(np.bool_)


def _chosen(messages: np.ndarray, choices: np.ndarray) -> np.ndarray:
    return messages[np.arange(len(choices)), choices.astype(np.intp)]
