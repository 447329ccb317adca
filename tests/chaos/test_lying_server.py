"""A lying server learns no client's input from honest clients, but does from a weakened copy of them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from numpy.typing import NDArray
from typer.testing import CliRunner, Result

from tacit import load
from tacit.parties.client import Client
from tacit.parties.party import Party
from tacit.protocols.crypto import shamir
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair, SharedSecret
from tacit.protocols.crypto.dealt_secrets import SHARE, personal_key
from tacit.protocols.crypto.fixed_point import encode
from tacit.protocols.crypto.masking import joined, masks
from tacit.protocols.sums import consistency, refusal, secure_sum
from tacit.protocols.sums.dealing import DealtKey, DealtKeys, DealtShares, Revealed, Survivors
from tacit.protocols.sums.lying.relations import Relation, exposed
from tacit.protocols.sums.secure_sum import ChunkWanted, MaskedChunk, SumDone, SumStart
from tacit.protocols.xclp import rowsums, rowsums_shamir
from tacit.scenarios.chaos import server
from tacit.scenarios.chaos.server import Sweep, run_trial, sums_of, sweep
from tacit.scenarios.chaos.server_lies import Lie, Program, parse, programs, single_lies, text
from tacit.scenarios.chaos.server_world import Miniature, Outcome, perform
from tacit.scenarios.command.main import app

SUM = Miniature("secure", clients=4, min_clients=2)
SUMS = [SUM, *(Miniature(kind, clients=4, min_clients=2) for kind in ("restart", "secure rows", "secagg+ rows"))]
VECTORS = ("secure", "secagg+", "committee", "lightsecagg", "flamingo")
SCENARIOS = Path(__file__).parents[2] / "scenarios" / "library"

SIGNING = [Miniature(kind, clients=4, min_clients=2) for kind in ("committee", "lightsecagg")]

ALL = "keys 0 1 2 3; want 0 1 2 3"
ALL_FIVE = "keys 0 1 2 3 4; want 0 1 2 3 4"
SECOND_ATTEMPT = f"start 0 1 2 3; {ALL}; left 0 1 2 3; start 0 1 2; keys 0 1 2; want 0 1 2; left 0 1 2"
LIES = {
    "one sum of all, one of all but one": (SECOND_ATTEMPT, "client/3"),
    "an attempt that begins twice": (SECOND_ATTEMPT.replace("start 0 1 2;", "again 0 1 2;"), "client/3"),
    "two sets left, of two attempts": (
        f"start 0 1 2 3; {ALL}; left 0 1 2; start 0 1 2 3; {ALL}; left 0 1 2 3",
        "client/3",
    ),
    "a round opened twice": (SECOND_ATTEMPT.replace("start 0 1 2;", "reopen; start 0 1 2;"), "client/3"),
    "a client that has come back": (
        SECOND_ATTEMPT.replace("start 0 1 2;", "crash 0; crash 1; crash 2; reopen; start 0 1 2;"), "client/3",
    ),
    "a sum of one": ("start 0; keys 0; want 0; left 0", "client/0"),
    "a sum of one, beside that of the others": (
        "start 0 1 2 3; keys 0; keys 0 1 2 3 to 1 2 3; want 0 1 2 3; left 0; left 1 2 3", "client/0",
    ),
}  # fmt: skip


# The rank test


def relation(inputs: str, masks: str = "") -> Relation:
    """A relation such as ``relation("+a -b", "+m")``: clients' inputs on one block, and masks."""
    named = {(word[1:], 1, 0): int(word[0] + "1") for word in inputs.split()}
    return Relation(named, {(word[1:].encode(), 0): int(word[0] + "1") for word in masks.split()})


@pytest.mark.parametrize(
    ("relations", "least", "found"),
    [
        ([relation("+a +b +c")], 3, ()),
        ([relation("+a +b +c")], 4, ("a", "b", "c")),
        ([relation("+a +b +c"), relation("+a +b")], 2, ("c",)),
        ([relation("+a +b +c +d"), relation("+c +d")], 3, ("a", "b")),
        ([relation("+a", "+m"), relation("+b", "-m")], 2, ()),
        ([relation("+a", "+m"), relation("+b", "-m"), relation("", "+m")], 2, ("a",)),
        ([relation("+a", "+m"), relation("+b", "-m"), relation("+b", "+m")], 2, ("a",)),  # 2 a
        ([relation("+a", "+m +n"), relation("", "+m -n")], 2, ("a",)),  # modulo 2: multiplying both by 2^63 shows it
        ([relation("+a", "+m +n"), relation("", "+m +o")], 2, ()),
    ],
)
def test_inputs_that_follow_from_known_sums_are_exposed(
    relations: list[Relation], least: int, found: tuple[str, ...]
) -> None:
    assert exposed(relations, [], least) == found


