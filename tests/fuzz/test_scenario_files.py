"""Scenario files, ``--set`` and ``--over`` with arbitrary content: a checked scenario, or a one-line error."""

import random
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tacit.scenarios.files.reading import Loaded, read
from tacit.scenarios.files.shipped import shipped
from tacit.scenarios.schema.keys import keys
from tacit.scenarios.schema.scenario import Scenario, ScenarioError
from tacit.scenarios.sweeping.runs import plan

MOST = 16 << 20  # the bundled digits take 5 MiB while they are read and split

LITERALS = (
    "true", "-1", "0", "1", "2", "9223372036854775807", "9223372036854775808", "-99999999999999999999", "1" * 5000,
    "0x" + "f" * 3000, "0.0", "-0.0", "0.5", "1e-320", "1e308", "1e999", "nan", "-inf", '""', '"x"', '"\\u0000"',
    '"a\\nb"', '"🦊/0"', '"' + "x" * 20_000 + '"', "[]", "[[]]", '["a", 1]', "[" * 200 + "]" * 200,
    "[" * 3000 + "]" * 3000, "{}", "{a = 1}", "[{}]", '[{party = "server", time = 1}]', "[{a = {b = [1]}}]",
    "{a" + ".a" * 2000 + " = 1}",
    "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", '"1e400s"', '"-1s"', '"٣s"', '"unlimited"', '"csv:/nowhere"',
    '"csv:."', '"replayed:."', '"normal:1s,1e300"', '"lognormal:0s,1"', '"uniform:9s,1s"', '"dirichlet:1e-300"',
    '"dirichlet:1e300"', '"classes:99999999999"', '"client/99999999"', '"client/*"', '"server"', '"pool:64"',
)  # fmt: skip
"""Values in TOML, each invalid for some keys."""

PIECES = (
    b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"[", b"]", b"[[", b"]]", b"=", b"\"", b'"""', b"'''", b"\\", b"\n", b"\r",
    b"#", b".", b"\xef\xbb\xbf", b"{", b"}", b"_", b"nan", b"1e999", b"[a.b.c.d]\n", b"[data]\n", b'"a\\nb" = 1\n',
    "🦊".encode(), "\u2028".encode(), b"[" * 2000, b"a." * 2000, b"9" * 5000, b"a.b = " + b"[" * 40 + b"]" * 40,
    b"\n[data]\nname" + b".a" * 2000 + b" = 1\n", b"\nseed = " + b"[" * 40 + b"]" * 40 + b"\n",
)  # fmt: skip

VALUES = ("x", "5", "1,2,3", "[1, 2", '["a,b", 3]', ",", "=", "'", '"', "a\nb = 3", "\0", "")
KEYS = [key.name for key in keys()]
UNKNOWN = ("fault.0.party", "fualt", "protocol", "protocol.K", "data.", ".", "", "a.b.c", "é", "a\nb", "data\0name")


@pytest.fixture(autouse=True)
def sampled(memory) -> None:
    memory.every = 10


@pytest.fixture(scope="module")
def original() -> bytes:
    """A built-in scenario; reading it once performs slow imports."""
    path = shipped()["xclp-digits"]
    read(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def small(original: bytes, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The same scenario over a few points of a file, which is quicker to read."""
    path = tmp_path_factory.mktemp("data") / "points.csv"
    path.write_text("label,x,y\n" + "".join(f"{i % 5},{i},{-i}\n" for i in range(200)))
    return original.replace(b'name = "digits"', f'path = "{path}"'.encode())


def outcome_about(
    memory: Any, clear: Callable[[BaseException], None], where: str, make: Callable[[], object]
) -> object:
    """The return value of `make`, or a ScenarioError in one line about `where` and, for valid TOML, a key."""
    found = memory.outcome(MOST, ScenarioError, make)
    if not isinstance(found, ScenarioError):
        return found
    clear(found)
    text = str(found)
    assert text.startswith((where, "changes", "over")), text
    assert found.key or text.startswith(("changes", "over")) or "not TOML" in text or "no key is set" in text, text
    return found


def test_mutated_files_are_read_or_refused(inputs, original, mutate, memory, clear, tmp_path: Path) -> None:
    path = tmp_path / "fuzzed.toml"
    seen = set()
    for one in inputs:
        data = mutate(one.random, original, original, PIECES)
        path.write_bytes(data)
        with one.trying("file", data):
            found = outcome_about(memory, clear, str(path), lambda: read(path))
            seen.add(type(found))
            assert isinstance(found, ScenarioError) or isinstance(found.scenario, Scenario)
    assert seen == {Loaded, ScenarioError}


def test_wrong_values_name_file_and_key(inputs, small, memory, clear, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    names = [*KEYS, "data", "protocol", "fault", "expect", "no.such.key", "a"]
    for one in inputs:
        name, literal = one.random.choice(names), one.random.choice(LITERALS)
        data = with_value(tomllib.loads(small.decode()), name, literal).encode()
        path.write_bytes(data)
        with one.trying(name, data):
            outcome_about(memory, clear, str(path), lambda: read(path))


def with_value(table: dict[str, Any], name: str, literal: str) -> str:
    """`table` as TOML, with `literal` at the key `name`."""
    place: Any = table
    *parents, last = name.replace(".N.", "[].").split(".")  # the first table of a list
    for parent in parents:
        place = place.setdefault(parent[:-2], [{}])[0] if parent.endswith("[]") else place.setdefault(parent, {})
    place[last] = "@@"
    return tomli_w.dumps(table).replace('"@@"', literal)


def test_changes_are_read_or_refused(inputs, small, memory, clear, tmp_path: Path) -> None:
    path = tmp_path / "changed.toml"
    path.write_bytes(small)
    for one in inputs:
        changes = [change(one.random) for _ in range(one.random.choice((1, 1, 2)))]
        with one.trying("--set", *(text.encode() for text in changes)):
            outcome_about(memory, clear, str(path), partial(read, path, changes))


def test_axes_are_read_or_refused(inputs, small, memory, clear, tmp_path: Path) -> None:
    path = tmp_path / "swept.toml"
    path.write_bytes(small)
    for one in inputs:
        text = change(one.random)
        with one.trying("--over", text.encode()):
            found = outcome_about(memory, clear, str(path), partial(plan, str(path), [text], 1, []))
            assert isinstance(found, ScenarioError | list)


def change(random: random.Random) -> str:
    """``key=value``, or a similar text."""
    key = random.choice([*KEYS, *KEYS, *UNKNOWN])
    value = random.choice(
        [*LITERALS, "x", "5", "1,2,3", "[1, 2", '["a,b", 3]', ",", "=", "'", '"', "a\nb = 3", "\0", ""]
    )
    text = f"{key}{random.choice(('=', '=', '=', ' = ', '', '=='))}{value}"
    if random.random() < 0.2:
        at = random.randrange(len(text) + 1)
        text = text[:at] + random.choice(("\0", "\n", "🦊", "\u2028", '"', "=", ".")) + text[at:]
    return text


@pytest.mark.parametrize("name", ["naïve 🦊.toml", "two\nlines.toml", "tab\t.toml"])
def test_a_strange_file_name_stays_on_one_line(name: str, original: bytes, clear, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(original.replace(b"k = 10", b"k = 0"))
    with pytest.raises(ScenarioError) as raised:
        read(path)
    clear(raised.value)
