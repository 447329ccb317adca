"""A paragraph for the methods section of a paper, made of the records of runs: plain text, one paragraph a setting."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tacit.protocols.experiment.simulated import ACCURACY
from tacit.protocols.privacy.spent import privacy_lines
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.files.reading import ineffective
from tacit.scenarios.reporting.appendix import Packed
from tacit.scenarios.reporting.recorded import scenario_of
from tacit.scenarios.running.folder import Result
from tacit.scenarios.schema.keys import keys, toml
from tacit.scenarios.seeing.compare import flat_keys
from tacit.sim.faults import DEFAULT_KIND
from tacit.sim.grammar import in_number
from tacit.sim.units import format_bytes, format_duration

__all__ = ["methods"]

_ASIDE = ("seed", "name", "title", "engine", "plugins")
"""Keys by which runs of one setting may differ."""

_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "xgboost", "cryptography", "gmpy2", "flwr")
"""The packages whose versions the text has, if a run needs them; requirements.txt has all."""

_SEEDS = 10
"""The most seeds that are listed one by one."""


def methods(runs: Sequence[Packed], versions: Mapping[str, str]) -> str:
    """The text for `runs`: data, clients, algorithm, sum, rounds, faults, seeds, versions, and what was measured.

    Runs that differ in their seeds alone share a paragraph. It names only keys that have an effect. `versions`: the
    versions of distributions, by name.
    """
    groups: dict[str, list[Packed]] = {}
    for run in runs:
        found = {name: value for name, value in flat_keys(run.table).items() if name not in _ASIDE}
        groups.setdefault(repr(sorted(found.items())), []).append(run)
    named = ", ".join(f"{name} {versions[name]}" for name in _PACKAGES if name in versions)
    return "\n\n".join(_paragraph(some, versions["tacit-fl"], named) for some in groups.values()) + "\n"


def _paragraph(runs: Sequence[Packed], tacit: str, packages: str) -> str:
    table, results = runs[0].table, [run.result for run in runs]
    scenario = scenario_of(runs[0].folder)
    every = flat_keys(table)
    idle = frozenset[str]() if scenario is None else ineffective([key for key in every if "." in key], scenario)
    used = {key: value for key, value in every.items() if key not in idle and value not in ("", [])}
    sentences = [
        *_setting(used, table),
        *_faults(table.get("fault", ())),
        *_repeats(results),
        *_measured(results),
        f"Runs were simulated with Tacit {tacit} (code {results[0].environment['code']}), "
        f"Python {results[0].environment['python']}" + (f" and {packages}." if packages else "."),
    ]
    return in_number(" ".join(sentences))


_WEIGHTS = {
    "equal": ", all with equal weight",
    "points": ", each weighed by the points that it was trained on in an epoch",
}


def _setting(used: Mapping[str, Any], table: Mapping[str, Any]) -> Iterator[str]:
    data, clients = used.get("data.name") or used.get("data.path") or "own data", table["data"]["clients"]
    labeled = used.get("data.labeled")
    known = f", with labels for a share of {labeled:g} of their points" if isinstance(labeled, int | float) else ""
    named = {
        "data.name",
        "data.path",
        "data.clients",
        "data.partition",
        "data.labeled",
        "protocol.name",
        "model.name",
        "network.latency",
    }
    partition = used.get("data.partition", "-")
    yield f"The data set {data} was divided among {clients} clients (partition {partition}){known}."
    name = str(used["protocol.name"])
    about = PROTOCOLS[name].summary if name in PROTOCOLS else ""
    model = f", with the model {used['model.name']}" if "model.name" in used else ""
    yield f"Clients ran {name}{f' ({about})' if about else ''}{model}."
    if (how := used.get("training.averaging")) is not None and "training.rounds" in used:
        sums = "the server saw each client's model" if how == "plain" else f"models were summed by {how}"
        numbers = f", as numbers of {bits} bits" if isinstance(bits := used.get("sum.value_bits"), int) else ""
        weights = _WEIGHTS.get(used.get("training.weighting", ""), "")
        share = used.get("training.share", 1.0)
        rounds = used["training.rounds"]
        yield f"Training took {rounds} rounds, each with a share of {share:g} of the clients; {sums}{numbers}{weights}."
        named |= {f"training.{key}" for key in ("averaging", "rounds", "share", "weighting")}
        named.add("sum.value_bits")
    if (how := used.get("cotraining.votes")) is not None and "cotraining.rounds" in used:
        votes = "the server saw each client's votes" if how == "plain" else f"votes were counted by {how} sums"
        yield f"Co-training took {used['cotraining.rounds']} rounds; {votes}."
        named |= {"cotraining.votes", "cotraining.rounds"}
    if "network.latency" in used:
        yield f"One-way latency was {used['network.latency']}."
    defaults = {key.name: key.default for key in keys()}
    others = [
        f"{key} = {value}" for key, value in used.items()
        if "." in key and not key.startswith("fault.") and key not in named and toml(value) != defaults.get(key)
    ]  # fmt: skip
    yield (
        f"Other keys with values that are not Tacit's defaults: {', '.join(others)}."
        if others
        else ("All other keys had Tacit's defaults.")
    )


def _faults(faults: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not faults:
        yield "No fault was injected."
        return
    kinds = Counter(str(one.get("kind", DEFAULT_KIND)) for one in faults)
    yield f"The injected faults were {', '.join(f'{kind} ({count})' for kind, count in kinds.items())}."


def _repeats(results: Sequence[Result]) -> Iterator[str]:
    seeds = sorted({result.seed for result in results})
    listed = ", ".join(map(str, seeds)) if len(seeds) <= _SEEDS else f"{seeds[0]} to {seeds[-1]}, {len(seeds)} seeds"
    yield (
        f"There were {len(results)} runs (seeds {listed})."
        if len(results) > 1
        else f"There was one run (seed {listed})."
    )
    if results[0].entropy == "os":
        yield "Cryptographic randomness was the operating system's, so no second run has the same trace."


def _measured(results: Sequence[Result]) -> Iterator[str]:
    done = [result for result in results if result.outcome == "completed"]
    if len(done) < len(results):
        others = Counter(result.outcome for result in results if result.outcome != "completed")
        ends = ", ".join(f"{count} {outcome}" for outcome, count in others.items())
        yield f"{len(done)} of {len(results)} runs completed ({ends}); figures are of these."
    if not done:
        return
    deviation = " (mean ± standard deviation)" if len(done) > 1 else ""
    figures = []
    for score in dict.fromkeys(result.score for result in done):
        values = [result.scored for result in done if result.score == score and result.scored is not None]
        if not values:
            continue
        where = f" on {done[0].measured_on}" if done[0].measured_on else ""
        name = "an accuracy" if score == ACCURACY else f"{score}, a score,"
        figures.append(f"{name} of {_spread(values, lambda value: f'{value:.4f}')}{where}")
    figures.append(f"{_spread([result.bytes_total for result in done], format_bytes)} sent on all links")
    figures.append(f"{_spread([result.virtual_seconds for result in done], format_duration)} of virtual time")
    yield f"Measured were {', '.join(figures)}{deviation}."
    rounds = [len(result.round_records) for result in done]
    lost = [result.rounds_lost for result in done]
    clients = [len({loss.party for loss in result.lost}) for result in done]
    without = f"Of {sum(rounds)} rounds {sum(lost)} had no result" if sum(rounds) else ""
    yield f"{without}{', and ' if without else ''}{_range(clients)} parties were lost in a run."
    checks = [result.equals_plaintext for result in done if result.equals_plaintext is not None]
    if checks and all(checks):
        yield "Every compared result was equal to that of a plaintext computation."
    if done[0].privacy is not None:
        spent = "; ".join(line.text for line in privacy_lines(done[0].privacy))
        yield f"Privacy spent, by Tacit's accounting: {spent}."
    yield "Times are of the simulated clock, and bytes are those of encoded messages."


def _spread(values: Sequence[float], show: Any) -> str:
    if len(values) < 2:
        return str(show(values[0]))
    return f"{show(statistics.fmean(values))} ± {show(statistics.stdev(values))}"


def _range(counts: Sequence[int]) -> str:
    return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
