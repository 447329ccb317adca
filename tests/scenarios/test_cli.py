"""The command: its output and its exit codes."""

import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit.scenarios.command.main import app
from tacit.scenarios.running import runner as running
from tacit.scenarios.running.simulation import Simulated, Simulation
from tacit.scenarios.seeing.story import absences
from tests import warm

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def tacit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def one_line(result: Result) -> str:
    """The only line printed for a user's mistake."""
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


def test_a_run_prints_the_result_and_the_folder_last(quick: Path) -> None:
    result = tacit("run", quick)
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == "Four clients, quickly   (seed 3)"
    assert any(line.startswith("WARNING  protocol.hamming") for line in lines)
    assert any(re.match(r"accuracy  0\.\d{4}   \(per-client .* central ", line) for line in lines)
    assert any(re.match(r"time      virtual .*, wall .*, engine inline", line) for line in lines)
    assert any(line.startswith("step ") and line.endswith("total") for line in lines)
    assert any(line.startswith("setup.keys") for line in lines)
    record = json.loads(Path("runs/quick-3-1/result.json").read_text())
    assert f"trace     {record['trace_hash'][:16]} (whole in result.json)" in lines
    assert any(line.startswith("star: ") for line in lines)
    assert any(line.startswith("star: ") for line in lines)
    assert lines[-1] == "folder    runs/quick-3-1"


