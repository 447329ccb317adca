"""The variants of SecureHamming and the strategies of SecureRowSums by the names that scenarios give them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from protocols import dealing
from protocols.crypto import ot_sizes, sizes
from protocols.crypto.groups import find_group
from protocols.declaration import messages_in
from protocols.steps import Step
from protocols.xclp import (
    hamming_iknp,
    hamming_naor_pinkas,
    hamming_paillier,
    hamming_plaintext,
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
    """A variant of SecureHamming: what makes it, the messages that it sends, and the formula of their payloads.

    `payloads` gives the bytes of each message type, every message counted once; None where there is no formula.
    """

    description: str
    make: Callable[[HammingOptions], SecureHamming]
    messages: tuple[type[Message], ...]
    payloads: Callable[[HammingOptions, Points], dict[str, int]] | None = None


@dataclass(frozen=True)
class RowSums:
    """A strategy of SecureRowSums: what makes it of `protocol.threshold`, its steps, messages and their payloads.

    `messages` and `payloads` are those besides `rowsums`' own.
    """

    description: str
    make: Callable[[int | None], SecureRowSums]
    steps: tuple[Step, ...]
    messages: tuple[type[Message], ...] = ()
    payloads: Callable[[Collection[str]], dict[str, int]] = lambda clients: {}


VARIANTS: Registry[Variant] = Registry(
    "variant of SecureHamming",
    {
        "paillier": Variant(
            "Paillier encryption",
            lambda its: PaillierHamming(
                its.bits,
                its.key_bits,
                its.insecure_keys,
                {"slots": None, "none": 1}[its.packing],
                its.rerandomise == "fresh",
            ),
            messages_in(hamming_paillier),
            lambda its, points: sizes.paillier_hamming(points, its.bits, its.key_bits, its.packing == "slots"),
        ),
        "iknp": Variant(
            "oblivious-transfer extension",
            lambda its: IknpHamming(its.bits, find_group(its.group, short_exponents=its.short_exponents)),
            messages_in(hamming_iknp),
            lambda its, points: ot_sizes.iknp_hamming(points, its.bits, find_group(its.group).element_bytes),
        ),
        "naor-pinkas": Variant(
            "one oblivious transfer a bit (for small n and L)",
            lambda its: NaorPinkasHamming(its.bits, find_group(its.group, short_exponents=its.short_exponents)),
            messages_in(hamming_naor_pinkas),
            lambda its, points: ot_sizes.naor_pinkas_hamming(points, its.bits, find_group(its.group).element_bytes),
        ),
        "plaintext": Variant(
            "in the clear, without secrecy",
            lambda its: PlaintextHamming(its.bits),
            messages_in(hamming_plaintext),
            lambda its, points: sizes.plaintext_hamming(points, its.bits),
        ),
    },
)

ROW_SUMS: Registry[RowSums] = Registry(
    "strategy of summing",
    {
        "restart": RowSums("a new attempt without the lost client", lambda threshold: Restart(), rowsums.STEPS),
        "shamir": RowSums(
            "secret shares make up for the lost client",
            Shamir,
            rowsums_shamir.STEPS,
            messages_in(dealing),
            sizes.dealing,
        ),
    },
)
