"""The versions in environments: all are locked, and every upper bound has a reason."""

import configparser
import re
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CONFIG = configparser.ConfigParser()
CONFIG.read(ROOT / "setup.cfg")
LOCKED = [Requirement(line) for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()]


def required(*extras: str) -> Iterator[Requirement]:
    """Yield the requirements of the core and of `extras`, including those of extras that they name."""
    lines = CONFIG["options"]["install_requires"].split("\n")
    for extra in extras:
        lines += CONFIG["options.extras_require"][extra].split("\n")
    for one in map(Requirement, filter(None, lines)):
        if one.name == CONFIG["metadata"]["name"]:
            yield from required(*sorted(one.extras))
        else:
            yield one


def test_every_required_package_is_locked_to_an_allowed_version() -> None:
    versions: dict[str, list[str]] = {}
    for one in LOCKED:
        versions.setdefault(canonicalize_name(one.name), []).append(re.sub("^==", "", str(one.specifier)))
    for wanted in required("test", "docs"):
        found = versions.get(canonicalize_name(wanted.name), [])
        assert found, f"{wanted.name} is not in requirements.lock: run make lock"
        outside = [version for version in found if not wanted.specifier.contains(version, prereleases=True)]
        assert not outside, f"{wanted} does not allow the locked {outside}: run make lock"


def test_every_line_of_the_lock_names_one_exact_version() -> None:
    assert [str(one) for one in LOCKED if not re.fullmatch(r"==[^,*]+", str(one.specifier))] == []


def test_no_required_version_has_an_upper_limit() -> None:
    ranges = map(str, required(*CONFIG["options.extras_require"]))
    assert [one for one in ranges if re.search(r"<|~=|==", one)] == []