def test_output_to_a_file_has_no_escape_codes_or_animation(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    output = tacit("run", quick).output
    assert "\x1b" not in output and "\r" not in output and "virtual 0 s" not in output
    assert max(map(len, output.splitlines())) > 80  # the table does not depend on the width of a window


def test_the_options_of_a_run_take_effect(quick: Path) -> None:
    changes = ("--seed", "8", "--set", "protocol.k=2", "--set", "fault=[]", "--engine", "pool:1")
    result = tacit("run", quick, *changes, "--out", "deep/inside")
    assert result.exit_code == 0, result.output
    assert result.stdout.rstrip().endswith("folder    deep/inside")
    record = json.loads(Path("deep/inside/result.json").read_text())
    assert (record["seed"], record["engine"], record["scenario"]) == (8, "pool:1", "quick")
    assert "k = 2\n" in Path("deep/inside/scenario.toml").read_text()


def test_a_run_that_is_not_as_expected_exits_with_code_1(quick: Path) -> None:
    result = tacit("run", quick, "--set", 'expect.lost=["client/1"]')
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    verdict = lines.index("NOT AS EXPECTED  expect.lost: expected client/1, got nobody")
    assert lines[verdict + 1] == "outcome   completed"


def test_an_abort_exits_with_code_3_and_an_expected_abort_with_code_0(quick: Path) -> None:
    faults = 'fault=[{party="client/0",at="lsh.hash"},{party="client/1",at="lsh.hash"}]'
    aborting = ["--set", faults, "--set", "protocol.min_clients=3"]
    result = tacit("run", quick, *aborting)
    assert result.exit_code == 3, result.output
    assert "outcome   aborted: " in result.stdout and "lost      client/0: crashed at " in result.stdout
    expected = ["--set", "expect={outcome='aborted', lost=['client/0', 'client/1']}"]
    assert tacit("run", quick, *aborting, *expected).exit_code == 0


def test_a_run_of_many_rounds_prints_each_round(quick: Path) -> None:
    crash = '{party="client/1", at="lsh.hash", occurrence=2, back_after="1s"}'
    many = ["--set", f"fault=[{crash}]", "--set", "protocol.rounds=3", "--set", "expect.lost=['client/1']"]
    result = tacit("run", quick, *many)
    assert result.exit_code == 0, result.output
    (lost,) = (line for line in result.stdout.splitlines() if line.startswith("lost "))
    assert "client/1: crashed at " in lost and "; at lsh.hash: missed at hamming.collect: " in lost
    assert "; missing from round 2; the server waited for it 2 times, " in lost
    rows = [line.split() for line in result.stdout.splitlines()]
    at = rows.index(["round", "began", "joined", "members", "contributors", "labeled", "oracle", "lost"])
    assert [row[-6:] for row in rows[at + 2 : at + 5]] == [
        ["4", "4", "4", "4", "equal", "nobody"], ["4", "3", "3", "3", "equal", "client/1"],
        ["4", "4", "4", "4", "equal", "nobody"],
    ]  # fmt: skip


def test_only_the_first_of_many_causes_of_losses_are_printed(quick: Path) -> None:
    crash = '{party="client/[0-3]", at="influence.request", probability=0.25, back_after="1s"}'
    many = ["--set", f"fault=[{crash}]", "--set", "protocol.rounds=20", "--set", "protocol.min_clients=2"]
    result = tacit("run", quick, *many, "--set", "expect={}", "--out", "many")
    losses = json.loads(Path("many/result.json").read_text())["lost"]
    assert len(losses) > 12
    printed = [line for line in result.stdout.splitlines() if line.startswith("lost ")]
    left = len(absences(Path("many"))) - 12
    assert len(printed) == 12 and f"          {left} more: tacit events many" in result.stdout and left > 0


def test_a_failed_run_exits_with_code_1_and_debug_shows_the_traceback(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Breaking(Simulation):
        def run(self) -> Simulated:
            raise RuntimeError("no luck today")

    monkeypatch.setattr(running, "Simulation", Breaking)
    result = tacit("run", quick)
    assert result.exit_code == 1
    assert "outcome   failed: RuntimeError: no luck today" in result.stdout
    assert "Traceback" not in result.output and "failure.txt" in result.stdout
    assert result.stdout.rstrip().endswith("folder    runs/quick-3-1")
    assert isinstance(tacit("run", quick, "--debug").exception, RuntimeError)


def test_user_errors_are_printed_in_one_line_with_exit_code_2(quick: Path) -> None:
    assert one_line(tacit("run", quick, "--set", "protocol.k=1900")) == (
        "error: --set: protocol.k: 1900 is too large; allowed: 1 to 59 (n - 1)"
    )
    assert one_line(tacit("run", "no.toml")) == "error: no.toml: there is no such file"
    assert "did you mean xclp-digits?" in one_line(tacit("run", "xclp-digit"))
    assert "--set" in one_line(tacit("run", quick, "--set", "protocol.k"))
    assert "engine" in one_line(tacit("run", quick, "--engine", "warp"))
    assert "no run.sqlite" in one_line(tacit("bytes", "."))
    assert "neither a protocol (xclp, fedavg-then-xclp, " in one_line(tacit("steps", "sclp"))
    assert "did you mean network.latency?" in one_line(tacit("sweep", quick, "--over", "network.latenci=5ms"))
    assert tacit("run").exit_code == 2
    assert tacit("run", quick, "--sed", "3").exit_code == 2
    assert not Path("runs").exists()


def test_debug_shows_the_traceback_of_a_user_error(quick: Path) -> None:
    assert isinstance(tacit("run", "no.toml", "--debug").exception, ValueError)


def test_relays_are_not_mentioned_if_no_client_sends_to_another(quick: Path) -> None:
    result = tacit("run", quick, "--set", "protocol.name=local", "--set", "cotraining.rounds=1")
    assert re.search(r"^train\.enroll ", result.stdout, re.MULTILINE), result.output
    assert "star: " not in result.stdout


def test_an_existing_folder_is_refused(quick: Path) -> None:
    Path("mine").mkdir()
    result = tacit("run", quick, "--out", "mine")
    assert result.exit_code == 2
    assert result.stderr == "error: mine: exists already; a run never writes into a folder that is there\n"
    assert list(Path("mine").iterdir()) == []


def test_a_run_folder_can_be_run_again(quick: Path) -> None:
    tacit("run", quick, "--out", "first")
    assert tacit("run", "first", "--out", "second").exit_code == 0
    first, second = (json.loads(Path(name, "result.json").read_text()) for name in ("first", "second"))
    assert first["trace_hash"] == second["trace_hash"]


# --- lists


def test_the_commands_list_steps_keys_and_version_print_their_lists() -> None:
    listed = tacit("list")
    assert listed.exit_code == 0 and "xclp-digits" in listed.stdout
    steps = tacit("steps", "xclp").stdout
    assert re.search(r"^client +hamming\.evaluate +", steps, re.MULTILINE)
    assert re.search(r"^server +rowsums\.sum +", steps, re.MULTILINE)
    assert tacit("steps", "xclp-digits").stdout == steps
    keys = tacit("keys", "--markdown").stdout
    assert "| protocol.bits | a whole number, 8 to 65536 | bits | 1024 | xclp, fedavg-then-xclp, fedavg+xclp, " in keys
    assert "protocol.bits" in tacit("keys").stdout
    assert re.fullmatch(r"tacit \S+\n", tacit("--version").stdout)
    assert "sweep" in tacit("--help").stdout


def test_bytes_are_exact_and_add_up(quick: Path) -> None:
    tacit("run", quick, "--out", "a")
    record = json.loads(Path("a/result.json").read_text())
    result = tacit("bytes", "a", "a")
    lines = [line.split() for line in result.stdout.splitlines()]
    names = ("messages", "bytes_payload", "bytes_payload", "bytes_sealing", "bytes_envelope", "bytes_total")
    totals = ["total", *(f"{record[name]:,}" for name in names)]  # the payload by formula equals the measured one
    assert lines.count(totals) == 2


@pytest.mark.parametrize("changes", [
    ["protocol.hamming=paillier", "protocol.key_bits=512", "protocol.insecure_keys=true", "protocol.rows=paper"],
    pytest.param(
        ["protocol.hamming=iknp", "network.topology=mesh", "protocol.recovery=secure", "protocol.rounds=2"],
        marks=pytest.mark.long,
    ),
    ["data.partition=dirichlet:0.5", "protocol.recovery=secure"],
])  # fmt: skip
def test_bytes_are_printed_beside_the_formula(quick: Path, changes: list[str]) -> None:
    arguments = [part for change in changes for part in ("--set", change)]
    assert tacit("run", quick, "--out", "a", *arguments).exit_code == 0
    rows = [line.split() for line in tacit("bytes", "a").stdout.splitlines()]
    assert rows[1][2:5] == ["messages", "payload", "formula"]
    compared = [row[3:5] for row in rows if len(row) == 8 and row[0] != "step"]
    assert len(compared) > 10 and all(payload == formula for payload, formula in compared)


def test_bytes_of_a_run_with_lost_clients_have_no_formula(quick: Path) -> None:
    lost = ["--set", 'fault=[{party="client/1",at="lsh.hash"}]', "--set", "expect={}"]
    assert tacit("run", quick, "--out", "a", *lost).exit_code == 0
    lines = tacit("bytes", "a").stdout.splitlines()
    assert "formula" not in next(line for line in lines if line.startswith("step"))
    (why,) = [line for line in lines if line.startswith("formula ")]
    assert why.startswith("formula   none: ")


# --- many runs


def test_a_sweep_runs_every_combination_and_seed(quick: Path) -> None:
    over = ("--over", "protocol.k=2,4", "--over", 'network.latency=["5ms","uniform:1ms,2ms"]')
    result = tacit("sweep", quick, *over, "--seeds", "2", "--set", "data.limit=48", "--out", "many")
    assert result.exit_code == 0, result.output
    with Path("many/sweep.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["protocol.k"], line["network.latency"], line["seed"]) for line in lines] == [
        (k, latency, seed) for k in "24" for latency in ("5ms", "uniform:1ms,2ms") for seed in "34"
    ]
    for line in lines:
        record = json.loads(Path("many", line["folder"], "result.json").read_text())
        assert record["trace_hash"] == line["trace_hash"]
        assert str(record["accuracy"]) == line["accuracy"]
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[:3] for row in rows if row[0] in "24"] == [
        [k, latency, "2"] for k in "24" for latency in ("5ms", "uniform:1ms,2ms")
    ]
    assert all(row.count("±") == 3 for row in rows if row[0] in "24")
    for number, row in enumerate(row for row in rows if row[0] in "24"):
        ends = sorted(float(line["accuracy"]) for line in lines[2 * number : 2 * number + 2])
        assert "–".join(f"{end:.4f}" for end in ends) in row
    assert result.stdout.rstrip().endswith("folder    many")


def test_a_sweep_with_several_jobs_gives_the_same_results(quick: Path) -> None:
    arguments = ("sweep", quick, "--over", "protocol.k=2,4", "--jobs")
    assert tacit(*arguments, "1", "--out", "one").exit_code == 0
    assert tacit(*arguments, "2", "--out", "two").exit_code == 0
    hashes = []
    for name in ("one", "two"):
        with Path(name, "sweep.csv").open(newline="") as file:
            hashes.append([line["trace_hash"] for line in csv.DictReader(file)])
    assert hashes[0] == hashes[1] and len(set(hashes[0])) == 2


def test_a_sweep_is_checked_before_its_first_run(quick: Path) -> None:
    result = tacit("sweep", quick, "--over", "protocol.k=2,4,6000", "--out", "many")
    assert "protocol.k: 6000 is too large" in one_line(result)
    assert not Path("many").exists()
    assert "no value; allowed: one or more" in one_line(tacit("sweep", quick, "--over", "protocol.k=[]"))
    assert "not a TOML list" in one_line(tacit("sweep", quick, "--over", "protocol.k=[2,"))
    assert "--over" in one_line(tacit("sweep", quick, "--over", "protocol.k"))


# --- real processes


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("with_signal", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_a_signal_leaves_a_complete_folder_and_its_exit_code(quick: Path, stopped, with_signal: signal.Signals) -> None:
    code, output, errors = stopped(1, with_signal, "run", quick)
    reason = {signal.SIGINT: "interrupted by Ctrl-C", signal.SIGTERM: "terminated (SIGTERM)"}[with_signal]
    assert code == 128 + with_signal
    assert "Traceback" not in errors and f"outcome   interrupted: {reason}" in output
    assert output.rstrip().endswith("folder    runs/quick-3-1")
    record = json.loads(Path("runs/quick-3-1/result.json").read_text())
    assert (record["outcome"], record["reason"]) == ("interrupted", reason)


@pytest.mark.parametrize("with_signal", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_signal_ends_a_sweep_and_keeps_its_finished_runs(quick: Path, stopped, with_signal: signal.Signals) -> None:
    code, output, errors = stopped(1, with_signal, "sweep", quick, "--seeds", "3", "--out", "many")
    assert code == 128 + with_signal
    assert "Traceback" not in errors and "1 interrupted" in output
    assert len(Path("many/sweep.csv").read_text().splitlines()) == 2


def test_on_a_terminal_progress_is_drawn_and_wiped(quick: Path) -> None:
    terminal, inside = pty.openpty()
    command = [sys.executable, "-m", "tacit", "run", quick]
    process = warm.Process(command, stdout=inside, stderr=inside, env={**environment(), "TERM": "xterm"})
    os.close(inside)
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(terminal)
    assert process.wait(timeout=30) == 0
    assert b"\x1b[" in shown and b"messages" in shown
    assert b"folder    runs/quick-3-1" in shown.splitlines()[-1]


def test_importing_the_python_interface_loads_no_plotting_terminal_or_large_packages() -> None:
    code = (
        "import sys; from tacit import Scenario, run; large = 'scipy.stats', 'sklearn', 'torch'; "
        "print([name for name in ('matplotlib', 'typer', 'rich', *large) if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    assert found.stdout == "[]\n"


def test_the_list_of_scenarios_loads_no_protocol_and_that_of_keys_no_run_or_report() -> None:
    code = (
        "import sys\n"
        "from tacit.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "loaded = [name for name in sys.modules if name.startswith('tacit.')]\n"
        "print(sorted({'.'.join(name.split('.')[:3]) for name in loaded}))"
    )

    def folders(*words: str) -> str:
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
        return done.stdout.splitlines()[-1]

    assert "tacit.protocols." not in folders("list")
    shown = folders("keys", "training.rounds")
    assert "tacit.protocols.federated" in shown and "tacit.scenarios.schema" in shown
    assert "tacit.scenarios.sweeping" not in shown
