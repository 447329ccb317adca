"""What a scenario's types cannot say: values that contradict each other, the data or the protocol's steps.

Each check raises `ScenarioError` without a place; `check` adds it.
"""

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import psutil

from parties.data.sets import DataError, Dataset
from parties.data.splits import Shard, parse_partition
from parties.datasets.error import DataSettingError
from parties.learning.extras import MissingExtra
from protocols.declaration import Problem
from protocols.registry import PROTOCOLS, declared
from scenarios.families.attack_ways import kind_of
from scenarios.families.cotraining.checks import check_cotraining, pooled
from scenarios.families.training.checks import check_training
from scenarios.files.fault_checks import (
    check_fault_keys,
    check_fault_places,
    check_party,
    fault_cautions,
    read_text,
    steps_of,
)
from scenarios.observing.deals import deal, named, parts_of, together
from scenarios.observing.parts import Parts
from scenarios.observing.privacy import privacy_cautions
from scenarios.observing.public_points import alpha_of
from scenarios.schema.keys import similar, toml
from scenarios.schema.scenario import Scenario, ScenarioError
from sim.latency import parse_latency
from sim.units import duration, format_bytes, rate

__all__ = ["cautions", "check"]

BYTES_PER_DISTANCE = 40
"""Peak memory for each entry of the n x n distances, the comparison with the oracle included.

Measured, inline: between 17 and 39, the latter with half of the points labeled.
"""

_SIZED = (
    'fidelity = "sized": sizes and modelled times are the real ones, SecureHamming is not carried out; '
    "results are those of the plaintext protocol"
)


def check(scenario: Scenario, where: str, *, clients_given: bool = True) -> Scenario:
    """The scenario with what the data decides filled in; ScenarioError naming `where` if it cannot run.

    `clients_given`: whether the user wrote `data.clients`; if not, `natural` takes all that the data names.
    """
    scenario = pooled(scenario)
    try:
        for test in _WITHOUT_DATA:
            test(scenario)
        parts = _parts(scenario)
        held = parts.held
        if scenario.data.partition == "natural" and not clients_given and held.client_names:
            clients = len(held.client_names)
            scenario = msgspec.structs.replace(scenario, data=msgspec.structs.replace(scenario.data, clients=clients))
        dealt = _deal(scenario, held)
        _check_points(scenario, held, dealt)
        if "cotraining" in PROTOCOLS[scenario.protocol.name].parts:
            check_cotraining(scenario, parts, dealt)
        _check_declared(scenario, dealt)
        check_fault_places(scenario)
        _check_expect(scenario)
    except ScenarioError as error:
        raise ScenarioError(where, error.key, error.problem) from None
    return scenario


def cautions(scenario: Scenario) -> list[str]:
    """One line for each choice that leaves the run without the secrecy it seems to have, or without enough time."""
    from scenarios.families.timing import deadline_cautions

    found = [_SIZED] if scenario.fidelity == "sized" else []
    found += privacy_cautions(scenario)
    found += fault_cautions(scenario)
    if "xclp" not in PROTOCOLS[scenario.protocol.name].parts:
        return found
    found += deadline_cautions(scenario)
    if scenario.protocol.hamming == "plaintext":
        found.append('protocol.hamming = "plaintext": the server reads every hash; nothing is encrypted there')
    elif scenario.protocol.key_bits < 2048:
        found.append(f"protocol.key_bits = {scenario.protocol.key_bits}: insecure keys, for tests only")
    if scenario.protocol.rows == "paper":
        found.append('protocol.rows = "paper": a curious client can work out the others\' labels from its rows')
    if scenario.protocol.min_clients <= 2:
        problem = "with two clients that have labels, each works out the other's scores exactly; 3 or more hides them"
        found.append(f"protocol.min_clients = {scenario.protocol.min_clients}: {problem}")
    threshold, clients = scenario.protocol.threshold, scenario.data.clients
    if scenario.protocol.recovery == "shamir" and threshold is not None and 2 * threshold <= clients:
        found.append(
            f"protocol.threshold = {threshold}: not more than half of {clients} clients, with which a server that lies "
            "about who is left could unmask one; more than half of those who sum are taken"
        )
    return found


