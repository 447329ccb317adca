"""The one conformance suite of secure sums: `tacit.testing.check_sum`, and the command `tacit check-sum`.

The sum is tried as the average of a small training run (digits, a linear model): there the clients' vectors are known,
so that every sum can be compared with its plaintext oracle. Each case is one promise. Cases use the audit
(`scenarios.auditing`), chaos and its lying server (`scenarios.chaos`), prediction and deployment; nothing is judged by
the sum's own code. See docs/howto/check-sum.md.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from tacit.parties.fleet.fleet import HELPER
from tacit.protocols.auditing.findings import Losses, losses
from tacit.protocols.crypto.words import Quantised
from tacit.protocols.lying import is_judged
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.sums.registry import SUMS
from tacit.protocols.sums.sum import Sum
from tacit.scenarios.chaos.campaign import Verdict, faulty_run, first_run
from tacit.scenarios.chaos.fault_kinds import faults_of_message
from tacit.scenarios.chaos.miniature import Miniature
from tacit.scenarios.chaos.schedules import Schedule, random_schedules, text
from tacit.scenarios.chaos.server import Sweep, Trial, programs_of, run_trial
from tacit.scenarios.chaos.server_helper import TRICKS, ask_helper
from tacit.scenarios.chaos.server_lies import Program
from tacit.scenarios.chaos.server_lies import text as program_text
from tacit.scenarios.chaos.server_masks import REQUESTS, ask_for_masks, masked_vectors, not_random, seed_in_the_open
from tacit.scenarios.chaos.trial import observed
from tacit.scenarios.deploying.gathering import gather
from tacit.scenarios.deploying.local import Local
from tacit.scenarios.files import plugins
from tacit.scenarios.files.reading import read
from tacit.scenarios.reporting.counted import counted
from tacit.scenarios.reporting.from_python import predict
from tacit.scenarios.running.folder import Result
from tacit.scenarios.running.runner import Watch, carry_out, resume
from tacit.scenarios.schema.scenario import Data, Model, Scenario, ScenarioError, Training
from tacit.sim.faults import Crash
from tacit.sim.registry import added_by_plugins
from tacit.sim.trace import Event
from tacit.sim.units import duration

__all__ = ["CASES", "Case", "SumReport", "check_sum", "checked"]

_CLIENTS = 5, 7, 10
"""The numbers of clients that are tried: the first that the sum can be among."""
_POINTS = 50
_SCHEDULES = {False: 5, True: 100}
_VICTIM = "client/1"
_PROGRAMS = 28
"""About the number of fixed programs of a lying server."""
_CAUTION = "no lying server was judged: the cases that passed are no evidence that the sum hides inputs from one"


class Case(Struct, frozen=True):
    """A case of the suite: its `name`, its `status`, and the facts.

    `status`: "passed", "failed", or "not judged" where the sum does not say enough, or the case is only in the thorough
    mode. `how`: what was wrong, or what was tried. `repeat`: what repeats a failed case; "" if it passed.
    """

    name: str
    status: str
    how: str
    repeat: str = ""


class SumReport(Struct, frozen=True):
    """The result of `check_sum`: the name of the `sum`, and its `cases` in order."""

    sum: str
    cases: tuple[Case, ...]

    @property
    def caution(self) -> str:
        """A line of warning where lying servers were not judged; "" if they were, or were not asked for."""
        unjudged = any(one.name.startswith("lying server") and one.status == "not judged" for one in self.cases)
        return _CAUTION if unjudged else ""

    @property
    def failed(self) -> list[Case]:
        """The cases that failed."""
        return [one for one in self.cases if one.status == "failed"]

    def case(self, name: str) -> Case:
        """The case with this `name`. Raises KeyError."""
        for one in self.cases:
            if one.name == name:
                return one
        raise KeyError(f"no case {name!r}; cases are {', '.join(one.name for one in self.cases)}")

    def __str__(self) -> str:
        """The cases as lines of text."""
        lines = [f"{one.status:10} {one.name}: {one.how}" for one in self.cases]
        lines += [f"caution: {self.caution}"] if self.caution else []
        return "\n".join([f"check of the sum {self.sum!r}", *lines, *(f"repeat: {one.repeat}" for one in self.failed)])


class _Failed(Exception):
    """A promise of a case is broken."""


class _NotJudged(Exception):
    """A case cannot be judged, for a reason."""


def check_sum(
    sum: type[Sum] | str | Path,
    *,
    thorough: bool = False,
    only: Sequence[str] = (),
    changes: Sequence[str] = (),
    seed: int = 1,
) -> SumReport:
    """Check that a secure sum keeps the promises of all sums; returns the report, in which no case failed.

    `sum`: a class derived from `tacit.Sum`, the name of a sum, or the path of a plugin file that adds one. `thorough`:
    every crash, many random faults, every lie of the server and real processes, which takes minutes; without it
    seconds. `only`: the names of the cases to try, from `CASES`; () means all. `changes` are those of `tacit.load`, for
    keys that the sum needs. `seed`: that of the training run and of the random faults.

    Raises AssertionError if a case failed, with a line for each case; ScenarioError if the sum does not go with the
    keys, or a case's name is unknown.
    """
    report = checked(sum, thorough=thorough, only=only, changes=changes, seed=seed)
    assert not report.failed, str(report)
    return report


def checked(
    sum: type[Sum] | str | Path,
    *,
    thorough: bool = False,
    only: Sequence[str] = (),
    changes: Sequence[str] = (),
    seed: int = 1,
    watch: Callable[[str], object] = lambda name: None,
) -> SumReport:
    """The report of `check_sum`, also if cases failed; `watch` is called with the name of each case before it."""
    if unknown := [name for name in only if name not in CASES]:
        raise ScenarioError(unknown[0], "", f"is no case of the check of a sum; allowed: {', '.join(CASES)}")
    with _registered(sum) as (name, files), tempfile.TemporaryDirectory(prefix="tacit-check-") as folder:
        check = _Check(name, files, thorough, tuple(changes), seed, Path(folder))
        done = []
        for case in only or CASES:
            watch(case)
            done.append(_tried(check, case, sum))
        return SumReport(name, tuple(done))


def _tried(check: "_Check", name: str, given: type[Sum] | str | Path) -> Case:
    try:
        return Case(name, "passed", CASES[name](check))
    except _NotJudged as reason:
        return Case(name, "not judged", str(reason))
    except _Failed as reason:
        return Case(name, "failed", str(reason), check.repeat(name, given))


@contextmanager
def _registered(given: type[Sum] | str | Path) -> Iterator[tuple[str, list[Path]]]:
    """The name of a sum, and its plugin files; a class that is in no registry is in it for as long as this lasts."""
    if isinstance(given, str) and given in SUMS:
        yield given, []
    elif isinstance(given, str | Path) and Path(given).suffix == ".py":
        path = Path(given).absolute()
        plugins.give([path])
        try:
            plugins.load_plugins()
            own = [one for one in added_by_plugins() if Path(one.path).name == path.name]  # a copy is the same plugin
            added = [one.name for one in own if one.what == "sum"]
            if len(added) != 1:
                problem = f"adds {len(added)} sums ({', '.join(added) or 'none'}); allowed: one (tacit.add_sum)"
                raise ScenarioError(str(given), "", problem)
            yield added[0], [path]
        finally:
            plugins.give([])
    elif isinstance(given, type) and issubclass(given, Sum):
        known = next((name for name, one in SUMS.items() if one is given), None)
        if known is not None:
            yield known, []
            return
        name = getattr(given, "name", "") or given.__name__
        given.name, given.description = name, getattr(given, "description", "") or name
        SUMS.add(name, given)
        try:
            yield name, []
        finally:
            SUMS.remove(name)
    else:
        allowed = f"a class derived from tacit.Sum, the path of a plugin file, or one of {', '.join(SUMS)}"
        raise ScenarioError(str(given), "", f"is no sum; allowed: {allowed}")


class _Interrupter(Watch):
    """Interrupts a run at the `left`-th event."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, event: Event) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


