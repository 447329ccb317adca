"""The first part of a page: how a run ended, who was lost and why, what it cost, and the line that repeats it."""

import shlex
from collections.abc import Iterator, Sequence

from scenarios.files.checks import cautions
from scenarios.reporting.html import Html, bytes_of, details, element, facts, join, number, seconds_of
from scenarios.reporting.printed import outcome_lines
from scenarios.reporting.recorded import BROKEN_OFF, UNDER_WAY, RecordedRun
from scenarios.running.disk import disk_problem
from scenarios.running.folder import FolderError, Loss
from scenarios.schema.scenario import Expect
from scenarios.seeing.story import explained
from sim.units import format_duration

__all__ = ["figures", "losses", "outcome", "remarks", "verdict", "warnings_of"]

_LOSSES = 50
"""The most losses that are shown one by one."""

_CLASSES = {"completed": "good", "failed": "bad", "aborted": "warn"}

_ELSEWHERE = ("outcome", "lost", "privacy", "result")
"""Lines of `tacit run` that have a place of their own on the page."""


def verdict(run: RecordedRun) -> Html:
    """The whole part."""
    content = [outcome(run), figures(run), losses(run), _failure(run), _replay(run), _printed(run)]
    return join([one for one in content if one])


def outcome(run: RecordedRun, *, linked: bool = True) -> Html:
    """The outcome with its reason, and what can be said of the result; `linked` to the other parts of the page."""
    said = {
        UNDER_WAY: "This page shows what was recorded until it was made; make it again for the rest.",
        BROKEN_OFF: "There is no result.json: the run was killed, and the record ends where it was.",
    }
    reason = run.reason or said.get(run.outcome, "")
    colour = _CLASSES.get(run.outcome, "warn")
    head = element("p", run.outcome.capitalize(), class_=f"outcome {colour}", data_name="outcome")
    why = element("p", reason, data_name="reason") if reason else None
    checks = (_check(good, text) for good, text in _checks(run, linked))
    return join([head, why, element("ul", *checks, class_="checks")])


def _check(good: bool | None, text: str) -> Html:
    sign, class_ = {True: ("✓", "good"), False: ("✗", "bad"), None: ("–", "muted")}[good]
    return element("li", element("span", sign, class_=class_, aria_hidden="true"), element("span", text))


def _checks(run: RecordedRun, linked: bool) -> Iterator[tuple[bool | None, str]]:
    result = run.result
    equal = None if result is None else result.equals_plaintext
    yield (
        equal,
        {
            True: "The result is equal to the plaintext oracle.",
            False: "The result is NOT equal to the plaintext oracle.",
            None: "The result was not compared with the plaintext oracle.",
        }[equal],
    )
    if result is not None and result.outcome == "interrupted":
        yield None, "The run was interrupted: its [expect] was not asked."
    elif result is not None and result.unmet:
        for line in result.unmet:
            yield False, f"Not as expected: {line}"
    elif result is not None and run.scenario is not None:
        expects = run.scenario.expect != Expect()
        met = "All that the scenario expects has been met."
        yield (True, met) if expects else (None, "The scenario expects nothing.")
    parties = list(dict.fromkeys(loss.party for loss in run.losses))
    few = ", ".join(parties) if len(parties) <= 6 else f"{len(parties)} parties"
    nobody = (True, "Nobody was lost.") if result is not None else (None, "No loss is recorded so far.")
    yield (None, f"Lost: {few}.") if parties else nobody
    if count := len(warnings_of(run)):
        warnings = f"{count} warning{'s' * (count > 1)}"
        link = element("a", warnings, href="#learned") if linked else element("span", warnings)
        yield None, join([link, ": what the run does not protect, or could not do."])


def figures(run: RecordedRun) -> Html:
    """Accuracy, virtual time, bytes and messages."""
    result, sums = run.result, run.sums()
    so_far = "" if run.has_ended else " so far"
    found: list[tuple[str, Html]] = []
    if run.accuracy is not None:
        after = "" if result is not None else " after the last round that was measured"
        where = result.measured_on if result is not None else ""
        small = element("small", f"on {where}" if where else after.strip())
        found.append(("accuracy", join([number(run.accuracy, f"{run.accuracy:.4f}", "accuracy"), small])))
    wall = "" if result is None else f"wall {format_duration(result.wall_seconds)}"
    found.append((f"virtual time{so_far}", join([seconds_of(run.seconds, "virtual_seconds"), element("small", wall)])))
    shares = {name: 100 * sums[name] / (sums["total"] or 1) for name in ("payload", "sealing", "envelope")}
    parts = ", ".join(f"{share:.1f}% {name}" for name, share in shares.items() if share >= 0.05)
    found.append((f"bytes{so_far}", join([bytes_of(sums["total"], "bytes_total"), element("small", parts)])))
    shown = number(run.messages, f"{run.messages:,}", "messages")
    found.append((f"messages{so_far}", join([shown, element("small", "counted on every link")])))
    rounds = [one for one in run.rounds if one["ended"] is not None]
    if len(rounds) > 1:
        found.append((f"rounds{so_far}", number(len(rounds), str(len(rounds)), "rounds")))
    return facts(found, "figures")


