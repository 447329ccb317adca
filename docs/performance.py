"""Measures what docs/performance.md states, and the runs on docs/prediction.md, and writes it there.

python docs/performance.py [PART ...]    measures these parts, or all

A part goes between `<!-- measured: NAME -->` and `<!-- end -->`. Parts whose figures depend on the machine begin with
the date, the machine and its load; those in STEADY have the same figures everywhere, and a test computes them again.
"""

import json
import os
import re
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from tacit.benchmarks.measure import environment
from tacit.scenarios.console.table import Table, as_markdown, columns_of
from tacit.sim.units import format_bytes, format_duration

PAGES = tuple(Path(__file__).with_name(name) for name in ("performance.md", "prediction.md"))
TACIT = (sys.executable, "-m", "tacit")

_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Commands read compiled modules, as an installed Tacit does."""


class Cost(NamedTuple):
    """Seconds of a whole command by the wall and of processors, and its output."""

    wall: float
    processors: float
    output: str


def cost_of(*words: str, repeats: int = 3) -> Cost:
    """The least wall-clock and processor time of `tacit` with `words`, over the repeats, and the last output.

    {turn} in a word stands for the number of the repeat: a command does not write where an earlier one did.
    """
    costs = []
    for turn in range(repeats):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [*TACIT, *(word.replace("{turn}", str(turn)) for word in words)]
        done = subprocess.run(command, capture_output=True, text=True, env=_ENVIRONMENT)
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"error: tacit {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        costs.append(Cost(wall, used, done.stdout))
    return Cost(min(one.wall for one in costs), min(one.processors for one in costs), costs[-1].output)


def benchmark(*words: str) -> Any:
    """Run `tacit bench` with `words`, and return what it writes as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        done = subprocess.run([*TACIT, "bench", *words, "--json", str(path)], capture_output=True, text=True)
        if done.returncode or not path.exists():
            raise SystemExit(f"error: tacit bench {' '.join(words)}: {(done.stderr or done.stdout).strip()[-2000:]}")
        return json.loads(path.read_bytes())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; columns after the first are numbers."""
    return as_markdown(Table((head[0], *columns_of(head[1:])), rows))


# Parts that depend on the machine


def commands() -> str:
    """Commands that run nothing or predict a small run."""
    with tempfile.TemporaryDirectory() as folder:
        words = {
            "tacit list": ("list",),
            "tacit keys": ("keys",),
            "tacit steps xclp": ("steps", "xclp"),
            "tacit new FILE": ("new", f"{folder}/first-{{turn}}.toml"),
            "tacit predict xclp-digits": ("predict", "xclp-digits"),
        }
        costs = {name: cost_of(*one, repeats=7) for name, one in words.items()}
    rows = [(f"`{name}`", f"{one.wall:.2f}", f"{one.processors:.2f}") for name, one in costs.items()]
    return table(("command", "wall-clock seconds", "processor seconds"), rows)


_PARTS = {
    "keys, and their proofs": ("setup.keys", "setup.seed"),
    "hash": ("lsh.hash",),
    "encode: encryption": ("hamming.encode",),
    "evaluate": ("hamming.evaluate",),
    "decrypt": ("hamming.report",),
    "distances to the graph": ("hamming.collect",),
    "graph and its solution": ("influence.request", "influence.solve"),
    "row sums and labels": ("rowsums.mask", "xclp.label"),
}
"""The steps of the main job whose computations each line of its table adds up."""


def main_job() -> str:
    """The parts of the main job, computed inline, and whole commands with each engine."""
    run = ("run", "xclp-digits", "--engine")
    with tempfile.TemporaryDirectory() as folder:
        inline, pool = (
            cost_of(*run, engine, "--out", f"{folder}/{engine[:4]}-{{turn}}") for engine in ("inline", "pool:2")
        )
        unchecked = _set(("protocol.oracle=false", "protocol.baselines=false", "expect={}"))
        bare = cost_of(*run, "inline", "--out", f"{folder}/bare-{{turn}}", *unchecked)
        timed = Path(folder) / "timed"
        measured = cost_of(*run, "inline", "--out", str(timed), "--set", "cost=measured", repeats=1)
        with sqlite3.connect(timed / "run.sqlite") as record:
            steps = dict(record.execute("SELECT step, SUM(seconds) FROM computing GROUP BY step"))
    start = cost_of("steps", "xclp").processors
    parts = {"start": start} | {name: sum(steps.pop(step, 0.0) for step in of) for name, of in _PARTS.items()}
    if steps:
        raise SystemExit(f"error: no part of the main job has the steps {', '.join(steps)}")
    parts["oracle and baselines"] = max(0.0, inline.processors - bare.processors)
    parts["messages, record and output"] = max(0.0, measured.processors - sum(parts.values()))
    rows = [(name, f"{seconds:.2f}") for name, seconds in parts.items()]
    rows.append(("the whole command", f"{measured.processors:.2f}"))
    whole = [
        (f"`--engine {engine}`", f"{one.wall:.1f}", f"{one.processors:.1f}")
        for engine, one in (("inline", inline), ("pool:2", pool))
    ]
    return "\n\n".join(
        (
            table(("part, inline", "processor seconds"), rows),
            table(("whole command", "wall-clock seconds", "processor seconds"), whole),
        )
    )


def sim() -> str:
    """Messages a second, and the cost of a client."""
    found = benchmark("sim")
    rows = [(f"{one['layer']}: {one['case']}", f"{one['rate']:,.0f}", f"{one['best']:,.0f}") for one in found["rows"]]
    sizes = [
        (one["what"], *("" if one[who] is None else f"{one[who]:,.5g} {one['unit']}" for who in ("ours", "peer")))
        for one in found["sizes"]
    ]
    messages = table(("messages per second of processor time", "median", "best"), rows)
    return f"{messages}\n\n{table(('cost of a client', 'Tacit', 'SimPy'), sizes)}"


def crypto() -> str:
    """The rows of the crypto benchmark beside other libraries."""
    found = benchmark("crypto")
    rows, task = [], ""
    for one in found["standings"]:
        lead = "" if one["lead"] == 1 else f"{one['lead']:,.2f}"
        rows.append((one["task"] if one["task"] != task else "", one["contender"], f"{one['rate']:,.4g}", lead))
        task = one["task"]
    versions = ", ".join(f"{name} {version}" for name, version in found["environment"].items() if name not in _MACHINE)
    head = ("task", "contender", "per second", "the first is faster by")
    return f"Versions: {versions}.\n\n{table(head, rows)}"


def training() -> str:
    """Rounds of training a second, beside a plain loop."""
    found, rows = benchmark("training"), []
    for key, suffix in (("standings", ""), ("normalised", ", with batch normalisation")):
        for one in found[key]:
            shares = (
                f"{statistics.median(one[share]):.3f}" if one[share] else "" for share in ("share", "processor_share")
            )
            rows.append((one["contender"] + suffix, f"{statistics.median(one['rates']):.2f}", *shares))
    return table(("", "rounds per second", "of the plain loop's rounds", "of its processor time"), rows)


def clients() -> str:
    """Runs among very many registered clients."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for registered, share in ((10_000, 0.05), (100_000, 0.005)):
            changes = (f"data.clients={registered}", f"training.share={share}")
            out = Path(folder) / str(registered)
            one = cost_of("run", "many-clients", "--out", str(out), *_set(changes), repeats=1)
            result = json.loads((out / "result.json").read_bytes())
            rows.append((
                f"`{' '.join(('tacit run many-clients', *_set(changes)))}`", f"{one.wall:.0f}", f"{one.processors:.0f}",
                format_bytes(result["peak_memory"]), f"{result['messages']:,}",
            ))  # fmt: skip
    return table(("command", "wall-clock seconds", "processor seconds", "peak memory", "messages"), rows)


