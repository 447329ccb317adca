"""Attacks by a server that repeats requests: in a later round, to a returned client, or for another draw of noise.

Clients run the production protocol, in the miniatures and runs of `tacit chaos --server`; each weakening removes one of
their checks. Sums are judged by a rank test of all that the server received, noise by the draws that clients sent.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

from tacit.benchmarks.attacks.finding import Finding, exposes, share
from tacit.parties.party import Party
from tacit.protocols.cells import cells
from tacit.protocols.cotraining import round as cotraining
from tacit.protocols.crypto.sealing import PairChannel
from tacit.protocols.identities import Identities
from tacit.protocols.sums import refusal, secure_sum
from tacit.protocols.xclp import xclp
from tacit.scenarios.chaos.server_lies import Program, fixed
from tacit.scenarios.chaos.server_noise import Asking, ask
from tacit.scenarios.chaos.server_world import Miniature
from tacit.scenarios.files.reading import load

__all__ = [
    "answers_again", "hashes_again", "keys_from_the_files_seed", "noisy_sums_again", "round_with_the_same_model",
    "shares_for_another_set",
]  # fmt: skip

Weakening = Callable[[], AbstractContextManager[Any]]


def _exposing(miniature: Miniature, programs: Iterable[Program]) -> Program | None:
    """Return the first of the programs from which the input of some client follows."""
    return next((program for program in programs if exposes(miniature, program)), None)


def _of_a_sum(
    name: str, weakened: AbstractContextManager[Any], miniature: Miniature, remark: str, quick: bool
) -> Finding:
    """Return what the fixed programs find; of these, `quick` tries on ours the one that breaks the weakened copy, and
    each fifth."""
    programs = list(fixed(miniature.clients, miniature.deals))
    with weakened:
        broken = _exposing(miniature, reversed(programs))
    tried = [broken, *programs[::5]] if quick and broken is not None else programs
    weak, ours = (float(one is not None) for one in (broken, _exposing(miniature, tried)))
    sought = f"server: the vector of one client, of {miniature.clients}"
    return Finding(name, sought, weak, ours, 0.0, 1, remark=remark)


def round_with_the_same_model(quick: bool = False) -> Finding:
    """A later round begins with the model of an earlier one, without one client, whose input is the difference of the
    sums."""
    weakened = patch.object(refusal, "may_answer", lambda me, basis, **_: True)
    remark = "inputs that follow from the model alone, as of training with whole batches or of trees"
    return _of_a_sum("a second round with the same model", weakened, Miniature("secure", 4, 3), remark, quick)


def shares_for_another_set(quick: bool = False) -> Finding:
    """One client is shown a small A, for which few shares recover its seed; the other clients are shown the whole A."""
    weakened = patch.object(PairChannel, "bind", lambda self, context: None)
    remark = "among five clients the attack does not work: fewest_left leaves no room for it"
    return _of_a_sum("seals that are not bound to A", weakened, Miniature("secure", 9, 3), remark, quick)


def _twice(scenario: str, changes: list[str], asking: Asking, weakened: Weakening) -> tuple[float, float, int]:
    """The share of clients that send two draws for one request, in the weakened copy and in ours; and the number of
    clients."""
    loaded = load(scenario, ["fault=[]", "expect={}", *changes])
    with weakened():
        weak = ask(loaded, asking)
    ours, count = ask(loaded, asking), loaded.data.clients
    return len(weak.twice) / count, len(ours.twice) / count, count


def _noise(name: str, sought: str, found: tuple[float, float, int]) -> Finding:
    weak, ours, count = found
    return Finding(name, f"server: {sought}", weak, ours, 0.0, count, remark="draws of noise can be averaged away")


def _without(where: Any) -> Weakening:
    """A weakening of clients: they do not consult their ledger in the module `where`."""
    return lambda: patch.object(where, "release", lambda *_: None)


def answers_again(quick: bool = False) -> Finding:
    """The server opens the last round of DP-FedCT under higher attempts."""
    found = _twice("fedct-private", [], Asking(2), _without(cotraining))
    return _noise("answers without a ledger", "clients whose labels it gets under a second draw of noise", found)


def hashes_again(quick: bool = False) -> Finding:
    """Clients whose connections were cut in their last step are called to the same round again."""
    changes = ["privacy.hash_epsilon=1", "protocol.deadline=10s", "protocol.bits=64"]
    found = _twice("xclp-direct", changes, Asking(at="xclp.label"), _without(xclp))
    return _noise("hashes without a ledger", "clients whose points it gets under other planes and flips", found)


def noisy_sums_again(quick: bool = False) -> Finding:
    """Clients of private cells whose connections were cut in their last step are asked for all sums again."""

    def weakened() -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(patch.object(cells, "release", lambda *_: None))
        stack.enter_context(patch.object(secure_sum, "_may_begin", lambda me, number: True))
        once, repeated = Party.once, ("deal", "sum.mask", refusal.MASKED)
        stack.enter_context(patch.object(Party, "once", lambda me, what: what in repeated or once(me, what)))
        return stack

    changes = ["data.clients=4", "protocol.min_clients=3", "cells.count=4", "cells.steps=1", "protocol.deadline=10s"]
    found = _twice("private-cells", changes, Asking(at="cells.label"), weakened)
    return _noise("sums without a ledger", "clients whose sums it gets with a second draw of noise", found)


def keys_from_the_files_seed(quick: bool = False) -> Finding:
    """A reader of the scenario's file computes the keys with which clients sign."""
    names = [f"client/{i}" for i in range(10)]

    def keys(**how: bool) -> list[bytes]:
        private: Mapping[str, bytes] = Identities.simulated(1, **how).private
        return [private[name] for name in names]

    return Finding(
        'long-term keys from the seed; ours follow `entropy = "os"`',
        "a reader of the file: the long-term keys of clients",
        share(keys(), keys(seeded=True)),
        share(keys(), keys(seeded=False)),
        0.0,
        len(names),
    )
