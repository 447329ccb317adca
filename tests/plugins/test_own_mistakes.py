"""Mistakes in a plugin's classes and functions: one line names the file, the line, and the likely correction."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit.scenarios.command.main import app
from tests.plugins.conftest import COTRAINING

Write = Callable[..., Path]

NETWORK = """
from tacit import add_model
from torch import nn

def build(spec):
    {body}

add_model("mine", "a network", build)
"""

NETWORKS = COTRAINING.replace("centroids", "network") + '[model]\nname = "mine"\n'

PROTOCOL = """
import numpy as np
from tacit import Found, Message, OneShot, ProtocolKeys, Step, add_protocol, duration

class SizeSent(Message):
    size: bytes

class Sizes(OneShot):
    name, summary, agrees, keys = "sizes", "how many points each client has", False, ProtocolKeys
    learned = {"server": "how many points each client has", "client": "nothing"}
    own_steps = (Step("client", "size.send", "send it"), Step("server", "size.take", "take them"))

    async def client(self, me, keys, group):
        with me.step("size.send"):
            me.send(me.server, SizeSent(bytes([len(me.shard.rows)])))

    async def server(self, me, keys, group):
        with me.step("size.take"):
            answers = (await me.collect(SizeSent, group.names, deadline=duration(keys.deadline))).answers
        return Found(tuple(answers), np.array([answer.size[0] for answer in answers.values()], float))

    def oracle(self, keys, shards):
        return np.array([len(shard.rows) for shard in shards.values()], float)

    def own_payloads(self, keys, shards):
        return {"SizeSent": len(shards)}

add_protocol(Sizes())
"""

SIZES = """
plugins = ["mine.py"]
[data]
clients = 3
limit = 30
[protocol]
name = "sizes"
"""


def tacit(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def line_of(text: str) -> int:
    """The number of the plugin's first line with that text."""
    return 1 + next(number for number, line in enumerate(Path("mine.py").read_text().splitlines()) if text in line)


def error_of(path: Path) -> str:
    """The only line of a run that ends before it begins."""
    result = tacit("run", path)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line


def warning_of(path: Path) -> str:
    """The only warning of a run that works despite a mistake."""
    result = tacit("run", path)
    assert result.exit_code == 0, result.output
    (line,) = (line for line in result.stderr.splitlines() if "WARNING" in line)
    return line.removeprefix("WARNING").strip()


# --- networks

WIDE = "return nn.Flatten(), nn.Linear(64, 17)"
UNFIT = "return nn.Sequential(nn.Flatten(), nn.Linear(64, 20)), nn.Linear(21, spec.classes)"


@pytest.mark.parametrize(
    ("body", "at", "problem"),
    [
        ("raise RuntimeError('no such thing')", "raise", "RuntimeError: no such thing"),
        (
            "return nn.Flatten",
            "def build",
            "must return a module, or two modules, body and last layer, not an object of",
        ),
        (
            WIDE,
            "def build",
            "must have an output for each of 10 classes (spec.classes): two points give the shape (2, 17)",
        ),
        (UNFIT, "def build", "do not fit each other, or the points of this scenario, which have the shape (1, 8, 8)"),
        (
            "return nn.Flatten(0), nn.Linear(128, spec.classes)",
            "def build",
            "two points give the shape (10,), not (2, 10)",
        ),
    ],
)
@pytest.mark.parametrize("trained", ["by averaging", "by co-training"])
def test_a_network_with_wrong_methods_is_reported(
    write: Write, training: str, body: str, at: str, problem: str, trained: str
) -> None:
    scenario = training.replace('"linear"', '"mine"') if trained == "by averaging" else NETWORKS
    path = write(NETWORK.replace("{body}", body), scenario)
    line = error_of(path)
    assert line.startswith(f"error: {path.parent}/mine.py: line {line_of(at)}: ")
    assert problem in line


def test_a_correct_network_causes_no_warning(write: Write, training: str) -> None:
    body = "return nn.Flatten(), nn.Linear(64, spec.classes)"
    result = tacit("run", write(NETWORK.replace("{body}", body), training.replace('"linear"', '"mine"')))
    assert result.exit_code == 0 and "mine.py" not in result.stderr


# --- classes


@pytest.mark.parametrize(
    ("written", "wrong", "hint", "at"),
    [
        ("def own_payloads(", "def own_payload(", "own_payload; did you mean own_payloads?", "def own_payload("),
        ("own_steps = (", "own_step = (", "own_step; did you mean own_steps?", "class Sizes"),
        ("learned = {", "larned = {", "larned; did you mean learned?", "class Sizes"),
        ("def oracle(", "def checks(self): pass\n    def oracle(", "checks; did you mean check?", "def checks("),
    ],
)  # fmt: skip
def test_a_misspelt_method_or_field_is_reported_with_a_hint(
    write: Write, written: str, wrong: str, hint: str, at: str
) -> None:
    path = write(PROTOCOL.replace(written, wrong, 1), SIZES)
    (line,) = (line for line in tacit("run", path).stderr.splitlines() if "did you mean" in line)
    place = f"{path.parent}/mine.py: line {line_of(at)}"
    assert line == f"WARNING  {place}: Tacit does not use Sizes.{hint} A name of your own may begin with _"


