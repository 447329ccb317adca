"""Apps run with the lowest and the highest supported version of Flower, each fetched for the test."""

import configparser
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tacit.protocols.flower.declaration import HIGHEST, LOWEST
from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.files.checks import check
from tacit.scenarios.files.reading import load
from tacit.scenarios.schema.scenario import ScenarioError

ROOT = Path(__file__).parents[3]

pytest.importorskip("flwr")


def test_the_extra_allows_the_lowest_tested_version_and_all_newer() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert config["options.extras_require"]["flower"].strip() == f"flwr>={LOWEST[0]}.{LOWEST[1]}"


def test_an_older_version_is_refused_and_a_newer_one_is_a_caution(monkeypatch: pytest.MonkeyPatch) -> None:
    app = load("examples/flower-quickstart/healthy.toml")
    installed = "1.37.9"
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: installed if name == "flwr" else version(name))
    with pytest.raises(ScenarioError, match=r"flwr 1\.37\.9 is installed, which is too old; allowed: 1\.38 or newer"):
        check(app, "the file")
    installed = "2.0.1"
    check(app, "the file")
    assert "flwr 2.0.1 is newer than 1.42, the newest version that Tacit is tested with" in cautions(app)


@pytest.mark.long
@pytest.mark.parametrize("version", [LOWEST, HIGHEST], ids=str)
def test_the_tests_of_apps_pass_with_the_lowest_and_highest_version(version: tuple[int, int], tmp_path: Path) -> None:
    wanted = f"flwr=={version[0]}.{version[1]}.*"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path), wanted]
    fetched = subprocess.run(install, capture_output=True, text=True, check=False)
    if fetched.returncode:
        pytest.skip(f"pip cannot fetch {wanted}: {fetched.stderr.strip()[-200:]}")
    paths = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    here = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, here.glob("test_[kqr]*.py"))]
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
