"""Apps run with the lowest and the highest version of Flower that Tacit takes, each fetched for the test."""

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

from protocols.flower.declaration import HIGHEST, LOWEST

ROOT = Path(__file__).parents[3]

pytest.importorskip("flwr")


def test_the_extra_takes_these_versions() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    after = f"{HIGHEST[0]}.{HIGHEST[1] + 1}"
    assert config["options.extras_require"]["flower"].strip() == f"flwr>={LOWEST[0]}.{LOWEST[1]},<{after}"


@pytest.mark.long
@pytest.mark.parametrize("version", [LOWEST, HIGHEST], ids=str)
def test_all_that_apps_do_works_with_it(version: tuple[int, int], tmp_path: Path) -> None:
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