_PEAK = """
import resource, sys
from tacit.__main__ import main
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, file=sys.stderr)
"""


def variants() -> str:
    """Predictions of all variants of SecureHamming for a hundred clients with 500 points."""
    rows = []
    for variant in ("direct", "plaintext", "paillier", "iknp", "naor-pinkas"):
        changes = ("data.name=mnist", "data.clients=100", "data.limit=50000", "fault=[]", "expect={}",
                   "protocol.deadline=10000h")  # fmt: skip
        words = ("predict", "xclp-digits", "--seeds", "1", "--json", "-")
        began = time.perf_counter()
        command = [sys.executable, "-c", _PEAK, *words, *_set((*changes, f"protocol.hamming={variant}"))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, first = time.perf_counter() - began, json.loads(done.stdout)["predicted"][0]
        rows.append((
            f"`{variant}`", f"{first['messages']:,}", format_bytes(first["total"]),
            format_duration(first["virtual_seconds"]), f"{seconds:.1f}", format_bytes(int(done.stderr.split()[-1])),
        ))  # fmt: skip
    head = ("variant", "messages", "bytes", "virtual time", "wall-clock seconds of the command", "peak memory")
    return table(head, rows)


_LARGE = "model.embedding=20000"
"""A network of 1.5 million parameters."""

_COMPARED: tuple[tuple[str, ...], ...] = (
    ("xclp-digits", "data.limit=100"),
    ("xclp-digits", "protocol.hamming=plaintext"),
    ("xclp-digits", "protocol.hamming=plaintext", "data.clients=50", "data.partition=iid"),
    ("fedavg-xclp-digits", "protocol.name=fedavg", "training.rounds=3"),
    ("fedavg-xclp-digits", "protocol.name=fedavg", "training.rounds=3", _LARGE),
    ("fedavg-xclp-digits", "protocol.name=fedavg", "training.rounds=2", "training.averaging=secure", _LARGE),
    ("fedavg-xclp-digits", "protocol.name=scaffold", "training.rounds=2", _LARGE),
    ("fedavg-xclp-digits", "training.rounds=2", "training.label_from=2", "protocol.hamming=plaintext"),
    ("fedct-digits", "cotraining.rounds=2"),
    ("fedct-digits", "cotraining.rounds=2", _LARGE),
    ("fedct-digits", "cotraining.rounds=2", "learner.name=decision-tree"),
)
"""Scenarios whose predictions are compared with their runs, and changes to their keys."""


def predictions() -> str:
    """Predicted and real virtual time and peak memory."""
    rows = []
    for name, *changes in _COMPARED:
        words = _set(("fault=[]", "expect={}", *changes))
        found = json.loads(cost_of("predict", name, "--seeds", "1", "--json", "-", *words, repeats=1).output)
        first = found["predicted"][0]
        with tempfile.TemporaryDirectory() as folder:
            cost_of("run", name, "--engine", "inline", "--out", f"{folder}/run", *words, repeats=1)
            result = json.loads((Path(folder) / "run" / "result.json").read_bytes())
        shown = ", ".join(f"`{one}`" for one in (name, *changes))
        times = (f"{one['virtual_seconds']:.3f} s" for one in (first, result))
        rows.append((shown, *times, *(format_bytes(one["peak_memory"]) for one in (first, result))))
    head = ("scenario", "virtual time: predicted", "run", "peak memory: predicted", "run")
    return table(head, rows)


def _set(changes: Sequence[str]) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


def flower() -> str:
    """Flower apps on Tacit's network, and secure sums with a dropout."""
    found = benchmark("scale", "--only", "Flower")
    moved = [
        (str(one["clients"]), f"{1 / one['a_round']:.1f}", f"{one['a_round']:.3f}", f"{one['start']:.2f}")
        for one in found["moved"]
    ]
    summed = [
        (
            one["protocol"], f"{one['seconds']:.2f}", f"{one['virtual_seconds']:.1f}",
            format_bytes(sum(one["bytes"].values())),
            ", ".join(f"{step} {format_bytes(size)}" for step, size in one["bytes"].items()),
        )
        for one in found["summed"]
    ]  # fmt: skip
    version = found["environment"]["flwr"]
    apps = table(("clients", "rounds per second", "seconds per round", "seconds of the start"), moved)
    head = ("sum", "wall-clock seconds", "virtual seconds", "bytes", "bytes by step")
    return f"flwr {version}.\n\n{apps}\n\n{table(head, summed)}"


# Parts that are the same everywhere


def stragglers() -> str:
    """Training with stragglers, in virtual time."""
    rows = [
        (
            one["way"], f"{one['seconds_a_round']:.3f}", "" if one["until"] is None else f"{one['until']:.1f}",
            "" if one["models"] is None else str(one["models"]), f"{one['accuracy']:.3f}", format_bytes(one["bytes"]),
        )
        for one in benchmark("scale", "--only", "stragglers")["rows"]
    ]  # fmt: skip
    head = ("", "seconds per round", "seconds to accuracy 0.85", "models averaged until then", "accuracy", "bytes")
    return table(head, rows)


def sums() -> str:
    """Payload a client of a secure sum of 1,000 numbers, by formula."""
    from tacit.benchmarks.bytes.sums import measure

    rows = [
        (
            f"{one.clients:,}", str(one.k), str(one.threshold),
            *(f"{size // one.clients:,}" for size in (one.complete, one.signed, one.graph)),
            f"{one.complete / one.graph:.2f}",
        )
        for one in measure(0)
    ]  # fmt: skip
    return table(("clients", "k", "t", "`secure`", "`secure`, signed", "`secagg+`", "secure / secagg+"), rows)


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands, "main job": main_job, "sim": sim, "crypto": crypto, "training": training,
    "clients": clients, "variants": variants, "flower": flower, "predictions": predictions,
    "stragglers": stragglers, "sums": sums,
}  # fmt: skip

