"""The JSON Schema of scenario files, compared with Tacit's own checks."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from typer.testing import CliRunner

from tacit.scenarios.command.main import app
from tacit.scenarios.files.converting import converted
from tacit.scenarios.files.json_schema import scenario_schema
from tacit.scenarios.files.reading import read
from tacit.scenarios.files.shipped import shipped
from tacit.scenarios.schema.keys import EACH, keys
from tacit.scenarios.schema.scenario import ClientKeys, Scenario, ScenarioError, as_table
from tacit.sim.faults import KINDS, AnyFault
from tacit.sim.units import DURATION_PATTERN, RATE_PATTERN, duration, rate

ROOT = Path(__file__).parents[2]
SCHEMA = scenario_schema()
VALIDATOR = Draft7Validator(SCHEMA)


def problems(table: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(table)]


def with_value(name: str, value: Any) -> dict[str, Any]:
    """A table of a file with `value` at the key `name`, in the notation of `tacit keys`."""
    table, _, key = name.rpartition(".")
    made: Any = {key: value}
    for part in reversed(table.split(".") if table else []):
        made = [made] if part == EACH else {part: made}
    return made


def test_the_schema_is_valid_and_describes_every_key() -> None:
    Draft7Validator.check_schema(SCHEMA)
    for key in keys():
        place = SCHEMA
        for part in key.name.split("."):
            found = place["items"] if part == EACH else place["properties"][part]
            if "items" in found:
                place = found
                continue
            last = key.name.rpartition(".")[2]
            some = [one for one in found.get("anyOf", ()) if "$ref" in one]
            having = (
                one for one in some if last in SCHEMA["definitions"][one["$ref"].rpartition("/")[2]]["properties"]
            )
            found = next(having) if some else found
            place = SCHEMA["definitions"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found
        assert place["description"].startswith(key.description), key.name


@pytest.mark.parametrize("name", shipped())
def test_the_scenarios_that_come_with_tacit_are_valid(name: str) -> None:
    assert problems(tomllib.loads(shipped()[name].read_text(encoding="utf-8"))) == []


def test_the_file_in_the_folder_of_a_run_is_valid() -> None:
    for name in ("xclp-digits", "fedct-digits", "training-phones", "availability", "duplicate"):
        assert problems(as_table(read(name, without_data=True).scenario)) == [], name
    assert problems(as_table(Scenario())) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[protocl]", "'protocl' was unexpected"),
        ("[protocol]\nkk = 1", "'kk' was unexpected"),
        ("[protocol]\nk = 0", "0 is less than the minimum of 1"),
        ("[protocol]\nalpha = 1.0", "1.0 is greater than or equal to the maximum"),
        ('[protocol]\nname = "xcpl"', "'xcpl' is not one of"),
        ('[protocol]\nhamming = "pailier"', "'pailier' is not one of"),
        ('[data]\nname = "digit"', "'digit' is not one of"),
        ('[network]\nbandwidth = "20Mbps"', "'20Mbps' does not match"),
        ('[network]\nlatency = "lognormal:40ms"', "'lognormal:40ms' does not match"),
        ("[network]\nlatency = 5", "5 is not of type 'string'"),
        ('[protocol]\ndeadline = "5 hours"', "is not valid under any of the given schemas"),
        ("[[fault]]\nparty = 'client/1'", "is not valid under any of the given schemas"),
        ("[[fault]]\nat = 'lsh.hash'\ntime = 3\nparty = 'client/1'", "is valid under each of"),
        ("[[host]]\ncores = 1", "'parties' is a required property"),
    ],
)
def test_the_schema_finds_mistakes_in_scenarios(text: str, problem: str) -> None:
    found = "\n".join(problems(tomllib.loads(text)))
    found += "".join(
        context.message for error in VALIDATOR.iter_errors(tomllib.loads(text)) for context in error.context or ()
    )
    assert problem in found


NEEDED: dict[str, dict[str, Any]] = {"host": {"parties": ["server"], "cores": 1}, "link": {"party": "server"}}
"""Required keys of tables in lists."""

NUMBERS = [key.name for key in keys() if "whole number" in key.type or key.type.startswith("a number")]


@given(
    name=st.sampled_from([name for name in NUMBERS if not name.startswith("fault.N")]),
    value=st.one_of(st.integers(-(2**40), 2**40), st.floats(allow_nan=False, allow_infinity=False), st.booleans()),
)
def test_a_number_is_valid_exactly_if_tacit_accepts_the_value(name: str, value: Any) -> None:
    if isinstance(value, float) and value.is_integer():
        value += 0.5 if abs(value) < 2**50 else 0  # JSON Schema accepts 3.0 as an integer
    table = with_value(name, value)
    for head, needed in NEEDED.items():
        if head in table:
            table[head] = [needed | table[head][0]]
    try:
        converted(table, "")
        taken = True
    except ScenarioError:
        taken = False
    if taken or not isinstance(value, float) or not value.is_integer():
        assert (problems(table) == []) is taken, table


@given(
    key=st.sampled_from(keys()), value=st.one_of(st.integers(), st.text(), st.lists(st.text(max_size=3), max_size=3))
)
def test_valid_values_have_types_that_tacit_reads(key: Any, value: Any) -> None:
    table = with_value(key.name, value)
    if problems(table) == []:
        converted(table, "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_is_valid_only_with_keys_of_its_kind(kind: str) -> None:
    values = {"party": "client/1", "peer": "server", "at": "lsh.hash", "before": "lsh.hash", "after": "lsh.hash",
              "time": "1s", "message": "Join", "occurrence": 2, "round": 1, "probability": 0.5, "back_after": "1s",
              "lasts": "1s", "factor": 2.0, "by": "1s", "one_way": True, "file": "a.csv",
              "share": 0.5, "count": 2, "step": "lsh.hash"}  # fmt: skip
    assert set(values) == {key for one in KINDS.values() for key in one.__struct_fields__}
    needed = [field.name for field in msgspec.structs.fields(KINDS[kind]) if field.required]
    base = {"kind": kind, **{key: values[key] for key in needed}, **({"at": "lsh.hash"} if KINDS[kind].when else {})}
    for key in (None, *values):
        fault = base if key is None else {**base, key: values[key]}
        if key == "probability" or (key in ("lasts", "round", "occurrence") and not KINDS[kind].when):
            continue  # rules on two keys are tested below
        try:
            msgspec.convert(fault, AnyFault)
            taken = True
        except ValueError:
            taken = False
        assert (problems({"fault": [fault]}) == []) is taken, fault
    for key in needed:
        assert problems({"fault": [{name: value for name, value in base.items() if name != key}]})
    both = {**base, "occurrence": 1, "probability": 0.5}
    assert problems({"fault": [both]})


@pytest.mark.parametrize(
    ("pattern", "reads"), [(DURATION_PATTERN, duration), (RATE_PATTERN, rate)], ids=["duration", "rate"]
)
@given(data=st.data())
def test_texts_with_units_match_the_pattern_exactly_if_readable(pattern: str, reads: Any, data: st.DataObject) -> None:
    written = st.from_regex(r"\A\s?[0-9.]{1,3}(e[+-]?[0-9])?\s?[a-zA-Zµ/]{0,6}\Z")
    text = data.draw(st.one_of(st.text(max_size=8), written, st.from_regex(rf"\A{pattern}\Z")))
    try:
        reads(text)
        read_as = True
    except ValueError as error:
        read_as = False
        if re.search("too long|carries nothing", str(error)) or re.search(r"[eE]\+?\d{2,}|\d{30}", text):
            return  # the form is right, but the value is out of range
    assert bool(re.fullmatch(pattern, text)) is read_as


def test_drawn_rates_of_clients_are_valid() -> None:
    for value in ("lognormal:5Mbit/s,0.5", "uniform:1Mbit/s,2Mbit/s", "unlimited", "3Mbit/s"):
        assert problems({"client": [{"up": value}]}) == []
    assert problems({"network": {"up": "lognormal:5Mbit/s,0.5"}})
    assert {"up", "down"} <= set(ClientKeys.__struct_fields__)


# --- the command


def test_the_schema_has_the_keys_of_plugins(tmp_path: Path) -> None:
    plugin, out = ROOT / "examples" / "secure_mean.py", tmp_path / "scenario.schema.json"
    done = CliRunner().invoke(app, ["schema", "--plugin", str(plugin), "--out", str(out)])
    assert (done.exit_code, done.output) == (0, "")
    validator = Draft7Validator(json.loads(out.read_text(encoding="utf-8")))
    file = tomllib.loads((plugin.parent / "secure_mean.toml").read_text(encoding="utf-8"))
    assert [*validator.iter_errors(file)] == []
    assert problems(file), "the schema without the plugin knows nothing of it"
    file["protocol"]["column"] = -1
    (error,) = validator.iter_errors(file)
    assert error.json_path == "$.protocol.column" and "less than the minimum" in error.message


def test_the_schema_is_printed_by_its_command() -> None:
    done = CliRunner().invoke(app, ["schema"])
    assert done.exit_code == 0 and json.loads(done.stdout) == scenario_schema()


@pytest.mark.long
def test_check_jsonschema_and_taplo_find_the_same_mistakes(tmp_path: Path) -> None:
    """They are installed into a separate environment, like a project's pre-commit checks."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    tools = tmp_path / "venv" / "bin"
    installed = subprocess.run([tools / "pip", "install", "--quiet", "check-jsonschema", "taplo"], capture_output=True)
    if installed.returncode:
        pytest.skip("check-jsonschema and taplo cannot be installed here")
    schema = tmp_path / "scenario.schema.json"
    schema.write_text(json.dumps(SCHEMA), encoding="utf-8")
    files = []
    for name, path in shipped().items():
        files.append(tmp_path / f"{name}.toml")
        files[-1].write_text(f"#:schema ./{schema.name}\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(f'#:schema ./{schema.name}\n[protocol]\nhamming = "pailier"\n', encoding="utf-8")
    for command in ([tools / "check-jsonschema", "--schemafile", schema], [tools / "taplo", "lint"]):
        done = subprocess.run([*command, *files], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        done = subprocess.run([*command, wrong], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode != 0 and "pailier" in done.stdout + done.stderr