class _Check:
    """The sum `name` in a scenario; folders of runs are below `folder`."""

    def __init__(
        self, name: str, files: Sequence[Path], thorough: bool, changes: tuple[str, ...], seed: int, folder: Path
    ) -> None:
        self.name, self.files, self.thorough, self.given, self.seed = name, files, thorough, changes, seed
        self.kind, self.folder = SUMS[name], folder
        self._calm: Verdict | None = None
        self._result: Result | None = None
        self._events: list[Event] | None = None
        keys = ["sum.tolerated_dropouts=0.2"] if self.kind.tolerates_share else []
        keys += ["sum.value_bits=12"] if self.kind.of_integers else []
        self.changes: tuple[str, ...] = (*keys, *changes)
        self.scenario = self._fitting()

    def _fitting(self) -> Scenario:
        """The scenario with the first number of clients that the sum can be among. Raises ScenarioError."""
        chosen = self.changes
        for clients in _CLIENTS:
            self.changes = (f"data.clients={clients}", *chosen)
            try:
                return self.with_changes()
            except ScenarioError:
                if clients == _CLIENTS[-1]:
                    raise
        raise AssertionError("there are numbers of clients")

    def with_changes(self, *changes: str) -> Scenario:
        """The scenario of the check with further changes. Raises ScenarioError."""
        made = Scenario(
            title=f"The check of the sum {self.name}",
            seed=self.seed,
            data=Data(name="digits", limit=_POINTS),
            model=Model(name="linear_embedding", embedding=2),
            training=Training(rounds=2, averaging=self.name),
        )
        chosen = ["protocol.name=fedavg", "protocol.deadline=10s", "engine=inline", *self.changes, *changes]
        return read(made, chosen).scenario

    @property
    def calm(self) -> Verdict:
        """The run without faults. Raises _Failed if it does not complete, or breaks a promise."""
        if self._calm is None:
            self._calm = first_run(self.scenario)
        one = self._calm
        if one.outcome != "completed":
            raise _Failed(f"the run without faults is {one.outcome}: {one.reason}")
        return one

    @property
    def events(self) -> list[Event]:
        """The events of the run without faults."""
        if self._events is None:
            self._events = observed(self.scenario).events
        return self._events

    @property
    def clients(self) -> int:
        """The number of clients."""
        return self.scenario.data.clients

    @property
    def scenario_clients(self) -> list[str]:
        """The names of the clients."""
        return [f"client/{number}" for number in range(self.clients)]

    @property
    def quantised(self) -> Quantised | None:
        """The integers that are summed; None: numbers in fixed point."""
        bits = self.scenario.sum.value_bits
        return None if bits == "exact" else Quantised(bits, 1.0, self.clients)

    def run(self, name: str, scenario: Scenario) -> Result:
        """The result of `scenario`, in a folder with that `name`."""
        return carry_out(scenario, "check", out=self.folder / name)

    @property
    def result(self) -> Result:
        """The result of the run without faults."""
        if self._result is None:
            self._result = self.run("calm", self.scenario)
        return self._result

    def tried(self, schedules: Iterable[Schedule]) -> str:
        """Run with each of the `schedules` of faults. Raises _Failed for the first broken promise."""
        calm, count = self.calm, 0
        for faults in schedules:
            one, count = faulty_run(self.scenario, faults, calm.calm), count + 1
            if one.broken:
                what = "; ".join(text(fault) for fault in faults)
                raise _Failed(f"with the fault {what}: {one.broken[0].promise}: {one.broken[0].how}")
        return f"{count} runs"

    @property
    def parties(self) -> list[str]:
        """The parties whose steps and messages are disturbed."""
        taken = {party for party, _, _ in self.calm.course.steps}
        every = sorted(taken - {"server"}) if self.thorough else [_VICTIM, *({HELPER} & taken)]
        return ["server", *every]

    def opens_without_one(self) -> bool:
        """True if a sum is certainly opened after one client that joined is lost."""
        openings = PROTOCOLS[self.scenario.protocol.name].openings(self.scenario, self.clients)
        return all(one.opens(self.clients, self.clients - 1) == 1.0 for one in openings)

    def repeat(self, case: str, given: type[Sum] | str | Path) -> str:
        """The call, or the command, that repeats a case."""
        thorough, changes = self.thorough, list(self.given)
        if self.files:
            words = ["tacit", "check-sum", str(given), "--case", f'"{case}"', *["--thorough"] * thorough]
            return " ".join([*words, "--seed", str(self.seed), *(f"--set {one}" for one in changes)])
        shown = given.__name__ if isinstance(given, type) else repr(given)
        options = [f"only=[{case!r}]", f"seed={self.seed}", *(["thorough=True"] if thorough else [])]
        return f"check_sum({', '.join([shown, *options, *([f'changes={changes!r}'] if changes else [])])})"


