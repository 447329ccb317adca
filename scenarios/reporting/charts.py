"""Charts by Altair, drawn as SVG when the page is made, so that they appear at once and need no script.

Measured: Vega's JavaScript is 0.9 MB of the 2.5 MB that a page may have, and has to be compiled at each opening. A
chart as SVG is 5 to 60 kB and takes 0.07 s to draw once. Colours are CSS variables of the page, so one drawing serves
the light and dark themes and paper. Each mark shows its values in a tooltip, and each chart is beside a table of its
figures.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from msgspec import Struct

from tacit.parties.learning.extras import MissingExtra, require
from tacit.scenarios.reporting.html import Html, element
from tacit.scenarios.running.folder import FolderError

__all__ = ["Series", "bars", "check_charts", "heat_map", "lines", "panels", "spans"]

_SVG = "http://www.w3.org/2000/svg"

_COLOURS = {
    name: f"#0{place:x}0{place:x}0{place:x}"
    for place, name in enumerate(
        ("ink", "muted", "line", "accent", "paper", "bad", "series-1", "series-2", "series-3", "series-4", "series-5",
         "series-6"), 1,
    )
}  # fmt: skip
"""Stand-ins for the page's colours, which are replaced by its CSS variables in the drawing."""

SERIES = [_COLOURS[f"series-{number}"] for number in range(1, 7)]

_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 2], [1, 3])
_SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
"""The marks of lines, by which lines differ even without colours."""

_BYTES = "datum.value === 0 ? '0' : format(datum.value, '~s') + 'B'"

_ROOM = {"left": 26, "right": 14, "top": 4, "bottom": 4}
"""The margins around a drawing in pixels, because a browser's letters may be wider than the assumed ones."""

_MARKED = 60
"""The most points of a line for which each point is marked."""


class Series(Struct, frozen=True):
    """The points of one line: x, y and the deviation of y, if there is one."""

    label: str
    points: Sequence[tuple[Any, float, float | None]]


def check_charts() -> None:
    """Raise FolderError if charts cannot be drawn here."""
    try:
        require("altair", "report", "a report")
        require("vl_convert", "report", "a report")
    except MissingExtra as missing:
        raise FolderError(str(missing)) from None


def bars(
    rows: Sequence[tuple[str, str, float, str]], kinds: Sequence[str], title: str, unit: str,
    ticks: Sequence[tuple[str, float, str]] = (),
) -> Html:  # fmt: skip
    """A chart with a bar for each name, which is divided by kind.

    `rows` are name, kind, value and tooltip. `ticks` are name, value and tooltip of lines across the bars.
    """
    import altair as alt

    names = list(dict.fromkeys(name for name, *_ in rows))
    place = alt.Y("name:N", sort=names, title=None)
    data = [{"name": n, "kind": k, "value": v, "words": w, "order": kinds.index(k)} for n, k, v, w in rows]
    colours = alt.Scale(domain=list(kinds), range=SERIES[: len(kinds)])
    chart: Any = (
        alt.Chart(_data(data))
        .mark_bar(height={"band": 0.7})
        .encode(
            y=place,
            x=alt.X("sum(value):Q", title=unit, axis=alt.Axis(labelExpr=_BYTES, tickCount=6)),
            color=alt.Color("kind:N", scale=colours, legend=alt.Legend(orient="top", title=None)),
            order="order:Q",
            description="words:N",
        )
    )
    if ticks:
        beside = [{"name": n, "value": v, "words": w} for n, v, w in ticks]
        chart += (
            alt.Chart(_data(beside))
            .mark_tick(color=_COLOURS["ink"], thickness=2, height={"band": 0.95})
            .encode(y=place, x="value:Q", description="words:N")
        )
    return _figure(chart.properties(width=620, height=alt.Step(22)), title)


