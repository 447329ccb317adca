"""Long-term keys in files: deployed clients sign with them, and with no other keys."""

import base64
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tacit.protocols.identities import Identities, identities_of, public_half
from tacit.scenarios.command.main import app
from tacit.scenarios.deploying import joining
from tacit.scenarios.deploying.plan import identities_in
from tacit.scenarios.files.reading import load
from tacit.scenarios.running.simulation import Simulation
from tacit.sim.deployed.certificates import CertificateError
from tacit.sim.deployed.records import Welcome
from tacit.sim.deployed.spoke import RefusedError
from tests.deployed.test_runs import XCLP, rows
from tests.deployed.together import Together

EXAMPLES = Path(__file__).parents[2] / "examples"
SIGNED = [*XCLP, "protocol.identity=signed", "protocol.recovery=secure"]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Together:
    """A run that has ended, with secrets from the operating system, and the folder of all certificates."""
    made = Together(load("xclp-digits", SIGNED), tmp_path_factory.mktemp("signed"), seeded=False)
    assert made.run().equals_plaintext
    return made


def test_clients_sign_with_the_keys_of_their_files(together: Together) -> None:
    types = {row for (row,) in rows(together.path / "run", "SELECT DISTINCT type FROM events WHERE kind = 'send'")}
    assert {"Agreed", "Agreement"} <= types
    known = identities_in(together.certificates, together.scenario, ["client/1"], seeded=False)
    seeded = identities_of(together.scenario)
    assert known is not None and seeded is not None
    assert set(known.private) == {"client/1"}
    assert all(key != seeded.public[name] for name, key in known.public.items())


def second_run(together: Together, path: Path) -> Together:
    """Another run of the same scenario with the same keys."""
    made = Together(together.scenario, path, seeded=False)
    shutil.rmtree(made.certificates)
    shutil.copytree(together.certificates, made.certificates)
    return made


def test_a_run_with_a_repeated_id_is_refused(together: Together, tmp_path: Path) -> None:
    repeated = second_run(together, tmp_path)
    (tmp_path / "server").mkdir()
    run_id = base64.b64encode(together.runs["server"].world.run_id).decode()
    state = {"run_id": run_id, "incarnation": 1, "incarnations": {}}
    (tmp_path / "server" / "state.json").write_text(json.dumps(state))
    with pytest.raises(RefusedError, match=r"client-\d.runs: client/\d has been in a run of the same id with its key"):
        repeated.run()


def test_a_client_with_another_key_is_left_out_and_named(together: Together, tmp_path: Path) -> None:
    """client/1 has replaced its key by one that other parties do not know."""
    other = second_run(together, tmp_path)
    stranger = Together(together.scenario, tmp_path / "stranger", seeded=False).certificates / "identities"
    own = tmp_path / "own"
    shutil.copytree(other.certificates, own)
    for kind in ("key", "pub"):
        shutil.copy(stranger / f"client-1.{kind}", own / "identities")
    other.folders = {"client/1": own}
    result = other.run()
    (loss,) = [one for one in result.lost if one.party == "client/1"]
    assert "the signature of client/1 on its set-up key does not verify" in loss.action


def test_without_key_files_a_run_does_not_begin(together: Together, tmp_path: Path) -> None:
    bare = second_run(together, tmp_path)
    (bare.certificates / "identities" / "client-2.pub").unlink()
    with pytest.raises(CertificateError, match=r"client-2\.pub: there is no such file; `tacit certify` makes it"):
        identities_in(bare.certificates, bare.scenario, ["client/0"], seeded=False)
    (bare.certificates / "identities" / "client-2.pub").write_text("nothing")
    with pytest.raises(CertificateError, match=r"client-2\.pub has no Ed25519 public key"):
        identities_in(bare.certificates, bare.scenario, (), seeded=False)


class FormerRun:
    """The state of a client's process at its start: the folder of an earlier process, and no run yet."""

    recorder = None

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, "client/1"


def test_a_new_process_demands_an_unused_incarnation(tmp_path: Path) -> None:
    client = object.__new__(joining._Joined)
    client.run = FormerRun(tmp_path)  # type: ignore[assignment]
    client.spoke = SimpleNamespace(incarnation=3)  # type: ignore[assignment]
    client._identities = None
    for number in (2, 3):
        with pytest.raises(RefusedError, match=f"the server says incarnation {number} after 3"):
            client.welcome(Welcome(bytes(16), number, 1))


