"""Deployed runs compared with simulated ones: equal bytes, labels and models, and times against the predicted ones.

Each party of a run is a process in a network namespace of its own, over TCP and TLS, with shaped links
(`tacit.benchmarks.reality.lab`). If namespaces cannot be made, everything uses loopback, and times are only reported.
The simulator runs the same scenario over links of the same latency and rates, with all parties on one host with the
cores of this machine. Durations of jobs are measured once on this machine (`tacit.benchmarks.reality.costs`), and the
time of messages outside of jobs between two processes (`tacit.benchmarks.reality.handling`). In a deployment, processes
start and connections are set up before a run begins. The simulator's connections are set up with the first message;
this time is subtracted from its prediction.
"""

import contextlib
import json
import math
import os
import shutil
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tacit.benchmarks.reality.costs import measure_costs
from tacit.benchmarks.reality.handling import measure_handling, measure_message
from tacit.benchmarks.reality.lab import Line, open_lab
from tacit.scenarios.deploying.gathering import gather
from tacit.scenarios.deploying.local import Local
from tacit.scenarios.deploying.plain_state import read_ending
from tacit.scenarios.files.reading import load
from tacit.scenarios.files.result import Result
from tacit.scenarios.running.folder import byte_rows
from tacit.scenarios.running.runner import run
from tacit.scenarios.schema.scenario import Scenario
from tacit.sim.compute import cores
from tacit.sim.handling import Handling

__all__ = ["CASES", "SETTINGS", "Case", "Compared", "LinkSetting", "compare", "deploy", "main"]


@dataclass(frozen=True)
class LinkSetting:
    """Each client's line: one-way milliseconds, and Mbit/s up and down. The server's line has no latency and no
    limit."""

    name: str
    latency: float
    rate: float

    @property
    def changes(self) -> list[str]:
        """The changes of a scenario that make the simulator use this link."""
        return [
            f'network.latency="{self.latency:g}ms"', f'network.bandwidth="{self.rate:g}Mbit/s"',
            'network.server_bandwidth="unlimited"', 'network.jitter="0ms"', "network.loss=0.0",
            'network.transport="tcp"',
        ]  # fmt: skip

    @property
    def line(self) -> Line:
        """The line that makes the lab use this link."""
        return Line(self.latency / 1000, self.rate * 1e6, self.rate * 1e6)


SETTINGS = (LinkSetting("near", 5, 100), LinkSetting("home", 40, 20), LinkSetting("far", 150, 5))


@dataclass(frozen=True)
class Case:
    """A scenario, with `changes`; `bound` names what limits its time: its network or its computing."""

    name: str
    scenario: str
    bound: str = "network"
    changes: tuple[str, ...] = ()


_WITHOUT_FAULTS = ("fault=[]", 'expect.outcome="completed"')
_SECURE = (
    "data.clients=5", "protocol.name=fedavg", "training.rounds=3", "training.averaging=secure", "protocol.deadline=20s",
)  # fmt: skip
_KILL = '[{kind="crash", party="client/3", before="sum.deal"}]'

CASES = (
    Case("main job, 5 processes", "xclp-digits", "network", (
        "data.clients=5", "data.limit=600", "protocol.hamming=plaintext", "expect.lost=[]", *_WITHOUT_FAULTS)),
    Case("main job, 10 processes", "xclp-digits", "computing", (
        "data.limit=240", "protocol.key_bits=1024", "protocol.insecure_keys=true", "expect.lost=[]", *_WITHOUT_FAULTS)),
    Case("secure FedAvg", "fedavg-xclp-digits", "network", (*_SECURE, *_WITHOUT_FAULTS)),
    Case("secure FedAvg, kill -9", "fedavg-xclp-digits", "network", (*_SECURE, f"fault={_KILL}")),
    Case("FedCT", "fedct-digits", "computing", ("cotraining.rounds=3", *_WITHOUT_FAULTS)),
)  # fmt: skip


def _machine(handling: Handling) -> list[str]:
    """The changes that describe this machine to the simulator: all parties on one host, and the cost of messages."""
    found = [f'host=[{{parties=["server", "client/*"], cores={cores()}}}]', f"device.handling={handling.message:.9f}"]
    return found + ([f'device.handling_rate="{handling.rate:.0f}B/s"'] if handling.rate < math.inf else [])


def set_up(path: Path, setting: LinkSetting) -> float:
    """The seconds that setting up connections took in the simulated run in the folder `path`."""
    with contextlib.closing(sqlite3.connect(path / "run.sqlite")) as record:
        query = "SELECT min(time) FROM events WHERE kind = 'deliver' OR kind = 'relay'"
        return float(record.execute(query).fetchone()[0]) - setting.latency / 1000


