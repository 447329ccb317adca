"""A secure sum in miniature, with the clients' real code and a server that lies.

Every client enrols in the real set-up and contributes to the real sum; after any end of its part, it waits for the next
round, like the clients of XCLP and of training. The server is either the production one with changed messages (`Lie`),
or follows a program (`Move`), ignoring what it receives. Randomness is fresh on each request, as with ``entropy =
"os"``, but follows from the seed.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Protocol

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from tacit.parties.client import Client, DismissedError
from tacit.parties.data.splits import Shard
from tacit.parties.life import Present
from tacit.parties.party import NoAnswer
from tacit.parties.playing import play
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto.agreement import SharedSecret
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.crypto.mersenne import Elements
from tacit.protocols.outcome import Abort, Overtaken, Withdrawn
from tacit.protocols.sums import committee, consistency, flamingo, lightsecagg, refusal, secure_sum
from tacit.protocols.sums.dealing import DealtKey, DealtKeys, Revealed, Survivors
from tacit.protocols.sums.decryptors import KeyRing
from tacit.protocols.sums.masking import Ring
from tacit.protocols.sums.members import drawn
from tacit.protocols.sums.neighbours import FreshKeys, Neighbours
from tacit.protocols.sums.refusal import Least
from tacit.protocols.values import BadValues
from tacit.protocols.xclp.rowsums import Candidates, MaskedRows, Restart, Scores, SecureRowSums, SummedRows, Summing
from tacit.protocols.xclp.rowsums_graph import Adjacent, InGraph
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.scenarios.chaos.miniature import DEADLINE, LARGE, WORDS, Miniature, around
from tacit.scenarios.chaos.presence_lies import deceive, watching_of
from tacit.scenarios.chaos.server_lies import OF_PRESENCE, Lie, Move, Program
from tacit.scenarios.chaos.server_rounds import RoundsView
from tacit.scenarios.chaos.server_view import CodedView, CommitteeView, Input, View, corrupt
from tacit.sim.compute import Free
from tacit.sim.streams import Entropy, generator
from tacit.sim.wire import Message
from tacit.sim.world import World

__all__ = ["LARGE", "Contribute", "Miniature", "Outcome", "contribute", "numbers", "perform", "performed"]


class Called(Message):
    """The call to a round that begins with model, or consensus, number `model`."""

    announces: ClassVar[bool] = True
    model: int


_SHORT = 1.0  # seconds, longer than a message and its answer take
_FRACTION_BITS = 32
_SETS_OF_BITS = (committee.SharesWanted, committee.CommitteeSurvivors, flamingo.RoundLabels)
_ROUNDS = 2
_MOST_ROUNDS = 4  # rounds, and models, that a program may reach
_NOTHING = Shard(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, bool), np.zeros(1, np.int64))

Values = NDArray[np.float64]


class Contribute(Protocol):
    """Runs a client's part in a sum, given its input (blocks, words) and its pairwise secrets."""

    def __call__(
        self, me: Client, values: Values, secrets: Mapping[str, SharedSecret], miniature: Miniature
    ) -> Awaitable[object]: ...


class Outcome(Struct, frozen=True):
    """The result of a program.

    `exposed`: the clients, fewer than allowed, a combination of whose inputs alone the server knows; `failure`: the
    error of a client's program, or "". `relations`: the number of masked blocks received; `opened`: the number of masks
    known from messages; `guessed`: the number of masks under keys that do not depend on the clients' randomness.
    `sent`: for each message type of the server the number of messages, true if they have names, and true if they have a
    number. `aborted`: the reasons of rounds without a sum.
    """

    exposed: tuple[str, ...]
    failure: str
    relations: int
    opened: int
    sent: tuple[tuple[str, int, bool, bool], ...]
    guessed: int = 0
    aborted: tuple[str, ...] = ()


