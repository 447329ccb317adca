"""Labels by private cells: the server learns noisy sums over cells of all clients' points, and no point or label.

| step | message | from -> to | payload | what |
| --- | --- | --- | --- | --- |
| setup.* | those of `setup` | | | a key for each pair of clients; with other sums than `secure` in each sum |
| cells.add | PointsHeld | j -> server | 0 | its number of points, where `setup` does not say it |
| cells.add | | j | | its summand: points summed by cells, and its part of the noise |
| sum.* | those of `cells.sum` | | | T + 2 sums, one after another |
| cells.move | Centres | server -> each left | 8 (c + 1) d | the noisy mean and the c centres; before each further sum |
| cells.move | CellLabels | server -> each left | 2 c | after the last: the label of each cell |
| cells.label | | j | | each of its points gets the label of its cell |

Sources: Lloyd's algorithm on noisy sums (Blum, Dwork, McSherry, Nissim, PODS 2005; Su et al., CODASPY 2016), Gaussian
differential privacy (`tacit.protocols.privacy.gaussian`), distributed discrete Gaussian noise (Kairouz, Liu, Steinke,
ICML 2021), secure sums (`tacit.protocols.sums.secure_sum`).

What is released, all of it in one chain of which each depends on those before:

1. the sum of all points' vectors, clipped to norm S (`privacy.clip`): divided by the number of points, their mean;
2. T times, for each cell, the sum of its points' vectors as they are seen from that mean, clipped to norm R
   (`cells.radius`), and R times their number: the centres move to the quotients;
3. for each cell and class the number of labeled points.

Neighbours: one point of one client is replaced by any other, with its label and whether that may be used; the unit of
privacy is a point, and the number of points of each client is public (each is sent in the set-up). Then

- release 1 moves by at most 2 S in the L2 norm;
- a release of 2 by at most 2 R: within a cell its sum moves by 2 R and its count not at all; from one cell to another
  two sums move by R each and two counts by R each, so sqrt(4 R^2);
- release 3 by at most sqrt(2): two counts by 1 each.

With noise of 2 S sqrt(T + 1) / (mu sqrt s), 2 R sqrt(T + 1) / (mu sqrt s) and sqrt(2) / (mu sqrt(1 - s)) all T + 2
releases together are mu-GDP, so (epsilon, delta)-DP for the mu of [privacy]; s is `cells.sums_share`. All else follows
from the releases: the centres, the labels of cells, and that a cell with a small noisy count keeps its centre. So do
the bounds whatever centres a server sends: it may choose them badly, and learns no more. Outside of it: the first
centres lie in random directions, drawn without the data; the number of cells, T, S and R are in the scenario's file,
and choosing them by looking at the data is not accounted for. The labels that a client gives its own points depend on
these points, and stay with it.

Who adds the noise: each client its part, with the variance divided by m = `protocol.min_clients` - `cells.colluding`.
A client demands in each sum that at least `min_clients` are left (`secure_sum`), so with so few the noise is enough
when all of the colluding ones take theirs out; more clients only add noise. Clients are semi-honest: one that leaves
its part out counts as colluding. A client sends one vector to each of T + 2 sums and no other: that of sum i in round i
alone, entered in its ledger before it is sent (`tacit.protocols.ledger`), so a client that comes back or is
called again adds no second draw of noise. A sum that ends in an abort after values were sent is charged like one that
was opened.

Discretisation: vectors are rounded towards zero to the grid of 2^-24 after clipping, so no norm grows, sums are exact
and the sensitivities hold as they are. Noise is discrete Gaussian on that grid. The sum of m parts of deviation v grid
units is within exp(-pi^2 v^2) of a discrete Gaussian (Kairouz et al., theorem 1), and that within 1 / (48 m v^2) a
number of normal noise that is rounded afterwards, which is the above mechanism and a function of its result. With
sampling (`discrete_gaussian`: 2^-46 a number and client) a run of 10^4 numbers and 10 clients is within 2^-28 of it in
total variation (`Plan.sampling_error`); (1 + e^epsilon) times that is added to the delta that a run states. With
`entropy = "seeded"` whoever knows the seed takes all noise off again, and no epsilon holds.

Security: semi-honest, as of `secure_sum`. The server learns the releases, and n_j of each client; clients learn the
mean, the centres, the label of each cell, and who takes part. That a client takes part is not hidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.parties.life import Observed
from tacit.protocols import setup
from tacit.protocols.cells.mechanism import (
    Known,
    Plan,
    cells_of,
    first_centres,
    majorities,
    mean_of,
    moved,
    summand,
    summand_work,
)
from tacit.protocols.crypto.masking import Ring
from tacit.protocols.ledger import release
from tacit.protocols.one_shot import OneShotClient, OneShotServer
from tacit.protocols.parts import Choice, Part, Step
from tacit.protocols.setup import Group
from tacit.protocols.sums import secure_sum
from tacit.protocols.sums.registry import WithSums
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.sums.summing import Chosen
from tacit.protocols.values import BadValues, understood, values_of
from tacit.sim.hollow import array_in
from tacit.sim.wire import Message

__all__ = [
    "STEPS", "CellLabels", "CellsClient", "CellsServer", "Centres", "OwnNoise", "PointsHeld", "Released", "TheSum",
    "client", "server",
]  # fmt: skip


class TheSum(Part):
    """The sum that `cells.sum` names."""

    takes = (
        Choice(
            "cells.sum",
            WithSums[Part]({}, lambda one: Part() if one.proves else one(), {SecAgg.name: lambda: secure_sum.SUM}),
        ),
    )
    messages = ()


STEPS = (
    Step("client", "cells.add", "sum its clipped points by cells, with its part of the noise; before each sum"),
    TheSum(),
    Step("client", "cells.label", "label its points by their cells"),
    Step("server", "cells.move", "move the centres by a noisy sum and hand them out; in the end the labels of cells"),
)


class PointsHeld(Message):
    admits: ClassVar[tuple[str, ...]] = ("Centres",)
    number: int


class Centres(Message):
    announces: ClassVar[bool] = True
    values: bytes


class CellLabels(Message):
    announces: ClassVar[bool] = True
    labels: bytes


@dataclass(frozen=True, eq=False)
class Released:
    """The server's result of one sum: `contributors`, the `ring` of all numbers, and the `centres` computed from it.

    `points` is the number of points of the contributors. `labels`, after the last sum, are the labels of the cells.
    """

    contributors: tuple[str, ...]
    points: int
    ring: Ring
    centres: NDArray[np.float64]
    labels: NDArray[np.int64]


class OwnNoise:
    """The noise that a client has added, by the number of the sum.

    It is no record, so no deployment writes it to disk.
    """

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: dict[int, NDArray[np.int64]] = {}


class CellsClient(OneShotClient):
    """A client. Observers read the `noise` that it has added, and `found`, the labels of its points."""

    noise: Observed[OwnNoise | None] = Observed(lambda: None)
    found: Observed[NDArray[np.int64] | None] = Observed(lambda: None)


class CellsServer(OneShotServer):
    """The server. Observers read the sums that it has `released`, and the number of sums that it has `asked` for."""

    released: Observed[list[Released]] = Observed(list[Released])
    asked: Observed[int] = Observed(int)


Sums = Sequence[secure_sum.Settings | Chosen]
"""The settings of the T + 2 sums: those with the keys of the group, or sums with a set-up of their own."""


async def client(me: CellsClient, plan: Plan, group: Group, settings: Sums) -> None:
    """Take part in all sums, with `settings` (T + 2,), and label the client's points."""
    deadline = settings[0].deadline
    features, known, noise = me.shard.features, Known.nothing(plan), OwnNoise()
    me.noise = noise
    labels = np.where(me.shard.labeled, me.shard.labels, -1)
    for number, sum_settings in enumerate(settings, 1):
        if number > 1:
            centres = await me.recv(Centres, me.server, 2 * deadline)
            with values_of(me, me.server, "Centres"):
                known = _known(centres.values, plan)
        with me.step("cells.add"):
            if number == 1 and isinstance(sum_settings, Chosen):
                me.send(me.server, PointsHeld(len(features)))
            work, entropy = summand_work(len(features), plan, number), me.entropy("cells", number)
            words, own = await me.compute(work, summand, features, labels, known, plan, number, entropy)
            noise.parts[number] = own
        if me.round != number:
            me.refuse(f"release sum {number} in round {me.round}")
            raise BadValues(f"sum {number} was asked for in round {me.round}")
        release(me, "sums of private cells", words.tobytes())
        if isinstance(sum_settings, Chosen):
            await sum_settings.contribute(me, words)
        else:
            await secure_sum.client(me, words, group.secrets, sum_settings, number)
    last = await me.recv(CellLabels, me.server, 2 * deadline)
    with me.step("cells.label"):
        with values_of(me, me.server, "CellLabels"):
            of_cells = _labels(last.labels, plan)
        work = {"lsh.multiply": features.size * plan.count}
        me.found = of_cells[await me.compute(work, cells_of, features, known, plan)]


