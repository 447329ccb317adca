"""Which modules a command imports: those of what it uses."""

import subprocess
import sys
from pathlib import Path

import pytest

from tacit.scenarios.schema.keys import keys, named, of_all
from tests.tree import ROOT

_PROGRAM = """
import sys
from tacit.scenarios.running.runner import run
from tacit.scenarios.files.reading import load
result = run(load(sys.argv[1], sys.argv[3:]), out=sys.argv[2])
assert result.outcome == "completed", result.reason
print(*sorted(name for name in sys.modules if name.startswith("tacit.protocols.")))
"""


def loaded(folder: Path, scenario: str, *changes: str) -> set[str]:
    """The modules of protocols that a run of `scenario` imports."""
    command = [sys.executable, "-c", _PROGRAM, scenario, str(folder / "run"), *changes]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name.removeprefix("tacit.protocols.") for name in found.stdout.split()}


OTHERS = ("cells.cells", "flower.flower", "cotraining.fedct")


@pytest.mark.parametrize(
    "scenario, changes",
    [
        ("xclp-digits", ("data.limit=60", "protocol.hamming=plaintext")),
        ("training-phones", ("training.rounds=1",)),
    ],
)
def test_a_run_imports_no_program_of_another_family(scenario: str, changes: tuple[str, ...], tmp_path: Path) -> None:
    found = loaded(tmp_path, scenario, *changes)
    assert found.isdisjoint(OTHERS), sorted(found.intersection(OTHERS))


def test_the_keys_of_all_protocols_are_those_that_no_protocol_lists() -> None:
    general = {key.name for key in keys() if not key.protocols and "." in key.name}
    assert of_all() == general
    assert named() == {key.name for key in keys() if key.protocols != ("flower",)}


FAMILIES = ("cells", "cotraining", "federated", "flower", "xclp")


def test_a_run_of_a_plugins_protocol_imports_keys_of_families_alone(tmp_path: Path) -> None:
    found = loaded(tmp_path, str(ROOT / "examples" / "secure_variance.toml"))
    own = {name for name in found if name.partition(".")[0] in FAMILIES}
    assert {name.partition(".")[2] for name in own} <= {"", "keys", "registry"}, sorted(own)


_COMMAND = """
import sys
from tacit.scenarios.command import run as command
from tacit.scenarios.command.main import app
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.runner import run
loaded = read(sys.argv[1], sys.argv[3:])
loaded.without_effect()
result = run(loaded.scenario, out=sys.argv[2])
assert result.outcome == "completed", result.reason
print(*sorted(name for name in sys.modules if name.partition(".")[0] == "tacit"))
assert loaded.scenario.protocol.name != "fedavg" or not result.model().training
"""

PLAIN = """
[data]
limit = 120
clients = 4
[protocol]
name = "fedavg"
[training]
rounds = 2
"""


@pytest.mark.parametrize("scenario, most", [("plain", 180), ("variance", 206)])
def test_a_run_imports_few_modules(scenario: str, most: int, tmp_path: Path) -> None:
    """The modules of a command that runs plain FedAvg, or a plugin's protocol, inline."""
    file = ROOT / "examples" / "secure_variance.toml"
    if scenario == "plain":
        file = tmp_path / "plain.toml"
        file.write_text(PLAIN)
    command = [sys.executable, "-c", _COMMAND, str(file), str(tmp_path / "run"), "engine=inline"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert len(found) <= most, (len(found), found)
