"""The keys of a plugin's protocol: every type that a file can hold is explained, any other is refused at its line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tacit import ScenarioError, load
from tacit.scenarios.command.main import app

PLUGIN = """
import datetime, decimal, enum
from typing import Annotated, Any, Literal
import msgspec
import numpy as np
from msgspec import Meta, Struct, field
from tacit.sim.units import duration
from tacit import Found, Message, OneShot, ProtocolKeys, Step, add_protocol

class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

class Inner(Struct, frozen=True):
    x: int = 0

class SizeSent(Message):
    size: bytes

class Keys(ProtocolKeys, kw_only=True, frozen=True{options}):
    {fields}

class Sizes(OneShot):
    name, summary, agrees, keys = "sizes", "how many points each client has", False, Keys
    own_steps = (Step("client", "size.send", "send it"), Step("server", "size.take", "take them"))

    @property
    def message_types(self):
        return (*super().message_types, SizeSent)

    async def client(self, me, keys, group):
        with me.step("size.send"):
            me.send(me.server, SizeSent(bytes([len(me.shard.rows)])))

    async def server(self, me, keys, group):
        with me.step("size.take"):
            answers = (await me.collect(SizeSent, group.names, deadline=duration(keys.deadline))).answers
        return Found(tuple(answers), np.array([answer.size[0] for answer in answers.values()], float))

    def oracle(self, keys, shards):
        return np.array([len(shard.rows) for shard in shards.values()], float)

add_protocol(Sizes())
"""

FIELDS = """
    colour: Annotated[Colour, Meta(description="Which colour.")] = Colour.RED
    level: Level = Level.HIGH
    sizes: Annotated[list[Annotated[int, Meta(ge=1)]], Meta(min_length=1, max_length=3)] = field(
        default_factory=lambda: [1, 2]
    )
    pair: tuple[int, float] = (1, 2.5)
    nested: tuple[tuple[float, ...], ...] = ()
    code: Annotated[str, Meta(pattern="^[a-z]+$", max_length=4)] = "abc"
    four: Annotated[int, Meta(multiple_of=4, ge=4)] = 4
    either: int | tuple[str, ...] | None = None
    mode: Literal["fast", "slow"] | None = None
"""

SCENARIO = """
plugins = ["mine.py"]
[data]
clients = 3
limit = 30
[protocol]
name = "sizes"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(SCENARIO)
    return tmp_path


def plugin(fields: str, options: str = "") -> int:
    """Write the plugin, and return the line in which it adds its protocol."""
    text = PLUGIN.replace("{fields}", fields.strip()).replace("{options}", options)
    # Makes the content unique, so that no test gets another's module.
    Path("mine.py").write_text(f"{text}# {Path.cwd()}\n")
    return text.count("\n")


