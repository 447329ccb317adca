"""Everything that sums takes any secure sum, ours and a plugin's: results equal the oracle, whoever is lost.

The uses are averages of models, votes, private cells, sums of rows in XCLP, and a user's own protocol of two sums and a
histogram.
"""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tacit import Result, load, predict, run
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.sums.registry import SUMS
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.running.prediction import predicted
from tacit.scenarios.schema.scenario import ScenarioError

ROOT = Path(__file__).parents[2]
OWN = "two-servers"
NAMES = (*SUMS, OWN)

COMMON = """
seed = 3
engine = "inline"
plugins = ["own_sum.py", "mine.py"]
[data]
clients = 7
limit = 120
labeled = 0.5
[sum]
tolerated_dropouts = 0.15
corrupt_clients = 0.1
"""
AVERAGES = """
value_bits = 16
[training]
averaging = "{sum}"
rounds = 1
epochs = 1
learning_rate = 0.1
device = "cpu"
[protocol]
name = "fedavg"
deadline = "10s"
[model]
name = "linear"
"""
VOTES = """
[protocol]
name = "fedct"
deadline = "10s"
[public]
size = 9
[cotraining]
rounds = 1
votes = "{sum}"
[learner]
name = "random-forest"
trees = 3
"""
PARTS = """
[protocol]
name = "mine"
sum = "{sum}"
deadline = "10s"
"""
CELLS = """
[protocol]
name = "private-cells"
min_clients = 3
deadline = "10s"
[cells]
count = 2
steps = 1
sum = "{sum}"
[privacy]
epsilon = 8.0
clip = 5.0
"""
ROWS = """
[protocol]
name = "xclp"
hamming = "plaintext"
bits = 64
k = 3
recovery = "{sum}"
deadline = "10s"
"""
USES = {"averages": AVERAGES, "votes": VOTES, "parts": PARTS, "cells": CELLS, "rows": ROWS}

MINE = """
from typing import Annotated
import numpy as np
from msgspec import Meta
from tacit import Histogram, Phases, ProtocolKeys, SecureSum, add_protocol

class Keys(ProtocolKeys, kw_only=True, frozen=True):
    sum: Annotated[str, Meta(description="The sum of all parts.")] = "secure"

def number(shard):
    return shard.features[:, 20].mean()

def frequent(shard):
    return int(np.bincount(shard.labels).argmax())

class Mean(SecureSum):
    name, sum = "mean", "protocol.sum"

    def dimension(self, keys):
        return 2

    def vector(self, keys, shard, public):
        return np.array([number(shard), 1.0])

    def result(self, keys, total):
        return total[:1] / total[1]

class Above(SecureSum):
    name, sum, opens_with, value_bits = "above", "protocol.sum", 1, 2

    def opening(self, keys, found):
        return found["mean"].value

    def dimension(self, keys):
        return 1

    def vector(self, keys, shard, public):
        return np.array([1.0 if number(shard) > public[0] else -1.0])

class Counts(Histogram):
    name, sum = "counts", "protocol.sum"

    def categories(self, keys):
        return 10

    def category(self, keys, shard, public):
        return frequent(shard)

class Mine(Phases):
    name, summary = "mine", "a mean, how many are above it, and a histogram"
    learned = {"server": "these", "client": "who takes part"}
    keys, parts, agrees = Keys, (Mean(), Above(), Counts()), False
    tolerance = 1e-8

    def oracle(self, keys, over):
        found = {"mean": [np.mean([number(shard) for shard in over["mean"].values()])]}
        if "above" in over:
            found["above"] = [sum(1.0 if number(one) > found["mean"][0] else -1.0 for one in over["above"].values())]
        if "counts" in over:
            found["counts"] = np.bincount([frequent(shard) for shard in over["counts"].values()], minlength=10)
        return found

add_protocol(Mine())
"""

