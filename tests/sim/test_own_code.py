"""The digest of Tacit's code."""

import shutil
import subprocess
import sys
from pathlib import Path

import sim
from sim import own_code


def test_the_digest_is_of_the_names_and_contents_of_the_modules(tmp_path: Path) -> None:
    def digest() -> str:
        code = "from sim.own_code import digest; print(digest())"
        return subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True).stdout.strip()

    shutil.copytree(Path(sim.__file__).parent, tmp_path / "sim")
    first = digest()
    assert len(first) == 12 and first != own_code.digest()  # three of the rooms are not there
    (tmp_path / "sim" / "notes.txt").write_text("not code")
    assert digest() == first
    (tmp_path / "parties").mkdir()
    (tmp_path / "parties" / "late.py").write_text("")
    assert digest() not in (first, "")
