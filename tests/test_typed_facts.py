"""No code extracts a fact of a run from a text: events and records state facts in typed fields."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("sim", "parties", "protocols", "scenarios", "benchmarks", "tacit")
TEXTS = {"note", "why", "reason", "detail"}
"""Attributes of events, records and results that are texts for the user."""

CUTS = {"startswith", "endswith", "partition", "rpartition", "split", "find", "index"}
"""Methods that split a text, or look at a part of it."""


def taken_apart(tree: ast.AST) -> Iterator[int]:
    """Yield the lines in which a text of an event, a record or a result is split, or searched by a regular
    expression."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            cut = node.func.attr in CUTS and isinstance(of, ast.Attribute) and of.attr in TEXTS
            by_expression = isinstance(of, ast.Name) and of.id == "re" and any(map(_is_text, node.args))
            if cut or by_expression:
                yield node.lineno
        if isinstance(node, ast.Compare) and any(isinstance(one, ast.In | ast.NotIn) for one in node.ops):
            searched = isinstance(node.left, ast.Constant) and any(map(_is_text, node.comparators))
            if searched and not any(
                isinstance(one, ast.Attribute) and one.attr == "reason" for one in node.comparators
            ):
                yield node.lineno  # chaos checks that a reason names the party concerned


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in TEXTS


@pytest.mark.parametrize("room", ROOMS)
def test_no_fact_is_taken_out_of_a_text(room: str) -> None:
    found = []
    for file in sorted((ROOT / room).rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        found += [f"{file.relative_to(ROOT).as_posix()}:{line}" for line in taken_apart(tree)]
    assert found == []


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ('event.note.startswith("lost: ")', [1]),
        ('row.reason.partition(": ")', [1]),
        ('re.search("lost", run.reason)', [1]),
        ('"late" in one.why', [1]),
        ('event.fact == "lost"; names.split()', []),
        ("row.step not in row.note_of", []),
    ],
)
def test_what_counts_as_taking_a_text_apart(code: str, lines: list[int]) -> None:
    assert list(taken_apart(ast.parse(code))) == lines


def test_pages_are_not_made_of_columns_of_a_terminal() -> None:
    """A line with a label has both as fields (`tacit.sim.labelled`), so no code counts characters."""
    for file in sorted((ROOT / "scenarios").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
                ends = (node.slice.lower, node.slice.upper)
                counted = any(isinstance(end, ast.Constant) and end.value == 10 for end in ends)
                assert not counted, f"{file.relative_to(ROOT)}:{node.lineno}"
