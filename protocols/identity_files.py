"""Long-term identities in files, for parties that run on separate machines.

In one folder, for the client ``client/3``: `client-3.key`, its private key (PKCS 8, PEM, readable by its owner alone),
and `client-3.pub`, its public one (SubjectPublicKeyInfo, PEM). Every party has all public keys and its own private one.
`client-3.runs` has the ids of the runs that the client has been in with its key, one a line in hexadecimal digits: the
server names the id of a run, and one that it named again would make old signatures good once more.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.protocols.identities import Identities
from tacit.sim.private_files import open_private

__all__ = ["enter_run", "load", "make", "missing"]


def make(folder: Path, names: Iterable[str]) -> list[Path]:
    """Make a key pair for each of the clients `names` from the operating system's randomness. Returns the files.

    Raises FileExistsError instead of overwriting a key.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name in names:
        private = Ed25519PrivateKey.generate()
        secret = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with open_private(_path(folder, name, "key")) as file:
            file.write(secret)
        public = private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        _path(folder, name, "pub").write_bytes(public)
        written += [_path(folder, name, "key"), _path(folder, name, "pub")]
    return written


def missing(folder: Path, names: Iterable[str]) -> list[str]:
    """The clients among `names` that have no key in the `folder`."""
    return [name for name in names if not any(_path(folder, name, kind).exists() for kind in ("key", "pub"))]


def enter_run(folder: Path, name: str, run_id: bytes) -> None:
    """Record that the client `name` is in the run `run_id`.

    Raises ValueError if it has been in it before, and OSError.
    """
    path = _path(folder, name, "runs")
    if path.is_file() and run_id.hex() in path.read_text(encoding="ascii").split():
        raise ValueError(f"{path}: {name} has been in a run of the same id with its key: the server repeats one")
    with path.open("a", encoding="ascii") as file:
        file.write(f"{run_id.hex()}\n")
        file.flush()
        os.fsync(file.fileno())  # before anything is signed


def load(folder: Path, names: Iterable[str], own: Iterable[str] = ()) -> Identities:
    """The public keys of all clients `names` and the private ones of `own`. Raises ValueError, OSError."""
    public: dict[str, bytes] = {}
    for name in names:
        path = _path(folder, name, "pub")
        try:
            key = serialization.load_pem_public_key(path.read_bytes())
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise ValueError(f"{path} has no Ed25519 public key in PEM")
        public[name] = key.public_bytes_raw()
    private: dict[str, bytes] = {}
    for name in own:
        path = _path(folder, name, "key")
        try:
            secret = serialization.load_pem_private_key(path.read_bytes(), None)
        except (TypeError, ValueError, UnsupportedAlgorithm):
            secret = None
        if not isinstance(secret, Ed25519PrivateKey):
            raise ValueError(f"{path} has no Ed25519 private key in PEM, without a password")
        private[name] = secret.private_bytes_raw()
    return Identities(public, private)


def _path(folder: Path, name: str, kind: str) -> Path:
    return folder / f"{name.replace('/', '-')}.{kind}"