# The cases


def _compared(check: _Check, lost: Losses | None, least: int) -> int:
    """Run with a loss, and compare the sum of each round with the plaintext one; returns the number of sums.

    Raises _Failed for a wrong sum, and where fewer than `least` clients are in it, or it is missing for no reason.
    """
    where = "without losses" if lost is None else lost.words
    scenario = check.scenario if lost is None else structs.replace(check.scenario, fault=lost.faults)
    trial = observed(scenario)
    if trial.simulated is None:
        raise _Failed(f"{where}: the run fails: {trial.reason}")
    count, rounds = 0, list[Any](trial.simulated.round_records)
    for record in rounds:
        if record.averaged:
            count += 1
            if not record.equals_plaintext:
                raise _Failed(f"{where}: round {record.round}: the sum is not that of the clients in it")
            if len(record.averaged) < least:
                shown = f"{len(record.averaged)} of {check.clients} clients"
                raise _Failed(f"{where}: round {record.round}: {shown} are in the sum, and {least} should be")
    if trial.outcome != "completed" and (lost is None or check.opens_without_one()):
        raise _Failed(f"{where}: the run is {trial.outcome}: {trial.reason}")
    return count


def _equals_oracle(check: _Check) -> str:
    """The sum of each round equals the plaintext one of all clients."""
    count = _compared(check, None, check.clients)
    if not count:
        raise _Failed("there was no sum")
    return f"{count} sums"


