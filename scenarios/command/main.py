"""The `tacit` command.

Exit codes: 0 as expected; 1 the run failed or did not meet its [expect]; 2 the user's input is wrong; 3 a clear abort
that nobody expected; 130 after Ctrl-C, 143 after SIGTERM. Mistakes are reported in one line on standard error.
"""

import errno
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from scenarios.command import data as data_command
from scenarios.command import stopping
from scenarios.command.compare import compare
from scenarios.command.events import events
from scenarios.command.options import Debug, Plugins, Seed, Set, give, show_version, warnings_as_lines
from scenarios.command.plot import plot
from scenarios.command.predict import predict
from scenarios.command.report import report

__all__ = ["app"]

P = ParamSpec("P")

app = typer.Typer(
    help="Private federated learning, run for real: protocols, their cryptography and a simulated network.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_command.app, name="data")

_FILE = "A scenario file, a run's folder, or a name (`tacit list`)."
_INTERRUPTED = 130
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _guarded(command: Callable[P, int]) -> Callable[P, None]:
    """The command with its exit code, and with the mistakes of a user in one line."""

    @functools.wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with warnings_as_lines():
                code = command(*args, **kwargs)
            if code == _INTERRUPTED:
                code = stopping.exit_code()
        except KeyboardInterrupt:
            typer.echo(stopping.message(), err=True)
            code = stopping.exit_code()
        except (ValueError, OSError) as error:
            if kwargs.get("debug") or not _is_users(error):
                raise
            typer.echo(f"error: {_line(error)}", err=True)
            code = 1 if isinstance(error, OSError) and error.errno in _NO_ROOM else 2
        raise typer.Exit(code)

    return guarded


def _is_users(error: ValueError | OSError) -> bool:
    """Whether the user's input is wrong, and not the program."""
    from scenarios.running.folder import FolderError
    from scenarios.schema.scenario import ScenarioError

    return isinstance(error, ScenarioError | FolderError | OSError)


def _line(error: ValueError | OSError) -> str:
    if isinstance(error, FileExistsError):
        return f"{error.filename}: exists already; a run never writes into a folder that is there"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or ''}: {error.strerror}".lstrip(": ")
    return " ".join(str(error).split())


