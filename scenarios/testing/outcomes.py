"""A finished run as the outcome of a test: expected and found, lost parties with reasons, the command to repeat it."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tacit.scenarios.reporting.printed import absences_of, outcome_lines
from tacit.scenarios.running.folder import Result
from tacit.scenarios.running.runner import exit_code
from tacit.scenarios.schema.scenario import Expect

__all__ = ["Problem", "line_of", "problems_of", "repeat_command", "report_of"]

_SHOWN = 4
"""The most losses that an annotation names."""


class Problem(Struct, frozen=True):
    """A reason why the test of a scenario file fails: the key that it concerns, or "", and one line of text."""

    key: str
    text: str


def problems_of(result: Result, expect: Expect) -> list[Problem]:
    """Return the differences of `result` from the expectations; an empty list if there are none."""
    if not exit_code(result, expect):
        return []
    found = [Problem(key, text) for key, text in zip(result.unmet_keys, result.unmet, strict=True)]
    ended = f"the run {_ENDED.get(result.outcome, result.outcome)}" + (f": {result.reason}" if result.reason else "")
    return found or [Problem("expect.outcome" if expect.outcome else "", ended)]


_ENDED = {"completed": "completed", "aborted": "was aborted", "failed": "failed", "interrupted": "was interrupted"}


def losses_in_words(result: Result) -> list[str]:
    """Return one line for each lost party with the reason; after the first few only their number."""
    absences = absences_of(result)
    lines = [f"lost: {one.text}" + "".join(f"; because {reason}" for reason in one.because) for one in absences]
    more = len(lines) - _SHOWN
    return [*lines[:_SHOWN], *([f"lost: {more} more"] if more > 0 else [])]


def report_of(result: Result, problems: Sequence[Problem], file: Path) -> list[str]:
    """Return the lines for a failed test: expected and found, losses with reasons, and the command to repeat the
    run."""
    return [
        *(f"NOT AS EXPECTED  {problem.text}" for problem in problems),
        "",
        *outcome_lines(result, absences_of(result)),
        f"trace     {result.trace_hash}",
        f"folder    {result.folder}",
        "",
        f"repeat    {repeat_command(file)}",
        f"events    tacit events {shlex.quote(str(result.folder))}",
    ]


def repeat_command(file: Path) -> str:
    """Return the command that runs the scenario `file` again, with a path relative to the current folder."""
    path = file.absolute()
    here = Path.cwd()
    return f"tacit run {shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))}"


def line_of(text: str, key: str) -> int:
    """Return the line, from 1, of `key` in the scenario file `text`; else the line of its table, or 1.

    `key` has the form used in errors: ``expect.lost``, ``fault.1.at``, ``seed``, or ``line 3, column 5``.
    """
    if key.startswith("line "):
        digits = key.removeprefix("line ").partition(",")[0]
        return int(digits) if digits.isdigit() else 1
    table, dot, name = key.rpartition(".")
    if not dot:
        table, name = (key, "") if f"[{key}]" in text else ("", key)
    elif name.isdigit():
        table, name = key, ""
    best, current, counts = 0, "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].strip()
        if words.startswith("[[") and words.endswith("]]"):
            head = words[2:-2].strip()
            current = f"{head}.{counts.get(head, 0)}"
            counts[head] = counts.get(head, 0) + 1
        elif words.startswith("[") and words.endswith("]"):
            current = words[1:-1].strip()
        elif current == table and name and words.partition("=")[0].strip() == name:
            return number
        else:
            continue
        if current == table and table and not best:
            best = number
    return best or 1
