"""Checks that a test leaves nothing to others in its process: entries of registries, variables, folder or signals.

Tests of one process run in any order, so what one of them adds changes what another one sees.
"""

import os
import signal
from pathlib import Path

from tacit.scenarios.files import plugins
from tacit.sim import plugged, registry, wire

__all__ = ["State", "differences", "state"]

State = dict[str, dict[str, object]]
"""By kind, for example "model" or "environment variable", each name with its value."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
_WATCHED = (
    "TACIT_", "PYTHON", "XDG_", "GITHUB_", "GITLAB_", "LC_", "COLUMNS", "TERM", "NO_COLOR", "CI", "HOME",
)  # fmt: skip
"""The beginnings of variables that change what Tacit does. Libraries set variables of their own once they are
imported."""


def state() -> State:
    """Return what tests share in this process.

    Messages are left out: a test may be the first to import their module, and a class cannot be taken back. Entries of
    a registry that are made when they are first asked for are None before.
    """
    found: State = {one.what: dict(one._own) for one in registry._all}
    del found[wire._types.what]
    found["environment variable"] = {name: one for name, one in os.environ.items() if name.startswith(_WATCHED)}
    found["handler of a signal"] = {one.name: signal.getsignal(one) for one in _SIGNALS}
    found["folder"] = {"working folder": _folder()}
    found["plugin"] = {"active": plugged.imported(), "given": tuple(plugins._given), "only looked at": plugins._looking}
    return found


def _folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "one that is deleted"


def differences(before: State, after: State) -> list[str]:
    """Return a line for each name that was added, removed or changed, sorted."""
    found = []
    for kind, names in after.items():
        earlier = before.get(kind, {})
        found += [f"{kind} {name} is added" for name in names.keys() - earlier.keys()]
        found += [f"{kind} {name} is removed" for name in earlier.keys() - names.keys()]
        known = [name for name in names.keys() & earlier if earlier[name] is not None]  # None: not made yet
        found += [f"{kind} {name} is changed" for name in known if names[name] != earlier[name]]
    return sorted(found)
