"""The promised numbers of inputs are those that are tried."""

from collections.abc import Callable
from pathlib import Path

import pytest


def test_the_long_tests_try_a_hundred_thousand_inputs(request: pytest.FixtureRequest) -> None:
    table = next(
        plugin.INPUTS
        for plugin in request.config.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(Path(__file__).with_name("conftest.py"))
    )
    assert sum(long for _, long in table.values()) >= 100_000
    source = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert all(f"def {test}(" in source for test in table)


def test_an_exception_raised_by_another_package_is_no_clear_error(clear: Callable[[BaseException], None]) -> None:
    def foreign() -> None:
        int("x")

    with pytest.raises(ValueError) as raised:
        foreign()
    with pytest.raises(AssertionError, match="raised by"):
        clear(raised.value)
