"""One table in each of its renderings: a terminal, a page, comma-separated values, JSON and Markdown."""

import csv
import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.scenarios.console import kinds
from tacit.scenarios.console.table import Column, Quantity, Spread, Table, as_csv, as_markdown, as_records
from tacit.scenarios.reporting.compared import side_by_side
from tacit.scenarios.reporting.html import Html, of_table
from tests.scenarios.test_widths import NAMES, shown

COLUMNS = (
    "who",
    Column("sent", kinds.BYTES, key="bytes"),
    Column("time", kinds.SECONDS),
    Column("accuracy", kinds.decimals(3)),
    Column("share", kinds.share(1)),
)
ROWS = [
    ("client/0", 1_234_567, 0.0401, Spread(0.98765, 0.0123), 0.25),
    ("client/1", Quantity(5, remark=" WRONG"), None, Spread(0.5, None), Quantity(75, kinds.COUNT)),
]


def made() -> Table:
    table = Table(COLUMNS, ROWS, "clients")
    table.sums.append(("total", 1_234_572, 0.0401, None, None))
    return table


def test_people_see_rounded_values_and_the_sums_below_a_line() -> None:
    lines = shown(made(), 120)
    assert lines[0] == "clients" and lines[1].split() == ["who", "sent", "time", "accuracy", "share"]
    assert [re.split("  +", line.strip()) for line in lines[3:5]] == [
        ["client/0", "1.23 MB", "40.1 ms", "0.988 ± 0.012", "25.0%"],
        ["client/1", "5 B WRONG", "-", "0.500", "75"],
    ]
    assert not lines[5].strip("─ ") and lines[6].split() == ["total", "1.23", "MB", "40.1", "ms", "-", "-"]


def test_files_have_exact_values_by_the_names_of_the_columns() -> None:
    records = as_records(made())
    names = ("who", "bytes", "time", "accuracy", "accuracy_deviation", "share")
    assert [tuple(record) for record in records] == [names, names]
    assert [tuple(record.values()) for record in records] == [
        ("client/0", 1_234_567, 0.0401, 0.98765, 0.0123, 0.25),
        ("client/1", 5, None, 0.5, None, 75),
    ]
    assert json.loads(json.dumps(records)) == records
    assert as_csv(made()).splitlines() == [
        ",".join(names), "client/0,1234567,0.0401,0.98765,0.0123,0.25", "client/1,5,,0.5,,75",
    ]  # fmt: skip
    assert as_csv(made(), digits=2).splitlines()[1] == "client/0,1234567,0.04,0.99,0.012,0.25"


def test_a_page_has_both_and_escapes_foreign_text() -> None:
    page = of_table(made())
    assert '<data value="1234567" title="1,234,567 bytes">1.23 MB</data>' in page
    assert '<data value="0.0401" title="0.0401 s">40.1 ms</data>' in page
    assert '<data value="5" title="5 bytes">5 B</data> WRONG' in page
    assert page.count("<tr") == 4 and page.partition("<tfoot>")[2].count("<tr") == 1
    assert 'aria-label="clients"' in page and '<th scope="row">client/1</th>' in page
    foreign = of_table(Table(("name",), [("<b>",), (Html("<i>ours</i>"),), ("two\nlines",)]), "names", marked=1)
    assert "&lt;b&gt;" in foreign and "<i>ours</i>" in foreign and "two<br>lines" in foreign
    assert foreign.index("marked") < foreign.index("ours")


def test_markdown_aligns_numbers_and_escapes_bars() -> None:
    table = Table(("a|b", Column("count", kinds.COUNT)), [("x\ny", 1000), ("z", None)], sums=[("total", 1000)])
    assert as_markdown(table).splitlines() == [
        "| a\\|b | count |", "| --- | ---: |", "| x<br>y | 1,000 |", "| z | - |", "| total | 1,000 |",
    ]  # fmt: skip


def test_a_group_shows_its_name_once_and_files_repeat_it() -> None:
    rows = [("a", "x", 1), ("a", "y", 2), ("b", "x", 3)]
    table = Table(("group", "case", Column("count", kinds.COUNT)), rows, grouped=1)
    lines = shown(table, 80)
    assert [line.split() for line in lines[2:4]] == [["a", "x", "1"], ["y", "2"]]
    assert not lines[4].strip("─ ") and lines[5].split() == ["b", "x", "3"]
    assert as_csv(table).splitlines()[1:] == ["a,x,1", "a,y,2", "b,x,3"]


def test_records_give_their_values_by_name_or_by_function() -> None:
    columns = (
        Column("clients", kinds.COUNT, key="count"),
        Column("half", kinds.COUNT, of=lambda one: one["count"] / 2),
    )
    table = Table.of([{"count": 4}, {"count": 10}], columns)
    table.add_total()
    assert table.rows == [(4, 2.0), (10, 5.0)] and table.sums == [(14, 7.0)]


def test_of_two_runs_the_difference_is_shown_and_of_more_none() -> None:
    facts: list[tuple[str, kinds.Kind, list[Any]]] = [
        ("bytes", kinds.BYTES, [2_000, 500]),
        ("time", kinds.SECONDS, [0.3, 0.1 + 0.2]),  # equal up to the order of additions
        ("messages", kinds.COUNT, [None, 12]),
        ("seconds", kinds.SECONDS, [None, None]),
        ("outcome", kinds.TEXT, ["completed", "failed"]),
    ]
    made = side_by_side("", "AB", facts, sums=[("total", kinds.COUNT, [1, 3])])
    assert made.headings == ("", "A", "B", "B - A")
    assert [row[1:] for row in made.texts()] == [
        ("2 kB", "500 B", "-1.50 kB"),
        ("300 ms", "300 ms", "0"),
        ("-", "12", "+12"),
        ("-", "-", ""),
        ("completed", "failed", ""),
        ("1", "3", "+2"),
    ]
    three = side_by_side("step", "ABC", [("hash", kinds.COUNT, [1, 2, 3])])
    assert three.headings == ("step", "A", "B", "C") and three.texts() == [("hash", "1", "2", "3")]


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 1 values in a table of 2 columns"):
        Table(("a", "b"), [("x",)])


@given(st.lists(st.tuples(NAMES, st.none() | st.integers(), st.none() | st.floats(allow_nan=False)), max_size=6))
def test_no_value_is_rounded_in_a_csv(rows: list[tuple[str, int | None, float | None]]) -> None:
    columns = ("name", Column("count", kinds.BYTES), Column("time", kinds.SECONDS))
    _, *lines = csv.reader(io.StringIO(as_csv(Table(columns, rows)), newline=""))
    for (name, count, time), line in zip(rows, lines, strict=True):
        assert line == [name, "" if count is None else str(count), "" if time is None else repr(time)]
