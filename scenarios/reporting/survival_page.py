"""The page of `tacit predict --runs`: the share of completed runs, the distributions of costs, and the losses by
step."""

from collections.abc import Sequence
from typing import Any

from tacit.scenarios.console import kinds
from tacit.scenarios.console.table import Column, Table, columns_of
from tacit.scenarios.reporting import charts
from tacit.scenarios.reporting.html import Html, element, join, of_table
from tacit.scenarios.reporting.page import Section, page
from tacit.scenarios.reporting.parties import device_table
from tacit.scenarios.reporting.survival_tables import KINDS, distributions, losses
from tacit.scenarios.sweeping.survival import Survival, left_open

__all__ = ["survival_page"]

_POINTS = 60
"""The most points of the line of a distribution."""

_PARTIES = 12
"""The most parties that are listed, those that are lost most often."""

_SERIES = 6
"""The most combinations that are drawn."""

_SHARE = Column("share of runs", kinds.share(1))

_FIGURES = (
    ("bytes", "bytes", "bytes"),
    ("virtual time", "seconds", "virtual time (s)"),
    ("rounds lost", "rounds_lost", "rounds lost"),
    ("energy of all clients", "joules", "energy of all clients (J)"),
    ("most energy of a client", "most_joules", "most energy of a client (J)"),
    ("epsilon", "epsilon", "epsilon of the run"),
)
"""The title of each figure, its name in a `Fate`, and the title of its axis."""


def survival_page(
    found: Sequence[Survival], chosen: Survival | None, by: str, survive: float | None, command: str,
    changes: Sequence[str] = (),
) -> str:  # fmt: skip
    """The whole page. `chosen`: the cheapest combination that survives with the probability `survive`.

    `command`: the command line that gives the same results, and `changes` those of it to the scenario.
    """
    first = found[0]
    scenario = first.loaded.scenario
    sections = [
        Section("survival", "Survival", _survival(found, chosen, by, survive)),
        Section("costs", "Distributions", _distributions(found)),
        Section("losses", "Losses", join([_losses(one, len(found) > 1) for one in found])),
        Section("endings", "Runs that do not survive", join([_endings(one, len(found) > 1) for one in found])),
    ]
    if devices := [_devices(one, len(found) > 1) for one in found if device_table(one.loaded.scenario)]:
        sections.append(Section("devices", "Drawn devices", join(devices)))
    sections.append(Section("command", "Command", element("pre", command)))
    # The scenario's title says what the file does, which the changes may have made untrue.
    title = f"Survival of {first.loaded.name}" if changes else f"Survival: {scenario.title or first.loaded.name}"
    seeds = f"seeds {first.fates[0].seed} to {first.fates[-1].seed}"
    with_changes = f" · with {', '.join(changes)}" if changes else ""
    early = " · interrupted" if any(one.interrupted for one in found) else ""
    about = (
        f"A prediction from {first.runs:,} runs on hollow values · {seeds} · {first.loaded.where}{with_changes}{early}"
    )
    return page(title, about, sections)


def _named(one: Survival) -> str:
    return ", ".join(f"{key} = {value}" for key, value in one.values) or one.loaded.name


def _runs_that_survive(one: Survival) -> str:
    some = "all" if one.survived == one.runs else "none" if not one.survived else f"{one.survived:,}"
    return f"{some.capitalize()} of {one.runs:,} runs survive" if some != "all" else f"All {one.runs:,} runs survive"


def _survival(found: Sequence[Survival], chosen: Survival | None, by: str, survive: float | None) -> Html:
    parts: list[Html | None] = []
    if len(found) == 1:
        one = found[0]
        good = one.probability >= 0.5 if survive is None else one.survives(survive)
        text = f"{_runs_that_survive(one)}: {one.in_words}."
        parts.append(element("p", text, class_=f"outcome {'good' if good else 'warn'}", data_name="probability"))
        if survive is not None:
            parts.append(element("p", f"Target: {one.verdict(survive)}."))
    else:
        wanted = "survives" if survive is None else f"survives with a probability of {survive}"
        text = f"No combination {wanted}." if chosen is None else f"Cheapest by {by} that {wanted}: {_named(chosen)}"
        parts.append(element("p", text, class_="outcome good" if chosen else "outcome warn", data_name="cheapest"))
        if survive is not None:
            undecided = left_open(found, by, survive)[:_SERIES]
            parts += [element("p", f"Open, and cheaper: {_named(one)}: {one.verdict(survive)}.") for one in undecided]
    needs = dict.fromkeys(f"A run survives if it {one.need}." for one in found)
    parts += [element("p", need) for need in needs]
    parts += [element("p", f"Loss: {one.words()}.") for one in found[0].dropouts]
    exact = any(one.exact is not None for one in found)
    interval = kinds.Kind(lambda ends: "{:.4f} to {:.4f}".format(*ends))
    columns = (
        Column("", of=_named),
        Column("runs that survive", kinds.FIGURE, of=lambda one: f"{one.survived:,} of {one.runs:,}"),
        Column("runs that complete", kinds.FIGURE, of=lambda one: f"{one.completed:,} of {one.runs:,}"),
        Column("share that survives", kinds.decimals(4), "probability"),
        Column("95 % interval", interval, "interval"),
        *([Column("exact", kinds.decimals(4), of=lambda one: one.exact and one.exact.probability)] * exact),
    )
    parts += [of_table(Table.of(found, columns), "survival"), _costs(found)]
    parts.append(element("p", "Costs are of the runs that survive; lost rounds and epsilon of all.", class_="note"))
    return join(parts)


