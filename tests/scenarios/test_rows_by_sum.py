"""Sums of rows of XCLP by a secure sum: who takes part, what the server sees, and what does not go together.

`test_any_sum` loses a client at each step, with each sum, in its long tests.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit import load, predict, run
from tacit.protocols.crypto.fixed_point import decode
from tacit.protocols.sums.summing import Chosen
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.schema.scenario import ScenarioError

ROOT = Path(__file__).parents[2]
ROWS = """
seed = 3
engine = "inline"
plugins = ["own_sum.py", "narrow.py"]
[data]
clients = 8
limit = 120
labeled = 0.5
[training]
[sum]
tolerated_dropouts = 0.2
corrupt_clients = 0.1
[protocol]
name = "xclp"
hamming = "plaintext"
bits = 64
k = 3
recovery = "lightsecagg"
deadline = "10s"
"""
NARROW = """
from tacit import add_sum
from tacit.protocols.sums.lightsecagg import LightSecAgg

class Narrow(LightSecAgg):
    def modulus(self, quantised):
        return 1 << 18

add_sum("narrow", "integers below 2^18", Narrow)
"""

Load = Callable[..., Any]


@pytest.fixture
def rows(tmp_path: Path) -> Load:
    """Load the scenario with changes."""
    shutil.copy(ROOT / "examples" / "own_sum.py", tmp_path)
    (tmp_path / "narrow.py").write_text(NARROW)
    (tmp_path / "rows.toml").write_text(ROWS)
    return lambda *changes: load(tmp_path / "rows.toml", changes)


def crash(party: str, step: str, occurrence: int = 1) -> str:
    return f'fault=[{{kind = "crash", party = "{party}", at = "{step}", occurrence = {occurrence}}}]'


@pytest.mark.parametrize("name", ["committee", "two-servers"])
@pytest.mark.parametrize("fault", ["none", "before the sum", "in the sum"])
def test_clients_without_labels_get_their_rows_and_take_no_part_in_the_sum(
    rows: Load, tmp_path: Path, name: str, fault: str
) -> None:
    lost = {
        "none": [],
        "before the sum": [crash("client/7", "rowsums.unmask")],
        "in the sum": [crash("client/1", "setup.keys" if name == "committee" else "split.mask", 1 + (name[0] == "c"))],
    }[fault]
    scenario = rows(f"protocol.recovery={name}", "data.labeled_clients=6", "protocol.rounds=2", *lost)
    result = run(scenario, out=tmp_path / "run")
    assert result.outcome == "completed" and result.equals_plaintext, result.reason
    for record in result.round_records:
        assert {"client/6", "client/7"}.isdisjoint(record.contributors)
    first = result.round_records[0]
    assert "client/6" in first.labeled and ("client/7" in first.labeled) == (fault != "before the sum")
    assert ("client/1" in first.contributors) == (fault != "in the sum")
    if not lost:
        seen = [(row.type, row.messages, row.payload) for row in predict(scenario, seeds=1).rows]
        assert seen == [(row.type, row.messages, row.payload) for row in byte_rows(result.folder)]


@pytest.mark.parametrize(
    ("name", "step", "counts"),
    [
        ("lightsecagg", "sum.mask", False),
        ("lightsecagg", "sum.agree", True),
        ("two-servers", "split.mask", False),
        ("two-servers", "rowsums.unmask", True),
    ],
)
def test_the_server_opens_no_scores_also_of_a_client_that_is_lost(
    rows: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, step: str, counts: bool
) -> None:
    opened: list[np.ndarray] = []
    total = Chosen.total

    async def seen(self: Chosen, me: Any, names: Any) -> Any:
        found = await total(self, me, names)
        opened.append(found.ring)
        return found

    monkeypatch.setattr(Chosen, "total", seen)
    result = run(rows(f"protocol.recovery={name}", crash("client/2", step)), out=tmp_path / "run")
    assert result.outcome == "completed" and result.equals_plaintext
    assert ("client/2" in result.round_records[0].contributors) == counts
    (ring,) = opened
    # Scores are at most 1 / (1 - alpha) = 100 in each labeled column, and at random 1 of 2^20 words is as small.
    assert ring.size > 500 and (np.abs(decode(ring, 32)) > 1000).mean() > 0.99


def test_a_sum_over_too_few_clients_ends_the_round_and_says_so(rows: Load, tmp_path: Path) -> None:
    names = ", ".join(f'{{kind = "crash", party = "client/{j}", before = "split.mask"}}' for j in range(6))
    result = run(
        rows("protocol.recovery=two-servers", "sum.corrupt_clients=0", f"fault=[{names}]"), out=tmp_path / "run"
    )
    assert (result.outcome, result.equals_plaintext) == ("aborted", None)
    assert "2 clients are left; min_clients is 3" in str(result.reason)


def test_a_lost_helper_ends_the_round(rows: Load, tmp_path: Path) -> None:
    lost = 'fault=[{kind = "crash", party = "helper", before = "split.add"}]'
    result = run(rows("protocol.recovery=two-servers", lost), out=tmp_path / "run")
    assert result.outcome == "aborted" and "the helper did not answer" in str(result.reason)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            ["protocol.recovery=narrow"],
            r"protocol\.recovery: narrow adds numbers below 262144, too small for 8 clients",
        ),
        (
            ["protocol.recovery=two-servers", "protocol.groups=2"],
            r"protocol\.groups: 2 groups .* helper serves one sum",
        ),
        (["protocol.recovery=flamingo", "protocol.groups=2"], r"protocol\.groups: 2 groups .* keys of one sum"),
        (
            ["protocol.recovery=two-servers", "protocol.identity=signed"],
            r"protocol\.identity: \"signed\" does not go with protocol\.recovery = \"two-servers\"",
        ),
        (
            ["protocol.recovery=two-servers", "sum.corrupt_clients=0.5", "data.labeled_clients=4"],
            r"protocol\.recovery: \"two-servers\": C = 4 of 8 clients .* needs 6 clients with labels, and 4 have some",
        ),
        (["sum.corrupt_clients=0.8"], r"sum\.corrupt_clients: 0\.8 of 8 clients are C = 7"),
        (["sum.corrupt_clients=0.7"], r"sum\.tolerated_dropouts: 0\.2 of 8 clients is more than"),
        (["protocol.recovery=shamir"], r"protocol\.recovery: \"shamir\" is not one of the allowed: .*\"secure\""),
        (
            ["protocol.name=fedavg+xclp", "training.rounds=1"],
            r"protocol\.recovery: \"lightsecagg\" does not go with training: .*; allowed: restart, secure, secagg\+",
        ),
    ],
)
def test_what_does_not_go_together_is_an_error_that_says_why(rows: Load, changes: list[str], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        run(rows(*changes))


def test_groups_sum_side_by_side(rows: Load, tmp_path: Path) -> None:
    result = run(rows("protocol.groups=2", "protocol.min_clients=2"), out=tmp_path / "run")
    assert result.outcome == "completed" and result.equals_plaintext
    assert len(result.round_records) == 2 and all(len(one.contributors) == 4 for one in result.round_records)
