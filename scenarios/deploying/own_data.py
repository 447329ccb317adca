"""The points of one process in a deployment: its party's share of the scenario's data, and public points."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from tacit.parties.data.files import load_file
from tacit.parties.data.sets import Dataset
from tacit.parties.data.splits import Shard, Shards
from tacit.parties.datasets.error import DataError
from tacit.protocols.experiment.parts import Parts
from tacit.scenarios.files.splits import featured, parts_of, split
from tacit.scenarios.schema.scenario import Scenario

__all__ = ["OwnShards", "own_data"]


class OwnShards(Shards):
    """The share of client `own` (None: of no client), and only the numbers of points and labels of all other
    clients."""

    def __init__(self, all_shards: Shards, empty: Dataset, own: int | None) -> None:
        self.labels, self.points = all_shards.labels, all_shards.points
        self._number, self._own = own, None if own is None else all_shards[own]
        none = np.zeros(0, np.int64)
        self._other = Shard(empty.points, none, np.zeros(0, np.bool_), none)

    def _share(self, client: int) -> Shard:
        return self._own if self._own is not None and client == self._number else self._other

    def digest(self) -> bytes:
        raise TypeError("the shares of other clients are not here")


def own_data(scenario: Scenario, party: str, file: Path | None = None) -> tuple[Parts, OwnShards]:
    """The data that `party` knows: its own share, public points, and at the server the test data.

    The split follows from the scenario's seed, so that each process computes its share by itself. A client's points are
    those of `file`, if given: then the scenario's data are an outline (`tacit.parties.data.files`), with the file's
    numbers of rows and labels for that client. Raises DataError.
    """
    parts = parts_of(scenario)
    number = int(party.removeprefix("client/")) if party.startswith("client/") else None
    held, empty = parts.held, parts.held.take(slice(0))
    if file is not None and number is not None:
        held = _with_own(scenario, held, number, file)
    own = OwnShards(split(held, scenario.data, scenario.seed), empty, number)
    if party == "server":
        return replace(parts, held=empty), own
    return Parts(empty, public=parts.public), own


def _with_own(scenario: Scenario, outline: Dataset, number: int, file: Path) -> Dataset:
    """The `outline` with the points and labels of one client replaced by those of `file`. Raises DataError."""
    data = scenario.data
    if not data.path or data.partition != "natural" or outline.clients is None or data.test is not None:
        raise DataError(
            f'{file}: a file of one\'s own needs a scenario with data.partition = "natural", without data.test, whose '
            "data.path is what `tacit outline` has written of all clients' files"
        )
    own = featured(load_file(file, data.label_column, data.client_column), data.features)
    rows = np.flatnonzero(outline.clients == number)
    for what, one, other in (
        ("columns", own.points.shape[1], outline.points.shape[1]),
        ("rows", len(own.labels), len(rows)),
        ("rows with a label", (own.labels >= 0).sum(), (outline.labels[rows] >= 0).sum()),
    ):
        if one != other:
            raise DataError(f"{file}: {one} {what}; the outline of client/{number} has {other}")
    unknown = [name for name in own.classes if name not in outline.classes]
    if unknown:
        raise DataError(f"{file}: no outline has the class {unknown[0]!r}; they have {', '.join(outline.classes)}")
    codes = np.array([outline.classes.index(name) for name in own.classes] + [-1])
    points, labels = outline.points.copy(), outline.labels.copy()
    points[rows], labels[rows] = own.points, codes[own.labels]
    return replace(outline, points=points, labels=labels)
