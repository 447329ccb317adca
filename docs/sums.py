"""Fills the tables of docs/howto/secure-sums.md and draws its pictures, from the rows in docs/sums.csv.

python docs/sums.py            writes the tables into the page
python docs/sums.py FOLDER     draws sums.svg and sums-recovery.svg into the folder

`tacit bench sums --csv docs/sums.csv` writes the rows, and with `--published --csv docs/published.csv` those
of Flamingo's comparison. A table goes between `<!-- made: NAME -->` and `<!-- end -->`.
"""

import re
import sys
from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path

from tacit.benchmarks.measure import read_records
from tacit.benchmarks.sums.drawing import QUESTIONS, best, draw, labelled
from tacit.benchmarks.sums.published import Again
from tacit.benchmarks.sums.table import NETWORKS, PUBLISHED, Row
from tacit.protocols.crypto.regular_graph import Tolerance, degree_of
from tacit.protocols.crypto.words import packed_bytes
from tacit.scenarios.console import kinds
from tacit.scenarios.console.table import Column, Table, as_markdown
from tacit.sim.units import format_bytes, format_duration

ROWS = Path(__file__).with_name("sums.csv")
COMPARISON = Path(__file__).with_name("published.csv")
PAGE = Path(__file__).with_name("howto") / "secure-sums.md"


SIZE, TIME = (partial(Column, kind=kind, missing="") for kind in (kinds.WHOLE_BYTES, kinds.SECONDS))
"""Columns of bytes and of seconds."""


def _of_home(rows: Sequence[Row]) -> dict[tuple[int, int], list[Row]]:
    """The rows over the network `home` by the numbers of clients and of the vector, without published comparisons."""
    found: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        if row.network == "home" and (row.clients, row.numbers) not in PUBLISHED:
            found.setdefault((row.clients, row.numbers), []).append(row)
    return dict(sorted(found.items()))


def advice(rows: Sequence[Row]) -> str:
    """The secure sums with the best figure for each size and question, by the rule of the picture."""
    body = []
    for (clients, numbers), some in _of_home(rows).items():
        winners = [best(some, figure, most) for _, figure, _, most in QUESTIONS]
        if any(winners):
            cells = (None if one is None else ", ".join(f"`{way}`" for way in one[0]) for one in winners)
            body.append((f"{clients:,} clients, {numbers:,} numbers", *cells))
    questions = (Column(name.replace("\n", " "), missing="not run") for name, *_ in QUESTIONS)
    return as_markdown(Table(("", *questions), body))


_MARKED = (("client up", "client down"), ("time",), ("server CPU, 30% lost",), ("client CPU",), ("may collude",))
"""The columns that hold the figures of each of QUESTIONS."""


def overview(rows: Sequence[Row]) -> str:
    """The tables: for each size a line for each sum, over the network `home`, with the best figures in bold."""
    columns = (
        Column("sum"), Column("how"), SIZE("client up"), SIZE("client down"), TIME("client CPU"), TIME("server CPU"),
        TIME("server CPU, 30% lost"), TIME("time"), Column("may collude", kinds.COUNT, missing=""),
        Column("sums under losses"),
    )  # fmt: skip
    made = []
    for (clients, numbers), home in _of_home(rows).items():
        winners = [(best(home, figure, most) or ([],))[0] for _, figure, _, most in QUESTIONS]
        body = []
        for way in dict.fromkeys(row.sum for row in home):
            some = [row for row in home if row.sum == way]
            calm = next((row for row in some if not row.before), None)
            if calm is None:
                continue
            lost = [row for row in some if row.before and row.fidelity != "omitted"]
            omitted = sum(row.fidelity == "omitted" for row in some if row.before)
            most = [row.server_seconds for row in lost if row.lost == 0.3 and row.server_seconds is not None]
            held = sum(row.outcome == "completed" and row.equals_plaintext is not False for row in lost)
            cells = (
                labelled(way), calm.fidelity, calm.client_up, calm.client_down, calm.client_seconds,
                calm.server_seconds, max(most, default=None), calm.virtual_seconds, calm.colluders,
                ", ".join((f"{held} of {len(lost)}",) * bool(lost) + (f"{omitted} not run",) * bool(omitted)),
            )  # fmt: skip
            bold = {name for names, ways in zip(_MARKED, winners, strict=True) if way in ways for name in names}
            shown = ((one, one.text(value)) for one, value in zip(columns, cells, strict=True))
            body.append([f"**{text}**" if one.heading in bold else text for one, text in shown])
        made.append(f"### {clients:,} clients, {numbers:,} numbers\n\n{as_markdown(Table(columns, body))}")
    return "\n\n".join(made)


