"""Makes one page for each protocol, and one for the parts that several share: from declarations, docstrings and runs.

The mathematics of a protocol is written by hand, in docs/mathematics. Everything else follows from what the protocol
declares (`tacit.protocols.declaration`), from the table of messages on top of each file in protocols/, and from small
runs.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path

from tacit import Result, Scenario, load, run
from tacit.protocols.declaration import Declaration
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.chaos.configurations import CONFIGURATIONS, Configuration
from tacit.scenarios.reporting.recorded import read_run
from tacit.scenarios.running.prediction import Prediction, predict_run
from tacit.scenarios.schema.keys import keys
from tacit.scenarios.seeing.timeline import fragment
from tacit.sim.units import format_duration

__all__ = ["MATHEMATICS", "docstring", "named", "pages", "parts", "small"]

ROOT = Path(__file__).resolve().parents[1]
MATHEMATICS = ROOT / "docs" / "mathematics"

TABLE = re.compile(r"^\| (?:step|who) \| message \|.*?(?=^\s*$|\Z)", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)

WITH_OWN_PAGES = WITHOUT_RUN = ("flower",)
"""Protocols whose parties come from elsewhere, with pages of their own."""

CALM = ("fault=[]", "expect={}", 'engine="inline"')
ALIKE = {"fedavg-then-xclp": "fedavg+xclp", "dp-fedavg": "fedavg", "centralised": "local"}
CHANGED = {
    "xclp": ("data.limit=40",),
    "dp-fedavg": ("privacy.epsilon=8", 'training.weighting="equal"', "training.evaluation=none"),
    "centralised": ("data.clients=1",),
}
"""The differences of a protocol's run from that of the configurations that chaos goes through."""


def named(name: str) -> str:
    """The name of a page: without a character that a link would have to escape."""
    return re.sub(r"\+$", "-plus", name).replace("+", "-with-")


@cache
def docstring(name: str) -> str:
    """The docstring of the module at the path `name`."""
    return ast.get_docstring(ast.parse((ROOT / name).read_text(encoding="utf-8"))) or ""


def modules() -> list[str]:
    """The paths of all modules of protocols/ with a table of messages."""
    paths = (path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "protocols").rglob("*.py")))
    return [path for path in paths if TABLE.search(docstring(path))]


@cache
def rows_of_messages() -> dict[str, tuple[str, list[str]]]:
    """By type of message: the module whose docstring has it in its table, and its lines there."""
    found: dict[str, tuple[str, list[str]]] = {}
    for path in modules():
        for table in TABLE.findall(docstring(path)):
            for line in table.splitlines()[2:]:
                found.setdefault(cells(line)[1], (path, []))[1].append(line)
    return found


def cells(line: str) -> list[str]:
    """The cells of a line of a Markdown table, in which | stands for an absolute value only within a cell."""
    return [cell.strip() for cell in re.split(r"(?<=\s)\|(?=\s)", line.strip().strip("|"))]


def markdown(text: str) -> str:
    """A docstring as Markdown: formulas, which are indented there, as blocks of text, and tables with safe cells."""
    made = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        if all(line.startswith("    ") for line in lines if line):
            made.append("```text\n" + inspect.cleandoc(block) + "\n```")
        elif block.startswith("| "):
            made.append("\n".join(safe(line) for line in lines))
        else:
            made.append("\n".join(prose(line) for line in lines))
    return "\n\n".join(made)


def safe(line: str) -> str:
    """A line of a table whose cells hold signs as they are."""
    return "| " + " | ".join(prose(cell) for cell in cells(line)) + " |"


def prose(text: str) -> str:
    """Text in which signs of formulas are no markup; what stands between backticks stays."""
    pieces = text.split("`")
    escaped = (re.sub(r"([\\*_<>$|\[\]])", r"\\\1", piece) if n % 2 == 0 else piece for n, piece in enumerate(pieces))
    return "`".join(escaped)


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines
    )


# --- A page


def bases(name: str) -> list[Configuration]:
    """The configurations of chaos that the protocol's are like."""
    return [one for one in CONFIGURATIONS if one.name.partition(",")[0] == ALIKE.get(name, name)]


