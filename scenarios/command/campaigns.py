"""Commands that run one scenario many times: `tacit chaos` and `tacit sweep`."""

from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command import stopping
from tacit.scenarios.command.options import Debug, Jobs, Over, Plugins, Seed, Set, SourceFile, give

__all__ = [
    "chaos",
    "sweep",
]


def sweep(
    file: SourceFile = "",
    over: Over = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of seeds per combination, starting at the scenario's (default: 1, or the table's)."
        ),
    ] = None,
    jobs: Jobs = None,
    seed: Seed = None,
    changes: Set = None,
    out: Annotated[Path | None, typer.Option(help="Folder to create (default: runs/NAME-sweep-NUMBER).")] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Resume the interrupted sweep in DIR. Can only be combined with --jobs and --paired."
        ),
    ] = None,
    paired: Annotated[
        bool,
        typer.Option(
            "--paired",
            help="Also compare runs with the same seed: difference in accuracy to the first combination of --over, "
            "interval, t-test and Wilcoxon's test.",
        ),
    ] = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run a scenario many times; print mean and standard deviation of accuracy, virtual time and bytes.

    If the file defines a table (see `table.*` in `tacit keys`), the sweep fills in that table, unless you pass --over.
    """
    from tacit.scenarios.command.sweep import sweep as carry_out
    from tacit.scenarios.running.folder import FolderError
    from tacit.scenarios.running.workers import jobs_of
    from tacit.scenarios.sweeping.folder import Asked, pinned, read_options, unpinned

    at_a_time = jobs_of("1" if jobs is None else jobs)
    files = pinned(plugin or ())
    asked = Asked(file=file, over=over or [], seeds=seeds, seed=seed, changes=changes or [], plugins=files)
    if resume is not None:
        if asked != Asked(file="") or out is not None:
            raise FolderError(
                "--resume DIR continues the sweep unchanged; only --jobs and --paired can be combined with it"
            )
        asked = read_options(resume)
        give(unpinned(asked))
    elif not file:
        raise typer.BadParameter("FILE-or-NAME is missing; or --resume DIR", param_hint="FILE-or-NAME")
    stopping.interrupt_work()
    return carry_out(asked, at_a_time, out, resume, paired=paired)


def chaos(
    file: SourceFile = "",
    schedules: Annotated[
        int | None, typer.Option(min=0, help="Number of random fault schedules (default: 20; with --broad: 5000).")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Also try every pair of crashes.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Use fewer points, and crash only three clients.")] = False,
    replay: Annotated[bool, typer.Option("--replay", help="Run FILE once, with its own faults.")] = False,
    broad: Annotated[
        bool, typer.Option("--broad", help="Try random fault schedules over a hundred small configurations.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="With --broad: stop starting new runs after this many minutes.")
    ] = None,
    chaos_seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random fault schedules.")] = 0,
    jobs: Jobs = None,
    changes: Set = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write all runs to FILE.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to create (default: runs/NAME-chaos-NUMBER).")] = None,
    server: Annotated[
        bool, typer.Option("--server", help="Instead of faults, test a server that lies in the scenario's secure sums.")
    ] = False,
    program: Annotated[
        str | None, typer.Option(metavar="TEXT", help="With --server: try only this program, as printed in its output.")
    ] = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Test a scenario under every crash and random faults, and minimize the faults of a run that breaks a promise.

    The scenario's own faults are ignored. Keys have 512 bits unless you set protocol.key_bits.
    """
    from tacit.scenarios.chaos.broad import Broad
    from tacit.scenarios.chaos.campaign import Plan
    from tacit.scenarios.command import chaos as chaos_command
    from tacit.scenarios.command import chaos_broad as chaos_broad_command
    from tacit.scenarios.console import printing
    from tacit.scenarios.running.workers import jobs_of
    from tacit.scenarios.schema.scenario import ScenarioError
    from tacit.sim.compute import cores

    at_a_time = cores() if jobs is None else jobs_of(jobs)
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
            jobs=at_a_time,
            minutes=minutes,
        )
        return chaos_broad_command.broad(console, notes, wanted, json_file, out)
    if minutes is not None:
        raise typer.BadParameter("goes with --broad alone", param_hint="--minutes")
    if not file:
        raise typer.BadParameter("FILE-or-NAME is missing; or --broad", param_hint="FILE-or-NAME")
    if server or program is not None:
        from tacit.scenarios.command import chaos_server as chaos_server_command

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
            jobs=at_a_time,
        )
        return chaos_server_command.lying_server(console, notes, file, sweep, changes or (), json_file)
    if replay:
        others = {
            "--schedules": schedules is not None, "--pairs": pairs, "--quick": quick, "--seed": chaos_seed != 0,
            "--jobs": jobs is not None, "--json": json_file is not None, "--out": out is not None,
        }  # fmt: skip
        return chaos_command.replay(console, file, changes or (), others)
    schedules = 20 if schedules is None else schedules
    plan = Plan(schedules=schedules, pairs=pairs, quick=quick, seed=chaos_seed, jobs=at_a_time)
    return chaos_command.chaos(console, notes, file, plan, changes or (), json_file, out)
