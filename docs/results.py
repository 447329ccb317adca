"""Puts the results of sweeps into docs/results.md: the table.md of each folder, in its place on the page.

python docs/results.py runs/NAME-sweep-1 ...

A table goes between the lines `<!-- table: NAME -->` and `<!-- end -->`, with the scenario's name. If there is also a
line `<!-- curves: NAME -->`, the accuracy after each measured round goes there: a column for each row of the table, for
the first of the table's columns, as the mean over the seeds.
"""

import csv
import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).with_name("results.md")


def name_of(table: str) -> str:
    """The scenario's name in the command that a table.md names. Raises ValueError if there is none."""
    found = re.search(r"^`tacit sweep ([^\s`]+)", table, re.MULTILINE)
    if found is None:
        raise ValueError("no table of a sweep")
    return Path(found[1]).stem


def put(page: str, table: str) -> str:
    """`page` with `table` in its place. Raises ValueError if the page has none."""
    mark = f"<!-- table: {name_of(table)} -->"
    if page.count(mark) != 1:
        raise ValueError(f"{PAGE.name} has no place for it: needed, once: {mark} and <!-- end -->")
    return _fill(page, mark, table)


def _fill(page: str, mark: str, text: str) -> str:
    place = re.compile(rf"({re.escape(mark)}\n).*?(<!-- end -->)", re.DOTALL)
    return place.sub(lambda found: f"{found[1]}\n{text.strip()}\n\n{found[2]}", page)


def curves(folder: Path) -> str:
    """Accuracy in percent after each measured round, a line for each, from the runs in a sweep's `folder`."""
    with (folder / "sweep.csv").open(newline="", encoding="utf-8") as file:
        runs = list(csv.DictReader(file))
    found: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in (run for run in runs if run["column"] == runs[0]["column"]):
        for one in json.loads((folder / run["folder"] / "result.json").read_text(encoding="utf-8"))["rounds"]:
            if one.get("accuracy") is not None:
                found[one["round"]][run["row"]].append(one["accuracy"])
    names = list(dict.fromkeys(run["row"] for run in runs))
    lines = [["round", *names], ["---:"] * (len(names) + 1)]
    for number, values in sorted(found.items()):
        lines.append([str(number), *(f"{100 * statistics.fmean(values[n]):.2f}" if values[n] else "-" for n in names)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(folders: Sequence[str]) -> None:
    """Put the table and the curves of each folder into the page; an error is reported in one line."""
    page = PAGE.read_text(encoding="utf-8")
    for folder in folders:
        try:
            table = (Path(folder) / "table.md").read_text(encoding="utf-8")
            page = put(page, table)
            mark = f"<!-- curves: {name_of(table)} -->"
            page = _fill(page, mark, curves(Path(folder))) if mark in page else page
        except OSError as error:
            raise SystemExit(f"error: {error.filename}: {error.strerror}; needed: the folder of a sweep") from None
        except ValueError as error:
            raise SystemExit(f"error: {folder}: {error}") from None
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
