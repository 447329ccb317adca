"""Partitions by firewalls in network namespaces, and by the router between them: equal to the simulator's partition."""

import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tacit.benchmarks.reality.deployed import LinkSetting, deploy
from tacit.benchmarks.reality.lab import unavailable
from tacit.scenarios.files.reading import load
from tacit.scenarios.files.result import Result
from tacit.scenarios.running.runner import run
from tests.deployed.test_processes import XCLP, endings_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(unavailable()), reason="needs network namespaces"),
]

LINKS = LinkSetting("slow", 500, 100)
CUT = 0.2  # seconds after the run began, while the first message of the server is in flight
CHANGES = [*XCLP, *LINKS.changes]
WAYS = (("client/2", "server"), ("server", "client/2"))


def no_firewall() -> bool:
    """True if nftables are missing, or the kernel has none."""
    return shutil.which("nft") is None or subprocess.run(["nft", "list", "tables"], capture_output=True).returncode != 0


BY = [pytest.param("firewall", marks=pytest.mark.skipif(no_firewall(), reason="needs nftables")), "router"]
RULES = """
table inet parted {{
    chain sent {{
        type filter hook output priority 0; policy accept;
        ip daddr {} drop
    }}
}}
"""


def deployed_run(path: Path, by: str, deadline: str, *options: str, heals_after: float | None = None) -> Result:
    """A deployed run in which `client/2` is cut off while the first message to it is in flight.

    With `firewall`, machines drop the packets that they would send each other; the `router` drops packets on the way.
    """
    changes = [*CHANGES, f"protocol.deadline={deadline}", "fault=[]"]

    def cut(lab: Any) -> None:
        for sender, receiver in WAYS:
            if by == "router":
                lab.cut(sender, receiver)
            else:
                lab.run(sender, ["nft", "-f", "-"], input=RULES.format(lab.address(receiver)), text=True, check=True)

    def heal(lab: Any) -> None:
        for sender, receiver in WAYS:
            if by == "router":
                lab.heal(sender, receiver)
            else:
                lab.run(sender, ["nft", "delete", "table", "inet", "parted"], check=True)

    def happens(lab: Any, line: str) -> None:
        if "the run begins" in line:
            threading.Timer(CUT, cut, [lab]).start()
            if heals_after is not None:
                threading.Timer(CUT + heals_after, heal, [lab]).start()

    path.mkdir()
    words = ["xclp-digits", *(word for text in changes for word in ("--set", text)), *options]
    return deploy(load("xclp-digits", changes), words, LINKS, path, print, happens)


def simulated_run(path: Path, deadline: str, fault: str) -> Result:
    """The same run in the simulator, whose first message arrives after 2.5 s because it sets up the connection."""
    table = f'fault=[{{kind="partition", party="client/2", time="2.51s"{fault}}}]'
    return run(load("xclp-digits", [*CHANGES, f"protocol.deadline={deadline}", table, "expect.lost=[]"]), out=path)


@pytest.mark.parametrize("by", BY)
def test_a_client_behind_a_partition_is_lost_as_in_the_simulator(by: str, tmp_path: Path) -> None:
    real, expected = (
        deployed_run(tmp_path / "real", by, "5s", "--idle", "4"),
        simulated_run(tmp_path / "simulated", "5s", ""),
    )
    assert endings_of(real) == endings_of(expected)
    assert real.labels_digest == expected.labels_digest
    assert [loss.party for loss in real.lost] == ["client/2"]


@pytest.mark.parametrize("by", BY)
def test_a_short_partition_loses_no_client_as_in_the_simulator(by: str, tmp_path: Path) -> None:
    real = deployed_run(tmp_path / "real", by, "20s", heals_after=1.0)
    expected = simulated_run(tmp_path / "simulated", "20s", ', lasts="1s"')
    assert endings_of(real) == endings_of(expected)
    assert real.labels_digest == expected.labels_digest
    assert not real.lost
