"""The command `tacit run`: one run, its progress and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.scenarios.command import completing, stopping
from tacit.scenarios.command.options import Debug, Plugins, Seed, Set, SourceFile

if TYPE_CHECKING:
    from rich.console import Console

    from tacit.scenarios.files.reading import Loaded
    from tacit.scenarios.running.folder import Result
    from tacit.scenarios.testing.outcomes import Problem

__all__ = ["Engine", "Limit", "Out", "carry_out", "run"]

Out = Annotated[Path | None, typer.Option(help="Run folder to create (default: runs/NAME-SEED-NUMBER).")]
Engine = Annotated[
    str | None,
    typer.Option(
        help="Where computations run: auto, inline, pool:N, ray or ray:HOST:PORT.", autocompletion=completing.engines
    ),
]
Limit = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Wall-clock time after which the run fails, such as 10min. The error names the plugin line that ran.",
    ),
]


def run(
    file: SourceFile = "",
    seed: Seed = None,
    changes: Set = None,
    out: Out = None,
    engine: Engine = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Resume the interrupted training run in DIR, with --engine and --limit if needed. With --set "
            "training.rounds=N, continue a completed run for more rounds; --out then leaves DIR as it is.",
        ),
    ] = None,
    limit: Limit = None,
    ci: Annotated[
        bool,
        typer.Option(
            "--ci",
            help="Report what is not as expected to GitHub Actions (annotations) or GitLab CI (a code quality report).",
        ),
    ] = False,
    check_repeat: Annotated[
        bool,
        typer.Option(
            "--check-repeat",
            help="Run twice, the second time in another process, and name the first event that differs (exit code 1).",
        ),
    ] = False,
    repeat_engine: Annotated[
        str | None,
        typer.Option(
            help="With --check-repeat: engine of the second run (default: the same).",
            autocompletion=completing.engines,
        ),
    ] = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run a scenario, print a summary and write all results to a run folder."""
    _prepare_engine(file, changes or (), engine)
    from tacit.scenarios.command.progress import Progress
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.reading import read
    from tacit.scenarios.running import continuing, runner
    from tacit.scenarios.running.checkpoint import check_unfinished
    from tacit.scenarios.running.folder import CHECKPOINT, FolderError
    from tacit.scenarios.running.interruption import seconds_of

    if resume is None and not file:
        raise typer.BadParameter("FILE-or-NAME is missing; or --resume DIR", param_hint="FILE-or-NAME")
    if repeat_engine is not None and not check_repeat:
        raise typer.BadParameter("only goes with --check-repeat", param_hint="--repeat-engine")
    if resume is not None:
        if check_repeat:
            raise FolderError("--check-repeat runs a scenario from its beginning; it cannot go with --resume")
        longer = continuing.rounds_asked(changes or [])
        if file or (changes and longer is None) or seed is not None or (out is not None and longer is None) or plugin:
            raise FolderError(
                "--resume DIR continues the run unchanged; only --engine and --limit can be combined with it, and "
                "--set training.rounds=N, with --out, for more rounds"
            )
        if longer is not None:
            resume, changes = continuing.continue_for(resume, *longer, out), None
        check_unfinished(resume)
    asked = [*(changes or ()), *([f'engine="{engine}"'] if engine is not None else ())]
    source = str(resume) if resume else file
    with _annotated(source) if ci else nullcontext():
        loaded = read(source, asked, seed=seed, options={"engine": "--engine"} if engine else {})
    if check_repeat:
        _check_repeatable(loaded)
    if resume is None:
        checkpoint = file if (Path(file) / CHECKPOINT).is_file() else ""
        repeat = partial(_repeat, repeat_engine) if check_repeat else None
        return carry_out(loaded, out, debug=debug, checkpoint=checkpoint, limit=limit, ci=ci, repeat=repeat)
    console = printing.make_console()
    _introduce(console, loaded)
    stopping.interrupt_work()
    result = runner.resume(resume, engine=engine, watch=Progress(console), limit=seconds_of(limit))
    return _conclude(console, loaded, result, debug=debug, ci=ci)


def _prepare_engine(file: str, changes: Sequence[str], engine: str | None) -> None:
    """Start the processes of the engine while this process imports what it needs and reads the scenario.

    Not if something else than `engine` may choose the engine.
    """
    with suppress(OSError, ValueError):  # `read` reports what is wrong with the file
        text = " ".join(changes) + (Path(file).read_text() if Path(file).is_file() else "")
        if engine is None and "engine" in text:
            return
        from tacit.sim.engines import prepare_engine

        prepare_engine(engine or "auto")


