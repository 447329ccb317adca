"""The wheel has all files of the tree: a folder missing from setup.cfg would work here, but not from the wheel."""

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]


def packed(wheel: zipfile.Path) -> set[str]:
    """The wheel's files, without its metadata."""
    names = (PurePosixPath(name) for name in wheel.root.namelist() if not name.endswith("/"))
    return {str(name) for name in names if not name.parts[0].endswith(".dist-info")}


def in_the_wheel(name: str) -> str:
    """The path in the wheel of a file of the tree."""
    return name if name.startswith("tacit/") else f"tacit/{name}"


def described(wheel: zipfile.Path) -> Message:
    """The wheel's METADATA."""
    (name,) = (name for name in wheel.root.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.root.read(name).decode())


def test_the_wheel_has_exactly_the_files_of_the_tree(wheel: zipfile.Path, tree: set[str]) -> None:
    """Compiled files are included, if there is a compiler."""
    held = packed(wheel)
    sums = ("eightfold", "lanes", "transfers")
    files = ("sim/_digests", "sim/_events", *(f"protocols/crypto/_{one}" for one in sums))
    compiled = {name for name in held if name.startswith(tuple(f"tacit/{file}." for file in files))}
    assert len(compiled) == len(files) * (shutil.which("cc") is not None)
    assert held - compiled == {in_the_wheel(name) for name in tree} - {"tacit/scenarios/conftest.py"}


def test_the_wheel_has_one_top_level_package(wheel: zipfile.Path) -> None:
    assert {PurePosixPath(name).parts[0] for name in packed(wheel)} == {"tacit"}
    (top,) = (name for name in wheel.root.namelist() if name.endswith(".dist-info/top_level.txt"))
    assert wheel.root.read(top).decode().split() == ["tacit"]


def test_an_editable_install_finds_every_package_in_the_tree(copy: Path) -> None:
    """Without a compiler, which makes the install no error and takes less time."""
    code = "import setuptools.build_meta as backend; backend.build_editable('editable')"
    no_compiler = {**os.environ, "CC": "false"}
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, env=no_compiler, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (copy / "editable").glob("*.whl")
    (finder,) = (name for name in packed(zipfile.Path(file)) if name.endswith("_finder.py"))
    mapped = zipfile.Path(file, finder).read_text()
    for room in ("tacit", "sim", "parties", "protocols", "scenarios", "benchmarks"):
        assert f"'{copy / room}'" in mapped


def test_no_test_is_in_the_wheel(wheel: zipfile.Path) -> None:
    parts = {part for name in packed(wheel) for part in PurePosixPath(name).parts}
    assert not parts & {"tests", "docs", "conftest.py"}


def test_the_metadata_of_the_wheel_are_complete(wheel: zipfile.Path) -> None:
    said = described(wheel)
    assert said["Name"] == "tacit-fl"
    assert said["License-Expression"] == "Apache-2.0"
    assert said["License-File"] == "LICENSE"
    assert said["Requires-Python"] == ">=3.11"
    (scripts,) = (name for name in wheel.root.namelist() if name.endswith("entry_points.txt"))
    assert "tacit = tacit.__main__:main" in wheel.root.read(scripts).decode()


OPTIONAL = (
    "benchmarks/",
    "parties/learning/",
    "protocols/flower/adapter.py",
    "protocols/flower/recording.py",
    "protocols/privacy/",
    "parties/fleet/published.py",
    "scenarios/files/result.py",
    "scenarios/reporting/charts.py",
    "scenarios/running/ray_jobs.py",
    "scenarios/testing/pytest_plugin.py",
    "scenarios/seeing/plot.py",
    "sim/ray_cluster.py",
    "scenarios/seeing/tracing/writer.py",
)
"""Places that may import packages of the extras."""


def test_every_imported_package_is_declared(tree: set[str]) -> None:
    distributions = metadata.packages_distributions()
    own = {"tacit", *sys.stdlib_module_names}
    core, extras = _declared()
    for name in sorted(name for name in tree if name.endswith(".py") and not name.endswith("conftest.py")):
        known = core | extras if name.startswith(OPTIONAL) else core
        for module in _third_party((ROOT / name).read_text(encoding="utf-8")) - own:
            # For a package that is not installed here, the import name is used.
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
