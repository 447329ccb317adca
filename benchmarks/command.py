"""The command `tacit bench NAME`, with one subcommand for each benchmark."""

import errno
import functools
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from tacit.scenarios.command.guarding import guarded
from tacit.scenarios.command.options import Debug, PlainCommand, Seed, Set, group

__all__ = ["app"]

P = ParamSpec("P")

Quick = Annotated[bool, typer.Option("--quick", help="Use smaller sizes and fewer repeats.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the results to FILE.")]

app = group("Benchmark the cryptography, the simulator and the protocols, and compare them with other libraries.")


def crypto(
    quick: Quick = False,
    json_file: JsonFile = None,
    costs: Annotated[
        Path | None,
        typer.Option(help="Instead, measure the cost table of this machine and write it to this file."),
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Plot the operations per second to this file.")] = None,
    prio3: Annotated[
        Path | None,
        typer.Option(
            "--prio3",
            metavar="FOLDER",
            help="Compare Prio3 with the draft's Python reference: the folder poc of cfrg/draft-irtf-cfrg-vdaf.",
        ),
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            "--only",
            metavar="WORD",
            help="With --costs: measure only the operations whose names begin with this word, such as p256, and keep "
            "the rest of the file.",
        ),
    ] = "",
    debug: Debug = False,
) -> int:
    """Measure the speed of the cryptography and of other libraries, or the cost table."""
    from tacit.benchmarks.crypto import speed as benchmark

    benchmark.main(quick, json_file, costs, plot, prio3, only)
    return 0


def bytes_(
    quick: Quick = False,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Plot the crossover to this file.")] = None,
    debug: Debug = False,
) -> int:
    """Compare bytes on the wire with the formulas, and find where oblivious transfer is faster than Paillier."""
    from tacit.benchmarks.bytes import rounds as benchmark

    return benchmark.main(quick, json_file, plot)


def sim(quick: Quick = False, json_file: JsonFile = None, debug: Debug = False) -> int:
    """Measure the speed of the simulator."""
    from tacit.benchmarks.sim import speed as benchmark

    benchmark.main(quick, json_file)
    return 0


def training(quick: Quick = False, json_file: JsonFile = None, debug: Debug = False) -> int:
    """Measure federated training in rounds per second, and compare it with a plain loop and other simulators."""
    from tacit.benchmarks.training import speed as benchmark

    benchmark.main(quick, json_file)
    return 0


def costs(
    quick: Quick = False,
    json_file: JsonFile = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Also fit the costs, and write sim/costs.toml and docs/performance.md in this copy of Tacit's source.",
        ),
    ] = None,
    debug: Debug = False,
) -> int:
    """Compare modelled with measured times of training and inference of networks, and fit the costs again."""
    from tacit.benchmarks.training import costs as benchmark

    benchmark.main(quick, json_file, into)
    return 0


def scale(
    quick: Quick = False,
    json_file: JsonFile = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Plot time and memory by size to this file.")] = None,
    only: Annotated[str, typer.Option("--only", metavar="TOPIC", help="Measure only the curves of this topic.")] = "",
    debug: Debug = False,
) -> int:
    """Measure the growth of time and memory with points, clients and messages, and fit exponents."""
    from tacit.benchmarks.scale import growth as benchmark

    return benchmark.main(quick, json_file, plot, only)


def sums(
    quick: Quick = False,
    json_file: JsonFile = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the rows to FILE.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw which sum costs least to this file, and recovery beside it.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of cells to measure in parallel (default: the number of cores).")
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Only repeat Flamingo's published comparison with SecAgg+.")
    ] = False,
    debug: Debug = False,
) -> int:
    """Compare secure sums by bytes, CPU time and virtual time, with clients lost before each step in turn."""
    from tacit.benchmarks.sums import run as benchmark

    if published:
        return benchmark.published_main(quick, json_file, csv_file, jobs)
    return benchmark.main(quick, json_file, csv_file, plot, jobs)


def attacks(quick: Quick = False, json_file: JsonFile = None, debug: Debug = False) -> int:
    """Measure how much attacks recover from the protocols and from weakened copies of them."""
    from tacit.benchmarks.attacks import table as benchmark

    benchmark.main(quick, json_file)
    return 0


