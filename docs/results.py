"""Puts the results of sweeps into docs/results/*.md and docs/howto/*.md: the table.md of each folder, in its place on
one of the pages.

python docs/results.py [runs/NAME-sweep-1 ...]

A table goes between the lines `<!-- table: NAME -->` and `<!-- end -->`, with the scenario's name. If there is also a
line `<!-- curves: NAME -->`, the accuracy after each measured round goes there: a column for each row of the table, for
the first of the table's columns, as the mean over the seeds.

The values of each seed go into docs/results/NAME.csv, so that pairs of runs with one seed can be computed again.

A table that does not say which code made it is from before tables did, and a line says so. Between `<!-- claims -->`
and `<!-- end -->` on docs/results.md each claim of the papers goes, with what the orders below the tables say of it.
Without a folder these two are made again.
"""

import csv
import io
import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

PAGE = Path(__file__).with_name("results.md")
"""The page with the claims; the tables are on the pages of the folder beside it."""


def pages() -> dict[str, str]:
    """The text of each page with tables, by its path from the page with the claims: of results, and guides."""
    paths = [*sorted(PAGE.with_suffix("").glob("*.md")), *sorted(PAGE.with_name("howto").glob("*.md"))]
    texts = {path.relative_to(PAGE.parent).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return {path: text for path, text in texts.items() if path.startswith("results/") or "<!-- table: " in text}


def name_of(table: str) -> str:
    """The scenario's name in the command that a table.md names. Raises ValueError if there is none."""
    found = re.search(r"^`tacit sweep ([^\s`]+)", table, re.MULTILINE)
    if found is None:
        raise ValueError("no table of a sweep")
    return Path(found[1]).stem


def put(page: str, table: str) -> str:
    """`page` with `table` in its place. Raises ValueError if the page has none."""
    mark = _mark(table)
    if page.count(mark) != 1:
        raise ValueError(f"docs/results has no place for it: needed, once: {mark} and <!-- end -->")
    return _fill(page, mark, table)


def _mark(table: str) -> str:
    """The line above the place of a table."""
    return f"<!-- table: {name_of(table)} -->"


OLDER = "Made by an earlier code, before tables named theirs, and not run again since."


def marked(page: str) -> str:
    """`page` with a line above each table that does not say which code made it."""
    for name in re.findall(r"^<!-- table: (.+) -->$", page, re.MULTILINE):
        text = block(page, name)
        if "made by Tacit" not in text and OLDER not in text:
            page = _fill(page, f"<!-- table: {name} -->", f"{OLDER}\n\n{text.strip()}")
    return page


def block(page: str, name: str) -> str:
    """Return the text between the lines of the table `name`. Raises ValueError if the page has none."""
    found = re.search(rf"<!-- table: {re.escape(name)} -->\n(.*?)<!-- end -->", page, re.DOTALL)
    if found is None:
        raise ValueError(f"docs/results has no table {name}")
    return found[1]


XCLP, FEDCT = "Scott et al.", "Abourayya et al."

CLAIMS: tuple[tuple[str, str, tuple[tuple[str, str], ...] | str], ...] = (
    ("New points: XCLP beats label propagation per client", XCLP, (
        ("prediction-size", "pretrained: XCLP above pretrained: per-client LP"),
        ("prediction-size", "finetuned: XCLP above finetuned: per-client LP"),
        ("prediction-mnist", "identity: XCLP above identity: per-client LP"),
        ("prediction-mnist", "linear: XCLP above linear: per-client LP"),
        ("prediction-fashion-mnist", "identity: XCLP above identity: per-client LP"),
        ("prediction-fashion-mnist", "linear: XCLP above linear: per-client LP"),
    )),
    ("New points: XCLP beats the federated model (FedAvg)", XCLP, (
        ("prediction-size", "finetuned: XCLP above finetuned: FedAvg"),
        ("prediction-labeled", "XCLP (labeled) above FedAvg"),
        ("prediction-mnist", "linear: XCLP above linear: FedAvg"),
        ("prediction-fashion-mnist", "linear: XCLP above linear: FedAvg"),
    )),
    ("New points of a client without training data: XCLP beats FedAvg", XCLP, (
        ("prediction-leave-one-out", "XCLP above FedAvg"),
    )),
    ("New points: unlabeled points in the graph improve XCLP", XCLP, (
        ("prediction-labeled", "XCLP (labeled+unlabeled) above XCLP (labeled)"),
    )),
    ("IID training: FedAvg+XCLP beats training on labeled points only", XCLP, (
        ("training-cifar10-iid", "FedAvg+XCLP above FedAvg (labeled only)"),
        ("training-mnist", "FedAvg+XCLP above FedAvg (labeled only)"),
    )),
    ("IID training: FedAvg+XCLP beats label propagation per client", XCLP, (
        ("training-cifar10-iid", "FedAvg+XCLP above FedAvg+perclientLP"),
        ("training-mnist", "FedAvg+XCLP above FedAvg+perclientLP"),
    )),
    ("IID training: FedAvg+XCLP beats the network's own labels", XCLP, (
        ("training-cifar10-iid", "FedAvg+XCLP above FedAvg+network"),
        ("training-mnist", "FedAvg+XCLP above FedAvg+network"),
    )),
    ("IID training: FedAvg+XCLP beats FedSem+", XCLP, (("training-cifar10-iid", "FedAvg+XCLP above FedSem+"),)),
    ("IID training: FedAvg+XCLP beats FedMatch and FedSiam", XCLP, (
        ("training-cifar10-iid", "FedAvg+XCLP above FedMatch"),
        ("training-cifar10-iid", "FedAvg+XCLP above FedSiam"),
    )),
    ("Non-IID training: FedAvg+XCLP beats training on labeled points only", XCLP, (
        ("training-cifar10-non-iid", "FedAvg+XCLP above FedAvg (labeled only)"),
    )),
    ("Non-IID training: FedAvg+XCLP beats label propagation per client", XCLP, (
        ("training-cifar10-non-iid", "FedAvg+XCLP above FedAvg+perclientLP"),
    )),
    ("Non-IID training: FedAvg+XCLP beats the network's own labels", XCLP, (
        ("training-cifar10-non-iid", "FedAvg+XCLP above FedAvg+network"),
    )),
    ("Non-IID training: FedAvg+XCLP beats FedSem+", XCLP, (("training-cifar10-non-iid", "FedAvg+XCLP above FedSem+"),)),
    ("Non-IID training: FedAvg+XCLP beats FedMatch and FedSiam", XCLP, (
        ("training-cifar10-non-iid", "FedAvg+XCLP above FedMatch"),
        ("training-cifar10-non-iid", "FedAvg+XCLP above FedSiam"),
    )),
    ("Training on CIFAR-100 and Mini-ImageNet", XCLP, "missing"),
    ("FedCT beats learning alone", FEDCT, (("fedct-table-10", "FedCT above no communication"),)),
    ("FedCT is as accurate as FedAvg", FEDCT, "fedct-table-10"),
    ("FedCT is more accurate than PATE", FEDCT, (
        ("fedct-table-1", "FedCT above PATE: "),
        ("fedct-table-8", "FedCT above PATE"),
    )),
    ("Hard labels leak less than probabilities", FEDCT, (("fedct-table-1", "DD above FedCT"),)),
    ("Models leak more than probabilities", FEDCT, (("fedct-table-1", "FedAvg above DD"),)),
    ("Non-IID clients: FedCT beats sharing probabilities (DD)", FEDCT, (("fedct-table-2", "FedCT above DD"),)),
    ("Strongly non-IID clients: a qualified majority improves FedCT", FEDCT, (
        ("fedct-table-2", "FedCT (QM) above FedCT"),
    )),
    ("Non-IID clients: FedAvg beats FedCT", FEDCT, (("fedct-table-2", "FedAvg above FedCT"),)),
    ("FedCT's accuracy rises with the similarity of the public set U to clients' data", FEDCT, (
        ("fedct-table-4", "i.i.d. CIFAR-10 above CIFAR-10, Dirichlet α = 1.0"),
        ("fedct-table-4", "CIFAR-10, Dirichlet α = 1.0 above CIFAR-10, Dirichlet α = 0.5"),
    )),
    ("FedCT trains trees, rules and forests", FEDCT, "fedct-interpretable"),
    ("FedCT works with learners of different kinds", FEDCT, "fedct-mixed"),
    ("IMDB film reviews: FedCT beats FedAvg", FEDCT, (("fedct-imdb", "FedCT above FedAvg"),)),
    ("DP-FedCT stays accurate at epsilon = 0.1", FEDCT, "fedct-privacy"),
    ("Many clients: FedAvg beats FedCT", FEDCT, (("fedct-clients", "FedAvg above FedCT"),)),
    ("Many clients: FedCT beats learning alone", FEDCT, (("fedct-clients", "FedCT above no communication"),)),
    ("Few public points suffice for FedCT to beat learning alone", FEDCT, (
        ("fedct-public-size", "FedCT above no communication"),
    )),
    ("Many clients on Pneumonia (figure 8), FedMD", FEDCT, "missing"),
)  # fmt: skip
"""Each claim, whose it is, and by which orders (the table, what its line begins with), or where words say it."""

MISSING = "missing"
SAID = {
    "fedct-table-10": "not reproduced; see the figures",
    "fedct-interpretable": "reproduced, judging by the figures",
    "fedct-mixed": "reproduced, judging by the figures",
    "fedct-privacy": "not reproduced: less accurate than learning alone",
}


def claims(texts: Mapping[str, str]) -> str:
    """The table of all claims, by the orders that stand in the tables of the pages `texts`."""
    lines = ["| claim | paper | result | tables |", "| --- | --- | --- | --- |"]
    for claim, source, found in CLAIMS:
        if found == MISSING:
            here, tables = "not run", "[missing](#missing-results)"
        elif isinstance(found, str):
            here, tables = SAID[found], _link(texts, found)
        else:
            orders = [_order(texts, name, start) for name, start in found]
            here = stands([line for line in orders if line]) if any(orders) else "not run"
            tables = ", ".join(_link(texts, name) for name in dict.fromkeys(name for name, _ in found))
        lines.append(f"| {claim} | {source} | {here} | {tables} |")
    return "\n".join(lines)


def _link(texts: Mapping[str, str], name: str) -> str:
    """A link to the heading above the table `name`."""
    path, page = next((path, page) for path, page in texts.items() if f"<!-- table: {name} -->" in page)
    before = page[: page.index(f"<!-- table: {name} -->")]
    heading = re.findall(r"^#+ (.+)$", before, re.MULTILINE)[-1]
    anchor = re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
    return f"[{name}]({path}#{anchor})"


def _order(texts: Mapping[str, str], name: str, start: str) -> str:
    """The line of an order of a table, "" where the table has none. Raises ValueError if there is no table."""
    page = "\n".join(texts.values())
    return next((line for line in block(page, name).splitlines() if line.startswith(f"- {start}")), "")


def stands(orders: Sequence[str]) -> str:
    """Return in how many cells the lines of `orders` hold together, and in how many beyond the spread."""
    held = beyond = cells = 0
    older = False
    for line in orders:
        _, _, said = line.partition(": in ")
        while not re.match(r"every |\d+ of ", said):
            _, _, said = said.partition(": in ")
        gaps = len(re.findall(r": [+-][\d,.]+(?: \[|, without)", said))
        some = re.match(r"(\d+) of (\d+)", said)
        older = older or not gaps
        cells += int(some[2]) if some else gaps or 1
        held += int(some[1]) if some else gaps or 1
        spread = re.search(r"beyond the spread in (\d+)", said)
        beyond += int(spread[1]) if spread else 0
    if older:
        every = "reproduced in every cell" if held == cells else "reproduced in part" if held else "not reproduced"
        return f"{every} (means of an earlier code)"
    if not held:
        return f"not reproduced (0 of {cells})"
    return f"reproduced in {held} of {cells}; beyond the spread in {beyond or 'none'}"


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


def values(folder: Path) -> str:
    """The value of each run in a sweep's `folder`, as comma-separated values: row, column, measure, seed, value."""
    names = ("row", "column", "measure", "seed", "value")
    with (folder / "sweep.csv").open(newline="", encoding="utf-8") as file:
        lines = [[run[name] for name in names] for run in csv.DictReader(file)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *lines])
    return text.getvalue()


def main(folders: Sequence[str]) -> None:
    """Put the tables and curves of the folders into their pages, and what follows from all; an error is one line."""
    texts = pages()
    for folder in folders:
        try:
            table = (Path(folder) / "table.md").read_text(encoding="utf-8")
            path = next((path for path, page in texts.items() if _mark(table) in page), "")
            page = put(texts.get(path, ""), table)
            mark = f"<!-- curves: {name_of(table)} -->"
            texts[path] = _fill(page, mark, curves(Path(folder))) if mark in page else page
            (PAGE.with_suffix("") / f"{name_of(table)}.csv").write_text(values(Path(folder)), encoding="utf-8")
        except OSError as error:
            raise SystemExit(f"error: {error.filename}: {error.strerror}; needed: the folder of a sweep") from None
        except ValueError as error:
            raise SystemExit(f"error: {folder}: {error}") from None
    texts = {path: marked(page) for path, page in texts.items()}
    for path, page in texts.items():
        (PAGE.parent / path).write_text(page, encoding="utf-8")
    try:
        page = _fill(PAGE.read_text(encoding="utf-8"), "<!-- claims -->", claims(texts))
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
