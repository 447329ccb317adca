"""The command `tacit`, also as `python -m tacit`."""

import sys
from importlib import metadata
from typing import TYPE_CHECKING

from tacit.scenarios.command import entry

if TYPE_CHECKING:
    import typer


def commands() -> "typer.Typer":
    """The command group with all commands, including the benchmarks as the group `bench`."""
    from tacit.scenarios.command.main import LATER, app

    LATER["bench"] = ("tacit.benchmarks.command:app", "tacit bench crypto --quick")
    return app


def main() -> None:
    """Run the command on the arguments of this process."""
    if found := _other():
        advice = "pip uninstall tacit; pip install --force-reinstall tacit-fl"
        sys.exit(f"error: {found}, another project's package, is installed over this one (tacit-fl): {advice}")
    entry.main(commands)


def _other() -> str:
    """The name and version of another project's distribution `tacit`, if its files are mixed with those of this one; or
    ""."""
    try:
        other = metadata.distribution("tacit")
    except metadata.PackageNotFoundError:
        return ""
    return f"tacit {other.version}" if any(str(file) == "tacit/__init__.py" for file in other.files or ()) else ""


if __name__ == "__main__":
    main()
