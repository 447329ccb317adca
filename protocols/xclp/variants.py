"""The variants of SecureHamming and the strategies of SecureRowSums by the names that scenarios give them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from protocols import dealing
from protocols.crypto import ot_sizes, sizes
from protocols.crypto.groups import find_group
from protocols.crypto.key_proof import proved_bytes
from protocols.declaration import messages_in
from protocols.planned import dealing_messages, revealing_messages
from protocols.steps import Step
from protocols.xclp import (
    hamming_iknp,
    hamming_naor_pinkas,
    hamming_paillier,
    hamming_plaintext,
    planned_hamming,
    rowsums,
    rowsums_shamir,
)
from protocols.xclp.hamming import SecureHamming
from protocols.xclp.hamming_iknp import IknpHamming
from protocols.xclp.hamming_naor_pinkas import NaorPinkasHamming
from protocols.xclp.hamming_paillier import PaillierHamming
from protocols.xclp.hamming_plaintext import PlaintextHamming
from protocols.xclp.rowsums import Restart, SecureRowSums
from protocols.xclp.rowsums_shamir import Shamir
from sim.planned import PlannedMessage
from sim.registry import Registry
from sim.wire import Message

__all__ = ["ROW_SUMS", "VARIANTS", "HammingOptions", "RowSums", "Variant"]

Points = Mapping[str, int]
"""How many points each client has."""


@dataclass(frozen=True)
class HammingOptions:
    """What a scenario says about SecureHamming, by the names of its keys."""

    bits: int = 1024
    key_bits: int = 2048
    insecure_keys: bool = False
    packing: str = "slots"
    rerandomise: str = "powers"
    group: str = "p256"
    short_exponents: bool = False


@dataclass(frozen=True)
class Variant:
    """A variant of SecureHamming: what makes it, the messages that it sends, and the formulas of them.

    `payloads` gives the bytes of each message type, every message counted once; `planned` lists the messages of a round
    with its number, none lost. None where there is no formula. `contribution`: the bytes that each client publishes at
    the set-up, as a public key.
    """

    description: str
    make: Callable[[HammingOptions], SecureHamming]
    messages: tuple[type[Message], ...]
    payloads: Callable[[HammingOptions, Points], dict[str, int]] | None = None
    planned: Callable[[HammingOptions, Points, int], Iterable[PlannedMessage]] | None = None
    contribution: Callable[[HammingOptions], int] = lambda options: 0


@dataclass(frozen=True)
class RowSums:
    """A strategy of SecureRowSums: what makes it of `protocol.threshold`, its steps, messages and their payloads.

    `messages` and `payloads` are those besides `rowsums`' own. `planned` lists these messages of a round with its
    number, those before the masked rows and those after them; None where there is no formula.
    """

    description: str
    make: Callable[[int | None], SecureRowSums]
    steps: tuple[Step, ...]
    messages: tuple[type[Message], ...] = ()
    payloads: Callable[[Collection[str]], dict[str, int]] = lambda clients: {}
    planned: Callable[[Sequence[str], int], tuple[Iterable[PlannedMessage], Iterable[PlannedMessage]]] | None = None


VARIANTS: Registry[Variant] = Registry(
    "variant of SecureHamming",
    {
        "paillier": Variant(
            "Paillier encryption",
            lambda options: PaillierHamming(
                options.bits,
                options.key_bits,
                options.insecure_keys,
                {"slots": None, "none": 1}[options.packing],
                options.rerandomise == "fresh",
            ),
            messages_in(hamming_paillier),
            lambda options, points: sizes.paillier_hamming(
                points, options.bits, options.key_bits, options.packing == "slots"
            ),
            lambda options, points, number: planned_hamming.paillier(
                points, number, options.bits, options.key_bits, options.packing == "slots"
            ),
            lambda options: proved_bytes(options.key_bits),
        ),
        "iknp": Variant(
            "oblivious-transfer extension",
            lambda options: IknpHamming(
                options.bits, find_group(options.group, short_exponents=options.short_exponents)
            ),
            messages_in(hamming_iknp),
            lambda options, points: ot_sizes.iknp_hamming(
                points, options.bits, find_group(options.group).element_bytes
            ),
            lambda options, points, number: planned_hamming.iknp(
                points, number, options.bits, find_group(options.group).element_bytes
            ),
        ),
        "naor-pinkas": Variant(
            "one oblivious transfer a bit (for small n and L)",
            lambda options: NaorPinkasHamming(
                options.bits, find_group(options.group, short_exponents=options.short_exponents)
            ),
            messages_in(hamming_naor_pinkas),
            lambda options, points: ot_sizes.naor_pinkas_hamming(
                points, options.bits, find_group(options.group).element_bytes
            ),
            lambda options, points, number: planned_hamming.naor_pinkas(
                points, number, options.bits, find_group(options.group).element_bytes
            ),
        ),
        "plaintext": Variant(
            "in the clear, without secrecy",
            lambda options: PlaintextHamming(options.bits),
            messages_in(hamming_plaintext),
            lambda options, points: sizes.plaintext_hamming(points, options.bits),
            lambda options, points, number: planned_hamming.plaintext(points, number, options.bits),
        ),
    },
)

ROW_SUMS: Registry[RowSums] = Registry(
    "strategy of summing",
    {
        "restart": RowSums(
            "a new attempt without the lost client",
            lambda threshold: Restart(),
            rowsums.STEPS,
            planned=lambda names, number: ((), ()),
        ),
        "shamir": RowSums(
            "secret shares make up for the lost client",
            Shamir,
            rowsums_shamir.STEPS,
            messages_in(dealing),
            sizes.dealing,
            lambda names, number: (
                dealing_messages(names, number, "rowsums.deal", "rowsums.sum"),
                revealing_messages(names, number, "rowsums.reveal", "rowsums.sum"),
            ),
        ),
    },
)
