"""Certificates of the parties of one federation, and TLS 1.3 contexts that trust no others.

The federation has its own certificate authority. It signs a certificate for each party, which names the party in a URI
(``tacit:client/3``). Keys are Ed25519 (RFC 8032). Both ends of a connection present their certificates. OpenSSL checks
the chain; the name, the purpose and the dates are checked here (`party_of`), so that a refusal can say whose
certificate is wrong, and why.
"""

import datetime
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit.sim.private_files import open_private

__all__ = ["AUTHORITY", "CertificateError", "Identity", "certify", "context", "file_stem", "party_of"]

AUTHORITY = "authority"
"""The stem of the authority's file names."""

SERVER = "server"
_PREFIX = "tacit:"
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME of OpenSSL: dates are checked by `party_of`
_EARLIER = datetime.timedelta(minutes=5)
"""The validity of a certificate begins this long before it is made, because clocks differ."""


class CertificateError(ValueError):
    """A certificate or its file is invalid. The message is one line."""


@dataclass(frozen=True)
class Identity:
    """The certificate files of the party `name`: its certificate, its key, and the certificate of the authority."""

    name: str
    certificate: Path
    key: Path
    authority: Path

    @classmethod
    def in_folder(cls, folder: Path, name: str) -> "Identity":
        """The files of `name` in a folder made by `certify`, or in a copy of the files that the party needs."""
        stem = file_stem(name)
        return cls(name, folder / f"{stem}.pem", folder / f"{stem}.key", folder / f"{AUTHORITY}.pem")


def file_stem(name: str) -> str:
    """The stem of a party's file names: ``client-3`` for ``client/3``."""
    return name.replace("/", "-")


def certify(folder: Path, names: Iterable[str], days: int) -> list[Path]:
    """Write keys and certificates for `names`, valid for `days`, into `folder`; returns the files.

    The authority's key and certificate are made if they do not exist. Existing files are not replaced. Only the owner
    can read a key file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key_path, path = folder / f"{AUTHORITY}.key", folder / f"{AUTHORITY}.pem"
    written: list[Path] = []
    if key_path.is_file() and path.is_file():
        authority_key, authority = _private_key(key_path), _certificate(path.read_bytes(), str(path))
    else:
        authority_key = Ed25519PrivateKey.generate()
        authority = _signed(AUTHORITY, authority_key, authority_key, None, days)
        written += _write(key_path, path, authority_key, authority)
    for name in names:
        key_path, path = folder / f"{file_stem(name)}.key", folder / f"{file_stem(name)}.pem"
        if not (key_path.exists() or path.exists()):
            key = Ed25519PrivateKey.generate()
            written += _write(key_path, path, key, _signed(name, key, authority_key, authority, days))
    return written


def _signed(
    name: str, key: Ed25519PrivateKey, by: Ed25519PrivateKey, authority: x509.Certificate | None, days: int
) -> x509.Certificate:
    """A certificate of the `key` for `name`; the authority's own certificate if `authority` is None."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    is_authority = authority is None
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(_usage(is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if not is_authority:
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if name == SERVER else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=True).add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(_PREFIX + name)]), critical=False
        )
    return builder.sign(by, None)


def _usage(is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _write(key_path: Path, path: Path, key: Ed25519PrivateKey, certificate: x509.Certificate) -> list[Path]:
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with open_private(key_path) as file:
        file.write(data)
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return [key_path, path]


def _private_key(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise CertificateError(f"{path}: not an Ed25519 key that `tacit certify` has written")
    return key


def _certificate(data: bytes, where: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        raise CertificateError(f"{where}: not a certificate") from None


def party_of(data: bytes, where: str, now: datetime.datetime | None = None) -> str:
    """The party that the certificate `data` (DER) names; the chain has been checked before.

    It must be valid now and name one party, and its purpose must fit: server or client. Raises CertificateError, which
    names the certificate's party as well.
    """
    try:
        certificate = x509.load_der_x509_certificate(data)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        purposes = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except (ValueError, x509.ExtensionNotFound) as error:
        raise CertificateError(f"{where}: its certificate is none of a party: {error}") from None
    if len(uris) != 1 or not uris[0].startswith(_PREFIX):
        raise CertificateError(f"{where}: its certificate does not name one party")
    name = uris[0].removeprefix(_PREFIX)
    wanted = ExtendedKeyUsageOID.SERVER_AUTH if name == SERVER else ExtendedKeyUsageOID.CLIENT_AUTH
    if purposes != [wanted]:
        raise CertificateError(f"{where}: the certificate of {name} is for another purpose")
    now = now or datetime.datetime.now(datetime.UTC)
    if not first <= now <= last:
        end = f"expired on {last:%Y-%m-%d %H:%M} UTC" if now > last else f"is not valid before {first:%Y-%m-%d %H:%M}"
        raise CertificateError(f"{where}: the certificate of {name} {end}")
    return name


def context(identity: Identity, *, is_server: bool) -> ssl.SSLContext:
    """The TLS 1.3 context of a party, which presents `identity` and trusts certificates of its authority only.

    Raises CertificateError if a file is missing or invalid, or the party's own certificate is not valid now.
    """
    for path in (identity.certificate, identity.key, identity.authority):
        if not path.is_file():
            raise CertificateError(f"{path}: there is no such file; `tacit certify` makes it")
    own = _certificate(identity.certificate.read_bytes(), str(identity.certificate))
    name = party_of(own.public_bytes(serialization.Encoding.DER), str(identity.certificate))
    if name != identity.name:
        raise CertificateError(f"{identity.certificate}: the certificate of {name}, not of {identity.name}")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # a party is who its certificate says, wherever it is
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags = ssl.VerifyFlags(made.verify_flags | ssl.VERIFY_X509_STRICT | _NO_CHECK_TIME)
    try:
        made.load_verify_locations(identity.authority)
        made.load_cert_chain(identity.certificate, identity.key)
    except ssl.SSLError as error:
        raise CertificateError(f"{identity.certificate}: certificate, key and authority do not fit: {error}") from None
    return made
