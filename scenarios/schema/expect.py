"""The table [expect] of a scenario: the expected outcome of a run."""

from typing import Annotated, Literal

from msgspec import Meta

from tacit.sim.table import Keys

__all__ = ["Expect"]


class Expect(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[expect]: what makes the file a test; only the keys that are given are compared.

    Whatever it holds, every fault must come, but for those with a probability.
    """

    outcome: Annotated[
        Literal["completed", "aborted", "failed"] | None,
        Meta(description="Expected outcome of the run. `failed`: every client is lost, or no client gets labels."),
    ] = None
    reason: Annotated[str | None, Meta(description="Text that the reason of the outcome must contain.")] = None
    equals_plaintext: Annotated[
        bool | None,
        Meta(description="`true` requires that every round equals the oracle, which is computed in plain numpy."),
    ] = None
    lost: Annotated[
        tuple[str, ...] | None,
        Meta(
            description=(
                "Exactly the parties that must be lost, in any round: `client/3`, or with the step, "
                "`client/3 at hamming.evaluate`."
            )
        ),
    ] = None

    lost_at_most: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description=(
                "Largest number of parties that may be lost, in all rounds together. Cannot be combined with `lost`."
            ),
            extra={"unit": "parties"},
        ),
    ] = None
    lost_includes: Annotated[
        tuple[str, ...] | None,
        Meta(
            description=(
                "Parties that must be lost, written as in `lost`; others may be lost too. Cannot be "
                "combined with `lost`."
            )
        ),
    ] = None

    @property
    def losses(self) -> tuple[tuple[str, str, str], ...]:
        """Key, party and step of each entry in `lost` and `lost_includes`; the step is "" where none is given."""
        entries = [(key, entry) for key in ("lost", "lost_includes") for entry in getattr(self, key) or ()]
        return tuple((key, *entry.partition(" at ")[::2]) for key, entry in entries)
