"""Repeats the runs of this artifact and compares them with the expected results.

    python repeat.py --install      make .venv with the exact versions, and repeat all runs in it
    python repeat.py                repeat all runs with this Python, where Tacit is installed
    python repeat.py NAME ...       repeat some runs

The exit code is 0 if all runs are the same, with equal results and an equal trace hash, which covers every message in
virtual time. It is 1 if a run differs, and 2 if a run cannot be repeated here. This file needs only Python's
standard library.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

EXACT = (
    "outcome", "lost", "unmet", "trace_hash", "messages", "bytes_total", "virtual_seconds", "labels_digest",
    "model_digest", "hamming_digest", "output", "accuracy", "accuracy_selected", "client_accuracy", "metrics",
    "privacy", "vulnerability",
)  # fmt: skip
"""The fields of a result that are compared."""

ALWAYS = ("outcome", "lost")
"""The fields that are compared if a run draws from the operating system or measures time, so that no two are equal."""


class CannotRepeat(Exception):
    """The reason why a run cannot be repeated here, as a message for the user."""


def main(arguments: Sequence[str]) -> int:
    """Repeat the runs that the `arguments` name, print comparisons, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs to repeat (default: all)")
    parser.add_argument("--install", action="store_true", help="make .venv with the versions of requirements.txt first")
    parser.add_argument(
        "--out", type=Path, default=HERE / "repeated", metavar="DIR", help="folder for the runs (default: repeated)"
    )
    options = parser.parse_args(arguments)
    runs = {run["name"]: run for run in json.loads((HERE / "artifact.json").read_text(encoding="utf-8"))["runs"]}
    if unknown := [name for name in options.names if name not in runs]:
        print(f"error: {', '.join(unknown)}: no such run; allowed: {', '.join(runs)}", file=sys.stderr)
        return 2
    try:
        python = installed() if options.install else Path(sys.executable)
        check_tacit(python)
    except CannotRepeat as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    codes = [compared(runs[name], python, options.out) for name in options.names or runs]
    print(f"{codes.count(0)} of {len(codes)} runs are the same")
    return max(codes)


def installed() -> Path:
    """The path of Python in an environment with the exact versions, which is made if it does not exist."""
    folder = HERE / ".venv"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if (HERE / "wheels").is_dir():
        command += ["--find-links", str(HERE / "wheels")]
    if subprocess.run([*command, "--requirement", str(HERE / "requirements.txt")], check=False).returncode:
        made_by = expected_of(json.loads((HERE / "artifact.json").read_text(encoding="utf-8"))["runs"][0])
        here, there = sys.version.split()[0], made_by["environment"]["python"]
        wheels = ", ".join(sorted(path.name for path in HERE.glob("wheels/*.whl")))
        only = f"; wheels/ has {wheels}: README.md says how to add one for another Python or platform" if wheels else ""
        raise CannotRepeat(f"pip could not install requirements.txt (Python {here} here; the runs used {there}{only})")
    return python


def check_tacit(python: Path) -> None:
    """Raise CannotRepeat if Tacit is not installed for `python`."""
    code = "from importlib import metadata, util; metadata.version('tacit-fl'); assert util.find_spec('tacit')"
    if subprocess.run([str(python), "-c", code], capture_output=True, cwd=HERE, check=False).returncode:
        raise CannotRepeat(f"Tacit is not installed for {python}; add --install, which makes an environment of its own")


def compared(run: dict[str, Any], python: Path, out: Path) -> int:
    """Repeat one run and print a comparison. Returns 0 if it is the same, 1 if it differs, 2 if a repetition is
    impossible."""
    try:
        found = repeated(run, python, out)
    except CannotRepeat as error:
        print(f"{run['name']}: cannot be repeated: {error}", flush=True)
        return 2
    expected = expected_of(run)
    fields = EXACT if run["repeatable"] else ALWAYS
    differing = [field for field in fields if shown(expected, field) != shown(found, field)]
    verdict = "DIFFERS" if differing else "the same"
    print(f"{run['name']}: {verdict} (trace {str(found.get('trace_hash'))[:16]})", flush=True)
    for field in differing:
        print(f"  {field}: expected {shown(expected, field)}, found {shown(found, field)}")
    for line in differences(expected["environment"], found["environment"]) if differing else ():
        print(f"  another environment: {line}")
    return 1 if differing else 0


def repeated(run: dict[str, Any], python: Path, out: Path) -> dict[str, Any]:
    """The result of repeating one run. Raises CannotRepeat."""
    for file in run["files"]:
        path = HERE / file["path"]
        if not path.is_file():
            raise CannotRepeat(f"put {path.name} at {path}; its SHA-256 is {file['sha256']}")
        with path.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != file["sha256"]:
                raise CannotRepeat(f"{path} is another file; its SHA-256 must be {file['sha256']}")
    folder = out.absolute() / run["name"]
    if folder.exists():
        if not (folder / "run.sqlite").is_file():
            raise CannotRepeat(f"{folder} exists and is not the folder of a run; name another folder by --out")
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [str(python), "-m", "tacit", "run", str(HERE / run["scenario"]), "--out", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=HERE)
    if not (folder / "result.json").is_file():
        raise CannotRepeat(f"tacit run ended with code {done.returncode}:\n{done.stdout.rstrip()}")
    found: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return found


def expected_of(run: dict[str, Any]) -> dict[str, Any]:
    """The expected result of a run."""
    found: dict[str, Any] = json.loads((HERE / run["expected"]).read_text(encoding="utf-8"))
    return found


def shown(result: dict[str, Any], field: str) -> Any:
    """The value of a field; for losses, the parties and steps, each once."""
    value = result.get(field)
    return sorted({f"{loss['party']} at {loss['step']}" for loss in value}) if field == "lost" and value else value


def differences(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Lines on the differences between the two environments that may change the result."""
    names = {"code": "code of Tacit", "python": "Python", "cpu": "processor", "device": "device", "cost_table": "costs"}
    lines = [
        f"{words} {expected.get(key)}, here {found.get(key)}"
        for key, words in names.items()
        if expected.get(key) != found.get(key)
    ]
    packages, others = expected.get("packages", {}), found.get("packages", {})
    return lines + [
        f"{key} {packages[key]}, here {others.get(key, 'none')}"
        for key in sorted(packages)
        if key in others and packages[key] != others[key]
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
