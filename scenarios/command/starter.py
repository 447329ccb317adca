"""The first scenario file of a project: commented, for a protocol, a number of clients, a network and one fault."""

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from tacit.parties.fleet.keys import PRESETS
from tacit.protocols.registry import PROTOCOLS
from tacit.protocols.rounds.rounds import ENROLL
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.prediction import predict_run
from tacit.scenarios.schema.keys import similar, toml
from tacit.scenarios.schema.scenario import Expect, ProtocolKeys, Scenario, ScenarioError
from tacit.sim.faults import KINDS, Availability

__all__ = ["FAULTS", "NETWORKS", "NO_FAULT", "SCHEMA_FILE", "Wanted", "starter"]

SCHEMA_FILE = "scenario.schema.json"
"""The name of the JSON Schema beside the scenario, to which its first line points."""

NO_FAULT = "none"
FAULTS = (NO_FAULT, *(name for name, kind in KINDS.items() if kind is not Availability))
NETWORKS = ("default", *PRESETS)

_WIDTH = 100


class Wanted(Struct, frozen=True, kw_only=True):
    """The choices for a new scenario file; `plugins` are the paths that it names, relative to its folder."""

    protocol: str = ProtocolKeys().name
    clients: int = 10
    network: str = NETWORKS[0]
    fault: str = "crash"
    seed: int = 1
    plugins: tuple[str, ...] = ()


class _Line(Struct, frozen=True):
    """A key with its value and a comment; written only for protocols that use one of the keys in `needs`, if there are
    any."""

    key: str
    value: Any
    comment: str
    needs: str = ""


_LINES = (
    _Line("data.name", None, "A data set; `tacit data list` shows all. `path = FILE` takes a CSV of your own."),
    _Line("data.clients", None, "The number of clients that share the points."),
    _Line("data.partition", "iid", 'Points are dealt at random; "dirichlet:0.5" gives clients uneven classes.'),
    _Line("data.labeled", 0.3, "The share of each client's points that have a label."),
    _Line("data.limit", None, "The most points that are used, for a quick run. Delete the line to use all."),
    _Line("public.size", 0.4, "The share of the points that are public, and have no label.", "cotraining.rounds"),
    _Line("protocol.name", None, ""),
    _Line(
        "protocol.hamming",
        "paillier",
        'Distances under homomorphic encryption. "iknp": by oblivious transfer; "plaintext": without secrecy, faster.',
        "protocol.hamming",
    ),
    _Line("protocol.bits", 256, "The length of a point's hash; longer is more exact and costlier.", "protocol.bits"),
    _Line("protocol.k", 5, "The neighbours of a point in the graph along which labels spread.", "protocol.k"),
    _Line("protocol.deadline", "60s", "The longest wait of the server for answers, in virtual time."),
    _Line("model.name", "linear", "The network that clients train; `tacit keys model.name` lists all.", "model.*"),
    _Line("training.rounds", 5, "The rounds of training.", "training.rounds"),
    _Line("training.epochs", 1, "The passes over a client's points in each round.", "training.epochs"),
    _Line("training.learning_rate", 0.5, "", "training.learning_rate"),
    _Line("learner.steps", 20, "The steps of training on the labels of a round.", "learner.*"),
    _Line("cotraining.rounds", 5, "The rounds in which clients share labels.", "cotraining.rounds"),
)
"""The keys of every new file, in order. A value of None is filled in from the user's choices."""

_FEWEST, _PER_CLIENT = 240, 24
"""The points of a new file: for each client enough for labeled, unlabeled, public and held-out ones."""

_FEW = 200
"""The most clients among which the points of digits are enough; `synthetic` has enough for more."""

_PREDICTED = 40
"""The most clients of the prediction from which expectations follow; among more it takes minutes."""

_CALM = Expect(outcome="completed", lost_at_most=1)

