"""examples/own_sum.py: a user's secure sum with a helper, under faults, and mistakes in such a class."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit import load, run
from tacit.scenarios.command.main import app
from tacit.scenarios.schema.scenario import ScenarioError

ROOT = Path(__file__).parents[2]

SUM = """
from tacit import Message, Requests, Step, Sum, add_sum

class Masked(Message):
    words: bytes

class Done(Message):
    pass

class Mine(Sum):
    takes = (Step("client", "mine.mask", "mask"),)
    requests, masked = Requests(Done, ()), (Masked,)

    async def client(self, me, vector, group, settings):
        pass

    async def server(self, me, group, settings):
        pass

add_sum("mine", "a sum", Mine)
"""


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scenario's path in a folder outside this tree."""
    for name in ("own_sum.py", "own_sum.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "own_sum.toml"


def test_the_example_is_at_most_90_lines() -> None:
    assert len((ROOT / "examples" / "own_sum.py").read_text().splitlines()) <= 90


def test_the_example_meets_its_expectations_in_a_pool_and_from_its_run_folder(example: Path) -> None:
    one, other = (run(load(example), engine=engine) for engine in ("inline", "pool:2"))
    assert (one.outcome, one.equals_plaintext, one.unmet) == ("completed", True, []), (one.reason, one.unmet)
    assert one.trace_hash == other.trace_hash == run(load(one.folder)).trace_hash


@pytest.mark.parametrize(
    ("fault", "lost"),
    [
        ('{kind = "crash", party = "helper", at = "helper.key"}', ["helper"]),
        ('{kind = "lose", message = "SplitVector", party = "client/1", probability = 1.0, round = 1}', ["client/1"]),
        ('{kind = "corrupt", message = "SplitVector", party = "client/1", probability = 1.0}', ["client/1"]),
        ('{kind = "duplicate", message = "SplitVector", party = "client/1"}', []),
    ],
)
def test_faults_strike_the_helper_and_the_messages_of_the_example(example: Path, fault: str, lost: list[str]) -> None:
    changes = [f"fault=[{fault}]", "expect={}", 'network.transport="datagram"', 'engine="inline"']
    result = run(load(example, changes))
    assert {one.party for one in result.lost} == {*lost} and result.faults
    if lost == ["helper"]:
        assert not any(one.counted for one in result.round_records)
    else:
        assert (result.outcome, result.equals_plaintext) == ("completed", True)


@pytest.mark.long
def test_chaos_breaks_no_promise_of_the_example(example: Path) -> None:
    done = CliRunner().invoke(app, ["chaos", str(example), "--quick", "--schedules", "3", "--out", "chaos"])
    assert done.exit_code == 0, done.output
    assert not any(one["broken"] for one in json.loads(Path("chaos/chaos.json").read_text())["runs"])


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"mine", "a sum"', '"secagg+", "a sum"', "there is a sum 'secagg\\+' already, which comes with Tacit"),
        ('"mine", "a sum"', '"prio3", "a sum"', "there is a way to average 'prio3' already"),
        ("async def server", "async def serve", "Mine does not say what the server does"),
        ("    takes =", "    has_helper = True\n    takes =", "Mine does not say what the helper does"),
        ("requests, masked = Requests(Done, ()), (Masked,)", "masked = (Masked,)", "must be Requests"),
        ("requests, masked = Requests(Done, ()), (Masked,)", "requests = Requests(Done, ())", "must be types of Mess"),
        ("(self, me, vector, group, settings)", "(self, me, vector)", r"must take \(self, me, vector, group, settings"),
        ('"a sum", Mine', '"a sum", Mine()', "must be a class derived from Sum"),
    ],
)
def test_a_wrong_sum_is_an_error_at_the_line_that_adds_it(
    write: Callable[..., Path], training: str, old: str, new: str, problem: str
) -> None:
    assert old in SUM
    with pytest.raises(ScenarioError, match=problem):
        load(write(SUM.replace(old, new), training))


def test_a_sum_that_adds_no_noise_is_refused_where_clients_make_the_guarantee(tmp_path: Path) -> None:
    """It would be opened without any noise, under an epsilon of 1."""
    shutil.copy(ROOT / "examples" / "own_sum.py", tmp_path)
    text = (ROOT / "examples" / "own_sum.toml").read_text().partition("[[fault]]")[0]
    path = tmp_path / "own_sum.toml"
    path.write_text(text.replace('"fedavg"', '"dp-fedavg"'))
    changes = ["privacy.epsilon=1.0", "privacy.clip=0.5", "privacy.noise=skellam", "privacy.noise_at=clients"]
    with pytest.raises(ScenarioError, match=r'"two-servers", which adds no noise of clients'):
        load(path, [*changes, "privacy.tolerated=0.3", "privacy.components=none"])
