"""Observes a run: compares each round with the plaintext oracle, and collects losses and faults."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tacit.parties.data.sets import Dataset
from tacit.parties.data.splits import Shard
from tacit.parties.server import Loss
from tacit.protocols.experiment.simulated import (
    Ended,
    Ending,
    Prediction,
    Round,
    Simulated,
    accuracy,
    balanced_accuracy,
    counting,
)
from tacit.protocols.outcome import Reason, server_lost_at
from tacit.protocols.privacy.spent import Releasing, nothing_released
from tacit.protocols.rounds.observer import EndingsObserver, returned
from tacit.protocols.xclp import oracle
from tacit.protocols.xclp.blocks import NO_POINTS, Hashes, Rows, some_rows
from tacit.protocols.xclp.label_propagation import propagate
from tacit.protocols.xclp.xclp import Labels, Parameters, RoundRecord
from tacit.sim.faults import Fault
from tacit.sim.world import World

__all__ = ["Observer", "XclpRound"]


# A round beside the plaintext oracle: what each client must have got, and whether it did.


@dataclass(frozen=True, eq=False)
class Truth:
    """The oracle's values of a round: true if H is right, and the labels that each member must get for all its points.

    `tolerance`: the largest allowed difference of scores; `counts`: the number of labels of each class.
    """

    same_distances: bool = True
    labels: Mapping[str, Labels] = field(default_factory=dict)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    tolerance: float = 0.0

    def agrees(self, found: Mapping[str, Labels], parameters: Parameters) -> bool:
        """Return true if H, and the labels that clients have `found`, are right."""
        return self.same_distances and all(
            name in self.labels and self._equal(own, self.labels[name], parameters) for name, own in found.items()
        )

    def _equal(self, own: Labels, truth: Labels, parameters: Parameters) -> bool:
        if not self.tolerance:
            labels, confidence = truth.labels[own.rows], truth.confidence[own.rows]
            same_scores = np.array_equal(own.z, truth.z[own.rows])
        else:
            bits, recipe = parameters.fraction_bits, parameters.recipe
            off = np.abs((own.z - truth.z[own.rows]).view(np.int64))
            same_scores = bool((off <= self.tolerance * 2.0**bits).all())
            labels, confidence = oracle.judged(own.z, self.counts, bits, recipe.name)
            if recipe.relative:
                confidence = confidence / (confidence.max(initial=0.0) or 1.0)
        return same_scores and np.array_equal(own.labels, labels) and np.array_equal(own.confidence, confidence)


def truth_of(
    record: RoundRecord, bits: Sequence[NDArray[np.bool_]], known: Sequence[NDArray[np.int64]], parameters: Parameters
) -> Truth:
    """Compute the truth about a round from the `bits` of its members and the labels that they use, -1 elsewhere."""
    if not record.members:
        return Truth()
    if not record.contributors:
        return Truth(_same(record.h, oracle.hamming(np.concatenate(list(bits)))))
    plain = oracle.xclp(
        bits,
        known,
        [record.members.index(name) for name in record.contributors],
        parameters.classes,
        parameters.k,
        parameters.alpha,
        parameters.fraction_bits,
        parameters.recipe.name,
        parameters.rows,
        parameters.flip,
    )
    labels = {}
    for name, part in zip(record.members, plain.slices, strict=True):
        rows = np.arange(part.stop - part.start)
        labels[name] = Labels(rows, plain.z[part], plain.labels[part], plain.confidence[part])
    return Truth(_same(record.h, plain.distances), labels, plain.counts, plain.tolerance)


def _same(one: Rows, other: Rows) -> bool:
    """True if two matrices are equal."""
    return one.shape == other.shape and all(np.array_equal(one[rows], other[rows]) for rows in some_rows(one.shape[0]))


# Label propagation in the clear, on the hashes of a round: what a run is compared with.

Labelled = Mapping[str, NDArray[np.int64]]


def baselines(
    bits: Mapping[str, NDArray[np.bool_]], known: Labelled, parameters: Parameters, alone: bool
) -> dict[str, dict[str, NDArray[np.int64]]]:
    """Labels (n_j,) of each client's points, by the title of the baseline: each client alone, and all on one graph.

    `bits`: (n_j, L) of each. `known`: the labels that it uses, -1 elsewhere. `alone`: include the baseline of each
    client alone.
    """
    joint = np.concatenate(list(bits.values()))
    together = _labels(joint, np.concatenate([known[name] for name in bits]), parameters)
    ends = np.cumsum([len(own) for own in bits.values()])[:-1]
    return {
        "per-client label propagation": {
            name: _labels(own, known[name], parameters) for name, own in bits.items() if alone
        },
        "central label propagation": dict(zip(bits, np.split(together, ends), strict=True)),
    }


def _labels(bits: NDArray[np.bool_], known: NDArray[np.int64], parameters: Parameters) -> NDArray[np.int64]:
    found = propagate(
        Hashes(bits), parameters.bits, known, parameters.classes, parameters.k, parameters.alpha, parameters.recipe
    )
    return found.labels


Measure = Callable[[NDArray[np.int64], NDArray[np.int64]], float | None]
"""A measure of the labels found (n,) and the true ones."""

_BESIDE = 4096
"""The most points for which baselines are computed in parallel with the oracle; both together take much memory."""

_Titled = dict[str, dict[str, NDArray[np.int64]]]
"""The labels (n_j,) of each client, by the title of a baseline."""

_MEASURED = "the {} points of clients that got labels in the last round"


class XclpRound(Round, frozen=True, kw_only=True):
    """The results of one round of XCLP.

    `finished`: the server sent out all sums. `joined` is P, `members` Q, `contributors` the clients whose labels count
    (if it is not finished, the last announced ones), `labeled` the clients that got labels. `equals_plaintext`: true if
    H and all clients' labels are exact; None if no client got labels.
    """

    columns: ClassVar[tuple[str, ...]] = ("joined", "members", "contributors", "labeled", "oracle")
    finished: bool
    joined: tuple[str, ...]
    members: tuple[str, ...]
    contributors: tuple[str, ...]
    labeled: tuple[str, ...]
    equals_plaintext: bool | None

    def cells(self) -> tuple[str, ...]:
        counts = (str(len(names)) for names in (self.joined, self.members, self.contributors, self.labeled))
        return (*counts, _EQUAL[self.equals_plaintext])


_EQUAL = {True: "equal", False: "NOT EQUAL", None: "-"}


class _Ended(Struct, frozen=True):
    """A round as the server recorded it, without H; the expected result, None if not compared; its end time and
    step."""

    record: RoundRecord
    truth: Truth | None
    ended: float
    step: str

    def concerns(self, loss: Loss) -> bool:
        """Return true if it is a loss of this round and group."""
        return loss.round == self.record.number and self.record.is_among(loss.party)


def _ended(record: RoundRecord, time: float, step: str, truth: Truth | None = None) -> _Ended:
    return _Ended(replace(record, h=NO_POINTS), truth, time, step)  # h is a matrix of all points, each round


class _Baselines(Struct, frozen=True):
    """The hashes (n_j, L) and the labels of the clients that have hashed their points; `alone`: include each client
    alone."""

    bits: dict[str, NDArray[np.bool_]]
    known: dict[str, NDArray[np.int64]]
    alone: bool

    def same(self, other: "_Baselines") -> bool:
        """Return true if the other one has the same hash objects."""
        return list(self.bits) == list(other.bits) and all(self.bits[name] is other.bits[name] for name in self.bits)


class Observer(EndingsObserver[Any]):
    """Compares each round with the plaintext at its end, and summarizes the run.

    `clients` and `server`: those of `xclp`, or of a protocol that XCLP is a part of. `faults`: the expanded faults of
    each [[fault]]. `shards`: the points of each client, with the true labels. `compared`: compare with the oracle.
    `randomised` gives the privacy that randomised answers spend. `with_baselines`: also run label propagation in plain.
    """

    def __init__(
        self,
        world: World,
        dataset: Dataset,
        shards: Sequence[Shard],
        clients: Sequence[Any],
        server: Any,
        faults: Sequence[tuple[Fault, ...]],
        *,
        compared: bool = True,
        with_baselines: bool = True,
    ) -> None:
        super().__init__(world, clients, faults)
        self.compared, self.with_baselines = compared, with_baselines
        self.randomised: Releasing = nothing_released
        self._dataset, self._server = dataset, server
        self.shards: Mapping[str, Shard] = dict(zip(self._named, shards, strict=True))
        self._has_new = any(shard.new.any() for shard in shards)
        self._rounds_ended: list[_Ended] = []
        self._begun: tuple[_Baselines, Callable[[], _Titled]] | None = None

    def sum_up(self) -> Simulated:
        """The results, after all parties have ended."""
        server = self._server
        for record in self._unended():
            self.end_round(record)
        lost = self.losses()
        outcome, reason = self._outcome(lost)
        found = {n: c.labels for n, c in self._named.items() if c.alive and c.labels is not None}
        endings = self.endings()
        reported = [self._round(ended, lost) for ended in self._rounds_ended]
        compared = [one.equals_plaintext for one in reported if one.equals_plaintext is not None]
        matrices = [_digest_of(part.record.members, part.record.h) for part in server.parts if part.record.members]
        labels = {name: _everywhere(self.shards[name], own) for name, own in found.items()}
        baselines = self._baselines(list(found))
        return Simulated(
            outcome=outcome,
            reason=reason,
            measured_on=_MEASURED.format("new" if self._has_new else "unlabeled"),
            accuracy=self.score(accuracy, labels),
            balanced_accuracy=self.score(balanced_accuracy, labels),
            baselines=self.scores(accuracy, baselines),
            balanced_baselines=self.scores(balanced_accuracy, baselines),
            hamming_digest=_digest([one.encode() for one in matrices]) if len(matrices) > 1 else "".join(matrices),
            labels_digest=_digest(
                [part for name, own in found.items() for part in (name.encode(), own.labels, own.confidence, own.z)]
            ),
            lost=lost,
            round_records=list(reported),
            equals_plaintext=all(compared) if compared else None,
            predictions=self._predictions(found),
            randomised=self.randomised(max((one.record.number for one in self._rounds_ended), default=0)),
            endings=endings,
            silent=self._fault_record.silent(),
        )

    def ending(self, ended: Sequence[Ended]) -> Ending:
        """The end of a run on hollow values, from the rounds that the server reported."""
        now, step = self.world.loop.time(), self._server.step_name
        self._rounds_ended = [_ended(*one) for one in ended]
        self._rounds_ended += [_ended(record, now, step) for record in self._unended()]
        lost = self.losses()
        held = {one.record.number for one in self._rounds_ended if one.record.finished}
        return Ending(*self._outcome(lost), lost, len(held))

    def _unended(self) -> list[RoundRecord]:
        """The rounds that ended with the loss of the server."""
        ended = {(one.record.number, one.record.called) for one in self._rounds_ended}
        records = [part.record for part in self._server.parts]
        return [one for one in records if one.number and (one.number, one.called) not in ended]

    # Losses and the outcome

    def losses(self) -> list[Loss]:
        """The losses of all parties in each round: the step at which they went down, and the server's reaction.

        Losses that the server did not notice follow the noticed ones of the same round.
        """
        found = []
        for one in self._rounds_ended:
            reported = [loss for loss in self._server.lost if one.concerns(loss)]
            noticed = [self._fault_record.noticed(loss, one.record.began) for loss in reported]
            names = {loss.party for loss in noticed}
            found += noticed + [loss for loss in self._unnoticed(one) if loss.party not in names]
        return found

    def _unnoticed(self, ended: _Ended) -> list[Loss]:
        """The clients that went down in the round, or got no result, unless the server reported them."""
        record, server = ended.record, self._server
        later = [
            other.ended
            for other in self._rounds_ended
            if other.record.number > record.number and other.record.called == record.called
        ]
        end = min(later, default=self.world.loop.time())  # a client may be in the round still while the next begins
        falls = {
            name: self._fault_record.fall(name, record.began, ended.ended)
            or self._fault_record.fall(name, ended.ended, end)
            for name in self._named
            if record.is_among(name)
        }
        found = []
        first = server.parts[0].record
        next_began = min(
            (one.record.began for one in self._rounds_ended if one.record.number > record.number), default=end
        )
        fall = self._fault_record.fall(server.name, record.began if record.number > 1 else 0.0, next_began)
        if first.called != record.called or (not server.alive and first.number != record.number):
            pass
        elif not server.alive:
            action = "every client ends without it"
            found.append(Loss(server.name, server.step_name, action, record.number, fall.time if fall else end))
        elif fall is not None:
            found.append(Loss(server.name, fall.step, returned(server), record.number, fall.time))
        for name, fall in falls.items():
            if record.number in self._named[name].results:
                continue
            step, time = (fall.step or ended.step, fall.time) if fall else (ended.step, end)
            if record.finished and name in record.joined:
                action = "after the sum: it gets no labels, all others are unaffected"
                found.append(Loss(name, step, action, record.number, time))
            elif not record.finished and fall is not None:
                found.append(Loss(name, step, "nobody was left to miss it", record.number, time))
        return found

    def _outcome(self, lost: list[Loss]) -> tuple[str, Reason]:
        """The outcome, and the reason with the names of the lost clients.

        A run that loses all clients has failed, regardless of its end.
        """
        server, last = self._server, [part.record for part in self._server.parts]
        here = dict.fromkeys(
            loss.party for loss in lost if any(loss.round == one.number and one.is_among(loss.party) for one in last)
        )
        clients = [name for name in here if name in self._named]
        if here.keys() >= self._named.keys() or not any(client.alive for client in self._named.values()):
            why = Reason.of(server.aborted)
            return "failed", Reason("every client was lost: {why}", why=why) if why else Reason("every client was lost")
        if not server.alive:
            return "aborted", server_lost_at(server.step_name).with_lost(clients)
        if server.aborted:
            return "aborted", Reason.of(server.aborted).with_lost(clients)
        if not any(client.labels is not None for client in self._named.values()):
            return "failed", Reason("no client got its labels")
        early = [
            Reason("{clients}: {why}", clients=part.called, why=Reason.of(part.aborted))
            for part in server.parts
            if part.aborted
        ]
        return "completed", Reason("a group ended early: {why}", why=Reason.joined(early)) if early else Reason()

    # The plaintext

    def end_round(self, record: RoundRecord) -> None:
        """Compare a round that ends with the oracle while the clients' bits exist, so that H need not be kept."""
        truth = None
        last = record.finished and record.number == self._server.parameters.rounds and len(self._server.parts) == 1
        if last and (of := self._hashed()) and sum(map(len, of.bits.values())) <= _BESIDE:
            self._begun = (
                of,
                self.world.computing.beside(baselines, of.bits, of.known, self._server.parameters, of.alone),
            )
        if self.compared:
            members = [self._named[name] for name in record.members]
            bits = [client.bits_of_round for client in members if client.bits_of_round is not None]
            known = [_known(client.shard) for client in members]  # as the client uses them
            if record.members or not self._server.aborted:  # one that is back knows nothing of whom it gave labels
                truth = truth_of(record, bits, known, self._server.parameters)
        self._rounds_ended.append(_ended(record, self.world.loop.time(), self._server.step_name, truth))

    def _round(self, ended: _Ended, lost: list[Loss]) -> XclpRound:
        record = ended.record
        found = {
            n: client.results[record.number]
            for n, client in self._named.items()
            if record.number in client.results and record.is_among(n)
        }
        right = ended.truth.agrees(found, self._server.parameters) if ended.truth else None
        return XclpRound(
            round=record.number,
            began=record.began,
            finished=record.finished,
            joined=record.joined,
            members=record.members,
            contributors=record.contributors,
            labeled=tuple(found),
            lost=tuple(dict.fromkeys(loss.party for loss in lost if ended.concerns(loss))),
            equals_plaintext=right if found or right is False else None,
        )

    # Figures

    def score(self, measure: Measure, labels: Mapping[str, NDArray[np.int64]]) -> float | None:
        """The `measure` of clients' `labels` (n_j,) over the points that count; None if there are none."""
        pairs = [
            (found[counts], self.shards[name].labels[counts])
            for name, found in labels.items()
            for counts in (self._counting(name),)
        ]
        return measure(*(np.concatenate(column) for column in zip(*pairs, strict=True))) if pairs else None

    def scores(self, measure: Measure, titles: Mapping[str, Mapping[str, NDArray[np.int64]]]) -> dict[str, float]:
        """The measure of each set of labels, by its title, if there is one."""
        found = {title: self.score(measure, labels) for title, labels in titles.items()}
        return {title: value for title, value in found.items() if value is not None}

    def _counting(self, name: str) -> NDArray[np.bool_]:
        """The points of a client on which accuracy is measured."""
        shard = self.shards[name]
        return counting(shard.labels, shard.labeled, shard.new, self._has_new)

    def _baselines(self, survivors: list[str]) -> dict[str, dict[str, NDArray[np.int64]]]:
        """The labels of the `survivors`' points by label propagation in plain on the same hashes, without noise.

        There is one baseline for each client alone, unless clients with points that count have no labels; and one for
        all on one graph, with the points and labels of clients lost after hashing.
        """
        of = self._hashed() if survivors else None
        if of is None:
            return {}
        if self._begun is not None and self._begun[0].same(of):
            scores = self._begun[1]()
        else:
            scores = baselines(of.bits, of.known, self._server.parameters, of.alone)
        return {
            title: {name: own for name, own in labels.items() if name in survivors} for title, labels in scores.items()
        }

    def _hashed(self) -> "_Baselines | None":
        """The data for the baselines; None without any."""
        hashed = [
            client
            for client in self._named.values()
            if any(client.hashed_in == part.round and client.name in part.clients for part in self._server.parts)
        ]
        bits = {c.name: c.bits_as_hashed for c in hashed if c.bits_as_hashed is not None}
        if not bits or not self.with_baselines:
            return None
        known = {name: _known(self.shards[name]) for name in bits}
        alone = any(self._counting(name).any() and (own >= 0).any() for name, own in known.items())
        return _Baselines(bits, known, alone)

    def _predictions(self, found: dict[str, Labels]) -> list[Prediction]:
        classes = self._dataset.classes
        return [
            (name, self._own_name(row), row, classes[label] if label >= 0 else "", confidence)
            for name, own in found.items()
            for row, label, confidence in zip(
                self.shards[name].rows[own.rows].tolist(), own.labels.tolist(), own.confidence.tolist(), strict=True
            )
        ]

    def _own_name(self, row: int) -> str:
        """The data set's name for the client that a row belongs to."""
        names, clients = self._dataset.client_names, self._dataset.clients
        return "" if names is None or clients is None else names[clients[row]]


def _known(shard: Shard) -> NDArray[np.int64]:
    """The labels that the client may use, -1 elsewhere."""
    return np.where(shard.labeled, shard.labels, -1)


def _everywhere(shard: Shard, own: Labels) -> NDArray[np.int64]:
    labels = np.full(len(shard.labels), -1, dtype=np.int64)
    labels[own.rows] = own.labels
    return labels


def _digest(parts: Iterable[bytes | NDArray[np.generic]]) -> str:
    state = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes()
        state.update(len(data).to_bytes(8, "big") + data)
    return state.hexdigest()


def _digest_of(members: Sequence[str], h: Rows) -> str:
    """The digest of H (n, n) as int32, little-endian, row by row, among `members`."""
    size = h.shape[0]
    names = "|".join(members).encode()
    state = hashlib.sha256(len(names).to_bytes(8, "big") + names + (4 * size * size).to_bytes(8, "big"))
    for rows in some_rows(size):
        state.update(h[rows].astype("<i4").data)
    return state.hexdigest()
