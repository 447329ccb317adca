"""The conformance suite of sums: every sum that comes with Tacit passes it, and it catches planted mistakes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacit.protocols.sums.registry import SUMS
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.scenarios.command.main import app
from tacit.scenarios.schema.scenario import ScenarioError
from tacit.scenarios.testing import conformance
from tacit.scenarios.testing.conformance import checked
from tacit.testing import CASES, check_sum
from tests.chaos.test_lying_server import SWEPT
from tests.chaos.test_planted_weakenings import (
    guessable_keys,
    mask_reused,
    masks_in_every_attempt,
    second_survivors,
    too_few_clients,
)
from tests.deployed.conftest import warm_parties

__all__ = ["warm_parties"]

pytest.importorskip("torch")

OWN = Path(__file__).parents[3] / "examples" / "own_sum.py"
CHEAP = [
    "equals the oracle", "bytes by formula", "bytes by prediction", "masks are random", "refuses a second sum",
    "networks",
]  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_every_sum_is_exact_counted_masked_and_given_once(name: str) -> None:
    report = check_sum(name, only=CHEAP)
    found = {one.name: one.status for one in report.cases}
    sealed = found["masks are random"] == "not judged"  # shares for a committee
    assert set(found) == set(CHEAP) and list(found.values()).count("passed") == len(CHEAP) - sealed
    assert sealed == (name == "committee")


@pytest.mark.long
@pytest.mark.parametrize("name", SUMS)
def test_every_sum_passes_the_quick_suite(name: str) -> None:
    """The test above has the cheap cases. All that a server may do alone, and more, `test_lying_server` tries on most
    sums; `test_any_sum` loses a client at each step of every sum, so the case for that is carried out on one."""
    elsewhere = [*CHEAP, *(["lying server"] if name in {one.kind for one, _, _ in SWEPT} else [])]
    elsewhere += ["equals the oracle without one client"] * (name != "secure")
    report = check_sum(name, only=[one for one in CASES if one not in elsewhere])
    assert [one.name for one in report.cases] == [one for one in CASES if one not in elsewhere]
    missing = {"deployed", "helper answers once"}
    missing |= {"lying server with colluding clients"} if SUMS[name].proves else set()
    assert {one.name for one in report.cases if one.status != "passed"} == missing


@pytest.mark.long
@pytest.mark.usefixtures("warm_parties")
def test_a_sum_is_deployed_in_the_thorough_mode() -> None:
    assert check_sum("secagg+", thorough=True, only=["deployed"]).cases[0].how == "5 processes"


# --- planted mistakes

MISTAKES = {
    "a dropped mask": (
        "masks are random",
        [
            ("settings.joined(words + await settings.mask(me, [seed]))", "settings.joined(words)"),
            ("settings.joined(mask)", "settings.joined(0 * mask)"),
        ],
        "are not masked",
    ),
    "a pad for all": (
        "masks are random", [('me.entropy("split").bytes(32)', "bytes(32)")], "have the same mask",
    ),
    "a pad for all rounds": (
        "masks are random", [('me.entropy("split").bytes(32)', "me.name.encode().ljust(32)")], "have the same mask",
    ),
    "a pad from public data": (
        "masks are random",
        [("from tacit import BadValues,", "import hashlib\n\nfrom tacit import BadValues,"), (
            'me.entropy("split").bytes(32)',
            'hashlib.sha256(f"{me.name} {me.round}".encode() + me.world.run_id).digest()',
        )],
        "have the same mask",
    ),
    "a seed that is also sent in the open": (
        "masks are random",
        [
            ("await sealed_for(me, group.helper, seed)", "await sealed_for(me, group.helper, seed) + seed"),
            ("one.seed)", "one.seed[:80])"),
        ],
        "the seed of the mask in SplitVector of client/",
    ),
    "a formula that is off": (
        "bytes by formula", [('"SplitVector": n * (words + 80)', '"SplitVector": n * (words + 84)')],
        "SplitVector: 13,840 bytes were sent, and the formula (Sum.payloads) gives 13,880",
    ),
    "a message without a formula": (
        "bytes by formula", [(', "MaskSum": words + names', "")], "MaskSum: ",
    ),
    "a second answer in a round": (
        "refuses a second sum", [("if self.may_mask(me):", "if True:")], "sends masked values again for one round",
    ),
    "a helper that answers again": (
        "helper answers once",
        [
            ("        wanted = await", "        while True:\n          wanted = await"),
            ('with me.step("split.add"):\n            seeds', '  with me.step("split.add"):\n            seeds'),
        ],
        "a server that asks for a second set of clients in SplitSeeds: the helper answers with MaskSum",
    ),
    "a helper that adds any number": (
        "helper answers once", [("if len(seeds) < self.least_of(settings):", "if not seeds:")],
        "a server that asks for fewer clients than the least",
    ),
    "a helper that counts what it cannot open": (
        "helper answers once", [("if len(seeds) <", "if len(wanted.seeds) <")],
        "a server that puts the content of one client under every name",
    ),
    "a wrong modulus": (
        "equals the oracle", [("settings.reduced(total)", "total & (2**63 - 1)")], "round 1: the sum is not that",
    ),
    "a survivor that is left out": (
        "equals the oracle",
        [('me.send("helper", SplitSeeds', 'sent.popitem(); me.send("helper", SplitSeeds')],
        "4 of 5 clients are in the sum, and 5 should be",
    ),
    "bytes that depend on the content": (
        "bytes by prediction", [("settings.joined(mask)", "settings.joined(mask).rstrip(b'\\0') + bytes(mask[0] % 2)")],
        "",
    ),
}  # fmt: skip


def planted(folder: Path, changes: list[tuple[str, str]]) -> Path:
    """A copy of the example with its text changed."""
    text = OWN.read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / "planted.py"
    path.write_text(text)
    return path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_sum_of_ones_own_is_caught(mistake: str, tmp_path: Path) -> None:
    case, changes, how = MISTAKES[mistake]
    (found,) = checked(planted(tmp_path, changes), only=[case]).cases
    assert found.status == "failed" and how in found.how, found
    assert f'--case "{case}"' in found.repeat


def test_the_unchanged_sum_has_none_of_these_mistakes() -> None:
    cases = list(dict.fromkeys(case for case, _, _ in MISTAKES.values()))
    assert [one.status for one in checked(OWN, only=cases).cases] == ["passed"] * len(cases)


def test_a_server_that_never_asks_again_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    once = {words: requests[:1] for words, requests in conformance.REQUESTS.items()}
    monkeypatch.setattr(conformance, "REQUESTS", once)
    (found,) = checked("secure", only=["refuses a second sum"]).cases
    assert found.status == "failed" and "no repeated request reached a client" in found.how


JUDGED = '''
from tacit.protocols.sums.lying.base import LinearView, Lying
from tacit.protocols.sums.lying.relations import Relation


class View(LinearView):
    """A masked vector is an input and a mask, and the helper sends a sum of masks."""

    def __init__(self, world, server, clients, colluding):
        super().__init__(world, server, (SplitVector, MaskSum), colluding)
        self.clients, self.seeds = {one.name: one for one in clients}, {}

    def computed(self, party, step, arguments, result):
        if step == "split.mask" and party in self.clients and len(arguments) == 3:
            (seed, _), = arguments[0]
            self.keys.add(seed)
            self.seeds[party] = seed, self.clients[party].model

    def relation(self, sender, message):
        if isinstance(message, MaskSum):
            return Relation({}, {(self.seeds[name][0], 0): 1 for name in message.names})
        seed, model = self.seeds[sender]
        return Relation({(sender, model, 0): 1}, {(seed, 0): 1})


class LyingToHelper(Lying):
    def view(self, world, server, clients, values):
        return View(world, server, clients, self.setting.corrupt)


TwoServers.lying = LyingToHelper
'''
"""The addition by which a lying server of a sum of one's own is judged (docs/howto/check-sum.md)."""

