"""Fetching a data set: its files are obtained by the first way that works, read, checked and stored."""

from pathlib import Path

from tacit.parties.datasets import store
from tacit.parties.datasets.catalogue import CATALOGUE, Entry
from tacit.parties.datasets.content import Content, DataError, Report, quiet
from tacit.parties.datasets.ways import Way

__all__ = ["fetch", "own_folder"]


def own_folder(name: str) -> Path:
    """The folder where `fetch` looks for files that were put there by hand."""
    return store.root() / "upstream" / name


def fetch(name: str, report: Report = quiet, source: Path | None = None) -> str:
    """Fetch data set `name`, unless it is stored already, and return its origin in a few words.

    Its files are taken from the folder `source` if it is given, else from `own_folder(name)` if that exists, else by
    the catalogue's ways in their order. A stored set is checked again. One process fetches at a time; an interrupted
    fetch stores nothing. Raises DataError with a message of one line.
    """
    entry = CATALOGUE[name]
    with store.locked(lambda: report("waiting for another fetch to end", 0, 0)):
        if (here := store.stored(name)) is not None:
            report("checking", 0, 0)
            if here.content.digest() not in (entry.sha256 or here.sha256,):
                home = store.folder(name)
                raise DataError(f"{home}: is damaged (SHA-256); delete the folder, then: tacit data fetch {name}")
            return here.origin
        with store.workplace() as work:
            content, origin = _obtain(name, entry, work, report, source)
            report("storing", 0, 0)
            store.keep(name, content, origin, work)
            return origin


def _obtain(name: str, entry: Entry, work: Path, report: Report, source: Path | None) -> tuple[Content, str]:
    given = source or own_folder(name)
    if source is not None or given.is_dir():
        if not given.is_dir():
            raise DataError(f"{given}: there is no such folder")
        return _read(name, entry, given, report), str(given)
    problems = []
    for number, way in enumerate(entry.ways):
        folder = work / f"way-{number}"
        folder.mkdir()
        try:
            return _by(name, entry, way, folder, report), way.name
        except DataError as error:
            problems.append(f"{way.name}: {error}")
    tried = "; ".join(problems) or "there is no way to download it"
    raise DataError(
        f"{name}: {tried}; put {entry.files} into {given}, then: tacit data fetch {name} (or --from FOLDER)"
    )


def _by(name: str, entry: Entry, way: Way, folder: Path, report: Report) -> Content:
    report(way.name, 0, 0)
    way.bring(folder, report)
    return _read(name, entry, folder, report)


def _read(name: str, entry: Entry, folder: Path, report: Report) -> Content:
    content = entry.read(folder, report)
    if entry.shuffle:
        report("shuffling", 0, 0)
        content = content.shuffled(name)
    report("checking", 0, 0)
    digest = content.digest()
    if entry.sha256 is not None and digest != entry.sha256:
        raise DataError(f"{folder}: is not {name} as expected (its arrays' SHA-256 is {digest})")
    return content