async def contribute(me: Client, values: Values, secrets: Mapping[str, SharedSecret], miniature: Miniature) -> None:
    """Run a client's production code."""
    if miniature.of_vectors:
        assert isinstance(me, _Contributor)
        vector: NDArray[Any] = values.reshape(-1)
        if miniature.signs:
            vector = numbers(values)
        elif miniature.quantised is not None:
            vector = miniature.quantised.encode(vector)
        await miniature.sum.client(me, vector, me.group, miniature.settings)
    else:
        rows = {name: np.array([place], np.int64) for place, name in enumerate(miniature.names)}
        await _recovery(miniature).client(
            me, Scores(values, rows, secrets, _FRACTION_BITS, Least(miniature.min_clients)), DEADLINE
        )


def numbers(values: Values) -> Elements:
    """Real `values` of magnitude 1 at most as numbers of a field, for sums in that field."""
    return np.rint((values.reshape(-1) + 1) * (1 << 20)).astype(np.uint64)


def _recovery(miniature: Miniature) -> SecureRowSums:
    if miniature.kind == "shamir":
        return Shamir(miniature.threshold)
    return Restart() if miniature.kind == "restart" else InGraph()


def perform(miniature: Miniature, program: Program, part: Contribute = contribute) -> Outcome:
    """Run `program` as the server of clients that run `part`, and judge the messages that it received.

    Keys that are equal in a second run of the program with other randomness of the clients count as known.
    """
    view, sent, failure = performed(miniature, program, part, 0)
    twin, _, _ = performed(miniature, program, part, 1)
    known, relations, opened, guessed = view.judged(twin.keys, miniature.least)
    shown = tuple((kind, len(every), *_fields(every[0])) for kind, every in sent.items())
    return Outcome(known, failure, relations, opened, shown, guessed, view.aborted)


def performed(
    miniature: Miniature, program: Program, part: Contribute, drawing: int
) -> tuple[View | CommitteeView | CodedView, dict[str, list[Message]], str]:
    """Run `program`; return the server's view, messages and failures. `drawing` selects the clients' randomness."""
    world = _FreshWorld(miniature.seed, cost=Free(), hashed=False, watching=watching_of(program))
    world.drawing = drawing
    values = {
        (name, model): generator(miniature.seed, "input", name, model).uniform(-1, 1, (miniature.blocks, WORDS))
        for name in miniature.names for model in range(1, _MOST_ROUNDS + 1)
    }  # fmt: skip
    inputs: dict[Input, Ring] = {
        (name, model, block): row
        for (name, model), blocks in values.items()
        for block, row in enumerate(_as_summed(blocks, miniature))
    }
    clients = [_Contributor(world, name, values, miniature, part) for name in miniature.names]
    moves = [one for one in program if isinstance(one, Move)]
    lies = [one for one in program if isinstance(one, Lie)]
    if world.watching is not None:  # a server that lies about presence opens a sum among any clients that are left
        miniature = structs.replace(miniature, min_clients=1)
    server = _Scripted(world, miniature, moves, clients) if moves else _Lying(world, miniature, lies, clients)
    view: View | CommitteeView | CodedView
    if miniature.kind == "flamingo":
        view = RoundsView(world, [server, *clients], inputs, server.name, miniature.corrupt)
    elif miniature.signs:
        kind = CommitteeView if miniature.kind == "committee" else CodedView
        exact = {key: numbers(blocks) for key, blocks in values.items()}
        view = kind(world, clients, exact, server.name, miniature.assumed.colluding)
    else:
        view = View(world, [server, *clients], inputs, server.name, miniature.word_bits, miniature.corrupt)
    failure = ""
    try:
        world.loop.run(play([server, *clients], server))
    except Exception as error:
        if server.failure is not None:
            raise
        failure = f"{type(error).__name__}: {error}"
    finally:
        world.loop.finish()
    view.aborted = tuple(server.aborts)
    return view, server.sent, failure


def _as_summed(blocks: Values, miniature: Miniature) -> Ring:
    """The words of `blocks` in a sum."""
    quantised = miniature.quantised
    return encode(blocks, _FRACTION_BITS, miniature.clients) if quantised is None else quantised.encode(blocks)


