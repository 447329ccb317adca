"""The pages on privacy compute the values that they print."""

import doctest
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_pages_compute_what_they_print() -> None:
    pages = (DOCS / "privacy.md", *sorted((DOCS / "privacy").glob("*.md")))
    found = [doctest.testfile(str(page), module_relative=False) for page in pages]
    assert sum(one.attempted for one in found) >= 9 and not any(one.failed for one in found)
