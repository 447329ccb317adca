"""The tables and lines that the command line prints, readable on a terminal and in a file alike."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tacit.parties.fleet.energy import Energy
from tacit.protocols.experiment.simulated import ACCURACY, CLIENTS, prefixed, shown_of_clients, spread_of
from tacit.protocols.privacy.spent import privacy_lines, randomised_lines
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.console import kinds
from tacit.scenarios.console.printing import print_lines, print_table
from tacit.scenarios.console.table import Column, Quantity, Spread, Table, columns_of
from tacit.scenarios.running.folder import ByteRow, FolderError, FormulaError, Result, disk_problem, formula_errors
from tacit.sim.grammar import WIDTH, Labelled
from tacit.sim.link import SENDER_GONE
from tacit.sim.units import format_bytes, format_duration, format_joules

if TYPE_CHECKING:  # importing sweeps imports the whole simulator
    from tacit.protocols.experiment.simulated import Round
    from tacit.scenarios.schema.scenario import Scenario
    from tacit.scenarios.seeing.absences import Absence
    from tacit.scenarios.sweeping.paired import Difference
    from tacit.scenarios.sweeping.runs import Cell

__all__ = [
    "absences_of",
    "byte_table",
    "client_table",
    "energy_line",
    "energy_table",
    "formula_lines",
    "outcome_lines",
    "paired_table",
    "print_devices",
    "print_result",
    "round_table",
    "sweep_lines",
    "sweep_table",
]

_SIZED = Labelled("fidelity", "sized: real sizes, modelled times, results of the plaintext protocol")
_PLANNED = Labelled("fidelity", "sized: real sizes, modelled times, no results")

_ENERGY = ("radio", "tail", "processor")

_LOSSES = 12
"""The most losses that are printed one by one."""

_OUTPUT = 6
"""The most numbers of a declared protocol's output that are shown for a run."""

_OUTPUTS = 3
"""The most numbers of the output that a sweep's table shows, each on a line of its cell."""

_ROUNDS = 40
"""The most rounds that a table shows."""


def byte_table(
    rows: Sequence[ByteRow],
    *,
    exact: bool = False,
    formula: Mapping[str, int] | None = None,
    model: int = 0,
    protocol: str = "",
) -> Table:
    """Messages and bytes by step and type, with their sums.

    `formula` is the payload of each type by formula, shown in a column of its own; empty if none applies. A figure that
    differs from the payload sent is marked WRONG. If `model` is not 0, a row below the sums compares the messages
    that the `protocol` sends in the place of models with the same number of FedAvg's, each a model of `model` bytes.
    """
    kind = kinds.EXACT_BYTES if exact else kinds.BYTES
    wrong = {one.type for one in formula_errors(rows, formula or {})}
    left = dict(formula or {})  # each type's formula is shown at its first step only

    def expected(row: ByteRow) -> Quantity | None:
        found = left.pop(row.type, None)
        return None if found is None else Quantity(found, remark=" WRONG" * (row.type in wrong))

    headers, beside = any(row.headers for row in rows), formula is not None
    columns = [
        Column("step"),
        Column("message", key="type", priority=6),
        Column("messages", kinds.COUNT, priority=5),
        Column("payload", kind, priority=4),
        *([Column("formula", kind, priority=3, of=expected)] if beside else []),
        Column("sealing", kind, priority=2),
        Column("envelope", kind, priority=1),
        Column("total", kind),
        *([Column("headers", kind, priority=0)] if headers else []),
    ]
    result = Table.of(rows, columns)
    whole = sum(formula.values()) if formula else None
    result.sums.append([
        "total", "", *(whole if one.heading == "formula" else sum(getattr(row, one.name) for row in rows)
                       for one in columns[2:])
    ])  # fmt: skip
    if model:
        types = PROTOCOLS[protocol].in_place_of_models if protocol in PROTOCOLS else ()
        messages = sum(row.messages for row in rows if row.type in types)
        compared = ("for comparison", "as many of FedAvg's models", messages, messages * model)
        result.sums.append([*compared, *([""] * (len(columns) - len(compared)))])
    return result


