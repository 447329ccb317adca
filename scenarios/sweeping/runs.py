"""Many runs of one scenario: every combination of some keys' values, each with several seeds."""

import dataclasses
import gc
import itertools
import re
import signal
import statistics
import tomllib
import warnings
from collections import Counter
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NoReturn

from msgspec import Struct, structs

from tacit.protocols.experiment.simulated import ACCURACY
from tacit.scenarios.console.table import Table, as_csv
from tacit.scenarios.files.composing import label
from tacit.scenarios.files.reading import Loaded, Source, ineffective, read
from tacit.scenarios.files.source import parse_toml
from tacit.scenarios.running.folder import Files, Result, discard_unwritten, packed, unpack, writing
from tacit.scenarios.running.ray_jobs import GivenUp, GivenUpWarning, note_folder, on_ray
from tacit.scenarios.running.runner import INTERRUPTED, carry_out, exit_code, give_up, resume
from tacit.scenarios.running.workers import Jobs, in_workers
from tacit.scenarios.schema.keys import toml
from tacit.scenarios.schema.option_names import called, either
from tacit.scenarios.schema.scenario import Scenario, ScenarioError

__all__ = [
    "FIGURES",
    "Cell",
    "Plan",
    "cell",
    "fields",
    "folder_name",
    "perform",
    "plan",
    "summary",
    "troubles",
    "write_table",
]


class Plan(Struct, frozen=True):
    """One run of a sweep: its values of the swept keys, its checked scenario, and its folder's name."""

    values: tuple[tuple[str, str], ...]
    loaded: Loaded
    folder: str


class Cell(Struct, frozen=True):
    """One row of the summary. A figure is a mean and a deviation (None below two values) over the completed runs.

    `values`: the title of each swept key and its value. `lost`: the parties lost in any of the `runs`, in words;
    `endings`: the ends of runs that did not complete, in words. `ranges`: the lowest and the highest value of each
    score: of the accuracy, or of another metric of tasks with another score.
    `measured`: each metric of the models besides the accuracy, and of the evaluation by clients.
    `output`: a figure for each number in the output of a declared protocol; () if runs have different counts of
    numbers. `unused`: the places of the `values` whose keys have no effect on these runs.
    """

    values: tuple[tuple[str, str], ...]
    runs: int
    not_completed: int
    endings: str
    sized: bool
    lost: str
    accuracy: tuple[float, float | None] | None
    ranges: dict[str, tuple[float, float]]
    output: tuple[tuple[float, float | None], ...] | None
    virtual_seconds: tuple[float, float | None] | None
    bytes_total: tuple[float, float | None] | None
    joules: tuple[float, float | None] | None = None
    measured: dict[str, tuple[float, float | None]] = {}
    unused: tuple[int, ...] = ()

    def score_of(self, name: str) -> tuple[float, float | None] | None:
        """The mean and the deviation of the score `name`; None if it was not measured."""
        return self.accuracy if name == ACCURACY else self.measured.get(name)


FIGURES = (
    "outcome", "reason", "lost", "rounds_lost", "unmet", "fidelity", "entropy", "accuracy", "output", "virtual_seconds",
    "wall_seconds", "bytes_total", "joules", "trace_hash", "metrics",
)  # fmt: skip
"""The column titles of the values of `fields` in a sweep's table of runs."""

_SHOWN = 3
"""The most lost parties that a row of the summary names."""