def _fields(message: Message) -> tuple[bool, bool]:
    return hasattr(message, "names") or isinstance(message, _SETS_OF_BITS), hasattr(message, "number")


class _FreshWorld(World):
    """A world that draws new randomness each time, as from the operating system."""

    drawn = drawing = 0

    def entropy(self, *names: str | int) -> Entropy:
        self.drawn += 1
        return Entropy.seeded(self.seed, self.drawing, self.drawn, *names)


class _Contributor(Client):
    """A client that joins every announced round, and contributes its values for that round's model."""

    def __init__(
        self,
        world: World,
        name: str,
        values: Mapping[tuple[str, int], Values],
        miniature: Miniature,
        part: Contribute,
        **access: Any,
    ) -> None:
        super().__init__(world, name, _NOTHING, **access)
        self.group = setup.Group((), {}, {})
        self.values, self.miniature, self.part = values, miniature, part

    async def main(self) -> None:
        if self.name in self.miniature.names[: self.miniature.absent]:
            return
        while True:
            self.rest(True)
            try:
                call = await self.recv(Called, self.server, 1000 * DEADLINE)
            except DismissedError:
                continue
            except NoAnswer:
                return
            self.rest(False)
            if self.miniature.of_vectors and not refusal.may_answer(self, call.model.to_bytes(8, "big")):
                continue  # rows of scores need no refusal: their owners mask them
            with suppress(DismissedError, NoAnswer, BadValues, Overtaken, Withdrawn):
                if self.miniature.of_vectors:
                    self.group = await self.miniature.sum.join(self, DEADLINE, self.miniature.clients)
                else:
                    self.group, _ = await setup.client(self, DEADLINE)
                await self.part(self, self.values[self.name, call.model], self.group.secrets, self.miniature)


class _Calling(Server):
    """A server that opens rounds. `group`: the clients of the last round; `aborts`: the reasons of lost rounds."""

    miniature: Miniature
    aborts: list[str]
    group = setup.Group((), {}, {})

    async def call(self, number: int, model: int, least: int) -> setup.Group:
        """Call all clients to round `number`, which begins with `model`, and return the group that enrols.

        Raises Abort if fewer than `least` do.
        """
        self.advance(number, 0)
        self.advance(number, self.attempt + 1)
        self.broadcast(self.clients, Called(model))
        if self.miniature.of_vectors:
            self.group = await self.miniature.sum.gather(self, self.clients, least, DEADLINE, self.miniature.clients)
        else:
            self.group = await setup.server(self, self.clients, number, least, DEADLINE)
        return self.group

    @property
    def listed(self) -> tuple[str, ...]:
        """The clients of the last round, as sets of bits list them."""
        ring = KeyRing.of(self)
        return self.group.names if ring is None else ring.names


