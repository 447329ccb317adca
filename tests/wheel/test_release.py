"""Tests of a release: one version in all places, a small wheel, and a source distribution that builds the same
wheel."""

import configparser
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGEST = 3_000_000


def version() -> str:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config["metadata"]["version"]


def test_the_version_is_the_same_in_all_places(wheel: zipfile.Path) -> None:
    assert Path(str(wheel.root.filename)).name.startswith(f"tacit_fl-{version()}-")
    released = re.findall(r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[0][0] == version()
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r'^(?:version|date-released): "?([^"\n]*)', citation, re.MULTILINE) == [*released[0]]


def test_the_wheel_is_small(wheel: zipfile.Path) -> None:
    assert Path(str(wheel.root.filename)).stat().st_size < LARGEST


@pytest.mark.long
def test_the_source_distribution_makes_the_same_wheel(copy: Path, wheel: zipfile.Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run([*build, "--sdist", "."], cwd=copy, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as held:
        held.extractall(tmp_path, filter="data")
    subprocess.run([*build, "--wheel", "."], cwd=tmp_path / f"tacit_fl-{version()}", check=True, capture_output=True)
    (made,) = tmp_path.glob("*.whl")
    assert sorted(zipfile.Path(made).root.namelist()) == sorted(wheel.root.namelist())
