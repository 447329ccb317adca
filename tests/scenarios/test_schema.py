"""Scenario files: every mistake is one line with the file, the key and the allowed values."""

import re
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit import (
    CollusionKeys,
    Data,
    Fault,
    Network,
    ProtocolKeys,
    Scenario,
    ScenarioError,
    SumKeys,
    Training,
    load,
    run,
    sweep,
)
from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.files.checks import check
from tacit.scenarios.files.reading import checked, read, unused
from tacit.scenarios.files.shipped import shipped
from tacit.scenarios.schema.keys import keys
from tacit.scenarios.schema.scenario import as_table


def refusal(path: Path, text: str, *changes: str) -> str:
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        load(path, changes)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(f"{path}: ", "")


def test_a_file_with_one_key_is_a_scenario_with_all_defaults(tmp_path: Path) -> None:
    path = tmp_path / "seed.toml"
    path.write_text("seed = 1")
    scenario = load(path)
    assert scenario.data.name == "digits"
    assert (scenario.protocol.k, scenario.protocol.key_bits, scenario.network.topology) == (10, 2048, "star")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data\n", r"line 1, column 6: not TOML: "),
        ("seed = 1\nseed = 2", r"line 2: not TOML: "),
        ("[protocl]", r"protocl: unknown key; did you mean protocol\?; allowed: title, name, seed, .*"),
        ("[protocol]\nkk = 1", r"protocol\.kk: unknown key; did you mean k\?; allowed: name, hamming, .*"),
        ("k = 1", r"k: unknown key; did you mean protocol\.k\?; .*"),
        ("[[fault]]\noccurence = 1", r"fault\.0\.occurence: unknown key; did you mean occurrence\?; .*"),
        ("[protocol]\nk = 1900", r"protocol\.k: 1900 is too large; allowed: 1 to 1796 \(n - 1\)"),
        ("[protocol]\nk = 0", r"protocol\.k: 0 is too small; allowed: 1 or more"),
        ("[protocol]\nk = 1.5", r"protocol\.k: 1\.5 is not a whole number; .*"),
        ('[protocol]\nk = "a"', r'protocol\.k: "a" is of the wrong kind; allowed: a whole number, 1 or more'),
        ("[protocol]\nk = true", r"protocol\.k: true is of the wrong kind; .*"),
        ("[protocol]\nbits = 70000", r"protocol\.bits: 70000 is too large; allowed: 8 to 65536"),
        ("[protocol]\nalpha = 1.0", r"protocol\.alpha: 1\.0 is too large; allowed: above 0, below 1"),
        ("[protocol]\nalpha = nan", r"protocol\.alpha: nan is not a finite number"),
        ('[protocol]\nhamming = "pailier"', r"protocol\.hamming: .*; did you mean paillier\?"),
        ("[protocol]\nkey_bits = 512", r"protocol\.key_bits: 512 is insecure; .*insecure_keys = true"),
        ("[protocol]\nkey_bits = 777", r"protocol\.key_bits: 777 .*: 512, 1024, 2048, 3072"),
        (
            '[protocol]\nname = "xcpl"',
            r'protocol\.name: "xcpl" is not known; allowed: xclp, .*; did you mean xclp\?',
        ),
        ("[protocol]\nthreshold = 1", r"protocol\.threshold: 1 is too small; allowed: 2 or more"),
        ("[protocol]\nthreshold = 11", r"protocol\.threshold: 11 is too large; allowed: 2 to 10 \(the clients\)"),
        ('[protocol]\nrecovery = "secur"', r"protocol\.recovery: .*; did you mean secure\?"),
        ('[protocol]\ndeadline = "0s"', r"protocol\.deadline: 0 s lets no answer arrive; .*"),
        ("protocol = 3", r"protocol: 3 is of the wrong kind; allowed: a table"),
        ("fault = 3", r"fault: 3 is of the wrong kind; allowed: a list of tables, .*"),
        ("[[fault]]\nat = 'lsh.hash'", r'fault\.0\.party: is needed with kind = "crash" and not given'),
        (
            "[[fault]]\nparty = 'client/3'",
            r"fault\.0: exactly one of at, before, after, time, message, share, count says when; given: none",
        ),
        (
            "[[fault]]\nparty = 'client/3'\nat = 'lsh.hash'\ntime = 3",
            r"fault\.0: exactly one of .*given: at and time",
        ),
        (
            "[[fault]]\nparty = 'client/3'\nat = 'hamming.evalute'",
            r'fault\.0\.at: "hamming.evalute" is not a step of a client in xclp; did you mean '
            r"hamming\.evaluate\?; allowed: setup\.keys, setup\.seed, lsh\.hash, .*",
        ),
        (
            "[[fault]]\nparty = 'server'\nafter = 'hamming.evaluate'",
            r"fault\.0\.after: .* is not a step of a server in xclp.*allowed: .*hamming\.collect.*",
        ),
        (
            "[[fault]]\nparty = 'client/10'\nat = 'lsh.hash'",
            r'fault\.0\.party: "client/10" is not a party; allowed: server, client/0 to client/9.*',
        ),
        ("[[fault]]\nparty = 'server'\ntime = '3 ages'", r'fault\.0\.time: "3 ages" is not a duration; .*'),
        ("[data]\nlabeled = 0", r"data\.labeled: 0 is too small; allowed: above 0, at most 1"),
        ("[data]\nlabeled = 0.0001", r"data\.labeled: 0\.0001 leaves no .*labeled point.*"),
        ("[data]\nclients = 2000", r"data\.clients: 2000 is too large for 1797 points; allowed: 1 to 1797"),
        (
            "[data]\nclients = 2",
            r"data\.clients: 2 is too small; allowed: 3 \(protocol\.min_clients\) or more",
        ),
        ("[data]\nlimit = 0", r"data\.limit: 0 is too small; allowed: 1 or more"),
        ("[data]\nname = 'digts'", r"data\.name: .*'digts'.*digits.*"),
        ("[data]\npath = 'no.csv'", r"data\.path: .*no\.csv: .*No such file.*"),
        ("[data]\nname = 'digits'\npath = 'a.csv'", r"data: name and path are both given; .*"),
        ("[data]\npartition = 'iid:3'", r"data\.partition: .*iid, dirichlet:.*"),
        ("[data]\npartition = 'natural'", r"data\.partition: .*digits.*"),
        ("[data]\npartition = 'classes:11'", r"data\.partition: .*10 classes"),
        ("[network]\nlatency = '5 parsec'", r"network\.latency: .*lognormal:40ms,0\.3.*"),
        ("[network]\nbandwidth = '5'", r'network\.bandwidth: "5" is not a rate; .*20Mbit/s.*'),
        ("[network]\nup = 'fast'", r'network\.up: "fast" is not a rate; .*'),
        ("[network]\nloss = 1", r"network\.loss: 1 is too large; allowed: at least 0, below 1"),
        ("[device]\nspeed = 0", r"device\.speed: 0 is too small; allowed: above 0"),
        (
            "cost = 'cheap'",
            r'cost: "cheap" is not known; allowed: free, modelled, modelled:avx512-ifma, measured, replayed:RUN_DIR',
        ),
        ("cost = 'replayed:nowhere'", r"cost: .*nowhere holds no run\.sqlite; .*"),
        ("engine = 'pool:0'", r'engine: "pool:0" is not an engine; allowed: auto, inline, pool:N .*'),
        ("seed = -1", r"seed: -1 is too small; allowed: 0 to \d+"),
        ("[expect]\nlost = ['client/77']", r'expect\.lost: "client/77" is not a party; .*'),
        ("[expect]\nlost = [1]", r"expect\.lost\.0: 1 is of the wrong kind; allowed: text in quotes"),
        ("[expect]\noutcome = 'finished'", r'expect\.outcome: "finished" is not one of the allowed: .*'),
    ],
)
def test_every_mistake_in_a_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    assert re.match(message, refusal(tmp_path / "s.toml", text)), refusal(tmp_path / "s.toml", text)