def carry_out(
    loaded: Loaded,
    out: Path | None,
    *,
    debug: bool,
    checkpoint: str = "",
    limit: str | None = None,
    ci: bool = False,
    repeat: Callable[[Console, Result], bool] | None = None,
) -> int:
    """Run a loaded scenario, print its progress and results, and return the exit code.

    `checkpoint`: the folder of a run that may be resumed. `ci`: report problems to continuous integration. `repeat`:
    called with the result, it returns false if another run of the scenario differs; the exit code is then 1.
    """
    from tacit.scenarios.command.progress import Progress
    from tacit.scenarios.console import printing
    from tacit.scenarios.running import runner
    from tacit.scenarios.running.interruption import seconds_of
    from tacit.sim.engines import prepare_engine

    scenario, console, seconds = loaded.scenario, printing.make_console(), seconds_of(limit)
    prepare_engine(scenario.engine)
    _introduce(console, loaded)
    printing.print_lines(console, (f"unused   {line}" for line in loaded.without_effect()))
    if checkpoint:
        note = f"note     starts again; tacit run --resume {checkpoint} continues the interrupted run"
        printing.print_lines(console, [note])
    if loaded.layout is not None:
        note = f"table    this runs the file without its table; to fill in the table: tacit sweep {loaded.where}"
        printing.print_lines(console, [note])
    stopping.interrupt_work()
    result = runner.carry_out(scenario, loaded.name, out=out, watch=Progress(console), limit=seconds)
    code = _conclude(console, loaded, result, debug=debug, ci=ci)
    if repeat is None or result.outcome == "interrupted":
        return code
    return code if repeat(console, result) else 1


def _check_repeatable(loaded: Loaded) -> None:
    """Raise ScenarioError if two runs of the scenario may differ by its own keys."""
    from tacit.scenarios.schema.scenario import ScenarioError

    scenario, needs = loaded.scenario, "two runs differ, so --check-repeat needs another value"
    if scenario.cost == "measured":
        raise ScenarioError(loaded.where, "cost", f"'measured' charges wall-clock time: {needs}")
    if scenario.entropy == "os":
        raise ScenarioError(loaded.where, "entropy", f"'os' draws from the operating system: {needs}")


def _repeat(engine: str | None, console: Console, result: Result) -> bool:
    """Run the scenario of `result` again, and say whether both runs are the same."""
    import shutil

    from tacit.scenarios.console import printing
    from tacit.scenarios.running.repeated import again, lines_of
    from tacit.scenarios.seeing.compare import divergence
    from tacit.sim.grammar import Labelled
    from tacit.sim.units import format_duration

    printing.print_lines(console, [Labelled("repeat", "runs again in another process, with another PYTHONHASHSEED")])
    second, executions = again(result.folder, engine)
    common, parts = divergence(result.folder, second)
    if parts is None:
        printing.print_lines(console, [Labelled("repeat", f"both runs have the same {common:,} events")])
        shutil.rmtree(second)
        return True
    event = parts.first or parts.second
    assert event is not None
    what = f"{event.kind} {event.type}".strip() + (f" to {event.peer}" if event.peer else "")
    place = f"{event.party}{f' in {event.step}' if event.step else ''}, at {format_duration(event.time)}: {what}"
    how = f"differs in {', '.join(parts.fields)}" if parts.fields else "is in one run only"
    first = f"NOT the same: event {parts.number:,} is the first that differs"
    lines = [Labelled("repeat", first, warns=True), f"  {place}; it {how}"]
    lines += [f"  {line}" for line in lines_of(event.party, event.step, executions)]
    lines += [f"  the second run: {second}; tacit compare {result.folder} {second} shows both"]
    printing.print_lines(console, lines)
    return False


def _introduce(console: Console, loaded: Loaded) -> None:
    from tacit.scenarios.console import printing
    from tacit.scenarios.files.cautions import notes
    from tacit.scenarios.running.outlook import cautions

    scenario = loaded.scenario
    printing.print_lines(console, [f"{scenario.title or loaded.name}   (seed {scenario.seed})"])
    printing.print_lines(console, (f"WARNING  {line}" for line in cautions(scenario)))
    printing.print_lines(console, (f"note     {line}" for line in notes(scenario)))


def _conclude(console: Console, loaded: Loaded, result: Result, *, debug: bool, ci: bool) -> int:
    import psutil

    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting import printed
    from tacit.scenarios.running import runner
    from tacit.scenarios.running.folder import byte_rows, disk_problem
    from tacit.scenarios.running.outlook import cautions
    from tacit.scenarios.testing.outcomes import problems_of

    scenario = loaded.scenario
    said = set(cautions(scenario))
    printing.print_lines(console, (f"WARNING  {line}" for line in result.warnings if line not in said))
    rows = byte_rows(result.folder) if result.message_count and disk_problem(result.error) is None else []
    begun = psutil.Process().create_time()
    topology = scenario.network.topology
    printed.print_result(console, result, rows, topology, command_seconds=time.time() - begun)
    if ci:
        _annotate(Path(loaded.where), problems_of(result, scenario.expect), result)
    if debug and result.error is not None and result.outcome == "failed":
        raise result.error
    return runner.exit_code(result, scenario.expect)


@contextmanager
def _annotated(file: str) -> Iterator[None]:
    """Inside this context, a mistake in the scenario `file` is also reported to continuous integration."""
    from tacit.scenarios.files.source import find
    from tacit.scenarios.schema.scenario import ScenarioError
    from tacit.scenarios.testing.outcomes import Problem

    path = find(file)
    try:
        yield
    except ScenarioError as error:
        _annotate(path, [Problem(error.key, f"{error.key}: {error.problem}" if error.key else error.problem)])
        raise


def _annotate(file: Path, problems: Sequence[Problem], result: Result | None = None) -> None:
    from tacit.scenarios.testing.annotations import annotate

    for line in annotate(file, problems, result):
        typer.echo(line)  # unwrapped: the service reads whole lines from their beginning
