"""The end of the process of a command that has done its work."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_HELD = """
import atexit
class Held:
    def __del__(self):
        print("freed", flush=True)
held = Held()
atexit.register(print, "at exit")
"""
_MAIN = "from tacit.__main__ import main\n"
_THREAD = "import threading\nthreading.Thread(target=threading.main_thread().join).start()\n"
_APP = "import sys, types\nsys.modules['flwr'] = types.ModuleType('flwr')\nmain()"
_PLUGIN = _APP.replace("flwr", "tacit.sim.plugged.mine")
_OTHER = "import os\n__file__ = os.path.join(os.path.dirname(__file__), 'other.py')\nmain()"
_CALLED = "def called():\n    main()\ncalled()"


def ended(code: str, *words: str, output: int = subprocess.PIPE) -> tuple[int, list[str]]:
    """The exit code of a command, and its last two lines."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "tacit"
        script.write_text(_HELD + _MAIN + code)
        command = [sys.executable, str(script), *words]
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, (done.stdout or "").splitlines()[-2:]


@pytest.mark.parametrize(("words", "code"), [(["list"], 0), (["run", "no-such-scenario"], 2)])
def test_a_command_ends_without_freeing_its_objects(words: list[str], code: int) -> None:
    found, lines = ended("main()", *words)
    assert found == code and lines[-1] == "at exit"


@pytest.mark.parametrize("code", [_THREAD + "main()", _CALLED, _OTHER, _APP, _PLUGIN])
def test_a_process_with_other_work_ends_as_any_other(code: str) -> None:
    """Another thread, a caller within a program, an app of Flower or a plugin may have files that are not flushed."""
    assert ended(code, "list") == (0, ["at exit", "freed"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_flushed_is_not_lost_silently() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", _MAIN + "main()", "steps", "xclp"], stdout=full, check=False)
    assert done.returncode != 0