Ran = Callable[..., Result]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write the scenario of a use with a sum."""
    shutil.copy(ROOT / "examples" / "own_sum.py", tmp_path)
    (tmp_path / "mine.py").write_text(MINE)

    def write(use: str, name: str) -> Path:
        path = tmp_path / f"{use}.toml"
        path.write_text(COMMON + USES[use].format(sum=name))
        return path

    return write


def steps_of(path: Path) -> list[str]:
    """The steps of a client in the sum and its set-up, in the scenario at `path`."""
    scenario = load(path)
    steps = [one.name for one in PROTOCOLS[scenario.protocol.name].steps_with(scenario) if one.role == "client"]
    sums = "setup", "sum", "keys", "ring", "split", "report", "rowsums"
    return [name for name in steps if name.partition(".")[0] in sums]


def crash(step: str, occurrence: int = 1) -> str:
    return f'fault=[{{kind = "crash", party = "client/2", at = "{step}", occurrence = {occurrence}}}]'


def equals(use: str, write: Callable[[str, str], Path], result: Result, out: Path) -> bool | None:
    """Compare a run with its oracle; votes with plain votes of the clients that count."""
    if use != "votes":
        return result.equals_plaintext
    faults = [] if "client/2" in result.round_records[0].counted else [crash("cotrain.learn")]
    plain = run(load(write("votes", "plain"), faults), out=out / "plain")
    assert plain.round_records[0].counted == result.round_records[0].counted
    return plain.labels_digest == result.labels_digest


def check_bytes(path: Path, result: Result) -> None:
    """Check that each type of message has the bytes of the formula and of the prediction."""
    rows = [(row.step, row.type, row.messages, row.payload) for row in byte_rows(result.folder)]
    seen = predict(load(path), seeds=1).rows
    assert [(row.step, row.type, row.messages, row.payload) for row in seen] == rows
    counted: Counter[str] = Counter()
    for _, kind, _, payload in rows:
        counted[kind] += payload
    assert predicted(result.folder, counted) == counted


REFUSED = {("cells", "secagg+"), *((use, "prio3") for use in ("parts", "cells", "rows"))}
FITTING = [(use, name) for use in USES for name in NAMES if (use, name) not in REFUSED]


def check_loss(write: Callable[[str, str], Path], use: str, name: str, step: str) -> int:
    """Check a run in which a client is lost at `step`, and return the number of faults that were applied."""
    path = write(use, name)
    result = run(load(path, [crash(step)]), out=path.parent / step)
    assert result.outcome == "completed", (step, result.reason)
    assert equals(use, write, result, path.parent / step), step
    return len(result.faults)


def two_of(steps: list[str], use: str) -> list[str]:
    """The step in which a client masks, and another one of the last steps for each use."""
    masking = next(step for step in steps if step.endswith((".mask", ".shard")))
    return list(dict.fromkeys((masking, steps[-1 - [*USES].index(use) % len(steps)])))


FEW = [(use, name) for use, name in FITTING if ([*USES].index(use) + NAMES.index(name)) % 2 == 0]
"""Half of them: every use, and every sum."""


@pytest.mark.parametrize(("use", "name"), FEW)
def test_a_sum_equals_the_oracle_with_two_losses(write: Callable[[str, str], Path], use: str, name: str) -> None:
    """Nobody is lost, and then a client at each of two steps; the long tests do all else."""
    path = write(use, name)
    whole = run(load(path), out=path.parent / "whole")
    assert whole.outcome == "completed" and equals(use, write, whole, path.parent / "whole"), whole.reason
    check_bytes(write(use, name), whole)
    assert sum(check_loss(write, use, name, step) for step in two_of(steps_of(write(use, name)), use)) >= 1


@pytest.mark.long
@pytest.mark.parametrize(("use", "name"), FITTING)
def test_a_sum_equals_the_oracle_whoever_is_lost_at_whichever_step(
    write: Callable[[str, str], Path], use: str, name: str
) -> None:
    """The test above loses a client at two of the steps, with half of the sums of each use."""
    steps = steps_of(write(use, name))
    if (use, name) not in FEW:
        test_a_sum_equals_the_oracle_with_two_losses(write, use, name)
    for step in steps:
        if step not in two_of(steps, use):
            check_loss(write, use, name, step)


def test_cells_refuse_a_sum_whose_clients_do_not_see_who_takes_part(write: Callable[[str, str], Path]) -> None:
    with pytest.raises(ScenarioError, match=r"cells\.sum: \"secagg\+\" does not fit: .*allowed: secure, lightsecagg"):
        run(load(write("cells", "secagg+")))


OF_INTEGERS = """

class Share(SecureSum):
    name, sum, value_bits = "share", "protocol.sum", 8

    def dimension(self, keys):
        return 1

    def vector(self, keys, shard, public):
        return np.array([number(shard)])

class Rounded(Mine):
    name, parts = "rounded", (Share(), Counts())

    def oracle(self, keys, over):
        return {"counts": np.bincount([frequent(shard) for shard in over["counts"].values()], minlength=10)}

add_protocol(Rounded())
"""


def test_integers_of_a_range_are_proved_in_a_sum_of_a_users_protocol(write: Callable[[str, str], Path]) -> None:
    found = {}
    for name in ("secure", "prio3"):
        path = write("parts", name)
        (path.parent / "mine.py").write_text(MINE + OF_INTEGERS)
        path.write_text(path.read_text().replace('name = "mine"', 'name = "rounded"'))
        found[name] = run(load(path), out=path.parent / name)
        assert (found[name].outcome, found[name].equals_plaintext) == ("completed", True), found[name].reason
        check_bytes(path, found[name])
    assert found["prio3"].output == found["secure"].output


@pytest.mark.parametrize(
    ("use", "key"), [("cells", "cells.sum"), ("rows", "protocol.recovery"), ("parts", "protocol.sum")]
)
def test_a_sum_with_proofs_refuses_numbers_without_a_range(
    write: Callable[[str, str], Path], use: str, key: str
) -> None:
    problem = (
        f"{key}: prio3 adds numbers that are proved to be in a range, and these have none; allowed: a sum of words"
    )
    with pytest.raises(ScenarioError, match=problem.replace(".", r"\.")):
        run(load(write(use, "prio3")))


@pytest.mark.parametrize(("use", "key"), [("votes", r"cotraining\.votes"), ("averages", r"training\.averaging")])
def test_an_unknown_sum_is_an_error_that_lists_the_known_ones(
    write: Callable[[str, str], Path], use: str, key: str
) -> None:
    with pytest.raises(ScenarioError, match=key + ".*secagg.*two-servers.*did you mean two-servers"):
        load(write(use, "two-server"))


def test_signed_sets_do_not_go_with_clients_that_see_no_set(write: Callable[[str, str], Path]) -> None:
    with pytest.raises(ScenarioError, match=r"protocol\.identity: \"signed\" does not go with cotraining\.votes"):
        run(load(write("votes", "secagg+"), ['protocol.identity="signed"', "sum.corrupt_clients=0.1"]))
