"""The order of the folders: each imports only from earlier ones. No cycles of modules, and no long files.

Every import counts, including those for type checkers only and those inside functions.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tacit.protocols.sums.registry import SUMS
from tests import tree
from tests.tree import LAYERS, ROOT, Nodes

FLOORS = (
    "sim/seeding",
    "sim/plugged",
    "sim",
    "sim/deployed",
    "parties/datasets",
    "parties/learning",
    "parties/data",
    "parties/fleet",
    "parties",
    "protocols/crypto",
    "protocols/crypto/vdaf",
    "protocols/auditing",
    "protocols/privacy",
    "protocols/experiment",
    "protocols",
    "protocols/sums",
    "protocols/sums/lying",
    "protocols/rounds",
    "protocols/ledger.py",
    "protocols/sums/batch.py",
    "protocols/sums/noised_shares.py",
    "protocols/sums/reports.py",
    "protocols/histogram.py",
    "protocols/one_shot.py",
    "protocols/xclp",
    "protocols/federated",
    "protocols/cotraining",
    "protocols/flower",
    "protocols/cells",
    "protocols/tables.py",
    "protocols/lying.py",
    "protocols/registry.py",
    "protocols/plugins.py",
    "scenarios/console",
    "scenarios/schema",
    "scenarios/files",
    "scenarios/running",
    "scenarios/deploying",
    "scenarios/seeing",
    "scenarios/seeing/timeline",
    "scenarios/seeing/tracing",
    "scenarios/sweeping",
    "scenarios/chaos",
    "scenarios/auditing",
    "scenarios/reporting",
    "scenarios/testing",
    "scenarios/command",
    "scenarios",
    "benchmarks/apps",
    "benchmarks",
    "benchmarks/attacks",
    "benchmarks/bytes",
    "benchmarks/crypto",
    "benchmarks/reality",
    "benchmarks/scale",
    "benchmarks/sim",
    "benchmarks/sums",
    "benchmarks/survival",
    "benchmarks/training",
    "benchmarks/command.py",
    "tacit",
)
"""Folders and modules in their order; a module may be above its folder; "tacit" is the public interface."""

MOST_LINES = 700


@cache
def modules() -> dict[str, Path]:
    """All modules by their names, as paths below the root."""
    return {_name(path): path for path in tree.modules(*LAYERS, "tacit")}


def _name(path: Path) -> str:
    return f"tacit.{'.'.join(path.with_suffix('').parts)}".removesuffix(".__init__").replace("tacit.tacit", "tacit")


@cache
def imported() -> dict[str, frozenset[str]]:
    """The modules that each module imports."""
    return {name: frozenset(imports(name, tree.nodes(path))) for name, path in modules().items()}


def imports(name: str, module: Nodes) -> Iterator[str]:
    """The modules that the module `name` imports anywhere in it."""
    for node in module.of(ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules())
    for node in module.of(ast.ImportFrom):
        if node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found = inner if inner in modules() else node.module
                if found in modules() and found != name:
                    yield found


def floor(path: Path) -> int:
    """The position of a module in `FLOORS`."""
    place = path.as_posix() if path.as_posix() in FLOORS else path.parent.as_posix()
    return FLOORS.index(place)


def circles(arrows: Mapping[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """A cycle of imports for each one found by depth-first search; [] if there is none."""
    found: list[tuple[str, ...]] = []
    over: set[str] = set()

    def follow(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            found.append((*trail[trail.index(name) :], name))
        elif name not in over:
            for other in sorted(arrows.get(name, ())):
                follow(other, (*trail, name))
            over.add(name)

    for name in sorted(arrows):
        follow(name, ())
    return found


def test_every_folder_has_a_floor() -> None:
    folders = {path.parent.as_posix() for path in modules().values()}
    assert folders == {place for place in FLOORS if not place.endswith(".py")}
    assert {place for place in FLOORS if place.endswith(".py")} <= {path.as_posix() for path in modules().values()}


def test_a_module_imports_from_its_own_floor_and_below() -> None:
    floors = {name: floor(path) for name, path in modules().items()}
    arrows = [(name, other) for name, others in imported().items() for other in sorted(others)]
    assert [(name, other) for name, other in arrows if floors[other] > floors[name]] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(imported()) == []


def test_no_secure_sum_imports_another() -> None:
    """Sums share what is below them; `registry` lists their modules."""
    sums = {kind.__module__ for kind in SUMS.values()}
    found = imported()
    assert [(one, other) for one in sorted(sums) for other in sorted(sums & found[one])] == []
    beside = {name for name in found if name.startswith("tacit.protocols.sums.")} - sums
    below = [name for name in beside if sums & found[name] and any(name in found[one] for one in sums)]
    assert below == []


FAMILIES = ("xclp", "federated", "cotraining", "cells", "flower")


TWO_SERVERS = {"chaos.report_world", "chaos.report_view"}
"""The lying aggregators of Prio3: a world of two servers, which no other sum has."""


def test_scenarios_import_no_family_and_no_secure_sum_by_name() -> None:
    """A protocol or a sum of a stranger's gets what one of ours gets: declarations and sums are asked."""
    families = tuple(f"tacit.protocols.{family}." for family in FAMILIES)
    sums = {kind.__module__ for kind in SUMS.values()} | {
        f"tacit.protocols.sums.{name}" for name in ("reports", "batch")
    }
    arrows = [(name, other) for name, others in imported().items() for other in others]
    found = {
        (name.removeprefix("tacit.scenarios."), other.removeprefix("tacit.protocols."))
        for name, other in arrows
        if name.startswith("tacit.scenarios.") and (other.startswith(families) or other in sums)
    }
    assert {pair for pair in found if pair[0] not in TWO_SERVERS} == set()


def test_a_circle_of_imports_is_detected() -> None:
    arrows = {"a": frozenset("b"), "b": frozenset("cd"), "c": frozenset(), "d": frozenset("a")}
    assert circles(arrows) == [("a", "b", "d", "a")]
    assert list(imports("x", Nodes("def late():\n    from tacit.sim.loop import SimLoop"))) == ["tacit.sim.loop"]
    assert list(imports("x", Nodes("if TYPE_CHECKING:\n    from tacit.protocols.sums import dealing"))) == [
        "tacit.protocols.sums.dealing"
    ]


def test_no_file_has_over_700_lines() -> None:
    paths = [*(ROOT / path for path in modules().values()), *(ROOT / "tests").rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