def _equals_oracle_without_one(check: _Check) -> str:
    """With one client lost before or after a step, the sum equals the plaintext one of the others, or of all."""
    events, clients = check.events, check.scenario_clients
    steps = list(dict.fromkeys(event.step for event in events if event.kind == "enter" and event.party in clients))
    tried = losses(events, steps, clients, 1)
    return f"{sum(_compared(check, lost, check.clients - 1) for lost in tried)} sums in {len(tried)} runs"


def _crashes(check: _Check) -> str:
    """A crash of the server, of a client and of the helper before and after each step."""

    def schedules() -> Iterator[Schedule]:
        for party, step, count in check.calm.course.steps:
            if party in check.parties:
                for occurrence in range(1, count + 1) if check.thorough else (count,):
                    yield (Crash(party, before=step, occurrence=occurrence),)
                    yield (Crash(party, after=step, occurrence=occurrence, back_after="3s"),)

    return check.tried(schedules())


def _messages(check: _Check) -> str:
    """The loss, a copy, a delay and a corruption of each message."""
    wait = 2 * duration(check.scenario.protocol.deadline)

    def schedules() -> Iterator[Schedule]:
        for party, kind, count in check.calm.course.messages:
            if party in check.parties:
                for number in range(1, count + 1) if check.thorough else (1,):
                    yield from ((fault,) for fault in faults_of_message(party, kind, number, wait))

    return check.tried(schedules())


def _mixtures(check: _Check) -> str:
    """Random mixtures of all faults."""
    deadline = duration(check.scenario.protocol.deadline)
    return check.tried(random_schedules(check.calm.course, _SCHEDULES[check.thorough], check.seed, deadline))


def _formula(check: _Check) -> str:
    """The payload of each message type equals the sum's formula."""
    one = counted(check.result.folder)
    sent = {row.type: 0 for row in one.rows}
    for row in one.rows:
        sent[row.type] += row.payload
    _require_equal(sent, one.formula, "the formula (Sum.payloads)")
    return f"{sum(sent.values()):,} bytes of payload in {len(sent)} types of messages"


def _require_equal(sent: dict[str, int], expected: dict[str, int], what: str) -> None:
    for kind in dict.fromkeys((*sent, *expected)):
        if sent.get(kind, 0) != expected.get(kind, 0):
            raise _Failed(f"{kind}: {sent.get(kind, 0):,} bytes were sent, and {what} gives {expected.get(kind, 0):,}")


