"""The variants of SecureHamming and the strategies of SecureRowSums that come with Tacit."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from tacit.protocols.crypto import key_proof, sizes
from tacit.protocols.crypto.groups import find_group
from tacit.protocols.crypto.quorum import Least
from tacit.protocols.parts import Among, Part, Step, SumBounds, Taken, messages_in
from tacit.protocols.promises import Promise, Trial
from tacit.protocols.sums import consistency, dealing
from tacit.protocols.sums.keys import CollusionKeys
from tacit.protocols.xclp import (
    hamming,
    hamming_direct,
    hamming_iknp,
    hamming_naor_pinkas,
    hamming_paillier,
    hamming_plaintext,
    rowsums,
    rowsums_shamir,
    sized,
)
from tacit.protocols.xclp.hamming import Hamming
from tacit.protocols.xclp.hamming_direct import DirectHamming
from tacit.protocols.xclp.hamming_iknp import IknpHamming
from tacit.protocols.xclp.hamming_naor_pinkas import NaorPinkasHamming
from tacit.protocols.xclp.hamming_paillier import PaillierHamming
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.protocols.xclp.promises import BLOCKS, MASKS_ONCE, without_block
from tacit.protocols.xclp.rowsums import Restart, SecureRowSums
from tacit.protocols.xclp.rowsums_graph import DealingAmongAll, InGraph
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.sim.toml_text import toml
from tacit.sim.wire import Message

__all__ = ["ROW_SUMS", "VARIANTS", "Beside", "HammingOptions", "RowSums", "Variant", "options_of"]

sized.register()  # sized runs are of these variants

Points = Mapping[str, int]
"""The number of points of each client."""


@dataclass(frozen=True)
class HammingOptions:
    """The keys of a scenario about SecureHamming, by their names."""

    bits: int = 1024
    key_bits: int = 2048
    insecure_keys: bool = False
    packing: str = "slots"
    rerandomise: str = "powers"
    group: str = "p256"
    short_exponents: bool = False


def options_of(keys: Any) -> HammingOptions:
    """The keys of [protocol] about SecureHamming."""
    return HammingOptions(
        keys.bits, keys.key_bits, keys.insecure_keys, keys.packing, keys.rerandomise, keys.group, keys.short_exponents
    )


BYTES_PER_PAIR = 35_000
"""The peak memory in bytes for each pair of clients that encrypt. Measured with 50 and with 120 clients."""


@dataclass(frozen=True)
class Variant(Part):
    """A variant of SecureHamming: the function that makes it, its messages, and formulas for them.

    `formula` gives the bytes of each of these types, every message counted once; None without a formula. `published`:
    the bytes that each client publishes at the set-up. `held`: the measured memory in bytes in addition to messages.
    `pairs`: true if clients run it in pairs and also send their own blocks. `pair_bytes`: the peak memory of each pair
    without its messages: all pairs run at the same time. `uses`: the keys of [protocol] that not all variants use.
    """

    description: str
    make: Callable[[HammingOptions], Hamming]
    own: tuple[type[Message], ...]
    formula: Callable[[HammingOptions, Points], dict[str, int]] | None = None
    published: Callable[[HammingOptions], int] = lambda options: 0
    held: int = 0
    pairs: bool = True
    pair_bytes: int = BYTES_PER_PAIR
    uses: Sequence[str] = ("protocol.packing", "protocol.group")
    takes = hamming.STEPS

    @property
    def messages(self) -> Sequence[type[Message]]:
        return (*(hamming.OF_PAIRS if self.pairs else ()), hamming.Members, *self.own)

    @property
    def between_clients(self) -> Sequence[type[Message]]:
        return self.own if self.pairs else ()

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        """The bytes of payload by message type. Raises LookupError for a plugin's variant without a formula."""
        keys, names = tables.protocol, among.names
        if self.formula is None:
            raise LookupError(f"protocol.hamming = {toml(keys.hamming)} has no formula of its payloads")
        blocks = hamming.own_blocks(among.points, keys.bits) if self.pairs else {}
        members = {"Members": len(names) * sizes.text(names)}
        return blocks | members | self.formula(options_of(keys), among.points)

    def waits(self, tables: Any) -> int:
        return 3

    def promises(self, tables: Any) -> Mapping[str, Promise]:
        return BLOCKS if self.pairs else {}

    def suffering(self, trial: Trial) -> Iterable[tuple[tuple[str, ...], float]]:
        return without_block(trial) if self.pairs else ()

    def loaded(self, tables: Any) -> int:
        return self.held


@dataclass(frozen=True)
class Beside(Part):
    """The messages of a plugin's strategy in addition to those of `rowsums`, with their bytes by clients' names."""

    own: tuple[type[Message], ...]
    formula: Callable[[Collection[str]], dict[str, int]]

    @property
    def messages(self) -> Sequence[type[Message]]:
        return self.own

    def payloads(self, tables: Any, among: Among) -> dict[str, int]:
        return self.formula(among.points)


@dataclass(frozen=True)
class RowSums(Part):
    """A strategy of SecureRowSums: the function that makes it from `protocol.threshold`, its steps, and its way to deal
    keys.

    `kind`: the kind of its sum, as in `SumBounds`.
    """

    description: str
    make: Callable[[int | None], SecureRowSums]
    steps: tuple[Step, ...]
    kind: str
    dealing: Part | None = None

    @property
    def uses(self) -> Sequence[str]:
        return () if self.kind in ("restart", "secagg+ rows") else ("protocol.threshold",)

    @property
    def keys_in(self) -> Mapping[str, Sequence[type[Struct]]]:
        return {} if self.kind == "restart" else {"sum": (CollusionKeys,)}

    @property
    def takes(self) -> Sequence[Taken]:
        steps = [consistency.if_signed(step) if step.name.endswith(".agree") else step for step in self.steps]
        return (rowsums.SumOfRows(), *(() if self.dealing is None else (self.dealing,)), *steps)

    def strategy(self, tables: Any, called: Mapping[str, tuple[int, int]]) -> SecureRowSums:
        """The strategy of a run."""
        return self.make(tables.protocol.threshold)

    def check_among(self, tables: Any, labeled: int, called: int) -> None:
        """Raise Problem if rows cannot be summed in a group of `called` clients, of whom `labeled` have labels."""

    def sums(self, tables: Any, clients: int) -> Sequence[SumBounds]:
        keys = tables.protocol
        threshold = getattr(self.make(keys.threshold), "threshold", None)
        colluding = tables.sum.colluding_of(clients) if self.kind == "secure rows" else 0
        fewest = Least(keys.min_clients, colluding=colluding).fewest
        return [SumBounds(self.kind, fewest, threshold, colluding=colluding)]

    def waits(self, tables: Any) -> int:
        return self.make(None).waits * int(tables.data.clients)

    def promises(self, tables: Any) -> Mapping[str, Promise]:
        return MASKS_ONCE


_SLOTS = {"slots": None, "none": 1}
"""The number of vectors in one ciphertext, by `protocol.packing`; None means as many as fit."""


VARIANTS = {
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
        lambda options, points: hamming_paillier.payloads(
            points, options.bits, options.key_bits, options.packing == "slots"
        ),
        lambda options: key_proof.proved_bytes(options.key_bits),
        held=42_000_000,
        uses=("protocol.packing",),
    ),
    "iknp": Variant(
        "oblivious-transfer extension",
        lambda options: IknpHamming(options.bits, find_group(options.group, short_exponents=options.short_exponents)),
        messages_in(hamming_iknp),
        lambda options, points: hamming_iknp.payloads(points, options.bits, find_group(options.group).element_bytes),
        uses=("protocol.group",),
    ),
    "naor-pinkas": Variant(
        "one oblivious transfer a bit (for small n and L)",
        lambda options: NaorPinkasHamming(
            options.bits, find_group(options.group, short_exponents=options.short_exponents)
        ),
        messages_in(hamming_naor_pinkas),
        lambda options, points: hamming_naor_pinkas.payloads(
            points, options.bits, find_group(options.group).element_bytes
        ),
        uses=("protocol.group",),
    ),
    "plaintext": Variant(
        "in the clear, without secrecy",
        lambda options: PlaintextHamming(options.bits),
        messages_in(hamming_plaintext),
        lambda options, points: hamming_plaintext.payloads(points, options.bits),
        pair_bytes=8_000,  # measured with 60 to 200 clients: 8,100 to 7,400
        uses=(),
    ),
    "direct": Variant(
        "hashes to the server, which does not know the planes",
        lambda options: DirectHamming(options.bits),
        messages_in(hamming_direct),
        lambda options, points: hamming_direct.payloads(points, options.bits),
        pair_bytes=7_000,  # measured with 60 to 200 clients: 4,900 to 8,100
        pairs=False,
        uses=(),
    ),
}

ROW_SUMS = {
    "restart": RowSums("a new attempt without the lost client", lambda threshold: Restart(), rowsums.STEPS, "restart"),
    "secure": RowSums(
        "secret shares make up for the lost client",
        Shamir,
        rowsums_shamir.STEPS,
        "secure rows",
        dealing.Dealing(identities=True),
    ),
    "secagg+": RowSums(
        "secret shares among neighbours in a random graph make up for the lost client, for many clients",
        lambda threshold: InGraph(),
        rowsums_shamir.STEPS,
        "secagg+ rows",
        DealingAmongAll(),
    ),
}
