"""Shell completion, set up by `tacit --install-completion`. Each function returns the words that begin with
`incomplete`.

If no word fits, the shell completes file names.
"""

import io
import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, redirect_stdout, suppress
from pathlib import Path

import typer

__all__ = [
    "changes",
    "data_sets",
    "engines",
    "keys",
    "parties",
    "protocols",
    "quantities",
    "scenarios",
    "steps",
    "swept",
    "unsplit_words",
    "x_axes",
]

Words = list[tuple[str, str]]
"""Words, each with the text that a shell shows beside it."""


def _fitting(words: Iterable[str | tuple[str, str]], incomplete: str) -> Words:
    pairs = ((word, "") if isinstance(word, str) else word for word in words)
    return [(word, about) for word, about in pairs if word.startswith(incomplete)]


def scenarios(incomplete: str) -> Words:
    """The built-in scenarios."""
    from tacit.scenarios.files.shipped import shipped

    return _fitting(shipped(), incomplete)


def keys(incomplete: str) -> Words:
    """The keys of scenario files."""
    from tacit.scenarios.schema.keys import keys as all_keys

    return _fitting(((key.name, key.description) for key in all_keys()), incomplete)


def changes(incomplete: str) -> Words:
    """The text ``KEY=`` for each key that --set changes; after it the values, if they can be listed."""
    from tacit.scenarios.schema.keys import keys as all_keys

    found: list[str | tuple[str, str]] = []
    for key in all_keys():
        if key.is_of_list:
            continue
        found.append((f"{key.name}=", key.description))
        if incomplete.startswith(f"{key.name}="):
            found += [f"{key.name}={value}" for value in key.values if value]
    return _fitting(found, incomplete)


def swept(incomplete: str) -> Words:
    """Complete the values of --over like `changes`; values before the last comma are kept."""
    key, equals, values = incomplete.partition("=")
    before = values.rpartition(",")[0] + "," if "," in values else ""
    found = changes(f"{key}{equals}{values.removeprefix(before)}")
    return [(word.replace("=", f"={before}", 1), about) for word, about in found]


def protocols(incomplete: str) -> Words:
    """The protocols and the built-in scenarios."""
    from tacit.protocols.registry import PROTOCOLS

    return _fitting(((name, one.summary) for name, one in PROTOCOLS.items()), incomplete) + scenarios(incomplete)


def data_sets(incomplete: str) -> Words:
    """The data sets that have names."""
    from tacit.parties.data.sets import DATASETS

    return _fitting(((name, about.description) for name, about in DATASETS.items()), incomplete)


def engines(incomplete: str) -> Words:
    """The choices of --engine."""
    return _fitting(("auto", "inline", "pool:1", "pool:2", "pool:4", "ray", "ray:auto"), incomplete)


def jobs(incomplete: str) -> Words:
    """The choices of --jobs."""
    return _fitting(("1", "2", "4", "8", "ray", "ray:auto"), incomplete)


def x_axes(incomplete: str) -> Words:
    """The quantities that `tacit plot` can draw against."""
    return _fitting(("rounds", "bytes", "time"), incomplete)


def quantities(incomplete: str) -> Words:
    """The quantities of a run that `tacit plot` can draw."""
    return _fitting(("score", "accuracy", "seconds", "bytes", "messages", "called", "answers"), incomplete)


def parties(context: typer.Context, incomplete: str) -> Words:
    """The parties of the run whose folder is on the command line."""
    return _recorded(context, "party", incomplete)


def steps(context: typer.Context, incomplete: str) -> Words:
    """The steps taken in the run whose folder is on the command line."""
    return _recorded(context, "step", incomplete)


def _recorded(context: typer.Context, column: str, incomplete: str) -> Words:
    import sqlite3

    given = [context.params.get("folder"), *context.args]  # it is in args while an option lacks its value
    found = [path for name in given if name and (path := Path(name) / "run.sqlite").is_file()]
    if not found:
        return []
    uri = f"{found[0].absolute().as_uri()}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as record:
        rows = record.execute(f"SELECT DISTINCT {column} FROM steps")
        names = sorted((str(name) for (name,) in rows), key=_by_number)
        return _fitting(names, incomplete)
    return []


def _by_number(name: str) -> tuple[str, int]:
    head, _, number = name.rpartition("/")
    return (head, int(number)) if number.isdecimal() else (name, 0)


@contextmanager
def unsplit_words() -> Iterator[None]:
    """Inside this context, a word that bash has split at ``=`` is joined for completion, and only its last part is
    printed."""
    place = int(os.environ.get("COMP_CWORD", "0"))
    given = os.environ.get("COMP_WORDS", "").split("\n")[: place + 1]
    words: list[str] = []
    for word in given:
        if words and (word == "=" or words[-1].endswith("=")):
            words[-1] += word
        else:
            words.append(word)
    if len(words) == len(given):
        yield
        return
    os.environ |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    head, equals, _ = words[-1].rpartition("=")
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        for line in printed.getvalue().splitlines():
            typer.echo(line.removeprefix(head + equals))
