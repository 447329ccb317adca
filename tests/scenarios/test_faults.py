"""[[fault]] tables: the keys that can be combined, and the corresponding faults of the simulator."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Expect, Fault, Scenario, ScenarioError, Training, load
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.fault_checks import faults_of, steps_of
from tacit.scenarios.files.reading import checked
from tacit.scenarios.schema.scenario import ProtocolKeys
from tacit.sim import faults as sim
from tacit.sim.faults import KINDS

HEAD = "[data]\nclients = 4\nlimit = 60\n[protocol]\nhamming = 'plaintext'\nk = 3\n"


def messages_of(scenario: Scenario) -> tuple[str, ...]:
    """The types of messages that may be sent in a run with these choices."""
    return PROTOCOLS[scenario.protocol.name].messages_with(scenario)


def refusal(path: Path, fault: str, head: str = HEAD) -> str:
    """The line with which a scenario with this [[fault]] is refused."""
    path.write_text(f"{head}[[fault]]\n{fault}\n")
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("kind='crahs'\nparty='server'", r'fault\.0\.kind: "crahs" is not one of .*; did you mean crash\?'),
        (
            "party='server'\nat='rowsums.sum'\nfactor=2",
            r'fault\.0\.factor: does not go with kind = "crash", but with slow; allowed: party, at, .*back_after',
        ),
        (
            "kind='hold'\nparty='client/1'\npeer='client/1'\ntime=1\nlasts='2s'",
            r'fault\.0\.peer: "client/1" is the party itself; allowed: another one, or a pattern$',
        ),
        ("kind='lose'\nparty='server'\npeer='server'", r'fault\.0\.peer: "server" is the party itself'),
        ("kind='delay'\nby='0s'", r'fault\.0\.by: "0s" is too short; allowed: more than 0 s$'),
        ("kind='corrupt'\nlasts='2s'", r"fault\.0\.lasts: needs time, from which on it lasts"),
        (
            "kind='lose'\nat='lsh.hash'",
            r'fault\.0\.at: does not go with kind = "lose", but with crash, power, leave, pause, .*',
        ),
        ("kind='availability'\nfile='a.csv'\nparty='client/1'", r'fault\.0\.party: does not .*"availability".*'),
        ("kind='crash'\nat='lsh.hash'", r'fault\.0\.party: is needed with kind = "crash" and not given'),
        ("kind='pause'\nparty='client/1'\ntime=1", r'fault\.0\.lasts: is needed with kind = "pause" and not given'),
        ("kind='slow'\nparty='client/1'\ntime=1", r"fault\.0\.factor: is needed .*"),
        ("kind='hold'\nparty='client/1'\ntime=1", r"fault\.0\.lasts: is needed .*"),
        ("kind='delay'", r"fault\.0\.by: is needed .*"),
        ("kind='availability'", r"fault\.0\.file: is needed .*"),
        ("kind='leave'\nparty='client/1'", r"fault\.0: exactly one of at, before, .*count says when; given: none"),
        ("party='client/1'\nat='lsh.hash'\nmessage='Join'", r"fault\.0: exactly one of .*given: at and message"),
        (
            "party='client/1'\nat='lsh.hash'\noccurrence=2\nprobability=0.5",
            r"fault\.0: occurrence and probability are both given; .*",
        ),
        (
            "party='client/1'\ntime=3\nprobability=0.5",
            r"fault\.0\.probability: does not go with time, which comes once; .*: with at, .*, message",
        ),
        ("party='client/1'\ntime=3\nround=2", r"fault\.0\.round: does not go with time, which comes once; .*"),
        ("party='client/1'\nat='lsh.hash'\nround=0", r"fault\.0\.round: 0 is too small; .*"),
        ("kind='availability'\nfile='a.csv'\nround=2", r"fault\.0\.round: does not go with kind = .*"),
        ("party='client/1'\nat='lsh.hash'\nprobability=0", r"fault\.0\.probability: 0 is too small; .*"),
        ("kind='slow'\nparty='client/1'\ntime=1\nfactor=0.5", r"fault\.0\.factor: 0\.5 is too small; .*: 1 or more"),
        ("kind='pause'\nparty='client/1'\ntime=1\nlasts='long'", r'fault\.0\.lasts: "long" is not a duration; .*'),
        ("kind='pause'\nparty='client/1'\ntime=1\nlasts=0", r"fault\.0\.lasts: 0\.0 is too short; .* than 0 s$"),
        ("party='client/1'\ntime=1\nback_after=true", r"fault\.0\.back_after: true is of the wrong kind; .*"),
        ("kind='delay'\nby=[1]", r'fault\.0\.by: \[1\] is of the wrong kind; allowed: text such as "40ms".*'),
        ("party='client/9'\nat='lsh.hash'", r'fault\.0\.party: "client/9" is not a party; .*client/0 to client/3.*'),
        ("party='clint/*'\nat='lsh.hash'", r'fault\.0\.party: "clint/\*" matches no party; .*mean client/\d\?'),
        (
            "kind='partition'\nparty='client/1'\npeer='sever'\ntime=1",
            r'fault\.0\.peer: "sever" is not a party; .*did you mean server\?',
        ),
        ("party='client/*'\nat='lsh.hsh'", r'fault\.0\.at: "lsh\.hsh" is not a step of a client in xclp; did you .*'),
        ("party='*'\nat='lsh.hsh'", r'fault\.0\.at: "lsh\.hsh" is not a step of a server or client in xclp.*'),
        (
            "party='client/1'\nat='rowsums.deal'",
            r'fault\.0\.at: "rowsums\.deal" is not a step with hamming = "plaintext", recovery = "re'
            r'start"; allowed: setup\.keys, .*',
        ),
        (
            "party='client/1'\nafter='rowsums.reveal'",
            r'fault\.0\.after: "rowsums\.reveal" is not a step with hamming = "plaintext", recovery = "restart"; .*',
        ),
        (
            "kind='lose'\nmessage='MaskedRow'",
            r'fault\.0\.message: "MaskedRow" is not a message of xclp with hamming = "plaintext", recovery = "re'
            r'start"; did you mean MaskedRows\?; allowed: .*',
        ),
        ("party='client/1'\nmessage='EncryptedBits'", r'fault\.0\.message: "EncryptedBits" is not a message of .*'),
        ("party='client/1'\nmessage='DealtShares'", r'fault\.0\.message: "DealtShares" is not a message of .*'),
        ("kind='availability'\nfile='no.csv'", r"fault\.0\.file: .*no\.csv: No such file.*"),
        ("party=''\nat='lsh.hash'", r"fault\.0\.party: is needed .*"),
        ("party='client/1'\nat=''", r'fault\.0\.at: "" is not a step of .*'),
    ],
)  # fmt: skip
def test_incompatible_keys_of_a_fault_are_refused_in_one_line(tmp_path: Path, fault: str, message: str) -> None:
    found = refusal(tmp_path / "s.toml", fault)
    assert re.match(message, found), found


def test_a_trace_of_availability_is_read_beside_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, path = tmp_path / "up.csv", tmp_path / "s.toml"
    trace.write_text("party,up,down\nclient/1,0,2min\nclient/1,130,\nclient/2,5,\n")
    path.write_text(f"{HEAD}[[fault]]\nkind = 'availability'\nfile = 'up.csv'\n")
    monkeypatch.chdir("/")
    (fault,) = load(path).fault
    assert fault.file == str(trace)
    made = faults_of(fault, 4)
    assert {(crash.party, crash.time, crash.back_after) for crash in made} == {
        ("client/1", 120.0, 10.0), ("client/2", 0.0, 5.0)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("client/1,5", r"fault\.0\.file: .*up\.csv: line 2: .*"),
        ("client/1,5,3", r"fault\.0\.file: .*up\.csv: line 2: .*client/1.*"),
        ("client/1,soon,", r"fault\.0\.file: .*up\.csv: line 2, column up: .*soon.*"),
        ("client/9,5,6", r"fault\.0\.file: .*client/9.*"),
    ],
)
def test_an_invalid_trace_of_availability_is_refused_in_one_line(tmp_path: Path, rows: str, message: str) -> None:
    (tmp_path / "up.csv").write_text(f"party,up,down\n{rows}\n")
    found = refusal(tmp_path / "s.toml", "kind = 'availability'\nfile = 'up.csv'")
    assert re.match(message, found), found


def test_every_kind_of_fault_has_a_summary_and_known_durations() -> None:
    assert {kind.kind for kind in KINDS.values()} == set(KINDS)
    for kind in KINDS.values():
        assert kind.summary and kind.__doc__
        assert {*kind.when, *kind.needed} <= set(kind.__struct_fields__)
        for field in msgspec.structs.fields(kind):
            assert ("str | float" in str(field.type)) == (field.name in sim.DURATIONS)


def test_a_fault_of_an_older_run_folder_with_empty_keys_of_other_kinds_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    others = "peer='*'\nmessage=''\none_way=false\nfile=''\n"
    path.write_text(f"{HEAD}[[fault]]\nkind='crash'\nparty='client/1'\nat='setup.keys'\n{others}")
    assert load(path).fault == (sim.Crash("client/1", at="setup.keys"),)


def test_kinds_of_faults_are_listed_in_only_two_files() -> None:
    """CONTRIBUTING names the two files: the definition of a kind, and its functions for chaos."""
    root, two = Path(__file__).parents[2], ["scenarios/chaos/fault_kinds.py", "sim/faults.py"]
    rooms = ("sim", "parties", "protocols", "scenarios", "tacit", "docs")
    listing = []
    kinds, classes = "|".join(KINDS), "|".join(kind.__name__ for kind in KINDS.values())
    kind_of = {kind.__name__: name for name, kind in KINDS.items()}
    naming = re.compile(rf"[\"'](?P<kind>{kinds})[\"']|\b(?P<made>{classes})\(")
    for file in sorted(file for room in rooms for file in (root / room).rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        named = {found["kind"] or kind_of[found["made"]] for found in naming.finditer(text)}
        old = file.name == "record_format_1.py"  # it names the kinds of its format
        if len(named) > 4 and not old:  # some kinds are also kinds of events or marks
            listing.append(file.relative_to(root).as_posix())
    assert listing == two
    contributing = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert all(name in contributing for name in two)


def test_keys_of_a_fault_reach_the_simulator_under_their_names() -> None:
    fault = Fault(kind="partition", party="client/1", peer="client/*", after="lsh.hash", one_way=True, lasts="2min")
    assert faults_of(fault, 4) == (
        sim.Partition("client/1", peer="client/*", after="lsh.hash", one_way=True, lasts="2min"),
    )
    fault = Fault(party="client/*", message="Join", probability=0.25, back_after="500ms")
    assert faults_of(fault, 4) == (sim.Crash("client/*", message="Join", probability=0.25, back_after="500ms"),)
    assert faults_of(Fault(kind="delay", by="40ms", occurrence=3), 4) == (sim.Delay(occurrence=3, by="40ms"),)


@pytest.mark.parametrize("place", ["back_after", "file"])
def test_a_returning_server_is_refused_in_protocols_that_define_no_return(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.toml"
    (tmp_path / "up.csv").write_text("party,up,down\nserver,0,6\nserver,8,\n")
    fault = "kind='availability'\nfile='up.csv'" if place == "file" else "party='*'\nat='setup.keys'\nback_after=1"
    path.write_text(f"{HEAD}[[fault]]\n{fault}\n")
    load(path)
    monkeypatch.setattr(PROTOCOLS["xclp"], "server_returns", False)
    with pytest.raises(ScenarioError, match=rf"fault\.0\.{place}: the server of xclp cannot come back.*allowed: "):
        load(path)


VALUES = {
    "party": st.sampled_from(["client/1", "client/*", "server"]),
    "peer": st.sampled_from(["client/2", "server"]),
    "at": st.just("setup.keys"),
    "before": st.just("setup.seed"),
    "after": st.just("setup.keys"),
    "time": st.sampled_from([0.0, "2s"]),
    "message": st.sampled_from(["Join", "RoundStart"]),
    "occurrence": st.integers(1, 3),
    "round": st.integers(1, 3),
    "probability": st.sampled_from([0.5, 1.0]),
    "back_after": st.just("1s"),
    "lasts": st.sampled_from([2.5, "3s"]),
    "factor": st.sampled_from([1.0, 7.5]),
    "by": st.just("1s"),
    "one_way": st.booleans(),
}


@settings(deadline=None)
@given(st.sampled_from([kind for kind in KINDS if kind != "availability"]), st.fixed_dictionaries({}, optional=VALUES))
def test_every_fault_is_refused_in_one_line_or_accepted_by_the_simulator(kind: str, keys: dict[str, object]) -> None:
    """Any choice of keys is either refused in one line, in a file like in Python, or gives a fault of that kind."""
    tables = "{" + ", ".join(f"{key} = {_toml(value)}" for key, value in {"kind": kind, **keys}.items()) + "}"
    changes = [f"fault=[{tables}]", "data.limit=60", "protocol.k=3"]
    try:
        scenario = load("xclp-digits", changes)
    except ScenarioError as error:
        assert "\n" not in str(error) and "fault.0" in str(error)
        with pytest.raises((ValueError, TypeError)):
            scenario = load("xclp-digits", ["data.limit=60", "protocol.k=3"])
            checked(msgspec.structs.replace(scenario, fault=(Fault(kind=kind, **keys),)))
    else:
        own = KINDS[kind].__struct_fields__  # empty keys of other kinds, as in files of older runs, are ignored
        fault = Fault(kind=kind, **{key: value for key, value in keys.items() if key in own})
        assert scenario.fault == (fault,)
        (made,) = faults_of(fault, 10)
        assert made.kind == kind


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def chosen(name: str = "xclp", averaging: str = "plain", **choices: str) -> Scenario:
    protocol = msgspec.convert({"name": name, **choices}, ProtocolKeys)
    return Scenario(protocol=protocol, training=msgspec.convert({"averaging": averaging}, Training))


def test_allowed_steps_and_messages_follow_from_the_choices_of_xclp() -> None:
    restart, shamir = chosen(), chosen(recovery="secure", hamming="iknp")
    assert "rowsums.deal" in steps_of(shamir) and "rowsums.deal" not in steps_of(restart)
    assert set(steps_of(restart)) < set(steps_of(shamir))
    assert set(steps_of(restart, ["server"])) | set(steps_of(restart, ["client"])) == set(steps_of(restart))
    assert {"EncryptedBits", "MaskedRows", "Join", "Dismissed"} <= set(messages_of(restart))
    assert {"Extension", "DealtShares", "Survivors"} <= set(messages_of(shamir))
    assert "EncryptedBits" not in messages_of(shamir) and "DealtShares" not in messages_of(restart)


def test_allowed_steps_and_messages_follow_from_the_choices_of_training() -> None:
    plain, secure = chosen("fedavg"), chosen("fedavg", "secure")
    assert steps_of(plain) == ["train.enroll", "train.open", "train.update", "train.average"]
    assert {*steps_of(secure)} - {*steps_of(plain)} == {
        "setup.keys", "setup.seed", "sum.deal", "sum.mask", "sum.reveal", "sum.collect"
    }  # fmt: skip
    assert "LocalModel" in messages_of(plain) and "LocalModel" not in messages_of(secure)
    assert "MaskedChunk" in messages_of(secure) and "MaskedChunk" not in messages_of(plain)
    across = chosen("fedavg+xclp", hamming="iknp")
    assert {"setup.keys", "hamming.report", "rowsums.mask", "train.label"} <= set(steps_of(across))
    assert "rowsums.deal" in steps_of(chosen("fedprop")) and "rowsums.deal" not in steps_of(across)
    assert {"Extension", "LocalModel", "MaskedRows"} <= set(messages_of(across))
    assert "MaskedRows" not in messages_of(chosen("fedavg+network"))


# --- expectations


@pytest.mark.parametrize(
    ("expect", "message"),
    [
        ("lost = ['client/9 at lsh.hash']", r'expect\.lost: "client/9" is not a party; .*'),
        ("lost = ['client/1 at lsh.hsh']", r'expect\.lost: "lsh\.hsh" is not a step of xclp; did you mean .*'),
        ("lost = ['client/1 in lsh.hash']", r'expect\.lost: "client/1 in lsh\.hash" is not a party; .*'),
        ("lost = ['client/*']", r'expect\.lost: "client/\*" is not a party; .*'),
    ],
)  # fmt: skip
def test_an_invalid_expectation_is_refused_in_one_line(tmp_path: Path, expect: str, message: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f"{HEAD}[expect]\n{expect}\n")
    with pytest.raises(ScenarioError) as caught:
        load(path)
    found = str(caught.value).removeprefix(f"{path}: ")
    assert re.match(message, found), found


def test_expectations_are_read_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f"{HEAD}[expect]\nreason = 'too few'\nlost = ['client/2', 'client/1 at lsh.hash']\n")
    expect = load(path).expect
    assert expect == Expect(reason="too few", lost=("client/2", "client/1 at lsh.hash"))
    assert expect.losses == (("lost", "client/2", ""), ("lost", "client/1", "lsh.hash"))
