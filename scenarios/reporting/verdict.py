"""The first part of a page: the outcome, the losses and their causes, the costs, and the command that repeats the
run."""

from collections.abc import Iterator, Sequence

from tacit.scenarios.console import kinds
from tacit.scenarios.console.table import Table, columns_of
from tacit.scenarios.reporting.html import Html, details, element, facts, join, of_table, quantity
from tacit.scenarios.reporting.printed import outcome_lines
from tacit.scenarios.reporting.recorded import BROKEN_OFF, UNDER_WAY, RecordedRun
from tacit.scenarios.running.folder import FolderError, Loss, disk_problem
from tacit.scenarios.running.outlook import cautions
from tacit.scenarios.schema.scenario import Expect
from tacit.scenarios.seeing.absences import Absence, grouped
from tacit.scenarios.seeing.causes import Cause
from tacit.scenarios.seeing.facts import Facts
from tacit.scenarios.seeing.seen import Seen
from tacit.scenarios.seeing.story import absences
from tacit.sim.grammar import in_number
from tacit.sim.units import format_duration

__all__ = ["figures", "losses", "outcome", "remarks", "verdict", "warnings_of"]

_LOSSES = 50
"""The most causes of losses of a kind that are shown one by one."""

_ONE_BY_ONE = 6
"""The most causes of losses that are shown without a table of kinds."""

_KINDS = {"fault": "a fault", "link": "its link", "device": "its device", "choice": "a refusal"}
"""The end of the chain of reasons, by its kind (`causes.ROOTS`)."""

_CLASSES = {"completed": "good", "failed": "bad", "aborted": "warn"}

_ELSEWHERE = ("outcome", "lost", "privacy", "result")
"""Lines of `tacit run` that the page shows elsewhere."""


def verdict(run: RecordedRun, seen: Seen) -> Html:
    """The whole part; `seen` is the part of the run's record that has been read already."""
    content = [outcome(run), figures(run), losses(run, seen), _failure(run), _replay(run), _printed(run)]
    return join([one for one in content if one])


def outcome(run: RecordedRun, *, linked: bool = True) -> Html:
    """The outcome with its reason, and remarks on the result; `linked`: with links to other parts of the page."""
    said = {
        UNDER_WAY: "This page shows what was recorded until it was made; make it again for the rest.",
        BROKEN_OFF: "There is no result.json: the run was killed, and the record ends where it was.",
    }
    reason = run.reason or said.get(run.outcome, "")
    unmet = run.result is not None and bool(run.result.unmet)
    colour = "muted" if unmet else _CLASSES.get(run.outcome, "warn")
    head = element("p", run.outcome.capitalize(), class_=f"outcome {colour}", data_name="outcome")
    verdict = element("p", "Not as expected", class_="outcome bad", data_name="verdict") if unmet else None
    why = element("p", reason, data_name="reason") if reason else None
    checks = (_check(good, text) for good, text in _checks(run, linked))
    return join([verdict, head, why, element("ul", *checks, class_="checks")])


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
    """The figures of the run: accuracy or another score, virtual time, bytes and messages."""
    result, sums = run.result, run.sums()
    so_far = "" if run.has_ended else " so far"
    found: list[tuple[str, Html]] = []
    figure = kinds.decimals(4)
    if run.scored is not None:
        after = "" if result is not None else " after the last round that was measured"
        where = result.measured_on if result is not None else ""
        small = element("small", f"on {where}" if where else after.strip())
        found.append((run.score.replace("_", " "), join([quantity(run.scored, figure, run.score), small])))
    for name, value in ({} if result is None else result.further).items():
        kind = kinds.decimals(0) if name in ("clients_clients", "clients_points") else figure
        found.append(
            (name.replace("_", " ").replace("clients clients", "clients that tested"), quantity(value, kind, name))
        )
    wall = "" if result is None else f"wall {format_duration(result.wall_seconds)}"
    found.append(
        (
            f"virtual time{so_far}",
            join([quantity(run.seconds, kinds.SECONDS, "virtual_seconds"), element("small", wall)]),
        )
    )
    shares = {name: 100 * sums[name] / (sums["total"] or 1) for name in ("payload", "sealing", "envelope")}
    parts = ", ".join(f"{share:.1f}% {name}" for name, share in shares.items() if share >= 0.05)
    found.append(
        (f"bytes{so_far}", join([quantity(sums["total"], kinds.BYTES, "bytes_total"), element("small", parts)]))
    )
    shown = quantity(run.messages, kinds.COUNT, "messages")
    found.append((f"messages{so_far}", join([shown, element("small", "counted on every link")])))
    rounds = [one for one in run.rounds if one["ended"] is not None]
    if len(rounds) > 1:
        found.append((f"rounds{so_far}", quantity(len(rounds), kinds.COUNT, "rounds")))
    return facts(found, "figures")


