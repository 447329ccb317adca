"""`tacit bench costs`: modelled and measured times of training and inference, and the costs fitted to them."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from tacit.benchmarks.measure import described, environment, write_json
from tacit.parties.learning import fitting
from tacit.parties.learning.fitting import Job
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import print_table
from tacit.scenarios.console.table import Column, Table, as_markdown
from tacit.sim.compute import CostTable

__all__ = ["main", "page"]

_BEGIN, _END = "<!-- training costs -->\n", "<!-- end of training costs -->\n"
_OF_TRAINING = "; of training and inference of networks: "


def main(quick: bool = False, json_file: Path | None = None, into: Path | None = None) -> None:
    """Measure and print; with `into`, a copy of Tacit's source, also write the costs and the page's table there."""
    console = Console()
    jobs = fitting.measured(1 if quick else 15, quick)
    seconds: Mapping[str, float] = CostTable.load().seconds
    if into is not None:
        costs = {name: float(f"{value:.4g}") for name, value in fitting.fitted(jobs).items()}
        seconds = _written(into / "sim/costs.toml", costs)
        path = into / "docs/performance.md"
        path.write_text(page(path.read_text(encoding="utf-8"), jobs, seconds), encoding="utf-8")
    print_table(console, _table(jobs, seconds))
    write_json(json_file, environment=environment(["torch"]), jobs=jobs)


def _written(path: Path, costs: Mapping[str, float]) -> Mapping[str, float]:
    """Replace the costs of networks in the cost table `path`, whose other lines stay; returns all of its costs."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if line.startswith(_OWN))
    kept = [line for line in lines if not line.startswith(_OWN)]
    kept[first:first] = [f'"{name}" = {value}\n' for name, value in costs.items()]
    at = next(at for at, line in enumerate(kept) if line.startswith("text = "))
    kept[at] = f'{kept[at].rstrip().rstrip(_QUOTE).partition(_OF_TRAINING)[0]}{_OF_TRAINING}{_machine()}"\n'
    path.write_text("".join(kept), encoding="utf-8")
    return CostTable.load(path).seconds


_QUOTE = '"'
_OWN = ('"train.', '"embed.', '"model.')


def _machine() -> str:
    return described(environment(["torch"]))


def page(text: str, jobs: Sequence[Job], seconds: Mapping[str, float]) -> str:
    """The page `text` with a new table of `jobs`, whose modelled times are by the costs `seconds`."""
    before, rest = text.split(_BEGIN)
    after = rest.split(_END)[1]
    lines = as_markdown(_table(jobs, seconds)) + "\n"
    made = f"Measured on {datetime.datetime.now(datetime.UTC):%Y-%m-%d} with {_machine()}:\n\n"
    return f"{before}{_BEGIN}{made}{lines}{_END}{after}"


def _table(jobs: Sequence[Job], seconds: Mapping[str, float]) -> Table:
    def modelled(job: Job) -> float:
        return sum(count * seconds[name] for name, count in job.work.items())

    milliseconds, more = kinds.decimals(2, factor=1e3), kinds.decimals(0, factor=100, suffix="%", sign="+")
    columns = (
        Column("network", of=lambda job: f"`{job.network}`"),
        Column("what is done", key="done"),
        Column("measured, ms", milliseconds, "seconds"),
        Column("modelled, ms", milliseconds, of=modelled),
        Column("difference", more, of=lambda job: modelled(job) / job.seconds - 1),
    )
    return Table.of(jobs, columns)
