"""The variants of SecureHamming and the strategies of SecureRowSums by the names that scenarios give them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from protocols import dealing, neighbours
from protocols.crypto import key_proof, ot_sizes, packed_hamming, sizes
from protocols.crypto.groups import find_group
from protocols.crypto.regular_graph import degree_of
from protocols.declaration import messages_in
from protocols.planned import PlannedContribution
from protocols.steps import Step
from protocols.xclp import (
    hamming_direct,
    hamming_iknp,
    hamming_naor_pinkas,
    hamming_paillier,
    hamming_plaintext,
    planned_hamming,
    planned_sums,
    rowsums,
    rowsums_graph,
    rowsums_shamir,
)
from protocols.xclp.hamming import Hamming
from protocols.xclp.hamming_direct import DirectHamming
from protocols.xclp.hamming_iknp import IknpHamming
from protocols.xclp.hamming_naor_pinkas import NaorPinkasHamming
from protocols.xclp.hamming_paillier import PaillierHamming
from protocols.xclp.hamming_plaintext import PlaintextHamming
from protocols.xclp.rowsums import Restart, SecureRowSums
from protocols.xclp.rowsums_graph import InGraph
from protocols.xclp.rowsums_shamir import Shamir
from sim.planned import Planned
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

    `payloads` gives the bytes of each message type, every message counted once; `planned` lists what is done in a round
    with its number, with nobody lost. None where there is no formula. `contribution`: what each client publishes at the
    set-up, as a public key. `loaded`: bytes that it takes besides what it sends, as measured. `pairs`: whether clients
    play it in pairs, and send their own blocks beside.
    """

    description: str
    make: Callable[[HammingOptions], Hamming]
    messages: tuple[type[Message], ...]
    payloads: Callable[[HammingOptions, Points], dict[str, int]] | None = None
    planned: Callable[[HammingOptions, Points, int], Iterable[Planned]] | None = None
    contribution: Callable[[HammingOptions], PlannedContribution] = lambda options: PlannedContribution()
    loaded: int = 0
    pairs: bool = True


@dataclass(frozen=True)
class RowSums:
    """A strategy of SecureRowSums: what makes it of `protocol.threshold`, its steps, messages and their payloads.

    `messages` and `payloads` are those besides `rowsums`' own. `planned` lists what is done in a round with
    its number, of clients with that many rows of numbers for the classes, once the server has begun to sum: of rows,
    classes, threshold and number, and `signed` where keys are; None where there is no formula.
    """

    description: str
    make: Callable[[int | None], SecureRowSums]
    steps: tuple[Step, ...]
    messages: tuple[type[Message], ...] = ()
    payloads: Callable[[Collection[str]], dict[str, int]] = lambda clients: {}
    planned: Callable[..., Iterable[Planned]] | None = None


_SLOTS = {"slots": None, "none": 1}
"""Vectors in one ciphertext, by `protocol.packing`; None: as many as fit."""


def _proved_key(bits: int) -> PlannedContribution:
    made = packed_hamming.keygen_work(bits), key_proof.prove_work(bits)
    return PlannedContribution(key_proof.proved_bytes(bits), made, partial(key_proof.check_work, bits))


VARIANTS: Registry[Variant] = Registry(
    "variant of SecureHamming",
    {
        "paillier": Variant(
            "Paillier encryption",
            lambda options: PaillierHamming(
                options.bits,
                options.key_bits,
                options.insecure_keys,
                _SLOTS[options.packing],
                options.rerandomise == "fresh",
            ),
            messages_in(hamming_paillier),
            lambda options, points: sizes.paillier_hamming(
                points, options.bits, options.key_bits, options.packing == "slots"
            ),
            lambda options, points, number: planned_hamming.paillier(
                points,
                number,
                options.bits,
                options.key_bits,
                _SLOTS[options.packing],
                options.rerandomise == "fresh",
            ),
            lambda options: _proved_key(options.key_bits),
            loaded=42_000_000,
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
                points, number, options.bits, find_group(options.group, short_exponents=options.short_exponents)
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
                points, number, options.bits, find_group(options.group, short_exponents=options.short_exponents)
            ),
        ),
        "plaintext": Variant(
            "in the clear, without secrecy",
            lambda options: PlaintextHamming(options.bits),
            messages_in(hamming_plaintext),
            lambda options, points: sizes.plaintext_hamming(points, options.bits),
            lambda options, points, number: planned_hamming.plaintext(points, number, options.bits),
        ),
        "direct": Variant(
            "hashes to the server, which does not know the planes",
            lambda options: DirectHamming(options.bits),
            messages_in(hamming_direct),
            lambda options, points: sizes.direct_hamming(points, options.bits),
            lambda options, points, number: planned_hamming.direct(points, number, options.bits),
            pairs=False,
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
            planned=planned_sums.restart,
        ),
        "shamir": RowSums(
            "secret shares make up for the lost client",
            Shamir,
            rowsums_shamir.STEPS,
            messages_in(dealing),
            sizes.dealing,
            planned_sums.shamir,
        ),
        "secagg+": RowSums(
            "secret shares among neighbours in a random graph make up for the lost client, for many clients",
            lambda threshold: InGraph(),
            rowsums_shamir.STEPS,
            (dealing.DealtKey, *neighbours.SHARED, *messages_in(rowsums_graph)),
            lambda clients: sizes.dealing_in_graph(clients, degree_of(len(clients), InGraph().tolerance)),
            planned_sums.in_graph,
        ),
    },
)