_REALITY = {
    "tcp": "tacit.benchmarks.reality.tcp",
    "shared": "tacit.benchmarks.reality.shared",
    "deployed": "tacit.benchmarks.reality.deployed",
}
"""The topics of `reality`, each with the module whose `main` measures, prints and returns an exit code."""


def reality(
    quick: Quick = False,
    json_file: JsonFile = None,
    only: Annotated[
        str, typer.Option("--only", metavar="TOPIC", help="Measure only this topic: tcp or deployed.")
    ] = "",
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Number of measurements of each value (default: 5).")
    ] = None,
    debug: Debug = False,
) -> int:
    """Compare predictions with real machines in network namespaces: TCP, and runs with one process per party."""
    if only and only not in _REALITY:
        raise SystemExit(f"--only: {only} is not a topic; allowed: {', '.join(_REALITY)}")
    topics = [only] if only else list(_REALITY)
    codes = []
    for topic in topics:
        own = json_file
        if json_file is not None and len(topics) > 1:
            own = json_file.with_suffix(f".{topic}{json_file.suffix}")
        codes.append(importlib.import_module(_REALITY[topic]).main(quick, own, repeats))
    return max(codes)


def survival(
    quick: Quick = False,
    json_file: JsonFile = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Number of real runs of each scenario (default: 1000; quick: 50).")
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            "--only", metavar="SCENARIO", help="Compare only this scenario; others in the file of --json stay there."
        ),
    ] = "",
    ranges: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=2,
            help="Instead, predict N ranges of seeds of each scenario (--runs each, default: 100; quick: 10) and test "
            "that their shares vary as independent draws do.",
        ),
    ] = None,
    debug: Debug = False,
) -> int:
    """Compare the predicted probability that a run completes under losses with the share of real runs that do."""
    from tacit.benchmarks.survival import ranges as of_ranges
    from tacit.benchmarks.survival import shares as benchmark
    from tacit.benchmarks.survival.cases import CASES

    if only and only not in CASES:
        raise typer.BadParameter(f"{only!r} is not one of: {'; '.join(CASES)}", param_hint="--only")
    if ranges is not None:
        return of_ranges.main(ranges, runs or (10 if quick else 100), json_file, only)
    return benchmark.main(runs or (50 if quick else 1000), json_file, only)


def paper_scale(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="Scenario with the table (default: training-cifar10-iid).")
    ] = "",
    row: Annotated[str, typer.Option(help="Row of the cell (default: FedAvg+XCLP).")] = "",
    column: Annotated[str, typer.Option(help="Column of the cell (default: the first one).")] = "",
    rounds: Annotated[
        int | None,
        typer.Option(min=1, help="Number of rounds (default: 1500 on a GPU, 15 on a processor; quick: 10)."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Stop at the last checkpoint within this many minutes (default: run to the end)."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Resume the stopped run in DIR; only --minutes and --json go with it."),
    ] = None,
    changes: Set = None,
    seed: Seed = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to create (default: runs/NAME-SEED-NUMBER).")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use the table's small scale on the bundled digits, for ten rounds.")
    ] = False,
    json_file: JsonFile = None,
    debug: Debug = False,
) -> int:
    """Run a cell of a training table at the paper's scale, on a GPU if there is one; print rounds/s and memory."""
    from tacit.benchmarks import paper_scale as benchmark

    if resume is None:
        return benchmark.main(
            table or benchmark.TABLE, row or benchmark.ROW, column, rounds, minutes, changes or (), seed, quick, out,
            json_file,
        )  # fmt: skip
    if table or row or column or rounds or changes or seed is not None or quick or out:
        raise typer.BadParameter(
            "continues a run unchanged; only --minutes and --json go with it", param_hint="--resume"
        )
    return benchmark.resume(resume, minutes, json_file)


def _checked(command: Callable[P, int]) -> Callable[P, int]:
    """Wrap a command so that it first raises FileNotFoundError if the folder of a file to write does not exist."""

    @functools.wraps(command)
    def checked(*args: P.args, **kwargs: P.kwargs) -> int:
        for path in kwargs.values():
            if isinstance(path, Path) and not path.absolute().parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return command(*args, **kwargs)

    return checked


for _command in (crypto, bytes_, sim, training, costs, scale, sums, attacks, reality, survival, paper_scale):
    _name = _command.__name__.rstrip("_").replace("_", "-")
    app.command(_name, cls=PlainCommand, epilog=f"Example: tacit bench {_name} --quick")(guarded(_checked(_command)))
