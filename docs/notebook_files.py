"""Makes notebooks (.ipynb) of the pages in docs/notebooks, for Jupyter, Colab and Binder.

Git holds the notebooks, because Colab and Binder open them from a repository. `python docs/build_site.py --files`
renews them. The first cell installs Tacit by name where it is missing.
"""

import configparser
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "notebooks"

CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FRONT = re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r"^# .*\n", re.MULTILINE)

EXTRAS = {"matplotlib": "plots", ".frame(": "frames"}
"""Words of a page, and the extra of Tacit that its code needs then."""

INSTALL = """\
import importlib.util
import sys
from importlib import metadata

if importlib.util.find_spec("tacit") is None:  # as in Colab
    %pip install --quiet "NAME"
    if "numpy" in sys.modules and sys.modules["numpy"].__version__ != metadata.version("numpy"):
        print("numpy was updated: restart the session (Runtime, Restart session), and run the notebook again")
"""


def is_notebook(text: str) -> bool:
    """True if a page is a notebook."""
    return "file_format: mystnb" in text[:200]


def install_cell(text: str) -> str:
    """The code of the first cell of a page's notebook: it installs Tacit with the extras that the page needs."""
    extras = ",".join(sorted({extra for word, extra in EXTRAS.items() if word in text}))
    return INSTALL.replace("NAME", f"tacit-fl[{extras}]" if extras else "tacit-fl")


def notebook(text: str) -> str:
    """The notebook of a page, as JSON without outputs. Raises ValueError for a link to a file beside the page."""
    body = FRONT.sub("", text).strip()
    if found := re.search(r"\]\((?!https?:)([^)#][^)]*)\)", CELL.sub("", body)):
        raise ValueError(f"a notebook cannot link to {found[1]}: it is opened alone")
    cells = [_cell(1, "code", install_cell(text))]
    for number, part in enumerate(CELL.split(body)):
        if part.strip():
            cells.append(_cell(len(cells) + 1, "code" if number % 2 else "markdown", part))
    cells[0], cells[1:2] = cells[1], [cells[0]]  # the title first
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, kind: str, text: str) -> dict[str, object]:
    own = {"execution_count": None, "outputs": []} if kind == "code" else {}
    lines = text.strip("\n").splitlines(keepends=True)
    return {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": lines, **own}


def page(text: str, name: str) -> str:
    """The page `name` of the site: with links below its title, and the cell that installs, which readers do not see."""
    cell = f"```{{code-cell}}\n:tags: [remove-cell]\n{install_cell(text)}```\n"
    return TITLE.sub(lambda found: f"{found[0]}\n{_links(name)}\n\n{cell}", text, count=1)


def _links(name: str) -> str:
    download = f"{{download}}`Download the notebook <{name}.ipynb>`"
    address = repository()
    if (found := re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", address)) is None:
        return f"{download} to open it in Jupyter, or in Colab (File, Upload notebook)."
    file = f"docs/notebooks/{name}.ipynb"
    colab = f"https://colab.research.google.com/github/{found[1]}/blob/main/{file}"
    binder = f"https://mybinder.org/v2/gh/{found[1]}/main?labpath={file.replace('/', '%2F')}"
    return f"[Open in Colab]({colab}) · [Open in Binder]({binder}) · {download}"


def repository() -> str:
    """The address of the project's repository, which setup.cfg names as the project URL `Source`; "" without one."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = settings.get("metadata", "project_urls", fallback="").splitlines()
    urls = dict(map(str.strip, line.split("=", 1)) for line in lines if "=" in line)
    return urls.get("Source", "")


def renew() -> None:
    """Write the notebook of each page in docs/notebooks beside it."""
    for path in sorted(FOLDER.glob("*.md")):
        path.with_suffix(".ipynb").write_text(notebook(path.read_text(encoding="utf-8")), encoding="utf-8")
