"""Puts measured tables into docs/results.md: of each sweep's folder the table.md, in its place on the page.

python docs/results.py runs/NAME-sweep-1 ...

The place of a table is between the lines `<!-- table: NAME -->` and `<!-- end -->`, NAME being that of the scenario.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).with_name("results.md")


def name_of(table: str) -> str:
    """The scenario's name in the command that a table.md tells. Raises ValueError where there is none."""
    found = re.search(r"^`tacit sweep (\S+)", table, re.MULTILINE)
    if found is None:
        raise ValueError("no table of a sweep")
    return Path(found[1]).stem


def put(page: str, table: str) -> str:
    """`page` with `table` in its place. Raises ValueError where the page has none for it."""
    name = name_of(table)
    place = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if len(place.findall(page)) != 1:
        raise ValueError(f"{PAGE.name} has no place for it: needed, once: <!-- table: {name} --> and <!-- end -->")
    return place.sub(lambda found: f"{found[1]}\n{table.strip()}\n\n{found[2]}", page)


def main(folders: Sequence[str]) -> None:
    """Put the table of each folder into the page; of mistakes, a line."""
    page = PAGE.read_text(encoding="utf-8")
    for folder in folders:
        try:
            page = put(page, (Path(folder) / "table.md").read_text(encoding="utf-8"))
        except OSError as error:
            raise SystemExit(f"error: {error.filename}: {error.strerror}; needed: the folder of a sweep") from None
        except ValueError as error:
            raise SystemExit(f"error: {folder}: {error}") from None
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
