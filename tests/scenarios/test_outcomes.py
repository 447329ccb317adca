"""The result of a run with lost parties: outcome, reason, losses, rounds; and no failure looks like a success."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tacit import Expect, Result, load
from tacit.parties.party import NoAnswer
from tacit.protocols.outcome import TOO_FEW
from tacit.protocols.xclp.xclp import XclpClient
from tacit.scenarios.files.reading import read
from tacit.scenarios.reporting.printed import outcome_lines
from tacit.scenarios.running.runner import carry_out, exit_code

NOTHING_EXPECTED = "expect={}"


def crashes(*faults: str) -> str:
    return "fault=[" + ", ".join("{" + fault + "}" for fault in faults) + "]"


def outcome_of(quick: Path, *changes: str, out: str = "out") -> Result:
    """The result of the quick scenario with changes; the folder is always complete."""
    scenario = load(quick, [NOTHING_EXPECTED, *changes])
    result = carry_out(scenario, "quick", out=quick.parent / out)
    assert {path.name for path in result.folder.iterdir()} >= {
        "scenario.toml",
        "result.json",
        "labels.csv",
        "rounds.csv",
        "run.sqlite",
    }
    return result


def lost(result: Result) -> dict[str, list[tuple[int, str]]]:
    """The rounds and steps at which each party was lost."""
    found: dict[str, list[tuple[int, str]]] = {}
    for loss in result.lost:
        found.setdefault(loss.party, []).append((loss.round, loss.step))
    return found


# --- the server


@pytest.mark.parametrize("step", ["setup.keys", "setup.seed", "hamming.collect", "influence.solve", "rowsums.sum"])
@pytest.mark.parametrize("recovery", ["restart", "secure"])
def test_a_lost_server_is_reported_by_every_client(quick: Path, recovery: str, step: str) -> None:
    result = outcome_of(quick, crashes(f'party="server", at="{step}"'), f"protocol.recovery={recovery}")
    assert (result.outcome, exit_code(result, Expect())) == ("aborted", 3)
    assert result.reason == f"the server was lost at {step}"
    assert lost(result) == {"server": [(1, step)]}
    record = json.loads((result.folder / "result.json").read_text())
    assert len(record["endings"]) == 4
    assert all(ending.startswith("no answer from the server: ") for ending in record["endings"].values())


def test_a_server_lost_while_sending_sums_makes_no_label_wrong(quick: Path) -> None:
    lost_at_third = crashes('party="server", message="SummedRows", occurrence=3')
    result = outcome_of(quick, lost_at_third, "network.server_bandwidth=unlimited")  # messages leave immediately
    (last,) = result.round_records
    assert (result.outcome, last.labeled, last.finished) == ("aborted", ("client/0", "client/1"), False)
    assert result.equals_plaintext is last.equals_plaintext is True
    assert [ending.partition(":")[0] for ending in result.endings.values()] == 2 * ["completed"] + 2 * [
        "no answer from the server"
    ]


def test_a_server_lost_in_a_later_round_leaves_the_earlier_ones_compared(quick: Path) -> None:
    server = crashes('party="server", at="influence.solve", occurrence=3')
    result = outcome_of(quick, server, "protocol.rounds=5")
    assert [one.equals_plaintext for one in result.round_records] == [True, True, None]
    assert (result.outcome, result.equals_plaintext) == ("aborted", True)
    assert lost(result) == {"server": [(3, "influence.solve")]}


# --- too few clients


def test_too_few_clients_abort_with_numbers_and_names(quick: Path) -> None:
    result = outcome_of(quick, crashes('party="client/0", at="lsh.hash"', 'party="client/2", at="hamming.encode"'))
    assert (result.outcome, exit_code(result, Expect())) == ("aborted", 3)
    numbers, _, names = result.reason.partition("; lost: ")
    assert "2 clients" in numbers and "min_clients is 3" in numbers
    what = "clients with complete Hamming blocks"
    facts = {"kind": TOO_FEW, "values": {"count": 2, "what": what, "limit": "min_clients", "least": 3}}
    assert json.loads((result.folder / "result.json").read_text())["ended_by"] == result.ended_by == facts
    with closing(sqlite3.connect(result.folder / "run.sqlite")) as record:
        found = dict(record.execute("SELECT key, value FROM run"))
    assert (found["reason"], json.loads(found["ended_by"])) == (result.reason, facts)
    assert names.split(", ") == ["client/0", "client/2"]
    assert lost(result) == {"client/0": [(1, "lsh.hash")], "client/2": [(1, "hamming.encode")]}
    assert all(ending.startswith("aborted: 2 clients") for name, ending in result.endings.items() if name in ("1", "3"))


def test_fewer_than_the_threshold_abort_with_numbers_and_names(quick: Path) -> None:
    shared = ["protocol.recovery=secure", "protocol.threshold=4", "protocol.min_clients=2"]
    result = outcome_of(quick, crashes('party="client/3", at="rowsums.mask"'), *shared)
    assert (result.outcome, exit_code(result, Expect())) == ("aborted", 3)
    assert "3 clients" in result.reason and "protocol.threshold is 4" in result.reason and "client/3" in result.reason


def test_an_abort_in_a_later_round_reports_all_rounds(quick: Path) -> None:
    faults = crashes(*(f'party="client/{i}", at="lsh.hash", occurrence={2 + i}' for i in range(3)))
    result = outcome_of(quick, faults, "protocol.rounds=5", "protocol.min_clients=2")
    assert result.outcome == "aborted" and "1 client with" in result.reason
    assert [one.labeled for one in result.round_records] == [
        ("client/0", "client/1", "client/2", "client/3"), ("client/1", "client/2", "client/3"),
        ("client/2", "client/3"), (),
    ]  # fmt: skip
    assert [one.lost for one in result.round_records] == [
        (),
        ("client/0",),
        ("client/0", "client/1"),
        tuple(lost(result)),
    ]
    assert [one.joined for one in result.round_records][2] == ("client/1", "client/2", "client/3")
    assert [one.equals_plaintext for one in result.round_records] == [True, True, True, None]
    assert lost(result)["client/0"] == [(2, "lsh.hash"), (3, "setup.keys"), (4, "setup.keys")]


# --- no client left


@pytest.mark.parametrize("step", ["setup.keys", "hamming.evaluate", "rowsums.mask", "xclp.label"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_a_run_that_loses_every_client_has_failed(quick: Path, step: str, rounds: int) -> None:
    everybody = crashes(f'party="client/*", at="{step}", occurrence={rounds}')
    result = outcome_of(quick, everybody, f"protocol.rounds={rounds}")
    assert (result.outcome, exit_code(result, Expect())) == ("failed", 1)
    assert result.reason.startswith("every client was lost")
    assert {loss.party for loss in result.lost if loss.round == rounds} == {f"client/{i}" for i in range(4)}
    assert [one.equals_plaintext for one in result.round_records] == [True] * (rounds - 1) + [None]


def test_clients_that_return_too_late_do_not_make_a_run_a_success(quick: Path) -> None:
    result = outcome_of(quick, crashes('party="client/*", at="lsh.hash", back_after="1s"'), "protocol.rounds=1")
    assert (result.outcome, exit_code(result, Expect())) == ("failed", 1)
    assert result.reason.startswith("every client was lost: 0 clients")


def test_a_failed_run_is_never_as_expected(quick: Path) -> None:
    scenario = load(quick, [crashes('party="client/*", at="lsh.hash"'), "expect={outcome='aborted'}"])
    result = carry_out(scenario, "quick", out=quick.parent / "out")
    assert exit_code(result, scenario.expect) == 1


def test_a_failed_run_can_be_expected_but_an_error_cannot(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = load(quick, [crashes('party="client/*", at="lsh.hash"'), "expect={outcome='failed'}"])
    result = carry_out(scenario, "quick", out=quick.parent / "out")
    assert (result.outcome, result.unmet, exit_code(result, scenario.expect)) == ("failed", [], 0)
    fine = load(quick, ["expect={outcome='failed'}"])
    result = carry_out(fine, "quick", out=quick.parent / "fine")
    assert exit_code(result, fine.expect) == 1
    assert result.unmet == ["expect.outcome: expected failed, got completed"]
    monkeypatch.setattr(XclpClient, "take_part", None)
    result = carry_out(fine, "quick", out=quick.parent / "broken")
    assert (result.outcome, result.unmet, exit_code(result, fine.expect)) == ("failed", [], 1)


def test_lost_and_retransmitted_messages_are_reported(quick: Path) -> None:
    result = outcome_of(quick, "network.loss=0.1", crashes('kind="lose", message="SeedAgreed"'))
    with closing(sqlite3.connect(result.folder / "run.sqlite")) as record:
        (again,) = record.execute("SELECT count(*) FROM hops WHERE note LIKE 'sent again%'").fetchone()
    assert result.sent_again == again > 0
    assert result.messages_lost["lost by a fault"] == 1 < result.messages_lost["lost on the link"]
    (line,) = (line for line in outcome_lines(result) if line.startswith("network"))
    assert line.startswith(f"network   {again} messages sent again; lost: ") and "1 lost by a fault" in line
    calm = outcome_of(quick, out="calm")
    assert (calm.sent_again, calm.messages_lost) == (0, {})
    assert not any(line.startswith("network") for line in outcome_lines(calm))


def test_an_exception_in_a_client_is_an_error_of_the_run(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: XclpClient, call: object) -> None:
        raise ZeroDivisionError("a client's own mistake")

    monkeypatch.setattr(XclpClient, "take_part", broken)
    result = outcome_of(quick)
    assert (result.outcome, exit_code(result, Expect())) == ("failed", 1)
    assert "ZeroDivisionError" in result.reason


def test_a_run_in_which_no_client_gets_labels_has_failed(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def deaf(self: XclpClient) -> None:
        self.ending = str(NoAnswer(self.name, "anything", 1.0))

    monkeypatch.setattr(XclpClient, "main", deaf)
    result = outcome_of(quick)
    assert (result.outcome, exit_code(result, Expect())) == ("failed", 1)


# --- losses


def test_a_loss_after_the_sum_is_reported_though_the_server_does_not_notice(quick: Path) -> None:
    result = outcome_of(quick, crashes('party="client/1", at="xclp.label"'))
    (loss,) = result.lost
    assert (loss.party, loss.round, loss.step) == ("client/1", 1, "xclp.label")
    assert loss.action == "after the sum: it gets no labels, all others are unaffected"
    assert result.round_records[0].labeled == ("client/0", "client/2", "client/3")
    assert (result.outcome, result.equals_plaintext) == ("completed", True)


def test_the_step_of_a_loss_is_stated_once(quick: Path) -> None:
    result = outcome_of(
        quick, crashes('party="client/1", at="setup.keys"', 'party="client/2", at="lsh.hash"'), "protocol.min_clients=2"
    )
    actions = {loss.party: (loss.step, loss.action) for loss in result.lost}
    assert actions["client/1"] == ("setup.keys", "never joined: the round begins without it")
    assert actions["client/2"][0] == "lsh.hash" and actions["client/2"][1].startswith("missed at hamming.collect: ")


def test_faults_that_struck_are_in_the_result(quick: Path) -> None:
    faults = crashes('party="client/1", at="lsh.hash"', 'party="client/*", after="hamming.encode", occurrence=9')
    result = outcome_of(quick, faults)
    (strike,) = json.loads((result.folder / "result.json").read_text())["faults"]
    assert {key: strike[key] for key in ("fault", "kind", "party", "step")} == {
        "fault": 0, "kind": "crash", "party": "client/1", "step": "lsh.hash"
    }  # fmt: skip
    assert 0 < strike["time"] < result.virtual_seconds
    assert result.warnings[-1] == (
        "fault.1: the crash of client/* did not strike: the run did not reach the point where it would"
    )


def test_a_return_after_the_end_of_the_run_gives_a_warning(tiny: Path) -> None:
    crash = "fault=[{{party='client/1', at='train.update', back_after='{}'}}]"
    fedavg = "protocol.name=fedavg"
    late = load_and_run(tiny, fedavg, crash.format("500h"), out="late")
    assert late.warnings[-1].startswith('fault.0.back_after = "500h" changed nothing: client/1 was to return at 500 h')
    in_time = load_and_run(tiny, fedavg, crash.format("1ms"), out="in_time")
    assert in_time.outcome == late.outcome == "completed" and not any("back_after" in line for line in in_time.warnings)


# --- expectations


def test_a_fault_that_did_not_strike_is_unmet_where_anything_is_expected(quick: Path) -> None:
    never = crashes('party="client/1", at="lsh.hash", occurrence=2')
    scenario = load(quick, [never])
    result = carry_out(scenario, "quick", out=quick.parent / "out")
    assert result.unmet == [
        "fault.0: the crash of client/1 did not strike: the run did not reach the point where it would"
    ]
    assert exit_code(result, scenario.expect) == 1
    assert not any("did not strike" in line for line in result.warnings)


def test_a_fault_with_a_probability_need_not_strike(quick: Path) -> None:
    unlikely = crashes('party="client/1", at="lsh.hash", probability=1e-12')
    scenario = load(quick, [unlikely])
    result = carry_out(scenario, "quick", out=quick.parent / "out")
    assert (result.unmet, exit_code(result, scenario.expect)) == ([], 0)
    assert any(line.startswith("fault.0: ") for line in result.warnings)


def test_reason_and_the_step_of_a_loss_can_be_expected(quick: Path) -> None:
    both = crashes('party="client/0", at="lsh.hash"', 'party="client/2", at="hamming.encode"')
    expect = "expect={outcome='aborted', reason='min_clients is 3', lost=['client/0', 'client/2 at hamming.encode']}"
    assert load_and_run(quick, both, expect, out="right").unmet == []
    expect = "expect={outcome='aborted', reason='no luck', lost=['client/2 at lsh.hash', 'client/1 at lsh.hash']}"
    result = load_and_run(quick, both, expect, out="wrong")
    assert result.unmet[0] == "expect.lost: expected client/1, client/2, got client/0, client/2"
    assert result.unmet[1].startswith('expect.reason: expected it to contain "no luck", got "2 clients')
    assert result.unmet[2:] == ["expect.lost: expected client/2 to be lost at lsh.hash, it was lost at hamming.encode"]


def load_and_run(quick: Path, *changes: str, out: str) -> Result:
    return carry_out(load(quick, changes), "quick", out=quick.parent / out)


# --- every round


def test_a_least_accuracy_can_be_expected(quick: Path) -> None:
    met = outcome_of(quick, "expect.accuracy_at_least=0.0")
    assert (met.unmet, exit_code(met, Expect())) == ([], 0)
    missed = outcome_of(quick, "expect.accuracy_at_least=1.0", out="missed")
    assert missed.unmet == [f"expect.accuracy_at_least: expected 1 or more, got {missed.accuracy:.4f}"]


def test_a_fault_can_be_appended_to_the_scenario_of_a_runs_folder(quick: Path) -> None:
    crash = '\n[[fault]]\nkind = "crash"\nparty = "client/{}"\nat = "lsh.hash"\n'
    folder = outcome_of(quick, "fault=[]").folder
    with (folder / "scenario.toml").open("a") as file:
        file.write(crash.format(1) + crash.format(2))
    again = outcome_of(folder, out="again")
    assert [strike.party for strike in again.faults] == ["client/1", "client/2"]
    text = (again.folder / "scenario.toml").read_text()
    assert text.count("[[fault]]") == 2 and load(again.folder).fault == load(folder).fault


def test_a_wrong_label_in_any_round_is_found(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = XclpClient.take_part

    async def wrong_once(self: XclpClient, call) -> None:
        await right(self, call)
        if self.name == "client/2" and self.round == 2:
            self.results[2].labels[0] += 1

    monkeypatch.setattr(XclpClient, "take_part", wrong_once)
    result = load_and_run(quick, "protocol.rounds=3", out="out")
    assert [one.equals_plaintext for one in result.round_records] == [True, False, True]
    assert result.unmet == ["expect.equals_plaintext: expected true, got false"]


def test_a_wrong_distance_in_any_round_is_found(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tacit.protocols.xclp.xclp

    right = tacit.protocols.xclp.xclp.hamming.server

    async def wrong_once(me, *arguments):
        members, h = await right(me, *arguments)
        if me.round == 1:
            h = np.array(h)
            h[0, 1] = h[1, 0] = h[0, 1] + 1
        return members, h

    monkeypatch.setattr(tacit.protocols.xclp.xclp.hamming, "server", wrong_once)
    result = load_and_run(quick, "protocol.rounds=2", out="out")
    assert [one.equals_plaintext for one in result.round_records] == [False, True]


# --- names and titles


def test_a_runs_folder_keeps_the_scenarios_name(quick: Path) -> None:
    first = carry_out(load(quick), "quick", out=quick.parent / "first")
    again = read(first.folder)
    assert (again.name, again.scenario.title) == ("quick", "Four clients, quickly")


def test_a_users_own_data_do_not_inherit_the_title(quick: Path) -> None:
    assert load(quick, ["data.name=breast_cancer"]).title == 'quick with data.name = "breast_cancer"'
    assert load(quick, ["data.name=breast_cancer", "title=Mine"]).title == "Mine"


def test_natural_clients_keep_their_own_names(tmp_path: Path) -> None:
    rows = [f"{i % 7}.5,{i % 3},{'abcd'[i % 4]},{'xy'[i % 2]}" for i in range(40)]
    (tmp_path / "own.csv").write_text("\n".join(["one,two,client,label", *rows]))
    text = "[data]\npath='own.csv'\npartition='natural'\nlabeled=0.5\n[protocol]\nhamming='plaintext'\nbits=64\nk=3\n"
    (tmp_path / "s.toml").write_text(text)
    result = carry_out(load(tmp_path / "s.toml"), "own", out=tmp_path / "out")
    lines = (result.folder / "labels.csv").read_text().splitlines()[1:]
    assert {line.split(",")[0]: line.split(",")[1] for line in lines} == {f"client/{i}": "abcd"[i] for i in range(4)}