def tacit(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(("name", "allowed", "default"), [
    ("colour", '"red", "blue"', '"red"'),
    ("level", "1, 2", "2"),
    ("sizes", "a list of 1 to 3, each a whole number, 1 or more", "[1, 2]"),
    ("pair", "a list of 2: a whole number; a number", "[1, 2.5]"),
    ("nested", "a list, each a list, each a number", "[]"),
    ("code", "text in quotes of at most 4 characters, matching ^[a-z]+$", '"abc"'),
    ("four", "a whole number, 4 or more, a multiple of 4", "4"),
    ("either", "a whole number or a list, each text in quotes", ""),
    ("mode", '"fast", "slow"', ""),
])  # fmt: skip
def test_tacit_keys_explains_each_type(name: str, allowed: str, default: str) -> None:
    plugin(FIELDS)
    lines = tacit("keys", "--markdown", "--plugin", "mine.py").stdout.splitlines()
    (line,) = (line for line in lines if line.startswith(f"| protocol.{name} ") and "| sizes |" in line)
    assert line.startswith(f"| protocol.{name} | {allowed} |  | {default} | sizes |")


@pytest.mark.parametrize(("value", "problem"), [
    ('colour="rad"', 'colour: "rad" is not one of the allowed: "red", "blue"; did you mean red?'),
    ("colour={a=1}", 'colour: {a = 1} is not one of the allowed: "red", "blue"'),
    ("level=3", "level: 3 is not one of the allowed: 1, 2"),
    ("sizes=[]", "sizes: [] does not fit; allowed: a list of 1 to 3, each a whole number, 1 or more"),
    ("sizes=[1, 0]", "sizes.1: 0 is too small; allowed: 1 or more"),
    ("sizes=[[1]]", "sizes.0: [1] is of the wrong kind; allowed: a whole number, 1 or more"),
    ("sizes=3", "sizes: 3 is of the wrong kind; allowed: a list of 1 to 3, each a whole number, 1 or more"),
    ("pair=[1]", "pair: [1] does not fit; allowed: a list of 2: a whole number; a number"),
    ('pair=[1, "a"]', 'pair.1: "a" is of the wrong kind; allowed: a number'),
    ('nested=[[1.0, "x"]]', 'nested.0.1: "x" is of the wrong kind; allowed: a number'),
    ('code="ABC"', 'code: "ABC" does not fit; allowed: text in quotes of at most 4 characters, matching ^[a-z]+$'),
    ("code=3", "code: 3 is of the wrong kind; allowed: text in quotes of at most 4 characters, matching ^[a-z]+$"),
    ("four=6", "four: 6 does not fit; allowed: 4 or more, a multiple of 4"),
    ("four=2", "four: 2 is too small; allowed: 4 or more, a multiple of 4"),
    ('either=["a", 3]', "either.1: 3 is of the wrong kind; allowed: text in quotes"),
    ("either=2.5", "either: 2.5 is of the wrong kind; allowed: a whole number or a list, each text in quotes"),
    ("either=2024-01-01", "either: 2024-01-01 is of the wrong kind; allowed: a whole number or a list, each text"),
])  # fmt: skip
def test_a_wrong_value_of_a_plugins_key_is_reported_in_one_line(value: str, problem: str) -> None:
    plugin(FIELDS)
    with pytest.raises(ScenarioError) as caught:
        load("mine.toml", [f"protocol.{value}"])
    assert str(caught.value).startswith(f"changes: protocol.{problem}")


def test_values_of_a_plugins_keys_are_read_from_a_run_folder() -> None:
    plugin(FIELDS)
    changes = ["colour=blue", "level=1", "sizes=[3]", 'either=["a"]', "nested=[[1.0], [2]]", "pair=[7, 1]"]
    words = [word for change in changes for word in ("--set", f"protocol.{change}")]
    assert tacit("run", "mine.toml", *words, "--out", "run").exit_code == 0
    first, again = (load(where, texts) for where, texts in (("mine.toml", words[1::2]), ("run", [])))
    assert first.protocol == again.protocol
    swept = tacit("sweep", "mine.toml", "--over", "protocol.colour=red,blue", "--out", "many")
    assert swept.exit_code == 0, swept.output


def test_a_key_without_a_default_is_required() -> None:
    plugin("least: int")
    lines = tacit("keys", "--markdown", "--plugin", "mine.py").stdout.splitlines()
    assert any(line.startswith("| protocol.least | a whole number |  | needed |") for line in lines)
    with pytest.raises(ScenarioError, match=r"mine\.toml: protocol\.least: is needed and not given"):
        load("mine.toml")


ALLOWED = "bool, int, float, str, a Literal or an Enum of those, a list or tuple of them, and each of them or None."


@pytest.mark.parametrize(("field", "problem"), [
    ("x: dict[str, list[int]] = {}", f"the key x of Keys has the type dict[str, list[int]]; allowed: {ALLOWED}"),
    (
        "x: Annotated[dict[str, int] | None, Meta(description='d')] = None",
        f"the key x of Keys has the type dict[str, int] | None; allowed: {ALLOWED}",
    ),
    ("x: datetime.date = datetime.date(2024, 1, 1)", "the key x of Keys has the type date; allowed: "),
    ("x: datetime.datetime | None = None", "the key x of Keys has the type datetime | None; allowed: "),
    ("x: Inner = Inner()", "the key x of Keys has the type Inner; allowed: "),
    ("x: tuple[Inner, ...] = ()", ".Inner, ...]; allowed: "),
    ("x: set[int] = set()", "the key x of Keys has the type set[int]; allowed: "),
    ("x: bytes = b''", "the key x of Keys has the type bytes; allowed: "),
    ("x: Any = None", "the key x of Keys has the type Any; allowed: "),
    ("x: decimal.Decimal = decimal.Decimal(1)", "the key x of Keys has the type Decimal; allowed: "),
    ("x: np.ndarray = None", "the key x of Keys has the type ndarray; allowed: "),
    ("x: 'Nowhere' = 0", "the keys Keys have a type that cannot be read: name 'Nowhere' is not defined"),
    ("x: int = None", "the default of x of Keys is None, which a file could not say: Expected `int`, got `null`"),
    ("x: Annotated[int, Meta(ge=1)] = 0", "the default of x of Keys is 0, which a file could not say: Expected `int`"),
    ("x: int = np.int64(3)", "the default of x of Keys is "),
])  # fmt: skip
def test_a_key_of_an_unsupported_type_is_refused_at_its_line(folder: Path, field: str, problem: str) -> None:
    line = plugin(field)
    done = tacit("run", "mine.toml")
    assert done.exit_code == 2
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"error: {folder}/mine.py: line {line}: ValueError: ") and problem in said


def test_renamed_keys_are_refused(folder: Path) -> None:
    plugin("long_name: int = 0", ', rename="camel"')
    assert "the key long_name of Keys would be called longName in a file" in tacit("run", "mine.toml").stderr
