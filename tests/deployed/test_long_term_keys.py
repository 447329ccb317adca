"""Long-term keys in files: deployed clients sign by them, and by no others."""

import base64
import json
import shutil
from pathlib import Path

import pytest

from protocols.identities import identities_of
from scenarios.deploying.plan import identities_in
from scenarios.files.reading import load
from sim.deployed.certificates import CertificateError
from sim.deployed.spoke import RefusedError
from tests.deployed.test_runs import XCLP, rows
from tests.deployed.together import Together

SIGNED = [*XCLP, "protocol.identity=signed", "protocol.recovery=shamir"]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Together:
    """A run that has ended, with secrets from the operating system, and the certificate folder of all parties."""
    made = Together(load("xclp-digits", SIGNED), tmp_path_factory.mktemp("signed"), seeded=False)
    assert made.run().equals_plaintext
    return made


def test_clients_sign_by_the_keys_of_files(together: Together) -> None:
    types = {row for (row,) in rows(together.path / "run", "SELECT DISTINCT type FROM events WHERE kind = 'send'")}
    assert {"Agreed", "Agreement"} <= types
    known = identities_in(together.certificates, together.scenario, ["client/1"], seeded=False)
    seeded = identities_of(together.scenario)
    assert known is not None and seeded is not None
    assert set(known.private) == {"client/1"}
    assert all(key != seeded.public[name] for name, key in known.public.items())


def again(together: Together, path: Path) -> Together:
    """Another run of the same scenario with the same keys."""
    made = Together(together.scenario, path, seeded=False)
    shutil.rmtree(made.certificates)
    shutil.copytree(together.certificates, made.certificates)
    return made


def test_a_run_whose_id_the_server_repeats_is_refused(together: Together, tmp_path: Path) -> None:
    repeated = again(together, tmp_path)
    (tmp_path / "server").mkdir()
    run_id = base64.b64encode(together.runs["server"].world.run_id).decode()
    state = {"run_id": run_id, "incarnation": 1, "incarnations": {}}
    (tmp_path / "server" / "state.json").write_text(json.dumps(state))
    with pytest.raises(RefusedError, match=r"client-\d.runs: client/\d has been in a run of the same id with its key"):
        repeated.run()


def test_a_client_with_another_key_is_left_out_and_named(together: Together, tmp_path: Path) -> None:
    """client/1 has made itself another key, which the others do not know."""
    other = again(together, tmp_path)
    stranger = Together(together.scenario, tmp_path / "stranger", seeded=False).certificates / "identities"
    own = tmp_path / "own"
    shutil.copytree(other.certificates, own)
    for kind in ("key", "pub"):
        shutil.copy(stranger / f"client-1.{kind}", own / "identities")
    other.folders = {"client/1": own}
    result = other.run()
    (loss,) = [one for one in result.lost if one.party == "client/1"]
    assert "the signature of client/1 on its set-up key does not verify" in loss.action


def test_without_files_nobody_begins(together: Together, tmp_path: Path) -> None:
    bare = again(together, tmp_path)
    (bare.certificates / "identities" / "client-2.pub").unlink()
    with pytest.raises(CertificateError, match=r"client-2\.pub: there is no such file; `tacit certify` makes it"):
        identities_in(bare.certificates, bare.scenario, ["client/0"], seeded=False)
    (bare.certificates / "identities" / "client-2.pub").write_text("nothing")
    with pytest.raises(CertificateError, match=r"client-2\.pub has no Ed25519 public key"):
        identities_in(bare.certificates, bare.scenario, (), seeded=False)
