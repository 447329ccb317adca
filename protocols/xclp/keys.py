"""The table [protocol]: which protocol runs, what it computes and with which cryptography."""

from typing import Annotated, Literal, Protocol

from msgspec import Meta

from tacit.protocols.experiment.experiment import Tables
from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.xclp.variants import ROW_SUMS, VARIANTS
from tacit.sim.table import Keys
from tacit.sim.units import DURATION, Duration

__all__ = ["ProtocolKeys", "XclpTables"]


class ProtocolKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[protocol]: what is computed and with which cryptography."""

    name: Annotated[str, Meta(description="Which protocol runs; its steps: `tacit steps NAME`.")] = "xclp"
    hamming: Annotated[
        str,
        Meta(
            description="How the server learns Hamming distances: Paillier encryption, oblivious-transfer extension, "
            "one oblivious transfer a bit (for small n and L), in the clear, without secrecy, or `direct`: hashes go "
            "to the server, which does not know the planes.",
            extra={"registry": VARIANTS},
        ),
    ] = "paillier"
    bits: Annotated[int, Meta(ge=8, le=65536, description="L, hash bits a point.", extra={"unit": "bits"})] = 1024
    planes: Annotated[
        Literal["gaussian", "orthogonal"],
        Meta(
            description="The hash planes: drawn one by one, as the paper has it, or made orthogonal to each other as "
            "far as there are dimensions, as the library of its authors' code does; cosines are estimated better then.",
        ),
    ] = "gaussian"
    k: Annotated[int, Meta(ge=1, description="Nearest neighbours a point in the graph, below n.")] = 10
    alpha: Annotated[float, Meta(gt=0, lt=1, description="How far labels spread in the graph.")] = 0.99
    key_bits: Annotated[
        Literal[512, 1024, 2048, 3072],
        Meta(
            description="Paillier modulus; 512 and 1024 are insecure and need `insecure_keys`.",
            extra={"unit": "bits"},
        ),
    ] = 2048
    insecure_keys: Annotated[bool, Meta(description="Allow keys of 512 and 1024 bits, for tests.")] = False
    packing: Annotated[
        Literal["slots", "none"],
        Meta(
            description="Paillier: `slots` puts many points into one ciphertext, `none` one bit, as in the paper.",
        ),
    ] = "slots"
    rerandomise: Annotated[
        Literal["powers", "fresh"],
        Meta(
            description="Paillier: what hides a result from the key's owner. `powers`: random powers of one number a "
            "pair, which assumes an honestly made key; `fresh`: an N-th power of its own, safe under any proved key, "
            "for one long exponentiation a result.",
        ),
    ] = "powers"
    group: Annotated[
        Literal["p256", "modp-2048", "modp-3072"],
        Meta(description="Oblivious transfer: NIST P-256, or a safe prime's squares (RFC 3526)."),
    ] = "p256"
    short_exponents: Annotated[
        bool,
        Meta(
            description="Oblivious transfer in a modp group: exponents of 256 bits, by the short-exponent assumption.",
        ),
    ] = False
    recovery: Annotated[
        str,
        Meta(
            description="Recovery of the sum from a lost client: `restart` begins a new attempt; `shamir` makes up "
            "for it with shared secrets, and masked values that were received count; `secagg+` does so among "
            "neighbours in a random graph, for many clients. FedProp always has `shamir`.",
            extra={"registry": ROW_SUMS},
        ),
    ] = "restart"
    threshold: Annotated[
        Annotated[int, Meta(ge=2)] | None,
        Meta(
            description='With `recovery = "shamir"`: how many clients can make up for a lost one, '
            "where that is more than half of those who sum, who always can.",
            extra={"unit": "clients"},
        ),
    ] = None
    min_clients: Annotated[
        int,
        Meta(
            ge=2,
            description="Fewer clients with labels in the summing: a clear abort; in training the round is lost.",
        ),
    ] = 3
    identity: Annotated[
        Literal["none", "signed"],
        Meta(
            description="`signed`: clients sign what they publish by long-term Ed25519 keys that all know, and, where "
            "masks are dealt in shares, who takes part and who is left; more than 2/3 of them must. So a server that "
            "swaps a key, or shows clients different sets, is refused and named. In a simulation the keys follow from "
            'the seed. Of training, with `training.averaging = "secure"`.'
        ),
    ] = "none"
    recipe: Annotated[
        Literal["paper", "authors-code"],
        Meta(
            description="`authors-code`: edges cubed, class scores divided by the number of labels of the class (which "
            "clients then learn), confidences by the client's largest, as the XCLP paper's authors have programmed it; "
            "in training the learning rate is 0.05 with fewer than 20 labels in a batch.",
        ),
    ] = "paper"
    rows: Annotated[
        Literal["unlabeled", "paper"],
        Meta(
            description="Which rows a client gets: those of its unlabeled points, or all as in the paper "
            "(from which it can solve for the others' labels; from the unlabeled ones it can only guess them). With "
            '`recipe = "authors-code"` confidences are divided by the largest of these rows: with `paper` that of '
            "labeled points included, as in the authors' code.",
        ),
    ] = "unlabeled"
    fraction_bits: Annotated[
        int, Meta(ge=1, le=52, description="Fixed point of the summing.", extra={"unit": "bits"})
    ] = 32
    deadline: Annotated[
        Duration,
        Meta(description="Longest wait of the server for answers, in virtual time.", extra=DURATION),
    ] = "60s"
    presence: Annotated[
        Literal["none", "connection", "heartbeat"],
        Meta(
            description="How the server knows which clients are gone, for whom it then neither waits nor calls: "
            "`none`, it does not; `connection`, the TCP connection of a process that ended is closed; `heartbeat`, "
            "no heartbeat was received for `heartbeat_misses` intervals."
        ),
    ] = "none"
    heartbeat: Annotated[
        Duration, Meta(description="The interval of heartbeats; only with `presence = heartbeat`.", extra=DURATION)
    ] = "10s"
    heartbeat_misses: Annotated[
        int,
        Meta(
            ge=1, description="Intervals without a heartbeat after which a client is gone.", extra={"unit": "intervals"}
        ),
    ] = 3
    rounds: Annotated[int, Meta(ge=1, description="How often the protocol runs.")] = 1
    groups: Annotated[
        int,
        Meta(
            ge=1,
            description="XCLP in this many random groups of clients, side by side and apart from each other; each has "
            "at least `min_clients`.",
            extra={"unit": "groups"},
        ),
    ] = 1
    oracle: Annotated[
        bool,
        Meta(
            description="Compare each round with the plaintext oracle: exactly up to 4,096 points, beyond within a "
            "tolerance (`protocols/xclp/oracle.py`). It costs about as much as the run."
        ),
    ] = True
    baselines: Annotated[
        bool, Meta(description="Label propagation in the clear beside the run, each client alone and all together.")
    ] = True


class XclpTables(Tables, Protocol):
    """The tables that XCLP uses."""

    @property
    def protocol(self) -> ProtocolKeys: ...
    @property
    def privacy(self) -> Privacy: ...