def _check_specs(scenario: Scenario) -> None:
    """Everything written as text with a grammar of its own."""
    network, protocol = scenario.network, scenario.protocol
    read_text("network.latency", parse_latency, network.latency)
    read_text("network.jitter", duration, network.jitter)
    read_text("network.retransmission_timeout", duration, network.retransmission_timeout)
    if duration(network.retransmission_timeout) == 0:
        problem = "0 s sends again before any answer can come; allowed: above 0 s"
        raise ScenarioError("", "network.retransmission_timeout", problem)
    for name in ("bandwidth", "up", "down", "server_bandwidth"):
        value = getattr(network, name)
        if value is not None:
            read_text(f"network.{name}", rate, value)
    try:
        parse_partition(scenario.data.partition)
    except DataError as error:
        raise _about_data(error, "partition") from None
    read_text("public.distribution", alpha_of, scenario.public.distribution)
    read_text("protocol.deadline", duration, protocol.deadline)
    if duration(protocol.deadline) == 0:
        raise ScenarioError("", "protocol.deadline", "0 s lets no answer arrive; allowed: above 0 s")
    if not re.fullmatch(r"[\w-][\w.-]*|", scenario.name):
        raise ScenarioError("", "name", f"{toml(scenario.name)} names no folder; allowed: letters, digits, - _ .")
    if not re.fullmatch(r"auto|inline|pool:([1-9]|[1-5][0-9]|6[0-4])", scenario.engine):
        allowed = "auto, inline, pool:N with N from 1 to 64"
        raise ScenarioError("", "engine", f"{toml(scenario.engine)} is not an engine; allowed: {allowed}")


def _check_cost(scenario: Scenario) -> None:
    kind, colon, folder = scenario.cost.partition(":")
    if colon and kind == "replayed":
        if not (Path(folder) / "run.sqlite").is_file():
            raise ScenarioError("", "cost", f"{folder} holds no run.sqlite; allowed: replayed:FOLDER of a run")
    elif colon or kind not in ("free", "modelled", "measured"):
        allowed = "free, modelled, measured, replayed:RUN_DIR"
        raise ScenarioError("", "cost", f"{toml(scenario.cost)} is not known; allowed: {allowed}")
    if scenario.fidelity == "sized" and kind not in ("modelled", "replayed"):
        problem = f'{toml(scenario.cost)} does not go with fidelity = "sized"; allowed: modelled, replayed:RUN_DIR'
        raise ScenarioError("", "cost", problem)


def _check_protocol(scenario: Scenario) -> None:
    protocol, clients = scenario.protocol, scenario.data.clients
    if "xclp" not in PROTOCOLS[protocol.name].parts:
        return
    if protocol.hamming == "paillier" and protocol.key_bits < 2048 and not protocol.insecure_keys:
        problem = f"{protocol.key_bits} is insecure; allowed: 2048, 3072, or set protocol.insecure_keys = true"
        raise ScenarioError("", "protocol.key_bits", problem)
    if scenario.data.partition != "natural" and clients < protocol.min_clients:
        problem = f"{clients} is too small; allowed: {protocol.min_clients} (protocol.min_clients) or more"
        raise ScenarioError("", "data.clients", problem)


def _check_threats(scenario: Scenario) -> None:
    liars, clients = scenario.byzantine.clients, scenario.data.clients
    if "cotraining" in PROTOCOLS[scenario.protocol.name].parts and liars >= clients:
        problem = f"{liars} of {clients} clients leave no honest one; allowed: 0 to {clients - 1}"
        raise ScenarioError("", "byzantine.clients", problem)
    if scenario.attack.kind:
        kind_of(scenario)


_WITHOUT_DATA = (_check_protocol, _check_threats, _check_specs, _check_cost, check_fault_keys)


def _parts(scenario: Scenario) -> Parts:
    data = scenario.data
    if data.name and data.path:
        raise ScenarioError("", "data", "name and path are both given; allowed: exactly one of them")
    try:
        return parts_of(scenario)
    except ScenarioError:
        raise
    except ValueError as error:  # a DataError, or what no file can be called
        raise _about_data(error, "path" if data.path else "name") from None
    except MissingExtra as missing:
        raise ScenarioError("", "data.features", str(missing)) from None


def _deal(scenario: Scenario, dataset: Dataset) -> list[Shard]:
    data, points = scenario.data, len(dataset.labels)
    if data.clients > points:
        problem = f"{data.clients} is too large for {points} points; allowed: 1 to {points}"
        raise ScenarioError("", "data.clients", problem)
    try:
        return deal(dataset, data, scenario.seed)
    except DataError as error:
        raise _about_data(error, "partition") from None