def axis(text: str) -> list[tuple[str, str, str]]:
    """Return key, value as shown and value as TOML or bare text, for each value in ``key=x,y,z``.

    Values that contain commas are written as a TOML list, ``key=["a,b", "c"]``.
    """
    key, equals, written = text.partition("=")
    key, written = key.strip(), written.strip()
    if not (equals and key and written):
        wanted = either("--over key=x,y,z, such as --over protocol.k=3,10", "one value or more by key")
        raise ScenarioError(called("--over", text), "", f"allowed: {wanted}")
    if written.startswith("["):
        try:
            values = parse_toml(f"values = {written}")["values"]
        except tomllib.TOMLDecodeError as error:
            raise ScenarioError(called("--over", text), "", f"not a TOML list: {error}") from None
        if not values:
            raise ScenarioError(called("--over", text), "", "no value; allowed: one or more")
        found = [(key, value if isinstance(value, str) else toml(value), toml(value)) for value in values]
    else:
        found = [(key, value.strip(), value.strip()) for value in written.split(",")]
    for number, (_, shown, value) in enumerate(found):
        if value in (other for *_, other in found[:number]):
            raise ScenarioError(
                called("--over", text), "", f"{shown} is given twice; more runs of one value are {called('--seeds')}"
            )
    return found


def plan(
    file: Source,
    over: Iterable[str],
    seeds: int,
    changes: Sequence[str],
    seed: int | None = None,
    *,
    to_run: bool = True,
) -> list[Plan]:
    """Plan all runs and check each before any starts: every combination of `over`, with each of `seeds` seeds.

    The seeds are the scenario's and the following ones. With `to_run`, each run must fit into this machine's memory.
    Raises ScenarioError.
    """
    axes = [axis(text) for text in over]
    options = {key: called("--over") for one in axes for key, _, _ in one}
    result: list[Plan] = []
    for combination in itertools.product(*axes):
        values = tuple((key, shown) for key, shown, _ in combination)
        settings = [*changes, *(f"{key}={written}" for key, _, written in combination)]
        checked = partial(read, file, settings, to_run=to_run, options=options)
        first = checked(seed=seed)
        for number in range(seeds):
            loaded = first if number == 0 else checked(seed=first.scenario.seed + number)
            named = "-".join(f"{key}={value}" for key, value in values)
            result.append(Plan(values, loaded, folder_name(len(result), named, loaded.scenario.seed)))
    return result


def folder_name(number: int, label: str, seed: int) -> str:
    """Return the name of the folder of run `number` of a sweep."""
    stem = re.sub(r"[^\w.=,-]+", "_", label)[:80]
    return f"{number:03d}-{stem}-seed={seed}" if stem else f"{number:03d}-seed={seed}"


def perform(
    plans: Sequence[Plan], folder: Path, jobs: Jobs, ended: Container[int] = ()
) -> Generator[tuple[int, Result, int], None, None]:
    """Carry the plans out, `jobs` at a time; yield each one's place, result and exit code as it ends.

    With more than one job, each run has a process of its own, here or on Ray, and computes inline. If the generator is
    closed before its end, runs that have begun are interrupted, and their folders are complete. Plans at the places
    `ended` are left out. Other runs that were interrupted earlier are resumed, or begin again.
    """
    calls = [(place, one, folder) for place, one in enumerate(plans) if place not in ended]
    if not calls:
        return
    if isinstance(jobs, str):
        with closing(_on_ray(calls, jobs.partition(":")[2])) as done:
            yield from done
        return
    if jobs == 1:
        for call in calls:
            yield _perform(*call)
        return
    with closing(in_workers(jobs, _perform_in_worker, calls)) as done:
        for _, result in done:
            yield result


def summary(plans: Sequence[Plan], results: dict[int, Result]) -> list[Cell]:
    """Return one row for each combination of values, over its runs that ended."""
    groups: dict[tuple[tuple[str, str], ...], list[Result]] = {}
    for place, one in enumerate(plans):
        if place in results:
            groups.setdefault(one.values, []).append(results[place])
    labels, scenarios = _labels(plans), {one.values: one.loaded.scenario for one in plans}
    return [cell(values, labels, runs, scenarios[values]) for values, runs in groups.items()]