def networks(rows: Sequence[Row]) -> str:
    """Virtual time by network, with nobody lost."""
    found = {(row.sum, row.network): row for row in rows if not row.before and row.clients * row.numbers == 10**8
             and row.clients == 100 and row.fidelity != "omitted"}  # fmt: skip
    body = [
        (labelled(way), *(found[way, net].virtual_seconds if (way, net) in found else None for net in NETWORKS))
        for way in dict.fromkeys(way for way, _ in found)
    ]
    return as_markdown(Table(("sum", *(TIME(f"`{net}`") for net in NETWORKS)), body))


def _bits(clients: int, numbers: int) -> float:
    """Bonawitz et al., Section 7: bits that a client sends and receives in a sum of numbers with 16 bits."""
    word = (clients * (2**16 - 1)).bit_length()
    return 8 * packed_bytes(numbers, word) + 2 * clients * 256 + (5 * clients - 4) * 256


def _verdict(ours: float, theirs: float) -> str:
    """The same to the printed digits, or the ratio."""
    return "same" if round(ours, 2) == theirs else f"ratio {ours / theirs:.2f}"


def _largest_gain(rows: Sequence[Row], name: str) -> tuple[float, str]:
    """The largest ratio of a number of seconds of Bonawitz's sum to that of LightSecAgg in equal runs, and which."""
    found: dict[tuple[object, ...], dict[str, Row]] = {}
    for row in rows:
        if row.outcome == "completed" and getattr(row, name):
            case = (row.clients, row.numbers, row.network, row.lost, row.before, row.fidelity)
            found.setdefault(case, {})[row.sum] = row
    pairs = [(one["secure"], one["lightsecagg"]) for one in found.values() if {"secure", "lightsecagg"} <= one.keys()]
    ratio, one = max(((getattr(one, name) / getattr(other, name), one) for one, other in pairs), key=itemgetter(0))
    lost = f"{one.lost:.0%} lost" if one.lost else "nobody lost"
    return ratio, f"{one.clients:,} clients, {one.numbers:,} numbers, {one.network}, {lost}"