def test_the_line_begins_with_the_file_and_the_key(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text("[protocol]\nk = 1900")
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: protocol.k: 1900 is too large; allowed: 1 to 1796 (n - 1)"
    assert (caught.value.where, caught.value.key) == (str(path), "protocol.k")


def test_a_missing_file_and_an_unknown_name_are_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"no\.toml: there is no such file"):
        load(tmp_path / "no.toml")
    with pytest.raises(ScenarioError, match=r"did you mean xclp-digits\?"):
        load("xclp-digit")
    with pytest.raises(
        ScenarioError, match=r": holds no scenario\.toml; allowed: a scenario file, or the folder of a run"
    ):
        load(tmp_path)


# --- changes from the command line


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("protocol.k", r"changes \"protocol\.k\": allowed: key=value.*"),
        ("protocol.kk=1", r"changes: protocol\.kk: there is no such key; did you mean protocol\.k\?"),
        (
            "fault[0].at=lsh.hash",
            r"changes: fault\[0\]\.at: there is no such key; the whole list is replaced.*",
        ),
        ("data=3", r"changes: data: 3 is of the wrong kind; allowed: a table"),
        ("data={clints=3}", r"changes: data\.clints: unknown key; did you mean clients\?.*"),
        ("protocol.k=0", r"changes: protocol\.k: 0 is too small; .*"),
        ("protocol.k=many", r'changes: protocol\.k: "many" is of the wrong kind; .*'),
        ("protocol.k=3\nseed=4", r"changes: protocol\.k: .* is of the wrong kind; .*"),
        (
            "network.bandwidth=0",
            r'changes: network\.bandwidth: 0 is of the wrong kind; allowed: text such as "20Mbit/s", above 0, or .*',
        ),
        ("network.latency=5", r'changes: network\.latency: 5 is of the wrong kind; allowed: text such as "40ms" or .*'),
        (
            "network.jitter=[]",
            r'changes: network\.jitter: \[\] is of the wrong kind; allowed: text such as "40ms", or a number.*',
        ),
        ("network.retransmission_timeout=0", r"changes: network\.retransmission_timeout: 0 s sends again .*"),
        (
            "network.transport=udp",
            r'changes: network\.transport: "udp" is not one of the allowed: "tcp", .*',
        ),
        ("name=../elsewhere", r'changes: name: "\.\./elsewhere" names no folder; allowed: letters, digits, - _ \.'),
    ],
)
def test_a_wrong_change_is_refused_in_one_line(tmp_path: Path, change: str, message: str) -> None:
    assert re.match(message, refusal(tmp_path / "s.toml", "", change))


