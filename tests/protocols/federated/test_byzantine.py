"""The false models of Byzantine clients: false numbers that were trained, and everything else as trained."""

import numpy as np
import pytest

from tacit.parties.learning.vectors import WIDTHS, Layout, decode, encode
from tacit.protocols.crypto.words import Quantised
from tacit.protocols.federated.byzantine import FALSE_UPDATES, LARGEST, FalseUpdate
from tacit.protocols.federated.secure_averages import Secure
from tacit.protocols.sums.reports import Reports

BEGAN, TRAINED = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.5, 1.0, 3.0, 9.0])


def sent(kind: str, numbers: int, **settings: float) -> list[float]:
    """The model that a client sends of which the first `numbers` are trained, and the rest are running statistics."""
    false = FalseUpdate(kind, numbers, 10.0, seed=1, **settings)
    found: list[float] = decode(false.model(encode(BEGAN), encode(TRAINED), "client/3", 2)).tolist()
    return found


@pytest.mark.parametrize("kind", FALSE_UPDATES)
@pytest.mark.parametrize("numbers", [0, 2, 4])
def test_only_trained_numbers_are_false(kind: str, numbers: int) -> None:
    found = sent(kind, numbers)
    assert found[numbers:] == TRAINED[numbers:].tolist()
    assert all(a != b for a, b in zip(found[:numbers], TRAINED[:numbers], strict=True) if b != 3.0)


@pytest.mark.parametrize(("kind", "sign"), [("scaled", 1), ("stuffed", -1)])
def test_an_update_is_multiplied_by_the_weight_and_clipped(kind: str, sign: int) -> None:
    assert sent(kind, 4) == (BEGAN + sign * 10 * (TRAINED - BEGAN)).tolist()
    assert max(map(abs, sent(kind, 4, largest=5.0))) == 5.0
    assert FalseUpdate(kind, 4, 1.0, 1).largest == LARGEST


@pytest.mark.parametrize("width", WIDTHS)
def test_the_range_of_a_false_model_is_judged_in_the_width_of_its_numbers(width: str) -> None:
    layout, proved = Layout.of([(width, 4)]), Secure(Reports(), Quantised(8, 4.0, 3))
    assert proved.holds(encode(BEGAN, layout), layout)
    assert not proved.holds(encode(TRAINED, layout), layout)
