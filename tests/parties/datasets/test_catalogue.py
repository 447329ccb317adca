"""The catalogue's entry of each data set, and the sets on this machine."""

import re
from pathlib import Path

import numpy as np
import pytest

from tacit.parties.data.sets import DATASETS
from tacit.parties.datasets import store
from tacit.parties.datasets.catalogue import BUNDLED, CATALOGUE

PAGE = Path(__file__).parents[3] / "docs" / "data.md"
HERE = store.root()


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_has_a_plain_name_and_a_one_line_description(name):
    about = DATASETS[name]
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert about.description and about.terms
    assert "\n" not in about.description + about.terms
    assert about.classes >= 2


@pytest.mark.parametrize("name", CATALOGUE)
def test_data_from_a_package_are_pinned_by_their_hash(name):
    entry = CATALOGUE[name]
    if any(way.kind != "upstream" for way in entry.ways):
        assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256 or "")
    assert entry.files


def test_the_page_names_every_data_set():
    named = set(re.findall(r"`([a-z0-9_]+)`", PAGE.read_text(encoding="utf-8")))
    assert set(CATALOGUE) | set(BUNDLED) <= named


@pytest.mark.parametrize("name", CATALOGUE)
def test_stored_data_sets_have_the_announced_shapes_and_sizes(name, monkeypatch):
    monkeypatch.setenv("TACIT_DATA", str(HERE))
    if not store.present(name):
        pytest.skip(f"{name} is not on this machine")
    content, entry = store.stored(name).content, CATALOGUE[name]
    assert store.stored(name).sha256 == (entry.sha256 or store.stored(name).sha256)
    assert len(content.classes) == entry.about.classes
    for part, points in ((content.train, entry.about.train), (content.test, entry.about.test)):
        if part is not None:
            assert len(part.labels) == points or not entry.about.train
            assert part.points.shape[1:] == entry.about.shape
            assert set(np.unique(part.labels)) == set(range(entry.about.classes))
