"""The frame of a page: one file of HTML that loads nothing else."""

from collections.abc import Sequence
from importlib import resources

from msgspec import Struct

from tacit.scenarios.console.printing import visible
from tacit.scenarios.reporting.html import Html, element, join
from tacit.scenarios.running.environment import version

__all__ = ["Section", "page"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
"""The sources from which the page may load: none. Browsers enforce this, whatever a name or a plugin's text
contains."""


class Section(Struct, frozen=True):
    """A part of the page with its heading; the table of contents links to it by `name`."""

    name: str
    title: str
    content: Html


def page(title: str, about: str, sections: Sequence[Section]) -> str:
    """The whole page, as HTML."""
    links = (element("a", one.title, href=f"#{one.name}") for one in sections)
    button = element("button", "Dark", id="theme", type="button", hidden=True)
    top = element("div", element("div", element("nav", *links, aria_label="Contents"), button), class_="top")
    parts = (
        element("section", element("h2", one.title, id=f"{one.name}-title"), one.content,
                id=one.name, aria_labelledby=f"{one.name}-title")
        for one in sections
    )  # fmt: skip
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", _file("page.css")),
        element("script", _file("page.js")),
    )
    body = element(
        "body",
        top,
        element("header", element("h1", title), element("p", about, class_="about")),
        element("main", *parts),
        element("footer", f"Made by Tacit {version()}. Times are virtual unless they say wall."),
    )
    return visible(f'<!doctype html>\n<html lang="en">{join((head, body))}</html>\n')


def _file(name: str) -> Html:
    return Html((resources.files("tacit.scenarios.reporting") / name).read_text(encoding="utf-8"))
