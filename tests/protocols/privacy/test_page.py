"""The pages on privacy compute the values that they print."""

import doctest
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs"


def test_the_examples_on_the_pages_print_their_stated_results() -> None:
    pages = (DOCS / "privacy.md", *sorted((DOCS / "privacy").glob("*.md")))
    found = [doctest.testfile(str(page), module_relative=False) for page in pages]
    assert sum(one.attempted for one in found) >= 9 and not any(one.failed for one in found)