LYING = ["lying server", "lying server with colluding clients"]


def test_a_lying_server_of_a_sum_of_ones_own_is_judged_by_the_view_that_it_gives(tmp_path: Path) -> None:
    path = planted(tmp_path, [("\n\nadd_sum(", f"\n{JUDGED}\n\nadd_sum(")])
    found = checked(path, only=LYING)
    assert not found.failed and [one.status for one in found.cases] == ["passed"] * 2
    assert "1 clients that collude" in found.cases[1].how
    weak = [("\n\nadd_sum(", f"\n{JUDGED}\n\nadd_sum("), ('me.entropy("split").bytes(32)', "bytes(32)")]
    (one,) = checked(planted(tmp_path, weak), only=LYING[:1]).cases
    assert one.status == "failed" and "no client's input" in one.how


def test_without_a_view_a_lying_server_is_plainly_not_judged() -> None:
    report = checked(OWN, only=LYING)
    for one in report.cases:
        assert one.status == "not judged" and "does not say what a lying server knows" in one.how
        assert "are no evidence that the sum hides inputs" in one.how
    assert "caution: no lying server was judged" in str(report)


def test_a_sum_without_a_helper_is_not_judged_by_its_helper() -> None:
    report = checked("secure", only=["helper answers once"])
    assert [(one.status, one.how) for one in report.cases] == [("not judged", "the sum has no helper")]
    assert not report.caution


