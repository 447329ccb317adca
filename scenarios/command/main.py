"""The `tacit` command.

Exit codes: 0 as expected; 1 the run failed or did not meet its [expect]; 2 the user's input is wrong; 3 a clear abort
that nobody expected; 130 after Ctrl-C, 143 after SIGTERM. Mistakes are reported in one line on standard error.
"""

from collections.abc import Iterator, MutableMapping
from pkgutil import resolve_name
from typing import Annotated, Any

import click
import typer

from tacit.scenarios.command.guarding import guarded
from tacit.scenarios.command.options import PlainCommand, PlainGroup, show_version

__all__ = ["LATER", "app"]

LATER = {
    name: (f"tacit.scenarios.command.{where}", example)
    for name, where, example in (
        ("run", "run:run", "tacit run xclp-digits --seed 2 --set data.limit=240 --out quick"),
        ("flower", "flower:flower", "tacit flower examples/flower-quickstart --clients 20"),
        ("new", "new:new", "tacit new first.toml --protocol fedavg --clients 8 --network 4g --fault crash"),
        ("list", "reference:list_scenarios", "tacit list"),
        ("steps", "reference:steps", "tacit steps xclp"),
        ("keys", "reference:keys", "tacit keys network"),
        ("schema", "reference:schema", "tacit schema --out scenario.schema.json"),
        ("bytes", "finished:show_bytes", "tacit bytes runs/xclp-digits-1-1"),
        ("compare", "compare:compare", "tacit compare runs/xclp-digits-1-1 runs/xclp-digits-2-1"),
        ("events", "events:events", "tacit events runs/xclp-digits-1-1 --party client/3"),
        ("plot", "finished:plot", "tacit plot runs/fedavg-xclp-digits-1-1 --x bytes --out accuracy.pdf"),
        ("model", "finished:model", "tacit model runs/fedavg-xclp-digits-1-1 --out model.safetensors"),
        ("trace", "finished:trace", "tacit trace runs/xclp-digits-1-1 --perfetto run.pftrace"),
        ("predict", "predict:predict", "tacit predict xclp-digits --over protocol.hamming=paillier,iknp"),
        ("report", "finished:report", "tacit report runs/xclp-digits-1-1"),
        ("artifact", "finished:artifact", "tacit artifact runs/xclp-digits-1-1 runs/xclp-digits-2-1 --out artifact"),
        ("sweep", "campaigns:sweep", "tacit sweep xclp-digits --over protocol.k=5,10 --seeds 3 --jobs 2"),
        ("certify", "deploying:certify", "tacit certify xclp-digits"),
        ("outline", "deploying:outline", "tacit outline north.npz south.npz --out outline.csv"),
        ("serve", "deploying:serve", "tacit serve xclp-digits --set data.clients=3"),
        ("join", "deploying:join", "tacit join xclp-digits --set data.clients=3 --as client/0 --server 192.0.2.1:4433"),
        ("deploy-local", "deploying:deploy_local", "tacit deploy-local xclp-digits --set data.limit=240"),
        ("gather", "deploying:gather", "tacit gather server client-0 client-1 client-2"),
        (
            "audit-sum",
            "audit_sum:audit_sum",
            'tacit audit-sum examples/flower-quickstart --run-config "num-server-rounds=1"',
        ),
        ("check-sum", "check_sum:check_sum", "tacit check-sum secure --thorough"),
        ("chaos", "campaigns:chaos", "tacit chaos xclp-digits --quick --schedules 5 --set protocol.hamming=plaintext"),
        ("data", "data:app", "tacit data list"),
        ("devices", "devices:app", "tacit devices ookla tiles.csv --out phones"),
    )
}
"""The commands and groups of commands by their names, each with its place and an example.

A command is imported when it is called, or when help lists it.
"""


class _Commands(MutableMapping[str, click.Command]):
    """The commands of `LATER`, each made when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._made:
            self._made[name] = _command(name, *LATER[name])
        return self._made[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in LATER or name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*LATER, *self._made)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _command(name: str, place: str, example: str) -> click.Command:
    """The command or group at a `place`, the names of a module and of a function or an app there."""
    found = resolve_name(place)
    if isinstance(found, typer.Typer):
        group = typer.main.get_group(found)
        group.name, group.epilog = name, f"Example: {example}"
        return group
    one = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    one.command(name, cls=PlainCommand, epilog=f"Example: {example}")(guarded(found))
    return typer.main.get_group(one).commands[name]


class _Tacit(PlainGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": _Commands()})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands; none is imported."""
        return list(self.commands)


app = typer.Typer(
    cls=_Tacit,
    help="Simulate privacy-preserving federated learning: real cryptography over a simulated network.",
    epilog="Example: tacit run xclp-digits --set data.limit=240",
    no_args_is_help=True,
    suggest_commands=False,  # click suggests them
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


@app.callback()
def _tacit(
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass
