"""The command `tacit chaos --server`: tries a lying server on the scenario's secure sums and prints the findings."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from tacit.protocols.sums.registry import SUMS
from tacit.scenarios.chaos.server import PROMISES, Breach, Sweep, Trial, Trials, run_trial, sums_of, sweep
from tacit.scenarios.chaos.server_lies import Lie, parse, text
from tacit.scenarios.chaos.server_noise import NoiseTrial, ask, askings, has_noise
from tacit.scenarios.chaos.server_world import Miniature
from tacit.scenarios.console.kinds import COUNT
from tacit.scenarios.console.printing import print_lines, print_table
from tacit.scenarios.console.table import Table, columns_of
from tacit.scenarios.files.reading import Loaded, read
from tacit.scenarios.schema.scenario import ScenarioError

__all__ = ["Sweep", "check_options", "lying_server", "lying_server_once"]

_TENTHS = 10
_OUTSIDE = (
    "outside   a server that shows each client other survivors reads a client's input: in a graph that is not complete "
    "clients cannot compare them (docs/privacy/attacks.md, attack o, survivors)"
)
_COUNTS = ("runs", "blocks received", "masks opened", "broken")


def check_options(refused: Mapping[str, bool]) -> None:
    """Raise ScenarioError if an option was given that cannot be combined with ``--server``."""
    if given := [name for name, is_given in refused.items() if is_given]:
        problem = (
            f"it tries lies in place of faults; {', '.join(given)} cannot go with it; "
            "allowed: --schedules, --seed, --quick, --jobs, --set, --json, --program"
        )
        raise ScenarioError("--server", "", problem)


def lying_server(
    console: Console, notes: Console, file: str, plan: Sweep, changes: Sequence[str], json_file: Path | None
) -> int:
    """Run `plan` on the sums of the scenario in `file`. Returns 0 if every promise held, 1 if not."""
    loaded, sums = _sums(file, changes, plan.quick)
    _begin(console, loaded, sums)
    found, noise = Trials([], []), list[NoiseTrial]()
    broken = 0

    def watch(done: int, of: int, one: Trial) -> None:
        nonlocal broken
        broken += bool(one.broken)
        if done * _TENTHS // of != (done - 1) * _TENTHS // of:
            print_lines(notes, [f"{done}/{of} runs, {broken} broke a promise"])

    try:
        if has_noise(loaded.scenario):
            noise += (ask(loaded.scenario, asking) for asking in askings(loaded.scenario, plan.quick))
        sweep(sums, plan, watch, found)
    except KeyboardInterrupt:
        found.interrupted = True
    replays = [_replay(file, changes, plan.quick, one.smallest) for one in found.breaches]
    if json_file is not None:
        json_file.write_text(
            json.dumps(_record(loaded, plan, found, replays, noise), indent=1) + "\n", encoding="utf-8"
        )
    if found.trials:
        print_table(console, Table(("sum", "the server", *columns_of(_COUNTS, COUNT)), _rows(found.trials)))
    print_lines(console, _noise_lines(noise))
    for breach, replay in zip(found.breaches, replays, strict=True):
        print_lines(console, _lines(breach, replay))
    outside = [one for one in found.trials if one.outside]
    print_lines(console, [_OUTSIDE, f"smallest  {outside[0].sum.label}: {text(outside[0].program)}"] if outside else [])
    print_lines(console, [_summary(found)] if sums else [])
    return 130 if found.interrupted else 1 if found.broken or any(one.twice or one.failure for one in noise) else 0


def lying_server_once(console: Console, file: str, program: str, quick: bool, changes: Sequence[str]) -> int:
    """Run one sum of the scenario in `file` with a server that follows `program`. Returns 0 if the promises held."""
    loaded, sums = _sums(file, changes, quick)
    kind, _, line = program.partition(":")
    if kind not in (kinds := [miniature.label for miniature in sums]) or not line.strip():
        allowed = ", ".join(kinds) or "nothing, for it takes no secure sum"
        problem = f"{program!r} must begin with a sum of the scenario and a colon; allowed: {allowed}"
        raise ScenarioError("--program", "", problem)
    miniature = sums[kinds.index(kind)]
    try:
        one = run_trial(miniature, parse(line, miniature.clients))
    except ValueError as error:
        raise ScenarioError("--program", "", str(error)) from None
    _begin(console, loaded, [miniature])
    print_lines(console, [f"program   {text(one.program)}"])
    print_lines(console, [f"received  {one.outcome.relations} masked blocks; {one.outcome.opened} masks opened"])
    print_lines(console, (f"BROKEN    {promise}: {how}" for promise, how in one.broken.items()))
    print_lines(console, [] if one.broken else ["promises  both held"])
    return 1 if one.broken else 0


def _sums(file: str, changes: Sequence[str], quick: bool) -> tuple[Loaded, tuple[Miniature, ...]]:
    loaded = read(file, [*changes, "fault=[]", "expect={}"])
    sums = sums_of(loaded.scenario, quick)
    if not sums and not has_noise(loaded.scenario):
        problem = (
            f'"{loaded.scenario.protocol.name}" takes no secure sum that a server could lie in, and its clients add no '
            "noise; allowed: protocols with XCLP or tacit.protocols.sums.secure_sum, or with noise at the clients, and "
            f"training with training.averaging of {', '.join(SUMS)}"
        )
        raise ScenarioError(loaded.where, "protocol.name", problem)
    return loaded, sums


def _begin(console: Console, loaded: Loaded, sums: Sequence[Miniature]) -> None:
    print_lines(console, [f"server    {loaded.scenario.title or loaded.name}   (seed {loaded.scenario.seed})"])
    print_lines(
        console,
        (f"sum       {one.kind} in miniature: {one.clients} clients, min_clients {one.min_clients}" for one in sums),
    )


def _rows(trials: Sequence[Trial]) -> list[tuple[str | int, ...]]:
    groups: dict[tuple[str, str], list[Trial]] = {}
    for one in trials:
        groups.setdefault((one.sum.label, _behaviour(one)), []).append(one)
    return [
        (*row, len(group), sum(one.outcome.relations for one in group),
         sum(one.outcome.opened for one in group), sum(bool(one.broken) for one in group))
        for row, group in groups.items()
    ]  # fmt: skip


def _behaviour(one: Trial) -> str:
    if not one.program:
        return "is honest"
    if isinstance(one.program[0], Lie):
        return "lies once" if len(one.program) == 1 else "lies several times"
    return "follows a program of its own"


def _replay(file: str, changes: Sequence[str], quick: bool, one: Trial) -> str:
    """The command that repeats one trial. An honest server has no program: every sweep tries it first."""
    words = ["tacit", "chaos", file, "--server", *(["--quick"] if quick else [])]
    words += [word for change in changes for word in ("--set", change)]
    words += ["--program", f"{one.sum.label}: {text(one.program)}"] if one.program else ["--schedules", "0"]
    return shlex.join(words)


def _lines(breach: Breach, replay: str) -> list[str]:
    runs = f"in {breach.runs} run{'s' * (breach.runs > 1)}"
    smallest = text(breach.smallest.program) or "(an honest server)"
    return [
        f"BROKEN    {breach.promise}, {runs}: {PROMISES[breach.promise]}",
        f"          {breach.how}",
        f"smallest  {breach.smallest.sum.label}: {smallest}",
        f"replay    {replay}",
        "",
    ]


def _noise_lines(noise: Sequence[NoiseTrial]) -> list[str]:
    wrong = []
    for one in noise:
        if one.twice or one.failure:
            how = one.failure or f"two draws of noise leave {', '.join(one.twice)} for one question"
            wrong.append(f"BROKEN    a server that {one.asking}: {how}")
    count = sum(one.draws for one in noise)
    held = f"noise     {count} draws have left clients in {len(noise)} runs with a server that asks again"
    return wrong or ([f"{held}; no two for one question"] if noise else [])


def _summary(found: Trials) -> str:
    runs = len(found.trials)
    if found.interrupted:
        return f"promises  interrupted after {runs} run{'s' * (runs != 1)}; {found.broken} of them broke one"
    if found.broken:
        return f"promises  broken in {found.broken} of {runs} runs"
    return f"promises  both held in {runs} runs"


def _record(
    loaded: Loaded, plan: Sweep, found: Trials, replays: Sequence[str], noise: Sequence[NoiseTrial]
) -> dict[str, Any]:
    return {
        "scenario": loaded.name,
        "seed": loaded.scenario.seed,
        "plan": msgspec.to_builtins(plan),
        "interrupted": found.interrupted,
        "promises": PROMISES,
        "sums": [msgspec.to_builtins(miniature) for miniature in dict.fromkeys(one.sum for one in found.trials)],
        "runs": [
            {
                "sum": one.sum.label,
                "program": text(one.program),
                "exposed": list(one.outcome.exposed),
                "failure": one.outcome.failure,
                "outside": one.outside,
                "relations": one.outcome.relations,
                "opened": one.outcome.opened,
            }
            for one in found.trials
        ],
        "noise": [
            {"server": str(one.asking), "draws": one.draws, "twice": list(one.twice), "failure": one.failure}
            for one in noise
        ],
        "failures": [
            {
                "promise": breach.promise,
                "how": breach.how,
                "runs": breach.runs,
                "sum": breach.smallest.sum.label,
                "program": text(breach.smallest.program),
                "replay": replay,
            }
            for breach, replay in zip(found.breaches, replays, strict=True)
        ],
    }
