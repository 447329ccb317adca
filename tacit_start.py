"""The start of Tacit, before any of its packages is imported: whether they are Tacit's own, and the command `tacit`.

The packages have plain names, such as `sim`. Python takes a file or package of the same name that stands earlier on its
path, such as one in the folder that it was started in, and would fail with an error about the wrong module.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

__all__ = ["check_packages", "main"]

PACKAGES = ("sim", "parties", "protocols", "scenarios", "benchmarks")


def check_packages() -> None:
    """Raise ImportError, in one line, if another file or folder would be imported in place of one of the packages."""
    here = Path(__file__).resolve().parent
    for name in PACKAGES:
        found = _found(name)
        if found is not None and found.resolve() not in (here / name, here / name / "__init__.py"):
            advice = "rename it, or start Python from a folder without it"
            raise ImportError(f"{found} hides Tacit's own package {name} ({here / name}): {advice}")


def _found(name: str) -> Path | None:
    """What ``import name`` would import, or has imported: a file, or a folder without an `__init__.py`."""
    try:
        spec = find_spec(name)
    except ValueError:  # a module that something else has put in its place, and that names no file
        return Path(f"the module {name} in sys.modules")
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    places = folders if spec.origin is None else [spec.origin]
    return Path(places[0]).absolute() if places else None


def main() -> None:
    """Run the command `tacit` on the arguments of this process."""
    try:
        check_packages()
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    from scenarios.command import entry

    entry.main()