def _about_data(error: ValueError, key: str) -> ScenarioError:
    """`error` at the setting of the data that it is about, else at `key`."""
    if isinstance(error, DataSettingError):
        return ScenarioError("", f"data.{error.key}", f"{error.shown} {error.problem}")
    return ScenarioError("", f"data.{key}", str(error))


def _check_points(scenario: Scenario, held: Dataset, dealt: Sequence[Shard]) -> None:
    """What depends on the points, for each part of the protocol."""
    parts = PROTOCOLS[scenario.protocol.name].parts
    for part, test in _WITH_POINTS.items():
        if part in parts:
            test(scenario, held, dealt)


def _check_declared(scenario: Scenario, dealt: Sequence[Shard]) -> None:
    """What a declared protocol says of its keys and the points."""
    declaration, keys = declared(scenario.protocol.name), scenario.protocol
    if declaration is None:
        return
    if len(dealt) < keys.min_clients:
        problem = f"{len(dealt)} is too small; allowed: {keys.min_clients} (protocol.min_clients) or more"
        raise ScenarioError("", "data.clients", problem)
    try:
        declaration.check(keys, named(dealt))
    except Problem as error:
        key = error.key if "." in error.key else f"protocol.{error.key}"
        raise ScenarioError("", key, error.problem) from None


def _check_graph(scenario: Scenario, held: Dataset, dealt: Sequence[Shard]) -> None:
    points, protocol = len(held.labels), scenario.protocol
    if protocol.k >= points:
        problem = f"{protocol.k} is too large; allowed: 1 to {points - 1} (n - 1)"
        raise ScenarioError("", "protocol.k", problem)


def _check_clients(scenario: Scenario, held: Dataset, dealt: Sequence[Shard]) -> None:
    protocol, drawn = scenario.protocol, together(scenario, dealt)
    if len(drawn) < protocol.min_clients:  # a natural partition's clients are known only now
        problem = f"{len(drawn)} is too small; allowed: {protocol.min_clients} (protocol.min_clients) or more"
        if len(drawn) < len(dealt):
            problem = f"{scenario.training.share:g} of {len(dealt)} clients are too few: {problem}"
        raise ScenarioError("", "data.clients", problem)
    if protocol.threshold is not None and protocol.threshold > len(drawn):
        problem = f"{protocol.threshold} is too large; allowed: 2 to {len(drawn)} (the clients)"
        raise ScenarioError("", "protocol.threshold", problem)
    points = sum(len(shard.rows) for shard in drawn)
    needed, free = BYTES_PER_DISTANCE * points**2, psutil.virtual_memory().available
    if needed > free:
        most = math.isqrt(free // BYTES_PER_DISTANCE)
        problem = f"{points} points need about {format_bytes(needed)} of memory and {format_bytes(free)} are free"
        raise ScenarioError("", "data.limit", f"{problem}; allowed here: 1 to {most}")


_WITH_POINTS: dict[str, Callable[[Scenario, Dataset, Sequence[Shard]], None]] = {
    "graph": _check_graph,
    "xclp": _check_clients,
    "training": check_training,
}


def _check_expect(scenario: Scenario) -> None:
    known = steps_of(scenario)
    expect, included = scenario.expect, {party for key, party, _ in scenario.expect.losses if key == "lost_includes"}
    for name in ("lost_at_most", "lost_includes"):
        if expect.lost is not None and getattr(expect, name) is not None:
            problem = "does not go with expect.lost, which says exactly who is lost; allowed: one of the two"
            raise ScenarioError("", f"expect.{name}", problem)
    if expect.lost_at_most is not None and expect.lost_at_most < len(included):
        problem = f"{expect.lost_at_most} is too small, for expect.lost_includes names {len(included)} parties"
        raise ScenarioError("", "expect.lost_at_most", f"{problem}; allowed: {len(included)} or more")
    for key, party, step in expect.losses:
        check_party(f"expect.{key}", party, scenario.data.clients, patterns=False)
        if step and step not in known:
            problem = f"{toml(step)} is not a step of {scenario.protocol.name}{similar(step, known)}"
            raise ScenarioError("", f"expect.{key}", f"{problem}; allowed: {', '.join(known)}")