def _known(values: bytes, plan: Plan) -> Known:
    if len(values) != 8 * (plan.count + 1) * plan.dimension:
        raise ValueError(f"a mean and {plan.count} centres of {plan.dimension} numbers each were due")
    numbers = array_in(values, "<f8").reshape(plan.count + 1, plan.dimension)
    if not np.isfinite(numbers).all():
        raise ValueError("centres that are no numbers")
    return Known(numbers[0], numbers[1:])


def _labels(values: bytes, plan: Plan) -> NDArray[np.int64]:
    labels = array_in(values, "<u2").astype(np.int64) if len(values) == 2 * plan.count else None
    if labels is None or labels.max() >= plan.classes:
        raise ValueError(f"labels of {plan.count} cells, of {plan.classes} classes, were due")
    return labels


async def _points(me: CellsServer, names: Sequence[str], deadline: float) -> dict[str, int]:
    """The number of points of each of `names`; those that do not say it are lost."""
    with me.step("cells.move"):
        answers = (await me.collect(PointsHeld, names, deadline=deadline)).answers
        found = understood(me, answers, lambda name, said: _checked(said.number))
        missing = [name for name in names if name not in found]
        me.lose(missing, "its number of points was not received: the sums go without it")
        me.dismiss(missing, f"your number of points did not come within {deadline:g} s")
    return {name: found[name] for name in names if name in found}


