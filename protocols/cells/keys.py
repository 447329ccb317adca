"""The table [cells] of a scenario: the cells of differentially private labelling."""

from typing import Annotated, Protocol

from msgspec import Meta

from tacit.protocols.experiment.experiment import Tables
from tacit.protocols.privacy.keys import Privacy
from tacit.protocols.sums.keys import SumKeys
from tacit.protocols.sums.registry import SUMS
from tacit.protocols.xclp.keys import ProtocolKeys
from tacit.sim.table import Keys, about

__all__ = ["Cells", "CellsTables"]


class Cells(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[cells]: the assignment of points to cells, and the division of the budget [privacy]."""

    count: Annotated[
        int,
        about(
            "Number of cells. If you choose it by looking at the data, this choice is not accounted for.", ge=1, le=4096
        ),
    ] = 20
    steps: Annotated[
        int, about("T: number of steps of Lloyd's algorithm; each step is a secure sum with noise.", ge=1, le=100)
    ] = 2
    radius: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        about(
            "R: largest L2 distance of a point from the noisy mean; points further away are clipped (default: half of "
            "`privacy.clip`, the norm to which points are clipped for the mean).",
            unit="length",
        ),
    ] = None
    sums_share: Annotated[
        float,
        about(
            "Share of the privacy budget (in mu^2) for the mean and the steps. The label counts get the rest.",
            gt=0,
            lt=1,
        ),
    ] = 0.6
    sum: Annotated[
        str,
        about(
            "The secure sum that adds the clients' points and noise. Someone besides the server must require "
            "`protocol.min_clients` of each sum, so sums whose clients do not see who takes part do not fit, unless "
            "they have a `helper`; nor does `prio3`, as the numbers have no range that could be proved. {listed}.",
            registry=SUMS,
            listed=SUMS,
        ),
    ] = "secure"
    colluding: Annotated[
        int,
        about(
            "Number of clients that may collude and subtract their own noise. The noise of `protocol.min_clients` "
            "minus these clients is enough for the stated epsilon. It is at most `protocol.min_clients` - 2, so that "
            "each sum has the inputs of two other clients.",
            ge=0,
            unit="clients",
        ),
    ] = 1


class CellsTables(Tables, Protocol):
    """The tables that labels by cells use."""

    @property
    def protocol(self) -> ProtocolKeys: ...
    @property
    def cells(self) -> Cells: ...
    @property
    def sum(self) -> SumKeys: ...
    @property
    def privacy(self) -> Privacy: ...
