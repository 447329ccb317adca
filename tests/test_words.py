"""Plain technical English in names, docstrings and comments: words that were replaced do not come back."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PLACES = (
    "*.md",
    "*.py",
    "benchmarks",
    "docs",
    "examples",
    "parties",
    "protocols",
    "scenarios",
    "sim",
    "tests",
)
"""Folders, with all below them, and patterns of files: add a line for another one."""

WORDS = {
    r"told|tells?": "stores, reports, is reported by",
    r"came": "was received",
    r"anew": "again",
    r"dearer": "costlier",
    r"so many": "the number, every N rounds",
    r"cannot be(?=[.,;:)\"]|$)": "is invalid",
    r"(?<!there )(?:is|are) none": "is invalid, is ignored",
    r"[Rr]aises? what": "Raises ValueError if ...",
}
"""What prose says otherwise: a regular expression of whole words, and what to write."""

OPENINGS = {
    r"(Of|As|In place of|What|Whether|That) ": "what is returned or done, the subject or the verb first",
}
"""How no docstring and no description of a key begins, and what to write; docstrings of tests may."""

NAMES = {"its", "told", "came", "anew"}
"""What no variable, argument or attribute is called: call it what it is, as settings, scenario, keys or record."""


def files(place: str) -> list[Path]:
    found = ROOT.glob(place) if "*" in place else (ROOT / place).rglob("*.*")
    return [path for path in sorted(found) if path.suffix in (".md", ".py", ".toml")]


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names that a module binds, each with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The docstrings of a module, also those below variables, each with its line."""
    for node in ast.walk(tree):
        for part in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            match part:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield part.lineno, text


def descriptions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The descriptions of keys, as `tacit keys` prints them, each with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="Meta"), keywords=keywords):
                for keyword in keywords:
                    if keyword.arg == "description":
                        parts = [part.value for part in ast.walk(keyword.value) if isinstance(part, ast.Constant)]
                        yield keyword.value.lineno, "".join(part for part in parts if isinstance(part, str))


def lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page of Markdown, each with its number; what is code is left out."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, re.sub(r"`[^`]*`", "`...`", line)


REPLACED = re.compile(rf"\b(?:{'|'.join(WORDS)})(?!\w)")


def comments(text: str) -> Iterator[tuple[int, str]]:
    """The comments of a module that may have a replaced word; finding where comments begin takes by far the longest."""
    if not any(REPLACED.search(line, line.index("#")) for line in text.splitlines() if "#" in line):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def problems(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":  # a comment, or the title
        prose = [(number, line) for number, line in enumerate(text.splitlines(), 1) if re.search(r"#|^title", line)]
        prose = [(number, line[line.find("#") + 1 :]) for number, line in prose]
    elif path.suffix == ".md":
        prose = list(lines(text))
    else:
        tree = ast.parse(text)
        strings = [*docstrings(tree), *descriptions(tree)]
        prose = [*strings, *comments(text)]
        for number, name in names(tree):
            if name in NAMES:
                yield f"{path.relative_to(ROOT)}:{number}: a name is {name!r}; call it what it is"
        for number, string in strings:
            for opening, better in OPENINGS.items() if path.relative_to(ROOT).parts[0] != "tests" else ():
                if re.match(opening, string):
                    yield f"{path.relative_to(ROOT)}:{number}: {string.split(chr(10))[0]!r}; write {better}"
    for number, one in prose:
        for word, better in WORDS.items():
            for found in re.finditer(rf"\b(?:{word})(?!\w)", one, re.MULTILINE):
                line = number + one.count("\n", 0, found.start())
                yield f"{path.relative_to(ROOT)}:{line}: {found[0]!r}; write {better}"


@pytest.mark.parametrize("place", PLACES)
def test_words_that_were_replaced_do_not_come_back(place: str) -> None:
    assert files(place), f"{place}: there is no such folder or file"
    assert [problem for path in files(place) for problem in problems(path)] == []


def test_what_is_looked_for_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    path = tmp_path / "one.py"
    path.write_text(
        '"""As `A.b`, whatever came."""\n\nits = 1  # told anew\n"""Of all: it is none,\nthere is none."""\n'
    )
    assert [line.split(";")[0] for line in problems(path)] == [
        "one.py:3: a name is 'its'",
        "one.py:1: 'As `A.b`, whatever came.'",
        "one.py:4: 'Of all: it is none,'",
        "one.py:1: 'came'",
        "one.py:4: 'is none'",
        "one.py:3: 'told'",
        "one.py:3: 'anew'",
    ]
