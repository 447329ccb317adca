"""Allowed imports, and functions that must not be called. Modules are read, not run."""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.tree import LAYERS, Nodes, modules, nodes

MODULES = modules(*LAYERS)
FOREIGN = tuple(f"protocols/flower/{name}.py" for name in ("adapter", "stand_ins"))
"""Modules that run foreign code, which sleeps: it gets virtual time."""
WORLD = [
    path for path in MODULES if path.parts[0] in ("sim", "parties", "protocols") and path.as_posix() not in FOREIGN
]

SEEDS_OTHERS = "sim/seeding/__init__.py"
"""The module that seeds the global generators, from which foreign code draws."""
DRAWING = [path for path in MODULES if path.parts[0] != "benchmarks" and path.as_posix() != SEEDS_OTHERS]

NOT_CALLED = ("asyncio.wait_for", "asyncio.as_completed", "concurrent.futures.as_completed", "time.sleep")
"""wait_for can swallow a cancellation; as_completed depends on addresses; sleep ignores the simulation."""

NUMPY_GENERATORS = ("BitGenerator", "Generator", "PCG64", "Philox", "SeedSequence", "bit_generator")
"""Names of numpy.random without shared state and without seeding by the operating system."""


def imports(module: Nodes) -> set[str]:
    """Every module that `module` imports, at any place; a name imported from a module counts as a module as well.

    A relative import gives a name that begins with a dot.
    """
    found = {alias.name for node in module.of(ast.Import) for alias in node.names}
    for node in module.of(ast.ImportFrom):
        origin = "." * node.level + (node.module or "")
        found |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
    return found


def uses(module: Nodes) -> set[str]:
    """`imports`, and every dotted name that begins with an imported one, under its full name."""
    known = dict[str, str]()
    for node in module.of(ast.Import):
        for alias in node.names:
            short = alias.name.partition(".")[0]
            known[alias.asname or short] = alias.name if alias.asname else short
    for origin in module.of(ast.ImportFrom):
        if origin.module:
            known.update({alias.asname or alias.name: f"{origin.module}.{alias.name}" for alias in origin.names})
    return imports(module) | {name for node in module.of(ast.Name, ast.Attribute) if (name := _dotted(node, known))}


def _dotted(node: ast.AST, known: dict[str, str]) -> str:
    if isinstance(node, ast.Name):
        return known.get(node.id, "")
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value, known)):
        return f"{owner}.{node.attr}"
    return ""


def within(names: Iterable[str], *places: str) -> list[str]:
    """The elements of `names` that are one of the modules `places` or inside one."""
    return sorted(name for name in names if any(f"{name}.".startswith(f"{place}.") for place in places))


def wrong_arrows(layer: str, module: Nodes) -> list[str]:
    """The imports of a module in `layer` from later layers, from outside the project's packages, or relative ones."""
    right = [f"tacit.{name}" for name in LAYERS[LAYERS.index(layer) + 1 :]]
    names = imports(module)
    public = [name for name in names if name == "tacit" or _is_public(name)]
    hidden = within(names, *LAYERS)  # packages at the top of the tree are imported as tacit.sim, tacit.parties, ...
    return within(names, *right, "tests", "docs") + public + hidden + [name for name in names if name.startswith(".")]


def _is_public(name: str) -> bool:
    """True if `name` belongs to the public interface, which only users may import."""
    first, _, rest = name.partition(".")
    return first == "tacit" and rest.partition(".")[0] not in ("", *LAYERS)


def global_draws(names: Iterable[str]) -> list[str]:
    """The elements of `names` that draw from a global generator, or from one of numpy without a seed."""
    names = set(names)
    drawn = [name for name in within(names, "numpy.random") if name.count(".") >= 2]
    return within(names, "random", "secrets") + [name for name in drawn if name.split(".")[2] not in NUMPY_GENERATORS]


def test_every_layer_has_modules() -> None:
    assert {path.parts[0] for path in MODULES} == set(LAYERS)


def test_a_layer_imports_only_lower_layers() -> None:
    found = {str(path): wrong for path in MODULES if (wrong := wrong_arrows(path.parts[0], nodes(path)))}
    assert found == {}


def test_cryptography_imports_no_messages() -> None:
    paths = [path for path in MODULES if path.parts[:2] == ("protocols", "crypto")]
    assert paths
    for path in paths:
        names = imports(nodes(path))
        assert within(names, "asyncio", "simpy") == [], path
        pure = ("tacit.sim.streams", "tacit.sim.hollow", "tacit.sim.shares", "tacit.sim.digests", "tacit.sim.alike")
        allowed = within(names, *pure, "tacit.protocols.crypto")
        assert sorted(set(within(names, "tacit")) - {"tacit.sim", "tacit.protocols"} - set(allowed)) == [], path


def test_the_oracle_shares_no_code_with_the_protocols() -> None:
    assert within(imports(nodes(Path("protocols/xclp/oracle.py"))), "tacit") == []


def test_no_module_uses_the_real_clock() -> None:
    for path in WORLD:
        assert within(uses(nodes(path)), *NOT_CALLED) == [], path


def test_no_module_draws_from_a_global_generator() -> None:
    for path in DRAWING:
        assert global_draws(uses(nodes(path))) == [], path


@pytest.mark.parametrize(
    ("layer", "source"),
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
def test_an_import_of_a_higher_layer_is_detected(layer: str, source: str) -> None:
    assert wrong_arrows(layer, Nodes(source))


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasyncio.wait_for(1, 2)",
        "import asyncio as a\na.as_completed([])",
        "from asyncio import wait_for as until",
        "from time import sleep",
        "import time\ndef wait():\n    time.sleep(1)",
    ],
)
def test_a_forbidden_call_is_detected(source: str) -> None:
    assert within(uses(Nodes(source)), *NOT_CALLED)


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.random.rand(3)",
        "import numpy as np\nnp.random.default_rng()",
        "from numpy import random\nrandom.shuffle([])",
        "from numpy.random import normal",
        "import random",
        "from random import Random",
        "import secrets\nsecrets.token_bytes(3)",
    ],
)
def test_a_draw_from_a_global_generator_is_detected(source: str) -> None:
    assert global_draws(uses(Nodes(source)))


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.random.Generator(np.random.Philox(np.random.SeedSequence(1)))",
        "def deal(random):\n    return random.normal()",
        "import time\ntime.perf_counter()",
    ],
)
def test_allowed_calls_and_draws_are_not_reported(source: str) -> None:
    assert within(uses(Nodes(source)), *NOT_CALLED) == global_draws(uses(Nodes(source))) == []
