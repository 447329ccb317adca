"""One plugin of each kind: its addition is found by name, and a pool gives the results of one process."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit import Result, load, run
from tacit.scenarios.command.main import app
from tacit.scenarios.files.plugins import load_plugins
from tacit.scenarios.files.splits import parts_of
from tests.plugins.conftest import COTRAINING

Write = Callable[..., Path]

HAMMING = """
import numpy as np
from tacit.protocols.plugins import add_hamming
from tacit.protocols.xclp.hamming import Masks, MaskedDistances, for_each, pairs_after, pairs_before
from tacit.protocols.xclp.hamming_plaintext import PlainDistances, PlaintextHamming
from tacit.sim.wire import Message

class UpsideDown(Message):
    bits: bytes

class Inverted(PlaintextHamming):
    name = "inverted"

    async def encode(self, me, group, keys, bits):
        for k in pairs_after(me.name, group):
            me.send(k, UpsideDown(np.packbits(~bits).tobytes()))

    async def evaluate(self, me, group, keys, bits, deadline):
        async def answer(j, message):
            rows = group.points[j]
            theirs = ~np.unpackbits(np.frombuffer(message.bits, np.uint8), count=rows * self.bits).astype(bool)
            h = (bits[:, None, :] ^ theirs.reshape(rows, self.bits)[None]).sum(2)
            me.send(j, PlainDistances(packed(h, self.width)))
            me.send(me.server, Masks(j, bytes(len(packed(h, self.width)))))

        await for_each(me, UpsideDown, pairs_before(me.name, group), deadline, answer)

def packed(h, width):
    from tacit.protocols.crypto.fields import pack_fields
    return pack_fields(h, width)

add_hamming("inverted", "bits upside down", lambda its: Inverted(its.bits), [UpsideDown, PlainDistances])
"""

ROW_SUMS = """
from dataclasses import dataclass
from tacit.protocols.plugins import add_row_sums
from tacit.protocols.xclp.rowsums import Restart

@dataclass(frozen=True)
class Again(Restart):
    name = "again"

add_row_sums("again", "as restart", lambda threshold: Again())
"""

TERM = """
from dataclasses import dataclass
from tacit.protocols.plugins import Active, Addition, add_server_update

@dataclass(frozen=True)
class Shrink(Addition):
    by: float = 0.5

    def begin(self, run, received, kept):
        return Shrinking(self.by, run.parameters)

class Shrinking(Active):
    def __init__(self, by, parameters):
        self.by, self.parameters = by, parameters

    def gradients(self, batch):
        for parameter in self.parameters:
            parameter.grad.add_(parameter.detach(), alpha=self.by)

add_server_update("shrink", "parameters are drawn to 0", client=Shrink())
"""

LEARNER = """
from dataclasses import dataclass
import numpy as np
from tacit.protocols.plugins import add_learner

@dataclass(frozen=True)
class Centroids:
    columns: int
    classes: int
    warm: bool = False
    trees: int = 1

    def initial(self, seed):
        return bytes(8 * self.classes * self.columns)

    def fit(self, state, points, labels, seed):
        flat = points.reshape(len(points), -1)
        means = [flat[labels == c].mean(0) if (labels == c).any() else np.full(self.columns, 9.0)
                 for c in range(self.classes)]
        return np.array(means).tobytes()

    def predict(self, state, points):
        return self.probabilities(state, points).argmax(1)

    def probabilities(self, state, points):
        means = np.frombuffer(state).reshape(self.classes, self.columns)
        far = ((points.reshape(len(points), 1, -1) - means) ** 2).sum(2)
        return (-far).astype(np.float32)

    def fit_work(self, points):
        return {"vector.add": 1e7 * points}

    def predict_work(self, points):
        return {"vector.add": 1e7 * points}

add_learner("centroids", "the nearest mean", Centroids)
"""

DATASET = """
import numpy as np
from tacit.protocols.plugins import Dataset, add_dataset

def two_clouds():
    draw = np.random.Generator(np.random.Philox(1))
    labels = draw.integers(0, 2, 80)
    points = draw.normal(size=(80, 3)) + 6 * labels[:, None] - 3
    return Dataset("clouds", points, labels, ("left", "right"))

