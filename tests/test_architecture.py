"""docs/architecture.md and its picture name only things that exist."""

import importlib
import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.reading import load
from tacit.sim import wire

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SCRIPT = runpy.run_path(str(ROOT / "docs" / "architecture.py"))
SPANS = sorted({" ".join(span.split()) for span in re.findall(r"`([^`]+)`", PAGE)})
STEPS = {step.name for protocol in PROTOCOLS.values() for step in protocol.steps}
SAID = {"client/1", "client/4", "run.sqlite"}
"""Parties, and a file of a run's folder, named on the page."""


def is_there(name: str) -> bool:
    """True if `name` is a path in the tree, the dotted name of an object, a message, a step, or a command."""
    if name in SAID or name in STEPS:
        return True
    if name.startswith("tacit run "):
        scenario, *options = name.split()[2:]
        return load(scenario, [word for word in options if word != "--set"]) is not None
    if "/" in name or name.endswith(".py"):
        path = ROOT / name
        return path.is_dir() if name.endswith("/") else path.is_file()
    return name in wire._types or _is_object(name)


def _is_object(name: str) -> bool:
    """True if `name` is a module, or can be reached from one by attributes."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("name", SPANS)
def test_every_name_on_the_architecture_page_exists(name: str) -> None:
    assert is_there(name), f"docs/architecture.md names {name}, which is not there"


@pytest.mark.parametrize("name", sorted({function for _, _, function, _ in SCRIPT["WAY"]}))
def test_every_name_in_the_picture_exists_and_is_on_the_page(name: str) -> None:
    assert is_there(name)
    assert name in SPANS


@pytest.mark.parametrize(
    "name", ["tacit.sim.loop.NoLoop", "sim/nothing.py", "parties/none/", "nothing.at.all", "NoMessage"]
)
def test_a_name_that_does_not_exist_is_detected(name: str) -> None:
    assert not is_there(name)


def test_every_folder_of_a_package_is_on_the_architecture_page() -> None:
    for room in SCRIPT["ROOMS"]:
        assert {f"{room}/{folder}" for folder in SCRIPT["folders"](room)} | {f"{room}/"} <= set(SPANS)


def test_the_numbers_of_the_picture_equal_those_of_the_page() -> None:
    assert re.findall(r"^(\d)\. ", PAGE, re.MULTILINE) == [number for _, number, _, _ in SCRIPT["WAY"]]


def test_the_picture_is_drawn() -> None:
    picture = SCRIPT["picture"]()
    ElementTree.fromstring(picture)
    assert "prefers-color-scheme: dark" in picture
    for name in ("sim/", "crypto/", "Mailbox.put", "Ledger"):
        assert name in picture
