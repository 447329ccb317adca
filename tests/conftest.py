"""Fixtures of all tests."""

import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tacit.scenarios.files import plugins
from tacit.scenarios.running import outlook
from tacit.scenarios.running.process import spare_for_good
from tacit.sim import engines, plugged, pool_server
from tests import leftovers
from tests.browser import Browser, needed
from tests.budgets import Meter, is_long
from tests.tree import READERS, forget
from tests.warm import build_commands_once

gc.disable()  # until the tests begin, because imported modules and collected tests stay

# The time of an example depends on the machine. A property that gives no number of examples itself is tried with few,
# and with many by the long tests, which know it by this number.
settings.register_profile("fast", deadline=None, max_examples=30)
settings.register_profile("long", deadline=None, max_examples=90)
settings.load_profile("fast")

# A server of pools that ended between two files would import torch again for the second one.
pool_server.IDLE = 3600.0

os.environ.pop("COLUMNS", None)  # the width of the window in which the workers were started

# A shell's background jobs ignore Ctrl-C, which would break the tests of Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_LONGEST = (
    "test_campaigns.py", "test_planted_weakenings.py", "test_lying_server.py", "test_garbage.py",
    "test_training_storms.py", "test_readme.py", "test_audit.py", "test_shipped.py", "test_attacks.py", "test_sized.py",
    "test_xclp.py", "test_predicted_messages.py", "test_training.py", "test_resume.py", "test_survival.py",
    "test_mistakes.py", "test_pytest_plugin.py", "test_chaos.py", "test_pool.py", "test_cli.py", "test_tacit.py",
    "test_bytes.py", "test_artifact.py", "test_widths.py", "test_new.py", "test_rounds.py", "test_loading.py",
    "test_replays.py", "test_leaks.py", "test_contents.py", "test_sweep_resume.py", "test_privacy_holds.py",
    "test_membership.py", "test_prediction.py", "test_docs.py", *(Path(file).name for file in READERS),
)  # fmt: skip
"""Files with the longest tests, which run first, so that all workers end at about the same time."""

_LONGEST_OF_LONG = (
    "test_docs.py", "test_jobs.py", "test_processes.py", "test_survival.py", "test_lying_server.py", "test_engine.py",
    "test_report_in_browser.py", "test_readme.py", "test_examples.py", "test_campaigns.py", "test_predicted_runs.py",
    "test_check_sum.py", "test_noise.py", "test_state_of_networks.py", "test_exact_odds.py", "test_broad.py",
    "test_partitions.py", "test_shipped.py", "test_xclp.py", "test_garbage.py", "test_absences.py",
    "test_interrupts.py", "test_three_machines.py", "test_versions.py", "test_page.py", "test_many_clients.py",
)  # fmt: skip
"""Files of long tests that take longest: some that compute, and some that wait for deadlines."""

_SPLIT = (
    "test_survival.py", "test_lying_server.py", "test_campaigns.py", "test_predicted_runs.py", "test_check_sum.py",
    "test_noise.py", "test_state_of_networks.py", "test_exact_odds.py", "test_training_storms.py",
)  # fmt: skip
"""Files whose long tests share nothing that is costly to make, so that each goes to the next idle worker: no worker
is left with one of them when the others have ended."""


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if is_long(config) else "fast")
    config.pluginmanager.register(Meter(config))


def _has_examples_of_profile(item: pytest.Item) -> bool:
    """Return true for a test of a property that gives no number of examples of its own."""
    own = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
    return own is not None and own.max_examples == settings.get_profile("long").max_examples


_OF_LONG_TESTS = ("mark.long", "hypothesis")
"""What stands in a file with long tests, or in a conftest.py that marks those of its folder."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files without long tests for the long tests: each worker would take seconds for half of them."""
    left_out = is_long(config) and collection_path.match("test_*.py") and not _names_long_tests(collection_path)
    return True if left_out else None


def _names_long_tests(file: Path) -> bool:
    """Return true if the text of a file of tests, or that of its folder's conftest.py, says that it has long tests."""
    texts = (path.read_text(encoding="utf-8") for path in (file, file.with_name("conftest.py")) if path.exists())
    return any(word in text for text in texts for word in _OF_LONG_TESTS)