def small(name: str, *changes: str) -> Scenario:
    """A small scenario of the protocol, in which nobody is lost: chaos's, else the shipped one of its name."""
    like = bases(name)
    scenario, own = (like[0].scenario, like[0].changes) if like else (name, ("data.limit=120",))
    named = (f"protocol.name={name}", *CHANGED.get(name, ()))
    return load(scenario, [*own, *CALM, *named, *changes])


def page(name: str, folder: Path) -> str:
    """The page of a protocol; its runs go into `folder`."""
    one = PROTOCOLS[name]
    written = MATHEMATICS / f"{named(name)}.md"
    parts = [f"# {name}", f"{prose(one.summary[0].upper() + one.summary[1:])}.", papers(one)]
    parts += ["## Mathematics", written.read_text(encoding="utf-8").strip()]
    parts += ["## Messages", messages(name), "## Steps", steps(one), "## Who learns what", learned(one)]
    if name not in WITHOUT_RUN:
        parts += runs(name, folder)
    parts += ["## Its keys", own_keys(one)]
    return "\n\n".join(parts) + "\n"


def papers(one: Declaration) -> str:
    """Where the protocol is from."""
    return "\n".join(f"- {prose(paper)}" for paper in one.papers)


def types(name: str) -> list[str]:
    """The names of the messages that a protocol's parties may send, with the keys of any configuration of chaos."""
    one = PROTOCOLS[name]
    if name in WITH_OWN_PAGES:
        return [kind.__name__ for kind in one.message_types]
    changed = (*CALM, f"protocol.name={name}", *CHANGED.get(name, ()))
    chosen = [load(base.scenario, [*base.changes, *changed]) for base in bases(name)]
    return list(dict.fromkeys(kind.__name__ for keys in (small(name), *chosen) for kind in one.types_with(keys)))


def messages(name: str) -> str:
    """The messages that its parties may send, as the files that send them list them."""
    known, rows = rows_of_messages(), []
    for kind in types(name):
        path, lines = known[kind]
        link = f"[{Path(path).stem}](parts.md#{anchor(path)})"
        for line in lines:
            step, message, way, payload, what = cells(line)
            rows.append((where(step), f"`{message}`", prose(way), prose(payload), prose(what), link))
    head = "Of a run's messages these are what the protocol itself sends; which of them depends on the keys."
    return f"{head}\n\n" + table(
        ("step", "message", "from, to", "payload, bytes", "what", "part"), [*dict.fromkeys(rows)]
    )


def where(step: str) -> str:
    """A step, or a party and its step, as Markdown."""
    return step if "`" in step else f"`{step}`"


def anchor(path: str) -> str:
    """The anchor of a part on the page of all parts."""
    return re.sub(r"[^a-z0-9]+", "-", path.removeprefix("protocols/").removesuffix(".py"))


def steps(one: Declaration) -> str:
    """The steps at which a fault may strike."""
    rows = [(step.role, f"`{step.name}`", prose(step.what)) for step in one.steps]
    return "A fault can strike a party `at`, `before` or `after` each.\n\n" + table(
        ("role", "step", "what is done"), [*dict.fromkeys(rows)]
    )


def learned(one: Declaration) -> str:
    """The table of who learns what."""
    return "\n".join(f"- The {role} learns {prose(what)}." for role, what in one.learned.items())


def own_keys(one: Declaration) -> str:
    """The keys that this protocol uses and not every other does."""
    rows = [
        (f"`{key.name}`", prose(key.type), f"`{key.default}`" if key.default else "", prose(key.description))
        for key in keys()
        if one.name in key.protocols
    ]
    head = "Besides [those of every protocol](../scenario-keys.md)."
    return f"{head}\n\n" + (table(("key", "allowed", "default", "what it says"), rows) if rows else "It has none.")


