"""The table [cells] of a scenario: the cells of differentially private labelling."""

from typing import Annotated, Protocol

from msgspec import Meta

from tacit.protocols.experiment.experiment import Tables
from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.xclp.keys import ProtocolKeys
from tacit.sim.table import Keys

__all__ = ["Cells", "CellsTables"]


class Cells(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[cells]: the assignment of points to cells, and the division of the budget [privacy]."""

    count: Annotated[
        int,
        Meta(
            ge=1,
            le=4096,
            description=("Number of cells. If you choose it by looking at the data, this choice is not accounted for."),
        ),
    ] = 20
    steps: Annotated[
        int,
        Meta(
            ge=1, le=100, description="T: number of steps of Lloyd's algorithm; each step is a secure sum with noise."
        ),
    ] = 2
    radius: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description=(
                "R: largest L2 distance of a point from the noisy mean; points further away are clipped "
                "(default: half of `privacy.clip`, the norm to which points are clipped for the mean)."
            ),
            extra={"unit": "length"},
        ),
    ] = None
    sums_share: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description=(
                "Share of the privacy budget (in mu^2) for the mean and the steps. The label counts get the rest."
            ),
        ),
    ] = 0.6
    colluding: Annotated[
        int,
        Meta(
            ge=0,
            description=(
                "Number of clients that may collude and subtract their own noise. The noise of "
                "`protocol.min_clients` minus these clients is enough for the stated epsilon."
            ),
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
