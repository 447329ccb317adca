"""Sphinx's settings for the site, which docs/build_site.py builds from a copy of this folder."""

from importlib import metadata
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from msgspec import Struct
from sphinx.application import Sphinx

from tacit.scenarios.seeing import timeline

project = "Tacit"
author = "The Tacit authors"
version = release = metadata.version("tacit-fl")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["mathematics", "notebooks/*.ipynb"]  # notebooks to download, beside their pages

html_theme = "furo"
html_title = f"Tacit {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = ":not(.output) > div.highlight > pre"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "amsmath"]
myst_heading_anchors = 4
myst_update_mathjax = False

nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True

SCRIPT = "\n".join(timeline._resource(name) for name in timeline._SCRIPTS)
INLINE = f"<script>(() => {{\n{SCRIPT}}})();</script>"
STYLE = f"<style>\n{timeline._resource('timeline.css')}</style>"
SHARED = {"timeline.js": f"(() => {{\n{SCRIPT}}})();\n", "timeline.css": timeline._resource("timeline.css")}
"""Scripts and styles of timelines, in files that all pages share."""


def visit_math(self: Any, node: nodes.Element) -> None:
    """Write a formula as MathML, which browsers draw without a script."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_math_block(self: Any, node: nodes.Element) -> None:
    """Write a formula of its own line."""
    self.body.append(f'<div class="math" tabindex="0">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def share(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Name the shared files in place of the style and script that each timeline brings along."""
    body = context.get("body", "")
    if INLINE in body:
        root = "../" * page.count("/")
        link = f'<link rel="stylesheet" href="{root}_static/timeline.css">'
        body = body.replace(STYLE, link, 1).replace(STYLE, "")
        context["body"] = body.replace(INLINE, f'<script src="{root}_static/timeline.js"></script>')


def unmarked(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Write the code in docstrings as reStructuredText has it."""
    lines[:] = [part for line in lines for part in [restructured(line)]]


def restructured(line: str) -> str:
    """A line whose code stands between two backticks."""
    pieces = line.split("``")
    return "``".join(piece.replace("`", "``") if number % 2 == 0 else piece for number, piece in enumerate(pieces))


def shortened(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """The names alone of the keys that a table of a scenario has; what they say is on the page of the keys."""
    if signature and "Meta(" in signature and isinstance(obj, type) and issubclass(obj, Struct):
        return f"(*, {', '.join(obj.__struct_fields__)})", returned
    return signature, returned


def setup(app: Sphinx) -> None:
    """Connect what is above."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.connect("html-page-context", share)
    app.connect("autodoc-process-docstring", unmarked)
    app.connect("autodoc-process-signature", shortened)
