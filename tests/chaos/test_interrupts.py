"""Ctrl-C during Paillier ends the command and all its processes with its own exit code, at any moment."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tacit import scenarios

_PRESSED = """
import os, signal, sys
import tacit.scenarios.command.chaos, tacit.sim.trace
from tacit.__main__ import main
left, of = int(sys.argv[1]), sys.argv[2]
def counting(inner):
    def counted(self, *arguments):
        global left
        inner(self, *arguments)
        left -= 1
        if not left:
            os.killpg(0, signal.SIGINT)  # as a terminal does: to all processes
    return counted
progress = tacit.scenarios.command.chaos.Progressing
owner, name = (tacit.sim.trace.Trace, "add") if of == "event" else (progress, "__call__")
setattr(owner, name, counting(getattr(owner, name)))
sys.argv = ["tacit", *sys.argv[3:]]
if __name__ == "__main__":
    main()
"""

_SMALL = ("xclp-digits", "--set", "data.limit=60", "--set", "protocol.bits=64")
_SHORT = ("--set", "protocol.key_bits=512", "--set", "protocol.insecure_keys=true")
_CASES: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "chaos here": ("event", 20000, ("chaos", *_SMALL, "--quick", "--schedules", "5", "--jobs", "1")),
    "chaos in workers": ("run", 30, ("chaos", *_SMALL, "--quick", "--schedules", "5", "--jobs", "2")),
    "a run with a pool": ("event", 1000, ("run", *_SMALL, *_SHORT, "--engine", "pool:2")),
    "a run on Ray": ("event", 1000, ("run", *_SMALL, *_SHORT, "--engine", "ray")),
    "chaos on Ray": ("run", 30, ("chaos", *_SMALL, "--quick", "--schedules", "5", "--jobs", "ray")),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "seed"), [(case, seed) for case in _CASES for seed in range(1 + ("worker" in case or "pool" in case))]
)
def test_an_interrupt_at_a_random_moment_ends_a_command_without_traceback(tmp_path: Path, case: str, seed: int) -> None:
    if "Ray" in case:
        pytest.importorskip("ray", reason="needs the extra ray")
    counted, most, arguments = _CASES[case]
    place = Random(f"{case} {seed}").randint(1, most)
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _PRESSED, str(place), counted, *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(scenarios.__file__).parents[1])},
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    said = f"the interrupt at {counted} {place}: {ended.stderr}"
    assert ended.returncode == 130, said
    assert "Fatal" not in ended.stderr and "Traceback" not in ended.stderr, said
    assert ("interrupted" in ended.stdout) or ("interrupted" in ended.stderr), said
