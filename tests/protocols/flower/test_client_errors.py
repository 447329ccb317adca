"""App clients that end without a reply: each replies with an error that names the file and the line."""

from pathlib import Path

import pytest

from tests.protocols.flower.conftest import Run

APP = """
import os
import sys
from os import _exit
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client, server = ClientApp(), ServerApp()


@client.query()
def answer(message, context):
    if context.node_config["partition-id"] == 1:
        return {way}
    return Message(RecordDict(), reply_to=message)


@server.main()
def main(grid, context):
    {server}
    replies = list(grid.send_and_receive([Message(RecordDict(), node, "query") for node in grid.get_node_ids()]))
    assert sorted(reply.has_error() for reply in replies) == [False, False, True], replies
"""

LINE = APP[: APP.index("return {way}")].count("\n") + 1
DEFINED = APP[: APP.index("@client.query")].count("\n") + 1
IN_SERVER = APP[: APP.index("{server}")].count("\n") + 1


WAYS = {
    "None": f"returned None; allowed: a Message (ending.py, line {DEFINED})",
    "[1]": f"returned [1]; allowed: a Message (ending.py, line {DEFINED})",
    "sys.exit(3)": f"called sys.exit(3) (ending.py, line {LINE})",
    "os._exit(4)": f"called os._exit(4) (ending.py, line {LINE})",
    "_exit(5)": f"called os._exit(5) (ending.py, line {LINE})",
    "1 / 0": f"raised ZeroDivisionError: division by zero (ending.py, line {LINE})",
}


@pytest.mark.parametrize(
    ("way", "engine"),
    [*((way, "inline") for way in WAYS), *((way, "pool:1") for way in ("[1]", "os._exit(4)", "1 / 0"))],
)
def test_a_client_without_a_reply_sends_an_error_with_its_line(
    run_app: Run, tmp_path: Path, way: str, engine: str
) -> None:
    ended = WAYS[way]
    app = tmp_path / "ending.py"
    app.write_text(APP.format(way=way, server="pass"))
    result = run_app(app, f'engine="{engine}"', clients=3)
    assert (result.outcome, result.reason) == ("completed", "")
    assert result.endings == {"client/0": "completed", "client/1": f"its app {ended}", "client/2": "completed"}
    (one,) = result.round_records
    assert one.errors == {"client/1": f"its app {ended}"}
    assert one.replied == ("client/0", "client/2")


@pytest.mark.parametrize("way", ["sys.exit(3)", "os._exit(3)"])
def test_a_server_app_that_exits_aborts_the_run_with_its_line(run_app: Run, tmp_path: Path, way: str) -> None:
    app = tmp_path / "ending.py"
    app.write_text(APP.format(way="None", server=way))
    result = run_app(app, clients=3)
    assert result.outcome == "aborted"
    assert result.reason == (f"the server app raised RuntimeError: it called {way} (ending.py, line {IN_SERVER})")