def test_a_changed_value_is_read_as_toml_or_as_plain_text(quick: Path) -> None:
    scenario = load(
        quick,
        [
            "protocol.k=5",
            "network.latency=lognormal:40ms,0.3",
            'title="x y"',
            "data.limit=50",
            "expect.lost=[]",
        ],
        seed=9,
    )
    assert (scenario.protocol.k, scenario.title, scenario.data.limit, scenario.seed) == (5, "x y", 50, 9)
    assert scenario.network.latency == "lognormal:40ms,0.3"


def test_a_change_replaces_a_whole_table(quick: Path) -> None:
    expect = load(quick, ["expect={}", "expect.lost=['client/1']"]).expect
    assert (expect.outcome, expect.lost) == (None, ("client/1",))


def test_a_change_replaces_a_whole_list_of_tables() -> None:
    assert len(load("xclp-digits").fault) == 1
    assert load("xclp-digits", ["fault=[]"]).fault == ()
    fault = load("xclp-digits", ['fault=[{party="client/1", after="lsh.hash"}]']).fault
    assert fault == (Fault(party="client/1", after="lsh.hash"),)


def test_a_changed_data_path_removes_the_name_of_the_file(
    tmp_path: Path, quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_points(elsewhere / "own.csv")
    monkeypatch.chdir(elsewhere)  # paths on the command line are relative to the current folder
    data = load(quick, ["data.path=own.csv"]).data
    assert (data.name, data.path) == ("", str(elsewhere / "own.csv"))


# --- data files


def write_points(path: Path) -> None:
    rows = (f"{i % 7},{i % 5},{'ab'[i % 2]},{'xyzw'[i % 4]}" for i in range(40))
    path.write_text("\n".join(("u,v,label,client", *rows)) + "\n")


def test_a_path_is_relative_to_the_scenario_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_points(tmp_path / "own.csv")
    (tmp_path / "s.toml").write_text("[data]\npath = 'own.csv'\nclients = 4\nlabeled = 0.5")
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    assert load("../s.toml").data.path.endswith("own.csv")


def test_natural_clients_are_counted_from_the_data_file(tmp_path: Path) -> None:
    write_points(tmp_path / "own.csv")
    natural = "[data]\npath = 'own.csv'\npartition = 'natural'\nlabeled = 0.5\n"
    (tmp_path / "s.toml").write_text(natural)
    assert load(tmp_path / "s.toml").data.clients == 4
    assert load(tmp_path / "s.toml", ["data.clients=3"]).data.clients == 3
    assert re.match(r"data\.clients: 5 must be <= 4", refusal(tmp_path / "s.toml", natural + "clients = 5"))


# --- keys


def test_every_key_says_type_default_and_meaning() -> None:
    rows = keys()
    assert len({row.name for row in rows}) == len(rows) > 40
    for row in rows:
        assert row.type and row.description.endswith("."), row.name
    table = {row.name: row for row in rows}
    assert table["protocol.bits"].type == "a whole number, 8 to 65536"
    assert (table["protocol.bits"].unit, table["protocol.bits"].default) == ("bits", "1024")
    users = ("xclp", "fedavg-then-xclp", "fedavg+xclp", "fedprop", "fedprop+mt")
    assert table["protocol.key_bits"].protocols == users
    assert table["network.latency"].protocols == ()
    assert (table["table.row.N.set"].default, table["data.without_labels"].default) == ("{}", "[]")


def test_keys_of_another_protocol_are_listed_as_unused() -> None:
    raw = {"seed": 1, "protocol": {"name": "other", "k": 3, "rounds": 2}, "data": {"clients": 4}}
    assert unused(raw, "other") == ("protocol.k", "protocol.rounds")
    assert unused(raw, "xclp") == unused(raw, "other", "xclp") == ()


_OF_INTEGERS = "training.averaging=lightsecagg sum.value_bits=12 fault=[] expect={}"


@pytest.mark.parametrize(
    ("file", "changes", "key", "mended"),
    [
        ("fedavg-xclp-digits", ["training.mu=1.0"], "training.mu", "training.update=fedprox"),
        ("xclp-digits", ["protocol.threshold=6"], "protocol.threshold", "protocol.recovery=secure"),
        ("xclp-digits", ["protocol.group=modp-2048"], "protocol.group", "protocol.hamming=naor-pinkas"),
        ("fedct-digits", ["attack.points=100"], "attack.points", "attack.kind=membership"),
        ("fedct-digits", ["byzantine.kind=flipped"], "byzantine.kind", "byzantine.clients=1"),
        ("fedct-digits", ["cotraining.quorum=0.8"], "cotraining.quorum", "cotraining.consensus=qualified"),
        ("fedct-digits", ["sum.tolerated_dropouts=0.1"], "sum.tolerated_dropouts", "cotraining.votes=flamingo"),
        ("fedct-digits", ["protocol.identity=signed"], "protocol.identity", "cotraining.votes=prio3"),
        ("private-cells", ["sum.decryptors=4"], "sum.decryptors", "cells.sum=flamingo"),
        ("private-cells", ["sum.corrupt_clients=0.2"], "sum.corrupt_clients", "cells.sum=committee"),
        ("training-dropouts", ["sum.value_bits=12"], "sum.value_bits", "training.averaging=secure"),
        ("training-secure-average", ["sum.clip=0.5"], "sum.clip", "sum.value_bits=12"),
        ("training-secure-average", ["sum.tolerated_dropouts=0.2"], "sum.tolerated_dropouts", _OF_INTEGERS),
        ("xclp-digits", ["sum.corrupt_clients=0.1"], "sum.corrupt_clients", "protocol.recovery=secure"),
    ],
)
def test_unused_keys_are_listed_with_the_choice_that_uses_them(
    file: str, changes: list[str], key: str, mended: str
) -> None:
    found = read(file, changes)
    assert list(found.needless) == [key]
    assert mended.partition("=")[0] in found.needless[key]
    assert read(file, [*changes, *mended.split()]).needless == {}


@pytest.mark.parametrize("protocol", ["fedct", "pate", "dp-pate"])
def test_keys_of_sums_have_an_effect_on_votes_only_in_a_sum_that_reads_them(protocol: str) -> None:
    """Tacit accepted the keys of sums for these protocols once, whatever counted the votes."""
    changes = [f"protocol.name={protocol}", "sum.tolerated_dropouts=0.1", "sum.decryptor_rounds=3", "sum.clip=1.0"]
    plain, flamingo = (read("fedct-digits", [*changes, *more]) for more in ([], ["cotraining.votes=flamingo"]))
    assert "sum.clip" in plain.unused and "sum.clip" in flamingo.unused  # votes are no numbers of a model
    assert {*plain.needless} == {"sum.tolerated_dropouts", "sum.decryptor_rounds"} and not flamingo.needless
    assert plain.needless["sum.decryptor_rounds"] == 'cotraining.votes = "flamingo"'


MOVED = {f"training.{key}": f"sum.{key}" for key in SumKeys.__struct_fields__}
MOVED |= {f"protocol.{key}": f"sum.{key}" for key in CollusionKeys.__struct_fields__}


@pytest.mark.parametrize("old", MOVED)
def test_a_former_key_is_an_error_that_names_the_new_one(tmp_path: Path, old: str) -> None:
    table, _, key = old.partition(".")
    problem = re.escape(f"{old}: this key is now {MOVED[old]}")
    head = "" if table == "protocol" else f"[{table}]\n"
    (tmp_path / "s.toml").write_text(f'[protocol]\nname = "fedavg"\n{head}{key} = 0.5\n')
    with pytest.raises(ScenarioError, match=rf"s\.toml: {problem}$"):
        load(tmp_path / "s.toml")
    with pytest.raises(ScenarioError, match=rf"^changes: {problem}$"):
        load("xclp-digits", [f"{old}=0.5"])
    with pytest.raises(ScenarioError, match=problem):
        sweep(load("xclp-digits"), {old: [0.1, 0.2]}, out=tmp_path / "swept")
    (tmp_path / "t.toml").write_text(
        f'[[table.row]]\nlabel = "a"\n[[table.column]]\nlabel = "b"\nset = {{"{old}" = 1}}'
    )
    with pytest.raises(ScenarioError, match=rf'table\.column\.0\.set: "{re.escape(old)}" is now {MOVED[old]}$'):
        load(tmp_path / "t.toml")
    kind: type[Any] = {"training": Training, "protocol": ProtocolKeys}[table]
    with pytest.raises(TypeError, match=rf"{kind.__name__} has no key '{key}': it is now {re.escape(MOVED[old])}$"):
        kind(**{key: 0.5})
    with pytest.raises(AttributeError, match=rf"{kind.__name__} has no attribute '{key}': it is now {MOVED[old]}$"):
        getattr(kind(), key)


def test_filled_in_defaults_of_a_run_folder_are_not_listed_as_unused(tmp_path: Path) -> None:
    scenario = load("xclp-digits", ["data.limit=240"])
    (tmp_path / "scenario.toml").write_text(tomli_w.dumps(as_table(scenario)))
    assert read(tmp_path).unused == ()
    assert read(tmp_path, ["cotraining.rounds=3"]).unused == ("cotraining.rounds",)


def test_choices_without_secrecy_give_a_caution(quick: Path) -> None:
    assert cautions(load("xclp-digits")) == []
    assert any("plaintext" in line for line in cautions(load(quick)))
    insecure = load("xclp-digits", ["protocol.key_bits=512", "protocol.insecure_keys=true"])
    assert any("insecure" in line for line in cautions(insecure))
    assert any("rows" in line for line in cautions(load("xclp-digits", ["protocol.rows=paper"])))
    shared = ["protocol.recovery=secure", "protocol.threshold=5"]
    assert any("threshold" in line for line in cautions(load("xclp-digits", shared)))
    assert cautions(load("xclp-digits", [*shared[:1], "protocol.threshold=6"])) == []
    assert cautions(load("xclp-digits", shared[:1])) == []


# --- from Python, and back to a file


def test_a_scenario_made_in_python_is_checked_like_a_file() -> None:
    assert checked(Scenario()).data.name == "digits"
    with pytest.raises(ScenarioError, match=r'^scenario: protocol\.k: "x" is of the wrong kind'):
        checked(Scenario(protocol=ProtocolKeys(k="x")))  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match=r"^scenario: network\.latency: "):
        checked(Scenario(network=Network(latency="soon")))
    with pytest.raises(ScenarioError, match=r"^here: data\.clients: "):
        check(Scenario(data=Data(name="digits", clients=1)), "here")


