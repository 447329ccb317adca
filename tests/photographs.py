"""Images drawn at random in place of CIFAR-10."""

from pathlib import Path

import numpy as np
import pytest

from tacit.parties.datasets import store
from tacit.parties.datasets.content import Content, Part
from tacit.sim.streams import generator

__all__ = ["drawn"]


def drawn(folder: Path, monkeypatch: pytest.MonkeyPatch, rows: int, tested: int) -> None:
    """Replace CIFAR-10 in this process by `rows` images to learn from and `tested` others, kept in `folder`."""
    monkeypatch.setenv("TACIT_DATA", str(folder))
    dice = generator(1, "photographs")

    def part(count: int) -> Part:
        return Part(dice.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), dice.integers(0, 10, count))

    with store.locked(lambda: None), store.workplace() as work:
        store.keep("cifar10", Content(part(rows), part(tested), tuple("abcdefghij")), "a test", work)
