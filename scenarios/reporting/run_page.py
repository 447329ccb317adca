"""The page of one run."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from tacit.protocols.experiment.simulated import ACCURACY
from tacit.protocols.privacy.spent import privacy_lines, randomised_lines
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.console import kinds
from tacit.scenarios.console.table import Column, Table, columns_of
from tacit.scenarios.reporting import charts
from tacit.scenarios.reporting.counted import why_without_formula
from tacit.scenarios.reporting.html import (
    Html,
    details,
    element,
    facts,
    join,
    of_table,
)
from tacit.scenarios.reporting.page import Section, page
from tacit.scenarios.reporting.parties import party_tables
from tacit.scenarios.reporting.printed import (
    byte_table,
    client_table,
    energy_line,
    energy_table,
    formula_lines,
    message_lines,
)
from tacit.scenarios.reporting.recorded import RecordedRun
from tacit.scenarios.reporting.verdict import remarks, verdict, warnings_of
from tacit.scenarios.running.folder import FolderError, client_bytes, formula_errors, message_bytes
from tacit.scenarios.schema.keys import toml
from tacit.scenarios.schema.scenario import Scenario, as_table
from tacit.scenarios.seeing import timeline
from tacit.scenarios.seeing.compare import flat_keys
from tacit.scenarios.seeing.plot import X, labels, on_axes
from tacit.scenarios.seeing.reading import without_collecting
from tacit.scenarios.seeing.seen import Seen
from tacit.sim.grammar import Labelled
from tacit.sim.setting_error import Problem
from tacit.sim.units import format_bytes

__all__ = ["byte_section", "curve_section", "run_page", "timeline_of"]

_PARTIES = 40
"""The most rows and columns of the matrix of parties; if there are more parties, neighbours share a row."""

_FIGURES = 12
"""The most measurements besides the score that have a chart."""

_CLASSES = 50
"""The most classes of a table that is open from the beginning."""

_ROUNDS = 200
"""The most rounds that a table shows."""

SERVER = "server"

KINDS = ("payload", "sealing", "envelope")


class Traffic(NamedTuple):
    """The bytes sent from each party to each other party, end to end, on all hops: `sums`, by sender and receiver.

    If there are many parties, several neighbours share one of the `names`, and `shared` is true.
    """

    names: list[str]
    sums: dict[tuple[str, str], int]
    shared: bool


def run_page(run: RecordedRun) -> str:
    """The whole page."""
    with without_collecting():
        seen = Seen(run.folder)
        sections = [
            Section("verdict", "Verdict", verdict(run, seen)),
            Section("timeline", "Timeline", timeline_of(run, seen)),
        ]
        traffic = _traffic(seen)
        del seen  # frees hundreds of megabytes of a large run before charts are drawn
    sections += [
        Section("bytes", "Bytes", byte_section(run, traffic)),
        *([Section("learning", "Learning", join(learning))] if (learning := _learning(run)) else []),
        *([Section("energy", "Energy", found)] if (found := _energy(run)) else []),
        Section("learned", "What each party learns", _learned(run)),
        Section("scenario", "Scenario", _scenario(run)),
    ]
    return page(run.title, remarks(run), sections)


def timeline_of(run: RecordedRun, seen: Seen | None = None, *, compact: bool = False) -> Html:
    """The run in virtual time; `seen` is the part of its record that has been read already."""
    return Html(timeline.fragment(run.folder, compact=compact, seen=seen))


def byte_section(run: RecordedRun, traffic: Traffic) -> Html:
    """The section on bytes: by step and message type with the formula, and by sender and receiver (`traffic`)."""
    if not run.rows:
        return element("p", "No message was sent.")
    model = message_bytes(run.folder)
    protocol = "" if run.scenario is None else run.scenario.protocol.name
    formula, fedavg = run.formula or None, model.get("fedavg", 0)
    printed = byte_table(run.rows, exact=True, formula=formula, model=fedavg, protocol=protocol)
    notes = [line.text for line in message_lines(model)]
    if run.scenario is not None and run.scenario.network.topology == "star":
        notes.append("In a star, what one client sends another goes over two hops; both are counted.")
    if not run.formula:
        notes.append(f"There is no formula: {run.formula_problem or why_without_formula(run.folder)}.")
    elif errors := formula_errors(run.rows, run.formula):
        notes += [line.text for line in formula_lines(errors)]
    else:
        notes.append(
            "The formula is the payload of a message type by the protocol's own arithmetic, at its first step."
        )
    return join(
        [
            _steps(run),
            element("h3", "By step and message type"),
            of_table(printed, "messages and bytes by step and message type"),
            *(element("p", note, class_="note") for note in notes),
            *_clients(client_bytes(run.folder)),
            *_matrix(traffic),
        ]
    )


Counts = tuple[int, int, int, int]
"""The messages and bytes that a client sends, and those that it receives."""


def _clients(found: Mapping[str, Counts]) -> Iterator[Html]:
    """The messages and bytes of each client up and down; of many clients the means and the extremes."""
    if not found:
        return
    if len(found) <= _PARTIES:
        rows: dict[str, Sequence[int]] = dict(found)
    else:
        means = tuple(round(statistics.fmean(column)) for column in zip(*found.values(), strict=True))
        rows = {f"mean of {len(found):,} clients": means}
        for place, way in ((1, "up"), (3, "down")):
            for word, choose in (("least", min), ("most", max)):
                name = choose(found, key=lambda name: found[name][place])
                rows[f"{word} bytes {way}: {name}"] = found[name]
    yield element("h3", "By client")
    yield of_table(client_table(rows), "messages and bytes by client")
    more = "" if len(found) <= _PARTIES else " All clients are in the table of tacit bytes --by client."
    what = "Each message counts once, as it is sent and as it is delivered, without retransmissions and headers of TCP."
    yield element("p", what + more, class_="note")


def _steps(run: RecordedRun) -> Html:
    rows, ticks = [], []
    for step in dict.fromkeys(row.step for row in run.rows):
        members = [row for row in run.rows if row.step == step]
        for kind in KINDS:
            value = sum(getattr(row, kind) for row in members)
            rows.append((step, kind, float(value), f"{step}: {format_bytes(value)} {kind}"))
        types = {row.type for row in members}
        alone = all(row.step == step for row in run.rows if row.type in types)  # a formula covers all steps of a type
        found = sum(run.formula.get(type_, 0) for type_ in types)
        if alone and found:
            ticks.append((step, float(found), f"{step}: {format_bytes(found)} payload by formula"))
    title = "Bytes by step, over all hops" + ("; the line across a bar is the payload by formula" if ticks else "")
    return charts.bars(rows, KINDS, title, "bytes", ticks)


def _traffic(seen: Seen) -> Traffic:
    columns = seen.messages
    moved = columns.hops > 0
    senders, receivers = columns.sender[moved], columns.receiver[moved]
    present = np.union1d(senders, receivers)
    groups = _groups([seen.parties[place] for place in present.tolist()])
    names = list(dict.fromkeys(groups.values()))
    places = {name: place for place, name in enumerate(names)}
    group = np.zeros(len(seen.parties), np.int64)
    group[present] = [places[name] for name in groups.values()]
    pairs = group[senders] * len(names) + group[receivers]
    sizes = np.zeros(len(names) ** 2, np.int64)
    np.add.at(sizes, pairs, columns.bytes[moved])
    sums = {(names[one // len(names)], names[one % len(names)]): int(sizes[one]) for one in np.unique(pairs).tolist()}
    return Traffic(names, sums, len(names) < len(present))


def _matrix(traffic: Traffic) -> Iterable[Html]:
    """The bytes by sender and receiver; if there are many parties, by groups of neighbours."""
    names, sums, shared = traffic
    yield element("h3", "From whom to whom")
    yield _map_of(names, sums)
    sent = {name: sum(size for (sender, _), size in sums.items() if sender == name) for name in names}
    received = {name: sum(size for (_, receiver), size in sums.items() if receiver == name) for name in names}
    rows = [[name, *(sums.get((name, other)) for other in names), sent[name]] for name in names]
    total = [["all senders", *received.values(), sum(sums.values())]]
    sizes = (Column(name, kinds.EXACT_BYTES, missing="") for name in (*names, "all receivers"))
    found = of_table(Table(("from \\ to", *sizes), rows, "bytes from each sender to each receiver", sums=total))
    yield details("These bytes as a table" + (", by groups of parties" if shared else ""), found, printed=False)


def _map_of(names: Sequence[str], sums: Mapping[tuple[str, str], int]) -> Html:
    """A square for each pair of parties; two rows if all bytes go from or to the server, since a matrix would be mostly
    empty."""
    more = "over all hops; a stronger colour is more"
    if all(SERVER in pair for pair in sums):
        ways = ("from the server", "to the server")
        cells = [
            (ways[receiver == SERVER], sender if receiver == SERVER else receiver, float(size),
             f"{sender} to {receiver}: {format_bytes(size)}")
            for (sender, receiver), size in sums.items()
        ]  # fmt: skip
        others = [name for name in names if name != SERVER]
        return charts.heat_map(cells, (ways, others), f"Bytes from and to the server, {more}", ("", "client"))
    cells = [(s, r, float(size), f"{s} to {r}: {format_bytes(size)}") for (s, r), size in sums.items()]
    title = f"Bytes from each party to each other, end to end, {more}"
    return charts.heat_map(cells, (names, names), title, ("sender", "receiver"))


def _groups(parties: Sequence[str]) -> dict[str, str]:
    """The group of each party: its own name, or a name such as ``client/0-24`` that it shares with its neighbours.

    The server is a group by itself.
    """
    if len(parties) <= _PARTIES:
        return {name: name for name in parties}
    alone = [name for name in parties if not name.partition("/")[1]]
    others = [name for name in parties if name not in alone]
    count = _PARTIES - len(alone)
    found = {name: name for name in alone}
    for place in range(count):
        some = others[place * len(others) // count : (place + 1) * len(others) // count]
        name = some[0] if len(some) == 1 else f"{some[0]}–{some[-1].partition('/')[2]}"
        found |= dict.fromkeys(some, name)
    return found


def curve_section(runs: Sequence[RecordedRun]) -> Html | None:
    """Charts of accuracy or another score over rounds, bytes and virtual time, and of other measurements over rounds.

    None if fewer than two rounds were measured.
    """
    scores = dict.fromkeys(run.score for run in runs)
    kinds = [*(_of_score([run for run in runs if run.score == score]) for score in scores), list(_of_figures(runs))]
    content = [charts.panels(*found) for found in kinds if found]
    if not content:
        return None
    if len(runs) == 1:
        content.append(details("The rounds as a table", _rounds(runs[0]), opened=len(runs[0].rounds) <= 20))
    return join(content)


def _learning(run: RecordedRun) -> list[Html]:
    """The curves over rounds, and the tables by class."""
    curves = curve_section([run])
    return [*([] if curves is None else [curves]), *_classes(run)]


def _classes(run: RecordedRun) -> Iterator[Html]:
    """A table of the classes on the test points, and one on the points on which clients tested the model."""
    if (result := run.result) is None:
        return
    found = {
        f"on {result.measured_on.partition(' (')[0]}": result.by_class,
        "on points that clients hold out, as they report": result.evaluation_by_class,
    }
    for where, classes in found.items():
        if not classes:
            continue
        figure = kinds.decimals(4)
        columns = (
            "class",
            *columns_of(("recall", "precision"), figure),
            Column("F1", figure, "f1"),
            Column("points", kinds.decimals(0)),
        )
        records = ({"class": name, **one} for name, one in classes.items())
        made = of_table(Table.of(records, columns, f"the classes {where}"))
        yield element("h3", f"By class, {where}")
        yield details(f"All {len(classes)} classes", made) if len(classes) > _CLASSES else made


def _of_score(runs: Sequence[RecordedRun]) -> list[Html]:
    """Charts of the score that the `runs` have in common."""
    found, drawn_over, score = [], _curves(runs), runs[0].score
    name = score.capitalize() if score == ACCURACY else score
    for x, label in X.items():
        drawn = drawn_over.get(x, [])
        if max((len(one.points) for one in drawn), default=0) < 2:
            return []
        title = f"{name} by {'virtual time' if x == 'time' else x}"
        found.append(charts.lines(drawn, title, label, score, whole=x == "rounds"))
    return found


def _of_figures(runs: Sequence[RecordedRun]) -> Iterable[Html]:
    """Charts of the first `_FIGURES` figures that were measured in two rounds or more."""
    named = labels([run.folder for run in runs])
    counts = {name: max(len(run.figures.get(name, ())) for run in runs) for run in runs for name in run.figures}
    names = [name for name in dict.fromkeys(name for run in runs for name in run.figures) if counts[name] > 1]
    for name in names[:_FIGURES]:
        drawn = [
            charts.Series(label, [(number, value, None) for number, value in run.figures[name].items()])
            for label, run in zip(named, runs, strict=True)
            if name in run.figures
        ]
        yield charts.lines(drawn, f"{name} by rounds", X["rounds"], name, whole=True)
    if len(names) > _FIGURES:
        yield element(
            "p", f"Not drawn: {', '.join(names[_FIGURES:])}. `tacit plot --y NAME` draws them.", class_="note"
        )


def _curves(runs: Sequence[RecordedRun]) -> dict[str, list[charts.Series]]:
    """The lines of the score over each of `X`, for the runs that measured it; {} if one of them has no such ended
    round."""
    measured = [run for run in runs if run.scores]
    placed = [
        [(place, run.scores[one["round"]]) for one, place in on_axes(run.rounds) if one["round"] in run.scores]
        for run in measured
    ]
    if not placed or not all(placed):
        return {}
    try:
        names = labels([run.folder for run in measured])
    except FolderError:
        return {}
    return {
        x: [
            charts.Series(label, [(place[x], value, None) for place, value in points])
            for label, points in zip(names, placed, strict=True)
        ]
        for x in X
    }


def _rounds(run: RecordedRun) -> Html:
    figures = [name for name in run.figures if name not in run.rounds[0]][:_FIGURES] if run.rounds else []
    columns = [
        Column("round", kinds.COUNT),
        Column("began", kinds.SECONDS),
        Column("took", kinds.SECONDS, "seconds"),
        *columns_of(("called", "answers"), kinds.COUNT),
        Column(run.score, kinds.decimals(4), of=lambda one: run.scores.get(one["round"])),
        *(Column(name, kinds.decimals(4), of=_value_of(run.figures[name])) for name in figures),
        Column("messages", kinds.COUNT, of=lambda one: one["messages"] or 0),
        Column("bytes", kinds.BYTES, of=lambda one: one["bytes"] or 0),
        *columns_of(["problem"] * any(one["problem"] for one in run.rounds), kinds.TEXT),
    ]
    made = Table.of(run.rounds, columns, "the rounds")
    if len(made.rows) > _ROUNDS:
        left_out = (f"... {len(made.rows) - _ROUNDS} more, in rounds.csv", *[""] * (len(columns) - 1))
        made.rows[_ROUNDS // 2 : -_ROUNDS // 2] = [left_out]
    return of_table(made)


def _value_of(figures: Mapping[int, float]) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda one: figures.get(one["round"])


def _energy(run: RecordedRun) -> Html | None:
    """The energy by class of devices and by client; None if the scenario does not count energy."""
    energy = None if run.result is None else run.result.energy
    if energy is None:
        return None
    columns = (
        Column("client", of=lambda one: one[0]),
        Column("radio", kinds.JOULES, of=lambda one: one[1].radio),
        Column("radio tail", kinds.JOULES, of=lambda one: one[1].tail),
        Column("processor", kinds.JOULES, of=lambda one: one[1].processor),
        Column("together", kinds.JOULES, of=lambda one: one[1].joules),
    )
    each = of_table(Table.of(energy.clients.items(), columns, "energy of each client"))
    return join(
        [
            element("p", f"{energy_line(energy).text}."),
            element("h3", "By class of devices"),
            of_table(energy_table(energy), "energy by class of devices, the mean of a client"),
            *([details("Each client", each, opened=len(energy.clients) <= 20)] if energy.clients else []),
            element("p", "The server's energy is not counted. Model and sources: docs/devices.md.", class_="note"),
        ]
    )


def _learned(run: RecordedRun) -> Html:
    found = [_warnings(run)]
    protocol = PROTOCOLS.get(str(run.about.get("protocol", "")))
    if protocol is None or not protocol.learned:
        found.append(element("p", "The protocol does not declare what its parties learn."))
    else:
        found.append(facts((f"The {role}", f"learns {what}.") for role, what in protocol.learned.items()))
    if run.result is not None:
        lines = privacy_lines(run.result.privacy) + randomised_lines(run.result.randomised)
        found += [element("h3", "Privacy spent"), _privacy(lines)] if lines else []
    return join(found)


def _warnings(run: RecordedRun) -> Html | None:
    lines = warnings_of(run)
    if not lines:
        return None
    found = (element("li", element("strong", "Warning: ", class_="warn"), line) for line in lines)
    return element("ul", *found, class_="warnings")


def _privacy(lines: Sequence[Labelled]) -> Html:
    return element(
        "ul",
        *(element("li", line.text, class_="warn" if line.warns else None) for line in lines),
        class_="privacy",
    )


def _scenario(run: RecordedRun) -> Html:
    environment = {} if run.result is None else run.result.environment
    flat = [(key, str(value)) for key, value in environment.items() if not isinstance(value, dict)]
    packages = environment.get("packages")
    if isinstance(packages, dict):
        flat.append(("packages", ", ".join(f"{name} {number}" for name, number in packages.items())))
    plugins = [] if run.result is None else run.result.plugins
    flat += [("plugin", f"{one.file} (SHA-256 {one.sha256})") for one in plugins]
    whole = element("pre", run.scenario_text or "(there is none)", data_name="scenario")
    content = [_chosen(run), *_parties(run), details("The whole scenario, with every default (scenario.toml)", whole)]
    return join([*content, *([element("h3", "Environment"), facts(flat)] if flat else [])])


def _parties(run: RecordedRun) -> Iterable[Html]:
    """Tables of the parties; nothing if a file that they need can no longer be read."""
    if run.scenario is not None:
        with suppress(Problem):
            for one in party_tables(run.scenario):
                yield element("h3", one.title.capitalize())
                yield of_table(one)


def _chosen(run: RecordedRun) -> Html | None:
    """The keys whose values differ from the fixed defaults: set by the user, or derived from other keys."""
    if run.scenario is None:
        return None
    same_kind = Scenario(protocol=type(run.scenario.protocol)())
    defaults = flat_keys(as_table(same_kind))
    chosen = [
        (key, value)
        for key, value in flat_keys(as_table(run.scenario)).items()
        if key not in ("title", "name") and (defaults.get(key) != value or key.endswith(".kind"))
    ]
    rows = [(element("code", key), element("code", toml(value))) for key, value in chosen]
    made = Table(("key set by the user or by other keys", "value"), rows, "keys set by the user or by other keys")
    return of_table(made)
