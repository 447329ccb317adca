"""Tests find what a test leaves to others: entries of registries, variables, folder, signals and plugins."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import tacit
from tacit.parties.learning.spec import MODELS
from tacit.scenarios.files import plugins
from tests.leftovers import differences, state


def a_model(folder: Path) -> Callable[[], None]:
    tacit.add_model("left", "a network that a test forgets", lambda spec: None)
    return lambda: MODELS.remove("left")


def a_variable(folder: Path) -> Callable[[], None]:
    os.environ["TACIT_LEFT"] = "1"
    return lambda: os.environ.__delitem__("TACIT_LEFT")


def a_folder(folder: Path) -> Callable[[], None]:
    before = Path.cwd()
    os.chdir(folder)
    return lambda: os.chdir(before)


def a_handler(folder: Path) -> Callable[[], None]:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    return lambda: (signal.signal(signal.SIGTERM, before), None)[1]


def a_plugin(folder: Path) -> Callable[[], None]:
    plugins.give([folder / "left.py"])
    return lambda: plugins.give(())


@pytest.mark.parametrize(
    ("leave", "found"),
    [
        (a_model, "model left is added"),
        (a_variable, "environment variable TACIT_LEFT is added"),
        (a_folder, "folder working folder is changed"),
        (a_handler, "handler of a signal SIGTERM is changed"),
        (a_plugin, "plugin given is changed"),
    ],
)
def test_what_a_test_leaves_is_named(leave: Callable[[Path], Callable[[], None]], found: str, tmp_path: Path) -> None:
    before = state()
    tidy = leave(tmp_path)
    try:
        assert differences(before, state()) == [found]
    finally:
        tidy()
    assert differences(before, state()) == []


def test_a_lost_entry_is_named() -> None:
    assert differences({"model": {"linear": 1}}, {"model": {}}) == ["model linear is removed"]
