"""The wheel, built from a copy of the tree."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSE = ("tacit", "sim", "parties", "protocols", "scenarios", "benchmarks")
BUILT_FROM = ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="session")
def tree() -> set[str]:
    """The files of the packages, tracked by git or new; without git, all files except caches."""
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *HOUSE]
    try:
        listed = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        listed = []
    walked = (path.relative_to(ROOT) for room in HOUSE for path in (ROOT / room).rglob("*"))
    kept = (path for path in walked if not any(part[0] in "._" for part in path.parts[:-1]))
    names = listed or [path.as_posix() for path in kept]
    return {name for name in names if (ROOT / name).is_file()}


@pytest.fixture(scope="session")
def copy(tmp_path_factory: pytest.TempPathFactory, tree: set[str]) -> Path:
    """A copy of the files from which a wheel is built, without files of an earlier build, which would be included."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in (*BUILT_FROM, *sorted(tree)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_nothing.py").touch()
    return folder


@pytest.fixture(scope="session")
def wheel(copy: Path) -> zipfile.Path:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(build, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (copy / "dist").glob("*.whl")
    return zipfile.Path(file)
