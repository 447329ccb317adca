"""Cost tables of one's own."""

import hashlib
from pathlib import Path

import pytest

from sim.compute import CostTable


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "costs.toml"
    file.write_text('[machine]\ntext = "mine"\n[seconds]\n"ring.add" = 2e-9\n')
    table = CostTable.load(file)
    assert (table.machine, table.duration({"ring.add": 1e9})) == ("mine", 2.0)
    assert table.digest == hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(KeyError, match=r"no operation 'ring\.multiply'"):
        table.duration({"ring.multiply": 1})


@pytest.mark.parametrize(
    "content",
    ["", "seconds = 3", "[machine]\ntext = 'x'\n[seconds]\na = 'fast'", "[seconds]\na = 1.0", "[seconds", "\xff"],
)
def test_what_is_no_cost_table_is_refused_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "costs.toml"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=r"costs\.toml: not a cost table"):
        CostTable.load(file)
