"""Large sized runs on hollow values: ledger, virtual time and outputs of a real run, without results."""

from collections import Counter
from pathlib import Path

import pytest

from tacit import Result, run
from tacit.parties.data.splits import named
from tacit.scenarios.files import checks
from tacit.scenarios.files.reading import read
from tacit.scenarios.files.splits import split_data
from tacit.scenarios.running.folder import byte_rows
from tests.scenarios.test_fidelity import SMALL, printed

CALM = ["fault=[]", "expect={outcome='completed'}", 'network.latency="40ms"', "protocol.deadline=9999s"]

VARIANTS = {
    "plaintext": [],
    "paillier": ["protocol.recovery=secure"],
    "paillier unpacked": ["protocol.packing=none", "protocol.bits=16", "network.topology=mesh"],
    "paillier fresh": ["protocol.rerandomise=fresh", "protocol.bits=33", "data.limit=16"],
    "iknp": ["protocol.rounds=2", "data.clients=3", "protocol.recipe=authors-code"],
    "naor-pinkas": ["protocol.bits=8", "data.limit=12", "data.clients=3"],
}


def run_hollow_and_real(
    quick: Path, out: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str]
) -> tuple[Result, ...]:
    """A run on hollow values, and the real one."""
    real = run(read(quick, [*SMALL, *CALM, *settings]).scenario, out=out / "real")
    monkeypatch.setattr(checks, "MOST_POINTS", 1)
    return run(read(quick, [*SMALL, *CALM, *settings, "fidelity=sized"]).scenario, out=out / "sized"), real


def hops(result: Result) -> Counter[tuple[object, ...]]:
    """The number of times that each hop was taken, with its ends and its bytes in every column."""
    frame = result.frame("events")
    frame = frame[frame.kind.isin(["send", "relay", "deliver"])]
    names = ("kind", "party", "peer", "protocol", "step", "type", "round", "payload", "sealing", "envelope")
    found: Counter[tuple[object, ...]] = Counter()
    for row in frame.itertuples():
        found[tuple(getattr(row, name) for name in names)] += max(1, int(row.value))
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_messages_bytes_and_time_of_a_hollow_run_equal_the_real_run(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    settings = [f"protocol.hamming={variant.split()[0]}", *VARIANTS[variant]]
    sized, real = run_hollow_and_real(quick, tmp_path, monkeypatch, settings)
    assert (sized.outcome, sized.fidelity, sized.unmet) == ("completed", "sized", [])
    names = ("message_count", "bytes_total", "bytes_payload", "bytes_sealing", "bytes_envelope", "lost")
    for name in names:
        assert getattr(sized, name) == getattr(real, name), name
    assert hops(sized) == hops(real)
    assert byte_rows(sized.folder) == byte_rows(real.folder)
    assert sized.virtual_seconds == pytest.approx(real.virtual_seconds, rel=1e-9)


def test_outputs_of_a_hollow_run_state_its_fidelity(
    quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MOST_POINTS", 1)
    sets = [part for text in (*SMALL, *CALM, "fidelity=sized") for part in ("--set", text)]
    text = printed("run", quick, *sets, "--out", tmp_path / "run")
    assert "fidelity  sized: real sizes, modelled times, no results" in text
    assert "no point gets a label" in text and "accuracy" not in text
    lines = printed("bytes", tmp_path / "run").splitlines()
    assert lines[0].endswith("(sized)") and any(line.startswith("total") for line in lines)
    assert "PlainBits" in printed("events", tmp_path / "run") or printed("report", tmp_path / "run")


@pytest.mark.parametrize(
    "changes",
    [
        ["fidelity=real"],
        ["fidelity=sized", "network.loss=0.01"],
        ["fidelity=sized", "fault=[{kind='crash', at='hamming.encode', party='client/1'}]"],
    ],
)
def test_only_large_sized_runs_are_hollow(quick: Path, monkeypatch: pytest.MonkeyPatch, changes: list[str]) -> None:
    monkeypatch.setattr(checks, "MOST_POINTS", 1)
    assert uses_hollow_values(quick, [*SMALL, *CALM, "fidelity=sized"])
    assert not uses_hollow_values(quick, [*SMALL, *CALM, *changes])


def uses_hollow_values(quick: Path, settings: list[str]) -> bool:
    """True if a run of the scenario with these settings uses hollow values."""
    scenario = read(quick, settings).scenario
    return checks.is_hollow(scenario, named(split_data(scenario)[1]))