def losses(run: RecordedRun, seen: Seen | None = None, *, heading: str = "Who was lost, and why") -> Html | None:
    """The causes of losses: the affected party, step and time, the consequences, and the chain of causes.

    They are a list, or if they are many a table by cause and step, in which each row opens its list.
    """
    if not run.losses:
        return None
    try:
        every = absences(run.folder, run.losses, seen)
    except FolderError:
        every = grouped(run.losses, Facts(), lambda loss: Cause())
    many = len(run.rounds) > 1
    if len(every) <= _ONE_BY_ONE:
        return join([element("h3", heading), _listed(every, many)])
    groups: dict[tuple[str, str, str], list[Absence]] = {}
    for one in every:
        groups.setdefault((_kind(one), one.step, one.losses[0].action), []).append(one)
    rows, lists = [], []
    for (kind, step, action), some in sorted(groups.items(), key=lambda group: -len(group[1])):
        parties, lost = len({one.party for one in some}), sum(len(one.losses) for one in some)
        rows.append((kind, step, action, parties, lost))
        counted = in_number(f"{kind}, at {step}: {parties} parties, {lost} losses")
        lists.append(details(counted, _listed(some, many), printed=False))
    columns = ("cause", "step of the first loss", "what was done", *columns_of(("parties", "losses"), kinds.COUNT))
    made = of_table(Table(columns, rows, "lost parties by cause and step"))
    return join([element("h3", heading), made, *lists])


def _kind(one: Absence) -> str:
    """The cause of an absence in a word or two, the same for all of its kind."""
    return one.state or _KINDS.get(one.kind, "not recorded")


def _listed(some: Sequence[Absence], many: bool) -> Html:
    found = [_absence(one, many) for one in some[:_LOSSES]]
    if more := len(some) - len(found):
        found.append(element("li", f"{more} more: the view losses of run.sqlite", class_="muted"))
    return element("ul", *found, class_="losses")


def _absence(one: Absence, many: bool) -> Html:
    why = element("ul", *(element("li", f"because {reason}") for reason in one.because), class_="why")
    each = [element("li", *_loss(loss, many)) for loss in one.losses]
    head = [": ", one.cause] if one.cause else []
    led_to = [f"; {one.consequence}"] if one.consequence else []
    if len(each) == 1:
        head = [*_loss(one.losses[0], many), *led_to]
        return element("li", element("strong", one.party), *head, why if one.because else None)
    folded = details(f"{len(each)} losses", element("ul", *each), printed=False)
    return element("li", element("strong", one.party), *head, *led_to, why if one.because else None, folded)


def _loss(loss: Loss, many: bool) -> tuple[str, ...]:
    when = f"{f'round {loss.round}, ' if many else ''}{format_duration(loss.time)}"
    return " at ", element("code", loss.step), f" ({when}): {loss.action}"


def _printed(run: RecordedRun) -> Html | None:
    """The lines that `tacit run` prints at the end of the run."""
    if run.result is None:
        return None
    groups: list[tuple[str, list[str]]] = []
    for line in outcome_lines(run.result):
        if line.label or not groups:
            groups.append((line.label, [line.text]))
        else:
            groups[-1][1].append(line.text)
    if run.result.trace_hash:
        groups.append(("trace", [run.result.trace_hash]))
    return facts([(name, join(lines, "<br>")) for name, lines in groups if name not in _ELSEWHERE])


def _failure(run: RecordedRun) -> Html | None:
    path = run.folder / "failure.txt"
    if not path.is_file() or (run.result is not None and disk_problem(run.result.error) is not None):
        return None
    return details("The traceback (failure.txt)", element("pre", path.read_text(encoding="utf-8", errors="replace")))


def _replay(run: RecordedRun) -> Html:
    line = "tacit run ."
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
        resume = "tacit run --resume ."
        found.append(element("pre", resume, class_="line", data_name="resume"))
        remark += " The second line goes on where it was broken off."
    return join([*found, element("p", f"In the run's folder, wherever it lies. {remark}", class_="note")])


def warnings_of(run: RecordedRun) -> list[str]:
    """The warnings and cautions that `tacit run` prints for the run, each once."""
    found = list(run.result.warnings) if run.result is not None else []
    try:
        said = cautions(run.scenario) if run.scenario is not None else []
    except (OSError, ValueError):  # the data may be gone
        said = []
    return list(dict.fromkeys((*said, *found)))


def remarks(run: RecordedRun) -> str:
    """A line that identifies the run."""
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