def troubles(plans: Sequence[Plan], results: dict[int, Result]) -> list[str]:
    """Return a line for each run that failed, was given up, or did not meet its [expect]: values, seed, reason, folder.

    Interrupted runs are not among them.
    """
    labels, found = _labels(plans), []
    for place, result in sorted(results.items()):
        one = plans[place]
        if exit_code(result, one.loaded.scenario.expect) not in (0, INTERRUPTED):
            named = ", ".join([*(f"{labels[key]} {value}" for key, value in one.values), f"seed {result.seed}"])
            ended = [f"{result.outcome}: {result.reason}"] if result.outcome != "completed" else []
            found.append(f"{named}: {'; '.join([*ended, *result.unmet])} ({one.folder})")
    return found


def fields(result: Result) -> list[object]:
    """Return the values of the table's line for one run, in the order of `FIGURES`; lists are joined by semicolons."""
    many = len(result.round_records) > 1
    lost = (f"round {loss.round}: " * many + f"{loss.party} at {loss.step}" for loss in result.lost)
    numbers = map(str, result.output or ())
    lists = {"lost": "; ".join(lost), "unmet": "; ".join(result.unmet), "output": "; ".join(numbers)}
    lists["metrics"] = "; ".join(f"{name}={value}" for name, value in result.measured.items())
    lists["joules"] = "" if result.energy is None else str(result.energy.joules)
    return [lists[name] if name in lists else getattr(result, name) for name in FIGURES]


def write_table(path: Path, plans: Sequence[Plan], results: dict[int, Result]) -> None:
    """Write one line for each run that ended, as comma-separated values."""
    swept = [key for key, _ in plans[0].values]
    made = Table((*swept, "seed", *FIGURES, "folder"))
    for place, result in sorted(results.items()):
        one = plans[place]
        made.rows.append((*(value for _, value in one.values), result.seed, *fields(result), one.folder))
    with writing(path):
        path.write_text(as_csv(made), encoding="utf-8")


def _labels(plans: Sequence[Plan]) -> dict[str, str]:
    """Return a title for each of the swept keys."""
    return {key: label(key, [one.loaded.scenario for one in plans]) for key, _ in plans[0].values}


def cell(
    values: tuple[tuple[str, str], ...], labels: Mapping[str, str], runs: Sequence[Result], scenario: Scenario | None
) -> Cell:
    """Return the row of the summary for `runs` of `scenario` with these values; `labels` are the titles of the keys.

    Without a scenario, no value is known to be unused.
    """
    keys = [key for key, _ in values]
    idle = frozenset[str]() if scenario is None else ineffective(keys, scenario)
    completed = [run for run in runs if run.outcome == "completed"]
    accuracies = [run.accuracy for run in completed if run.accuracy is not None]
    scores: dict[str, list[float]] = {}
    for run in completed:
        if run.scored is not None:
            scores.setdefault(run.score, []).append(run.scored)
    outputs = [run.output for run in completed if run.output is not None]
    joules = [run.energy.joules for run in completed if run.energy is not None]
    names = dict.fromkeys(name for run in completed for name in run.measured)
    endings = Counter(run.outcome for run in runs if run.outcome != "completed")
    return Cell(
        values=tuple((labels[key], value) for key, value in values),
        unused=tuple(place for place, key in enumerate(keys) if key in idle),
        runs=len(runs),
        not_completed=len(runs) - len(completed),
        lost=_losers(runs),
        endings=", ".join(f"{count} {outcome}" for outcome, count in endings.items()),
        sized=any(run.fidelity == "sized" for run in runs),
        accuracy=_spread(accuracies) if accuracies else None,
        ranges={name: (min(values), max(values)) for name, values in scores.items()},
        output=_spreads(outputs) if outputs else None,
        virtual_seconds=_spread([run.virtual_seconds for run in completed]) if completed else None,
        bytes_total=_spread([float(run.bytes_total) for run in completed]) if completed else None,
        joules=_spread(joules) if joules else None,
        measured={name: _spread([run.measured[name] for run in completed if name in run.measured]) for name in names},
    )