_OF_FAULTS = {
    "factor": (100.0, "Computing and transfers take this many times as long."),
    "lasts": ("5s", "How long it goes on; virtual time."),
    "by": ("2s", "How much later; virtual time."),
}
"""Values and comments of the keys that some kinds of faults have."""


def starter(wanted: Wanted, folder: Path) -> str:
    """Write the text of a scenario file that runs in `folder`.

    Raises ScenarioError for an unknown protocol, network or fault, and for contradictory choices.
    """
    for option, value, known in (
        ("--protocol", wanted.protocol, [*PROTOCOLS]),
        ("--network", wanted.network, NETWORKS),
        ("--fault", wanted.fault, FAULTS),
    ):
        if value not in known:
            problem = f"{toml(value)} is not one of the allowed: {', '.join(known)}{similar(value, known)}"
            raise ScenarioError(option, "", problem)
    calm = _checked(_text(structs.replace(wanted, fault=NO_FAULT)), folder)
    wanted = structs.replace(wanted, clients=calm.data.clients)
    if wanted.fault == NO_FAULT:
        return _text(wanted)
    if wanted.clients == 1:
        raise ScenarioError("--fault", "", f"{toml(wanted.fault)} of the only client leaves nobody; allowed: none")
    fault = _fault(wanted, calm)
    return _text(wanted, fault, _expected(_checked(_text(wanted, fault), folder)))


def _expected(scenario: Scenario) -> Expect:
    """The expectations for a run of `scenario` with a fault, from a prediction, of few clients where there are many."""
    if scenario.data.clients > _PREDICTED:
        few = structs.replace(scenario.data, clients=_PREDICTED, limit=_PREDICTED * _PER_CLIENT)
        scenario = structs.replace(scenario, data=few)
    found = predict_run(scenario, "the new scenario")
    most = max(1, len({loss.party for loss in found.lost}))
    return Expect(outcome=found.outcome, lost_at_most=most)  # type: ignore[arg-type]  # of a run that has ended


def _checked(text: str, folder: Path) -> Scenario:
    """Parse `text` as a scenario file in `folder`. Raises ScenarioError."""
    path = folder / f".{SCHEMA_FILE}.toml"
    path.write_text(text, encoding="utf-8")
    try:
        return read(path).scenario
    except ScenarioError as error:
        raise ScenarioError("the new scenario", error.key, error.problem) from None
    finally:
        path.unlink()


def _text(wanted: Wanted, fault: Iterable[str] = (), expect: Expect = _CALM) -> str:
    """The text of the file with the lines of the `fault`."""
    return "".join(_lines(wanted, fault, expect))


def _lines(wanted: Wanted, fault: Iterable[str], expect: Expect) -> Iterator[str]:
    party, struck = _party(wanted), wanted.fault != NO_FAULT
    about = f"{wanted.clients} client{'s' * (wanted.clients > 1)} run {wanted.protocol}"
    where = "" if wanted.network == NETWORKS[0] else f" over {wanted.network}"
    yield f"#:schema ./{SCHEMA_FILE}\n"
    yield from _comment("A scenario of Tacit. `tacit run FILE` runs it; `tacit keys` lists every key.")
    yield f"\ntitle = {toml(about + where + (f'; {party} has a fault: {wanted.fault}' if struck else ''))}\n"
    yield from _comment("Everything random follows from the seed: the same seed gives the same run.")
    yield f"seed = {wanted.seed}\n"
    if wanted.plugins:
        yield from _comment("Python files of your own, each in this folder or below.")
        yield f"plugins = {toml(list(wanted.plugins))}\n"
    limit = max(_FEWEST, _PER_CLIENT * wanted.clients)
    given = {
        "data.name": "digits" if wanted.clients <= _FEW else "synthetic",
        "data.clients": wanted.clients,
        "data.limit": limit,
        "protocol.name": wanted.protocol,
    }
    uses, table = PROTOCOLS[wanted.protocol].uses, ""
    for line in _LINES:
        if line.needs and line.needs not in uses:
            continue
        head, _, key = line.key.partition(".")
        if head != table:
            table = head
            yield f"\n[{table}]\n"
        comment = line.comment or _about(line.key, wanted.protocol)
        yield from _comment(comment) if comment else ()
        yield f"{key} = {toml(given.get(line.key, line.value))}\n"
    yield from _network(wanted)
    yield from fault
    yield "\n[expect]\n"
    yield from _comment("What makes this file a test: the exit code of `tacit run` is 1 if a line is not met.")
    yield f"outcome = {toml(expect.outcome)}\n"
    if struck:
        yield from _comment(f'The most parties that may be lost. `lost = ["{party}"]` names exactly who must be lost.')
        yield f"lost_at_most = {expect.lost_at_most}\n"
    else:
        yield from _comment("The parties that must be lost: nobody.")
        yield "lost = []\n"