def losses(run: RecordedRun, *, heading: str = "Who was lost, and why") -> Html | None:
    """Each of the lost parties: where, when, what was done about it, and the causes."""
    if not run.losses:
        return None
    shown = run.losses[:_LOSSES]
    many = len(run.rounds) > 1
    found = [_loss(loss, why, many) for loss, why in zip(shown, _reasons(run, shown), strict=True)]
    if more := len(run.losses) - len(shown):
        found.append(element("li", f"{more} more: the view losses of run.sqlite", class_="muted"))
    return join([element("h3", heading), element("ul", *found, class_="losses")])


def _loss(loss: Loss, reasons: Sequence[str], many: bool) -> Html:
    when = f"{f'round {loss.round}, ' if many else ''}{format_duration(loss.time)}"
    why = element("ul", *(element("li", f"because {reason}") for reason in reasons), class_="why") if reasons else None
    step = element("code", loss.step)
    return element("li", element("strong", loss.party), " at ", step, f" ({when}): {loss.action}", why)


def _reasons(run: RecordedRun, shown: Sequence[Loss]) -> Sequence[Sequence[str]]:
    try:
        return [cause.reasons for cause in explained(run.folder, shown)]
    except FolderError:
        return [()] * len(shown)


def _printed(run: RecordedRun) -> Html | None:
    """The lines that `tacit run` prints at the end of the run."""
    if run.result is None:
        return None
    groups: list[tuple[str, list[str]]] = []
    for line in outcome_lines(run.result):
        name, text = line[:10].strip(), line[10:]
        if name or not groups:
            groups.append((name, [text]))
        else:
            groups[-1][1].append(text)
    if run.result.trace_hash:
        groups.append(("trace", [run.result.trace_hash]))
    return facts([(name, join(lines, "<br>")) for name, lines in groups if name not in _ELSEWHERE])


def _failure(run: RecordedRun) -> Html | None:
    path = run.folder / "failure.txt"
    if not path.is_file() or (run.result is not None and disk_problem(run.result.error) is not None):
        return None
    return details("The traceback (failure.txt)", element("pre", path.read_text(encoding="utf-8", errors="replace")))


def _replay(run: RecordedRun) -> Html:
    line = f"tacit run {shlex.quote(str(run.folder))}"
    scenario, result = run.scenario, run.result
    if scenario is None:
        remark = "This version of Tacit cannot read the run's scenario, and so cannot repeat it."
        return join([element("h3", "Run it again"), element("p", remark, class_="note")])
    if scenario.entropy == "os":
        remark = "The randomness of its cryptography is the operating system's: the trace will be another."
    elif scenario.cost == "measured":
        remark = "Computing costs the wall time that it takes: virtual times, and so the trace, will be others."
    elif result is not None and result.trace_hash and result.outcome != "interrupted":
        remark = f"The trace hash will be {result.trace_hash[:16]} again."
    else:
        remark = "It begins from the start."
    found = [element("h3", "Run it again"), element("pre", line, class_="line", data_name="replay")]
    if (run.folder / "checkpoint").exists() and run.outcome != UNDER_WAY:
        resume = f"tacit run --resume {shlex.quote(str(run.folder))}"
        found.append(element("pre", resume, class_="line", data_name="resume"))
        remark += " The second line goes on where it was broken off."
    return join([*found, element("p", remark, class_="note")])


def warnings_of(run: RecordedRun) -> list[str]:
    """The warnings and cautions that `tacit run` prints of it, each once."""
    found = list(run.result.warnings) if run.result is not None else []
    try:
        said = cautions(run.scenario) if run.scenario is not None else []
    except (OSError, ValueError):  # the data may be gone
        said = []
    return list(dict.fromkeys((*said, *found)))


def remarks(run: RecordedRun) -> str:
    """What run it was, in a line."""
    about, result = run.about, run.result
    sized = about.get("fidelity") == "sized"
    words = [
        str(about.get("scenario", "")),
        f"protocol {about.get('protocol', '')}",
        f"seed {about.get('seed', '')}",
        f"Tacit {about.get('tacit', '')}",
        "sized: real sizes, modelled times" if sized else "",
        "" if result is None else f"engine {result.engine}",
        str(run.folder),
    ]
    return " · ".join(filter(None, words))
