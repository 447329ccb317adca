"""Features that replace a client's points before anything else is done: `data.features` of a scenario.

A network that was trained on other data computes a row of numbers for each point, which replaces the point. Features
are kept on disk beside the data sets, in blocks of rows named by the SHA-256 of their points, so that each point passes
through the network once, also when a run is interrupted.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.datasets import store
from tacit.parties.datasets.content import DataSettingError, Points, Report, quiet
from tacit.parties.learning.extras import EFFICIENTNET, MINILM, require

__all__ = ["FEATURES", "FeatureKind", "features_of"]

FeatureNetwork = Callable[[Points], NDArray[np.float32]]
"""A function from points to their features, (n, d)."""


@dataclass(frozen=True)
class FeatureKind:
    """A kind of features: a summary, the extra and the packages that it needs, and the function that loads the network.

    `wanted` describes the points it accepts, `reads` tests if it accepts the given ones, `version` names the weights.
    """

    description: str
    extra: str
    packages: tuple[str, ...]
    wanted: str
    reads: Callable[[Points], bool]
    version: Callable[[], str]
    load: Callable[[], FeatureNetwork]


def _code(name: str) -> Any:
    """The module of a kind of features, which is imported when it is first used."""
    return import_module(f"tacit.parties.learning.{name}")


FEATURES: dict[str, FeatureKind | None] = {
    "identity": None,
    "efficientnet-lite0": FeatureKind(
        "1280 features of images by EfficientNet-Lite0, trained on ImageNet",
        "pretrained",
        EFFICIENTNET,
        "images of 1 or 3 channels",
        lambda points: points.dtype == np.uint8 and points.ndim == 4 and points.shape[3] in (1, 3),
        lambda: _code("pretrained").version(),
        lambda: _code("pretrained").load(),
    ),
    "minilm-l6": FeatureKind(
        "384 features of texts by the sentence embedding all-MiniLM-L6-v2",
        "language",
        MINILM,
        "texts",
        lambda points: points.dtype == object,
        lambda: _code("sentences").version(),
        lambda: _code("sentences").load(),
    ),
}
"""The kinds of features by name; None leaves the points unchanged."""

_BLOCK = 500
_BATCH = 50


def features_of(points: Points, name: str, report: Report = quiet, cache: Path | None = None) -> Points:
    """The features `name` of the n `points`: float64 (n, d), or for "identity" the points themselves.

    Features in the folder `cache`, by default ``features`` beside the data sets, are read from there; others are
    computed and stored in it, with progress reported to `report`. Raises DataError for a name that is not in `FEATURES`
    and for points of another kind, and MissingExtra.
    """
    if name not in FEATURES:
        raise DataSettingError("features", name, f"is not known; allowed: {', '.join(FEATURES)}")
    kind = FEATURES[name]
    if kind is None:
        return points
    if not kind.reads(points):
        raise DataSettingError(
            "features", name, f"are those of {kind.wanted}, not of {points.dtype} {points.shape[1:]}"
        )
    for package in kind.packages:
        require(package, kind.extra, f"features by {name}")
    folder = cache or store.root() / "features"
    loaded: list[FeatureNetwork] = []

    def network() -> FeatureNetwork:
        if not loaded:
            loaded.append(kind.load())
        return loaded[0]

    blocks = []
    for at in range(0, len(points), _BLOCK):
        block = points[at : at + _BLOCK]
        place = folder / f"{name}-{_digest(block, kind.version())}.npy"
        found = _read(place, len(block))
        if found is None:
            parts = []
            for start in range(0, len(block), _BATCH):
                report(f"features by {name}", at + start, len(points))
                parts.append(network()(block[start : start + _BATCH]))
            found = np.concatenate(parts)
            _keep(place, found)
        blocks.append(found)
    return np.concatenate(blocks).astype(np.float64)


def _digest(points: Points, version: str) -> str:
    """A digest of the points' shape and values and of the weights' version, 32 hexadecimal digits."""
    state = hashlib.sha256(f"{version} {points.dtype.str} {points.shape} ".encode())
    for part in _bytes(points):
        state.update(part)
    return state.hexdigest()[:32]


def _bytes(points: Points) -> Iterator[bytes | memoryview]:
    if points.dtype != object:
        yield np.ascontiguousarray(points).data
        return
    for text in points:
        raw = text.encode()
        yield len(raw).to_bytes(8, "big") + raw


def _read(place: Path, rows: int) -> NDArray[np.float32] | None:
    """The features in the file `place`; None if there is no such file, or if it is damaged."""
    with contextlib.suppress(OSError, ValueError, EOFError):
        found: NDArray[np.float32] = np.load(place)
        if found.ndim == 2 and len(found) == rows and found.dtype == np.float32:
            return found
    return None


def _keep(place: Path, features: NDArray[np.float32]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    half_done = place.with_name(f"{place.name}.{os.getpid()}")
    with half_done.open("wb") as file:
        np.save(file, features)
    half_done.replace(place)
