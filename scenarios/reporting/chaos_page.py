"""The page of a chaos campaign: the faults by party and step, the outcomes, and replays of broken promises."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tacit.scenarios.chaos.campaign import Plan, Verdict
from tacit.scenarios.chaos.drawing import Course
from tacit.scenarios.chaos.report import counted_table, findings_table, toml_of, verdict_line
from tacit.scenarios.chaos.schedules import Schedule
from tacit.scenarios.console.kinds import COUNT
from tacit.scenarios.console.table import Table, columns_of
from tacit.scenarios.files.reading import read
from tacit.scenarios.reporting.html import Html, details, element, join, of_table
from tacit.scenarios.reporting.page import Section, page
from tacit.scenarios.reporting.recorded import read_run
from tacit.scenarios.reporting.run_page import timeline_of
from tacit.scenarios.reporting.verdict import losses
from tacit.scenarios.running.folder import FolderError
from tacit.scenarios.running.runner import carry_out
from tacit.scenarios.schema.scenario import ScenarioError
from tacit.sim.faults import Crash
from tacit.sim.grammar import in_number

__all__ = ["chaos_page"]

_LISTED = 200
"""The most runs that are listed one by one."""

_TIMELINES = 3
"""The most failures that are run again to show a timeline of each."""

_LETTERS = {"completed": "C", "aborted": "A", "failed": "F"}


class BrokenRecord(Struct, frozen=True):
    """A promise that a run broke, with a line on the violation."""

    promise: str
    how: str


class RunRecord(Struct, frozen=True):
    """A run of ``chaos.json``."""

    faults: Schedule
    outcome: str
    reason: str
    lost: tuple[str, ...]
    faults_fired: int
    virtual_seconds: float
    trace_hash: str
    broken: tuple[BrokenRecord, ...]

    def verdict(self) -> Verdict:
        """The verdict of the run, without its course, which the file does not have."""
        own = msgspec.structs.asdict(self)
        return Verdict(**own, wall_seconds=0.0, events=0, course=Course((), (), 0.0))


class FailureRecord(Struct, frozen=True):
    """A failure of ``chaos.json``. A failure of a lying server has a `program` instead of faults."""

    promise: str
    how: str
    runs: int
    replay: str
    trace_hash: str = ""
    faults: Schedule = ()
    program: str = ""
    sum: str = ""
    configuration: str = ""


def chaos_page(path: Path) -> str:
    """The whole page for the file `path`, or for ``chaos.json`` in the folder `path`. Raises FolderError."""
    file = path / "chaos.json" if path.is_dir() else path
    if file.suffix != ".json":
        raise FolderError(f"{file}: neither the folder of a run, a sweep or a chaos sweep, nor a chaos.json")
    try:
        found = json.loads(file.read_bytes())
        failures = msgspec.convert(found["failures"], list[FailureRecord])
        if "configurations" in found:
            return _broad(file, found, failures)
        if "sums" in found:
            return _server(file, found, failures)
        runs = msgspec.convert(found["runs"], list[RunRecord])
    except OSError as error:
        raise FolderError(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{file}: not the record of a chaos sweep: {error}") from None
    verdicts = [run.verdict() for run in runs]
    promises = found["promises"]
    sections = [
        Section("verdict", "Verdict", _verdict(len(runs), sum(bool(one.broken) for one in runs), len(promises), found)),
        Section("grid", "Who was struck, and where", _grid(runs)),
        *([Section("failures", "Broken promises", _failures(failures, promises, file.parent))] if failures else []),
        Section("sums", "Runs by fault", of_table(findings_table(verdicts), "runs by fault")),
        Section("runs", "Every run", _listed(verdicts)),
        Section("promises", "The promises", _promises(promises)),
    ]
    about = in_number(f"A chaos sweep of {len(runs)} runs") + f" · the scenario's seed {found['seed']} · {file.parent}"
    return page(str(found["scenario"]), about, sections)


def _verdict(runs: int, broken: int, promises: int, found: dict[str, Any]) -> Html:
    calm = dict(next(iter(found.get("runs", ())), {}))
    useless = calm.get("outcome", "completed") != "completed" and not broken
    head = f"All{f' {promises}' * bool(promises)} promises held in {runs} runs"
    if not runs:
        head = "No run had ended"
    elif useless:
        head = f"Nothing was tried: without any fault the run is {calm['outcome']}"
    elif broken:
        head = f"A promise was broken in {broken} of {runs} runs"
    colour = "bad" if broken else "good" if runs and not useless else "warn"
    content = [element("p", in_number(head), class_=f"outcome {colour}", data_name="outcome")]
    if useless:
        content.append(element("p", str(calm.get("reason", ""))))
    ended = found.get("ended_by") or ("interrupted" if found.get("interrupted") else "")
    if ended:
        content.append(element("p", f"Not all was tried: {ended}.", class_="warn"))
    return join([*content, element("p", _planned(found), class_="note")])


def _planned(found: dict[str, Any]) -> str:
    """A sentence on the size of the campaign."""
    plan = msgspec.convert(found["plan"], Plan)
    tried = []
    if "sums" in found:
        tried.append("every single lie of the server" + " (to two of the clients)" * plan.quick)
    elif "configurations" not in found:
        tried += ["the crash of each party at each step" + " (of three clients)" * plan.quick] * plan.singles
        tried += ["every pair of such crashes"] * plan.pairs
    what = "programs of lies" if "sums" in found else "mixtures of faults"
    return f"Planned: {', '.join([*tried, f'{plan.schedules:,} random {what}'])}, drawn from seed {plan.seed}."


def _grid(runs: Sequence[RunRecord]) -> Html:
    """A table with a cell for each party and step: the outcome of the run in which only that crash was applied."""
    cells: dict[tuple[str, str, str], list[RunRecord]] = {}
    for run in runs:
        fault = run.faults[0] if len(run.faults) == 1 else None
        if type(fault) is Crash and (fault.before or fault.after) and fault.back_after is None:
            way = "before" if fault.before else "after"
            cells.setdefault((fault.party, fault.before or fault.after or "", way), []).append(run)
    if not cells:
        return element("p", "No crash was tried alone.")
    parties = sorted({party for party, *_ in cells}, key=_by_number)
    steps = list(dict.fromkeys(step for _, step, _ in cells))
    taken = {key[1:] for key in cells}
    places = [(step, way) for step in steps for way in ("before", "after") if (step, way) in taken]
    heads = [element("th", ""), *(element("th", f"{way} {step}", scope="col", class_="step") for step, way in places)]
    rows = []
    for party in parties:
        found = (_cell(party, *place, cells.get((party, *place), ())) for place in places)
        rows.append(element("tr", element("th", party, scope="row"), *found))
    title = "outcome by party and step"
    shown = element("table", element("caption", title, class_="unseen"),
                    element("thead", element("tr", *heads)), element("tbody", *rows), class_="grid")  # fmt: skip
    legend = (element("span", element("strong", letter), f" {outcome}") for outcome, letter in _LETTERS.items())
    note = "Each cell is a run in which that party alone crashes, before or after that step."
    marks = element("div", *legend, element("span", element("strong", "!"), " broke a promise"), class_="legend")
    grid = element("div", shown, class_="scroll", role="region", aria_label=title)
    return join([element("p", note, class_="note"), grid, marks])


def _cell(party: str, step: str, way: str, runs: Sequence[RunRecord]) -> Html:
    if not runs:
        return element("td", "", title=f"{party} does not take {step}, or this was not tried")
    broken = any(run.broken for run in runs)
    worst = max(runs, key=lambda run: list(_LETTERS).index(run.outcome))
    said = "; ".join(verdict_line(run.verdict()) for run in runs)
    letter = "!" if broken else _LETTERS.get(worst.outcome, "?")
    return element("td", letter, class_="broken" if broken else worst.outcome, title=said)


def _by_number(name: str) -> tuple[bool, int]:
    place = name.partition("/")[2]
    return name != "server", int(place) if place.isdigit() else 0


def _failures(failures: Sequence[FailureRecord], promises: dict[str, str], folder: Path) -> Html:
    content: list[Html | None] = []
    for number, failure in enumerate(failures, 1):
        place = " · ".join(filter(None, (failure.configuration, failure.sum)))
        runs = f"in {failure.runs} run{'s' * (failure.runs != 1)}"
        smallest = failure.program or toml_of(failure.faults) or "(without any fault)"
        content += [
            element("h3", f"{failure.promise}, {runs}" + (f" ({place})" if place else "")),
            element("p", promises.get(failure.promise, "")),
            element("p", failure.how, class_="bad"),
            element("p", "The smallest that was found to break it, and the line that replays it:", class_="note"),
            element("pre", smallest),
            element("pre", failure.replay, class_="line", data_name="replay"),
            *(_replayed(folder, number, failure) if number <= _TIMELINES else []),
        ]
    return join(content)


def _replayed(folder: Path, number: int, failure: FailureRecord) -> Iterable[Html | None]:
    """The timeline of a failure, from running its file again; a note if the trace differs."""
    file, out = folder / f"failure-{number}.toml", folder / f"failure-{number}"
    if not file.is_file():
        return
    try:
        if not out.exists():
            loaded = read(str(file))
            carry_out(loaded.scenario, loaded.name, out=out)
        run = read_run(out)
    except (FolderError, ScenarioError, OSError) as error:
        yield element("p", f"There is no timeline of it: {error}", class_="note")
        return
    if run.result is None or run.result.trace_hash != failure.trace_hash:
        yield element("p", "A run of it here has another trace, so there is no timeline of it.", class_="note")
        return
    yield losses(run, heading="Who was lost in it, and why")
    yield timeline_of(run, compact=number > 1)  # several full timelines would make the page too large


def _listed(verdicts: Sequence[Verdict]) -> Html:
    broken_first = sorted(verdicts, key=lambda one: not one.broken)
    lines = [element("li", verdict_line(one), class_="bad" if one.broken else None) for one in broken_first[:_LISTED]]
    more = len(verdicts) - len(lines)
    rest = element("p", f"{more} more, in chaos.json", class_="note") if more else None
    return join([details(f"{len(lines)} runs, each with its faults and its outcome", element("ul", *lines)), rest])


def _promises(promises: dict[str, str]) -> Html:
    return of_table(Table(("promise", "what must hold"), promises.items(), "the promises"))


def _broad(file: Path, found: dict[str, Any], failures: Sequence[FailureRecord]) -> str:
    made = counted_table(("configuration",), {(name,): row for name, row in found["configurations"].items()})
    runs, *_, broken = made.sums[-1][1:]
    sections = [
        Section("verdict", "Verdict", _counted(runs, broken, found)),
        *([Section("failures", "Broken promises", _failures(failures, {}, file.parent))] if failures else []),
        Section("sums", "Runs by configuration", of_table(made, "runs by configuration")),
    ]
    return page("Random mixtures of faults over many configurations", f"A broad chaos sweep · {file.parent}", sections)


def _server(file: Path, found: dict[str, Any], failures: Sequence[FailureRecord]) -> str:
    rows: dict[str, list[dict[str, Any]]] = {}
    for run in found["runs"]:
        rows.setdefault(str(run["sum"]), []).append(run)
    columns = ("sum", *columns_of(("runs", "blocks received", "masks opened", "broken"), COUNT))
    sums = _summed(found["runs"])
    made = Table(columns, ((name, *_summed(some)) for name, some in rows.items()), sums=[("total", *sums)])
    broken = _failures(failures, found["promises"], file.parent)
    sections = [
        Section("verdict", "Verdict", _counted(sums[0], sums[-1], found)),
        *([Section("failures", "Broken promises", broken)] if failures else []),
        Section("sums", "Runs by secure sum", of_table(made, "runs by secure sum")),
        Section("promises", "The promises", _promises(found["promises"])),
    ]
    about = f"A server that lies in the secure sums · seed {found['seed']} · {file}"
    return page(str(found["scenario"]), about, sections)


def _summed(runs: Sequence[dict[str, Any]]) -> tuple[int, int, int, int]:
    broken = sum(bool(run["exposed"] or run["failure"]) for run in runs)
    return len(runs), sum(run["relations"] for run in runs), sum(run["opened"] for run in runs), broken


def _counted(runs: int, broken: int, found: dict[str, Any]) -> Html:
    return _verdict(runs, broken, len(found.get("promises", ())), {**found, "runs": ()})
