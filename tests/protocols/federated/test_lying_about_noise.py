"""Servers that lie about survivors to have noise removed that is needed: what is revealed, and the noise that is left.

In each of them one client colludes: the server has its long-term key, and signs with it whatever it likes.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacit.parties.client import Client
from tacit.parties.server import Server
from tacit.protocols import setup
from tacit.protocols.crypto import quorum
from tacit.protocols.crypto.quorum import Assumed
from tacit.protocols.crypto.regular_graph import Tolerance
from tacit.protocols.federated.dp_fedavg import Clipped
from tacit.protocols.federated.method import Method
from tacit.protocols.federated.noisy_changes import NoisyChanges
from tacit.protocols.identities import Identities
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.removable import Kind
from tacit.protocols.sums import consistency, dealing, removal, secure_sum
from tacit.protocols.sums.committee import ByCommittee
from tacit.protocols.sums.consistency import Agreed, Agreement
from tacit.protocols.sums.dealing import Revealed, Survivors
from tacit.protocols.sums.flamingo import Flamingo
from tacit.protocols.sums.lightsecagg import CodedSum, CodedSurvivors, LightSecAgg
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.sums.sum import SumSettings
from tacit.sim.faults import Crash, Fault
from tests.protocols.federated.rounds import Rounds, run_rounds, training_settings
from tests.protocols.federated.test_noisy_changes import CLIENTS, CLIP, FIRST, SHARDS, SPEC, STILL, noise_of, sent

COLLUDING = "client/0"
SIGNED = Identities.simulated(1).withstanding(1)


def signed_by_colluding(me: Server, names: Sequence[str], survivors: Sequence[str], among: bytes) -> Any:
    """The signature of the colluding client on any sets."""
    acting = SimpleNamespace(
        name=COLLUDING, incarnation=1, round=me.round, attempt=me.attempt, world=me.world, compute=me.compute
    )
    return consistency.signature_of(acting, SIGNED.bound(among), names, survivors)  # type: ignore[arg-type]


def left_of(noise: Distributed, survivors: Sequence[str], revealed: dict[str, int]) -> Fraction:
    """The variance in a sum over `survivors` that the server, with the colluding client, does not know."""
    parts = noise.parts(CLIENTS)
    total = Fraction(0)
    for name in survivors:
        if name != COLLUDING:
            gone = parts.removed(revealed[name]) if name in revealed else ()
            total += sum((one for k, one in enumerate(parts.variances) if k not in gone), Fraction(0))
    return total


@pytest.mark.parametrize("components", ["all", "log2"])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_sets_a_server_shows_the_components_that_are_left_have_the_variance(
    monkeypatch: pytest.MonkeyPatch, components: Kind, seed: int
) -> None:
    """It shows each client one of two sets, gathers signatures, adds that of the colluding client to both, and asks
    again. All that answers is one set at most, and of its honest clients' components at least V is left."""
    random, noise = np.random.default_rng(seed), noise_of(components=components)
    shown: dict[str, tuple[str, ...]] = {}
    revealed: dict[str, bytes] = {}
    answered: set[str] = set()

    async def lying(me: Server, attempt: Any, survivors: tuple[str, ...], *rest: Any) -> Any:
        gone = [int(random.integers(0, 3)) for _ in range(2)]  # up to T
        sets = [
            tuple(name for name in survivors if name not in {*random.permutation(survivors[1:])[:lost]})
            for lost in gone
        ]
        among = attempt.identities.among
        for name in survivors:
            able = [one for one in sets if name in one]
            if able:
                shown[name] = able[int(random.integers(len(able)))]
                me.send(name, Survivors(list(shown[name])))
        found = (await me.collect(Agreed, survivors, deadline=2.0)).answers
        for one in dict.fromkeys(shown.values()):
            signatures = {name: found[name].signature for name in found if shown.get(name) == one}
            signatures[COLLUDING] = await signed_by_colluding(me, attempt.names, one, among)
            places = [one.index(name) for name in signatures if name in one]
            for name in one:
                me.send(name, Agreement(places, [signatures[one[place]] for place in places]))
        answered.update((await me.collect(Revealed, survivors, deadline=2.0)).answers)
        seeds = (await me.collect(removal.NoiseSeeds, survivors, deadline=2.0)).answers
        revealed.update({name: message.seeds for name, message in seeds.items()})
        return await honest(me, attempt, survivors, *rest)

    honest = dealing.uncover
    monkeypatch.setattr(dealing, "uncover", lying)
    ran(SecAgg(identities=SIGNED, of_run=Assumed(CLIENTS, 1, 0), noise=noise), noise)
    opened = {shown[name] for name in answered if name != COLLUDING}
    assert answered or len({*shown.values()}) > 1
    assert len(opened) <= 1 and {*revealed} <= {name for name in answered}
    for one in opened:
        lost = CLIENTS - len(one)
        assert left_of(noise, one, dict.fromkeys(revealed, lost)) >= noise.variance


