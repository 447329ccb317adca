"""Everything that Tacit does for a protocol follows from its declaration: no code asks for a name or a part."""

import ast
from collections.abc import Iterator

import pytest

from tacit.protocols.declaration import Declaration
from tacit.protocols.registry import PROTOCOLS
from tacit.sim.wire import Message
from tests.tree import Nodes, modules, nodes

FILES = modules("sim", "parties", "protocols", "scenarios")

BY_NAME = {
    "scenarios/chaos/configurations.py",  # the list of configurations of broad chaos
    "scenarios/command/bytes.py",  # "fedavg" is a field of result.json there, and below
    "scenarios/command/entry.py",  # the command of this name, here and below
    "scenarios/command/flower.py",
    "scenarios/command/reference.py",  # names of scenarios, one of which is also its protocol's name
    "scenarios/command/main.py",
    "scenarios/reporting/printed.py",
    "scenarios/reporting/run_page.py",
    "scenarios/reporting/html.py",  # "dd" is an element of HTML
    "sim/ray_cluster.py",  # "local" is the address of a new Ray cluster
    "scenarios/files/reading.py",  # "fedprox" is a value of training.update
}
"""Files that may contain a protocol's name."""


def asked_by_name(module: Nodes) -> Iterator[str]:
    """Yield comparisons with a protocol's name in `module`, and uses of a protocol's parts."""
    for node in module.of(ast.Compare):
        sides = (node.left, *node.comparators)
        constant = any(isinstance(side, ast.Constant | ast.Tuple | ast.Set) for side in sides)
        named = [side for side in sides if isinstance(side, ast.Attribute) and side.attr == "name"]
        if constant and any(ast.unparse(side).endswith("protocol.name") for side in named):
            yield ast.unparse(node)
    for part in module.of(ast.Attribute):
        if part.attr == "parts" and "PROTOCOLS" in ast.unparse(part.value):
            yield ast.unparse(part)


def names_in(module: Nodes) -> set[str]:
    """The protocols' names among the texts in `module`."""
    return {node.value for node in module.of(ast.Constant) if isinstance(node.value, str)} & set(PROTOCOLS)


def test_no_module_tests_for_the_name_or_the_parts_of_a_protocol() -> None:
    for path in FILES:
        assert list(asked_by_name(nodes(path))) == [], path
        if path.parts[0] in ("sim", "scenarios") and path.as_posix() not in BY_NAME:
            assert names_in(nodes(path)) == set(), path


@pytest.mark.parametrize(
    "source",
    [
        "if scenario.protocol.name == 'xclp': pass",
        "if tables.protocol.name in ('fedprop', 'fedprop+mt'): pass",
        "if 'training' in PROTOCOLS[name].parts: pass",
    ],
)
def test_a_test_for_the_name_of_a_protocol_is_detected(source: str) -> None:
    assert list(asked_by_name(Nodes(source)))


def test_a_name_of_a_protocol_in_code_is_detected() -> None:
    assert names_in(Nodes("kinds = {'fedprox': 1}")) == {"fedprox"}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_has_all_declared_attributes(name: str) -> None:
    protocol = PROTOCOLS[name]
    assert isinstance(protocol, Declaration) and protocol.name == name
    protocol.check_declared()
    assert protocol.summary and protocol.papers and set(protocol.learned) - {"helper"} == {"server", "client"}
    assert protocol.steps and {step.role for step in protocol.steps} - {"helper"} == {"client", "server"}


def message_names() -> dict[str, str]:
    """For each built-in message type its folder, by the type's name."""
    found, left = {}, [Message]
    while left:
        left += (kinds := left.pop().__subclasses__())
        found |= {kind.__name__: kind.__module__ for kind in kinds if kind.__module__.startswith("tacit.protocols.")}
    return found


FORGES = {f"scenarios/chaos/{what}.py" for what in ("report_world", "report_view", "report_lies")}
"""The modules of lying servers and helpers, which send and read messages like their owners."""

ANOTHER = {"Columns", "Corrections", "Enrolled", "Present", "Report", "Rows", "Seed"}
"""Types whose names also have other meanings."""


def spelled(found: Nodes, module: str, names: dict[str, str]) -> set[str]:
    """Message types that occur as texts in `module` without being defined there, or are imported into scenarios by
    name."""
    texts = {str(node.value) for node in found.of(ast.Constant)} & set(names)
    if module.startswith("tacit.protocols."):
        folder = module.rpartition(".")[0]
        texts = {text for text in texts if names[text].rpartition(".")[0] != folder}
    if module.startswith("tacit.scenarios."):
        used = {node.attr for node in found.of(ast.Attribute)} | {node.id for node in found.of(ast.Name)}
        texts |= used & set(names)
    return texts - ANOTHER


def test_no_message_type_is_named_outside_of_its_folder() -> None:
    names = message_names()
    assert {"MaskedChunk", "TrainingRound", "EncryptedBits", "PartOpens"} <= set(names)
    for path in FILES:
        if path.parts[0] in ("protocols", "scenarios") and path.as_posix() not in FORGES:
            module = "tacit." + ".".join(path.with_suffix("").parts)
            assert spelled(nodes(path), module, names) == set(), path


NAME_STEPS = {
    "scenarios/chaos/server_noise.py": "the jobs that add noise, with the steps that carry their results",
}
"""The files outside of protocols that name steps, and which; others ask a step for its stage. The lying server of chaos
runs forges messages (`FORGES`)."""


def test_no_step_is_named_outside_of_protocols() -> None:
    names = {step.name for protocol in PROTOCOLS.values() for step in protocol.steps}
    assert {"rowsums.deal", "sum.mask", "train.update"} <= names
    found = {
        path.as_posix()
        for path in FILES
        if path.parts[0] in ("sim", "scenarios") and any(node.value in names for node in nodes(path).of(ast.Constant))
    }
    assert found - FORGES == {*NAME_STEPS}


def test_a_message_type_named_elsewhere_is_detected() -> None:
    names = {"MaskedChunk": "tacit.protocols.sums.secure_sum"}
    assert spelled(Nodes("kinds = ('MaskedChunk',)"), "tacit.protocols.federated.round", names) == {"MaskedChunk"}
    used = Nodes("secure_sum.MaskedChunk")
    assert spelled(used, "tacit.scenarios.chaos.trial", names) == {"MaskedChunk"}
    assert not spelled(used, "tacit.protocols.federated.round", names)