def client_table(counts: Mapping[str, Sequence[int]], *, exact: bool = False) -> Table:
    """The messages and bytes that each client sends, up, and receives, down."""
    kind = kinds.EXACT_BYTES if exact else kinds.BYTES
    of_way = ((Column(f"messages {way}", kinds.COUNT), Column(f"bytes {way}", kind)) for way in ("up", "down"))
    columns = ("client", *(column for pair in of_way for column in pair))
    return Table(columns, ((name, *some) for name, some in counts.items()))


def energy_line(energy: Energy) -> Labelled:
    """The line on the energy of clients."""
    radio, tail, processor = (sum(getattr(one, part) for one in energy.classes) for part in _ENERGY)
    clients = sum(one.clients for one in energy.classes)
    most = max((one.most for one in energy.classes), default=0.0)
    radios = f"radios {format_joules(radio)} and in their tails {format_joules(tail)}"
    parts = f"{radios}, processors {format_joules(processor)}; the most of one {format_joules(most)}"
    return Labelled("energy", f"{format_joules(energy.joules)} of {clients:,} clients: {parts}")


def energy_table(energy: Energy) -> Table:
    """The energy by class of devices: the number of clients, the means per client, and the most of any client."""
    mean = {part: lambda one, part=part: getattr(one, part) / one.clients for part in _ENERGY}
    columns = (
        Column("class", of=lambda one: one.device_class),
        Column("clients", kinds.COUNT),
        *(Column(part.replace("tail", "radio tail"), kinds.JOULES, of=mean[part]) for part in _ENERGY),
        Column("each client", kinds.JOULES, of=lambda one: sum(mean[part](one) for part in _ENERGY)),
        Column("the most", kinds.JOULES, of=lambda one: one.most),
    )
    return Table.of(energy.classes, columns)


def print_devices(console: Console, scenario: Scenario, of: str = "") -> None:
    """Print the devices drawn for the clients by class, if any are drawn; `of` names the run that they belong to."""
    from tacit.scenarios.reporting.parties import device_table

    if drawn := device_table(scenario):
        drawn.title += of
        print_table(console, drawn)


def metric_lines(result: Result) -> list[Labelled]:
    """The further metrics of the model, and those of the last evaluation by clients."""
    lines = []
    metrics = {name: value for name, value in result.metrics.items() if name != result.score}
    if metrics:
        lines.append(Labelled("metrics", _figures(metrics)))
    if result.fit:
        lines.append(Labelled("fit", f"{_figures(result.fit)}   (means over clients; no client sends them)"))
    if tested := result.evaluation:
        clients, points = (f"{int(tested[name]):,} {name}" for name in ("clients", "points"))
        if not (score := spread_of(tested)):
            over = {name: value for name, value in tested.items() if name not in ("clients", "points")}
            # Clients of co-training, which has messages of its own, test the models that they have learnt in the round.
            of = "" if result.message_bytes else "; of the model that the last tested round began with"
            lines.append(Labelled("clients", f"{_figures(over)}   ({points} of {clients}, held out, summed{of})"))
            return lines
        spread = {name: tested[f"{score}_{name}"] for name in ("mean", "p10", "p90", "worst")}
        over = {name: value for name, value in tested.items() if not name.startswith(f"{score}_")}
        pooled = {name: value for name, value in over.items() if name not in ("clients", "points")}
        lines.append(Labelled("clients", f"{_figures(pooled)}   ({points} of {clients}, held out)"))
        lines.append(Labelled("", f"{score.replace('_', ' ')} of a client: {_figures(spread)}"))
    return lines


def _figures(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in values.items())


def formula_lines(errors: Sequence[FormulaError]) -> list[Labelled]:
    """A line for each message type whose payload differs from the formula."""
    return [
        Labelled("formula", f"WRONG for {one.type}: {one.formula:,} bytes by formula, {one.payload:,} bytes sent")
        for one in errors
    ]


