"""The places of the bugs that `make mutants` plants still exist."""

import ast
from pathlib import Path

import pytest

from tacit.scenarios.chaos.configurations import CONFIGURATIONS
from tests.mutants.planted import PLANTED, Bug
from tests.mutants.unseen import UNSEEN

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("bug", (*PLANTED, *UNSEEN), ids=lambda bug: bug.name)
def test_every_planted_bug_can_be_applied(bug: Bug) -> None:
    text = (ROOT / bug.file).read_text()
    assert text.count(bug.before) == 1
    assert ast.dump(ast.parse(text.replace(bug.before, bug.after))) != ast.dump(ast.parse(text))
    assert bug.configuration in {one.name for one in CONFIGURATIONS} or (bug in UNSEEN and not bug.configuration)
    assert bug.tests
    for name in bug.tests:
        file, _, test = name.partition("::")
        assert f"def {test}" in (ROOT / file).read_text()


def test_fifty_one_bugs_are_planted_in_four_packages() -> None:
    assert (len(PLANTED), len(UNSEEN), len({bug.name for bug in (*PLANTED, *UNSEEN)})) == (20, 31, 51)
    assert {bug.file.partition("/")[0] for bug in PLANTED} == {"sim", "parties", "protocols", "scenarios"}