def runs(name: str, folder: Path) -> list[str]:
    """Bytes of a small run beside the formula, and the effect of a loss at each step.

    Losses are predicted, in an eighth of the time; `tests/scenarios/test_predicted_faults.py` compares predictions with
    runs. The loss that is drawn is run.
    """
    calm = run(small(name), out=folder / "calm")
    scenario = calm_scenario = small(name)
    clients = scenario.data.clients
    taken = list(dict.fromkeys(
        step.name for step in PROTOCOLS[name].steps_with(calm_scenario) if step.role == "client"
    ))  # fmt: skip
    rows, pictured, best = [], "", -1
    for number, step in enumerate(taken):
        found = predict_run(struck(name, step))
        rows.append((f"`{step}`", found.outcome, prose(ending(found)), format_duration(found.virtual_seconds)))
        worth = (found.outcome == "completed") * 100 + bool(found.lost) * 50 + number
        if len(taken) // 2 >= number and worth > best:
            pictured, best = step, worth
    lost = table(("at its step", "the run", "what is done", "virtual time"), rows)
    made = [
        "## Bytes",
        f"A small run, {clients} client{'s' * (clients > 1)} and nobody lost: bytes on every hop, beside the formula.",
        traffic(calm),
        "## What happens at a loss",
        f"The same run, predicted once for each step with a crash of `client/{clients - 1}` there:",
        lost,
    ]
    if pictured:
        found = run(struck(name, pictured), out=folder / "lost")
        made += [f"A run with the crash at `{pictured}`, in virtual time:", raw(fragment(found.folder, compact=True))]
    return made


def struck(name: str, step: str) -> Scenario:
    """The small scenario with a crash of its last client at `step`."""
    last = small(name).data.clients - 1
    return small(name, f'fault=[{{kind="crash", party="client/{last}", at="{step}"}}]')


def ending(found: Prediction) -> str:
    """Who was lost and what was done, or why the run ended."""
    first = [loss for loss in found.lost if loss.round == found.lost[0].round]
    losses = [f"{loss.party} at {loss.step}: {loss.action}" for loss in first]
    return "; ".join(dict.fromkeys(losses)) or str(found.reason) or "nobody is missed: its part was done"


def traffic(calm: Result) -> str:
    """The bytes of a run by step and type, its payload beside the formula's."""
    recorded = read_run(calm.folder)
    payloads: dict[str, int] = {}
    for row in recorded.rows:
        payloads[row.type] = payloads.get(row.type, 0) + row.payload
    rows = []
    for row in recorded.rows:
        whole = payloads[row.type] == row.payload
        formula = recorded.formula.get(row.type) if whole else None
        shown = f"{formula:,}" if formula is not None else ""
        names = (f"`{row.step}`", f"`{row.type}`") if row.step else ("", f"`{row.type}`")
        rows.append((*names, f"{row.messages:,}", f"{row.payload:,}", shown, f"{row.sealing:,}", f"{row.envelope:,}"))
    return table(("step", "message", "hops", "payload", "formula", "sealing", "envelope"), rows)


def raw(html: str) -> str:
    """HTML as it is, in a page."""
    return f"````{{raw}} html\n{html}\n````"


def pages(folder: Path) -> Iterator[tuple[str, str]]:
    """The names and texts of all pages of protocols; their runs go into `folder`."""
    for name in PROTOCOLS:
        yield named(name), page(name, folder / named(name))


def overview() -> str:
    """The page that lists the protocols."""
    rows = [
        (f"[{name}]({named(name)}.md)", prose(one.summary), escape(one.papers[0]) if one.papers else "")
        for name, one in PROTOCOLS.items()
    ]
    listed = "\n".join(named(name) for name in PROTOCOLS)
    head = "Each page has the mathematics, the messages, who learns what, bytes, and the effect of a loss at each step."
    tree = f"```{{toctree}}\n:hidden:\n\n{listed}\nparts\n```"
    return f"# The protocols\n\n{head}\n\n{table(('name', 'what it does', 'paper'), rows)}\n\n{tree}\n"


def parts() -> str:
    """The page of the parts that protocols are made of: the docstrings of their files."""
    made = ["# The parts of the protocols", "Each is a file, which opens with what is written here."]
    for path in modules():
        text = docstring(path)
        head, _, rest = text.partition("\n")
        made += [f"({anchor(path)})=\n## {path.removeprefix('protocols/')}", markdown(f"{head}\n{rest}")]
    return "\n\n".join(made) + "\n"