def outcome_lines(result: Result, absences: Sequence[Absence] = ()) -> list[Labelled]:
    """Lines on the outcome, the accuracy with the baselines, the times, and the lost parties with their causes
    (`absences`)."""
    lines = [Labelled("outcome", result.outcome + (f": {result.reason}" if result.reason else ""))]
    if result.fidelity == "sized":
        lines.append(_SIZED if result.scored is not None or result.lost else _PLANNED)
    if result.scored is not None:
        beside = "; ".join(f"{name} {value:.4f}" for name, value in result.baselines.items())
        label = result.score.replace("_", " ")
        lines.append(Labelled(label, f"{result.scored:.4f}" + (f"   ({beside})" if beside else "")))
        several = result.deviation is not None and len(result.client_accuracy) > 1
        spread = f", the mean of {len(result.client_accuracy)} models ± {result.deviation:.4f}" if several else ""
        lines.append(Labelled("", f"on {result.measured_on}{spread}"))
    lines += metric_lines(result)
    if result.output is not None:
        shown = ", ".join(f"{value:.6g}" for value in result.output[:_OUTPUT])
        more = f", ... ({len(result.output)} numbers)" if len(result.output) > _OUTPUT else ""
        lines.append(Labelled("output", f"{shown}{more}"))
    # A change is known if clients agreed on labels in at least two rounds.
    if any(getattr(one, "changed", None) is not None for one in result.round_records):
        changes = (
            "in the last round, too" if result.agreed_after is None else f"no more after round {result.agreed_after}"
        )
        lines.append(Labelled("agreed", f"labels of public points changed {changes}"))
    lines += message_lines(result.message_bytes)
    lines += unchanged_lines(result.unchanged)
    lines += privacy_lines(result.privacy) + randomised_lines(result.randomised)
    if result.scored_selected is not None:
        chosen = f"(round {result.selected_round}, by held-out points)"
        lines.append(Labelled("selected", f"{result.scored_selected:.4f}   {chosen}"))
    if (found := result.vulnerability) is not None:
        beside = f"from {found.signal}; {found.shadow_models} shadow models, K = {found.epochs}"
        lines.append(Labelled("attack", f"{found.auc:.4f}   (AUC of inferring membership {beside})"))
    if result.equals_plaintext is not None:
        equal = "equal to the plaintext oracle" if result.equals_plaintext else "NOT equal to the plaintext oracle"
        lines.append(Labelled("result", equal))
    clock = f"virtual {format_duration(result.virtual_seconds)}, wall {format_duration(result.wall_seconds)}"
    lines.append(Labelled("time", f"{clock}, engine {result.engine}"))
    if result.energy is not None:
        lines.append(energy_line(result.energy))
    if result.resumed:
        rounds = ", ".join(str(number) if number else "0, anew" for number in result.resumed)
        lines.append(Labelled("resumed", f"after round {rounds}"))
    on_the_way = {why: count for why, count in result.messages_lost.items() if why != SENDER_GONE}
    if result.sent_again or on_the_way or result.segments_sent_again:
        lost_by = ", ".join(f"{count} {why}" for why, count in on_the_way.items())
        copies = f"{result.sent_again} message{'s' * (result.sent_again != 1)} sent again; lost: {lost_by or 'none'}"
        if count := result.segments_sent_again:
            size = format_bytes(result.segment_bytes_sent_again)
            segments = f"{count:,} TCP segment{'s' * (count != 1)} sent again ({size}, not in the bytes of messages)"
            copies = f"{copies}; {segments}" if result.sent_again or on_the_way else segments
        lines.append(Labelled("network", copies))
    lines += _struck_lines(result)
    lost = [
        Labelled("lost", one.text + "".join(f"\n{'':{WIDTH}}because {reason}" for reason in one.because))
        for one in absences[:_LOSSES]
    ]
    if left := len(absences) - _LOSSES:
        lost += [Labelled("", f"{left} more: tacit events {result.folder}")] if left > 0 else []
    return lines + (lost or [Labelled("lost", "nobody")])


def unchanged_lines(unchanged: Mapping[str, Sequence[int]]) -> list[Labelled]:
    """A line on the clients of dp-fedavg that sent the model without a change, with their rounds."""
    if not unchanged:
        return []
    named = list(unchanged.items())[:_LOSSES]
    which = "; ".join(f"{name} in round {', '.join(map(str, rounds))}" for name, rounds in named)
    more = f" and {len(unchanged) - len(named)} more clients" if len(unchanged) > len(named) else ""
    why = "their training gave numbers that are infinite or not a number, so they sent the model unchanged"
    return [Labelled("diverged", f"{which}{more}: {why}")]


def message_lines(sizes: Mapping[str, int]) -> list[Labelled]:
    """Lines with the payload of one message of co-training in each direction, beside FedAvg's; [] for other
    protocols."""
    if not sizes:
        return []
    beside = f"; FedAvg's model of the same network {format_bytes(sizes['fedavg'])}" if "fedavg" in sizes else ""
    return [Labelled("message", f"{format_bytes(sizes['up'])} up, {format_bytes(sizes['down'])} down{beside}")]


