"""Messages over real TCP with TLS 1.3, both ends authenticated: the times at which each was sent and fully received.

`python -m tacit.benchmarks.reality.exchange receive FOLDER ADDRESS PORT` accepts connections one after another, and
answers each message with one byte. `... send FOLDER ADDRESS PORT CASES` carries out the cases (JSON: a list of lists of
[pause, size, is set-up counted]): each list is a connection, and each message is sent `pause` seconds after the answer
to the previous one. Both print one line of JSON per connection: the times on the clock shared by all processes of a
machine. A sender first waits for a line on its standard input.

FOLDER has the certificate of `make_certificates`.
"""

import datetime
import json
import socket
import ssl
import sys
import time
from pathlib import Path

__all__ = ["PORT", "context", "make_certificates"]

PORT = 7443
_PREFIX = 8  # bytes of the length at the beginning of a message
_NAME = "tacit"


def make_certificates(folder: Path) -> None:
    """Write into `folder` a key and a certificate, which both ends present and trust."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*form))
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def context(folder: Path, protocol: int) -> ssl.SSLContext:
    """Return the TLS context of either end of a connection: it trusts the certificate in `folder`, and presents it."""
    made = ssl.SSLContext(protocol)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    made.load_verify_locations(folder / "certificate.pem")
    made.verify_mode = ssl.CERT_REQUIRED
    return made


def _receive(folder: Path, address: str, port: int) -> None:
    ours = context(folder, ssl.PROTOCOL_TLS_SERVER)
    with socket.create_server((address, port)) as server:
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with ours.wrap_socket(connection, server_side=True) as secured:
                print(json.dumps(_answer_messages(secured)), flush=True)


def _answer_messages(secured: ssl.SSLSocket) -> list[float]:
    """Receive and answer messages until the connection ends; return the time at which each had arrived in full."""
    times, buffer = [], bytearray(1 << 18)
    while prefix := secured.recv(_PREFIX):
        left = int.from_bytes(prefix, "big") - _PREFIX
        while left:
            left -= secured.recv_into(buffer, min(left, len(buffer)))
        times.append(time.monotonic())
        secured.sendall(b"!")
    return times


def _send(folder: Path, address: str, port: int, cases: list[list[list[float]]]) -> None:
    ours = context(folder, ssl.PROTOCOL_TLS_CLIENT)
    contents = bytes(max(int(size) for case in cases for _, size, _ in case))
    print("ready", flush=True)
    sys.stdin.readline()
    for case in cases:
        times = []
        began = time.monotonic()
        connection = socket.create_connection((address, port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with ours.wrap_socket(connection, server_hostname=_NAME) as secured:
            for pause, size, from_start in case:
                time.sleep(pause)
                times.append(began if from_start else time.monotonic())
                length = int(size)
                secured.sendall(length.to_bytes(_PREFIX, "big") + contents[: length - _PREFIX])
                secured.recv(1)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["receive", folder, address, port]:
            _receive(Path(folder), address, int(port))
        case ["send", folder, address, port, cases]:
            _send(Path(folder), address, int(port), json.loads(cases))