def ran(one: Any, noise: Distributed, *faults: Fault, rounds: int = 1, **changes: Any) -> Rounds:
    averaging, private = NoisyChanges(one), Clipped(CLIP, 0.0, "clients", noise)
    settings = training_settings(
        SPEC, STILL, Method(), CLIENTS, rounds=rounds, private=private, averaging=averaging, min_clients=2,
        deadline=10.0, **changes,
    )  # fmt: skip
    return run_rounds(settings, SHARDS, FIRST, faults)


def noise_for(one: Any, **changes: Any) -> Distributed:
    return replace(noise_of(**changes), primes=one.primes)


def of(kind: type[Any], **changes: Any) -> Any:
    one = kind(Tolerance(0.1, 0.12), identities=SIGNED, of_run=Assumed(CLIENTS, 1, 0), **changes)
    return replace(one, noise=noise_for(one))


def test_a_server_that_shows_two_sets_of_coded_sums_gets_seeds_for_one_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    one = of(LightSecAgg)
    witness, seeds = consistency.witness, list[str]()

    async def lying(me: Server, identities: Any, names: Any, survivors: Any, *rest: Any) -> Any:
        """The honest set has been shown; now all but the last are shown a smaller one, signed by those who answer."""
        smaller = survivors[:-1]
        me.broadcast(smaller, CodedSurvivors(list(smaller)))
        found = (await me.collect(Agreed, survivors, deadline=2.0)).answers
        for shown in (survivors, smaller):
            places, signatures = [], []
            for name in shown:
                signature = found[name].signature if name in found else b""
                if name == COLLUDING:
                    signature = await signed_by_colluding(me, names, shown, identities.among)
                places.append(shown.index(name))
                signatures.append(signature)
            me.broadcast(shown, Agreement(places, signatures))
        await me.collect(CodedSum, survivors, deadline=2.0)
        seeds.extend((await me.collect(removal.NoiseSeeds, survivors, deadline=2.0)).answers)
        return list(survivors)

    monkeypatch.setattr(consistency, "witness", lying)
    found = ran(one, one.noise)
    assert witness is not lying and sent(found.world, "NoiseSeeds") == len(seeds) == CLIENTS


@pytest.mark.parametrize(("short", "reveals"), [(0, True), (1, False)])
@pytest.mark.parametrize("kind", [ByCommittee, Flamingo])
def test_a_client_that_is_shown_one_signature_too_few_reveals_nothing(
    monkeypatch: pytest.MonkeyPatch, kind: type[Any], short: int, reveals: bool
) -> None:
    """With q - 1 signatures of members, clients keep their seeds, members and others alike."""
    send = Server.broadcast

    def lying(self: Server, parties: Sequence[str], message: Any) -> None:
        if short and isinstance(message, removal.SignedSurvivors):
            message = replaced(message, message.signatures[:-short], message.places[:-short])
        send(self, parties, message)

    def replaced(message: Any, signatures: list[bytes], places: list[int]) -> Any:
        lives = message.incarnations[: len(places)]
        return removal.SignedSurvivors(message.members, message.clients, places, lives, signatures)

    monkeypatch.setattr(Server, "broadcast", lying)
    found = ran(of(kind), of(kind).noise)
    assert sent(found.world, "SignedSurvivors") == CLIENTS
    assert sent(found.world, "NoiseSeeds") == (CLIENTS if reveals else 0)
    assert len(found.records[0].averaged) == CLIENTS  # with all of the noise