def test_helper_methods_cause_no_warning(write: Write) -> None:
    helpers = "def points_in(self, shard):\n        return 1\n\n    def _payloads(self):\n        return 2\n\n    "
    result = tacit("run", write(PROTOCOL.replace("def oracle(", f"{helpers}def oracle("), SIZES))
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("wrong", "right", "problem"),
    [
        ("between_clients = False", "own_steps =", "between_clients(=False) of Sizes must be the types that a client"),
        ("def client(", "async def client(", "the client of Sizes must be defined by async def."),
        ("async def oracle(", "def oracle(", "the oracle of Sizes must be defined by def."),
        ("oracle(self, keys)", "oracle(self, keys, shards)", "the oracle of Sizes must take (self, keys, shards): too"),
        (
            "own_payloads(self, shards)",
            "own_payloads(self, keys, shards)",
            "own_payloads of Sizes must take (self, keys,",
        ),
    ],
)
def test_a_method_with_a_wrong_signature_is_refused(write: Write, wrong: str, right: str, problem: str) -> None:
    wrong = f"{wrong}\n    {right}" if wrong.startswith("between") else wrong
    path = write(PROTOCOL.replace(right, wrong, 1), SIZES)
    line = error_of(path)
    assert line.startswith(f"error: {path.parent}/mine.py: line {line_of('add_protocol(Sizes')}: ValueError: ")
    assert problem in line


@pytest.mark.parametrize(
    ("text", "other", "warning"),
    [
        ('(Step("client", "size.send", "send it"), Step("server", "size.take", "take them"))', "()",
         "Sizes has no own_steps: no fault can name a step of its client or server"),
        ('learned = {"server": "how many points each client has", "client": "nothing"}', "",
         'Sizes does not say who learns what: add learned = {"server": "...", "client": "..."}'),
        (', "client": "nothing"}', "}", 'Sizes does not say who learns what: add learned = {"client": "..."}'),
    ],
)  # fmt: skip
def test_undeclared_steps_and_messages_cause_a_warning(write: Write, text: str, other: str, warning: str) -> None:
    assert text in PROTOCOL
    path = write(PROTOCOL.replace(text, other), SIZES)
    assert warning_of(path) == f"{path.parent}/mine.py: line {line_of('class Sizes')}: {warning}"


GREETING = """
        for name in group.names:
            if name != me.name:
                me.send(name, Greeting(b"1"))
"""


def test_undeclared_messages_between_clients_cause_a_warning(write: Write) -> None:
    protocol = PROTOCOL.replace("False, ProtocolKeys", "True, ProtocolKeys")
    protocol = protocol.replace("class Sizes", "class Greeting(Message):\n    text: bytes\n\nclass Sizes")
    protocol = protocol.replace("    async def server", f"{GREETING}\n    async def server")
    path = write(protocol, SIZES)
    line = warning_of(path)
    assert line.startswith(f"{path.parent}/mine.py: line {line_of('class Sizes')}: Sizes does not have Greeting in ")
    declared = protocol.replace("    own_steps", "    between_clients = (Greeting,)\n    own_steps")
    assert "WARNING" not in tacit("run", write(declared, SIZES)).stderr


def test_a_coroutine_that_is_never_awaited_causes_a_warning(write: Write) -> None:
    call = '            me.recv(SizeSent, "client/0", 1.0)\n'
    path = write(PROTOCOL.replace("            answers = (await", f"{call}            answers = (await"), SIZES)
    problem = "coroutine 'Party.recv' was never awaited; put `await` before the call"
    assert warning_of(path) == f"{path.parent}/mine.py: line {line_of('me.recv(')}: {problem}"


UPDATE = """
from dataclasses import dataclass
from tacit import Active, Addition, ServerUpdate, add_server_update

@dataclass(frozen=True)
class Half(ServerUpdate):
    def step(self, state, model, mean):
        return (model + mean) / 2, ()

    def works(self, trained):
        return {}

class Pull(Addition):
    def begun(self, run, received, kept):
        return Active()

add_server_update("half", "half of the way", server=Half(), client=Pull())
"""


def test_misspelt_methods_of_a_server_updates_parts_are_reported(write: Write, training: str) -> None:
    path = write(UPDATE, training, training_update="half")
    lines = [line for line in tacit("run", path).stderr.splitlines() if "did you mean" in line]
    assert [line.partition(": Tacit does not use ")[2].partition("?")[0] for line in lines] == [
        "Pull.begun; did you mean begin",
        "Half.works; did you mean work",
    ]


def test_a_learner_without_a_method_is_refused(write: Write) -> None:
    methods = "".join(f"    def {name}(self): pass\n" for name in ("initial", "fit", "predicts", "fit_work"))
    plugin = "from dataclasses import dataclass\nfrom tacit import add_learner\n\n@dataclass\nclass Mine:\n" + methods
    line = error_of(write(f"{plugin}\nadd_learner('mine', 'a learner', Mine)", NETWORKS))
    assert "Mine has no predict (did you mean predicts?), probabilities, predict_work" in line