def _losers(runs: Sequence[Result]) -> str:
    """Return the parties lost in any run, in words: a few by name, with the number of runs if not lost in all."""
    counts = Counter(party for run in runs for party in {loss.party for loss in run.lost})
    if len(counts) > _SHOWN:
        fewest, most = (of(len({loss.party for loss in run.lost}) for run in runs) for of in (min, max))
        return f"{most} parties" if fewest == most else f"{fewest} to {most} parties"
    among = {party: f" in {count} of {len(runs)}" if count < len(runs) else "" for party, count in counts.items()}
    return ", ".join(f"{party}{among[party]}" for party in sorted(among))


def _spread(values: list[float]) -> tuple[float, float | None]:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def _spreads(outputs: Sequence[list[float]]) -> tuple[tuple[float, float | None], ...]:
    """Return the `_spread` of the first numbers of all outputs, of the second numbers, and so on."""
    if len({len(output) for output in outputs}) > 1:
        return ()
    return tuple(_spread(list(values)) for values in zip(*outputs, strict=True))


def _perform(place: int, one: Plan, folder: Path) -> tuple[int, Result, int]:
    scenario = one.loaded.scenario
    path = folder / one.folder
    if (path / "scenario.toml").is_file():
        result = resume(path, engine=scenario.engine, or_restart=True)
    else:
        with suppress(FileNotFoundError):
            discard_unwritten(path)
        result = carry_out(scenario, one.loaded.name, out=path)
    result.error = None  # an exception may not be picklable
    gc.collect()  # a world is a cycle with large data but few objects, so the collector would not start by itself
    return place, result, exit_code(result, scenario.expect)


def _perform_in_worker(place: int, one: Plan, folder: Path) -> tuple[int, Result, int]:
    """Run `_perform` in a worker. After SIGTERM has interrupted it, the worker refuses the calls left in its queue."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        raise CancelledError
    signal.signal(signal.SIGTERM, _stop)
    try:
        done = _perform(place, _inline(one), folder)
        stopped = done[1].outcome == "interrupted"
        signal.signal(signal.SIGTERM, signal.SIG_IGN if stopped else signal.SIG_DFL)  # an idle worker ends at SIGTERM
    except KeyboardInterrupt:  # raised before the run began, or after it had ended
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise CancelledError from None
    return done


def _inline(one: Plan) -> Plan:
    """Return the plan with a scenario that computes in the run's own process."""
    scenario = structs.replace(one.loaded.scenario, engine="inline")
    return structs.replace(one, loaded=dataclasses.replace(one.loaded, scenario=scenario))


def _on_ray(calls: Sequence[tuple[int, Plan, Path]], address: str) -> Generator[tuple[int, Result, int], None, None]:
    """Make the calls of `_perform` on a Ray cluster. Existing folders are sent to it, and all folders are sent back."""
    plans, folder = {place: one for place, one, _ in calls}, calls[0][2]

    def written(found: tuple[int, Result, int, Files]) -> tuple[int, Result, int]:
        place, result, code, files = found
        result.folder = folder / plans[place].folder
        unpack(files, result.folder)
        return place, result, code

    def given_up(found: GivenUp) -> None:
        one = list(plans.values())[found.place]
        path = folder / one.folder
        if found.files:
            unpack(found.files, path)
        give_up(path, one.loaded.scenario, one.loaded.name, found.reason)
        warnings.warn(f"{path}: {found.reason}", GivenUpWarning, stacklevel=2)

    sent = ((one.loaded.scenario, place, _inline(one), packed(folder / one.folder)) for place, one in plans.items())
    with closing(on_ray(address, _perform_on_node, sent, written, given_up)) as done:
        for _, found in done:
            yield found


def _perform_on_node(scenario: Scenario, place: int, one: Plan, files: Files) -> tuple[int, Result, int, Files]:
    """Run `_perform` on another machine, and return the files of the run as well. `scenario` carries its data along."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / one.folder
        note_folder(path)
        if files:
            unpack(files, path)
        done = _perform(place, one, Path(folder))
        return (*done, packed(path))


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt("stopped with its sweep (SIGTERM)")
