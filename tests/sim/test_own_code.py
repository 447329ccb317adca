"""The digest of Tacit's code."""

import runpy
import shutil
from pathlib import Path

from tacit import sim
from tacit.sim import own_code


def test_the_digest_depends_on_names_and_contents_of_the_modules(tmp_path: Path) -> None:
    def digest() -> str:
        found = runpy.run_path(str(tmp_path / "sim" / "own_code.py"))["digest"]()
        assert isinstance(found, str)
        return found

    shutil.copytree(Path(sim.__file__).parent, tmp_path / "sim")
    first = digest()
    assert len(first) == 12 and first != own_code.digest()  # three of the folders are missing
    (tmp_path / "sim" / "notes.txt").write_text("not code")
    assert digest() == first
    (tmp_path / "parties").mkdir()
    (tmp_path / "parties" / "late.py").write_text("")
    assert digest() != first
