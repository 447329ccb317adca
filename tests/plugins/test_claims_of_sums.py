"""What a user's sum claims to do with signatures and noise, and does not, is refused."""

from pathlib import Path

import pytest

from tacit import Sum, load
from tacit.scenarios.schema.scenario import ScenarioError

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_sum.py"
VOTES = """
seed = 1
plugins = ["claims.py"]

[data]
name = "digits"
clients = 5
limit = 200

[public]
size = 12

[protocol]
name = "fedct"

[cotraining]
votes = "two-servers"
rounds = 1
"""


def votes_by(tmp_path: Path, claims: str, further: str) -> Path:
    """A scenario of votes by the sum of the example, which makes `claims`; `further`: tables."""
    text = EXAMPLE.read_text()
    assert "    uses = ()\n" in text
    (tmp_path / "claims.py").write_text(text.replace("    uses = ()\n", claims))
    file = tmp_path / "votes.toml"
    file.write_text(VOTES + further)
    return file


def test_noise_of_the_helper_is_taken_only_from_sums_with_proofs(tmp_path: Path) -> None:
    file = votes_by(tmp_path, "    uses, adds_helpers_noise = (), True\n", "[privacy]\nvotes_epsilon = 20.0\n")
    with pytest.raises(ScenarioError, match=r'privacy\.votes_epsilon: 20 needs .* cotraining\.votes = "prio3"$'):
        load(file)


def test_a_sum_with_proofs_signs_only_if_it_says_so_itself() -> None:
    class Proved(Sum):
        proves, sees_all = True, False

    class Signed(Proved):
        uses = ("protocol.identity",)

    assert not Proved.takes_identities()
    assert Signed.takes_identities()


def test_signed_is_refused_where_the_set_up_is_not_signed() -> None:
    with pytest.raises(ScenarioError, match=r'protocol\.identity: "signed" does not go with private-cells'):
        load("private-cells", ["protocol.identity=signed"])
    found = load("private-cells", ["protocol.identity=signed", "cells.sum=lightsecagg"])
    assert found.protocol.identity == "signed"