def heat_map(
    cells: Sequence[tuple[str, str, float, str]], names: tuple[Sequence[str], Sequence[str]], title: str,
    axes: tuple[str, str],
) -> Html:  # fmt: skip
    """A heat map with a cell for each row and column, which have these `names` and `axes`.

    `cells` are row, column, value and tooltip.
    """
    import altair as alt

    data = [{"row": r, "column": c, "value": v, "words": w} for r, c, v, w in cells if v > 0]
    step = max(13, min(30, 560 // max(1, len(names[1]))))
    labels = alt.Axis(labelFontSize=min(11, step - 2), labelOverlap=False, grid=False, domain=False, ticks=False,
        titlePadding=22,
    )  # fmt: skip
    values = [value for *_, value, _ in cells if value > 0]
    # a minimum range, so that nearly equal sizes look nearly equal
    strength = alt.Scale(type="log", domain=[min([*values, max(values) / 1000]), max(values)], range=[0.1, 1])
    chart = (
        alt.Chart(_data(data))
        .mark_rect(color=_COLOURS["accent"], stroke=_COLOURS["paper"])
        .encode(
            y=alt.Y("row:N", scale=alt.Scale(domain=list(names[0])), title=axes[0] or None, axis=labels),
            x=alt.X("column:N", scale=alt.Scale(domain=list(names[1])), title=axes[1], axis=labels),
            opacity=alt.Opacity("value:Q", scale=strength, legend=None),
            description="words:N",
        )
        .properties(width=alt.Step(step), height=alt.Step(step))
    )
    return _figure(chart, title)


def lines(
    series: Sequence[Series], title: str, x: str, y: str, *, kind: str = "quantitative",
    log: tuple[bool, bool] = (False, False), order: Sequence[Any] = (), whole: bool = False, legend: str = "",
    stairs: bool = False, within: tuple[float, float] | None = None,
) -> Html:  # fmt: skip
    """A line chart over numbers x, or points over categories x, with error bars.

    `kind` is Vega's type of x, `order` the order of its values that are no numbers. `log`: which of the two axes are
    logarithmic; `whole`: x has no fractions; `legend`: the title of the legend of several lines; `stairs`: a line keeps
    its value until the next point; `within`: the ends of the vertical axis, else those of the values.
    """
    import altair as alt

    data = [
        {"x": at, "y": v, "low": v - (d or 0), "high": v + (d or 0), "series": one.label,
         "words": _words(one.label, x, at, y, v, d)}
        for one in series
        for at, v, d in one.points
    ]  # fmt: skip
    labels = [one.label for one in series]
    styles = [i % len(SERIES) for i in range(len(series))]
    named = alt.Legend(orient="bottom", title=legend or None, direction="vertical") if len(series) > 1 else None

    def by_series(channel: Any, values: Sequence[Any]) -> Any:
        scale = alt.Scale(domain=labels, range=[values[i] for i in styles])
        return channel("series:N", legend=named, scale=scale)

    encoded = {
        "x": _horizontal(data, x, kind, order, log[0], whole),
        "color": by_series(alt.Color, SERIES),
    }
    tall = _axis(within or [one["low"] for one in data] + [one["high"] for one in data], log[1])
    ends: dict[str, Any] = {} if within is None else {"domain": list(within)}
    up = {"title": y, "scale": alt.Scale(type="log" if log[1] else "linear", zero=False, **ends), "axis": tall}
    base = alt.Chart(_data(data))
    dashes = by_series(alt.StrokeDash, _DASHES)
    if kind == "ordinal" and len(series) > 1:
        encoded["xOffset"] = alt.XOffset("series:N", scale=alt.Scale(domain=labels, paddingOuter=0.3))
    drawn: list[Any] = []
    if kind != "ordinal":  # categories are not joined by a line
        line = base.mark_line(strokeWidth=2, interpolate="step-after" if stairs else "linear")
        drawn.append(line.encode(y=alt.Y("y:Q", **up), strokeDash=dashes, **encoded))
    if kind == "ordinal" or max((len(one.points) for one in series), default=0) <= _MARKED:
        points = base.mark_point(size=36, filled=True, opacity=1)
        shape = by_series(alt.Shape, _SHAPES)
        drawn.append(points.encode(y=alt.Y("y:Q", **up), shape=shape, description="words:N", **encoded))
    if any(d is not None for one in series for _, _, d in one.points):
        drawn.append(base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", **up), y2="high:Q", **encoded))
    chart = alt.layer(*drawn)
    return _figure(chart.properties(width=270, height=190), title, small=True)


def _horizontal(
    data: Sequence[Mapping[str, Any]], title: str, kind: str, order: Sequence[Any], log: bool, whole: bool
) -> Any:
    import altair as alt

    if kind == "ordinal":
        return alt.X("x:O", title=title, sort=list(order), axis=alt.Axis(labelAngle=0, grid=False))
    values = sorted({one["x"] for one in data})
    axis = _axis(values, log, at=values if log and len(values) <= 6 else None)
    if whole:
        axis.tickMinStep = 1
    scale = alt.Scale(type="log" if log else "linear", zero=False, nice=not (whole or log), padding=8)
    return alt.X("x:Q", title=title, scale=scale, axis=axis)


def _axis(values: Sequence[float], log: bool, at: Sequence[float] | None = None) -> Any:
    """An axis with few grid lines: at powers of ten if it is logarithmic, unless `at` gives their places."""
    import altair as alt

    # d3's format alone drops digits and writes 20 as 2e+1
    form = f"format(datum.value, '{'~s' if max(values, default=0.0) >= 1e4 else '.6~g'}')"
    if not log:
        return alt.Axis(labelExpr=form, tickCount=5)
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    powers = [10.0**power for power in range(low, high + 1)]
    return alt.Axis(labelExpr=form, values=list(at) if at is not None else powers)


def panels(*charts: Html) -> Html:
    """Charts side by side, or below one another in a narrow window."""
    return element("div", *charts, class_="panels")


def _words(label: str, x: str, at: Any, y: str, value: float, deviation: float | None) -> str:
    name = f"{label}: " if label else ""
    spread = "" if deviation is None else f" ± {deviation:.4g}"
    return f"{name}{y} {value:.6g}{spread} at {x} {at if isinstance(at, str) else format(at, '.6g')}"


def _data(values: Sequence[Mapping[str, Any]]) -> Any:
    import altair as alt

    return alt.Data(values=list(values))


def _figure(chart: Any, title: str, *, small: bool = False) -> Html:
    """The drawing with its title above."""
    caption = element("figcaption", title)
    return element(
        "figure", caption, element("div", _drawn(chart, title), class_="scroll"), class_="small" if small else None
    )


def _drawn(chart: Any, title: str) -> Html:
    import vl_convert

    text = {"labelColor": _COLOURS["muted"], "titleColor": _COLOURS["ink"], "labelFontSize": 12, "titleFontSize": 12}
    font = {"titleFontWeight": "normal", "labelLimit": 260}
    chart = (
        chart.configure(background="transparent", font="sans-serif", padding=_ROOM)
        .configure_axis(
            gridColor=_COLOURS["line"], domainColor=_COLOURS["muted"], tickColor=_COLOURS["muted"], titlePadding=8,
            **text, **font,
        )
        .configure_legend(**text, **font, symbolStrokeWidth=0, titleLimit=320)
        .configure_view(stroke=None)
    )  # fmt: skip
    # Altair's check of a whole chart takes as long as the drawing; each part was checked as it was made
    return _adapted(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)), title)


def _adapted(drawing: str, title: str) -> Html:
    """The drawing with the page's colours, ids that no other drawing of the page has, and tooltips."""
    for name, stand_in in _COLOURS.items():
        drawing = drawing.replace(f'"{stand_in}"', f'"var(--{name})"')
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(drawing)
    for one in root.findall(f"{{{_SVG}}}rect"):
        root.remove(one)  # the background: the page has its own
    for one in root.iter():
        role = one.attrib.pop("role", "")
        words = one.attrib.pop("aria-label", "")
        for name in ("aria-roledescription", "aria-hidden"):
            one.attrib.pop(name, None)
        if role == "graphics-symbol" and words and "role-axis" not in one.get("class", "") + one.tag:
            said = ElementTree.Element(f"{{{_SVG}}}title")
            said.text = words
            one.insert(0, said)
    root.attrib |= {"role": "img", "aria-label": title}
    shown = ElementTree.tostring(root, encoding="unicode")
    own = hashlib.sha256(shown.encode()).hexdigest()[:8]
    shown = re.sub(r'id="([^"]+)"', rf'id="{own}-\1"', shown)
    return Html(re.sub(r"url\(#([^)]+)\)", rf"url(#{own}-\1)", shown))


def spans(
    rows: Sequence[tuple[str, str, float, float]],
    marks: Sequence[tuple[str, float, str]],
    steps: Sequence[str],
    names: Sequence[str],
    title: str,
) -> Html:
    """A chart of bars between two times: a row for each step, with the bars of the runs below each other.

    `rows` are run, step, beginning and end; `marks` are run, time and step of events to highlight.
    """
    import altair as alt

    shown = [step for step in steps if any(step == one for _, one, *_ in rows)]
    place = alt.Y("step:N", sort=shown, scale=alt.Scale(domain=shown), title=None)
    below = alt.YOffset("run:N", sort=list(names), scale=alt.Scale(domain=list(names), paddingOuter=0.15))
    longest = max((ended for *_, ended in rows), default=0.0)
    data = [
        {"run": run, "step": step, "began": began, "ended": max(ended, began + longest / 400),  # visible, however short
         "words": f"{run}: {step} from {began:.6g} s to {ended:.6g} s"}
        for run, step, began, ended in rows
    ]  # fmt: skip
    colours = alt.Scale(domain=list(names), range=[SERIES[i % len(SERIES)] for i in range(len(names))])
    chart: Any = (
        alt.Chart(_data(data))
        .mark_bar()
        .encode(
            x=alt.X("began:Q", title="virtual seconds", axis=alt.Axis(tickCount=8)),
            x2="ended:Q",
            y=place,
            yOffset=below,
            color=alt.Color("run:N", scale=colours, legend=alt.Legend(orient="top", title=None)),
            description="words:N",
        )
    )
    points = [
        {
            "run": run,
            "step": step,
            "began": at,
            "words": f"{run}: the first event that differs, at {at!r} s in {step}",
        }
        for run, at, step in marks
        if step in shown
    ]
    if points:
        mark = alt.Chart(_data(points)).mark_point(
            shape="diamond", size=70, filled=True, opacity=1, color=_COLOURS["bad"], stroke=_COLOURS["paper"]
        )
        chart += mark.encode(x="began:Q", y=place, yOffset=below, description="words:N")
    return _figure(chart.properties(width=620, height=alt.Step(max(9, 26 // len(names)))), title)