def _about(key: str, protocol: str) -> str:
    """The comment on the protocol's name: its summary; "" for other keys."""
    if key != "protocol.name":
        return ""
    summary = PROTOCOLS[protocol].summary
    return f"{summary[0].upper()}{summary[1:]}. `tacit steps {protocol}` lists the steps."


def _network(wanted: Wanted) -> Iterator[str]:
    network = Scenario().network
    yield "\n[network]\n"
    yield from _comment('"star": the server relays between clients; "mesh": clients have links to each other.')
    yield f"topology = {toml(network.topology)}\n"
    if wanted.network == NETWORKS[0]:
        yield from _comment("One way, for each message: the median, and the spread of the logarithm.")
        yield f"latency = {toml(network.latency)}\n"
        yield from _comment("Each client's, up and down.")
        yield f"bandwidth = {toml(network.bandwidth)}\n"
        return
    yield from _comment("Shared by all clients, up and down.")
    yield f"server_bandwidth = {toml(network.server_bandwidth)}\n"
    yield "\n[[client]]\n"
    yield from _comment("Which clients; a later [[client]] changes some of them.")
    yield 'name = "client/*"\n'
    values = ", ".join(f"{key} {value}" for key, value in PRESETS[wanted.network].values.items())
    yield from _comment(f"{values}. Others: {', '.join(name for name in PRESETS if name != wanted.network)}.")
    yield f"preset = {toml(wanted.network)}\n"


def _party(wanted: Wanted) -> str:
    return f"client/{min(3, wanted.clients - 1)}"


def _fault(wanted: Wanted, calm: Scenario) -> list[str]:
    """The lines of the fault, at a step that a client of the `calm` scenario takes."""
    kind = KINDS[wanted.fault]
    needs = {field.name for field in structs.fields(kind) if field.required}
    lines = ["\n[[fault]]\n", *_comment(f"Kinds: {', '.join(KINDS)}."), f"kind = {toml(wanted.fault)}\n"]
    lines.append(f"party = {toml(_party(wanted))}\n")
    if kind.when:
        steps = _client_steps(calm)
        lines += _comment(f"Before its first action in this step. Steps of a client: {', '.join(steps)}.")
        lines.append(f"at = {toml(steps[len(steps) // 2])}\n")
    else:
        lines += _comment("It strikes the first message that the party sends; `message = TYPE` names another.")
    for key, (value, comment) in _OF_FAULTS.items():
        if key in needs or (key == "lasts" and key in kind.__struct_fields__ and kind.when):
            lines += [*_comment(comment), f"{key} = {toml(value)}\n"]
    return lines


def _client_steps(scenario: Scenario) -> list[str]:
    """The steps of a client in a run of `scenario`, without those of enrolment if there are others."""
    steps = PROTOCOLS[scenario.protocol.name].steps_with(scenario)
    names = list(dict.fromkeys(step.name for step in steps if step.role == "client"))
    return [name for name in names if name not in {step.name for step in ENROLL}] or names


def _comment(text: str) -> Iterable[str]:
    return (f"# {line}\n" for line in textwrap.wrap(text, _WIDTH - 2, break_long_words=False, break_on_hyphens=False))
