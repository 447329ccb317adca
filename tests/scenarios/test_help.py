"""The help of each command, shell completion, and the modules that neither imports."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tacit import run
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.command.main import app
from tacit.scenarios.files.shipped import shipped
from tacit.scenarios.schema.keys import keys

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "scipy", "sklearn", "torch", "pandas", "matplotlib", "simpy", "msgspec", "asyncio", "sqlite3")
_START = "from tacit.__main__ import main; main()"
_COMMANDS = typer.main.get_command(app)


def commands(group: object = _COMMANDS, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command, including commands of groups."""
    yield words
    for name, one in getattr(group, "commands", {}).items():
        yield from commands(one, (*words, name))


# --- help


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_the_help_of_each_command_has_an_example_that_can_be_read(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    (example,) = [line.strip() for line in shown.stdout.splitlines() if "Example: " in line]
    assert shown.exit_code == 0 and example.startswith(" ".join(["Example: tacit", *words]))
    group, arguments = _COMMANDS, example.split()[2:]
    while name := next((word for word in arguments[:1] if word in getattr(group, "commands", {})), ""):
        group, arguments = group.commands[name], arguments[1:]
    group.make_context(name or "tacit", arguments)  # raises UsageError for invalid arguments


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_each_command_and_each_of_its_options_has_a_help_text(words: tuple[str, ...]) -> None:
    one = _COMMANDS
    for word in words:
        one = one.commands[word]
    assert (one.help or "").strip()
    undescribed = [option.name for option in one.params if not getattr(option, "help", "")]
    assert set(undescribed) <= {"install_completion", "show_completion", "help"}


def test_each_key_has_a_description() -> None:
    found = keys()
    assert len(found) > 200 and not [key.name for key in found if not key.description]


def test_arguments_are_described_once() -> None:
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).stdout
    (line,) = [line for line in shown.splitlines() if "[FILE-or-NAME]  " in line]
    assert line.split("  ")[-1].startswith("Scenario file") and shown.lower().count("arguments:") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], None),
        (["run", "--help"], None),
        (["chaos", "--help"], None),
        (["--version"], None),
        ([], "tacit run xclp-dig"),
        ([], "tacit run xclp-digits --se"),
    ],
)
def test_help_and_names_need_no_package_that_takes_long_to_import(arguments: list[str], words: str | None) -> None:
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    done = subprocess.run(
        [sys.executable, "-c", code + _START, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | (_completion_environment(words) if words else {}),
    )
    assert done.returncode == 0 and done.stdout
    imported = done.stderr.split()
    assert "tacit.scenarios.command.main" in imported
    assert [name for name in imported if name.startswith(("parties", "protocols")) or name in HEAVY] == []


# --- completion


def _completion_environment(line: str) -> dict[str, str]:
    """The variables that bash sets to complete the last word of `line`."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    return {"_TACIT_COMPLETE": "complete_bash", **words}


def completed(line: str) -> list[str]:
    result = CliRunner().invoke(app, env=_completion_environment(line), prog_name="tacit")
    assert result.exit_code == 0, result.output
    return result.stdout.split()


def test_commands_options_and_names_are_completed() -> None:
    assert completed("tacit pre") == ["predict"]
    assert completed("tacit data f") == ["fetch"]
    assert completed("tacit run --en") == ["--engine"]
    assert completed("tacit run ") == [*shipped()]
    assert completed("tacit sweep fedct-d") == ["fedct-digits"]
    assert completed("tacit steps fedpro") == ["fedprop", "fedprop+mt", "fedprox"]
    assert {*PROTOCOLS, *shipped()} == {*completed("tacit steps ")}
    assert completed("tacit data fetch mni") == ["mnist"]
    assert completed("tacit plot run --x r") == ["rounds"]
    assert completed("tacit run xclp-digits --engine p")[0] == "pool:1"


def test_keys_are_completed_and_their_values() -> None:
    assert completed("tacit run xclp-digits --set network.lat") == ["network.latency="]
    assert completed("tacit run xclp-digits --set protocol.hamming=pa") == ["protocol.hamming=paillier"]
    assert completed("tacit run --set protocol.insecure_keys=") == [
        f"protocol.insecure_keys={value}" for value in ("", "true", "false")
    ]
    assert completed("tacit run --set attack.kind=") == ["attack.kind=", "attack.kind=membership"]
    swept = completed("tacit sweep xclp-digits --over protocol.hamming=iknp,pl")
    assert swept == ["protocol.hamming=iknp,plaintext"]
    assert completed("tacit keys network.to") == ["network.topology"]
    assert completed("tacit run --set network.latency=5") == []


def test_parties_and_steps_of_a_run_are_completed(quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(quick, out="ended")
    assert completed("tacit events ended --party ") == [*(f"client/{number}" for number in range(4)), "server"]
    assert "hamming.evaluate" in completed("tacit events ended --step hamming.")
    assert completed("tacit events nothing --party ") == []
    assert completed("tacit events en") == []  # the shell completes file names itself


def test_bash_accepts_the_completion_script_and_its_words(tmp_path: Path) -> None:
    command = tmp_path / "tacit"
    command.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n{_START}", encoding="utf-8")
    command.chmod(0o755)
    script = subprocess.run(
        [command], env=os.environ | {"_TACIT_COMPLETE": "source_bash"}, capture_output=True, text=True, check=True
    )
    asked = [
        f"COMP_WORDS=({words}) COMP_CWORD={place}; _tacit_completion {command}; echo ${{COMPREPLY[*]}}"
        for words, place in (
            ("tacit run xclp-dig", 2),
            ("tacit run xclp-digits --set protocol.hamming = pa", 6),  # bash splits KEY=VALUE into three words
            ("tacit sweep xclp-digits --over protocol.hamming =", 5),
        )
    ]
    done = subprocess.run(["bash", "-c", "\n".join((script.stdout, *asked))], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["xclp-digits", "paillier", "iknp direct paillier plaintext naor-pinkas"]
    assert done.stderr == ""


# --- keys and steps


def test_keys_are_selected_by_their_beginning() -> None:
    shown = CliRunner().invoke(app, ["keys", "network", "--markdown"]).stdout.splitlines()[2:]
    assert shown and all(line.startswith("| network.") for line in shown)
    nothing = CliRunner().invoke(app, ["keys", "netwrk"])
    assert (nothing.exit_code, nothing.stderr) == (2, "error: netwrk: no key begins so; did you mean network?\n")


def test_steps_of_all_protocols_are_listed_together() -> None:
    shown = CliRunner().invoke(app, ["steps"]).stdout.splitlines()
    heads = [name for line in shown if not line.startswith(" ") for name in line.split(", ")]
    assert sorted(heads) == sorted(PROTOCOLS)
    place = next(number for number, line in enumerate(shown) if "fedmatch" in line)
    steps = PROTOCOLS["fedmatch"].steps
    taken = {role: names for role, *names in map(str.split, shown[place + 1 : place + 3])}
    assert taken == {role: [step.name for step in steps if step.role == role] for role in ("client", "server")}
