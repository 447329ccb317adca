"""Plain technical English in names, docstrings and comments: replaced words must not return."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tacit.__main__ import commands
from tacit.scenarios.schema.keys import keys
from tests.tree import LAYERS, ROOT, Nodes, nodes

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
    "tacit",
    "tests",
)
"""Folders, with all files below them, and patterns of files; add a line for another one."""

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
"""The words to avoid in prose: a regular expression of whole words, and the replacement."""

PHRASES = {
    r"becomes? of": "happens to, the end of",
    r"comes? of": "the result of",
    r"puts? aside": "ignores",
}
"""Phrases to avoid, like the words above, except on pages in `NOT_YET`."""

READ_TWICE = {
    r"[Ii]n place of": "instead of",
    r"of one's own": "of your own",
    r"(?:is|are) (?:in|there|so) then": "the noun again",
    r"[Ss]o much": "an amount",
}
"""Phrases that readers of pages, help texts and descriptions of keys had to read twice; docstrings may have them."""

OPENINGS = {
    r"(Of|As|In place of|What|Whether|That) ": "what is returned or done, the subject or the verb first",
}
"""Beginnings to avoid in sentences of pages, help texts and descriptions of keys, and the replacement."""

STARTS = OPENINGS | {
    r"(What|Whether|That|Those|Their|Of|As|In place of|In how many|In which)\b": "the noun or the verb first",
}
"""Beginnings to avoid in docstrings, including those of tests, and in descriptions of keys, and the replacement."""

LONGEST = 35
"""The most words of a sentence of a page or of a help text."""

NOT_YET = (
    "CHANGELOG.md",  # lists earlier versions
    "docs/mathematics/*.md",  # sentences around formulas
    "docs/privacy/protocols.md",  # lists generated from the declarations
    "docs/results/*.md",  # claims generated from the tables, with all their figures
)
"""Pages whose sentences are not checked, with the reasons."""

NAMES = {"its", "told", "came", "anew"}
"""Names to avoid for variables, arguments and attributes: use settings, scenario, keys or record, for example."""


def files(place: str) -> list[Path]:
    found = ROOT.glob(place) if "*" in place else (ROOT / place).rglob("*.*")
    return [path for path in sorted(found) if path.suffix in (".md", ".py", ".toml")]


def names(module: Nodes) -> Iterator[tuple[int, str]]:
    """The names that a module binds, each with its line."""
    for node in module.of(ast.Name, ast.Attribute, ast.arg):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name


def docstrings(module: Nodes) -> Iterator[tuple[int, str]]:
    """The docstrings of a module, also those below variables, each with its line."""
    for node in module.of(ast.Expr):
        match node.value:
            case ast.Constant(value=str(text)):
                yield node.lineno, text


def descriptions(module: Nodes) -> Iterator[tuple[int, str]]:
    """The descriptions of keys, as `tacit keys` prints them, each with its line."""
    for node in module.of(ast.Call):
        match node:
            case ast.Call(func=ast.Name(id="about"), args=[text, *_]):
                parts = [part.value for part in ast.walk(text) if isinstance(part, ast.Constant)]
                yield text.lineno, "".join(part for part in parts if isinstance(part, str))


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page of Markdown with their numbers, without code."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, re.sub(r"`[^`]*`", "`...`", line)


REPLACED = re.compile(rf"\b(?:{'|'.join((*WORDS, *PHRASES))})(?!\w)")


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """The paragraphs, headings, list items and cells of tables of a page of Markdown, each with its first line."""
    page = re.sub(r"\A---\n.*?^---$", lambda found: "\n" * found[0].count("\n"), page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"<!--.*?-->", lambda found: "\n" * found[0].count("\n"), page, flags=re.DOTALL)
    start, parts = 0, list[str]()
    for number, line in [*lines(page), (0, "")]:
        text = line.strip()
        if parts and (not text or re.match(r"[-*+|#] ?|\d+\. ", text)):
            yield start, " ".join(parts)
            parts = []
        if text.startswith("|"):
            yield from ((number, cell.strip()) for cell in text.strip("|").split("|"))
        elif text:
            start, parts = start if parts else number, [*parts, text]


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph or of a help text; a link is replaced by its text, and code by one word."""
    text = re.sub(r"^(?:[-*+#]+|\d+\.) ", "", " ".join(text.split()))
    text = re.sub(r"`[^`]*`", "`...`", re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)).replace("*", "")
    return re.split(r"(?<=[.!?:;]) +(?=[A-Z`\"(\[])", text)