WEAKENED = [second_survivors, masks_in_every_attempt, mask_reused, too_few_clients, guessable_keys]


@pytest.mark.long
@pytest.mark.parametrize("plant", WEAKENED, ids=lambda plant: plant.__name__)
def test_a_weakened_sum_is_caught(plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one of these cases at least: the first that fails ends the test."""
    plant(monkeypatch)
    cases = ("masks are random", "refuses a second sum", "lying server", "lying server with colluding clients")
    assert any(checked("secure", only=[case]).failed for case in cases)


# --- the interface


def test_a_failed_check_is_one_readable_message(tmp_path: Path) -> None:
    path = planted(tmp_path, MISTAKES["a formula that is off"][1])
    with pytest.raises(AssertionError) as caught:
        check_sum(path, only=["bytes by formula"])
    text = str(caught.value)
    assert "check of the sum 'two-servers'" in text and "failed     bytes by formula: SplitVector" in text
    assert f'repeat: tacit check-sum {path} --case "bytes by formula" --seed 1' in text


def test_a_class_in_no_registry_is_checked_and_leaves_none_behind() -> None:
    class Mine(SecAgg):
        name = "mine"

    report = check_sum(Mine, only=["bytes by formula"])
    assert (report.sum, report.cases[0].status) == ("mine", "passed") and "mine" not in SUMS


def test_the_command_prints_a_table_and_fails_with_1(tmp_path: Path) -> None:
    path, file = planted(tmp_path, MISTAKES["a formula that is off"][1]), tmp_path / "found.json"
    done = CliRunner().invoke(app, ["check-sum", str(path), "--case", "bytes by formula", "--json", str(file)])
    assert done.exit_code == 1, done.output
    assert "two-servers" in done.output and "FAILED" in done.output and "0 passed, 1 failed" in done.output
    assert json.loads(file.read_text())["cases"][0]["status"] == "failed"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nothing.py"], "there is no such file"),
        (["nothing"], "is no sum; allowed: "),
        (["secure", "--case", "nothing"], "is no case of the check of a sum; allowed: equals the oracle"),
        (["secure", "--set", "training.nothing=1"], "training.nothing"),
        ([str(OWN.parent / "fedadam.py")], "adds 0 sums (none)"),
    ],
)
def test_a_users_mistake_is_one_line_with_exit_code_2(arguments: list[str], problem: str) -> None:
    done = CliRunner().invoke(app, ["check-sum", *arguments])
    assert done.exit_code == 2 and problem in " ".join(done.output.split()), done.output
    assert "Traceback" not in done.output


def test_an_unknown_sum_is_refused_in_python() -> None:
    with pytest.raises(ScenarioError, match="is no sum"):
        check_sum("nothing")
