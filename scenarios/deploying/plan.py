"""The plan of a deployment: its parties, their agreement on the scenario, and the limits of deployments."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import msgspec

from tacit.parties.learning.spec import weights_in
from tacit.protocols import identity_files
from tacit.protocols.identities import Identities
from tacit.scenarios.files.fault_checks import parties_of
from tacit.scenarios.files.source import find, parse_toml
from tacit.scenarios.running.environment import version
from tacit.scenarios.schema.scenario import Scenario, ScenarioError, as_table
from tacit.sim.deployed.certificates import CertificateError

__all__ = [
    "IDENTITIES", "certified_identities", "check_deployable", "check_faults", "digest_of",
    "identities_in", "joining", "refuse_seeded",
]  # fmt: skip

IDENTITIES = "identities"
"""The folder of long-term keys, inside that of the certificates."""

_NOT_AGREED = (
    "title", "name", "network", "device", "client", "link", "host", "cost", "engine", "entropy", "fault", "expect",
    "plugins",
)  # fmt: skip
"""The tables and keys that may differ between parties, because real networks and machines replace the simulated
ones."""


def joining(scenario: Scenario) -> tuple[str, ...]:
    """The names of the parties that connect to the server: a helper, if there is one, and the clients."""
    return tuple(parties_of(scenario)[1:])


def digest_of(scenario: Scenario, *, seeded: bool) -> bytes:
    """A digest of 32 bytes that is equal for two parties if their scenarios, versions of Tacit and `seeded` are equal.

    Tables in `_NOT_AGREED` and `data.path` may differ. Of a file of weights the content counts, not its path.
    """
    table = {key: value for key, value in as_table(scenario).items() if key not in _NOT_AGREED}
    data = table["data"]
    assert isinstance(data, dict)
    table["data"] = {key: value for key, value in data.items() if key != "path"}
    if (weights := weights_in(scenario.model.weights)) is not None:
        table["model"] = {**cast(dict[str, object], table["model"]), "weights": weights.sha256}
    content = msgspec.json.encode([version(), seeded, table], order="sorted")
    return hashlib.sha256(content).digest()


def certified_identities(scenario: Scenario, certificates: Path) -> list[Path]:
    """Make long-term keys for the clients and the helper that lack them, below `certificates`; return the new files."""
    if scenario.protocol.identity != "signed":
        return []
    folder = certificates / IDENTITIES
    return identity_files.make(folder, identity_files.missing(folder, joining(scenario)))


def identities_in(certificates: Path, scenario: Scenario, own: Iterable[str], *, seeded: bool) -> Identities | None:
    """The long-term keys of clients and a helper, with the private keys of the parties `own`.

    None if the protocol does not sign, or if keys are drawn from the seed (`seeded`). Raises CertificateError if a file
    is missing or has no key.
    """
    if seeded or scenario.protocol.identity != "signed":
        return None
    try:
        return identity_files.load(certificates / IDENTITIES, joining(scenario), own)
    except FileNotFoundError as error:
        raise CertificateError(f"{error.filename}: there is no such file; `tacit certify` makes it") from None
    except ValueError as error:
        raise CertificateError(str(error)) from None


def check_deployable(scenario: Scenario, where: str) -> None:
    """Raise ScenarioError if the scenario has a value that a deployment does not support."""
    wrong = (
        ("network.topology", scenario.network.topology, "star", "clients connect to the server alone, which relays"),
        ("fidelity", scenario.fidelity, "real", "there is nobody to stand in for the cryptography"),
        ("attack.kind", scenario.attack.kind, "", "nobody sees what all parties receive"),
    )
    for key, found, needed, why in wrong:
        if found != needed:
            raise ScenarioError(where, key, f'is "{found}"; a deployment needs "{needed}": {why}')


def refuse_seeded(file: str, changes: Sequence[str]) -> None:
    """Raise ScenarioError if the file, or a change, asks for secrets drawn from the seed."""
    source = next((f"--set {text}" for text in changes if text.replace('"', "").strip() == "entropy=seeded"), "")
    if not source and parse_toml(find(file).read_bytes().decode()).get("entropy") == "seeded":
        source = file
    if source:
        problem = 'is "seeded": whoever has the file would have all secrets; --insecure-seeded allows it'
        raise ScenarioError(source, "entropy", problem)


def check_faults(scenario: Scenario, where: str) -> None:
    """Raise ScenarioError unless each [[fault]] is one that a process can apply to itself: a crash."""
    for number, fault in enumerate(scenario.fault):
        if fault.kind != "crash":
            problem = (
                f'is "{fault.kind}"; allowed: "crash", which is the process\'s own SIGKILL; '
                "deploy-local --without-faults, and serve and join without --with-faults, leave all faults out"
            )
            raise ScenarioError(where, f"fault.{number}.kind", problem)
