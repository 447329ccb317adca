"""`tacit run --ci`: the output for GitHub Actions and GitLab CI, in their documented forms."""

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tacit.scenarios.command.main import app
from tacit.scenarios.testing.annotations import CODE_QUALITY, github_line
from tacit.scenarios.testing.outcomes import line_of
from tests import warm

FAULT = '\n[[fault]]\nparty = "client/3"\nat = "hamming.evaluate"\n'


def run(file: Path, *options: str, **variables: str) -> tuple[int, str]:
    services = {"GITHUB_ACTIONS": None, "GITHUB_STEP_SUMMARY": None, "GITLAB_CI": None}
    done = CliRunner().invoke(app, ["run", str(file), "--ci", *options], env=services | variables)
    return done.exit_code, done.output


@pytest.fixture
def wrong(quick: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that loses a client and expects to lose none, in the current folder."""
    monkeypatch.chdir(quick.parent)
    quick.write_text(quick.read_text() + FAULT)
    return quick


def place(file: Path, line: str) -> int:
    return file.read_text().splitlines().index(line) + 1


def test_github_gets_an_annotation_at_the_line_of_the_key(wrong: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    code, output = run(wrong, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    (line,) = [line for line in output.splitlines() if line.startswith("::")]
    head, _, text = line.removeprefix("::error ").partition("::")
    assert code == 1
    assert head.startswith(f"file=quick.toml,line={place(wrong, 'lost = []')},title=tacit%3A expect.lost%3A expected")
    assert text.startswith("expect.lost: expected nobody, got client/3%0Alost: client/3: crashed at ")
    assert run(wrong, "--set", "fault=[]", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))[0] == 0
    rows = [row for row in summary.read_text(encoding="utf-8").splitlines() if row]
    assert len(rows) == 4 and rows[0].startswith("| scenario | seed |") and "| client/3 |" in rows[2]
    assert "| completed |" in rows[3] and "| nobody |" in rows[3]


def test_gitlab_gets_a_code_quality_report(wrong: Path) -> None:
    code, _ = run(wrong, GITLAB_CI="true")
    (one,) = json.loads(Path(CODE_QUALITY).read_text())
    assert code == 1
    assert one["location"] == {"path": "quick.toml", "lines": {"begin": place(wrong, "lost = []")}}
    assert one["description"].startswith("expect.lost: expected nobody, got client/3; lost: client/3: crashed")
    assert set(one) == {"description", "check_name", "fingerprint", "severity", "location"}
    other = wrong.with_name("other.toml")
    other.write_text(wrong.read_text().replace("k = 3", "k = 0"))
    assert run(other, GITLAB_CI="true")[0] == 2
    found = json.loads(Path(CODE_QUALITY).read_text())
    assert [(entry["location"]["path"], entry["location"]["lines"]["begin"]) for entry in found] == [
        ("quick.toml", place(wrong, "lost = []")),
        ("other.toml", place(other, "k = 0")),
    ]
    assert len({entry["fingerprint"] for entry in found}) == 2
    assert run(wrong, "--set", "fault=[]", GITLAB_CI="true")[0] == 0
    (left,) = json.loads(Path(CODE_QUALITY).read_text())
    assert left["location"]["path"] == "other.toml"


def test_without_a_known_ci_annotations_have_the_form_of_compiler_errors(wrong: Path) -> None:
    code, output = run(wrong)
    number = place(wrong, "lost = []")
    assert code == 1 and f"\nquick.toml:{number}: error: expect.lost: expected nobody, got client/3\n" in output
    wrong.write_text("[data\n")
    code, output = run(wrong)
    assert code == 2 and output.startswith("quick.toml:1: error: ")


def test_without_the_option_no_annotation_is_written(wrong: Path) -> None:
    done = CliRunner().invoke(app, ["run", str(wrong)], env={"GITHUB_ACTIONS": "true", "GITLAB_CI": "true"})
    assert done.exit_code == 1 and "::error" not in done.output and not Path(CODE_QUALITY).exists()


def test_an_annotation_is_one_line_in_a_narrow_window(wrong: Path) -> None:
    environ = os.environ | {"GITHUB_ACTIONS": "true", "COLUMNS": "40"}
    command = [sys.executable, "-m", "tacit", "run", wrong.name, "--ci"]
    done = warm.run(command, cwd=wrong.parent, env=environ)
    assert any(line.startswith("::error file=") and "%0Alost: client/3" in line for line in done.stdout.splitlines())


@given(st.text(min_size=1), st.text(min_size=1))
def test_the_texts_of_a_workflow_command_can_be_read_back(place: str, text: str) -> None:
    line = github_line(place, 3, "x" + text)
    assert "\n" not in line and "\r" not in line
    properties, _, message = line.removeprefix("::error ").partition("::")
    file, number, title = properties.split(",")

    def unescaped(escaped: str) -> str:
        for mark in ",:\n\r%":
            escaped = escaped.replace(f"%{ord(mark):02X}", mark)
        return escaped

    assert unescaped(file.removeprefix("file=")) == place and number == "line=3" and title.startswith("title=tacit")
    assert unescaped(message) == "x" + text


def test_the_line_of_a_key_is_found_in_the_file() -> None:
    text = 'seed = 1\n\n[data]\nname = "a"\n[[fault]]\nat = "x"\n\n[[fault]]  # second\nparty = "y"\nat = "z"\n'
    for key, number in (
        ("seed", 1), ("data.name", 4), ("data", 3), ("data.clients", 3), ("fault.0.at", 6), ("fault.1.at", 10),
        ("fault.1", 8), ("fault.1.time", 8), ("line 7, column 2", 7), ("expect.lost", 1), ("", 1),
    ):  # fmt: skip
        assert line_of(text, key) == number, key