def _costs(found: Sequence[Survival]) -> Html:
    """A table of the mean and the 95th percentile of each cost."""
    further = [name for name in ("joules", "epsilon") if any(one.figure(name) is not None for one in found)]
    names = ("bytes", "seconds", "rounds_lost", *further)
    heads = {"seconds": "time", "rounds_lost": "rounds lost", "joules": "energy"}
    of_all = ("rounds_lost", "epsilon")
    columns = [Column("")]
    for name in names:
        head = heads.get(name, name)
        columns += columns_of((f"{head}, mean", f"{head}, 95 %"), KINDS[name])
    rows = []
    for one in found:
        figures = [one.figure(name, survived=name not in of_all) for name in names]
        costs = ((None, None) if one is None else (one.mean, one.percentile_95) for one in figures)
        rows.append([_named(one), *(value for pair in costs for value in pair)])
    return of_table(Table(columns, rows, "costs"))


def _distributions(found: Sequence[Survival]) -> Html:
    """For each figure a chart of the share of runs at or below each value."""
    drawn = []
    for title, name, axis in _FIGURES:
        if found[0].figure(name) is None:
            continue
        series = [charts.Series(_named(one), _shares(one, name)) for one in found[:_SERIES] if one.figure(name)]
        drawn.append(
            charts.lines(
                series,
                f"{title.capitalize()}: share of runs at or below",
                axis,
                "share of runs",
                whole=name == "rounds_lost",
                stairs=True,
                within=(0, 1),
            )
        )
    notes = []
    if len(found) > _SERIES:
        notes.append(element("p", f"The first {_SERIES} of {len(found)} combinations.", class_="note"))
    every = ((f"{_named(one)}: {title}", name, one.figure(name)) for one in found for title, name, _ in _FIGURES)
    return join([charts.panels(*drawn), *notes, of_table(distributions(every), "over all runs")])


def _shares(one: Survival, name: str) -> list[tuple[float, float, None]]:
    found = (getattr(fate, name) for fate in one.fates)
    values = sorted(float(value) for value in found if value is not None)  # epsilon without a bound is not drawn
    last = {value: (place + 1) / one.runs for place, value in enumerate(values)}
    points = [(values[0], 0.0), *sorted(last.items())]
    step = max(1, len(points) // _POINTS)
    kept = points[::step] if points[::step][-1] == points[-1] else [*points[::step], points[-1]]
    return [(value, share, None) for value, share in kept]


def _devices(one: Survival, several: bool) -> Html:
    """The table of the devices that the first seed draws."""
    scenario = one.loaded.scenario
    drawn = device_table(scenario)
    assert drawn is not None
    title = f"drawn devices with seed {scenario.seed}"
    head = element("h3", _named(one)) if several else None
    note = element("p", "Other seeds draw other devices.", class_="note")
    return join([head, of_table(drawn, title), note])


def _losses(one: Survival, several: bool) -> Html:
    parties = one.parties()
    head = element("h3", _named(one)) if several else None
    if not one.steps():
        return join([head, element("p", "Nobody is lost in any run.")])
    by_step = of_table(losses(one, _SERIES), "steps")
    shares: list[tuple[str, Any]] = [(party, count / one.runs) for party, count in parties[:_PARTIES]]
    if others := parties[_PARTIES:]:
        fewest, greatest = others[-1][1] / one.runs, others[0][1] / one.runs
        shares.append((f"and {len(others):,} more", f"{fewest:.1%} to {greatest:.1%}"))
    by_party = of_table(Table(("party", _SHARE), shares), "parties")
    note = element("p", "All parties are in the file that --json writes.", class_="note") if others else None
    return join([head, by_step, by_party, note])


def _endings(one: Survival, several: bool) -> Html:
    head = element("h3", _named(one)) if several else None
    if not (endings := one.endings()):
        return join([head, element("p", "All runs survive.")])
    rows = ((reason, count / one.runs) for reason, count in endings)
    return join([head, of_table(Table(("end", _SHARE), rows), "ends of runs")])