@dataclass
class Compared:
    """A deployed run compared with the simulated one, with both times in seconds.

    `handling`: CPU seconds of all processes outside of jobs, in the first run; `router`: those of the lab's router,
    which uses the same cores. `load`: the machine's load average at the end of the case. `bytes`: true if messages and
    bytes are equal by step and type; `differs`: the entries that are not, as step, type, simulated and real numbers.
    `results`: true if outcome, labels, models and lost parties are equal.
    """

    case: str
    setting: str
    predicted: float
    bytes: bool
    results: bool
    handling: float = 0.0
    router: float = 0.0
    load: float = 0.0
    real: list[float] = field(default_factory=list)
    differs: list[Any] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median of the real seconds, divided by the predicted ones."""
        return statistics.median(self.real) / self.predicted


def deploy(
    scenario: Scenario,
    options: Sequence[str],
    setting: LinkSetting,
    path: Path,
    log: Callable[[str], object],
    happens: Callable[[Any, str], object] | None = None,
    router: Callable[[float], object] = lambda seconds: None,
) -> Result:
    """Deploy `scenario` in the folder `path`, and return the result. `options` name its file and changes on the command
    line.

    `happens` is called with the lab and each line that a process prints, `router` with the CPU seconds of the lab's
    router.
    """
    names = ["server", *(f"client/{number}" for number in range(scenario.data.clients))]
    with open_lab({name: Line() if name == "server" else setting.line for name in names}) as lab:

        def hear(line: str) -> None:
            log(line)
            if happens is not None:
                happens(lab, line)

        local = Local(
            scenario,
            path / "parties",
            [*options, "--insecure-seeded", "--wait", "300"],
            with_faults=True,
            log=hear,
            address=lab.address("server"),
            around=lab.command,
        )
        local.run()
        found = lab.statistics()
        router(0.0 if found is None else found.cpu)
    return gather(scenario, "reality", local.folders, path)


def compare(
    case: Case, setting: LinkSetting, handling: Handling, repeats: int, log: Callable[[str], object]
) -> Compared:
    """Compare a case at a setting: simulated once and deployed `repeats` times."""
    changes = [*case.changes, *setting.changes]
    options = [case.scenario, *(word for text in changes for word in ("--set", text))]
    folder = Path(tempfile.mkdtemp(prefix="tacit-reality-"))
    try:
        costs = measure_costs(case.scenario, changes, folder)
        scenario = load(case.scenario, [*changes, f'cost="replayed:{costs}"', 'engine="inline"', *_machine(handling)])
        simulated = run(scenario, out=folder / "simulated")
        predicted = simulated.virtual_seconds - set_up(simulated.folder, setting)
        found = Compared(case.name, setting.name, predicted, True, True)
        for number in range(repeats):
            (folder / str(number)).mkdir()
            used: list[float] = []
            real = deploy(scenario, options, setting, folder / str(number), log, router=used.append)
            found.real.append(real.virtual_seconds)
            endings = [read_ending(path) for path in (folder / str(number)).glob("parties/*/ending")]
            found.handling = found.handling or sum(ending.handling for ending in endings)
            found.router = found.router or sum(used)
            differs = _differing(simulated, real)
            found.differs += differs
            found.bytes &= not differs
            found.results &= _comparable_facts(simulated) == _comparable_facts(real)
            log(f"{case.name}, {setting.name}: {real.virtual_seconds:.3f} s, predicted {predicted:.3f}")
        found.load = os.getloadavg()[0]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _differing(one: Result, other: Result) -> list[Any]:
    """The steps and types with different messages or payload in the two runs."""
    rows = [
        {(row.step, row.type): (row.messages, row.payload) for row in byte_rows(each.folder)} for each in (one, other)
    ]
    keys = dict.fromkeys([*rows[0], *rows[1]])
    return [[*key, rows[0].get(key), rows[1].get(key)] for key in keys if rows[0].get(key) != rows[1].get(key)]


def _comparable_facts(result: Result) -> list[Any]:
    """The facts that must be equal in both runs."""
    lost = sorted({loss.party for loss in result.lost})
    digests = (result.labels_digest, result.hamming_digest, result.model_digest, result.equals_plaintext)
    return [result.outcome, result.reason, result.accuracy, *digests, lost]


def main(quick: bool, json_file: Path | None, repeats: int | None = None) -> int:
    """Print the table, and write it to `json_file`; returns 1 if bytes or results differ."""
    settings = SETTINGS[1:2] if quick else SETTINGS
    found = []
    count = repeats or (1 if quick else 5)
    message = measure_message(count)
    handlings = {setting.name: measure_handling(setting.line, message, 1) for setting in settings}
    for name, handling in handlings.items():
        print(f"{name}: {1e3 * message:.3f} ms a message, {handling.rate / 1e6:.0f} MB/s, at each end", flush=True)
    columns = f"{'predicted':>10}{'real':>9}{'ratio':>7}{'handling':>10}{'router':>9}{'load':>6}"
    print(f"{'case':<26}{'links':<7}{columns}  bytes      results")
    for case in CASES:
        for setting in settings:
            one = compare(case, setting, handlings[setting.name], count, _to_stderr)
            found.append(one)
            same = ["the same" if found else "OTHERS" for found in (one.bytes, one.results)]
            real = statistics.median(one.real)
            times = f"{one.predicted:>8.2f} s{real:>7.2f} s{one.ratio:>7.2f}{one.handling:>8.2f} s{one.router:>7.2f} s"
            print(f"{one.case:<26}{one.setting:<7}{times}{one.load:>6.1f}  {same[0]:<10} {same[1]}", flush=True)
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(one) | {"ratio": one.ratio} for one in found], indent=2) + "\n")
    return 0 if all(one.bytes and one.results for one in found) else 1


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)
