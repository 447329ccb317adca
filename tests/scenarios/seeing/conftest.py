"""Runs for tests of timelines in a browser."""

from pathlib import Path

import pytest

from tacit import load, run

FAULTS = (
    'fault=[{kind="crash", party="client/2", at="hamming.evaluate", back_after="1s"}, '
    '{kind="lose", message="RoundStart", peer="client/0"}, '
    '{kind="partition", party="client/1", peer="client/3", time="20ms", lasts="1s"}]'
)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, quick_text: str) -> Path:
    """The folder of a run with a crash, a return, a cut link, and messages that are lost and sent again."""
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "quick.toml").write_text(quick_text)
    changes = ["expect={}", "protocol.deadline=10s", "network.loss=0.1", FAULTS]
    return run(load(folder / "quick.toml", changes), out=folder / "out").folder