def test_a_resolved_scenario_reads_back_as_itself(tmp_path: Path, quick: Path) -> None:
    for source in ("xclp-digits", quick):
        scenario = load(source)
        again = tmp_path / "again.toml"
        again.write_text(tomli_w.dumps(as_table(scenario)))
        assert load(again) == scenario


def test_all_scenarios_that_come_with_tacit_are_valid() -> None:
    names = shipped()
    assert "xclp-digits" in names
    for name, path in names.items():
        loaded = read(name, without_data=path.parent.name == "tables")  # data of tables need not be on this machine
        assert (loaded.name, loaded.unused, loaded.needless) == (name, (), {})
        assert loaded.scenario.title


NAMES = [key.name for key in keys() if "[]" not in key.name]


def as_toml(tables: list[dict[str, str]]) -> str:
    """A TOML list of tables whose values are texts."""
    bodies = (", ".join(f"{key} = '{value}'" for key, value in table.items()) for table in tables)
    return "[" + ", ".join("{" + body + "}" for body in bodies) + "]"


FAULTS = st.dictionaries(st.sampled_from(["party", "at", "time", "kind"]), st.text(max_size=9))
VALUES = (
    st.integers(-3, 3000).map(str)
    | st.floats().map(str)
    | st.text(max_size=15)
    | st.sampled_from(["[]", "{}", "''", "'\\u0000.csv'"])
    | st.lists(FAULTS, max_size=2).map(as_toml)
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from([*NAMES, "fault", "nonsense", ""]), VALUES)
def test_any_change_gives_a_scenario_or_an_error_in_one_line(quick: Path, key: str, value: str) -> None:
    try:
        scenario = load(quick, [f"{key}={value}"])
    except ScenarioError as error:
        assert "\n" not in str(error) and str(error)
    else:
        assert isinstance(scenario, Scenario)


def test_a_run_that_does_not_fit_into_memory_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    class Little:
        available = 2_000_000

    monkeypatch.setattr("tacit.protocols.xclp.declaration.psutil.virtual_memory", Little)
    with pytest.raises(ScenarioError) as caught:
        load("xclp-digits")
    assert str(caught.value).endswith(
        "data.limit: 1797 points need about 55.2 MB of memory and 2 MB are free; allowed here: 1 to 160"
    )
    assert load("xclp-digits", ["data.limit=103"]).data.limit == 103


def test_a_key_of_local_training_reaches_its_jobs_from_the_struct_that_declares_it(tmp_path: Path) -> None:
    """The schedule reaches its end after the first round. Only with a lowest rate do later rounds train."""
    changes = [
        "protocol.name=fedavg",
        "training.decay_rounds=1",
        "training.rounds=3",
        "fault=[]",
        "expect={}",
        "data.limit=240",
    ]
    still, moving = (
        [
            one.loss
            for one in run(load("training-dropouts", [*changes, *more]), out=tmp_path / f"{len(more)}").round_records
        ]
        for more in ([], ["training.lowest_learning_rate=0.1"])
    )
    assert still[1] == pytest.approx(still[2], rel=1e-4) and moving[2] < 0.98 * moving[1]
