"""The wheel holds what the tree holds: a folder missing from setup.cfg works here and is lost there."""

import ast
import configparser
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ("sim", "parties", "protocols", "scenarios", "benchmarks")
MODULES = ("tacit.py", "tacit_start.py")
BUILT_FROM = ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE")


def tree() -> set[str]:
    """The files of the packages and modules: as git has them or would take them, or without git, all but caches."""
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *HOUSE, *MODULES]
    try:
        listed = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        listed = []
    walked = (path.relative_to(ROOT) for room in HOUSE for path in (ROOT / room).rglob("*"))
    kept = (path for path in walked if not any(part[0] in "._" for part in path.parts[:-1]))
    names = listed or [*MODULES, *(path.as_posix() for path in kept)]
    return {name for name in names if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel is built from, without files of an earlier build, which would get into it."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in (*BUILT_FROM, *tree()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_nothing.py").touch()
    return folder


@pytest.fixture(scope="module")
def wheel(copy: Path) -> zipfile.Path:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run(build, cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (copy / "dist").glob("*.whl")
    return zipfile.Path(file)


def packed(wheel: zipfile.Path) -> set[str]:
    """The wheel's files but for its metadata."""
    names = (PurePosixPath(name) for name in wheel.root.namelist() if not name.endswith("/"))
    return {str(name) for name in names if not name.parts[0].endswith(".dist-info")}


def described(wheel: zipfile.Path) -> Message:
    """The wheel's METADATA."""
    (name,) = (name for name in wheel.root.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.root.read(name).decode())


def test_the_wheel_holds_what_the_tree_holds(wheel: zipfile.Path) -> None:
    assert packed(wheel) == tree() - {"scenarios/conftest.py"}


def test_an_editable_install_is_an_entry_of_the_path(copy: Path) -> None:
    """A finder that maps names to folders would be asked too late: after a folder of the user's called scenarios."""
    code = "import setuptools.build_meta as backend; backend.build_editable('editable')"
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (copy / "editable").glob("*.whl")
    (name,) = packed(zipfile.Path(file))
    assert name.endswith(".pth")
    assert Path(zipfile.Path(file, name).read_text().strip()) == copy


def test_no_test_is_in_the_wheel(wheel: zipfile.Path) -> None:
    parts = {part for name in packed(wheel) for part in PurePosixPath(name).parts}
    assert not parts & {"tests", "docs", "conftest.py"}


def test_the_wheel_says_what_it_is(wheel: zipfile.Path) -> None:
    said = described(wheel)
    assert said["Name"] == "tacit"
    assert said["License-Expression"] == "Apache-2.0"
    assert said["License-File"] == "LICENSE"
    assert said["Requires-Python"] == ">=3.11"
    (scripts,) = (name for name in wheel.root.namelist() if name.endswith("entry_points.txt"))
    assert "tacit = tacit_start:main" in wheel.root.read(scripts).decode()


OPTIONAL = ("benchmarks/", "parties/learning/", "parties/learning/vision.py", "protocols/privacy/")
"""Where packages of the extras may be imported."""


def test_every_imported_package_is_declared() -> None:
    distributions = metadata.packages_distributions()
    own = {*HOUSE, "tacit_start", *sys.stdlib_module_names}
    core, extras = _declared()
    for name in sorted(name for name in tree() if name.endswith(".py") and not name.endswith("conftest.py")):
        known = core | extras if name.startswith(OPTIONAL) else core
        for module in _third_party((ROOT / name).read_text(encoding="utf-8")) - own:
            # A package that is not installed here goes by its import name.
            given = {_normal(title) for title in distributions.get(module, [module])}
            assert given & known, f"{name} imports {module}, which setup.cfg does not declare"


def _third_party(source: str) -> set[str]:
    names = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def _declared() -> tuple[set[str], set[str]]:
    """The packages that the core needs, and those that the extras name."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = "\n".join(config["options.extras_require"].values())
    return _titles(config["options"]["install_requires"]), _titles(extras)


def _titles(requirements: str) -> set[str]:
    matches = (re.match(r"[\w.-]+", line.strip()) for line in requirements.splitlines())
    return {_normal(match[0]) for match in matches if match}


def _normal(title: str) -> str:
    return re.sub(r"[-_.]+", "-", title).lower()