def unreadable(text: str) -> Iterator[str]:
    """Yield the reasons why the sentences of a text are hard to read: their beginnings, phrases and lengths."""
    for sentence in sentences(text):
        for opening, better in OPENINGS.items():
            if re.match(opening, sentence):
                yield f"{sentence!r}; write {better}"
        for phrase, better in (WORDS | PHRASES | READ_TWICE).items():
            if found := re.search(rf"\b(?:{phrase})(?!\w)", sentence):
                yield f"{found[0]!r} in {sentence!r}; write {better}"
        if (words := len(re.findall(r"[\w`][\w'`./%-]*", sentence))) > LONGEST:
            yield f"{sentence!r} has {words} words; write sentences of at most {LONGEST}"


def written() -> list[Path]:
    """The pages whose sentences are checked."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    later = {path for pattern in NOT_YET for path in ROOT.glob(pattern)}
    return sorted(set(pages) - later)


def helps(group: Any, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the help texts of a command, its options and the commands of a group, each with the words that call it."""
    yield " ".join((*words, "--help")), (group.help or "").partition("\f")[0]
    for parameter in group.params:
        yield f"{' '.join(words)}: {parameter.name}", getattr(parameter, "help", "") or ""
    for name, one in getattr(group, "commands", {}).items():
        yield from helps(one, (*words, name))


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module that may have a replaced word; tokenizing takes most of the time of these
    tests."""
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
        place = path.relative_to(ROOT)
        module = nodes(place) if place.parts[0] in LAYERS else Nodes(text)
        strings = [*docstrings(module), *descriptions(module)]
        prose = [*strings, *comments(text)]
        for number, name in names(module):
            if name in NAMES:
                yield f"{path.relative_to(ROOT)}:{number}: a name is {name!r}; call it what it is"
        for number, string in strings:
            if better := next((better for opening, better in STARTS.items() if re.match(opening, string)), None):
                yield f"{path.relative_to(ROOT)}:{number}: {string.split(chr(10))[0]!r}; write {better}"
    later = any(path in ROOT.glob(pattern) for pattern in NOT_YET)
    for number, one in prose:
        for word, better in (WORDS | ({} if later else PHRASES)).items():
            for found in re.finditer(rf"\b(?:{word})(?!\w)", one, re.MULTILINE):
                line = number + one.count("\n", 0, found.start())
                yield f"{path.relative_to(ROOT)}:{line}: {found[0]!r}; write {better}"


@pytest.mark.parametrize("place", PLACES)
def test_replaced_words_are_not_used(place: str) -> None:
    assert files(place), f"{place}: there is no such folder or file"
    assert [problem for path in files(place) for problem in problems(path)] == []


@pytest.mark.parametrize("path", written(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_sentences_of_pages_are_easy_to_read(path: Path) -> None:
    found = paragraphs(path.read_text(encoding="utf-8"))
    assert [f"line {number}: {problem}" for number, text in found for problem in unreadable(text)] == []


def test_help_texts_are_easy_to_read() -> None:
    texts = list(helps(typer.main.get_command(commands()), ("tacit",)))
    assert len(texts) > 150
    hidden = ("install_completion", "show_completion", "help")
    assert [place for place, text in texts if not text and not place.endswith(hidden)] == []
    assert [f"{place}: {problem}" for place, text in texts for problem in unreadable(text)] == []


def test_descriptions_of_keys_are_easy_to_read() -> None:
    described = [(key.name, key.description) for key in keys()]
    assert len(described) > 200
    assert [name for name, text in described if not text] == []
    assert [f"{name}: {problem}" for name, text in described for problem in unreadable(text)] == []


def test_sentences_that_are_hard_to_read_are_found() -> None:
    page = f"""---
of: none
---
# Whether it runs

It runs. Of all runs, [one](a.md) becomes
of interest.

```sh
As is
```

- As `a b` is
- {"word " * 36}ends.

| so many | That is |
| --- | --- |
"""
    found = [
        (number, problem.partition("; write")[0]) for number, text in paragraphs(page) for problem in unreadable(text)
    ]
    assert found == [
        (4, "'Whether it runs'"),
        (6, "'Of all runs, one becomes of interest.'"),
        (6, "'becomes of' in 'Of all runs, one becomes of interest.'"),
        (13, "'As `...` is'"),
        (14, f"'{'word ' * 36}ends.' has 37 words"),
        (16, "'so many' in 'so many'"),
        (16, "'That is'"),
    ]


def test_replaced_words_and_names_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    path = tmp_path / "one.py"
    path.write_text(
        '"""As `A.b`, whatever came."""\n\nits = 1  # told anew\n"""Of all: it is none,\nthere is none."""\n'
        'key = about("Whether it runs.", ge=0)\n'
    )
    assert [line.split(";")[0] for line in problems(path)] == [
        "one.py:3: a name is 'its'",
        "one.py:1: 'As `A.b`, whatever came.'",
        "one.py:4: 'Of all: it is none,'",
        "one.py:6: 'Whether it runs.'",
        "one.py:1: 'came'",
        "one.py:4: 'is none'",
        "one.py:3: 'told'",
        "one.py:3: 'anew'",
    ]