class _Lying(_Calling):
    """The production server with messages changed by `lies`. `sent` has the messages before the changes, by type."""

    def __init__(
        self, world: World, miniature: Miniature, lies: Sequence[Lie], machines: Sequence["_Contributor"] = ()
    ) -> None:
        super().__init__(world, miniature.names)
        self.miniature, self.lies, self.aborts = miniature, lies, []
        self._parties: Present[_Contributor] = Present(machines)
        self.sent: dict[str, list[Message]] = {}
        self._first: dict[str, tuple[int, int, tuple[str, ...]]] = {}

    async def main(self) -> None:
        model = 1  # stays the same after a lost round
        for number in range(1, _ROUNDS + 1):
            try:
                group = await self.call(number, model, self.miniature.min_clients)
                if self.miniature.of_vectors:
                    await self.miniature.sum.server(self, group, self.miniature.settings)
                else:
                    each = dict.fromkeys(group.names, 1)
                    candidates = Candidates(each, each, WORDS, self.miniature.min_clients)
                    await _recovery(self.miniature).server(self, candidates, DEADLINE)
                model += 1
            except Abort as abort:
                self.aborts.append(str(abort))
                self.dismiss(self.clients, str(abort))

    def send_each(self, receivers: Iterable[str], message: Message) -> None:
        receivers, kind = tuple(receivers), type(message).__name__
        every = self.sent.setdefault(kind, [])
        every.append(message)
        self._first.setdefault(kind, (self.round, self.attempt, receivers))
        shown = dict.fromkeys(receivers, message)
        more: list[tuple[str, Message]] = []
        stale = False
        for lie in self.lies:
            if (lie.message, lie.occurrence) != (kind, len(every)):
                continue
            who = "" if lie.client is None else f"client/{lie.client}"
            if lie.kind in OF_PRESENCE:
                deceive(self, lie.kind, who, self._parties[who])
            elif lie.kind == "twice":
                more += shown.items()
            elif lie.kind == "replay" and len(every) > 1:
                more += [(name, every[-2]) for name in receivers]
            elif lie.kind == "stale":
                stale = True
            elif lie.kind == "skip":
                shown.pop(who, None)
            elif lie.kind == "omit":
                shown = {name: self._without(one, who) for name, one in shown.items()}
            elif who in shown:
                shown[who] = self._changed(shown[who], lie.kind, who)
            elif lie.kind == "other":
                shown = {name: self._changed(one, lie.kind, who) for name, one in shown.items()}
        for name, one in (*shown.items(), *more):
            super().send_each((name,), one)
        if stale:
            self._send_stale(kind, every[0])

    def _send_stale(self, kind: str, message: Message) -> None:
        now = self.round, self.attempt
        self.round, self.attempt, receivers = self._first[kind]
        super().send_each(receivers, message)
        self.round, self.attempt = now

    def _without(self, message: Any, *names: str) -> Any:
        """A copy of `message` without its entries for these `names`."""
        if isinstance(message, _SETS_OF_BITS):
            kept = [name for name in committee.named(message.clients, self.listed) if name not in names]
            return structs.replace(message, clients=committee.bits(kept, self.listed))
        places = [place for place, name in enumerate(message.names) if name not in names]
        parallel = {
            key: [values[place] for place in places]
            for key in message.__struct_fields__
            if isinstance(values := getattr(message, key), list) and len(values) == len(message.names)
        }
        return structs.replace(message, **parallel)

    def _changed(self, message: Any, kind: str, who: str) -> Any:
        if kind == "other":
            return structs.replace(message, number=message.number + 1)
        of_bits = isinstance(message, _SETS_OF_BITS)
        names = committee.named(message.clients, self.listed) if of_bits else message.names
        others = [name for name in names if name != who]
        return self._without(message, *(others if kind == "alone" else others[-1:]))


