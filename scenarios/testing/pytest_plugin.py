"""The plugin of pytest that collects scenario files as tests; pytest loads it if Tacit is installed.

Files named ``test_*.tacit.toml`` are collected, files that match the setting `tacit_files`, and files named on the
command line; no others. A file is a test that runs it, and, with ``--tacit-chaos N``, a second test that runs it under
crashes and random faults. Nothing else of Tacit is imported before a test of a scenario begins.
"""

import argparse
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tacit.scenarios.testing.outcomes import Problem

__all__ = ["ChaosTest", "RunTest", "ScenarioFile"]

_FILES = "test_*.tacit.toml"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tacit", "Tacit scenarios")
    group.addoption(
        "--tacit-chaos",
        type=_count,
        default=None,
        metavar="N",
        help="also run each scenario under every single crash and N random fault schedules, and check its promises",
    )
    group.addoption("--tacit-chaos-seed", type=int, default=0, metavar="N", help="seed of the schedules (default: 0)")
    group.addoption(
        "--tacit-limit", metavar="TIME", help="fail a run that takes longer on the wall clock, such as 10min"
    )
    group.addoption(
        "--tacit-out",
        metavar="DIR",
        help="keep the folders of all runs below DIR (default: only those of tests that fail, in the temporary folder)",
    )
    parser.addini(
        "tacit_files",
        "scenario files to collect: patterns of names, or of the ends of paths where they have a slash",
        type="args",
        default=[_FILES],
    )


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "tacit: the test of a scenario file",
        "tacit_chaos: a scenario under random faults (--tacit-chaos)",
        'tacit_long: of a scenario file with size = "long"',
    ):
        config.addinivalue_line("markers", marker)


def _count(text: str) -> int:
    """Return the number of schedules in `text`. Raises ArgumentTypeError unless it is an integer, 0 or more."""
    if not re.fullmatch(r"\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of schedules: a whole number, 0 or more")
    return int(text)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ScenarioFile | None":
    if file_path.suffix != ".toml":
        return None
    patterns = parent.config.getini("tacit_files")
    if parent.session.isinitpath(file_path) or any(_matches(file_path, pattern) for pattern in patterns):
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


def _matches(path: PurePath, pattern: str) -> bool:
    return path.match(pattern) if "/" in pattern else PurePath(path.name).match(pattern)


class ScenarioFile(pytest.File):
    """A scenario file: the test that runs it, and, if requested, the test under chaos."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the tests of the file."""
        yield RunTest.from_parent(self, name="run")
        if self.config.getoption("tacit_chaos") is not None:
            yield ChaosTest.from_parent(self, name="chaos")


class _Unmet(Exception):
    """The failure of a test, with lines that explain it."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = [*lines]
        super().__init__(self.lines[0] if self.lines else "")


class _ScenarioTest(pytest.Item):
    """The base of the tests of a scenario file."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.add_marker("tacit")
        if re.search(r"^size\s*=\s*[\"']long[\"']", self.path.read_text(encoding="utf-8", errors="replace"), re.M):
            self.add_marker("tacit_long")

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file, its first line, and the heading of a failure: file and test."""
        return self.path, 0, self.nodeid.replace("::", ": ")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *arguments: Any) -> Any:
        """Return the lines of a failed test, or the user's mistake in one line; otherwise the traceback."""
        if isinstance(excinfo.value, _Unmet):
            return "\n".join(excinfo.value.lines)
        return super().repr_failure(excinfo, *arguments)

    def runtest(self) -> None:
        """Carry out the test. The run's folder is at the place that the options name, or is removed if the test
        passes."""
        from tacit.parties.datasets.content import DataError
        from tacit.scenarios.schema.scenario import ScenarioError

        kept = self.config.getoption("tacit_out")
        if kept is None:
            base = Path(tempfile.mkdtemp(prefix="tacit-"))
        else:
            base = Path(kept).absolute() / re.sub(r"[^\w.-]+", "-", self.nodeid.partition("::")[0])
        try:
            self.carry_out(base)
        except (ScenarioError, DataError) as error:
            self.note([_of_error(error)])
            raise _Unmet([f"error: {error}"]) from None
        if kept is None:
            shutil.rmtree(base)

    def carry_out(self, base: Path) -> None:
        """Run the scenario, with folders below `base`. Raises _Unmet if the test fails."""
        raise NotImplementedError

    def note(self, problems: "list[Problem]") -> None:
        """Store the annotations of GitHub Actions for these problems, to be printed at the end of the session."""
        from tacit.scenarios.testing.annotations import annotate

        if os.environ.get("GITHUB_ACTIONS") == "true":
            lines = annotate(self.path, problems, None, {"GITHUB_ACTIONS": "true"})
            self.user_properties += [("tacit_annotation", line) for line in lines]