def _prediction(check: _Check) -> str:
    """A run on hollow values sends as many messages and bytes, also with a client lost."""
    masks = [step for party, step, _ in check.calm.course.steps if party == _VICTIM and step.endswith(".mask")]
    faults: list[Schedule] = [(), *([(Crash(_VICTIM, before=masks[0]),)] if masks else [])]
    for number, fault in enumerate(faults):
        scenario = structs.replace(check.scenario, fault=fault)
        real = check.run(f"lossy-{number}", scenario) if fault else check.result
        rows = [(row.type, row.messages, row.payload) for row in counted(real.folder).rows]
        foreseen = [(row.type, row.messages, row.payload) for row in predict(scenario, seeds=1).rows]
        for one in dict.fromkeys((*rows, *foreseen)):
            if (one in rows) != (one in foreseen):
                where = "with a client lost" if fault else "without losses"
                what = "sent, and not predicted" if one in rows else "predicted, and not sent"
                raise _Failed(f"{where}: {one[1]} {one[0]} with {one[2]:,} bytes are {what}")
    return f"{len(faults)} runs"


def _random_masks(check: _Check) -> str:
    """Masked values look random, and no two have the same mask."""
    sum_, bits = check.kind.of(check.scenario), check.quantised
    width, modulus = sum_.masked_words(bits)
    found, texts = masked_vectors(check.scenario, check.kind.masked, width)
    if not found:
        raise _NotJudged("no message of Sum.masked has a vector that is not sealed")
    if problem := not_random(found, modulus) or seed_in_the_open(found[0], texts, width, modulus):
        raise _Failed(problem)
    return f"{len(found)} vectors, alone and in pairs"


def _refusals(check: _Check) -> str:
    """Clients send masked values once a round, whatever attempt, round or incarnation a server asks in."""
    sent = 0
    for words, requests in REQUESTS.items():
        kinds = check.kind.opening_with or check.kind.masked
        count, problem = ask_for_masks(Miniature(check.name, 4, 3, seed=check.seed), requests, kinds)
        sent += count
        if problem:
            raise _Failed(f"a server that {words}: {problem}")
    if not sent:
        raise _Failed("no masked values left a client: Sum.masked names other messages")
    return f"{sent} masked messages of parties that are asked again"


def _helper(check: _Check) -> str:
    """The helper answers for one set of clients in a round, and for no set of too few."""
    if not check.kind.has_helper:
        raise _NotJudged("the sum has no helper")
    count, problem = ask_helper(Miniature(check.name, 5, 3, seed=check.seed))
    if problem:
        raise _Failed(problem)
    if not count:
        raise _NotJudged("no request to the helper names clients in a map or a list")
    return f"{count} requests that are changed, in {len(TRICKS)} ways"


def _liar(check: _Check) -> str:
    """A lying server learns no combination of fewer clients' inputs than allowed."""
    return _lied(check, Miniature(check.name, 4, 3, seed=check.seed))


def _liar_with_colluders(check: _Check) -> str:
    """Nor does one that is helped by as many clients as the sum states."""
    one = Miniature(check.name, 8, 3, seed=check.seed)
    if not is_judged(check.name):
        return _lied(check, one)
    if not one.lying.with_clients:
        raise _NotJudged("no client colludes with a server in the miniature of this sum")
    return _lied(check, structs.replace(one, tolerance=one.lying.tolerance))


def _lied(check: _Check, miniature: Miniature) -> str:
    if not is_judged(check.name):
        raise _NotJudged(
            f"the sum does not say what a lying server knows: it has no `lying` (docs/howto/check-sum.md); {_CAUTION}"
        )
    honest = run_trial(miniature, ())
    tried: list[Trial] = [honest]
    programs = list(programs_of(honest, Sweep(schedules=20 if check.thorough else 2, quick=True, seed=check.seed)))
    chosen = programs if check.thorough else _some(programs, miniature.clients > _CLIENTS[0])
    tried += (run_trial(miniature, program) for program in chosen)
    for one in tried:
        for promise, how in one.broken.items():
            raise _Failed(f"{promise}, with the server {program_text(one.program) or '(an honest one)'}: {how}")
    if not honest.outcome.relations:
        raise _Failed(f"an honest server gets no sum: {'; '.join(honest.outcome.aborted)}")
    return f"{len(tried)} servers, {len(miniature.corrupt)} clients that collude"


