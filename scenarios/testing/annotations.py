"""The problems of a run as annotations of continuous integration: on GitHub, and as code quality on GitLab."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tacit.scenarios.running.folder import Result
from tacit.scenarios.testing.outcomes import Problem, line_of, losses_in_words
from tacit.sim.units import format_bytes, format_duration

__all__ = ["CODE_QUALITY", "annotate", "github_line"]

CODE_QUALITY = "gl-code-quality-report.json"
"""The file in the current folder that collects the problems on GitLab; a job publishes it as a code quality report."""


def annotate(
    file: Path, problems: Sequence[Problem], result: Result | None = None, environ: Mapping[str, str] = os.environ
) -> list[str]:
    """Report the `problems` of the scenario `file` to the service that `environ` names, and return the lines to print.

    On GitHub Actions each problem is an annotation, and the `result` a line in the summary of the job. On GitLab CI
    problems go into the file `CODE_QUALITY`, where they replace those of the same scenario file. Elsewhere each problem
    is a line in the style of compilers.
    """
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    place = _place(file)
    found = [(line_of(text, one.key), one.text) for one in problems]
    losses = losses_in_words(result) if result is not None and problems else []
    if environ.get("GITHUB_ACTIONS") == "true":
        if result is not None and (summary := environ.get("GITHUB_STEP_SUMMARY")):
            _summarize(Path(summary), result, [one.text for one in problems])
        return [github_line(place, number, "\n".join([problem, *losses])) for number, problem in found]
    if environ.get("GITLAB_CI") == "true":
        _collect(Path(CODE_QUALITY), place, [(number, "; ".join([problem, *losses])) for number, problem in found])
        return []
    return [f"{place}:{number}: error: {problem}" for number, problem in found]


def _place(file: Path) -> str:
    """Return the file's path relative to the current folder, which is the repository in a job; absolute if it is
    outside."""
    path, here = file.absolute(), Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_posix()


def github_line(place: str, line: int, text: str) -> str:
    """Return the workflow command of GitHub Actions that shows `text` at a line of the file `place`."""
    title = _escaped(f"tacit: {text.splitlines()[0]}", properties=True)
    return f"::error file={_escaped(place, properties=True)},line={line},title={title}::{_escaped(text)}"


def _escaped(text: str, *, properties: bool = False) -> str:
    for mark in "%\r\n" + ":," * properties:
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text


_HEAD = "| scenario | seed | outcome | virtual time | bytes | lost | trace |"


def _summarize(path: Path, result: Result, problems: Iterable[str]) -> None:
    """Append a line on the run, as Markdown, to the summary of a job."""
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    lost = ", ".join(dict.fromkeys(loss.party for loss in result.lost)) or "nobody"
    cells = (
        result.scenario, str(result.seed), "; ".join([result.outcome, *problems]),
        format_duration(result.virtual_seconds), format_bytes(result.bytes_total), lost, f"`{result.trace_hash[:16]}`",
    )  # fmt: skip
    row = "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    head = "" if _HEAD in before else f"\n{_HEAD}\n|{' --- |' * len(cells)}\n"
    path.write_text(before + head + row, encoding="utf-8")


def _collect(path: Path, place: str, problems: Iterable[tuple[int, str]]) -> None:
    """Replace the problems of the file `place` in a code quality report, which is made if needed."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = []
    report: list[dict[str, Any]] = [one for one in found if one["location"]["path"] != place]
    for number, text in problems:
        report.append(
            {
                "description": text,
                "check_name": "tacit",
                "fingerprint": hashlib.sha256(f"{place}\n{text}".encode()).hexdigest(),
                "severity": "major",
                "location": {"path": place, "lines": {"begin": number}},
            }
        )
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
