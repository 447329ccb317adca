"""What `tacit run` does: one run, its progress and what comes of it."""

from pathlib import Path
from typing import Annotated

import typer

from scenarios.command import completing, stopping
from scenarios.command.options import Debug, Plugins, Seed, Set, SourceFile

__all__ = ["run"]


def run(
    file: SourceFile = "",
    seed: Seed = None,
    changes: Set = None,
    out: Annotated[Path | None, typer.Option(help="The folder to make; default: runs/NAME-SEED-NUMBER.")] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Where computing runs: auto, inline, pool:N, ray or ray:HOST:PORT.", autocompletion=completing.engines
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on with the training run in DIR that was broken off; with --engine only."),
    ] = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run a scenario; print accuracy, times, losses and bytes; leave a folder with everything."""
    from scenarios.command.progress import Progress
    from scenarios.console import printing
    from scenarios.files.checks import cautions, notes
    from scenarios.files.reading import read
    from scenarios.reporting import printed
    from scenarios.running import runner
    from scenarios.running.checkpoint import CHECKPOINT, check_unfinished
    from scenarios.running.disk import disk_problem
    from scenarios.running.folder import FolderError, byte_rows

    if resume is None and not file:
        raise typer.BadParameter("FILE-or-NAME is missing; or --resume DIR", param_hint="FILE-or-NAME")
    if resume is not None:
        if file or changes or seed is not None or out is not None or plugin:
            raise FolderError(
                "--resume DIR goes on with the run as it is; of the other options only --engine goes with it"
            )
        check_unfinished(resume)
    asked = [*(changes or ()), *_engine(engine)]
    loaded = read(str(resume) if resume else file, asked, seed=seed, options={"engine": "--engine"} if engine else {})
    scenario, console = loaded.scenario, printing.make_console()
    printing.print_lines(console, [f"{scenario.title or loaded.name}   (seed {scenario.seed})"])
    printing.print_lines(console, (f"WARNING  {line}" for line in cautions(scenario)))
    printing.print_lines(console, (f"note     {line}" for line in notes(scenario)))
    if resume is None:
        unused = dict.fromkeys(loaded.unused, f"not a key of {scenario.protocol.name}")
        unused |= {key: f"only with {takes}" for key, takes in loaded.needless.items()}
        printing.print_lines(console, (f"unused   {key}: {why}" for key, why in unused.items()))
        if (Path(file) / CHECKPOINT).is_file():
            printing.print_lines(
                console, [f"note     from the start; tacit run --resume {file} goes on where it broke off"]
            )
        if loaded.layout is not None:
            printing.print_lines(console, [f"table    this is the file as it stands; its table: tacit sweep {file}"])
        stopping.interrupt_work()
        result = runner.carry_out(scenario, loaded.name, out=out, watch=Progress(console))
    else:
        stopping.interrupt_work()
        result = runner.resume(resume, engine=engine, watch=Progress(console))
    said = set(cautions(scenario))
    printing.print_lines(console, (f"WARNING  {line}" for line in result.warnings if line not in said))
    rows = byte_rows(result.folder) if result.message_count and disk_problem(result.error) is None else []
    printed.print_result(console, result, rows, scenario.network.topology)
    if debug and result.error is not None and result.outcome == "failed":
        raise result.error
    return runner.exit_code(result, scenario.expect)


def _engine(engine: str | None) -> list[str]:
    return [] if engine is None else [f'engine="{engine}"']
