"""No code extracts a fact of a run from a text: events and records state facts in typed fields."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tree import LAYERS, ROOT, Nodes, modules, nodes

FOLDERS = (*LAYERS, "tacit")
TEXTS = {"note", "why", "reason", "detail", "action", "ending", "problem", "ended_by", "unmet", "warnings"}
"""Names of attributes and variables that are texts for the user, of events, records, results and errors."""

CUTS = {"startswith", "endswith", "partition", "rpartition", "split", "rsplit", "removeprefix", "removesuffix", "find",
        "index"}  # fmt: skip
"""Methods that split a text, or look at a part of it."""

SEARCHES = {"match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split"}
"""Methods of the module `re`, and of compiled patterns, which have names in capitals."""

PATTERNS = {
    "benchmarks/crypto/prio3.py": "the source of a reference implementation",
    "benchmarks/reality/handling.py": "numbers that its own plugin prints for it",
    "benchmarks/reality/lab.py": "names of network namespaces",
    "protocols/declaration.py": "names of protocols",
    "protocols/flower/apps.py": "the configuration of an app, as the user writes it",
    "scenarios/auditing/audit.py": "source code",
    "scenarios/files/dropouts.py": "values of --loss",
    "scenarios/files/composing.py": "keys",
    "scenarios/files/plugins.py": "digests",
    "scenarios/files/checks.py": "names and engines, as the user writes them",
    "scenarios/files/reading.py": "titles, made into names",
    "scenarios/files/source.py": "the place in an error of the library that reads TOML",
    "scenarios/reporting/artifact.py": "names of files and packages, and blank lines",
    "scenarios/reporting/charts.py": "identifiers in SVG",
    "scenarios/reporting/reference.py": "keys",
    "scenarios/running/workers.py": "values of --jobs",
    "scenarios/sweeping/runs.py": "values, made into names of folders",
    "scenarios/testing/pytest_plugin.py": "options, names of folders, and a key of a file that is not yet read",
    "sim/deployed/connection.py": "lines of a log of which few are to be shown; no fact is taken out of them",
    "sim/plugged/__init__.py": "tracebacks of Python, which workers send as texts; names of modules",
    "sim/triggers.py": "names of parties",
    "sim/grammar.py": "counted nouns in sentences for the user, put into the singular",
    "sim/units.py": "quantities, as the user writes them",
}
"""The files with regular expressions, and what they are applied to: what users and other programs write, and names."""


SHOWN = {"scenarios/seeing/facts.py"}
"""The file that shows the note of a fault without the fault's kind in front; nothing is decided by it."""


def taken_apart(module: Nodes) -> Iterator[int]:
    """Yield the lines in which a text for the user is split, or searched for a part of it."""
    respaced = {id(node.args[0]) for node in module.of(ast.Call) if _joins_words(node)}
    for node in module.of(ast.Call):
        if isinstance(node.func, ast.Attribute) and id(node) not in respaced:
            of = node.func.value
            cut = node.func.attr in CUTS and _is_text(of)
            pattern = isinstance(of, ast.Name) and (of.id == "re" or of.id.isupper())
            if cut or (pattern and node.func.attr in SEARCHES and any(map(_is_text, node.args))):
                yield node.lineno
    for sides in module.of(ast.Compare):
        if any(isinstance(one, ast.In | ast.NotIn) for one in sides.ops) and id(sides) not in respaced:
            part = isinstance(sides.left, ast.Constant | ast.JoinedStr)
            if part and any(map(_is_text, sides.comparators)):
                yield sides.lineno


def _joins_words(node: ast.Call) -> bool:
    """Return true for ``" ".join(text.split())``, which makes one line of a text."""
    match node.func:
        case ast.Attribute(value=ast.Constant(value=" "), attr="join"):
            return bool(node.args)
    return False


def _is_text(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr in TEXTS) or (isinstance(node, ast.Name) and node.id in TEXTS)


def test_only_listed_modules_use_regular_expressions() -> None:
    found = {
        path.as_posix()
        for path in modules(*FOLDERS)
        if any(alias.name == "re" for node in nodes(path).of(ast.Import) for alias in node.names)
    }
    assert found == {*PATTERNS}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_module_reads_facts_out_of_texts(folder: str) -> None:
    found = [f"{path.as_posix()}:{line}" for path in modules(folder) for line in taken_apart(nodes(path))]
    assert [one for one in found if one.partition(":")[0] not in SHOWN] == []


def test_scripts_of_pages_parse_no_text() -> None:
    """They compare names; only the parts of a step's name, which a dot separates, may be split."""
    for file in sorted((ROOT / "scenarios").rglob("*.js")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            parts = re.search(r"\.(startsWith|endsWith|match|matchAll|search)\(|RegExp|\.split\((?!\"\.\")", line)
            assert parts is None, f"{file.relative_to(ROOT)}:{number}"


def test_reasons_have_their_facts_in_fields() -> None:
    """A reason that is made of a finished sentence has no numbers to be counted by."""
    for path in modules("protocols"):
        for node in nodes(path).of(ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in ("Abort", "Reason"):
                finished = any(isinstance(one, ast.JoinedStr) for one in node.args)
                assert not finished, f"{path}:{node.lineno}"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ('event.note.startswith("lost: ")', [1]),
        ('row.reason.partition(": ")', [1]),
        ('re.search("lost", run.reason)', [1]),
        ('re.sub("[0-9]+", "some", reason)', [1]),
        ("_NUMBER.findall(reason)", [1]),
        ('" ".join(problem.split())', []),
        ('"late" in one.why', [1]),
        ('" left" not in trial.reason', [1]),
        ('"is not on this machine" in error.problem', [1]),
        ('found.ended_by.endswith("over")', [1]),
        ('event.fact == "lost"; names.split()', []),
        ("row.step not in row.note_of", []),
    ],
)
def test_parsing_of_texts_is_detected(code: str, lines: list[int]) -> None:
    assert list(taken_apart(Nodes(code))) == lines


def test_pages_are_not_made_from_columns_of_terminal_output() -> None:
    """A line with a label has both as fields (`tacit.sim.grammar`), so no code counts characters."""
    for path in modules("scenarios"):
        for node in nodes(path).of(ast.Slice):
            counted = any(isinstance(end, ast.Constant) and end.value == 10 for end in (node.lower, node.upper))
            assert not counted, f"{path}:{node.lineno}"
