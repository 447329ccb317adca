"""Prio3: reports sharded and prepared per second, compared with the draft's Python reference if a copy of it is given.

The reference is the folder `poc` of the repository cfrg/draft-irtf-cfrg-vdaf, tag draft-irtf-cfrg-vdaf-20. It is the
readable text of the standard and not made for speed. Its shares are compared with Tacit's before anything is timed.
"""

import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import Crypto.Cipher.AES
import Crypto.Hash.TurboSHAKE128

from tacit.benchmarks.measure import Action, Standing, race
from tacit.protocols.crypto.vdaf import FIELD64, Prio3
from tacit.sim.streams import Entropy

__all__ = ["find_reference", "measure_prio3"]

_CONTEXT = b"tacit bench"
_NAME = "vdaf_poc"
_PEER = "draft's reference"


def find_reference(folder: Path) -> ModuleType:
    """The reference's module of Prio3 in `folder`. Raises FileNotFoundError if the folder is not the draft's poc."""
    if not (folder / _NAME / "vdaf_prio3.py").is_file():
        raise FileNotFoundError(
            f"{folder}: there is no {_NAME}/vdaf_prio3.py; give the folder poc of a copy of cfrg/draft-irtf-cfrg-vdaf"
        )
    with _importable(folder):
        return importlib.import_module(f"{_NAME}.vdaf_prio3")


def measure_prio3(reference: ModuleType | None, quick: bool, turns: int) -> list[Standing]:
    """The reports per second that a client shards, and that the leader and the helper prepare.

    The tasks are a SumVec of 16-bit numbers, a Histogram, and one vote for each of many points. The last is Tacit's own
    circuit and has no peer.
    """
    length, points = (100, 100) if quick else (1000, 1000)
    peers: dict[str, Any] = {}
    sum_vec, histogram = Prio3.sum_vec(length, 16), Prio3.histogram(100)
    if reference is not None:
        chunks = (sum_vec.circuit.chunk_length, histogram.circuit.chunk_length)  # type: ignore[attr-defined]
        peers["sum_vec"] = reference.Prio3SumVec(2, length, (1 << 16) - 1, chunks[0])
        peers["histogram"] = reference.Prio3Histogram(2, 100, chunks[1])
    numbers, votes = [i * 61 % (1 << 16) for i in range(length)], [i % 10 for i in range(points)]
    rows = _tasks(f"Prio3SumVec, {length:,} numbers of 16 bits", sum_vec, numbers, peers.get("sum_vec"), turns)
    rows += _tasks("Prio3Histogram, 100 buckets", histogram, 42, peers.get("histogram"), turns)
    one_hot, narrow = Prio3.one_hot_vec(points, 10), Prio3.one_hot_vec(points, 10, field=FIELD64)
    title = f"votes for {points:,} points, 10 classes"
    rows += _tasks(f"{title}, Field128, one proof", one_hot, votes, None, turns)
    return rows + _tasks(f"{title}, Field64, three proofs", narrow, votes, None, turns)


def _tasks(title: str, prio3: Prio3, measurement: int | Sequence[int], peer: Any, turns: int) -> list[Standing]:
    entropy = Entropy.seeded(1, "benchmark", title)
    key, nonce, rand = (entropy.bytes(n) for n in (prio3.verify_key_bytes, prio3.nonce_bytes, prio3.rand_bytes))
    public, inputs = prio3.shard(_CONTEXT, measurement, nonce, rand)
    tasks: dict[str, dict[str, tuple[Action, float]]] = {
        "shard": {"Tacit": (lambda: prio3.shard(_CONTEXT, measurement, nonce, rand), 1)},
    }
    for j, name in enumerate(("leader", "helper")):
        tasks[f"prepare, {name}"] = {"Tacit": (_preparation(prio3, key, j, nonce, public, inputs[j]), 1)}
    if peer is not None:
        their_public, theirs = peer.shard(_CONTEXT, measurement, nonce, rand)
        field = peer.flp.field
        measured, proofs, blind = theirs[0]
        assert field.encode_vec(measured) + field.encode_vec(proofs) + blind == inputs[0]
        assert b"".join(their_public) == public
        tasks["shard"][_PEER] = (lambda: peer.shard(_CONTEXT, measurement, nonce, rand), 1)
        for j, name in enumerate(("leader", "helper")):
            action = _peer_preparation(peer, key, j, nonce, their_public, theirs[j])
            tasks[f"prepare, {name}"][_PEER] = (action, 1)
    rows = []
    for task, contenders in tasks.items():
        rows += race(f"{title}: {task}", contenders, turns)
    return rows


def _preparation(prio3: Prio3, key: bytes, j: int, nonce: bytes, public: bytes, share: bytes) -> Action:
    return lambda: prio3.prepare_init(key, _CONTEXT, j, nonce, public, share)


def _peer_preparation(peer: Any, key: bytes, j: int, nonce: bytes, public: Any, share: Any) -> Action:
    return lambda: peer.verify_init(key, _CONTEXT, j, None, nonce, public, share)


class _ReferenceFinder(MetaPathFinder, Loader):
    """Imports the reference's modules, also on Python 3.11, by replacing two features of Python 3.12.

    Type parameters of classes are removed, and `typing.override` is taken from typing_extensions.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        first, *rest = name.split(".")
        if first != _NAME:
            return None
        file = self._folder.joinpath(first, *rest)
        package = file.is_dir()
        file = file / "__init__.py" if package else file.with_suffix(".py")
        return spec_from_file_location(name, file, loader=self, submodule_search_locations=[] if package else None)

    def exec_module(self, module: ModuleType) -> None:
        file = Path(str(module.__file__))
        source = file.read_text(encoding="utf-8")
        if sys.version_info < (3, 12):
            source = re.sub(r"^class (\w+)\[.*\]\(", r"class \1(", source, flags=re.MULTILINE)
            source = source.replace("from typing import", "from typing_extensions import")
        exec(compile(source, str(file), "exec"), module.__dict__)


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Within this context the reference can be imported, with the installed pycryptodome as its pycryptodomex."""
    names = {
        "Cryptodome": Crypto,
        "Cryptodome.Cipher": Crypto.Cipher,
        "Cryptodome.Hash": Crypto.Hash,
    }
    added = [name for name in names if name not in sys.modules]
    finder = _ReferenceFinder(folder)
    sys.modules.update({name: names[name] for name in added})
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in added:
            del sys.modules[name]