def test_a_known_mask_hides_no_input() -> None:
    relations = [relation("+a", "+m"), relation("+b", "-m")]
    assert exposed(relations, [(b"m", 0)], 2) == ("a",)


# A weakened copy of the client


WAIT = 200.0


def split(
    pair: KeyPair, public_keys: list[bytes], secrets: list[bytes], threshold: int, entropy: shamir.Entropy
) -> tuple[list[bytes], list[bytes]]:
    dealt = shamir.split(secrets, threshold, len(public_keys) + 1, entropy)
    return [pair.agree(key) for key in public_keys], [row.tobytes() for row in dealt]


class Obedient:
    """A client's part in a sum that does whatever the server asks.

    It believes the server about the members and the survivors, and masks the same vector in every attempt. In each
    attempt it answers one U3. The mathematics is that of production.
    """

    def __init__(self, me: Client, values: NDArray[np.float64], secrets: Mapping[str, SharedSecret]) -> None:
        self.me, self.values, self.secrets = me, values, secrets
        self.names: list[str] = []
        self.answered = False

    async def main(self, miniature: Miniature) -> None:
        me = self.me
        while True:
            answer = await me.recv((SumStart, ChunkWanted, Survivors, SumDone), me.server, WAIT)
            if isinstance(answer, SumDone):
                return
            if isinstance(answer, SumStart):
                await self.deal()
            elif isinstance(answer, ChunkWanted) and self.names:
                await self.mask(answer.number % miniature.blocks, miniature.clients)
            elif isinstance(answer, Survivors) and self.may_answer(answer.names):
                await self.reveal(answer.names)

    def may_answer(self, survivors: list[str]) -> bool:
        enough = bool(self.names) and len(survivors) > len(self.names) // 2
        return enough and self.me.name in survivors and not self.answered

    async def deal(self) -> None:
        me = self.me
        with me.step("sum.deal"):
            private, seed = (me.entropy(purpose).bytes(KEY_BYTES) for purpose in ("dealt x25519", "personal seed"))
            pair = KeyPair(private)
            me.send(me.server, DealtKey(pair.public))
            announced = await me.recv(DealtKeys, me.server, WAIT)
            names = announced.names
            others = [name for name in names if name != me.name]
            theirs = [key for name, key in zip(names, announced.public_keys, strict=True) if name != me.name]
            raw, shares = await me.compute(
                {}, split, pair, theirs, [private, seed], len(names) // 2 + 1, me.entropy("shares")
            )
            self.pairs = {
                name: SharedSecret(secret, me.world.run_id, me.round, self.secrets[name].names)
                for name, secret in zip(others, raw, strict=True)
            }
            for name, share in zip(names, shares, strict=True):
                if name != me.name:
                    me.send(name, DealtShares(share))
            title = f"{me.name}#{me.incarnation}"
            self.personal = personal_key(seed, me.world.run_id, me.round, me.attempt, title)
            self.shares = {me.name: shares[names.index(me.name)]}
            self.names, self.answered = names, False

    async def mask(self, number: int, clients: int) -> None:
        me = self.me
        with me.step("sum.mask"):
            mine = self.names.index(me.name)
            keys = [
                (pair.key(secure_sum.PURPOSE, me.attempt), mine < self.names.index(name))
                for name, pair in self.pairs.items()
            ]
            keys.append((self.personal, True))
            values = encode(self.values[number], 32, clients)
            (mask,) = await me.compute({}, masks, keys, [(number, len(values))])
            me.send(me.server, MaskedChunk(number, joined([values + mask])))

    async def reveal(self, survivors: list[str]) -> None:
        me, self.answered = self.me, True
        with me.step("sum.reveal"):
            awaited = [name for name in self.names if name not in self.shares]
            dealt = await me.collect(DealtShares, awaited, deadline=50.0)
            self.shares |= {name: answer.shares for name, answer in dealt.answers.items()}
            kinds = {name: slice(SHARE, 2 * SHARE) if name in survivors else slice(SHARE) for name in self.names}
            me.send(me.server, Revealed([self.shares.get(name, b"")[kinds[name]] for name in self.names]))