add_dataset("clouds", "two clouds", two_clouds)
"""


def run_inline_and_in_a_pool(path: Path, *changes: str) -> Result:
    """The result in one process, which must be the same in a pool."""
    one, other = (run(load(path, changes), engine=engine) for engine in ("inline", "pool:2"))
    assert (one.outcome, other.outcome) == ("completed", "completed"), (one.reason, other.reason)
    assert one.trace_hash == other.trace_hash
    assert [plugin.file for plugin in one.plugins] == ["plugins/mine.py"]
    return one


def test_a_variant_of_secure_hamming_may_have_messages_of_its_own(write: Write) -> None:
    path = write(HAMMING, protocol_hamming="inverted")
    assert run_inline_and_in_a_pool(path).equals_plaintext
    fault = 'fault=[{kind = "lose", message = "UpsideDown"}]'
    result = run(load(path, [fault]))
    assert result.faults, "the variant's message can be named"
    listed = CliRunner().invoke(app, ["bytes", str(result.folder)])
    assert listed.exit_code == 0 and "UpsideDown" in listed.output


def test_a_plugin_may_add_a_strategy_of_summing(write: Write) -> None:
    assert run_inline_and_in_a_pool(write(ROW_SUMS, protocol_recovery="again")).equals_plaintext


def test_a_plugin_may_add_a_term_of_local_training(write: Write, training: str) -> None:
    plain = run(load(write(TERM, training)))
    shrunk = run_inline_and_in_a_pool(write(TERM, training, training_update="shrink"))
    assert shrunk.model_digest != plain.model_digest


def test_a_plugin_may_add_a_learner_of_cotraining(write: Write) -> None:
    result = run_inline_and_in_a_pool(write(LEARNER, COTRAINING))
    assert result.accuracy is not None and result.accuracy > 0.4


def test_a_plugin_may_add_a_data_set(write: Write) -> None:
    path = write(DATASET, data_name="clouds")
    assert (run_inline_and_in_a_pool(path).accuracy or 0.0) > 0.9
    assert parts_of(load(path)).held.classes == ("left", "right")


def test_the_command_line_lists_what_a_plugin_adds(write: Write) -> None:
    write(HAMMING)
    keys = CliRunner().invoke(app, ["keys", "--markdown", "--plugin", "mine.py"])
    assert '"inverted", "paillier"' in keys.output
    listed = CliRunner().invoke(app, ["list", "--plugin", "mine.py"], env={"COLUMNS": "200"})
    assert "inverted" in listed.output and "line 32" in listed.output  # a long path may be wrapped in its cell
    without = CliRunner().invoke(app, ["keys", "--markdown"])
    assert "inverted" not in without.output


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("add_model('m', 'd', 3)", "TypeError: build(=3) must be a function of a ModelSpec"),
        ("add_model('linear', 'd', print)", "ValueError: there is a model 'linear' already, which comes with Tacit"),
        (
            "add_model('m', 'd', print); add_model('m', 'd', print)",
            "ValueError: there is a model 'm' already in line 2",
        ),
        ("add_model('', 'd', print)", "ValueError: name(='') of a model must be text"),
        ("add_learner('l', 'd', print)", "TypeError: learner(=<built-in function print>) must be a dataclass"),
        ("add_server_update('u', 'd', server=3)", "TypeError: server(=3) must be a ServerUpdate"),
        ("add_server_update('u', 'd', client=3)", "TypeError: client(=3) must be an Addition"),
        ("add_dataset('s', 'd', 3)", "TypeError: read(=3) must be a function that returns a Dataset"),
        ("add_hamming('h', 'd', print, [int])", "TypeError: messages(=<class 'int'>) must be types of Message"),
        ("add_row_sums('r', 'd', print, steps=[3])", "TypeError: steps(=[3]) must be Steps"),
        ("add_row_sums('r', 3, print)", "TypeError: description(=3) must be text"),
    ],
)
def test_an_extension_of_the_wrong_kind_is_an_error_at_its_line(write: Write, line: str, problem: str) -> None:
    path = write(f"from tacit.protocols.plugins import *\n{line}\n")
    result = CliRunner().invoke(app, ["run", str(path)])
    assert result.exit_code == 2
    (said,) = result.stderr.splitlines()
    assert said.startswith(f"error: {path.parent}/mine.py: line 2: {problem}")


def test_loading_no_plugins_removes_those_of_the_last_scenario(write: Write) -> None:
    load(write(HAMMING, protocol_hamming="inverted"))
    load_plugins()
    from tacit.protocols.xclp.variants import VARIANTS

    assert "inverted" not in VARIANTS