@pytest.mark.parametrize("kind", [ByCommittee, Flamingo])
def test_a_client_reveals_for_no_set_but_that_which_is_signed(monkeypatch: pytest.MonkeyPatch, kind: type[Any]) -> None:
    """The server drops a client from the signed set, which would remove less, or names one more."""
    send = Server.broadcast

    def lying(self: Server, parties: Sequence[str], message: Any) -> None:
        if isinstance(message, removal.SignedSurvivors):
            octets = np.frombuffer(message.clients, np.uint8).copy()
            octets[0] ^= 0b0100_0000  # of the second client
            message = removal.SignedSurvivors(
                message.members, octets.tobytes(), message.places, message.incarnations, message.signatures
            )
        send(self, parties, message)

    monkeypatch.setattr(Server, "broadcast", lying)
    found = ran(of(kind), of(kind).noise)
    assert sent(found.world, "SignedSurvivors") == CLIENTS and sent(found.world, "NoiseSeeds") == 0


@pytest.mark.parametrize("restarted", ["clients", "server", "nobody"])
def test_no_seeds_of_a_second_set_after_restarts(monkeypatch: pytest.MonkeyPatch, restarted: str) -> None:
    """The server names a smaller set once it has the seeds of the first one, also to clients that are back, and after
    it is back itself."""
    noise = noise_of(rounds=2)
    seen: list[tuple[str, int, bytes]] = []
    uncover = dealing.uncover

    async def twice(me: Server, attempt: Any, survivors: tuple[str, ...], *rest: Any) -> Any:
        found = await uncover(me, attempt, survivors, *rest)
        if me.round == 1:
            first = (await me.collect(removal.NoiseSeeds, survivors, deadline=2.0)).answers
            seen.extend((name, 1, message.seeds) for name, message in first.items())
            await me.world.loop.hold(5.0)
            smaller = survivors[:-1]
            me.broadcast(smaller, Survivors(list(smaller)))
            signatures = (await me.collect(Agreed, smaller, deadline=2.0)).answers
            names = [name for name in smaller if name in signatures]
            me.broadcast(smaller, Agreement(list(range(len(names))), [signatures[n].signature for n in names]))
            again = (await me.collect(removal.NoiseSeeds, smaller, deadline=2.0)).answers
            seen.extend((name, 1, message.seeds) for name, message in again.items())
        return found

    monkeypatch.setattr(dealing, "uncover", twice)
    parties = {"clients": [f"client/{i}" for i in range(CLIENTS)], "server": ["server"], "nobody": []}[restarted]
    step = {"clients": "sum.reveal", "server": "sum.collect", "nobody": ""}[restarted]
    faults = [Crash(name, after=step, back_after="1s") for name in parties]
    one = SecAgg(identities=SIGNED, of_run=Assumed(CLIENTS, 1, 0), noise=noise)
    ran(one, noise, *faults, rounds=2)
    assert len(seen) == len({name for name, _, _ in seen}) == CLIENTS