def _checked(number: int) -> int:
    if not 0 <= number <= setup.MOST_POINTS:
        raise ValueError(f"{number} points; allowed: 0 to {setup.MOST_POINTS}")
    return number


async def server(me: CellsServer, plan: Plan, group: Group, settings: Sums) -> None:
    """Release all sums, one after another, over the remaining clients. Raises Abort if too few remain."""
    names, known, points = group.names, Known.nothing(plan), group.points
    if isinstance(settings[0], Chosen):
        points = await _points(me, names, settings[0].deadline)
        names = tuple(points)
    labels = np.zeros(0, np.int64)
    released: list[Released] = []
    for number, sum_settings in enumerate(settings, 1):
        me.asked = number
        if isinstance(sum_settings, Chosen):
            total = await sum_settings.total(me, names)
        else:
            total = await secure_sum.server(me, names, sum_settings)
        names = total.contributors
        counted = sum(points[name] for name in names)
        with me.step("cells.move"):
            if number == 1:
                known = Known(mean_of(total.ring, counted, plan), first_centres(plan, me.entropy("centres")))
            elif number == plan.sums:
                labels = majorities(total.ring, plan)
            else:
                known = Known(known.mean, moved(total.ring, known.centres, plan, number))
            released.append(Released(names, counted, total.ring, known.centres, labels))
            me.released = list(released)
            if number < plan.sums:
                me.advance(number + 1, 0)
                me.broadcast(names, Centres(np.vstack([known.mean, known.centres]).astype("<f8").tobytes()))
            else:
                me.broadcast(names, CellLabels(labels.astype("<u2").tobytes()))