def _some(programs: Sequence[Program], few: bool) -> Sequence[Program]:
    """The programs that are tried in the quick mode: the fixed ones, which come first, and a few of the others."""
    first, others = programs[:_PROGRAMS], programs[_PROGRAMS:]
    return (*first[:: 2 if few else 1], *others[:: max(1, 2 * len(others) // _PROGRAMS)])


_NETWORKS = {
    "star": ("network.topology=star",),
    "mesh": ("network.topology=mesh",),
    "TCP": ("network.transport=tcp", "network.loss=0.05"),
    "datagrams": ("network.transport=datagram", "network.latency=lognormal:40ms,0.5"),
}


def _networks(check: _Check) -> str:
    """The sum is exact, with nobody lost, on links of each kind."""
    for name, changes in _NETWORKS.items():
        found = check.run(f"over-{name}", check.with_changes(*changes))
        if found.outcome != "completed" or not found.equals_plaintext or found.lost:
            lost = ", ".join(f"{one.party} at {one.step}" for one in found.lost)
            raise _Failed(f"over {name}: {found.outcome} {found.reason}{f'; lost: {lost}' if lost else ''}".strip())
    return ", ".join(_NETWORKS)


def _resumed(check: _Check) -> str:
    """A run that is broken off and resumed has the trace of one that was not."""
    scenario = check.with_changes("training.rounds=3", "training.checkpoint_every=1")
    whole = check.run("whole", scenario)
    path = check.folder / "broken-off"
    carry_out(scenario, "check", out=path, watch=_Interrupter(check.calm.events + check.calm.events // 4))
    again = resume(path)
    if (again.trace_hash, again.model_digest) != (whole.trace_hash, whole.model_digest):
        raise _Failed(
            f"the resumed run is {again.outcome} {again.reason}, with another trace or model than a whole one"
        )
    return f"3 rounds, resumed after {check.calm.events + check.calm.events // 4} events"


def _deployed(check: _Check) -> str:
    """The parties as processes, over TLS, end with the model and the bytes of the simulator."""
    if not check.thorough:
        raise _NotJudged("only in the thorough mode: it starts a process for each party")
    if not check.files and SUMS[check.name].__module__.partition(".")[0] != "tacit":
        raise _NotJudged("processes cannot import the class: put it into a plugin file")
    scenario = check.with_changes("network.latency=0ms", "protocol.deadline=20s", "data.clients=4")
    simulated = check.run("simulated", scenario)
    path = check.folder / "deployed"
    path.mkdir()
    options = [str(simulated.folder), "--insecure-seeded", "--wait", "120"]
    lines: list[str] = []
    local = Local(scenario, path / "parties", options, with_faults=False, log=lines.append)
    local.run()
    real = gather(scenario, "check", local.folders, path)
    if (real.outcome, real.model_digest) != (simulated.outcome, simulated.model_digest):
        raise _Failed(f"the processes end {real.outcome} {real.reason}; the simulator {simulated.outcome}")
    sent = {(row.type, row.payload) for row in counted(real.folder).rows}
    if sent != {(row.type, row.payload) for row in counted(simulated.folder).rows}:
        raise _Failed("the processes send other bytes than the simulator")
    return f"{len(local.names)} processes"


CASES: dict[str, Callable[[_Check], str]] = {
    "equals the oracle": _equals_oracle,
    "equals the oracle without one client": _equals_oracle_without_one,
    "crashes": _crashes,
    "disturbed messages": _messages,
    "mixed faults": _mixtures,
    "bytes by formula": _formula,
    "bytes by prediction": _prediction,
    "masks are random": _random_masks,
    "refuses a second sum": _refusals,
    "helper answers once": _helper,
    "lying server": _liar,
    "lying server with colluding clients": _liar_with_colluders,
    "networks": _networks,
    "resumed": _resumed,
    "deployed": _deployed,
}
"""The cases of the suite by their names, each a function that says what was tried."""
