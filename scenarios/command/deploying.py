"""The commands of deployed runs: certify, serve, join, deploy-local, gather."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.scenarios.command import stopping
from tacit.scenarios.command.options import Debug, Plugins, Seed, Set, SourceFile, Trust

if TYPE_CHECKING:
    from tacit.scenarios.files.reading import Loaded
    from tacit.scenarios.files.result import Result
    from tacit.scenarios.schema.scenario import Scenario

__all__ = ["certify", "deploy_local", "gather", "join", "outline", "serve"]

Certificates = Annotated[
    Path, typer.Option("--certificates", metavar="DIR", help="Folder with the party's certificate and key.")
]
Seeded = Annotated[
    bool,
    typer.Option(
        "--insecure-seeded", help="Draw all secrets from the seed, to compare with the simulator. Not secure."
    ),
]
WithFaults = Annotated[
    bool,
    typer.Option(
        "--with-faults", help="Carry out crash faults: kill the process with SIGKILL at each [[fault]] of kind crash."
    ),
]
Patience = Annotated[float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for the other parties.")]
Idle = Annotated[float, typer.Option(metavar="SECONDS", help="Silence after which a connection counts as lost.")]
Threads = Annotated[
    str, typer.Option("--engine", help="Where computations run: inline (threads of the process) or pool:N.")
]


_SHOWN = 5
"""The most labels that a note names."""


def certify(
    file: SourceFile,
    changes: Set = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files.")] = Path("certificates"),
    days: Annotated[int, typer.Option(min=1, help="Number of days for which the certificates are valid.")] = 365,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """Write keys and certificates for all parties of a scenario, and clients' long-term keys; keep existing files."""
    from tacit.scenarios.deploying.plan import IDENTITIES, certified_identities, joining
    from tacit.scenarios.files.reading import read
    from tacit.sim.deployed.certificates import certify as write

    scenario = read(file, changes or (), without_data=True).scenario
    if scenario.data.path and Path(scenario.data.path).is_file():  # the file may say how many clients there are
        scenario = read(file, changes or (), to_run=False).scenario
    for path in [*write(out, ["server", *joining(scenario)], days), *certified_identities(scenario, out)]:
        typer.echo(str(path))
    typer.echo("each party needs its own two files and authority.pem; authority.key stays here")
    if scenario.protocol.identity == "signed":
        typer.echo(f"each party needs all of {IDENTITIES}/*.pub, and a client or helper its own {IDENTITIES}/*.key")
    return 0


def outline(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Data files of clients, or outlines of them.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The .csv file to write.")] = Path("outline.csv"),
    label_column: Annotated[
        str, typer.Option(help="Column of labels, like data.label_column in a scenario.")
    ] = "label",
    client_column: Annotated[
        str, typer.Option(help="Column of clients, like data.client_column in a scenario.")
    ] = "client",
    debug: Debug = False,
) -> int:
    """Write the outline of clients' private data that the other parties need: rows, labels, columns and class names."""
    from tacit.parties.data.files import load_file, whole_numbers, write_outline

    sources = [(path, load_file(path, label_column, client_column)) for path in files]
    for number, (rows, labels) in enumerate(write_outline(out, sources)):
        typer.echo(f"client/{number}: {rows} rows, {labels} with a label")
    if numbers := sorted({number for _, data in sources for number in whole_numbers(data)}):
        shown = ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")
        what = f"the labels {shown} count as names of classes, and {out} shows all of them"
        typer.echo(f"note: {what}; if they are amounts, as in a regression, do not send {out}")
    return 0


def serve(
    file: SourceFile,
    certificates: Certificates = Path("certificates"),
    host: Annotated[str, typer.Option(help="Address to listen at (default: all addresses of this machine).")] = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at (0: any free port).")] = 4433,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of this party. To restart the server, use the same folder.")
    ] = (Path("server")),
    seed: Seed = None,
    changes: Set = None,
    patience: Patience = 300.0,
    idle: Idle = 60.0,
    message: Annotated[
        int, typer.Option("--most-bytes", min=1024, help="Size of the largest message that is accepted.")
    ] = 1 << 28,
    seeded: Seeded = False,
    with_faults: WithFaults = False,
    engine: Threads = "inline",
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run the server of a scenario as a process; the other parties connect with `tacit join` over TCP and TLS."""
    _use_one_thread()
    from tacit.scenarios.deploying.options import ProcessOptions
    from tacit.scenarios.deploying.process import run_server
    from tacit.sim.deployed.connection import Limits

    loaded = _read(file, changes, seed, seeded=seeded)
    stopping.interrupt_work()
    limits = Limits(message=message, idle=idle)
    options = ProcessOptions(out, certificates, _log, seeded, with_faults, patience, limits, engine)
    where = host or "all addresses"
    return run_server(loaded, host, port, options, lambda number: _log(f"listening at {where}, port {number}"))


def join(
    file: SourceFile,
    name: Annotated[str, typer.Option("--as", metavar="PARTY", help="Name of this party, such as client/3 or helper.")],
    server: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the server.")],
    certificates: Certificates = Path("certificates"),
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of this party (default: named after the party, such as client-3)."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Private data file of this client, if data.path is an outline (see `tacit outline`).",
        ),
    ] = None,
    seed: Seed = None,
    changes: Set = None,
    patience: Patience = 300.0,
    idle: Idle = 60.0,
    seeded: Seeded = False,
    with_faults: WithFaults = False,
    engine: Threads = "inline",
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run one client of a scenario, or its helper, as a process, connected to a server started with `tacit serve`."""
    _use_one_thread()
    from tacit.scenarios.deploying.options import ProcessOptions
    from tacit.scenarios.deploying.process import run_joining, split_address
    from tacit.sim.deployed.connection import Limits

    loaded = _read(file, changes, seed, seeded=seeded)
    host, port = split_address(server)
    stopping.interrupt_work()
    path = out or Path(name.replace("/", "-"))
    options = ProcessOptions(path, certificates, _log, seeded, with_faults, patience, Limits(idle=idle), engine, data)
    return run_joining(loaded, name, host, port, options)


