"""Certificates: a party is the one that its certificate names, and refusals name the reason."""

import asyncio
import datetime
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID
from typer.testing import CliRunner

from tacit.scenarios.command.main import app
from tacit.sim.deployed.certificates import CertificateError, Identity, certify, context, party_of
from tacit.sim.deployed.connection import BROKEN, Limits
from tacit.sim.deployed.hub import Hub, HubState
from tacit.sim.deployed.loop import RealLoop
from tacit.sim.deployed.spoke import RefusedError, Spoke

HOST = "127.0.0.1"
SCENARIO = b"the digest of a scenario"
NAMES = ("client/0", "client/1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("certificates")
    certify(path, ["server", *NAMES, "client/7"], days=10)
    return path


@pytest.fixture(scope="module")
def other_federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate files of another federation."""
    path = tmp_path_factory.mktemp("others")
    certify(path, ["server", *NAMES], days=10)
    return path


class Served:
    """A hub, its log, and its port."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.said: list[str] = []
        tls = context(Identity.in_folder(folder, "server"), is_server=True)
        state = HubState(bytes(16))
        self.hub = Hub(NAMES, SCENARIO, tls, state, Limits(**limits), self.said.append, lambda: None)
        self.port = 0


def with_hub(folder: Path, main: Callable[[Served], Awaitable[Any]], seconds: float = 60.0, **limits: Any) -> Served:
    async def everything() -> Served:
        served = Served(folder, **limits)
        served.port = await served.hub.listen(HOST, 0)
        try:
            async with asyncio.timeout(seconds):
                await main(served)
        finally:
            await served.hub.close()
        return served

    loop = RealLoop()
    try:
        return loop.run(everything())
    finally:
        loop.finish()


def spoke(served: Served, identity: Identity, scenario: bytes = SCENARIO) -> Spoke:
    tls = context(identity, is_server=False)
    return Spoke(HOST, served.port, tls, scenario, 0, Limits(), lambda line: None)


async def refused(served: Served, identity: Identity, scenario: bytes = SCENARIO) -> str:
    """The reason given to a client that connects with `identity` and is refused."""
    with pytest.raises((RefusedError, CertificateError)) as caught:
        await spoke(served, identity, scenario).connect(20.0)
    return str(caught.value)


def test_a_party_is_connected_by_the_name_in_its_certificate(folder: Path) -> None:
    async def main(served: Served) -> None:
        welcome = await spoke(served, Identity.in_folder(folder, "client/1")).connect(20.0)
        assert (welcome.run_id, welcome.incarnation, welcome.server) == (bytes(16), 1, 1)
        assert list(served.hub.present) == ["client/1"]

    with_hub(folder, main)


def test_a_certificate_of_another_authority_is_refused_by_client_and_server(
    folder: Path, other_federation: Path
) -> None:
    async def main(served: Served) -> None:
        mixed = Identity(
            "client/0", other_federation / "client-0.pem", other_federation / "client-0.key", folder / "authority.pem"
        )
        assert "the server's certificate is refused" in await refused(
            served, Identity.in_folder(other_federation, "client/0")
        )
        assert "refuses this certificate" in await refused(served, mixed)
        assert not served.hub.present

    said = with_hub(folder, main).said
    assert any("its certificate is refused" in line for line in said)
    assert any("it broke off the TLS handshake; a client does so whose authority.pem" in line for line in said)


def test_a_party_without_a_part_in_the_scenario_is_refused_by_name(folder: Path) -> None:
    async def main(served: Served) -> None:
        assert "client/7 has no part" in await refused(served, Identity.in_folder(folder, "client/7"))

    assert any("client/7 has no part in this scenario" in line for line in with_hub(folder, main).said)


def test_a_client_of_another_scenario_is_refused(folder: Path) -> None:
    async def main(served: Served) -> None:
        found = await refused(served, Identity.in_folder(folder, "client/0"), b"another")
        assert "client/0 runs another scenario" in found

    assert any("client/0 runs another scenario" in line for line in with_hub(folder, main).said)


def test_a_clients_certificate_is_refused_as_the_servers(folder: Path) -> None:
    path = folder
    stolen = Identity("server", path / "client-0.pem", path / "client-0.key", path / "authority.pem")
    with pytest.raises(CertificateError, match="the certificate of client/0, not of server"):
        context(stolen, is_server=True)

    async def main(served: Served) -> None:
        tls = context(Identity.in_folder(folder, "client/0"), is_server=True)
        served.hub._tls = tls
        assert "refused" in await refused(served, Identity.in_folder(folder, "client/1"))

    with_hub(folder, main)


def test_an_expired_certificate_is_refused_and_named(folder: Path) -> None:
    certificate = x509.load_pem_x509_certificate((folder / "client-0.pem").read_bytes())
    data, later = certificate.public_bytes(Encoding.DER), datetime.datetime.now(datetime.UTC)
    assert party_of(data, "192.0.2.1") == "client/0"
    with pytest.raises(CertificateError, match=r"192\.0\.2\.1: the certificate of client/0 expired on"):
        party_of(data, "192.0.2.1", later + datetime.timedelta(days=11))
    with pytest.raises(CertificateError, match="the certificate of client/0 is not valid before"):
        party_of(data, "192.0.2.1", later - datetime.timedelta(days=1))


@pytest.mark.parametrize(
    ("name", "purposes"),
    [
        ("client/0", [ExtendedKeyUsageOID.SERVER_AUTH]),
        ("client/0", [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
        ("server", [ExtendedKeyUsageOID.CLIENT_AUTH]),
        ("server", [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CODE_SIGNING]),
    ],
)
def test_a_certificate_for_another_purpose_is_refused(
    folder: Path, tmp_path: Path, name: str, purposes: list[x509.ObjectIdentifier]
) -> None:
    """The authority signed each of them; only the purpose differs."""
    identity = Identity.in_folder(folder, name)
    certificate = x509.load_pem_x509_certificate(identity.certificate.read_bytes())
    builder = x509.CertificateBuilder(
        certificate.issuer, certificate.subject, certificate.public_key(), certificate.serial_number,
        certificate.not_valid_before_utc, certificate.not_valid_after_utc,
    )  # fmt: skip
    for one in certificate.extensions:
        is_purpose = isinstance(one.value, x509.ExtendedKeyUsage)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes) if is_purpose else one.value, one.critical)
    authority = load_pem_private_key((folder / "authority.key").read_bytes(), None)
    changed = builder.sign(authority, None)
    with pytest.raises(CertificateError, match=f"192.0.2.1: the certificate of {name} is for another purpose"):
        party_of(changed.public_bytes(Encoding.DER), "192.0.2.1")
    path = tmp_path / "changed.pem"
    path.write_bytes(changed.public_bytes(Encoding.PEM))
    with pytest.raises(CertificateError, match="is for another purpose"):
        context(Identity(name, path, identity.key, identity.authority), is_server=name == "server")


def test_the_server_names_the_client_with_an_expired_certificate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = Identity.in_folder(folder, "client/0")
    tls = context(identity, is_server=False)  # made while the certificate was valid

    async def main(served: Served) -> None:
        real, later = party_of, datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=11)
        client = Spoke(HOST, served.port, tls, SCENARIO, 0, Limits(), lambda line: None)
        dated = {"client/0": later}

        def by_that_day(data: bytes, where: str) -> str:
            return real(data, where, dated.get(real(data, where)))

        monkeypatch.setattr("tacit.sim.deployed.connection.party_of", by_that_day)
        with pytest.raises(RefusedError, match="the certificate of client/0 expired on"):
            await client.connect(20.0)

    assert any("the certificate of client/0 expired on" in line for line in with_hub(folder, main).said)