def _of_error(error: ValueError) -> "Problem":
    from tacit.scenarios.testing.outcomes import Problem

    return Problem(getattr(error, "key", ""), str(error))


class RunTest(_ScenarioTest):
    """Runs the scenario, and fails if `tacit run` would have an exit code other than 0."""

    def carry_out(self, base: Path) -> None:
        """Run the scenario below `base`. Raises _Unmet if the run is not as expected."""
        from tacit.scenarios.files.reading import read
        from tacit.scenarios.running import runner
        from tacit.scenarios.running.folder import new_folder
        from tacit.scenarios.running.interruption import seconds_of
        from tacit.scenarios.testing.outcomes import problems_of, report_of

        limit = seconds_of(self.config.getoption("tacit_limit"), "--tacit-limit")
        loaded = read(self.path)
        folder = new_folder(None, f"{loaded.name}-{loaded.scenario.seed}", base)
        folder.rmdir()  # only the free name is needed; the run makes the folder
        result = runner.carry_out(loaded.scenario, loaded.name, out=folder, limit=limit)
        if result.outcome == "interrupted":
            raise KeyboardInterrupt
        self.user_properties += [
            ("seed", result.seed),
            ("outcome", result.outcome),
            ("lost", ", ".join(dict.fromkeys(loss.party for loss in result.lost))),
            ("virtual_seconds", result.virtual_seconds),
            ("bytes_total", result.bytes_total),
            ("trace_hash", result.trace_hash),
        ]
        if problems := problems_of(result, loaded.scenario.expect):
            self.note(problems)
            raise _Unmet(report_of(result, problems, self.path))


class ChaosTest(_ScenarioTest):
    """Runs the scenario under crashes and random faults, like `tacit chaos --quick`, and fails if a promise is
    broken."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.add_marker("tacit_chaos")

    def carry_out(self, base: Path) -> None:
        """Run the campaign, with its folder below `base`. Raises _Unmet if a promise is broken."""
        from tacit.scenarios.chaos.campaign import Findings, Plan, campaign
        from tacit.scenarios.chaos.chaos import ready
        from tacit.scenarios.chaos.report import failure_lines, write_findings
        from tacit.scenarios.running.folder import new_folder
        from tacit.scenarios.testing.outcomes import Problem

        schedules, seed = self.config.getoption("tacit_chaos"), self.config.getoption("tacit_chaos_seed")
        plan = Plan(schedules=schedules, quick=True, seed=seed)
        loaded, _ = ready(self.path, plan, ())
        folder, findings = new_folder(None, f"{loaded.name}-chaos", base), Findings([], [])
        campaign(loaded.scenario, plan, lambda done, of, one: None, findings)
        files = write_findings(folder, loaded.scenario, loaded.name, plan, findings)
        self.user_properties += [("runs", len(findings.verdicts)), ("broken", findings.broken)]
        if findings.useless:
            problem = f"chaos: nothing was tried, for {findings.useless}"
            self.note([Problem("", problem)])
            raise _Unmet([problem])
        if not findings.failures:
            return
        self.note([Problem("", f"chaos: broken promise {one.promise}: {one.how}") for one in findings.failures])
        lines = [line for path, one in files.items() for line in failure_lines(one, loaded.scenario, path)]
        head = f"a promise was broken in {findings.broken} of {len(findings.verdicts)} runs (chaos seed {seed})"
        raise _Unmet([head, "", *lines, f"folder    {folder}"])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the annotations of scenario files on GitHub Actions, which reads them at the beginning of a line."""
    for report in terminalreporter.stats.get("failed", ()):
        for name, line in getattr(report, "user_properties", ()):
            if name == "tacit_annotation":
                terminalreporter.write_line(line)
