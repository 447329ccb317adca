"""The `tacit` command.

Exit codes: 0 as expected; 1 the run failed or did not meet its [expect]; 2 the user's input is wrong; 3 a clear abort
that nobody expected; 130 after Ctrl-C, 143 after SIGTERM. Mistakes are reported in one line on standard error.
"""

from typing import Annotated

import typer

from tacit.scenarios.command import data, devices
from tacit.scenarios.command.audit_sum import audit_sum
from tacit.scenarios.command.campaigns import chaos, sweep
from tacit.scenarios.command.check_sum import check_sum
from tacit.scenarios.command.compare import compare
from tacit.scenarios.command.deploying import certify, deploy_local, gather, join, outline, serve
from tacit.scenarios.command.events import events
from tacit.scenarios.command.finished import artifact, model, plot, report, show_bytes, trace
from tacit.scenarios.command.flower import flower
from tacit.scenarios.command.guarding import guarded
from tacit.scenarios.command.new import new
from tacit.scenarios.command.options import PlainCommand, PlainGroup, show_version
from tacit.scenarios.command.predict import predict
from tacit.scenarios.command.reference import keys, list_scenarios, schema, steps
from tacit.scenarios.command.run import run

__all__ = ["app"]

app = typer.Typer(
    cls=PlainGroup,
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


for _name, _command, _example in (
    ("run", run, "tacit run xclp-digits --seed 2 --set data.limit=240 --out quick"),
    ("flower", flower, "tacit flower examples/flower-quickstart --clients 20"),
    ("new", new, "tacit new first.toml --protocol fedavg --clients 8 --network 4g --fault crash"),
    ("list", list_scenarios, "tacit list"),
    ("steps", steps, "tacit steps xclp"),
    ("keys", keys, "tacit keys network"),
    ("schema", schema, "tacit schema --out scenario.schema.json"),
    ("bytes", show_bytes, "tacit bytes runs/xclp-digits-1-1"),
    ("compare", compare, "tacit compare runs/xclp-digits-1-1 runs/xclp-digits-2-1"),
    ("events", events, "tacit events runs/xclp-digits-1-1 --party client/3"),
    ("plot", plot, "tacit plot runs/fedavg-xclp-digits-1-1 --x bytes --out accuracy.pdf"),
    ("model", model, "tacit model runs/fedavg-xclp-digits-1-1 --out model.safetensors"),
    ("trace", trace, "tacit trace runs/xclp-digits-1-1 --perfetto run.pftrace"),
    ("predict", predict, "tacit predict xclp-digits --over protocol.hamming=paillier,iknp"),
    ("report", report, "tacit report runs/xclp-digits-1-1"),
    ("artifact", artifact, "tacit artifact runs/xclp-digits-1-1 runs/xclp-digits-2-1 --out artifact"),
    ("sweep", sweep, "tacit sweep xclp-digits --over protocol.k=5,10 --seeds 3 --jobs 2"),
    ("certify", certify, "tacit certify xclp-digits"),
    ("outline", outline, "tacit outline north.npz south.npz --out outline.csv"),
    ("serve", serve, "tacit serve xclp-digits --set data.clients=3"),
    ("join", join, "tacit join xclp-digits --set data.clients=3 --as client/0 --server 192.0.2.1:4433"),
    ("deploy-local", deploy_local, "tacit deploy-local xclp-digits --set data.limit=240"),
    ("gather", gather, "tacit gather server client-0 client-1 client-2"),
    ("audit-sum", audit_sum, 'tacit audit-sum examples/flower-quickstart --run-config "num-server-rounds=1"'),
    ("check-sum", check_sum, "tacit check-sum secure --thorough"),
    ("chaos", chaos, "tacit chaos xclp-digits --quick --schedules 5 --set protocol.hamming=plaintext"),
):
    app.command(_name, cls=PlainCommand, epilog=f"Example: {_example}")(guarded(_command))

app.add_typer(data.app, name="data", epilog="Example: tacit data list")
app.add_typer(devices.app, name="devices", epilog="Example: tacit devices ookla tiles.csv --out phones")
