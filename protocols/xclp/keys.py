"""The table [protocol]: the protocol, its parameters and its cryptography."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from msgspec import Meta

from tacit.protocols.experiment.experiment import Tables
from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.sums.keys import SumKeys
from tacit.protocols.sums.registry import SUMS
from tacit.sim.registry import Registry, listed_in
from tacit.sim.table import Keys, about
from tacit.sim.units import Duration

if TYPE_CHECKING:
    from tacit.protocols.xclp.variants import RowSums, Variant
__all__ = ["RECOVERIES", "ROW_SUMS", "VARIANTS", "ProtocolKeys", "XclpTables"]


_MODULE = "tacit.protocols.xclp.variants"

VARIANTS: "Registry[Variant]" = Registry(
    "variant of SecureHamming",
    later=listed_in(_MODULE, "VARIANTS", ("paillier", "iknp", "naor-pinkas", "plaintext", "direct")),
)

ROW_SUMS: "Registry[RowSums]" = Registry(
    "strategy of summing", later=listed_in(_MODULE, "ROW_SUMS", ("restart", "secure", "secagg+"))
)


class _Recoveries(Mapping[str, Any]):
    """The values of `protocol.recovery`: strategies with a program of their own, then all other secure sums."""

    def __getitem__(self, name: str) -> Any:
        if name in SUMS and name not in ROW_SUMS:  # imported with the first sum that is asked for
            return import_module("tacit.protocols.xclp.rowsums_by_sum").RowsBySum(SUMS[name])
        return ROW_SUMS[name]

    def __contains__(self, name: object) -> bool:
        return name in ROW_SUMS or name in SUMS

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*ROW_SUMS, *SUMS)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


RECOVERIES = _Recoveries()
"""The parts of XCLP that sum rows, by the names that `protocol.recovery` gives them."""


class ProtocolKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[protocol]: the protocol, its parameters and its cryptography."""

    moved: ClassVar[Mapping[str, str]] = {"corrupt_clients": "sum.corrupt_clients"}
    name: Annotated[str, about("Name of the protocol. `tacit steps NAME` lists its steps.")] = "xclp"
    hamming: Annotated[
        str,
        about(
            "How the server learns Hamming distances: `paillier` encryption; `iknp`, oblivious transfer extension; "
            "`naor-pinkas`, one oblivious transfer per bit (for few short hashes); `plaintext`, without encryption; "
            "or `direct`, in which the server gets the hashes but not the planes.",
            registry=VARIANTS,
        ),
    ] = "paillier"
    bits: Annotated[int, about("L: number of hash bits per point.", ge=8, le=65536, unit="bits")] = 1024
    planes: Annotated[
        Literal["gaussian", "orthogonal"],
        about(
            "Planes of the hashes: `gaussian`, drawn independently, as in the paper; or `orthogonal`, made orthogonal "
            "as far as the dimension allows, as in the library that the authors' code uses. Orthogonal planes "
            "estimate cosines better."
        ),
    ] = "gaussian"
    k: Annotated[
        int, about("Number of nearest neighbours per point in the graph; less than the number of points.", ge=1)
    ] = 10
    alpha: Annotated[
        float,
        about("Strength of label propagation in the graph: labels spread further with larger values.", gt=0, lt=1),
    ] = 0.99
    key_bits: Annotated[
        Literal[512, 1024, 2048, 3072],
        about("Size of the Paillier modulus. 512 and 1024 are insecure and need `insecure_keys`.", unit="bits"),
    ] = 2048
    insecure_keys: Annotated[bool, about("Allow keys of 512 and 1024 bits, for tests.")] = False
    packing: Annotated[
        Literal["slots", "none"],
        about(
            "Paillier: `slots` packs many points into one ciphertext; `none` encrypts one bit per ciphertext, as in "
            "the paper."
        ),
    ] = "slots"
    rerandomise: Annotated[
        Literal["powers", "fresh"],
        about(
            "Paillier: how a result is hidden from the owner of the key. `powers` multiplies by random powers of one "
            "number per pair and assumes that the key was generated honestly. `fresh` multiplies by a new N-th power, "
            "is safe for any key that passes the proof, and costs one long exponentiation per result."
        ),
    ] = "powers"
    group: Annotated[
        Literal["p256", "modp-2048", "modp-3072"],
        about("Group for oblivious transfer: NIST P-256, or the squares modulo a safe prime (RFC 3526)."),
    ] = "p256"
    short_exponents: Annotated[
        bool,
        about("Oblivious transfer in a modp group: use exponents of 256 bits, under the short-exponent assumption."),
    ] = False
    recovery: Annotated[
        str,
        about(
            "Sum by which clients get their rows of scores. `restart` is that of the XCLP paper, and begins a new "
            "attempt when a client is lost. Otherwise the name of a secure sum. `secure` recovers the lost "
            "client's masks from secret shares; masked values that were received still count. `secagg+` does the same "
            "among neighbours in a random graph, for many clients. With both, a sum that cannot be opened is followed "
            "by another attempt. In every other sum, clients add masks that only the owner of a row can remove; "
            "masked numbers have no range, so `prio3` does not fit. "
            "Training takes `restart`, `secure` or `secagg+`; FedProp always uses secret shares.",
            registry=RECOVERIES,
        ),
    ] = "restart"
    threshold: Annotated[
        Annotated[int, Meta(ge=2)] | None,
        about(
            'With `recovery = "secure"`: number of clients whose shares recover a lost client\'s masks, if this is '
            "more than a majority of the summing clients (default: a majority; with `sum.corrupt_clients`, more than "
            "half of these and C).",
            unit="clients",
        ),
    ] = None
    min_clients: Annotated[
        int,
        about(
            "Smallest number of clients with labels in a sum. With fewer, the run is aborted; in training, the round "
            "is lost.",
            ge=2,
        ),
    ] = 3
    identity: Annotated[
        Literal["none", "signed"],
        about(
            "`signed`: clients sign the keys that they publish, with long-term Ed25519 keys that all clients know. In "
            "sums with secret shares, clients must also sign who takes part and who is left. More than half of the "
            "participants and colluding clients together must sign (`sum.corrupt_clients`, by default a third). "
            "Clients then detect, reject and name a server that swaps a key or shows different lists. In a "
            'simulation, the long-term keys follow from the seed. Training needs `training.averaging = "secure"` or '
            "another sum with keys. With `prio3`, the helper signs the keys that clients encrypt for, and each client "
            "signs its report."
        ),
    ] = "none"
    recipe: Annotated[
        Literal["paper", "authors-code"],
        about(
            "`authors-code` follows the code of the XCLP paper's authors. Edge weights are cubed. Class scores are "
            "divided by the number of labels of the class, which clients then learn. Confidences are divided by the "
            "client's largest score. In training, the learning rate is 0.05 with fewer than 20 labels in a batch."
        ),
    ] = "paper"
    rows: Annotated[
        Literal["unlabeled", "paper"],
        about(
            "Rows of scores that a client gets: `unlabeled`, those of its unlabeled points; or `paper`, all its rows. "
            "From all rows it can compute the labels of other clients; from the unlabeled ones it can only guess "
            'them. With `recipe = "authors-code"`, confidences are divided by the largest score of these rows.'
        ),
    ] = "unlabeled"
    fraction_bits: Annotated[
        int, about("Fractional bits of the fixed-point numbers in sums.", ge=1, le=52, unit="bits")
    ] = 32
    deadline: Annotated[
        Duration, about("Longest time that the server waits for answers, in virtual time.", unit="duration")
    ] = "60s"
    presence: Annotated[
        Literal["none", "connection", "heartbeat"],
        about(
            "How the server notices that clients are gone; it then neither waits for them nor calls them. `none`: "
            "never. `connection`: when the TCP connection of their process is closed. `heartbeat`: when it has "
            "received no heartbeat for `heartbeat_misses` intervals."
        ),
    ] = "none"
    heartbeat: Annotated[
        Duration, about('Interval between heartbeats; only with `presence = "heartbeat"`.', unit="duration")
    ] = "10s"
    heartbeat_misses: Annotated[
        int,
        about("Number of intervals without a heartbeat after which a client counts as gone.", ge=1, unit="intervals"),
    ] = 3
    rounds: Annotated[int, about("Number of times that the protocol runs.", ge=1)] = 1
    groups: Annotated[
        int,
        about(
            "Number of random groups of clients. XCLP runs in each group separately and at the same time. Each group "
            "needs at least `min_clients`.",
            ge=1,
            unit="groups",
        ),
    ] = 1
    oracle: Annotated[
        bool,
        about(
            "Compare each round with the plaintext oracle: exactly for up to 4,096 points, otherwise within a "
            "tolerance (see `protocols/xclp/oracle.py`). This takes about as long as the run."
        ),
    ] = True
    baselines: Annotated[
        bool,
        about(
            "Also compute baselines after the run: plaintext label propagation by each client alone, and over all "
            "points together."
        ),
    ] = True


class XclpTables(Tables, Protocol):
    """The tables that XCLP uses."""

    @property
    def protocol(self) -> ProtocolKeys: ...
    @property
    def sum(self) -> SumKeys: ...
    @property
    def privacy(self) -> Privacy: ...
