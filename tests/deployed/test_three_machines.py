"""The ten commands of docs/deploying.md on three machines, which are network namespaces."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.benchmarks.reality.lab import Line, open_lab, unavailable

PAGE = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text(encoding="utf-8")
MACHINES = ("hospital", "north", "south")
TACIT = [sys.executable, "-m", "tacit"]


def commands() -> list[tuple[str, str]]:
    """The machine and the command of each line of the page's first block."""
    block = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)[0]
    return [(line.partition("$ ")[0], line.partition("$ ")[2]) for line in block.splitlines()]


def test_the_page_has_ten_commands_on_three_machines() -> None:
    assert len(commands()) == 10
    assert {machine for machine, _ in commands()} == set(MACHINES)


@pytest.mark.long
@pytest.mark.skipif(bool(unavailable()), reason="needs network namespaces")
def test_the_ten_commands_carry_out_a_run_on_three_machines(tmp_path: Path) -> None:
    homes = {machine: tmp_path / machine for machine in MACHINES}
    for home in homes.values():
        home.mkdir()
    going: dict[str, subprocess.Popen[bytes]] = {}
    with open_lab(dict.fromkeys(MACHINES, Line(0.005, 100e6, 100e6))) as lab:
        for machine, command in commands():
            words, home = (
                shlex.split(command.replace("192.0.2.1", lab.address("hospital")).removesuffix("&")),
                homes[machine],
            )
            if words[0] == "scp":
                if machine in going:
                    assert going.pop(machine).wait(200) == 0
                _copy(words[1:], home, homes)
            elif command.endswith("&"):
                going[machine] = lab.start(machine, [*TACIT, *words[1:]], cwd=home)
            else:
                if machine in going:
                    assert going.pop(machine).wait(200) == 0
                lab.run(machine, [*TACIT, *words[1:]], cwd=home, check=True, timeout=200)
    assert (homes["hospital"] / "runs" / "fedct-digits-1-1" / "report.html").is_file()


def _copy(words: list[str], home: Path, homes: dict[str, Path]) -> None:
    """Copy like scp, between the home folders of machines."""
    *sources, target = (word for word in words if not word.startswith("-"))
    for source in sources:
        if "-r" in words:
            shutil.copytree(home / source, homes[target.rstrip(":")] / source)
        else:
            shutil.copy(home / source, homes[target.rstrip(":")])