STEADY = ("stragglers", "sums")
"""Parts whose figures do not depend on the machine."""

_MACHINE = ("cpu", "python", "system")


def made(name: str) -> str:
    """The text of a part, measured now."""
    load, text = os.getloadavg()[0], PARTS[name]()
    if name in STEADY:
        return text
    machine = environment(())
    measured = f"Measured on {date.today()} on {os.cpu_count()} cores of {machine['cpu']}, Python {machine['python']}"
    return f"{measured}; load average at the start {load:.1f}.\n\n{text}"


def page_of(name: str) -> Path:
    """The page with the place of a part. Raises SystemExit if none has it."""
    for page in PAGES:
        if re.search(_place(name), page.read_text(encoding="utf-8"), re.DOTALL):
            return page
    raise SystemExit(f"error: no page has a place for {name}: <!-- measured: {name} --> and <!-- end -->")


def block(name: str) -> str:
    """The text of a part on its page."""
    found = re.search(_place(name), page_of(name).read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[2].strip()


def put(name: str, text: str) -> None:
    """Write `text` as a part of its page."""
    page = page_of(name)
    old = page.read_text(encoding="utf-8")
    new = re.sub(_place(name), lambda found: f"{found[1]}\n{text}\n\n{found[3]}", old, flags=re.DOTALL)
    page.write_text(new, encoding="utf-8")


def _place(name: str) -> str:
    return rf"(<!-- measured: {re.escape(name)} -->\n)(.*?)(<!-- end -->)"


def main() -> None:
    """Measure the parts that are named, and write each into its page once it is there."""
    names = sys.argv[1:] or list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        raise SystemExit(f"error: no part {unknown[0]!r}; parts: {', '.join(PARTS)}")
    for name in names:
        page_of(name)
        put(name, made(name))
        print(f"{name}: written", flush=True)


if __name__ == "__main__":
    main()
