"""The text of an artifact appendix: the README.md of an artifact, with the sections that conferences ask for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from tacit.parties.datasets.catalogue import BUNDLED
from tacit.scenarios.console import kinds
from tacit.scenarios.console.table import Column, Table, as_markdown, columns_of
from tacit.scenarios.running.folder import Result
from tacit.sim.units import format_bytes, format_duration

__all__ = ["BUILD", "Packed", "appendix", "only_for"]

BUILD = "python -m pip wheel --no-deps --wheel-dir dist ."
"""The command that builds a wheel in the source tree of Tacit."""


class Packed(Struct, frozen=True):
    """One run of an artifact: its name there, its folder, its result, the table of its scenario, and its own `files`.

    Each file has a `path` in the artifact and a `sha256`.
    """

    name: str
    folder: Path
    result: Result
    table: dict[str, Any]
    files: list[dict[str, str]] = field(default_factory=list)

    @property
    def cause(self) -> str:
        """The setting that makes every run different; "" if a second run gives the same trace."""
        if self.result.entropy != "seeded":
            return 'entropy = "os"'
        return 'cost = "measured"' if self.table.get("cost") == "measured" else ""

    @property
    def repeatable(self) -> bool:
        """True if a second run gives the same trace."""
        return not self.cause


def only_for(wheel: Path) -> str:
    """The Python and platform that a wheel's name states, in words; "" if it is for all."""
    *_, python, abi, platform = wheel.stem.split("-")
    if (abi, platform) == ("none", "any"):
        return ""
    kind, digits = python[:2], python[2:]
    named = f"CPython {digits[:1]}.{digits[1:]}" if kind == "cp" and digits else f"Python {python}"
    return f"{named} on {platform.replace('.', ' or ')}"


def appendix(runs: Sequence[Packed], versions: dict[str, str], wheel: Path | None) -> str:
    """The text of the appendix, in Markdown.

    `versions`: the versions of distributions, by name; `wheel`: the wheel that was packed, if any.
    """
    first = runs[0].result.environment
    memory = max(run.result.peak_memory for run in runs)
    source = f"from `wheels/{wheel.name}`" if wheel else "from the package index"
    if wheel and (only := only_for(wheel)):
        source += (
            f". This wheel is for {only} only. For another Python or platform, run `{BUILD}` there in the source tree "
            f"of Tacit (code {first['code']}), and add the wheel to `wheels/`"
        )
    took = format_duration(sum(run.result.wall_seconds for run in runs))
    count = f"{len(runs)} simulated run{'s' * (len(runs) > 1)}"
    return f"""\
# Artifact appendix

## Abstract

This artifact has {count}. For each run, it holds a scenario file of Tacit and the expected result. A script
repeats every run and compares the results. The scenario and its seed determine a run. The trace hash covers every
message of every party in virtual time.

## Check-list

| | |
| --- | --- |
| Program | Tacit {versions["tacit-fl"]} (code {first["code"]}), Python {first["python"]} |
| Data sets | {", ".join(_sets(runs)) or "files in this artifact"} |
| Run-time environment | {first["system"]} |
| Hardware | {first["cpu"]}, {first["cores"]} cores, device {first["device"]} |
| Execution | `python repeat.py` |
| Metrics | outcome, losses, accuracy, bytes, virtual time, trace hash |
| Time to complete | {took} on this hardware, after installation |
| Memory | {format_bytes(memory)} |

## Description

| path | content |
| --- | --- |
| `scenarios/` | the scenario of each run with all keys, and its code and files |
| `expected/` | the expected results |
| `methods.txt` | a paragraph for a methods section, made of the records of the runs |
| `artifact.json` | the seed and trace hash of each run |
| `requirements.txt` | the exact versions |
| `repeat.py` | the script that repeats and compares |

{_data(runs)}

Software:

{chr(10).join(f"- {name} {number}" for name, number in versions.items())}

## Installation

You need Python {".".join(first["python"].split(".")[:2])}. Tacit is installed {source}.

```sh
python repeat.py --install    # makes .venv, installs requirements.txt, repeats all runs
```

If Tacit is installed already, `python repeat.py` uses that installation.

## Evaluation and expected results

`python repeat.py` prints for each run that it is the same, or the values that differ. The exit code is 0 if all runs
are the same.

{_table(runs)}

{_beyond(runs)}

On another processor, or with other versions of packages, floating-point results may differ in their last digits, and so
may the trace hash. The script then lists the differences between the two environments.

## Experiment customization

```sh
tacit run scenarios/{runs[0].name} --seed {runs[0].result.seed + 1}
```

This command runs a scenario with another seed. `--set KEY=VALUE` changes a value, and `tacit keys` lists all keys.
`tacit events` and `tacit report` show the course of a run.
"""


def _sets(runs: Sequence[Packed]) -> list[str]:
    return sorted({name for run in runs if (name := run.table["data"].get("name"))})


def _data(runs: Sequence[Packed]) -> str:
    sets = _sets(runs)
    text = [f"The runs use {'the data sets' if len(sets) > 1 else 'the data set'} {', '.join(sets)}."] if sets else []
    if fetched := [name for name in sets if name not in BUNDLED]:
        text.append(f"Download with `{'`, `'.join(f'tacit data fetch {name}' for name in fetched)}`.")
    files = {(one["path"], one["sha256"]) for run in runs for one in run.files}
    if not files:
        return " ".join([*text, "No other data is needed."])
    rows = ((f"`{path}`", f"`{digest}`") for path, digest in sorted(files))
    return "\n".join([*text, "Files that scenarios read:", "", as_markdown(Table(("file", "SHA-256"), rows))])


def _table(runs: Sequence[Packed]) -> str:
    scores = [*dict.fromkeys(run.result.score for run in runs)]
    columns = (
        *("run", "protocol", "seed", "outcome", "lost"),
        *columns_of(scores, kinds.decimals(4)),
        Column("virtual time", kinds.SECONDS),
        Column("bytes", kinds.BYTES),
        "trace hash",
    )
    made = Table(columns)
    for run in runs:
        result, lost = run.result, sorted({loss.party for loss in run.result.lost})
        values = [result.scored if name == result.score else None for name in scores]
        made.rows.append(
            (
                f"`{run.name}`",
                run.table["protocol"]["name"],
                str(result.seed),
                result.outcome,
                _listed(lost),
                *values,
                result.virtual_seconds,
                result.bytes_total,
                f"`{result.trace_hash[:16]}`",
            )
        )
    return as_markdown(made)


def _listed(lost: Sequence[str]) -> str:
    return ", ".join(lost) if 0 < len(lost) <= 4 else f"{len(lost)} parties" if lost else "nobody"


def _beyond(runs: Sequence[Packed]) -> str:
    free = [f"`{run.name}` ({run.cause})" for run in runs if not run.repeatable]
    if not free:
        return ""
    return f"Only outcome and losses are compared, because no second run has the same trace: {', '.join(free)}."
