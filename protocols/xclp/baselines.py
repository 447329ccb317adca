"""Label propagation in the clear, on the hashes of a round: what a run is compared with."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tacit.protocols.xclp.blocks import Hashes
from tacit.protocols.xclp.label_propagation import propagate
from tacit.protocols.xclp.xclp import Parameters

__all__ = ["baselines"]

Labelled = Mapping[str, NDArray[np.int64]]


def baselines(
    bits: Mapping[str, NDArray[np.bool_]], known: Labelled, parameters: Parameters, alone: bool
) -> dict[str, dict[str, NDArray[np.int64]]]:
    """Labels (n_j,) of each client's points, by the title of the baseline: each client alone, and all on one graph.

    `bits`: (n_j, L) of each. `known`: the labels that it uses, -1 elsewhere. `alone`: whether one by itself applies.
    """
    joint = np.concatenate(list(bits.values()))
    together = _labels(joint, np.concatenate([known[name] for name in bits]), parameters)
    ends = np.cumsum([len(own) for own in bits.values()])[:-1]
    return {
        "per-client label propagation": {
            name: _labels(own, known[name], parameters) for name, own in bits.items() if alone
        },
        "central label propagation": dict(zip(bits, np.split(together, ends), strict=True)),
    }


def _labels(bits: NDArray[np.bool_], known: NDArray[np.int64], parameters: Parameters) -> NDArray[np.int64]:
    found = propagate(
        Hashes(bits), parameters.bits, known, parameters.classes, parameters.k, parameters.alpha, parameters.recipe
    )
    return found.labels
