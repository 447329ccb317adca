"""Allowed imports, and functions that must not be called. Modules are read, not run."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSE = ("sim", "parties", "protocols", "scenarios", "benchmarks")
MODULES = sorted(path.relative_to(ROOT) for room in HOUSE for path in (ROOT / room).rglob("*.py"))
FOREIGN = tuple(f"protocols/flower/{name}.py" for name in ("adapter", "seeding", "stand_ins"))
"""Modules that run foreign code, which sleeps and uses global generators: it gets virtual time and seeds."""
WORLD = [
    path for path in MODULES if path.parts[0] in ("sim", "parties", "protocols") and path.as_posix() not in FOREIGN
]

NOT_CALLED = ("asyncio.wait_for", "asyncio.as_completed", "concurrent.futures.as_completed", "time.sleep", "random")
"""wait_for can swallow a cancellation; as_completed depends on addresses; sleep and `random` ignore the simulation."""

NUMPY_GENERATORS = ("BitGenerator", "Generator", "PCG64", "Philox", "SeedSequence")
"""Names of numpy.random without shared state and without seeding by the operating system."""


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """All nodes of the syntax tree of `source`, cached for several tests."""
    return tuple(ast.walk(ast.parse(source)))


@cache
def imports(source: str) -> frozenset[str]:
    """Every module that `source` imports, at any place; a name imported from a module counts as a module as well.

    A relative import gives a name that begins with a dot.
    """
    found = set[str]()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found.add(module)
            found.update(f"{module}.{alias.name}" for alias in node.names)
    return frozenset(found)


@cache
def uses(source: str) -> frozenset[str]:
    """`imports`, and every dotted name that begins with an imported one, under its full name."""
    known = dict[str, str]()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                short = alias.name.partition(".")[0]
                known[alias.asname or short] = alias.name if alias.asname else short
        elif isinstance(node, ast.ImportFrom) and node.module:
            known.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return imports(source) | {name for node in nodes(source) if (name := _dotted(node, known))}


def _dotted(node: ast.AST, known: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value, known)):
        return f"{owner}.{node.attr}"
    return ""


def within(names: Iterable[str], *places: str) -> list[str]:
    """The elements of `names` that are one of the modules `places` or inside one."""
    return sorted(name for name in names if any(f"{name}.".startswith(f"{place}.") for place in places))


def wrong_arrows(room: str, source: str) -> list[str]:
    """The imports of a module in `room` from later rooms, from outside the project's packages, or relative ones."""
    right = [f"tacit.{name}" for name in HOUSE[HOUSE.index(room) + 1 :]]
    names = imports(source)
    public = [name for name in names if name == "tacit" or _is_public(name)]
    hidden = within(names, *HOUSE)  # packages at the top of the tree are imported as tacit.sim, tacit.parties, ...
    return within(names, *right, "tests", "docs") + public + hidden + [name for name in names if name.startswith(".")]


def _is_public(name: str) -> bool:
    """True if `name` belongs to the public interface, which only users may import."""
    first, _, rest = name.partition(".")
    return first == "tacit" and rest.partition(".")[0] not in ("", *HOUSE)


def global_draws(names: Iterable[str]) -> list[str]:
    """The elements of `names` that draw from numpy's global generator, or from one without a seed."""
    drawn = [name for name in within(names, "numpy.random") if name.count(".") >= 2]
    return [name for name in drawn if name.split(".")[2] not in NUMPY_GENERATORS]


@cache
def read(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_layer_has_modules() -> None:
    assert {path.parts[0] for path in MODULES} == set(HOUSE)


def test_a_layer_imports_only_lower_layers() -> None:
    found = {str(path): wrong for path in MODULES if (wrong := wrong_arrows(path.parts[0], read(path)))}
    assert found == {}


def test_cryptography_imports_no_messages() -> None:
    paths = [path for path in MODULES if path.parts[:2] == ("protocols", "crypto")]
    assert paths
    for path in paths:
        names = imports(read(path))
        assert within(names, "asyncio", "simpy") == [], path
        allowed = within(names, "tacit.sim.streams", "tacit.sim.hollow", "tacit.protocols.crypto")
        assert sorted(set(within(names, "tacit")) - {"tacit.sim", "tacit.protocols"} - set(allowed)) == [], path


def test_the_oracle_shares_no_code_with_the_protocols() -> None:
    assert within(imports(read(Path("protocols/xclp/oracle.py"))), "tacit") == []


def test_no_module_uses_the_real_clock_or_a_global_generator() -> None:
    for path in WORLD:
        names = uses(read(path))
        assert within(names, *NOT_CALLED) == [], path
        assert global_draws(names) == [], path


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("sim", "from tacit.protocols import xclp"),
        ("sim", "def late():\n    import tacit.parties.data.sets"),
        ("parties", "if False:\n    from tacit.protocols.crypto.prg import words"),
        ("protocols", "from tacit.scenarios.files.splits import split"),
        ("scenarios", "import tacit.benchmarks.crypto.speed as crypto"),
        ("scenarios", "from . import schema"),
        ("benchmarks", "from tests.sim import helpers"),
        ("scenarios", "def late():\n    from tacit import load"),
        ("benchmarks", "import tacit"),
        ("protocols", "from sim.loop import SimLoop"),
    ],
)
def test_an_import_of_a_higher_layer_is_detected(room: str, source: str) -> None:
    assert wrong_arrows(room, source)


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasyncio.wait_for(1, 2)",
        "import asyncio as a\na.as_completed([])",
        "from asyncio import wait_for as until",
        "from time import sleep",
        "import time\ndef wait():\n    time.sleep(1)",
        "import random",
        "from random import Random",
    ],
)
def test_a_forbidden_call_is_detected(source: str) -> None:
    assert within(uses(source), *NOT_CALLED)


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.random.rand(3)",
        "import numpy as np\nnp.random.default_rng()",
        "from numpy import random\nrandom.shuffle([])",
        "from numpy.random import normal",
    ],
)
def test_a_draw_from_a_global_generator_is_detected(source: str) -> None:
    assert global_draws(uses(source))


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.random.Generator(np.random.Philox(np.random.SeedSequence(1)))",
        "def deal(random):\n    return random.normal()",
        "import time\ntime.perf_counter()",
    ],
)
def test_allowed_calls_and_draws_are_not_reported(source: str) -> None:
    assert within(uses(source), *NOT_CALLED) == global_draws(uses(source)) == []
