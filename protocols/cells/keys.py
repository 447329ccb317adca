"""The table [cells] of a scenario: the cells of differentially private labelling."""

from typing import Annotated, Protocol

from msgspec import Meta

from tacit.protocols.experiment.experiment import Tables
from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.xclp.keys import ProtocolKeys
from tacit.sim.table import Keys

__all__ = ["Cells", "CellsTables"]


class Cells(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[cells]: how points are put into cells, and how the budget [privacy] is shared out."""

    count: Annotated[
        int,
        Meta(ge=1, le=4096, description="Cells. A choice that was made by looking at the data is not accounted for."),
    ] = 20
    steps: Annotated[
        int, Meta(ge=1, le=100, description="T, steps of Lloyd's algorithm, each a secure sum with noise.")
    ] = 2
    radius: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="R: points are clipped to this L2 norm as they are seen from the noisy mean; without it half "
            "of `privacy.clip`, to which they are clipped for the mean.",
            extra={"unit": "length"},
        ),
    ] = None
    sums_share: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="Share of the budget, in mu^2, that the mean and the steps get; counts of labels get the rest.",
        ),
    ] = 0.6
    colluding: Annotated[
        int,
        Meta(
            ge=0,
            description="Clients that may pool their own noise and take it out of what is released: the noise of "
            "`protocol.min_clients` without theirs is enough.",
            extra={"unit": "clients"},
        ),
    ] = 1


class CellsTables(Tables, Protocol):
    """The tables that labels by cells use."""

    @property
    def protocol(self) -> ProtocolKeys: ...
    @property
    def cells(self) -> Cells: ...
    @property
    def privacy(self) -> Privacy: ...
