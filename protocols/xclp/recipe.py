"""Two recipes of label propagation: the paper's, and that of its authors' code, which has further steps.

| | paper | authors-code |
| --- | --- | --- |
| weight of an edge | cos(pi H / L), 0 from a right angle on | the same, cubed |
| class scores | Z = S Y | column c of Z divided by the number of labels of class c |
| confidence | 1 - entropy / log C | the same, divided by the largest of all |
| pseudo-labels by a network | of its probabilities | of its logits, negative ones 0, divided by their sum |

The authors' code runs in one process and divides by the largest confidence of all points of all clients. No party may
know that one here, so each client divides by the largest among its own rows: no message, nothing revealed. Labels are
the same; the confidences of a client differ by one factor, by which its most certain point falls short of everybody's.
Its labeled points, mostly the most certain ones, are among its rows with `protocol.rows = "paper"` alone.
The class counts are those of the labels that count, so they are only known with the sum: dividing a column of Y by its
count is dividing that column of Z. How clients learn them is in `xclp`.

In training the authors' code also multiplies a point's weight by n / (C count), with the number of all labels and
pseudo-labels of its class in the round. Across clients this would take one more secure sum in each round, after the
pseudo-labels are there, and reveal to every client how many points of each class the others have; with
`training.class_weights` each client counts its own points.

A point that no label reaches has label -1 here; in the authors' code, where all its scores are 0 as well, class 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["AUTHORS_CODE", "PAPER", "RECIPES", "Recipe"]


@dataclass(frozen=True)
class Recipe:
    """The settings of a recipe. `edge_power`: that of the cosines. `class_balanced`: columns of Z are divided.

    `relative`: confidences are divided, too. `logits`: predictions of a network are judged by logits, not by
    probabilities.
    """

    name: str
    edge_power: int = 1
    class_balanced: bool = False
    relative: bool = False
    logits: bool = False

    def scores(self, z: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute class scores (n, C) from Z (n, C) and the number of labels of each class in it (C,)."""
        return z / np.maximum(counts, 1.0) if self.class_balanced else z

    def weights(self, confidence: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scale confidences (n,) for use as weights."""
        largest = float(confidence.max(initial=0.0))
        return confidence / largest if self.relative and largest > 0.0 else confidence


PAPER = Recipe("paper")
AUTHORS_CODE = Recipe("authors-code", edge_power=3, class_balanced=True, relative=True, logits=True)
RECIPES = {recipe.name: recipe for recipe in (PAPER, AUTHORS_CODE)}
