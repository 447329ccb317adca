"""Declared protocols of one round: a secure sum with an oracle, and one that needs no keys."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.parties.client import Client
from tacit.parties.data.splits import Shard
from tacit.parties.server import Server
from tacit.protocols.declaration import Problem
from tacit.protocols.one_shot import Found, OneShot
from tacit.protocols.outcome import require
from tacit.protocols.parts import Step
from tacit.protocols.registry import PROTOCOLS, add
from tacit.protocols.setup import Group
from tacit.scenarios.chaos.campaign import Plan, campaign
from tacit.scenarios.files.reading import load, read
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.running.prediction import predicted
from tacit.scenarios.running.runner import run
from tacit.scenarios.schema.keys import keys
from tacit.scenarios.schema.scenario import ProtocolKeys, ScenarioError
from tacit.sim.units import duration
from tacit.sim.wire import Message


class CountSent(Message):
    counted: bytes


class Keys(ProtocolKeys, kw_only=True, frozen=True):
    least: int = 0


class Counting(OneShot):
    """A protocol in which the server adds up the numbers of clients' points, in plaintext."""

    name, summary = "count-points", "how many points all clients have"
    keys = Keys
    agrees = False
    own_steps = (Step("client", "count.send", "send its count"), Step("server", "count.add", "add the counts up"))

    def check(self, keys: Any, shards: Mapping[str, Shard]) -> None:
        fewest = min(len(shard.rows) for shard in shards.values())
        if keys.least > fewest:
            raise Problem("least", f"{keys.least} is too large; allowed: 0 to {fewest}")

    async def client(self, me: Client, keys: Any, group: Group) -> None:
        with me.step("count.send"):
            me.send(me.server, CountSent(len(me.shard.rows).to_bytes(4, "big")))

    async def server(self, me: Server, keys: Any, group: Group) -> Found:
        with me.step("count.add"):
            answers = await me.collect(CountSent, group.names, deadline=duration(keys.deadline))
            me.lose(answers.missing, "its count was not received: it is left out")
            require(len(answers.answers), "clients", keys.min_clients)
            total = sum(int.from_bytes(answer.counted, "big") for answer in answers.answers.values())
        return Found(tuple(answers.answers), np.array([float(total)]))

    def oracle(self, keys: Any, shards: Mapping[str, Shard]) -> NDArray[np.float64]:
        return np.array([float(sum(len(shard.rows) for shard in shards.values()))])

    def own_payloads(self, keys: Any, shards: Mapping[str, Shard]) -> Mapping[str, int]:
        return {"CountSent": 4 * len(shards)}


@pytest.fixture(autouse=True)
def counting() -> Any:
    add(Counting())
    yield
    PROTOCOLS.remove("count-points")