def papers(rows: Sequence[Row]) -> str:
    """Figures that the papers print, beside those of Tacit, with a verdict for each."""
    body = []
    by = {(row.sum, row.clients, row.numbers): row for row in rows if row.fidelity == "formula"}
    for (clients, numbers), theirs in zip(PUBLISHED, (1.73, 1.98), strict=True):
        size = f"n = {clients:,}, d = {numbers:,}, 16 bits"
        ours = _bits(clients, numbers) / (16 * numbers)
        body.append(("Bonawitz et al.", f"expansion by the paper's formula; {size}", str(theirs), f"{ours:.3f}",
                     _verdict(ours, theirs)))  # fmt: skip
        if {("secure", clients, numbers), ("plain", clients, numbers)} <= by.keys():
            secure, plain = by["secure", clients, numbers], by["plain", clients, numbers]
            own = (secure.client_up or 0) + (secure.client_down or 0) - (plain.client_down or 0)
            body.append((
                "Bonawitz et al.", f"bytes of a client beside the model that it receives; {size}",
                f"{format_bytes(round(theirs * 2 * numbers))} ({theirs} x 2 d)", format_bytes(round(own)),
                f"{_verdict(own / (2 * numbers), theirs)}: Tacit's lists name parties, and its shares are sealed",
            ))  # fmt: skip
    k = degree_of(10_000, Tolerance(0.05, 0.05)).k
    body.append((
        "Bell et al.", "share of 10,000 clients that a client talks to; 5% corrupt, 5% lost", "3%", f"{k / 100:.1f}%",
        "not comparable: theirs is against a semi-malicious server, Tacit's is semi-honest, with 2^-40",
    ))  # fmt: skip
    (gain, where), (whole, where_whole) = (_largest_gain(rows, name) for name in ("server_seconds", "virtual_seconds"))
    body.append((
        "So et al.", "LightSecAgg's gain over Bonawitz's sum, at most", "12.7",
        f"{gain:.0f} (server's CPU; {where}), {whole:.2f} (whole round; {where_whole})",
        "server's work: larger, as pieces are decoded by a product of matrices; whole round: smaller, as the "
        "network and the deadline bound it",
    ))  # fmt: skip
    again = {one.sum: one for one in read_records(COMPARISON, Again) if not one.lost}
    ours = again["secagg+"].seconds / again["flamingo"].seconds
    body.append((
        "Ma et al.", "a round of SecAgg+ over one of Flamingo, n = 1,024, d = 16,000", "4.06 (65 s to 16 s)",
        f"{ours:.2f} ({format_duration(again['secagg+'].seconds)} to {format_duration(again['flamingo'].seconds)})",
        "not comparable: theirs are fixed waits, Tacit's steps end when all have answered (see below)",
    ))  # fmt: skip
    body += [
        (
            "Bell et al. (ACORN)",
            "bytes beyond the sum without checks of inputs",
            "0.1",
            "",
            "not run: Tacit has no ACORN",
        ),
        ("Bell et al. (ACORN)", "client's speed-up over SecAgg+", "2 to 8", "", "not run: Tacit has no ACORN"),
        ("Ngong et al. (Olympia)", "running times with 5% lost, n to 10,000, d to 10^7", "", "", "not compared"),
    ]
    return as_markdown(Table(("paper", "figure", "theirs", "Tacit", "verdict"), body))


def published(rows: Sequence[Row]) -> str:
    """Flamingo's published comparison with SecAgg+, of `COMPARISON`: their waits, and Tacit's figures beside them."""
    found: dict[tuple[str, int], Again] = {(one.sum, one.lost): one for one in read_records(COMPARISON, Again)}
    body: list[Sequence[str]] = []
    for lost in dict.fromkeys(lost for _, lost in found):
        pair = found["secagg+", lost], found["flamingo", lost]
        body += [
            (labelled(one.sum), f"{one.lost} of {one.clients:,}", f"{one.waits} s", one.theirs, one.seconds,
             one.server_seconds, one.client_up, one.client_down)
            for one in pair
        ]  # fmt: skip
        names = ("waits", "theirs", "seconds", "server_seconds", "client_up", "client_down")
        ratios = [f"{getattr(pair[0], name) / getattr(pair[1], name):.2f}" for name in names]
        body.append(("SecAgg+ / Flamingo", f"{lost} of {pair[0].clients:,}", *ratios))
    columns = (
        "sum", "lost", Column("their waits", kinds.FIGURE), TIME("with their waits"), TIME("Tacit"),
        TIME("server CPU"), SIZE("client up"), SIZE("client down"),
    )  # fmt: skip
    return as_markdown(Table(columns, body))


MADE = {"advice": advice, "overview": overview, "networks": networks, "papers": papers, "published": published}


def page() -> str:
    """The page with its tables as they are made from the rows."""
    text, rows = PAGE.read_text(encoding="utf-8"), read_records(ROWS, Row)
    for name, make in MADE.items():
        place = re.compile(rf"(<!-- made: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = place.sub(lambda found: f"{found[1]}\n{make(rows)}\n\n{found[2]}", text)  # noqa: B023
    return text


if __name__ == "__main__":
    if sys.argv[1:]:
        draw(Path(sys.argv[1]) / "sums.svg", read_records(ROWS, Row))
    else:
        PAGE.write_text(page(), encoding="utf-8")