async def obedient(
    me: Client, values: NDArray[np.float64], secrets: Mapping[str, SharedSecret], miniature: Miniature
) -> None:
    await Obedient(me, values, secrets).main(miniature)


# Results


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_works_on_the_weakened_copy_and_not_on_ours(lie: str) -> None:
    program, victim = LIES[lie]
    weak = perform(SUM, parse(program, 4), obedient)
    assert weak.exposed == (victim,) and not weak.failure
    ours = perform(SUM, parse(program, 4))
    assert not ours.exposed and not ours.failure


APART = {
    "a U3 for each client": (
        f"start 0 1 2 3 4; {ALL_FIVE}; left 0 1 2 to 0 2; left 0 1 3 to 1 3; left 0 1 4 to 4", ("client/0", "client/1"),
    ),
    "an A and a U3 for one client": (
        f"start 0 1 2 3 4; keys 0 1 2 to 0; {ALL_FIVE.replace('keys 0 1 2 3 4', 'keys 0 1 2 3 4 to 1 2 3 4')}; "
        "left 0 1 2 to 0; left 0 1 3 to 1; left 0 2 3 to 2; left 0 3 4 to 3 4",
        ("client/0",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", APART)
def test_sets_that_differ_between_clients_open_no_sum_over_too_few_inputs(lie: str) -> None:
    miniature, (program, victims) = Miniature("secure", clients=5, min_clients=3), APART[lie]
    weak = perform(miniature, parse(program, 5), obedient)
    assert weak.exposed == victims and not weak.failure
    ours = perform(miniature, parse(program, 5))
    assert not ours.exposed and not ours.failure


def test_rows_of_clients_that_are_shown_different_sets_stay_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block's number is its place in A. If clients see different A, keys that do not depend on A would cancel
    masks."""
    miniature, program = (
        Miniature("restart", clients=5, min_clients=3),
        parse(
            "start 0 2 3 to 0; again 1 2 3 to 1; again 0 1 2 to 2; again 0 1 3 to 3; start 0 2 3 4 to 0; "
            "again 1 2 3 4 to 1; again 0 1 2 to 2; again 0 1 3 to 3; again 0 1 4 to 4",
            5,
        ),
    )
    ours = perform(miniature, program)
    assert not ours.exposed and not ours.failure and ours.relations == 20
    monkeypatch.setattr(rowsums, "own_purpose", lambda names: "rowsum-own")
    assert perform(miniature, program).exposed == ("client/4",)


@pytest.mark.parametrize("miniature", SUMS, ids=lambda miniature: miniature.kind)
def test_an_honest_server_learns_only_the_sum(miniature: Miniature) -> None:
    """No request is refused: all blocks of both rounds are received, and if there are shares, the masks are opened."""
    honest = perform(miniature, ())
    assert honest.relations == 2 * (8 if miniature.kind == "secure" else 4 * 3)
    assert (honest.opened > 0) == miniature.deals
    assert not honest.exposed and not honest.failure


TWO_SETS = {
    "to halves": "start 0 1 2 3 4; want 0 1 2 3 4; left 0 1 2 3 to 0 1; left 0 1 2 3 4 to 2 3 4",
    "one after another": "start 0 1 2 3 4; want 0 1 2 3 4; left 0 1 2 3; left 0 1 2 3 4",
    "over a crash": "start 0 1 2 3 4; want 0 1 2 3 4; left 0 1 2 3; crash 0; crash 2; left 0 1 2 3 4",
    "a round ahead": "start 0 1 2 3 4; want 0 1 2 3 4; left 0 1 2 3 4; ahead 0 1 2 3; left 0 1 2 3",
    "an attempt later": "start 0 1 2 3 4; want 0 1 2 3 4; left 0 1 2 3 4; start 0 1 2 3; left 0 1 2 3",
}


@pytest.mark.parametrize("program", TWO_SETS.values(), ids=TWO_SETS)
def test_a_committee_opens_one_set_and_no_part_of_another(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of four members colludes. Without signatures, sums of the other set give relations of the difference."""
    miniature = Miniature("committee", clients=5, min_clients=3, seed=1)  # client/4 is a member and honest
    ours = run_trial(miniature, parse(program, 5))
    assert not ours.broken and ours.outcome.relations <= 4
    if program not in list(TWO_SETS.values())[:2]:  # members without signatures answer both sets of these
        return

    async def agreed(*_: object) -> bool:
        return True

    monkeypatch.setattr(consistency, "is_agreed", agreed)
    assert perform(miniature, parse(program, 5)).exposed == ("client/4",)


@pytest.mark.parametrize(
    "program",
    ["SeedAgreed#1 differ 0", "SeedAgreed#2 differ 0", "SeedAgreed#1 differ 0; CommitteeStart#1 replay"],
    ids=["first", "second", "replay"],
)
def test_sums_with_committees_of_two_sizes_are_judged(program: str) -> None:
    """One client was shown other clients, of whom it draws a smaller committee with larger shares."""
    ours = run_trial(Miniature("committee", clients=4, min_clients=3, value_bits=12), parse(program, 4))
    assert not ours.broken and ours.outcome.relations


@pytest.mark.parametrize("kind", ["secure", "secagg+"])
@pytest.mark.parametrize("bits", [2, 6, 32])
def test_exposure_in_sums_of_integers_is_judged_modulo_their_words(
    kind: str, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later round with an earlier model would reveal a client's input, if clients answered."""
    miniature = Miniature(kind, 4, 3, value_bits=bits)
    assert miniature.word_bits == bits + 2  # of a sum of four
    honest = perform(miniature, ())
    assert honest == perform(Miniature(kind, 4, 3), ()) and honest.relations == 2 * 8 and not honest.exposed
    some = f"start 0 1 2 3; {ALL}; left 0 1 2 3; stay; start 0 1 2; keys 0 1 2; want 0 1 2; left 0 1 2"
    assert not run_trial(miniature, parse(some, 4)).broken
    monkeypatch.setattr(refusal, "may_answer", lambda me, basis, **_: True)
    assert perform(miniature, parse(some, 4)).exposed == ("client/3",)


CODED = Miniature("lightsecagg", clients=8, min_clients=3)
OF_EIGHT = "0 1 2 3 4 5 6 7"
SETS_OF_EIGHT = {
    "to two parts": f"start {OF_EIGHT}; left {OF_EIGHT} to 0 1 2 3 7; left 1 2 3 4 5 6 7 to 4 5 6",
    "one after another": f"start {OF_EIGHT}; left {OF_EIGHT}; left 1 2 3 4 5 6 7",
    "over a crash": f"start {OF_EIGHT}; left {OF_EIGHT}; crash 1; crash 2; crash 3; left 1 2 3 4 5 6 7",
    "a round ahead": f"start {OF_EIGHT}; left {OF_EIGHT}; ahead 1 2 3 4 5 6 7; left 1 2 3 4 5 6 7",
    "an attempt later": f"start {OF_EIGHT}; left {OF_EIGHT}; start 1 2 3 4 5 6 7; left 1 2 3 4 5 6 7",
    "a round opened twice": f"start {OF_EIGHT}; left {OF_EIGHT}; reopen; start {OF_EIGHT}; left 1 2 3 4 5 6 7",
}


@pytest.mark.parametrize("program", SETS_OF_EIGHT.values(), ids=SETS_OF_EIGHT)
def test_a_sum_with_coded_masks_opens_one_set_and_no_part_of_another(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of eight clients colludes, and five must answer. Without signatures, relations of one vector follow."""
    ours = run_trial(CODED, parse(program, 8))
    assert not ours.broken and ours.outcome.relations <= 8 + 8  # masked vectors, and sums of pieces
    if program != SETS_OF_EIGHT["to two parts"]:  # in the other programs, clients refuse the second set by themselves
        return

    async def agreed(*_: object) -> bool:
        return True

    monkeypatch.setattr(consistency, "is_agreed", agreed)
    assert perform(CODED, parse(program, 8)).exposed == ("client/0",)


def test_clients_that_forget_their_survivors_open_a_second_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Party, "once_a_round", lambda *_: True)
    assert perform(CODED, parse(SETS_OF_EIGHT["one after another"], 8)).exposed == ("client/0",)


def test_an_honest_server_learns_only_the_sum_with_coded_masks() -> None:
    honest = perform(Miniature("lightsecagg", clients=5, min_clients=3), ())
    assert (honest.relations, honest.opened) == (2 * (5 + 5), 2 * 5)  # opened: pieces of the colluding client
    assert not honest.exposed and not honest.failure
    more = perform(Miniature("lightsecagg", clients=5, min_clients=5), ())
    assert (more.relations, more.exposed) == (2 * (5 + 5), ())  # they enrol, and the sum is over all clients
    assert perform(Miniature("lightsecagg", clients=5, min_clients=6), ()).relations == 0  # too few to begin


def test_an_honest_server_learns_only_the_sum_of_a_committee() -> None:
    honest = perform(Miniature("committee", clients=5, min_clients=3), ())
    assert (honest.relations, honest.opened) == (2 * 4, 2 * 5)  # sums of members, and shares of the colluding member
    assert not honest.exposed and not honest.failure
    assert perform(Miniature("committee", clients=5, min_clients=6), ()).exposed == ()  # too few to begin


FLAMINGO = Miniature("flamingo", clients=5, min_clients=3)


@pytest.mark.parametrize("program", TWO_SETS.values(), ids=TWO_SETS)
def test_decryptors_open_one_set_and_no_part_of_another(program: str) -> None:
    """One of four decryptors colludes, so each honest decryptor's answer opens its mask."""
    ours = run_trial(FLAMINGO, parse(program, 5))
    assert not ours.broken and ours.outcome.relations == 5


def test_a_client_that_is_shown_no_other_client_makes_no_keys() -> None:
    found = run_trial(Miniature("flamingo", clients=4, min_clients=3), parse("SeedAgreed#1 alone 0", 4))
    assert not found.broken


def test_without_signatures_decryptors_open_both_masks_of_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """client/0 sees client/3 as a survivor, and client/1 sees it as lost; client/4 colludes."""

    async def agreed(*_: object) -> bool:
        return True

    monkeypatch.setattr(consistency, "is_agreed", agreed)
    program = parse("start 0 1 2 3 4; left 0 1 2 3 4 to 0; left 0 1 2 4 to 1 3", 5)
    one = structs.replace(FLAMINGO, seed=4)  # client/2 alone is no decryptor
    assert perform(one, program).exposed == ("client/3",)


def test_an_honest_server_learns_only_flamingos_sum_with_the_most_colluders() -> None:
    """Each of the two rounds opens the own masks of all clients, and the pair masks of the colluding client."""
    honest = perform(FLAMINGO, ())
    assert (honest.relations, honest.opened) == (2 * 5, 2 * (5 + 4))
    assert not honest.exposed and not honest.failure
    assert perform(structs.replace(FLAMINGO, colluding=2), ()).exposed  # t + 1 colluding decryptors need no honest one


@pytest.mark.parametrize("miniature", SUMS[1:], ids=lambda miniature: miniature.kind)
def test_a_second_attempt_over_rows_is_answered_and_reveals_no_input(miniature: Miniature) -> None:
    """On each block the owner's masks remain."""
    one = perform(miniature, parse(SECOND_ATTEMPT, 4))
    assert one.relations == 4 * 3 + 3 * 2
    assert not one.exposed and not one.failure


def test_attempts_of_later_rounds_under_the_same_number_do_not_repeat_masks() -> None:
    """Keys depend on the attempt's number and the set-up, so clients use a set-up in one round only."""
    one = perform(SUMS[1], parse("start 0 1 2 3; ahead 0 1; ahead 0 2 3", 4))
    assert one.relations == 4 * 3
    assert not one.exposed and not one.failure


def test_without_the_owners_masks_a_second_attempt_reveals_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weakened copy masks the block of a lost client under its dealt key, which other clients reveal."""
    program = parse(f"start 0 1 2 3; {ALL}; left 0 1 2; start 0 1 3; keys 0 1 3; left 0 1", 4)
    ours = perform(SUMS[2], program)
    assert ours.relations == 4 * 3 + 3 * 2 and not ours.exposed

    masked = rowsums_shamir._masks
    monkeypatch.setattr(
        rowsums_shamir,
        "_masks",
        lambda pairs, *rest: masked([(dealt, dealt, lower) for dealt, _, lower in pairs], *rest),
    )
    assert perform(SUMS[2], program).exposed == ("client/2",)


@pytest.mark.parametrize("miniature", [*SUMS, *SIGNING], ids=lambda miniature: miniature.kind)
def test_a_sample_of_lies_and_programs_breaks_no_promise(miniature: Miniature) -> None:
    some = [*programs(4, miniature.deals, quick=True)][::58] + [*single_lies(perform(miniature, ()).sent, (0, 3))][::58]
    broken = {text(program): one.broken for program in some if (one := run_trial(miniature, program)).broken}
    assert not broken


SWEPT = [(SUM, 2, False), *((one, 3, True) for one in (*SUMS, *SIGNING, Miniature("flamingo", 4, 2)))]


SHARED = (0, 1, 3, 4)
"""The places of `secure` and `secure`, and of the rows of `secure` and `secagg+`, which have the same messages."""


def one_of_each_kind(lies: Iterable[Program], turn: int) -> list[Program]:
    """One single lie of each kind about each type of message: the first, the second and so on, by the `turn`. Two
    sums with the same messages follow each other in `SWEPT`, and share them."""
    kinds: dict[tuple[str, str], list[Program]] = {}
    for program in lies:
        (lie,) = program
        assert isinstance(lie, Lie)
        kinds.setdefault((lie.message, lie.kind), []).append(program)
    chosen = [alike[turn % len(alike)] for alike in kinds.values()]
    return chosen[turn % 2 :: 2] if turn in SHARED else chosen


@pytest.mark.long
@pytest.mark.parametrize("turn", range(len(SWEPT)), ids=[f"{one.kind}-{least}" for one, least, _ in SWEPT])
def test_lies_fixed_and_short_programs_break_no_promise(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All fixed programs, which find each planted weakening but the one that takes nine clients; a third of the short
    programs, or a sixth of them if there are many; a single lie of each kind about each message, another one for each
    sum; and 9 random ones. The command tries all."""
    miniature, least, quick = SWEPT[turn]
    short = 3 if quick else 6
    monkeypatch.setattr(server, "single_lies", lambda *sent: one_of_each_kind(single_lies(*sent), turn))
    monkeypatch.setattr(server, "programs", lambda *sets: [*programs(*sets)][turn % short :: short])
    found = sweep([Miniature(miniature.kind, 5, least)], Sweep(schedules=9, seed=least, quick=quick))
    assert not found.breaches, found.breaches
    lies = {(one.message, one.kind) for trial in found.trials for one in trial.program if isinstance(one, Lie)}
    assert len(lies) > (25 if turn in SHARED else 50) and len(found.trials) > 90


def test_a_sweep_tries_sets_that_differ_from_client_to_client() -> None:
    miniature = Miniature("secure", clients=5, min_clients=3)
    found = [one for one in programs(5, True, quick=True) if len({m.names for m in one if m.kind == "left"}) > 2]
    victims = {perform(miniature, program, obedient).exposed for program in found}
    assert {("client/0",), ("client/0", "client/1")} <= victims


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a sweep of this process try a fifth of its programs and single lies."""
    monkeypatch.setattr(server, "single_lies", lambda *sent: [*single_lies(*sent)][::5])
    monkeypatch.setattr(server, "programs", lambda *sets: [*programs(*sets)][::5])


@pytest.mark.long
def test_a_sweep_finds_and_shrinks_the_leak_of_the_weakened_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "single_lies", lambda *sent: [*single_lies(*sent)][::6])
    found = sweep([SUM], Sweep(schedules=0, quick=True), part=obedient)
    breach = next(one for one in found.breaches if one.promise == "no client's input")
    assert text(breach.smallest.program) == "start 0; keys 0; want 0; left 0"
    victims = {one.outcome.exposed for one in found.trials}
    assert {("client/0",), ("client/3",)} <= victims  # a sum of one, and the difference of two sums


# The programs of a sweep, and the command


@pytest.mark.parametrize("miniature", SUMS, ids=lambda miniature: miniature.kind)
def test_a_program_is_parsed_from_its_own_text(miniature: Miniature) -> None:
    tried_ones = [*programs(4, miniature.deals), *single_lies(perform(miniature, ()).sent, range(4))]
    assert len(set(map(text, tried_ones))) == len(tried_ones)
    assert [parse(text(program), 4) for program in tried_ones] == tried_ones


@pytest.mark.parametrize(
    ("name", "changes", "kinds"),
    [
        ("xclp-digits", [], ["restart"]),
        ("xclp-digits", ['protocol.recovery="secure"'], ["secure rows"]),
        ("xclp-digits", ['protocol.recovery="secagg+"'], ["secagg+ rows"]),
        ("training-secure-average", [], ["secure"]),
        ("fedavg-xclp-digits", ['training.averaging="secure"'], ["restart", "secure"]),
        ("fedavg-xclp-digits", ['protocol.name="fedprop"'], ["secure rows"]),
        ("training-secure-average", ['training.averaging="plain"'], []),
        ("training-secure-average", ['training.averaging="secagg+"'], ["secagg+"]),
        ("training-secure-average", ['training.averaging="committee"', "sum.value_bits=12"], ["committee"]),
        ("training-secure-average", ['training.averaging="lightsecagg"', "sum.value_bits=12"], ["lightsecagg"]),
        ("training-secure-average", ['training.averaging="flamingo"'], ["flamingo"]),
        ("private-cells", [], ["secure"]),
    ],
)
def test_a_scenario_has_the_expected_kinds_of_sums(name: str, changes: list[str], kinds: list[str]) -> None:
    sums = sums_of(load(name, ["fault=[]", "expect={}", *changes]))
    assert [miniature.kind for miniature in sums if not miniature.is_large] == kinds
    large = [miniature.label for miniature in sums if miniature.is_large]
    assert large == [f"{kind}@{count}" for kind in kinds for count in (9, 30) if count < 30 or kind in VECTORS]


def test_the_sums_of_a_scenario_have_its_word_length() -> None:
    sums = sums_of(load("training-secure-average", ["fault=[]", "expect={}", "sum.value_bits=9"]))
    assert {one.value_bits for one in sums} == {9} and sums[0].word_bits == 12  # a sum of five 9-bit values


def tacit(*arguments: str | int | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_replays_a_program() -> None:
    line = f"secure: {SECOND_ATTEMPT}"
    done = tacit("chaos", "training-secure-average", "--server", "--quick", "--program", line)
    assert done.exit_code == 0, done.output
    assert SECOND_ATTEMPT in done.output and "both held" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--program", "secure: start 9"], "numbers from 0 to 3"),
        (["--program", "secure: start 0; Survivors#1 twice"], "lies alone or moves alone"),
        (["--program", "secure: Survivors#1 bend"], "lies are omit"),
        (["--program", "secure rows: start 0"], "allowed: secure"),
        (["--pairs"], "--pairs cannot go with it"),
        (["--set", 'training.averaging="plain"'], "takes no secure sum"),
    ],
)
def test_wrong_options_are_reported_in_one_line(arguments: list[str], message: str) -> None:
    done = tacit("chaos", "training-secure-average", "--server", "--quick", *arguments)
    assert done.exit_code == 2
    assert message in done.output and "Traceback" not in done.output


@pytest.mark.long
def test_the_command_sweeps_all_sums_of_a_scenario_and_writes_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a fifth of the programs and lies, of which the test above tries others; docs/howto/dropout.md tries all."""
    few(monkeypatch)
    file = tmp_path / "found.json"
    done = tacit("chaos", "xclp-digits", "--server", "--quick", "--schedules", 3, "--json", file, "--jobs", 1)
    assert done.exit_code == 0, done.output
    record = json.loads(file.read_text())
    assert f"both held in {len(record['runs'])} runs" in done.output
    assert not record["failures"] and {one["sum"] for one in record["runs"]} == {"restart", "restart@9"}


def test_the_replay_line_for_an_honest_server_has_the_changes_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.scenarios.chaos.server.perform", lambda *_: Outcome(("client/0",), "", 1, 0, ()))
    changes = ("--set", "protocol.min_clients=2")
    done = tacit("chaos", "xclp-digits", "--server", "--quick", "--schedules", 0, "--jobs", 1, *changes)
    assert done.exit_code == 1
    assert f"replay    tacit chaos xclp-digits --server --quick {' '.join(changes)} --schedules 0\n" in done.output
