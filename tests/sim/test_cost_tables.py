"""Cost tables given by the user."""

import hashlib
from pathlib import Path

import pytest

from tacit.sim.compute import CostTable


def test_a_users_own_cost_table_is_read(tmp_path: Path) -> None:
    file = tmp_path / "costs.toml"
    file.write_text('[machine]\ntext = "mine"\n[seconds]\n"ring.add" = 2e-9\n')
    table = CostTable.load(file)
    assert (table.machine, table.duration({"ring.add": 1e9})) == ("mine", 2.0)
    assert table.digest == hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(KeyError, match=r"no operation 'ring\.multiply'"):
        table.duration({"ring.multiply": 1})


def test_a_processor_replaces_single_figures_of_the_table(tmp_path: Path) -> None:
    file = tmp_path / "costs.toml"
    both = '[machine]\ntext = "mine"\n[seconds]\nadd = 2.0\nsquare = 3.0\n[processors.fast]\nsquare = 0.5\n'
    file.write_text(both)
    work = {"add": 1, "square": 2}
    assert (CostTable.load(file).duration(work), CostTable.load(file, "fast").duration(work)) == (8.0, 3.0)
    with pytest.raises(ValueError, match="not a cost table"):
        CostTable.load(file, "slow")


def test_paillier_is_faster_with_avx512_ifma_and_nothing_else_differs() -> None:
    plain = CostTable.load().seconds
    for processor in CostTable.processors():
        own = CostTable.load(processor=processor).seconds
        assert own.keys() == plain.keys()
        assert {name.partition("-")[0] for name in own if own[name] != plain[name]} == {"paillier"}
        assert all(own[f"paillier-2048.{name}"] < plain[f"paillier-2048.{name}"] / 3 for name in ("encrypt", "decrypt"))


@pytest.mark.parametrize(
    "content",
    ["", "seconds = 3", "[machine]\ntext = 'x'\n[seconds]\na = 'fast'", "[seconds]\na = 1.0", "[seconds", "\xff"],
)
def test_a_file_without_a_cost_table_is_refused_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "costs.toml"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=r"costs\.toml: not a cost table"):
        CostTable.load(file)
