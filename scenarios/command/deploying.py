"""The commands of deployed runs: certify, serve, join, deploy-local, gather."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.scenarios.command import stopping
from tacit.scenarios.command.options import Debug, Plugins, Seed, Set, SourceFile

if TYPE_CHECKING:
    from tacit.scenarios.files.reading import Loaded
    from tacit.scenarios.files.result import Result
    from tacit.scenarios.schema.scenario import Scenario

__all__ = ["certify", "deploy_local", "gather", "join", "outline", "serve"]

Certificates = Annotated[
    Path, typer.Option("--certificates", metavar="DIR", help="The folder with the party's certificate and key.")
]
Seeded = Annotated[
    bool,
    typer.Option("--insecure-seeded", help="Draw all secrets from the seed, as the simulator does: for comparison."),
]
WithFaults = Annotated[
    bool, typer.Option("--with-faults", help="Let a [[fault]] of kind crash be the process's own SIGKILL.")
]
Patience = Annotated[float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for the others.")]
Idle = Annotated[float, typer.Option(metavar="SECONDS", help="Silence after which a connection is lost.")]
Threads = Annotated[str, typer.Option("--engine", help="Where jobs run: inline (threads of the process) or pool:N.")]


def certify(
    file: SourceFile,
    changes: Set = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the files.")] = Path("certificates"),
    days: Annotated[int, typer.Option(min=1, help="For how many days they are valid.")] = 365,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Write keys and certificates for all parties of a scenario, and clients' long-term keys; none is replaced."""
    from tacit.scenarios.deploying.plan import IDENTITIES, certified_identities, clients_of
    from tacit.scenarios.files.reading import read
    from tacit.sim.deployed.certificates import certify as write

    scenario = read(file, changes or (), without_data=True).scenario
    for path in [*write(out, ["server", *clients_of(scenario)], days), *certified_identities(scenario, out)]:
        typer.echo(str(path))
    typer.echo("each party needs its own two files and authority.pem; authority.key stays here")
    if scenario.protocol.identity == "signed":
        typer.echo(f"each party needs all of {IDENTITIES}/*.pub, and a client its own {IDENTITIES}/client-N.key")
    return 0


def outline(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Clients' data files, or outlines of them.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The .csv file to write.")] = Path("outline.csv"),
    label_column: Annotated[str, typer.Option(help="Column of labels, as data.label_column in a scenario.")] = "label",
    client_column: Annotated[
        str, typer.Option(help="Column of clients, as data.client_column in a scenario.")
    ] = "client",
    debug: Debug = False,
) -> int:
    """Write what others must know of clients' own data: numbers of rows, labels and columns, names of classes."""
    from tacit.parties.data.files import load_file
    from tacit.parties.data.outlines import write_outline

    sources = [(path, load_file(path, label_column, client_column)) for path in files]
    for number, (rows, labels) in enumerate(write_outline(out, sources)):
        typer.echo(f"client/{number}: {rows} rows, {labels} with a label")
    return 0


def serve(
    file: SourceFile,
    certificates: Certificates = Path("certificates"),
    host: Annotated[str, typer.Option(help="The address to listen at; default: all of this machine's.")] = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: any that is free.")] = 4433,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of this party; to come back, the same one.")] = (
        Path("server")
    ),
    seed: Seed = None,
    changes: Set = None,
    patience: Patience = 300.0,
    idle: Idle = 60.0,
    message: Annotated[int, typer.Option("--most-bytes", min=1024, help="The longest message that is read.")] = 1 << 28,
    seeded: Seeded = False,
    with_faults: WithFaults = False,
    engine: Threads = "inline",
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run the server of a scenario as a process, for clients that `tacit join` it over TCP and TLS."""
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
    name: Annotated[str, typer.Option("--as", metavar="PARTY", help="Which party this is, such as client/3.")],
    server: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the server listens.")],
    certificates: Certificates = Path("certificates"),
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder of this party; default: client-3 and the like.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of its own points, which `tacit outline` has read.")
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
    """Run one client of a scenario as a process, with a server that `tacit serve` has started."""
    _use_one_thread()
    from tacit.scenarios.deploying.options import ProcessOptions
    from tacit.scenarios.deploying.process import run_client, split_address
    from tacit.sim.deployed.connection import Limits

    loaded = _read(file, changes, seed, seeded=seeded)
    host, port = split_address(server)
    stopping.interrupt_work()
    path = out or Path(name.replace("/", "-"))
    options = ProcessOptions(path, certificates, _log, seeded, with_faults, patience, Limits(idle=idle), engine, data)
    return run_client(loaded, name, host, port, options)


def gather(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="The folders of all processes.")],
    out: Annotated[Path | None, typer.Option(help="The folder to make; default: runs/NAME-SEED-NUMBER.")] = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Put together what the processes of a run have left, as the folder of one run."""
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
    out: Annotated[Path | None, typer.Option(help="The folder to make; default: runs/NAME-SEED-NUMBER.")] = None,
    patience: Patience = 300.0,
    seeded: Seeded = False,
    without_faults: Annotated[
        bool, typer.Option("--without-faults", help="Leave the scenario's [[fault]] tables out.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show what the processes say.")] = False,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run each party of a scenario as a process here, over TLS on the loopback; gather what they leave."""
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
    typer.echo(line, err=True)


def _ignore(line: str) -> None:
    pass


def _use_one_thread() -> None:
    """Let libraries that are not loaded yet compute with one thread: a sum must not depend on how many there are."""
    from tacit.sim.compute import ONE_THREAD

    os.environ.update(ONE_THREAD)


def _read(file: str, changes: list[str] | None, seed: int | None, *, seeded: bool) -> "Loaded":
    """The scenario; that its secrets are drawn from the seed only if that is said on the command line."""
    from tacit.scenarios.deploying.plan import refuse_seeded
    from tacit.scenarios.files.reading import read

    if not seeded:
        refuse_seeded(file, changes or ())
    return read(file, [*(changes or ()), f'entropy="{"seeded" if seeded else "os"}"'], seed=seed)
