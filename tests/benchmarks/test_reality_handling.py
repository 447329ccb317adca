"""Tests of the handling times of deployed processes: the scenario that measures them runs, and gives usable numbers."""

from pathlib import Path

import pytest

from tacit.benchmarks.reality.handling import measure_handling, measure_message, write_scenario
from tacit.benchmarks.reality.lab import Line
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.runner import carry_out


def test_messages_travel_to_the_client_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = read(str(write_scenario(tmp_path)), ["protocol.count=3", "protocol.size=50"]).scenario
    result = carry_out(scenario, "parcels", out=tmp_path / "run")
    assert result.outcome == "completed"
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()].count("handled") == 2


@pytest.mark.long  # four processes start
def test_a_message_takes_some_time_and_bytes_take_more() -> None:
    message = measure_message(1)
    handling = measure_handling(Line(), message, 1)
    assert 1e-6 < message < 0.1 and handling.message == message and handling.rate > 1e5