def test_seeds_are_revealed_once_a_round_even_if_shares_were_revealed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that answer any set: they sign and open a second one, and reveal no seeds for it."""
    uncover, answers = dealing.uncover, list[tuple[int, int]]()

    async def twice(me: Server, attempt: Any, survivors: tuple[str, ...], *rest: Any) -> Any:
        found = await uncover(me, attempt, survivors, *rest)
        first = (await me.collect(removal.NoiseSeeds, survivors, deadline=2.0)).answers
        smaller = survivors[:-1]
        me.broadcast(smaller, Survivors(list(smaller)))
        signatures = (await me.collect(Agreed, smaller, deadline=2.0)).answers
        me.broadcast(smaller, Agreement(list(range(len(smaller))), [signatures[n].signature for n in smaller]))
        opened = (await me.collect(Revealed, smaller, deadline=2.0)).answers  # some of them late ones of the first set
        again = (await me.collect(removal.NoiseSeeds, smaller, deadline=2.0)).answers
        answers.extend([(len(first), len(opened)), (len(again), 0)])
        return found

    def accepts(self: dealing.Dealt, me: Client, names: Sequence[str]) -> bool:
        self.shown = None  # and forget the signatures on the set before
        return True

    monkeypatch.setattr(dealing, "uncover", twice)
    monkeypatch.setattr(dealing.Dealt, "accepts", accepts)
    noise = noise_of()
    ran(SecAgg(identities=SIGNED, of_run=Assumed(CLIENTS, 1, 0), noise=noise), noise)
    assert answers == [(CLIENTS, CLIENTS - 1), (0, 0)]


@pytest.mark.parametrize("chunk", [2, 4])
def test_a_client_lost_amid_chunks_has_the_others_send_the_same_bytes_again(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Fresh noise under the same masks would halve it. 650 numbers are four chunks."""
    noise, chunks = noise_of(), dict[tuple[str, int], list[bytes]]()
    settings, send = SecAgg._settings, Client.send

    def small(self: Any, group: Any, asked: Any) -> Any:
        return replace(settings(self, group, asked), chunk=200)

    def noting(self: Client, receiver: str, message: Any) -> None:
        if isinstance(message, secure_sum.MaskedChunk):
            chunks.setdefault((self.name, message.number), []).append(bytes(message.values))
        send(self, receiver, message)

    monkeypatch.setattr(SecAgg, "_settings", small)
    monkeypatch.setattr(Client, "send", noting)
    one = SecAgg(identities=SIGNED, of_run=Assumed(CLIENTS, 1, 0), noise=noise)
    found = ran(one, noise, Crash("client/3", message="MaskedChunk", occurrence=chunk))
    assert len(found.records[0].averaged) == CLIENTS - 1
    for name in found.records[0].averaged:
        first, *others = chunks[name, 0]
        assert others == [first] and {number for who, number in chunks if who == name} == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", [LightSecAgg, ByCommittee, Flamingo])
def test_unsigned_removable_noise_is_refused_by_every_party_of_a_sum(kind: type[Any]) -> None:
    with pytest.raises(ValueError, match="only where clients sign the survivors with long-term keys"):
        ran(replace(of(kind), identities=None), of(kind).noise)
    whole = replace(of(kind).noise, components="none")
    assert len(ran(replace(of(kind), identities=None, noise=whole), whole).records[0].averaged) == CLIENTS


def test_unsigned_removable_noise_is_refused_by_the_settings_of_a_sum() -> None:
    noise = noise_of()
    with pytest.raises(ValueError, match="only where clients sign"):
        secure_sum.Settings(noise.numbers, word_bits=noise.word_bits, noise=noise)
    with pytest.raises(ValueError, match="signatures withstand 0 colluding clients"):
        secure_sum.Settings(noise.numbers, noise=noise, identities=Identities.simulated(1).withstanding(0))
    with pytest.raises(ValueError, match="only where clients sign"):
        secure_sum.Settings(noise.numbers, noise=noise, tolerance=Tolerance(0.1, 0.1), called=CLIENTS)
    secure_sum.Settings(noise.numbers, noise=replace(noise, components="none"))


@pytest.mark.parametrize("components", ["all", "none"])
@pytest.mark.parametrize("clients", range(6, 40))
def test_no_client_is_uncovered_by_half_of_the_honest_clients_and_the_one_whose_noise_is_not_counted(
    components: Kind, clients: int
) -> None:
    """Both secrets of a client take t shares each, of which the colluding client gives one of both kinds.

    Without the one that colludes in t, a lying server read a client of 21 under a fifteenth of the noise.
    """
    noise = Distributed(noise_of().rounding, 4.0, 1e-5, 1, clients, 1, 2, components)
    one = SecAgg(of_run=Assumed(clients, 0, 0), identities=SIGNED, noise=noise)
    group = setup.Group(tuple(map(str, range(clients))), {}, {}, identities=SIGNED)
    found = one._settings(group, SumSettings(noise.numbers, clients, 2, word_bits=noise.word_bits))
    threshold = quorum.threshold_of(found.threshold, clients, found.colluding)
    assert 2 * (threshold - noise.colluding) > clients - noise.colluding