def test_an_incarnation_is_stored_before_its_first_use(tmp_path: Path) -> None:
    """A process that ends immediately still counts as this incarnation."""

    def make(*_: object) -> None:
        raise InterruptedError

    client = object.__new__(joining._Joined)
    client.run = FormerRun(tmp_path)  # type: ignore[assignment]
    client.run.make = make  # type: ignore[method-assign]
    client.spoke = SimpleNamespace(incarnation=3, send=None)  # type: ignore[assignment]
    client._identities, client.begun, client._loop = None, False, None  # type: ignore[assignment]
    with pytest.raises(InterruptedError):
        client.welcome(Welcome(bytes(16), 4, 1))
    assert joining._stored(tmp_path / "state.json").incarnation == 4


@pytest.mark.parametrize("command", [["join", "--as", "client/1", "--server", "localhost"], ["serve"]])
def test_no_private_key_is_sent_to_a_cluster(command: list[str], tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "party"), "--engine", "ray:10.0.0.1:6379"]
    done = CliRunner().invoke(app, [command[0], "xclp-digits", *command[1:], *out])
    assert done.exit_code == 2 and "Traceback" not in done.output
    assert "would send private keys to other machines" in " ".join(done.output.split())


def test_keys_of_a_simulation_follow_from_the_seed_only_with_seeded_entropy() -> None:
    drawn, again = (identities_of(load("xclp-digits", [*SIGNED, "entropy=os"])) for _ in range(2))
    seeded, same = (identities_of(load("xclp-digits", [*SIGNED, "entropy=seeded"])) for _ in range(2))
    assert drawn is not None and again is not None and seeded is not None and same is not None
    assert seeded.public["client/1"] == same.public["client/1"]
    assert len({keys.public["client/1"] for keys in (drawn, again, seeded)}) == 3


def test_all_parts_of_a_simulation_sign_with_the_same_keys() -> None:
    changes = [*SIGNED, "entropy=os", "protocol.name=fedavg+xclp", "training.averaging=secure", "model.name=linear"]
    pytest.importorskip("torch")
    simulation = Simulation(load("fedavg-xclp-digits", changes), engine="inline")
    settings = simulation.server.settings
    labels, averages = settings.method.labeller.parameters.identities, settings.averaging.sum.identities
    assert labels is not None and averages is not None
    assert labels.public is averages.public and labels.private is averages.private  # each counts its own colluders
    simulation.close()


OWN_SUM = """
import numpy as np

from tacit import Phases, ProtocolKeys, SecureSum, add_protocol


class Total(SecureSum):
    name, sum = "total", "secure"

    def dimension(self, keys):
        return 2

    def vector(self, keys, shard, public):
        return np.array([1.0, 2.0])


class Summed(Phases):
    name, summary, keys, parts, agrees = "summed", "a sum", ProtocolKeys, (Total(),), False
    learned = {"server": "the sum", "client": "nothing"}

    def oracle(self, keys, over):
        return {"total": np.array([1.0, 2.0]) * len(over["total"])}


add_protocol(Summed())
"""


@pytest.mark.parametrize("name", ["histogram", "summed"])
def test_sums_of_own_protocols_are_signed_with_the_keys_of_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "histogram":
        scenario = load(EXAMPLES / "histogram.toml", ["protocol.identity=signed", "fault=[]", "expect={}"])
    else:
        (tmp_path / "summed_total.py").write_text(OWN_SUM)
        file = tmp_path / "summed.toml"
        file.write_text(
            'seed = 1\nplugins = ["summed_total.py"]\n[data]\nname = "digits"\nclients = 4\nlimit = 120\n'
            '[protocol]\nname = "summed"\nidentity = "signed"\n'
        )
        scenario = load(file)
    signed: dict[str, set[bytes]] = {}
    sign = Identities.sign

    async def seen(self: Identities, me: Any, what: str, *rest: Any) -> bytes:
        signed.setdefault(me.name, set()).add(public_half(self.private[me.name]))
        return await sign(self, me, what, *rest)

    monkeypatch.setattr(Identities, "sign", seen)
    (tmp_path / "run").mkdir()
    made = Together(scenario, tmp_path / "run", seeded=False)
    assert made.run().equals_plaintext
    known = identities_in(made.certificates, scenario, [], seeded=False)
    assert known is not None
    assert len(signed) >= scenario.data.clients
    assert signed == {party: {known.public[party]} for party in signed}
