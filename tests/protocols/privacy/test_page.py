"""What docs/privacy.md computes is what comes out."""

import doctest
from pathlib import Path


def test_the_page_computes_what_it_says() -> None:
    page = Path(__file__).parents[3] / "docs" / "privacy.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert found.attempted >= 9 and not found.failed