def gather(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of all parties.")],
    out: Annotated[Path | None, typer.Option(help="Run folder to create (default: runs/NAME-SEED-NUMBER).")] = None,
    plugin: Plugins = None,
    trust: Trust = False,
    debug: Debug = False,
) -> int:
    """Combine the folders of a run's parties into one run folder."""
    from tacit.scenarios.deploying.gathering import gather as put_together
    from tacit.scenarios.files.reading import read
    from tacit.scenarios.running.folder import new_folder

    loaded = read(str(folders[0]))
    scenario = loaded.scenario
    path = new_folder(out, f"{loaded.name}-{scenario.seed}")
    return _show(scenario, put_together(scenario, loaded.name, folders, path))


def deploy_local(
    file: SourceFile,
    seed: Seed = None,
    changes: Set = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to create (default: runs/NAME-SEED-NUMBER).")] = None,
    patience: Patience = 300.0,
    seeded: Seeded = False,
    without_faults: Annotated[
        bool, typer.Option("--without-faults", help="Ignore the [[fault]] tables of the scenario.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print the output of the processes.")] = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run each party of a scenario as a process on this machine, connected by TLS, and gather their folders."""
    from msgspec.structs import replace

    from tacit.scenarios.deploying.gathering import gather as put_together
    from tacit.scenarios.deploying.local import Local
    from tacit.scenarios.deploying.plan import check_deployable, check_faults
    from tacit.scenarios.running.folder import new_folder

    loaded = _read(file, changes, seed, seeded=seeded)
    scenario = loaded.scenario
    check_deployable(scenario, loaded.where)
    if without_faults:
        scenario = replace(scenario, fault=())
    check_faults(scenario, loaded.where)
    options = [file, *(word for text in changes or () for word in ("--set", text))]
    options += [] if seed is None else ["--seed", str(seed)]
    options += ["--insecure-seeded"] * seeded + ["--wait", str(patience)]
    options += [word for path in plugin or () for word in ("--plugin", str(path))]
    stopping.interrupt_work()
    path = new_folder(out, f"{loaded.name}-{scenario.seed}")
    local = Local(scenario, path / "parties", options, with_faults=not without_faults, log=_ignore if quiet else _log)
    local.run()
    return _show(scenario, put_together(scenario, loaded.name, local.folders, path))


def _show(scenario: "Scenario", result: "Result") -> int:
    from tacit.scenarios.console import printing
    from tacit.scenarios.reporting import printed
    from tacit.scenarios.running import runner
    from tacit.scenarios.running.folder import byte_rows

    printed.print_result(printing.make_console(), result, byte_rows(result.folder), scenario.network.topology)
    return runner.exit_code(result, scenario.expect)


def _log(line: str) -> None:
    """Print one line, whatever another machine has sent that is quoted in it."""
    from tacit.scenarios.console.printing import visible

    typer.echo(visible(" ".join(line.splitlines())), err=True)


def _ignore(line: str) -> None:
    pass


def _use_one_thread() -> None:
    """Make libraries that are loaded later use one thread, since sums must not depend on the number of threads."""
    from tacit.sim.compute import ONE_THREAD

    os.environ.update(ONE_THREAD)


def _read(file: str, changes: list[str] | None, seed: int | None, *, seeded: bool) -> "Loaded":
    """Read the scenario. Secrets are drawn from the seed only if the command line asks for it."""
    from tacit.scenarios.deploying.plan import refuse_seeded
    from tacit.scenarios.files.reading import read

    if not seeded:
        refuse_seeded(file, changes or ())
    return read(file, [*(changes or ()), f'entropy="{"seeded" if seeded else "os"}"'], seed=seed)
