"""The pages in docs/ that are made from the code are up to date."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

DOCS = Path(__file__).parents[1] / "docs"


def test_the_table_of_keys_is_up_to_date() -> None:
    page = runpy.run_path(str(DOCS / "scenario_keys.py"))["page"]
    assert (DOCS / "scenario-keys.md").read_text(encoding="utf-8") == page(), "run: python docs/scenario_keys.py"


def texts(picture: Path) -> str:
    """The texts in an SVG."""
    elements = ElementTree.parse(picture).getroot().iter("{http://www.w3.org/2000/svg}text")
    return "\n".join((element.text or "").replace("\N{NO-BREAK SPACE}", " ") for element in elements)


def test_the_picture_shows_a_run(tmp_path: Path) -> None:
    quick = ("protocol.hamming=plaintext", "data.limit=120", "engine=inline")
    changes = [word for text in quick for word in ("--set", text)]
    out = tmp_path / "run.svg"
    command = [sys.executable, str(DOCS / "picture.py"), "xclp-digits", "--out", str(out), *changes]
    done = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = texts(out)
    for wanted in ("$ tacit run xclp-digits", "completed", "equal to the plaintext oracle", "client/3", "total"):
        assert wanted in shown
    assert "@font-face" not in out.read_text(encoding="utf-8")
    assert os.listdir(tmp_path) == ["run.svg"]


def test_the_picture_in_the_readme_is_of_the_main_job() -> None:
    shown = texts(DOCS / "run.svg")
    for wanted in ("$ tacit run xclp-digits", "completed", "equal to the plaintext oracle", "EncryptedBits"):
        assert wanted in shown
    assert "WARNING" not in shown
