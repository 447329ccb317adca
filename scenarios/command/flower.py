"""The command `tacit flower`: one run of a Flower app, on a network that a scenario file describes."""

from pathlib import Path
from typing import Annotated

import typer

from tacit.scenarios.command import completing
from tacit.scenarios.command.options import Debug, Plugins, Seed, Set
from tacit.scenarios.command.run import Engine, Limit, Out, carry_out

__all__ = ["flower"]


def flower(
    app: Annotated[
        Path,
        typer.Argument(metavar="APP_DIR", help="Folder of the app, with its pyproject.toml; or a Python file."),
    ],
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="FILE-or-NAME",
            help="Scenario whose network, devices and faults to use.",
            autocompletion=completing.scenarios,
        ),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of nodes (default: the scenario's, else the app's, else 10)."),
    ] = None,
    run_config: Annotated[
        str | None, typer.Option(metavar="TEXT", help='Same as for flwr run, such as "num-server-rounds=5 lr=0.1".')
    ] = None,
    seed: Seed = None,
    changes: Set = None,
    out: Out = None,
    engine: Engine = None,
    limit: Limit = None,
    plugin: Plugins = None,
    debug: Debug = False,
) -> int:
    """Run an unmodified Flower app on Tacit's simulated network, print a summary and write a run folder."""
    from tacit.protocols.registry import APPS
    from tacit.scenarios.files.apps import scenario_of_app
    from tacit.scenarios.files.reading import read
    from tacit.scenarios.schema.keys import toml
    from tacit.scenarios.schema.scenario import Data, ScenarioError
    from tacit.sim.setting_error import Problem

    if not app.exists():
        raise ScenarioError(str(app), "", "there is no such folder or file; allowed: that of a Flower app")
    try:
        made = scenario_of_app(str(app), Data().clients)
    except Problem as error:
        raise ScenarioError("APP_DIR", "", error.problem) from None
    options = {"protocol.run_config": "--run-config", "data.clients": "--clients", "engine": "--engine"}
    given = zip(options, (run_config, clients, engine), strict=True)
    asked = [f"{key}={toml(value)}" for key, value in given if value is not None]
    if scenario is None:
        loaded = read(made, [*asked, *(changes or ())], seed=seed, options=options)
    else:
        own = {"protocol.name": APPS, "protocol.app": str(app.absolute())}
        own["title"] = f"{made.title} on the network of {scenario}"
        asked = [*(f"{key}={toml(value)}" for key, value in own.items()), *asked]
        loaded = read(scenario, [*asked, *(changes or ())], seed=seed, options=options)
    return carry_out(loaded, out, debug=debug, limit=limit)