@pytest.hookimpl(tryfirst=True)  # before tests are left out by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if is_long(config):
        for item in filter(_has_examples_of_profile, items):
            item.add_marker("long")
    for file in {item.path for item in items if item.get_closest_marker("long")}:
        assert _names_long_tests(file), f"{file} is not read for the long tests: write pytest.mark.long in it"
    places = {name: place for place, name in enumerate(_LONGEST_OF_LONG if is_long(config) else _LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give files that share what takes long to make to one worker, one after another: it is made once.

    These are the files that read the syntax trees, and those that look at the wheel.
    """
    from xdist.scheduler import LoadFileScheduling

    split = _SPLIT if is_long(config) else ()

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            if file.rpartition("/")[2] in split:
                return nodeid
            if file.startswith("tests/wheel/"):
                return "tests/wheel"
            return "tests/tree.py" if file in READERS else file

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if _reads_trees(item) and not (nextitem and _reads_trees(nextitem)):
        forget()


def _reads_trees(item: pytest.Item) -> bool:
    return item.nodeid.partition("::")[0] in READERS


@pytest.fixture(scope="session", autouse=True)
def inline_by_default() -> Iterator[None]:
    """Let ``engine = "auto"`` be ``inline`` in this process, as on one core. Tests of pools name the engine.

    A pool takes the short runs of most tests longer than they compute, and starts a process that imports torch.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "cores", lambda: 1)
        yield


_TRIALS = dict(outlook._TRIALS)


@pytest.fixture(scope="module", autouse=True)
def no_outlook() -> Iterator[None]:
    """Do not try scenarios with losses before they are run, which takes longer than many runs.

    A trial has no effect on a run but the line that it may print. Tests of cautions use `whole_outlook`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outlook, "_TRIALS", {})
        yield


@pytest.fixture
def whole_outlook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try scenarios with losses as often as users do."""
    monkeypatch.setattr(outlook, "_TRIALS", _TRIALS)
    monkeypatch.setattr(outlook, "_kept", {})  # outlooks are not those of an earlier test


@pytest.fixture(scope="module", autouse=True)
def nothing_left_by_fixtures() -> Iterator[None]:
    """Fail the last test of a module if the module's fixtures leave anything that tests of other modules see."""
    before = leftovers.state()
    yield
    assert leftovers.differences(before, leftovers.state()) == []


@pytest.fixture(autouse=True)
def nothing_left(nothing_left_by_fixtures: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves anything that other tests see, but for what Ray sets.

    Its plugins are deactivated before: workers that another test starts would import their deleted files.
    """
    before = leftovers.state()
    yield
    plugins.give(())
    plugged.use(())
    if "on_ray" in request.path.parts:
        return
    found = leftovers.differences(before, leftovers.state())
    assert [line for line in found if "plugin active" not in line and plugged.VARIABLE not in line] == []


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium to open pages. Without one, a test is skipped, or fails in CI."""
    yield from needed()


class _Walks:
    """Notes whether full garbage collections have become slow, because a test's imports stay."""

    def __init__(self) -> None:
        self.long = False
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            if phase == "start":
                self._began = time.process_time()
            elif time.process_time() - self._began > 0.05:
                self.long = True


_walks = _Walks()


def pytest_collection_finish() -> None:
    """Exclude libraries and tests, which live as long as the session, from garbage collection."""
    if "typer" in sys.modules:
        build_commands_once()
    gc.enable()
    spare_for_good()
    gc.callbacks.append(_walks)


def pytest_runtest_setup() -> None:
    if _walks.long:
        spare_for_good()
        _walks.long = False


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Report a failure without garbage collection, because functions called by it break Python 3.11's parser."""
    collects = gc.isenabled()
    gc.disable()
    yield
    if collects:
        gc.enable()


@pytest.fixture
def clean_end(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if anything is logged or warned of, or an exception goes unnoticed, before all garbage is collected."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(warning.message) for warning in warned] == []
    assert caplog.messages == []
