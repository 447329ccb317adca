"""The table [sum] of a scenario: the keys of secure sums, and of the numbers that they add.

Each sum has a struct of its own keys (`Sum.keys`), one of those here or one that derives from them. The table has the
keys of all of them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from tacit.sim.shares import rounded_up
from tacit.sim.table import Keys, about, joined

__all__ = ["ClippedKeys", "CollusionKeys", "DecryptorKeys", "DrawnKeys", "DropoutKeys", "EncoderKeys", "SumKeys"]


class CollusionKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The key of every sum: how many clients may collude with the server."""

    corrupt_clients: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | None,
        about(
            "Share of the clients called to a round that may collude with the server without revealing other clients' "
            "inputs, rounded up: C of them. All of them count as having joined, however few clients join. No sum is "
            "opened over fewer than C + 2 clients. The default is 0.1 for `secagg+`, `lightsecagg`, `committee` and "
            "`flamingo`, whose sizes follow from it, and 0 for other sums; for signatures (`protocol.identity`) it is "
            "a third. With `secagg+`, the server must be semi-honest, and draw the graph as specified. With sums by "
            "shares among all clients (`secure`), more shares are needed to open a sum.",
        ),
    ] = None

    def colluding_of(self, called: int) -> int:
        """C: how many of the `called` clients may collude with the server in a sum by shares among all clients."""
        return rounded_up(self.corrupt_clients or 0.0, called)


class DropoutKeys(CollusionKeys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of a sum whose share of lost clients decides."""

    tolerated_dropouts: Annotated[
        float,
        about(
            "Share of the clients called to a round that may be lost without ending the sum, rounded down; clients "
            "that do not join count. The number of neighbours k, the number U of clients that must answer, or the "
            "number of members is chosen for this. The sum of this key and `corrupt_clients` must be less than 1. For "
            "`lightsecagg` and `committee`, twice this key and `corrupt_clients` must add up to less than 1; for "
            "`flamingo`, both must add up to less than a third of the decryptors.",
            ge=0,
            lt=1,
        ),
    ] = 0.1


class DrawnKeys(DropoutKeys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of a sum that draws neighbours or members among its clients."""

    failure_exponent: Annotated[
        int,
        about(
            "With the tolerated losses and collusion, any sum of the run fails with a probability of at most 2 to the "
            "power of minus this number.",
            ge=1,
            le=128,
        ),
    ] = 40


class DecryptorKeys(DrawnKeys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of `flamingo`."""

    decryptors: Annotated[
        Annotated[int, Meta(ge=3)] | None,
        about(
            "The clients that hold shares of the key of the sums. The default is the fewest of which less than a "
            "third are lost or corrupt, with the probability of `failure_exponent`, or all clients. A number with "
            "which more may be is refused.",
            unit="clients",
        ),
    ] = None
    decryptor_rounds: Annotated[
        int,
        about(
            "Other decryptors are drawn after this number of rounds. They receive shares of the same key.",
            ge=1,
            unit="rounds",
        ),
    ] = 10


class ClippedKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of the encoder, which turns the numbers of a model into words of a sum."""

    value_bits: Annotated[
        Annotated[int, Meta(ge=2, le=32)] | Literal["exact"],
        about(
            "In averages of models: the bits of each number that is summed. `exact`: a fixed point in words of 64 "
            "bits. With fewer bits, numbers are clipped to `sum.clip` and rounded, and words are as wide as the sum "
            "needs.",
            unit="bits",
        ),
    ] = "exact"
    clip: Annotated[
        float,
        about(
            "With `sum.value_bits`: the largest magnitude of a number of a model. Larger ones are clipped, and each "
            "round reports their share.",
            gt=0,
        ),
    ] = 4.0

    def idle(self) -> Mapping[str, str]:
        return {"clip": "sum.value_bits"} if self.value_bits == "exact" else {}


class EncoderKeys(ClippedKeys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The keys of the encoder where models have weights."""

    largest_weight: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        about(
            "With `sum.value_bits` and `training.weighting` = `points`: the largest weight of a model. A client with "
            "more points counts as one with this number. Default: the largest number of labeled points of a client, "
            "which every party then knows.",
            unit="points",
        ),
    ] = None

    def idle(self) -> Mapping[str, str]:
        return {"clip": "sum.value_bits", "largest_weight": "sum.value_bits"} if self.value_bits == "exact" else {}


_DESCRIPTION = "[sum]: the secure sums of a run, whatever they add, and the numbers that they add."

if TYPE_CHECKING:

    class SumKeys(DecryptorKeys, EncoderKeys, kw_only=True, frozen=True, forbid_unknown_fields=True):
        """[sum]: the secure sums of a run, whatever they add, and the numbers that they add."""

else:
    SumKeys = joined("SumKeys", _DESCRIPTION, DecryptorKeys, EncoderKeys)
