"""Reads pages made by `tacit report`, like a program would."""

from html.parser import HTMLParser
from pathlib import Path

from typer.testing import CliRunner

from tacit.scenarios.command.main import app


class Page(HTMLParser):
    """The content of a page: elements, figures by name, tables by title, and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.figures: dict[str, str] = {}
        self.tables: dict[str, list[list[str]]] = {}
        self.named: dict[str, str] = {}
        self.text = ""
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self._table: list[list[str]] = []
        self.feed(text)
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        if tag in ("br", "col", "input", "meta"):
            return
        self._open.append((tag, found))
        if tag == "data" and found.get("data-name"):
            self.figures[str(found["data-name"])] = str(found["value"])
        if tag == "table":
            self._table = []
        if tag == "tr":
            self._table.append([])
        if tag in ("td", "th"):
            self._table[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        within = [tag for tag, _ in self._open]
        if "style" in within or "script" in within:
            return
        self.text += data
        if "caption" in within:
            self.tables[data] = self._table
        elif within and self._table and {"td", "th"} & set(within):
            self._table[-1][-1] += data
        for _, attributes in self._open:
            if name := attributes.get("data-name"):
                self.named[name] = self.named.get(name, "") + data


def command(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def report(folder: Path) -> Page:
    assert command("report", folder).splitlines()[-1] == f"report    {folder / 'report.html'}"
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def refused(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["report", *map(str, arguments)])
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    return line.removeprefix("error: ")