SCENARIO = """
title = "How many points six clients have"
[data]
name = "digits"
clients = 6
limit = 60
[protocol]
name = "count-points"
{keys}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "count.toml"
    path.write_text(SCENARIO.format(keys=""))
    return path


def test_the_result_equals_the_oracle_and_the_bytes_equal_the_formula(file: Path, tmp_path: Path) -> None:
    result = run(load(file), out=tmp_path / "run")
    assert (result.outcome, result.output, result.equals_plaintext) == ("completed", [60.0], True)
    sent = {row.type: row.payload for row in byte_rows(result.folder)}
    assert predicted(result.folder, sent) == sent
    assert run(load(file), out=tmp_path / "again").trace_hash == result.trace_hash
    assert run(load(file, seed=2), out=tmp_path / "other").trace_hash != result.trace_hash


def test_faults_strike_at_steps_and_messages_of_a_new_protocol(file: Path, tmp_path: Path) -> None:
    faults = (
        'fault=[{kind="crash", party="client/1", at="count.send"}, {kind="lose", message="CountSent", peer="server"}]'
    )
    result = run(load(file, [faults, 'network.transport="datagram"']), out=tmp_path / "run")
    assert result.outcome == "completed" and result.equals_plaintext
    assert {loss.party for loss in result.lost} >= {"client/1"}
    assert {strike.kind for strike in result.faults} == {"crash", "lose"}
    with pytest.raises(ScenarioError, match=r"count\.ad.* is not a step .*allowed: round\.enrol, count\.send"):
        load(file, ['fault=[{kind="crash", party="client/1", at="count.ad"}]'])
    with pytest.raises(ScenarioError, match="allowed: Dismissed, RoundOpens, TakesPart, TakingPart, CountSent"):
        load(file, ['fault=[{kind="lose", message="Count"}]'])


def test_too_few_clients_are_a_clear_abort(file: Path, tmp_path: Path) -> None:
    gone = [f'{{kind="crash", party="client/{number}", before="count.send"}}' for number in range(4)]
    result = run(load(file, [f"fault=[{', '.join(gone)}]"]), out=tmp_path / "run")
    assert (result.outcome, result.reason) == ("aborted", "2 clients are left; min_clients is 3")
    assert result.output is None and result.equals_plaintext is None
    assert result.endings["client/5"] == "completed" and result.endings["client/0"] == "crashed"


def test_keys_of_a_new_protocol_are_keys_of_a_scenario(file: Path) -> None:
    (row,) = [row for row in keys() if row.name == "protocol.least"]
    assert row.protocols == ("count-points",)
    assert load(file, ["protocol.least=10"]).protocol.least == 10  # type: ignore[attr-defined]
    assert read(file, ["protocol.least=10"]).unused == ()
    assert read(file, ["protocol.hamming=iknp"]).unused == ("protocol.hamming",)
    with pytest.raises(ScenarioError, match=r"protocol\.least: 11 is too large; allowed: 0 to 10"):
        load(file, ["protocol.least=11"])
    assert read("xclp-digits", ["protocol.least=1"]).unused == ("protocol.least",)


def test_no_fault_breaks_a_promise_of_a_new_protocol(file: Path) -> None:
    found = campaign(load(file), Plan(schedules=25, seed=5))
    assert [failure.how for failure in found.failures] == []
    assert {one.outcome for one in found.verdicts} == {"completed", "aborted"}


def test_a_result_that_differs_from_the_oracle_breaks_a_promise(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "oracle", lambda self, keys, shards: np.array([61.0]))
    found = campaign(load(file), Plan(schedules=0, singles=False))
    assert [failure.promise for failure in found.failures] == ["the result equals the oracle's"]


def test_an_invalid_or_duplicate_protocol_is_refused() -> None:
    class Nameless(Counting):
        name = "Not A Name"

    with pytest.raises(ValueError, match="small letters"):
        add(Nameless())
    with pytest.raises(ValueError, match="protocol 'count-points' already"):
        add(Counting())
    with pytest.raises(ValueError, match="derived from OneShot"):
        add("xclp")  # type: ignore[arg-type]


# --- mistakes in declarations and results


def test_only_keys_of_other_protocols_are_listed_as_unused(file: Path) -> None:
    file.write_text(SCENARIO.format(keys="least = 3\nmin_clients = 4\ngroup = 'p256'"))
    assert read(file).unused == ("protocol.group",)
    loaded = read(file, ["protocol.name=xclp", "data.labeled=0.5"])
    assert "protocol.least" in loaded.unused


def test_a_server_that_returns_no_valid_result_fails_the_run(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(self: Counting, me: Server, keys: Any, group: Group) -> None:
        return None

    async def strangers(self: Counting, me: Server, keys: Any, group: Group) -> Found:
        return Found(("client/9",), np.zeros(1))

    async def nobody(self: Counting, me: Server, keys: Any, group: Group) -> Found:
        return Found((), np.zeros(1))

    async def no_names(self: Counting, me: Server, keys: Any, group: Group) -> Any:
        return Found(5, np.zeros(1))  # type: ignore[arg-type]

    async def no_numbers(self: Counting, me: Server, keys: Any, group: Group) -> Any:
        return Found(group.names, "many")  # type: ignore[arg-type]

    ends = []
    for number, server in enumerate((nothing, strangers, nobody, no_names, no_numbers)):
        monkeypatch.setattr(Counting, "server", server)
        result = run(load(file), out=tmp_path / str(number))
        ends.append((result.outcome, result.reason))
    assert ends == [
        ("failed", "TypeError: Counting.server must return Found(over, value), not NoneType."),
        ("failed", "ValueError: over(=('client/9',)) of Counting.server must be different clients of the group."),
        ("aborted", "0 clients are left; min_clients is 3"),
        ("failed", "ValueError: over(=(5,)) of Counting.server must be different clients of the group."),
        ("failed", "TypeError: the value of Counting.server must be numbers, not 'many'."),
    ]


def test_an_oracle_that_returns_no_numbers_fails_the_run(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counting, "oracle", lambda self, keys, shards: None)
    result = run(load(file), out=tmp_path / "run")
    assert result.outcome == "failed"
    assert result.reason == "TypeError: what Counting.oracle returns must be numbers, not None."


def test_leaving_out_a_client_that_is_well_breaks_a_promise(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Counting.server

    async def without_the_last(self: Counting, me: Server, keys: Any, group: Group) -> Found:
        found = await whole(self, me, keys, group)
        return Found(found.over[:-1], found.value - len(me_shards["client/5"].rows))

    me_shards: dict[str, Shard] = {}
    monkeypatch.setattr(Counting, "check", lambda self, keys, shards: me_shards.update(shards))
    monkeypatch.setattr(Counting, "server", without_the_last)
    found = campaign(load(file), Plan(schedules=0, singles=False))
    assert [failure.promise for failure in found.failures] == ["inputs of clients without faults count"]


def test_a_formula_that_names_no_message_is_an_error(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counting, "own_payloads", lambda self, keys, shards: {"CountSend": 1})
    result = run(load(file), out=tmp_path / "run")
    assert result.outcome == "completed"
    with pytest.raises(ScenarioError, match=r"CountSend is no message that it sends; allowed: .*CountSent"):
        predicted(result.folder)
    for size in ("many", -1, 1.5):
        monkeypatch.setattr(Counting, "own_payloads", lambda self, keys, shards, size=size: {"CountSent": size})
        with pytest.raises(ScenarioError, match=r"are no numbers of bytes; allowed: whole ones, 0 or more"):
            predicted(result.folder)


@pytest.mark.parametrize(
    ("declared_wrongly", "problem"),
    [
        ({"keys": {"a": 1}}, "must be a class derived from ProtocolKeys"),
        ({"own_steps": (Step("clients", "a", "b"),)}, "steps of the roles client and server"),
        ({"modules": ("x",)}, "modules of Wrong must be modules"),
        ({"oracle": OneShot.oracle}, "needs a method oracle"),
        ({"summary": 3}, "needs a summary"),
        ({"client": lambda self, me, keys, group: None}, "the client of Wrong must be defined by async def"),
        ({"patience": None}, r"patience\(=None\) of Wrong must be a number >= 1"),
        ({"tolerance": "small"}, r"tolerance\(='small'\) of Wrong must be a number >= 0"),
    ],
)
def test_a_wrong_declaration_is_refused(declared_wrongly: dict[str, Any], problem: str) -> None:
    wrong = type("Wrong", (Counting,), {"name": "wrong", **declared_wrongly})
    with pytest.raises(ValueError, match=problem):
        add(wrong())