class _Scripted(_Calling):
    """A server that makes the `moves`, and ignores the answers."""

    def __init__(
        self, world: World, miniature: Miniature, moves: Sequence[Move], machines: Sequence[_Contributor]
    ) -> None:
        super().__init__(world, miniature.names)
        self.miniature, self.moves, self._machines, self.aborts = miniature, moves, machines, []
        self._parties: Present[_Contributor] = Present(machines)
        self.sent: dict[str, list[Message]] = {}
        self._public: dict[str, bytes] = {}
        self._fresh: dict[str, FreshKeys] = {}
        self._vectors: dict[str, Any] = {}  # the latest vector of each client
        self._signatures: dict[tuple[int, tuple[str, ...], tuple[str, ...]], dict[str, bytes]] = {}
        self._model = 1
        self._near: dict[str, tuple[str, ...]] = {}  # the neighbourhood that each client was last shown

    async def main(self) -> None:
        await self._open(1)
        for move in self.moves:
            await getattr(self, f"move_{move.kind}")(self._names(move.names), self._names(move.to))

    def _names(self, numbers: Iterable[int]) -> list[str]:
        return [self.clients[number] for number in numbers]

    async def _open(self, number: int) -> None:
        with suppress(Abort):
            await self.call(number, self._model, 1)

    async def move_start(self, names: list[str], to: list[str]) -> None:
        self.advance(self.round, self.attempt + 1)
        await self.move_again(names, to)

    async def move_again(self, names: list[str], to: list[str]) -> None:
        if self.miniature.signs or self.miniature.kind == "flamingo":
            self.broadcast(to, self.miniature.sum.requests.others[0]())
            self._vectors |= (await self.collect(self.miniature.sum.masked[0], to, deadline=_SHORT)).answers
            return
        self.broadcast(to, secure_sum.SumStart() if self.miniature.of_vectors else Summing(names))
        if self.miniature.kind == "secagg+":
            fresh = await self.collect(FreshKeys, to, deadline=_SHORT)
            self._fresh |= fresh.answers
        elif self.miniature.deals:
            keys = await self.collect(DealtKey, to, deadline=_SHORT)
            self._public |= {name: answer.public_key for name, answer in keys.answers.items()}
        else:
            await self.collect(MaskedRows, to, deadline=_SHORT)

    async def move_ahead(self, names: list[str], to: list[str]) -> None:
        self.advance(min(self.round + 1, _MOST_ROUNDS), self.attempt)
        await self.move_again(names, to)

    async def move_keys(self, names: list[str], to: list[str]) -> None:
        fresh = {name: self._fresh[name] for name in names if name in self._fresh}
        public = {name: self._public[name] for name in names if name in self._public}
        nearby = around(fresh or public, self.miniature)
        self._near |= {name: nearby.get(name, ()) for name in to}
        for name in to if fresh else ():
            near = nearby.get(name, tuple(fresh))
            keys = [[fresh[one].channel_key for one in near], [fresh[one].public_key for one in near]]
            lives = [self.incarnations[one] for one in near]
            self.send(name, Neighbours(len(fresh), list(near), lives, *keys))
        for name in to if public and self.miniature.kind == "secagg+ rows" else ():
            near = nearby.get(name, tuple(public))
            places = [list(public).index(one) for one in near]
            self.send(name, Adjacent(list(public), places, [public[one] for one in near]))
        if public and self.miniature.kind in ("secure_sum", "shamir"):
            self.broadcast(to, DealtKeys(list(public), list(public.values())))
        if fresh or public:
            await self.collect(MaskedRows, to, deadline=_SHORT)

    async def move_want(self, names: list[str], to: list[str]) -> None:
        if self.miniature.kind == "committee":
            self.broadcast(to, committee.SharesWanted(committee.bits(names, self.group.names)))
            await self.collect(committee.SharesHeld, to, deadline=0.51 * DEADLINE)
            return
        chunks = self.miniature.of_vectors and not self.miniature.signs and self.miniature.kind != "flamingo"
        for number in range(self.miniature.blocks) if chunks else ():
            self.broadcast(to, secure_sum.ChunkWanted(number))
            await self.collect(secure_sum.MaskedChunk, to, deadline=_SHORT)

    async def move_left(self, names: list[str], to: list[str]) -> None:
        if self.miniature.signs:
            await self._show_survivors(tuple(names), to)
        elif self.miniature.kind == "flamingo":
            await self._show_labels(tuple(names), to)
        elif self.miniature.deals:
            for name in to:
                near = self._near.get(name, ())
                local = self.miniature.kind == "secagg+" and near
                self.send(name, Survivors([one for one in near if one in names] if local else names))
            await self.collect(Revealed, to, deadline=0.51 * DEADLINE)  # clients wait for shares half a deadline

    async def _show_survivors(self, survivors: tuple[str, ...], to: list[str]) -> None:
        """Show `to` the survivors U1, let the colluding clients sign U1 too, and send `to` all its signatures so
        far."""
        if not self.group.names:
            return
        names = self.group.names
        if self.miniature.kind == "committee":
            one = self.miniature.sum.limits(self.miniature.clients, len(names))
            signers = signed_names = drawn(self.group, one.members)
            collude = corrupt(self.group, one.members, self.miniature.assumed.colluding)
            answer: type[Message] = committee.CommitteeSum
            self.broadcast(
                to, committee.CommitteeSurvivors(committee.bits(signers, signers), committee.bits(survivors, names))
            )
        else:
            collude = names[-self.miniature.assumed.colluding :]
            signers, signed_names, answer = survivors, names, lightsecagg.CodedSum
            self.broadcast(to, lightsecagg.CodedSurvivors(list(survivors)))
        signed = self._signatures.setdefault((self.attempt, signers, survivors), {})
        for machine in map(self._parties.__getitem__, collude):
            keys = machine.group.identities
            if keys is not None and machine.group.digest == self.group.digest and machine.attempt == self.attempt:
                signed[machine.name] = await consistency.signature_of(machine, keys, signed_names, survivors)
        honest = [name for name in signers if name not in collude]
        found = await self.collect(consistency.Agreed, honest, deadline=_SHORT)
        signed |= {name: answer.signature for name, answer in found.answers.items()}
        known = {name: signature for name, signature in signed.items() if name in signers}
        self.broadcast(to, consistency.Agreement([signers.index(name) for name in known], list(known.values())))
        await self.collect(answer, to, deadline=_SHORT)

    async def _show_labels(self, survivors: tuple[str, ...], to: list[str]) -> None:
        """Show `to` the survivors, let the colluding decryptors sign them too, and ask `to` to open the sum."""
        ring = KeyRing.of(self)
        if ring is None or not set(survivors) <= self._vectors.keys():
            return
        now = flamingo.Round(ring, self.round, self.world.run_id, self.miniature.tolerates, self.miniature.clients)
        asked = [name for name in ring.decryptors if name in to]
        self.broadcast(asked, flamingo.RoundLabels(committee.bits(survivors, ring.names)))
        signed = self._signatures.setdefault((self.attempt, ring.decryptors, survivors), {})
        collude = [name for name in ring.decryptors if name in self.miniature.corrupt]
        for machine in map(self._parties.__getitem__, collude):
            own = KeyRing.of(machine)
            if own is not None and own.digest == ring.digest and machine.attempt == self.attempt:
                keys = own.identities(machine, None)
                signed[machine.name] = await consistency.signature_of(machine, keys, now.statement, survivors)
        honest = [name for name in asked if name not in collude]
        found = await self.collect(consistency.Agreed, honest, deadline=_SHORT)
        signed |= {name: answer.signature for name, answer in found.answers.items()}
        places = [ring.decryptors.index(name) for name in signed]
        lives = [self.incarnations[name] for name in signed]
        seeds = flamingo.to_open(now, self._vectors, survivors)
        for name in asked:
            shares = [self._vectors[one].shares[ring.decryptors.index(name)] for one in survivors]
            self.send(name, flamingo.RoundOpening(places, lives, list(signed.values()), shares, seeds))
        await self.collect(flamingo.RoundOpened, asked, deadline=_SHORT)

    async def move_end(self, names: list[str], to: list[str]) -> None:
        zeros = bytes(8 * WORDS)
        self.broadcast(to, self.miniature.sum.requests.done() if self.miniature.of_vectors else SummedRows(zeros))
        await self.collect(SummedRows, to, deadline=_SHORT)  # none answers; clients receive the message meanwhile

    async def move_reopen(self, names: list[str], to: list[str]) -> None:
        self.dismiss(self.clients, "the round is opened once more")
        await self._open(self.round)

    async def move_next(self, names: list[str], to: list[str]) -> None:
        self._model = min(self._model + 1, _MOST_ROUNDS)
        await self.move_stay(names, to)

    async def move_back(self, names: list[str], to: list[str]) -> None:
        self._model = 1
        await self.move_stay(names, to)

    async def move_stay(self, names: list[str], to: list[str]) -> None:
        self.dismiss(self.clients, "the next round begins")
        await self._open(min(self.round + 1, _MOST_ROUNDS))

    async def move_crash(self, names: list[str], to: list[str]) -> None:
        for machine in self._machines:
            if machine.name in names:
                machine.device.crash()
                machine.device.rejoin()