@app.callback()
def _tacit(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


@app.command()
@_guarded
def run(
    file: Annotated[str, typer.Argument(metavar="FILE-or-NAME", help=_FILE)] = "",
    seed: Seed = None,
    changes: Set = None,
    out: Annotated[Path | None, typer.Option(help="The folder to make; default: runs/NAME-SEED-NUMBER.")] = None,
    engine: Annotated[str | None, typer.Option(help="Where computing runs: auto, inline or pool:N.")] = None,
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
    from scenarios.files.checks import cautions
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
    if resume is None:
        unused = dict.fromkeys(loaded.unused, f"not a key of {scenario.protocol.name}")
        unused |= {key: f"only with {takes}" for key, takes in loaded.needless.items()}
        printing.print_lines(console, (f"unused   {key}: {why}" for key, why in unused.items()))
        if (Path(file) / CHECKPOINT).is_file():
            printing.print_lines(
                console, [f"anew     from the start; tacit run --resume {file} goes on where it broke off"]
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
    rows = byte_rows(result.folder) if result.messages and disk_problem(result.error) is None else []
    printed.print_result(console, result, rows, scenario.network.topology)
    if debug and result.error is not None and result.outcome == "failed":
        raise result.error
    return runner.exit_code(result, scenario.expect)


def _engine(engine: str | None) -> list[str]:
    return [] if engine is None else [f'engine="{engine}"']


@app.command("list")
@_guarded
def list_scenarios(plugin: Plugins = None, debug: Debug = False) -> int:
    """The scenarios that come with Tacit, and what plugins add."""
    import tomllib

    from scenarios.console import printing
    from scenarios.files.plugins import load_plugins
    from scenarios.files.reading import shipped
    from sim.registry import added_by_plugins

    load_plugins()
    heads = {name: tomllib.loads(path.read_text(encoding="utf-8")) for name, path in shipped().items()}
    rows = [(name, head.get("title", ""), head.get("size", "")) for name, head in heads.items()]
    printing.make_console().print(printing.table(("name", "what happens", "size"), rows))
    if added := [(one.what, one.name, f"{one.path}, line {one.line}") for one in added_by_plugins()]:
        printing.make_console().print(printing.table(("a plugin's", "name", "added by"), added))
    return 0


@app.command()
@_guarded
def steps(
    name: Annotated[str, typer.Argument(help="A protocol, or a scenario (then: its protocol).")],
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """The steps of a protocol, which a scenario's faults may name."""
    from protocols.registry import PROTOCOLS
    from scenarios.console import printing
    from scenarios.files.plugins import load_plugins
    from scenarios.files.reading import find, read
    from scenarios.schema.scenario import ScenarioError
    from sim.registry import similar

    load_plugins()
    if name not in PROTOCOLS:
        try:
            find(name)
        except ScenarioError:
            problem = f"neither a protocol ({', '.join(PROTOCOLS)}) nor a scenario"
            raise ScenarioError(name, "", problem + similar(name, PROTOCOLS)) from None
        name = read(name).scenario.protocol.name
    protocol, console = PROTOCOLS[name], printing.make_console()
    printing.print_lines(console, [f"{protocol.name}: {protocol.summary}"])
    rows = [(step.role, step.name, step.what) for step in protocol.steps]
    console.print(printing.table(("role", "step", "what is done"), rows))
    printing.print_lines(console, (f"the {role} learns {what}" for role, what in protocol.learned.items()))
    return 0


@app.command()
@_guarded
def keys(
    markdown: Annotated[bool, typer.Option("--markdown", help="As a table for the docs.")] = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Every key of a scenario file: type, unit, default, the protocols that use it."""
    from scenarios.console import printing
    from scenarios.files.plugins import load_plugins
    from scenarios.schema.keys import keys as all_keys

    load_plugins()
    columns = ("key", "allowed", "unit", "default", "used by", "what it says")
    rows = [
        (key.name, key.type, key.unit, key.default, ", ".join(key.protocols) or "all", key.description)
        for key in all_keys()
    ]
    if markdown:
        lines = [
            columns,
            ["---"] * len(columns),
            *([cell.replace("|", "\\|") for cell in row] for row in rows),
        ]
        printing.print_lines(printing.make_console(), ("| " + " | ".join(line) + " |" for line in lines))
    else:
        printing.make_console().print(printing.table(columns, rows))
    return 0


@app.command("bytes")
@_guarded
def show_bytes(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs and of sweeps.")],
    csv_file: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="A line for each run, step and type; -: print it."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="The same with each run's sums; -: print it.")
    ] = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """What runs sent, by step and message type, to the byte, beside the formula's payload where nobody was lost.

    Of a sweep the means for each combination of values.
    """
    from scenarios.command.bytes import show_bytes
    from scenarios.console import printing

    return show_bytes(printing.make_console(), folders, csv_file, json_file)


for _command in (compare, events, plot, predict, report):
    app.command()(_guarded(_command))


@app.command("sweep")
@_guarded
def sweep_(
    file: Annotated[str, typer.Argument(metavar="FILE-or-NAME", help=_FILE)] = "",
    over: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=X,Y,Z", help="Values of a key, or KEY=[TOML list]; repeated: all combinations."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Runs of each, with the scenario's seed and those after; default: 1, or the table's."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time; above 1 each computes inline.")] = 1,
    seed: Seed = None,
    changes: Set = None,
    out: Annotated[Path | None, typer.Option(help="The folder to make; default: runs/NAME-sweep-NUMBER.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on with the sweep in DIR that was broken off; with --jobs only."),
    ] = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run a scenario many times; print mean and deviation of accuracy, virtual time and bytes.

    A file that lays out a table (`table.*` in `tacit keys`) gives that table, unless --over says what else.
    """
    from scenarios.command.sweep import sweep
    from scenarios.running.folder import FolderError
    from scenarios.sweeping.folder import Asked, pinned, read_asked, unpinned

    files = pinned(plugin or ())
    asked = Asked(file=file, over=over or [], seeds=seeds, seed=seed, changes=changes or [], plugins=files)
    if resume is not None:
        if asked != Asked(file="") or out is not None:
            raise FolderError(
                "--resume DIR goes on with the sweep as it is; of the other options only --jobs goes with it"
            )
        asked = read_asked(resume)
        give(unpinned(asked))
    elif not file:
        raise typer.BadParameter("FILE-or-NAME is missing; or --resume DIR", param_hint="FILE-or-NAME")
    stopping.interrupt_work()
    return sweep(asked, jobs, out, resume)


@app.command()
@_guarded
def chaos(
    file: Annotated[str, typer.Argument(metavar="FILE-or-NAME", help=_FILE)] = "",
    schedules: Annotated[
        int | None, typer.Option(min=0, help="Random mixtures of faults; default: 20, of --broad 5000.")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Also every pair of crashes.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points, and crashes of three clients only.")] = False,
    replay: Annotated[bool, typer.Option("--replay", help="Only run FILE once, with its own faults.")] = False,
    broad: Annotated[bool, typer.Option("--broad", help="Random mixtures over forty small configurations.")] = False,
    minutes: Annotated[float | None, typer.Option(min=0, help="Of --broad: begin no run after so long.")] = None,
    chaos_seed: Annotated[int, typer.Option("--seed", min=0, help="Of the random mixtures.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time; default: one for each core.")] = None,
    changes: Set = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all runs here, too.")] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to make; default: runs/NAME-chaos-NUMBER.")] = None,
    server: Annotated[
        bool, typer.Option("--server", help="In place of faults: a server that lies in the scenario's secure sums.")
    ] = False,
    program: Annotated[
        str | None, typer.Option(metavar="TEXT", help="With --server: only this, as a line of its output has it.")
    ] = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run a scenario under every crash and random faults; check what is promised; shrink what breaks a promise.

    Its own faults are put aside, and keys have 512 bits unless --set protocol.key_bits says otherwise.
    """
    from scenarios.chaos.broad import Broad
    from scenarios.chaos.campaign import Plan
    from scenarios.command import chaos as chaos_command
    from scenarios.command import chaos_broad as chaos_broad_command
    from scenarios.console import printing
    from scenarios.schema.scenario import ScenarioError

    console, notes = printing.make_console(), printing.make_console(stderr=True)
    stopping.interrupt_work()
    if broad:
        other = {
            "FILE-or-NAME": file,
            "--pairs": pairs,
            "--quick": quick,
            "--replay": replay,
            "--server": server,
            "--set": changes,
            "--plugin": plugin,
        }
        if given := [name for name, value in other.items() if value]:
            raise ScenarioError("--broad", "", f"it brings its own scenarios; {', '.join(given)} cannot go with it")
        wanted = Broad(
            schedules=5000 if schedules is None else schedules,
            seed=chaos_seed,
            jobs=jobs or chaos_command.cores(),
            minutes=minutes,
        )
        return chaos_broad_command.broad(console, notes, wanted, json_file, out)
    if minutes is not None:
        raise typer.BadParameter("goes with --broad alone", param_hint="--minutes")
    if not file:
        raise typer.BadParameter("FILE-or-NAME is missing; or --broad", param_hint="FILE-or-NAME")
    if server or program is not None:
        from scenarios.command import chaos_server as chaos_server_command

        refused = {
            "--pairs": pairs, "--replay": replay, "--out": out is not None, "--program without --server": not server,
        }  # fmt: skip
        chaos_server_command.check_options(refused)
        if program is not None:
            return chaos_server_command.lying_server_once(console, file, program, quick, changes or ())
        sweep = chaos_server_command.Sweep(
            schedules=20 if schedules is None else schedules,
            quick=quick,
            seed=chaos_seed,
            jobs=jobs or chaos_command.cores(),
        )
        return chaos_server_command.lying_server(console, notes, file, sweep, changes or (), json_file)
    if replay:
        others = {
            "--schedules": schedules is not None, "--pairs": pairs, "--quick": quick, "--seed": chaos_seed != 0,
            "--jobs": jobs is not None, "--json": json_file is not None, "--out": out is not None,
        }  # fmt: skip
        return chaos_command.replay(console, file, changes or (), others)
    schedules = 20 if schedules is None else schedules
    plan = Plan(schedules=schedules, pairs=pairs, quick=quick, seed=chaos_seed, jobs=jobs or chaos_command.cores())
    return chaos_command.chaos(console, notes, file, plan, changes or (), json_file, out)
