"""examples/own_sum.py: a user's secure sum with a helper, under faults, and mistakes in such a class."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit import load, run, sweep
from tacit.scenarios.command.main import app
from tacit.scenarios.files.reading import read
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
        ('"mine", "a sum"', '"prio3", "a sum"', "there is a sum 'prio3' already, which comes with Tacit"),
        ('"mine", "a sum"', '"plain", "a sum"', "there is a way to average 'plain' already"),
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


WITH_KEYS = """
from typing import Annotated
from msgspec import Meta
from tacit import CollusionKeys

class TwoServersKeys(CollusionKeys, kw_only=True, frozen=True):
    helper_least: Annotated[int, Meta(ge=2, description="Fewest clients whose masks the helper adds.")] = 2

class TwoServers(Sum):
    keys = TwoServersKeys
"""


@pytest.fixture
def with_keys(example: Path) -> Path:
    """The scenario's path, where the sum of the example has the key `helper_least`, as docs/howto/own-sum.md has it."""
    file = example.with_name("own_sum.py")
    text = file.read_text().replace("class TwoServers(Sum):\n", WITH_KEYS)
    file.write_text(text.replace("if len(seeds) <", "if len(seeds) < self.table.helper_least or len(seeds) <"))
    return example


def test_a_key_of_an_own_sum_decides_in_a_run_and_in_its_folder(with_keys: Path) -> None:
    """Five of six clients are left: a helper that requires six adds no masks, so no round has a sum."""
    enough, more = (run(load(with_keys, ["expect={}", f"sum.helper_least={least}"])) for least in (5, 6))
    assert enough.outcome == "completed" and enough.equals_plaintext
    assert not any(one.counted for one in more.round_records)
    again = read(more.folder)
    assert getattr(again.scenario.sum, "helper_least", None) == 6 and not again.without_effect()
    assert run(load(more.folder, ["sum.helper_least=5"])).trace_hash == enough.trace_hash


def test_a_key_of_an_own_sum_is_listed_and_checked_as_any_other(with_keys: Path) -> None:
    keys, schema = (
        CliRunner().invoke(app, [command, "--plugin", str(with_keys.with_name("own_sum.py"))])
        for command in ("keys", "schema")
    )
    assert "sum.helper_least = 2" in keys.output and "Fewest clients whose masks the helper adds." in keys.output
    table = json.loads(schema.output)["properties"]["sum"]
    found = json.loads(schema.output)["definitions"][table["$ref"].rpartition("/")[2]]["properties"]
    assert found["helper_least"]["minimum"] == 2 and "clip" in found
    with pytest.raises(ScenarioError, match=r"sum\.helper_least: 1 is too small; allowed: 2 or more"):
        load(with_keys, ["sum.helper_least=1"])
    with pytest.raises(ScenarioError, match=r"sum\.helper_leats: there is no such key; did you mean sum\.helper_least"):
        load(with_keys, ["sum.helper_leats=3"])
    other = read(with_keys, ["training.averaging=secure", "sum.helper_least=3", "fault=[]", "expect={}"])
    assert other.without_effect() == ['sum.helper_least: only with training.averaging = "two-servers"']
    swept = sweep(load(with_keys, ["expect={}"]), {"sum.helper_least": [2, 6]})
    assert [any(one.counted for one in result.round_records) for _, result in swept] == [True, False]


def test_without_its_plugin_there_is_no_such_key(with_keys: Path, training: str) -> None:
    load(with_keys)
    with pytest.raises(ScenarioError, match=r"helper_least"):
        load(write_plain(with_keys.parent, training), ["sum.helper_least=3"])


def write_plain(folder: Path, text: str) -> Path:
    path = folder / "plain.toml"
    path.write_text(text.replace("plugins", "# plugins"))
    return path


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("CollusionKeys, kw_only", "Struct, kw_only", "must be a CollusionKeys"),
        ("class TwoServers(Sum)", "    more: set[int] = set()\n\nclass TwoServers(Sum)", "more of TwoServersKeys has"),
        ("helper_least: Annotated[int", "clip: Annotated[int", "the key clip of TwoServersKeys is another in a table"),
        ("sees_all = tolerates_share = False", "sees_all = False", "must derive from DropoutKeys"),
    ],
)
def test_wrong_keys_of_an_own_sum_are_an_error_at_the_line_that_adds_it(
    with_keys: Path, old: str, new: str, problem: str
) -> None:
    file = with_keys.with_name("own_sum.py")
    assert old in file.read_text()
    file.write_text("from msgspec import Struct\n" + file.read_text().replace(old, new))
    with pytest.raises(ScenarioError, match=problem):
        load(with_keys)


def test_a_sum_that_adds_no_noise_is_refused_where_clients_make_the_guarantee(tmp_path: Path) -> None:
    """It would be opened without any noise, under an epsilon of 1."""
    shutil.copy(ROOT / "examples" / "own_sum.py", tmp_path)
    text = (ROOT / "examples" / "own_sum.toml").read_text().partition("[[fault]]")[0]
    path = tmp_path / "own_sum.toml"
    path.write_text(text.replace('"fedavg"', '"dp-fedavg"'))
    changes = ["privacy.epsilon=1.0", "privacy.clip=0.5", "privacy.noise=skellam", "privacy.noise_at=clients"]
    with pytest.raises(ScenarioError, match=r'"two-servers", which adds no noise of clients'):
        load(path, [*changes, "privacy.tolerated=0.3", "privacy.components=none"])
