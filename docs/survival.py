"""Fills the tables of docs/howto/survival.md from docs/survival.json and docs/survival-ranges.json.

`tacit bench survival --json docs/survival.json` compares predictions with real runs. `tacit bench survival --ranges 20
--json docs/survival-ranges.json` compares ranges of seeds. A table goes between `<!-- made: NAME -->` and
`<!-- end -->`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from tacit.benchmarks.survival import ranges, shares

HERE = Path(__file__).parent
PAGE = HERE / "howto" / "survival.md"


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    ruler = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ruler, *body))


def compared() -> str:
    """The predicted and the real share of each scenario, and a line for each result on all of them."""
    found = shares.read_compared(HERE / "survival.json")
    head = (
        "scenario", "runs", "predicted", "95 % interval", "95 % range", "real", "real share lies",
        "standard errors apart", "real runs that end otherwise",
    )  # fmt: skip
    body = [
        (
            one.case, f"{one.runs:,}", f"{one.predicted:.3f}", "{:.3f} to {:.3f}".format(*one.interval),
            "{:.3f} to {:.3f}".format(*one.range), f"{one.real:.3f}", one.verdict, f"{one.apart:.2f}",
            str(one.otherwise),
        )
        for one in found
    ]  # fmt: skip
    results = [f"- {text[0].upper()}{text[1:]}." for _, text in shares.summary(found)]
    return "\n".join([_table(head, body), "", *results])


def spreads() -> str:
    """The shares of ranges of seeds of each scenario, and the result on all of them."""
    found = ranges.read_spreads(HERE / "survival-ranges.json")
    head = ("scenario", "ranges", "completes", "lowest", "highest", "chi-square", "probability of a larger one")
    body = [
        (
            one.case, f"{len(one.completed)} of {one.runs:,} runs", f"{one.share:.3f}",
            f"{min(one.completed) / one.runs:.3f}", f"{max(one.completed) / one.runs:.3f}", f"{one.square:.1f}",
            f"{one.probability:.2g}",
        )
        for one in found
    ]  # fmt: skip
    return f"{_table(head, body)}\n\n{ranges.summary(found)}"


MADE = {"compared": compared, "ranges": spreads}


def page() -> str:
    """The page with its tables as they are made from the files."""
    text = PAGE.read_text(encoding="utf-8")
    for name, make in MADE.items():
        place = re.compile(rf"(<!-- made: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = place.sub(lambda found: f"{found[1]}\n{make()}\n\n{found[2]}", text)  # noqa: B023
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
