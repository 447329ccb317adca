"""The tests of ``pytest scenarios/``: one for each scenario file with an [expect]."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tacit.parties.data.sets import MissingDataError
from tacit.scenarios.files.reading import load, read
from tacit.scenarios.running.runner import carry_out
from tacit.scenarios.schema.scenario import Expect, ScenarioError


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> "ScenarioFile | None":
    return ScenarioFile.from_parent(parent, path=file_path) if file_path.suffix == ".toml" else None


class ScenarioFile(pytest.File):
    """A scenario file; it is a test if it has expectations."""

    def collect(self) -> Iterator["ScenarioItem"]:
        scenario = read(self.path, without_data=True).scenario
        if scenario.expect != Expect():
            item = ScenarioItem.from_parent(self, name=self.path.stem)
            item.file = self.path
            if scenario.size == "long":
                item.add_marker(pytest.mark.long)
            yield item


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and those during whose handling it was raised."""
    while error is not None:
        yield error
        error = error.__context__


class UnmetError(Exception):
    """The result of the run differs from the file's expectations."""


class ScenarioItem(pytest.Item):
    """Runs the scenario and compares its result with the expectations."""

    file: Path

    def runtest(self) -> None:
        try:
            scenario = load(self.file)
        except ScenarioError as error:
            if any(isinstance(one, MissingDataError) for one in _behind(error)):
                pytest.skip(str(error))
            raise
        out = self.config._tmp_path_factory.mktemp(self.name) / "run"  # type: ignore[attr-defined]
        result = carry_out(scenario, self.name, out=out)
        if result.error is not None:
            raise result.error
        if result.unmet:
            raise UnmetError("\n".join(result.unmet))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        return str(excinfo.value) if isinstance(excinfo.value, UnmetError) else str(excinfo.getrepr())

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"scenario {self.name}"