def _struck_lines(result: Result) -> list[Labelled]:
    """Lines on the effects of the scenario's faults, with their times."""
    if len(result.faults) > _LOSSES:
        counts = Counter(strike.kind for strike in result.faults)
        summary = ", ".join(f"{count} times {kind}" for kind, count in counts.items())
        return [Labelled("struck", f"{summary}: see result.json")]
    return [
        Labelled(
            "struck",
            f"{strike.kind} of {strike.party}"
            + (f" to {strike.peer}" if strike.peer else "")
            + (f", {strike.message}" if strike.message else "")
            + f", at {format_duration(strike.time)}",
        )
        for strike in result.faults
    ]


def round_table(rounds: Sequence[Round], score: str = ACCURACY) -> Table:
    """The table of rounds, with lost parties; only the first and last rounds if there are many.

    A run with another `score` has no accuracy, and no column for it.
    """
    every = [one.own() for one in rounds]
    own = tuple(dict.fromkeys(name for figures in every for name in figures))
    kept = [place for place, name in enumerate(rounds[0].columns) if score == ACCURACY or name != ACCURACY]
    others = [name for name in reversed(own) if name != score]
    optional = (*others, "pseudo-labels", "loss", "validation", "began", "averaged", "cohort")
    columns = (
        Column("round", kinds.COUNT),
        Column("began", kinds.SECONDS),
        *columns_of(rounds[0].columns[place] for place in kept),
        *columns_of(own, kinds.decimals(4)),
        Column("lost"),
    )
    priorities = {name: place for place, name in enumerate(optional)}
    result = Table([replace(one, priority=priorities.get(one.heading)) for one in columns])
    for one, figures in zip(rounds, every, strict=True):
        cells = one.cells()
        measured = map(figures.get, own)
        result.rows.append((one.round, one.began, *(cells[place] for place in kept), *measured, one.losses()))
    if len(rounds) > _ROUNDS:
        left_out = (f"... {len(rounds) - _ROUNDS} more", *[""] * (len(columns) - 1))
        result.rows[_ROUNDS // 2 : -_ROUNDS // 2] = [left_out]
    return result


def print_result(
    console: Console, result: Result, rows: Sequence[ByteRow], topology: str, *, command_seconds: float | None = None
) -> None:
    """Print the whole result of a run, with its folder in the last line.

    `command_seconds`: the wall-clock time of the command so far, in seconds, which includes what is outside the run.
    """
    print_lines(console, (f"NOT AS EXPECTED  {line}" for line in result.unmet))
    print_lines(console, outcome_lines(result, absences_of(result)))
    if (result.folder / "failure.txt").exists() and disk_problem(result.error) is None:
        print_lines(console, [Labelled("", "the traceback is in the folder's failure.txt")])
    if len(result.round_records) > 1:
        for _, alike in itertools.groupby(result.round_records, key=type):
            print_table(console, round_table(list(alike), result.score))
    if rows:
        print_table(console, byte_table(rows))
    if topology == "star" and any(row.sealing for row in rows):  # messages between clients are sealed
        print_lines(console, ["star: what one client sends another goes over two hops; both are counted"])
    if result.trace_hash:
        print_lines(console, [f"trace     {result.trace_hash[:16]} (whole in result.json)"])
    if command_seconds is not None:
        what = "of wall-clock time, with its start, checks and output"
        print_lines(console, [f"command   {format_duration(command_seconds)} {what}"])
    if (result.folder / "checkpoint").exists():
        print_lines(console, [f"resume    tacit run --resume {result.folder}"])
    print_lines(console, [f"folder    {result.folder}"])


def absences_of(result: Result) -> list[Absence]:
    """The lost parties with the causes of their losses, each cause once; without causes if the record has none."""
    from tacit.scenarios.seeing.absences import grouped
    from tacit.scenarios.seeing.causes import Cause
    from tacit.scenarios.seeing.facts import Facts
    from tacit.scenarios.seeing.story import absences

    if result.lost and disk_problem(result.error) is None:
        with suppress(FolderError):
            return absences(result.folder, result.lost)
    return grouped(result.lost, Facts(), lambda loss: Cause())


def sweep_table(cells: Sequence[Cell]) -> Table:
    """The table of a sweep: mean and deviation over the completed runs, a row for each combination of values."""
    outputs, losses = (any(getattr(cell, name) for cell in cells) for name in ("output", "lost"))
    scores = [*dict.fromkeys(name for cell in cells for name in cell.ranges)] or ([] if outputs else [ACCURACY])
    every = dict.fromkeys(name for cell in cells for name in cell.measured if name not in scores)
    of_clients = {name.removesuffix("_worst") for name in every if name.startswith(CLIENTS) and name.endswith("_worst")}
    if not of_clients:  # sums have no spread
        tested = {name.removeprefix(CLIENTS): 0.0 for name in every if name.startswith(CLIENTS)}
        of_clients = {*prefixed(CLIENTS, shown_of_clients(tested))}
    shown = {"clients_loss", *of_clients, *(f"{name}_worst" for name in of_clients)}
    measured = [name for name in every if not name.startswith(CLIENTS) or name in shown]

    energy = any(cell.joules for cell in cells)

    def row(cell: Cell) -> Iterator[Any]:
        for place, (_, value) in enumerate(cell.values):
            yield Quantity(value, remark=" (unused)" * (place in cell.unused))
        yield cell.runs
        for name in scores:
            yield _spread(cell.score_of(name))
            yield "{:.4f}–{:.4f}".format(*cell.ranges[name]) if name in cell.ranges else None
        yield from [_output(cell)] * outputs
        yield from (_spread(cell.measured.get(name)) for name in measured)
        yield from (_spread(cell.virtual_seconds), _spread(cell.bytes_total), *[_spread(cell.joules)] * energy)
        yield from [cell.lost or "nobody"] * losses
        yield cell.endings or "0"

    last, figure = len(measured), kinds.decimals(4)
    of_scores = ((Column(name, figure), Column("range", kinds.FIGURE, f"{name}_range", last)) for name in scores)
    columns = (
        *columns_of([key for key, _ in cells[0].values] if cells else [], kinds.TEXT),
        Column("runs", kinds.COUNT),
        *(column for pair in of_scores for column in pair),
        *columns_of(["output"] * outputs),
        *(Column(name.replace("_", " "), figure, priority=last - at) for at, name in enumerate(measured, 1)),
        Column("virtual time", kinds.SECONDS),
        Column("bytes", kinds.BYTES),
        *columns_of(["energy"] * energy, kinds.JOULES),
        *columns_of(["lost"] * losses, kinds.TEXT),
        Column("not\ncompleted"),
    )
    return Table(columns, (tuple(row(cell)) for cell in cells))


def _spread(figure: tuple[float, float | None] | None) -> Spread | None:
    return None if figure is None else Spread(*figure)


def paired_table(found: Sequence[Difference]) -> Table:
    """The table of paired differences in the score, a row for each combination of keys but the first."""

    def interval(one: Difference) -> str | None:
        return None if one.low is None or one.high is None else f"{one.low:+.4f} to {one.high:+.4f}"

    chance = kinds.Kind(lambda value: f"{value:.3f}" if value >= 0.001 else "< 0.001")
    columns = (
        Column(f"same seed, minus {found[0].first if found else ''}", of=lambda one: one.second),
        Column("pairs", kinds.COUNT),
        Column(found[0].score if found else ACCURACY, kinds.decimals(4, sign="+"), of=lambda one: one.mean),
        Column("95% interval", kinds.FIGURE, of=interval),
        Column("p (t-test)", chance, of=lambda one: one.t),
        Column("p (Wilcoxon)", chance, of=lambda one: one.wilcoxon),
    )
    return Table.of(found, columns)


def sweep_lines(cells: Sequence[Cell]) -> list[Labelled]:
    """The remarks below the figures of `sweep_table`."""
    left, runs = (sum(getattr(cell, name) for cell in cells) for name in ("not_completed", "runs"))
    lines = [_SIZED] if any(cell.sized for cell in cells) else []
    if left:
        lines.append(Labelled("figures", f"of the completed runs: {left} of {runs} did not complete"))
    return lines


def _output(cell: Cell) -> str | None:
    number, numbers = Column("output", kinds.significant(6)), cell.output or ()
    lines = [number.text(Spread(*one)) for one in numbers[:_OUTPUTS]]
    return "\n".join([*lines, *([f"({len(numbers)} numbers)"] if len(numbers) > _OUTPUTS else [])]) or None
