"""Chaos from Python, and its shared part with the command line: the preparation of a scenario."""

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path

from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.chaos.campaign import Findings, Plan, Verdict, campaign
from tacit.scenarios.chaos.promises import promises_of
from tacit.scenarios.chaos.report import write_findings
from tacit.scenarios.files.arguments import check_count, check_type, check_types
from tacit.scenarios.files.reading import Loaded, Source, read
from tacit.scenarios.running.folder import new_folder
from tacit.scenarios.running.workers import Jobs, check_jobs
from tacit.scenarios.schema.option_names import called, either
from tacit.scenarios.schema.scenario import Scenario, ScenarioError

__all__ = ["chaos", "promising", "ready"]

_QUICK_POINTS = 120


def chaos(
    scenario: Source,
    *,
    schedules: int = 20,
    singles: bool = True,
    pairs: bool = False,
    quick: bool = False,
    seed: int = 0,
    changes: Sequence[str] = (),
    jobs: Jobs = 1,
    out: str | Path | None = None,
    watch: Callable[[int, int, Verdict], None] | None = None,
) -> Findings:
    """Run `scenario` repeatedly, each time under other faults, and return the broken promises.

    `scenario`: one made in Python or by `load`, or a name or path for `load`. The first run has no faults: the
    scenario's own faults and expectations are ignored, and keys have 512 bits unless `changes` (as in `load`) set
    ``protocol.key_bits``. Later runs have crashes before and after every step of every party, one at a time
    (`singles`), every pair of crashes (`pairs`), and `schedules` random mixtures of all faults, which follow from
    `seed`. `quick`: fewer points and rounds, and crashes of the server and three clients only, as with more than 200
    clients. With more than one of `jobs`, each run has a separate process; a script then needs ``if __name__ ==
    "__main__":``. With "ray" or "ray:HOST:PORT" runs are made on Ray. `out` is the folder to make, by default
    ``runs/NAME-chaos-NUMBER``. `watch` is called after each run with the number of runs done, the total number as far
    as known, and the verdict.

    The result has `verdicts`, one for each run, and `failures`: for each broken promise the smallest schedule of faults
    found that breaks it, which the folder holds as a scenario file. If links lose messages, up to 20 seeds are tried,
    and `seed` of the result is the first one with which the run without faults completes. Raises ScenarioError, also if
    the run without faults completes with none of the seeds; TypeError; FileExistsError if `out` exists; and
    KeyboardInterrupt after Ctrl-C, after which the folder holds the findings so far.
    """
    check_type("scenario", scenario, (Scenario, str, Path), "a Scenario, or a name or path as str or Path")
    check_types("changes", changes, str, 'a list of texts such as ["data.limit=240"]')
    check_type("out", out, (str, Path, type(None)), "the folder to make, as str or Path, or None")
    for name, number, least in (("schedules", schedules, 0), ("seed", seed, 0)):
        check_count(name, number, least)
    check_jobs(jobs)
    plan = Plan(schedules=schedules, singles=singles, pairs=pairs, quick=quick, seed=seed, jobs=jobs)
    loaded, _ = ready(scenario, plan, changes)
    folder, findings = new_folder(None if out is None else Path(out), loaded.name + "-chaos"), Findings([], [])
    try:
        campaign(loaded.scenario, plan, watch or (lambda done, of, one: None), findings)
    except KeyboardInterrupt:
        findings.interrupted = True
        raise
    finally:
        write_findings(folder, loaded.scenario, loaded.name, plan, findings)
    if findings.useless:
        what = "raise protocol.deadline, or let fewer messages be lost (network.loss)"
        raise ScenarioError(loaded.where, "", f"nothing was tried, for {findings.useless}; {what}")
    return findings


def ready(scenario: Source, plan: Plan, changes: Sequence[str]) -> tuple[Loaded, int]:
    """The scenario without its faults and expectations, with short keys unless `changes` set them, and its number of
    faults."""
    ours = ["fault=[]", "expect={}"]
    keys = {change.partition("=")[0].strip() for change in changes}
    if any(key.partition(".")[0] == "fault" for key in keys):
        problem = "chaos brings its own faults"
        raise ScenarioError(
            called("--set"), "fault", either(f"{problem}; allowed: --replay, which takes those given", problem)
        )
    written = read(scenario, changes, without_data=True).scenario  # what is ignored may not fit the rest
    absent = [number for number, client in enumerate(written.client) if client.availability]
    ours += [f'client.{number}.availability=""' for number in absent]
    own = promising(read(scenario, [*changes, *ours]))
    if "protocol.key_bits" not in keys:
        ours += ["protocol.key_bits=512", "protocol.insecure_keys=true"]
    if plan.quick and "data.limit" not in keys:
        limit = read(scenario, [*changes, *ours]).scenario.data.limit
        ours.append(f"data.limit={min(limit or math.inf, max(_QUICK_POINTS, own.scenario.data.clients))}")
    most = PROTOCOLS[own.scenario.protocol.name].quick
    if plan.quick and not keys & set(most):
        ours += [f"{key}={min(attrgetter(key)(own.scenario), number)}" for key, number in most.items()]
    return promising(read(scenario, [*changes, *ours])), len(written.fault) + len(absent)


def promising(loaded: Loaded) -> Loaded:
    """Return `loaded` if the promises of its protocol are known. Raises ScenarioError otherwise."""
    name = loaded.scenario.protocol.name
    if not promises_of(loaded.scenario):
        allowed = "any but training followed by prediction"
        problem = f'chaos cannot tell what "{name}" promises; allowed: {allowed}'
        raise ScenarioError(loaded.where, "protocol.name", problem)
    return loaded
