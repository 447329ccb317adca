"""Budgets of the tests: the processor seconds that each folder may take, on all workers together.

The seconds of a test are those of its worker and of all processes that it began, so other work on the machine hardly
changes them. A run of the tests prints them by folder, and names each folder that takes more than its budget. It does
not fail for that. A budget is about one and a half times what the folder takes on two idle cores, because a core that
shares its caches and its clock is slower.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress

import psutil
import pytest

__all__ = ["FAST", "LONG", "Meter", "exceeded", "folder_of", "is_long"]

TOP = "*.py"
"""The test files that stand in no folder."""

FAST = {
    TOP: 36, "attacks": 28, "benchmarks": 35, "chaos": 85, "deployed": 10, "fuzz": 12, "mutants": 10, "on_ray": 20,
    "parties": 53, "plugins": 75, "protocols": 185, "scenarios": 500, "sim": 29, "wheel": 18,
}  # fmt: skip
"""The budgets of ``make test``, in seconds."""

LONG = {
    TOP: 280, "attacks": 30, "benchmarks": 50, "chaos": 400, "deployed": 190, "fuzz": 50, "mutants": 10, "on_ray": 80,
    "parties": 15, "plugins": 140, "protocols": 225, "scenarios": 600, "sim": 35, "wheel": 110,
}  # fmt: skip
"""The budgets of ``make test-long``, in seconds."""

_PROPERTY = "processor seconds"


def is_long(config: pytest.Config) -> bool:
    """Return true if the long tests are run, as by ``make test-long``."""
    return str(config.option.markexpr) == "long"


def folder_of(test: str) -> str:
    """Return the folder of tests/ that holds a test, by its identifier, or `TOP`."""
    parts = test.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 else TOP


def exceeded(spent: Mapping[str, float], budgets: Mapping[str, float]) -> list[str]:
    """Return a line for each folder that took more seconds than its budget."""
    return [
        f"tests/{folder} took {seconds:.0f} s of processors; its budget in tests/budgets.py is {budgets[folder]:.0f} s"
        for folder, seconds in spent.items()
        if seconds > budgets[folder]
    ]


def processor_seconds() -> float:
    """Return the seconds that this process has computed, with all that descend from it, those that ended included."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


class Meter:
    """A plugin of pytest that measures each file of tests, and names the folders that exceed their budgets.

    Workers of pytest-xdist send what they measure with the report of a file's last test.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.budgets = LONG if is_long(config) else FAST
        self.spent: Counter[str] = Counter()
        self._began: float | None = None
        self._ends = False
        self._reports = not hasattr(config, "workerinput")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if self._began is None:
            self._began = processor_seconds()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        self._ends = nextitem is None or nextitem.path != item.path

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[None]:
        outcome = yield
        if call.when == "teardown" and self._ends and self._began is not None:
            # A process that outlives its parent is counted no more, so the sum may be less than it was before.
            seconds = max(0.0, processor_seconds() - self._began)
            outcome.get_result().user_properties.append((_PROPERTY, seconds))  # type: ignore[attr-defined]
            self._began = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._reports and report.when == "teardown":
            self.spent[folder_of(report.nodeid)] += sum(
                float(str(value)) for name, value in report.user_properties if name == _PROPERTY
            )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.spent) > 1:
            terminalreporter.section("processor seconds by folder, of its budget")
            for folder, seconds in self.spent.most_common():
                terminalreporter.line(f"{seconds:8.1f} of {self.budgets[folder]:4.0f}  tests/{folder}")
            terminalreporter.line(f"{self.spent.total():8.1f}          in all")
        for line in exceeded(self.spent, self.budgets):
            terminalreporter.line(line, red=True)