def test_key_files_are_private_to_their_owner_and_not_replaced(folder: Path) -> None:
    key = folder / "client-0.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    assert certify(folder, ["server", *NAMES], days=10) == []
    assert key.read_bytes() == before


def test_a_missing_or_mismatched_certificate_file_is_named(folder: Path, other_federation: Path) -> None:
    with pytest.raises(CertificateError, match=r"client-9\.pem: there is no such file"):
        context(Identity.in_folder(folder, "client/9"), is_server=False)
    mixed = Identity("client/0", folder / "client-0.pem", other_federation / "client-0.key", folder / "authority.pem")
    with pytest.raises(CertificateError, match="do not fit"):
        context(mixed, is_server=False)


def test_tls_is_of_version_1_3_at_least(folder: Path) -> None:
    import ssl

    async def main(served: Served) -> None:
        old = context(Identity.in_folder(folder, "client/0"), is_server=False)
        old.minimum_version = ssl.TLSVersion.TLSv1_2
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(BROKEN):
            await asyncio.open_connection(HOST, served.port, ssl=old)

    with_hub(folder, main)


def test_an_outline_gives_the_number_of_certificates(tmp_path: Path) -> None:
    rows = "".join(f"{row}.5,{row % 2},{row % 3}\n" for row in range(9))
    (tmp_path / "outline.csv").write_text(f"a,label,client\n{rows}")
    text = '[data]\npath = "outline.csv"\npartition = "natural"\nlabeled = 1.0\n[protocol]\nname = "xclp"\nk = 2\n'
    (tmp_path / "study.toml").write_text(text)
    done = CliRunner().invoke(app, ["certify", str(tmp_path / "study.toml"), "--out", str(tmp_path / "made")])
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "made").glob("client-*.pem"))) == 3
