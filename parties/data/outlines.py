"""Outlines of data files: the facts about a client's points that other parties need, without the points.

An outline is a .csv file as `tacit.parties.data.files` reads it, with the columns ``client``, ``label``, ``x0``, ``x1``
and so on. It has one row of zeros for each point of a client. It reveals the numbers of rows, columns and labeled rows,
and the names of the classes. Labels are assigned to the rows in turn, so it does not reveal the size of a class.
"""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from tacit.parties.data.dataset import Dataset
from tacit.parties.datasets.error import DataError

__all__ = ["write_outline"]


def write_outline(path: Path, sources: Sequence[tuple[Path, Dataset]]) -> list[tuple[int, int]]:
    """Write the outline of `sources` to `path`. Returns the numbers of rows and of labeled rows of each client.

    Clients are numbered in the order of the sources; a source that names several clients, such as an outline, yields
    all of them. Raises DataError if sources have different columns.
    """
    first, width = sources[0][0], sources[0][1].points.shape[1]
    found: list[tuple[int, int]] = []
    for source, data in sources:
        if data.points.shape[1] != width:
            raise DataError(f"{source}: {data.points.shape[1]} columns; {first} has {width}")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["client", "label", *(f"x{column}" for column in range(width))])
        for _, data in sources:
            for labels in _by_client(data):
                known = int((labels >= 0).sum())
                names = [data.classes[row % len(data.classes)] for row in range(known)] + [""] * (len(labels) - known)
                writer.writerows([len(found), name, *["0"] * width] for name in names)
                found.append((len(labels), known))
    return found


def _by_client(data: Dataset) -> Iterable["np.ndarray[tuple[int, ...], np.dtype[np.int64]]"]:
    if data.clients is None:
        return [data.labels]
    return [data.labels[data.clients == client] for client in range(len(data.client_names or ()))]
