"""Weakenings planted in clients: the sweep of a lying server finds each, and names the inputs that follow."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tacit import load
from tacit.parties.client import Client
from tacit.parties.device import Device
from tacit.parties.party import Party
from tacit.protocols import ledger
from tacit.protocols.cells import cells
from tacit.protocols.cotraining import round as cotraining
from tacit.protocols.crypto import masking, quorum
from tacit.protocols.crypto.agreement import KEY_BYTES, KeyPair
from tacit.protocols.crypto.quorum import Least
from tacit.protocols.crypto.regular_graph import degree_of
from tacit.protocols.crypto.sealing import PairChannel
from tacit.protocols.identities import Identities
from tacit.protocols.sums import dealing, neighbours, refusal, reports, secure_sum
from tacit.protocols.sums.dealing import Dealt, OwnKeys
from tacit.protocols.sums.refusal import CALLED, SUMMED
from tacit.protocols.sums.sum import SumSettings
from tacit.protocols.xclp import rowsums_shamir, xclp
from tacit.scenarios.chaos import server_noise
from tacit.scenarios.chaos.server import Sweep, Trial, programs_of, run_trial
from tacit.scenarios.chaos.server_lies import OF_PRESENCE, Lie, Program, parse, single_lies
from tacit.scenarios.chaos.server_noise import Asking, NoiseTrial, ask, askings, has_noise
from tacit.scenarios.chaos.server_world import Miniature
from tacit.scenarios.command.main import app
from tacit.sim.streams import derive

Plant = Callable[[pytest.MonkeyPatch], None]


def sum_of(kind: str, clients: int, least: int = 3) -> Miniature:
    return Miniature(kind, clients, least)


def first_breach(miniature: Miniature, moves: str = "") -> Trial | None:
    """The first trial of a sweep of `miniature` that breaks a promise, among programs of these `moves` if named."""
    honest = run_trial(miniature, ())
    programs = programs_of(honest, Sweep(schedules=0, quick=True))
    trials = (
        run_trial(miniature, program)
        for program in programs
        if not moves or moves == " ".join(getattr(one, "kind", "") for one in program)
    )
    return honest if honest.broken else next((one for one in trials if one.broken), None)


def seal_not_bound(plant: pytest.MonkeyPatch) -> None:
    """Shares dealt among one set can be opened by clients that were shown another set."""
    plant.setattr(PairChannel, "bind", lambda self, context: None)


def mask_reused(plant: pytest.MonkeyPatch) -> None:
    """Every chunk is masked with the same words."""
    masks = masking.masks
    plant.setattr(secure_sum, "masks", lambda keys, blocks, bits: masks(keys, [(0, size) for _, size in blocks], bits))


def threshold_below_a_majority(plant: pytest.MonkeyPatch) -> None:
    """Half of the clients can restore a secret, and are enough survivors."""
    plant.setattr(quorum, "threshold_of", lambda chosen, members, colluding=0: max(1, members // 2))
    plant.setattr(quorum, "fewest_left", lambda members, threshold, least, *_: max(threshold, least))


def threshold_in_a_graph(plant: pytest.MonkeyPatch) -> None:
    """Half of the neighbours can restore a secret."""

    def halved(clients: int, tolerance: Any, called: int) -> Any:
        degree = degree_of(clients, tolerance, called)
        return type(degree)(degree.clients, degree.k, degree.k // 2, degree.failure)

    plant.setattr(neighbours, "degree_of", halved)


def too_few_clients(plant: pytest.MonkeyPatch) -> None:
    """Clients answer for a sum over any number of clients."""
    plant.setattr(Least, "problem", lambda self, names: "")
    plant.setattr(quorum, "fewest_left", lambda members, threshold, *_: threshold)


def guessable_keys(plant: pytest.MonkeyPatch) -> None:
    """The dealt keys and seeds follow from the run's id and the client's name."""

    async def make_keys(me: Client) -> OwnKeys:
        private, seed = (derive(me.world.run_id, purpose, me.name, me.round) for purpose in ("key", "seed"))
        return OwnKeys(await me.compute({"x25519.keygen": 1}, KeyPair, private), [private, seed])

    plant.setattr(dealing, "make_keys", make_keys)
    plant.setattr(neighbours, "make_keys", make_keys)


def guessable_set_up_keys(plant: pytest.MonkeyPatch) -> None:
    """The keys of the set-up follow from the seed in the scenario's file, and so do the masks of a sum without
    dealing."""
    plant.setattr(KeyPair, "generate", classmethod(lambda cls, entropy: cls(bytes([7] * KEY_BYTES))))


def second_survivors(plant: pytest.MonkeyPatch) -> None:
    """A client answers each message that names survivors."""
    accepts = Dealt.accepts

    def forgetful(self: Dealt, me: Client, survivors: Any) -> bool:
        self.answered = ()
        return accepts(self, me, survivors)

    plant.setattr(Dealt, "accepts", forgetful)


def masks_in_every_attempt(plant: pytest.MonkeyPatch) -> None:
    """A client masks its vector in every attempt."""
    plant.setattr(secure_sum, "_may_begin", lambda me, number: me.round == number)


def later_round(plant: pytest.MonkeyPatch) -> None:
    """A client masks the vector of one round in another, whose beginning it does not let wait."""
    plant.setattr(secure_sum.SumStart, "in_round", False)
    plant.setattr(secure_sum, "_may_begin", lambda me, number: me.latest("sum.mask")[0] < me.round)


def same_model(plant: pytest.MonkeyPatch) -> None:
    """A client takes part in several rounds that begin with the same model."""
    plant.setattr(refusal, "may_answer", lambda me, basis, **_: True)


def only_the_last_model_is_remembered(plant: pytest.MonkeyPatch) -> None:
    """A client remembers only the last of the models for which it has masked."""
    plant.setattr(secure_sum, "sum_masked", lambda me: me.disk.update({SUMMED: {me.disk[CALLED]: (me.round, False)}}))


def forgotten_in_a_crash(plant: pytest.MonkeyPatch) -> None:
    """Actions that must not be repeated are remembered in memory only."""

    def latest_of(me: Any, what: str) -> tuple[int, int]:
        return me.__dict__.get("entered", {}).get(what, (0, 0))

    def once(me: Any, what: str) -> bool:
        if (me.round, me.attempt) <= latest_of(me, what):
            return False
        me.entered = me.__dict__.get("entered", {}) | {what: (me.round, me.attempt)}
        return True

    plant.setattr(Party, "latest", latest_of)
    plant.setattr(Party, "once", once)


def no_personal_mask(plant: pytest.MonkeyPatch) -> None:
    """Values have only pair masks, which other clients remove if the client is reported as lost."""
    send = secure_sum._send_chunks
    masks = masking.masks

    async def without(me: Any, vector: Any, dealt: Dealt, number: int, settings: Any) -> None:
        plant.setattr(
            secure_sum,
            "masks",
            lambda keys, blocks, bits: masks([one for one in keys if one[0] != dealt.personal], blocks, bits),
        )
        await send(me, vector, dealt, number, settings)

    plant.setattr(secure_sum, "_send_chunks", without)


def no_mask_of_the_owner(plant: pytest.MonkeyPatch) -> None:
    """A client's block has masks of its dealt keys, which other clients reveal if it is lost."""
    masked = rowsums_shamir._masks
    plant.setattr(
        rowsums_shamir,
        "_masks",
        lambda pairs, *rest: masked([(dealt, dealt, lower) for dealt, _, lower in pairs], *rest),
    )


PLANTED: dict[Plant, Miniature] = {
    seal_not_bound: sum_of("secure", 9),
    mask_reused: sum_of("secure", 4),
    threshold_below_a_majority: sum_of("secure", 4, 2),
    threshold_in_a_graph: sum_of("secagg+", 9),
    too_few_clients: sum_of("secure", 4),
    guessable_keys: sum_of("secagg+", 9),
    guessable_set_up_keys: sum_of("restart", 5),
    second_survivors: sum_of("secure", 4),
    masks_in_every_attempt: sum_of("secagg+", 9),
    later_round: sum_of("secure", 4),
    same_model: sum_of("secagg+", 9),
    only_the_last_model_is_remembered: sum_of("secure", 4),
    forgotten_in_a_crash: sum_of("secagg+", 9),
    no_personal_mask: sum_of("secure", 9),
    no_mask_of_the_owner: sum_of("secure rows", 4),
}


SLOW = (seal_not_bound, threshold_in_a_graph, no_personal_mask, same_model)


@pytest.mark.parametrize(
    "plant",
    [pytest.param(plant, marks=[pytest.mark.long] if plant in SLOW else [], id=plant.__name__) for plant in PLANTED],
)
def test_each_weakening_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = first_breach(PLANTED[plant])
    assert found is not None and found.outcome.exposed and not found.outcome.failure


@pytest.mark.long
def test_a_weakening_is_found_among_thirty(monkeypatch: pytest.MonkeyPatch) -> None:
    same_model(monkeypatch)
    found = first_breach(sum_of("secagg+", 30))
    assert found is not None and found.outcome.exposed and not found.outcome.failure


@pytest.mark.parametrize(
    "miniature",
    [
        pytest.param(one, marks=[pytest.mark.long] * one.is_large, id=one.label)
        for one in dict.fromkeys(PLANTED.values())
    ],
)
def test_an_unchanged_sum_shows_no_weakening(miniature: Miniature) -> None:
    programs = [*programs_of(run_trial(miniature, ()), Sweep(schedules=0, quick=True))][:29:4]
    assert not [one.broken for program in programs if (one := run_trial(miniature, program)).broken]


@pytest.mark.long
def test_the_sweep_reports_the_leak_of_an_incomplete_graph_as_outside_the_model() -> None:
    """The lie outside the model reads a client's input among 30 clients, and the sweep reports it."""
    miniature = sum_of("secagg+", 30)
    *_, last = programs_of(run_trial(miniature, ()), Sweep(schedules=0))
    one = run_trial(miniature, last)
    assert one.outcome.exposed == ("client/0",) and one.outside and not one.broken


# Noise

PRIVATE = {
    "fedct-private": (),
    "private-cells": (
        "data.clients=4", "protocol.min_clients=3", "cells.count=4", "cells.steps=1", "protocol.deadline=10s",
    ),
    "xclp-direct": ("privacy.hash_epsilon=2", "protocol.deadline=10s", "protocol.bits=64"),
    "training-private": (),
    "private-dropouts": (
        "data.clients=5", "data.limit=60", "protocol.identity=none", "sum.corrupt_clients=0",
        "privacy.tolerated=0", "training.rounds=2", "training.epochs=1",
    ),
}  # fmt: skip
TRAINING = ("training-private", "private-dropouts")


def trials_with_noise(name: str) -> Iterator[NoiseTrial]:
    """The trials of a scenario, each made when it is asked for."""
    if name in TRAINING:
        pytest.importorskip("torch")
    scenario = load(name, ["fault=[]", "expect={}", *PRIVATE[name]])
    assert has_noise(scenario)
    return (ask(scenario, asking) for asking in askings(scenario))


def disk_is_forgotten(plant: pytest.MonkeyPatch) -> None:
    """A client remembers its releases in memory only."""
    rejoin = Device.rejoin

    def forgetful(self: Device) -> None:
        if self.name != "server":
            self.disk.clear()
        rejoin(self)

    plant.setattr(Device, "rejoin", forgetful)


def no_ledger(plant: pytest.MonkeyPatch) -> None:
    """Clients do not consult the ledger, and a vector is used in any number of sums."""
    for module in (cells, cotraining, xclp, ledger):
        plant.setattr(module, "release", lambda *_: None)
    once, repeated = Party.once, ("deal", "sum.mask", refusal.MASKED)
    plant.setattr(Party, "once", lambda me, what: what in repeated or once(me, what))
    plant.setattr(secure_sum, "_may_begin", lambda me, number: True)


@pytest.mark.parametrize("name", PRIVATE)
def test_no_client_sends_two_draws_of_noise_on_the_same_content(name: str) -> None:
    found = [*trials_with_noise(name)]
    assert not [one for one in found if one.twice or one.failure]
    assert min(one.draws for one in found[:3]) >= 4


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        *((no_ledger, name) for name in PRIVATE),
        *((disk_is_forgotten, name) for name in ("private-cells", "xclp-direct")),
    ],
)
def test_a_question_answered_twice_with_different_noise_is_found(
    plant: Plant, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    missing, trials = {"client/0", "client/1"}, trials_with_noise(name)
    while missing and (one := next(trials, None)):
        missing.difference_update(one.twice)
    assert not missing


def test_a_trial_in_which_no_client_is_asked_again_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stops after its first program, as an honest one does where the budget is spent, tries nothing."""
    scenario = load("fedct-private")
    assert ask(scenario, Asking()).again >= 5
    monkeypatch.setattr(server_noise, "_let_ask_again", lambda *_: None)
    one = ask(scenario, Asking())
    assert (one.again, one.failure) == (0, "no repeated request reached a client: nothing was tried") and one.draws


def test_the_command_sweeps_protocols_with_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["chaos", "fedct-private", "--server", "--quick", "--json", str(tmp_path / "found.json")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0 and "no two for one question" in " ".join(done.output.split()), done.output
    assert len(json.loads((tmp_path / "found.json").read_text())["noise"]) == 4
    no_ledger(monkeypatch)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1 and "two draws of noise leave client/0" in " ".join(done.output.split())


# Reports to two aggregators


def before_releasing(plant: pytest.MonkeyPatch, act: Callable[[Party], object]) -> None:
    """Let the helper `act` before it decides whether to release its share of a sum."""
    problem = reports.Reports._problem

    def lax(self: reports.Reports, helper: Party, *arguments: Any) -> str:
        act(helper)
        return problem(self, helper, *arguments)

    plant.setattr(reports.Reports, "_problem", lax)


def helper_releases_any_number(plant: pytest.MonkeyPatch) -> None:
    """The helper gives its share of a sum of any number of reports."""
    problem = reports.Reports._problem

    class AnyNumber(reports.Reports):
        def least_of(self, settings: SumSettings) -> int:
            return 0

    plant.setattr(reports.Reports, "_problem", lambda self, *arguments: problem(AnyNumber(), *arguments))


def helper_forgets_the_batch_it_released(plant: pytest.MonkeyPatch) -> None:
    """The helper releases a second sum of a round, if it is opened again."""
    before_releasing(plant, lambda helper: helper.disk.pop(reports._RELEASED, None))
    plant.setattr(reports, "release", lambda *_: None)


def only_the_last_basis_is_remembered(plant: pytest.MonkeyPatch) -> None:
    """The helper remembers only the basis of the batch that it released last."""
    before_releasing(
        plant, lambda helper: helper.disk.update({reports._BASES: helper.disk.get(reports._BASES, [])[-1:]})
    )


def nonces_are_forgotten(plant: pytest.MonkeyPatch) -> None:
    """The helper prepares a report a second time, in the same job."""
    served = reports._serve_job
    plant.setattr(reports, "_serve_job", lambda batch, key, pair, parts, fresh: served(
        batch, key, pair, parts, ["" if "nonce" in one else one for one in fresh]))  # fmt: skip


def clients_report_twice(plant: pytest.MonkeyPatch) -> None:
    """A client sends a report each time that it is asked in a round."""
    plant.setattr(reports, "release", lambda *_: None)


def helper_keys_can_be_guessed(plant: pytest.MonkeyPatch) -> None:
    """The key pairs of reports do not depend on the randomness of the parties."""
    plant.setattr(KeyPair, "generate", classmethod(lambda cls, entropy: cls(bytes([7] * KEY_BYTES))))


def signatures_of_the_helper_are_not_verified(plant: pytest.MonkeyPatch) -> None:
    """A client takes any key for the helper's."""

    async def examined(me: Any, wanted: Any, batch: Any, identities: Any) -> bytes:
        return bytes(wanted.helper_key[:KEY_BYTES])

    plant.setattr(reports, "_examined", examined)


def signatures_of_reports_are_not_verified(plant: pytest.MonkeyPatch) -> None:
    """The helper counts reports under any names."""

    async def problems(self: Any, me: Any, *_: Any) -> dict[str, str]:
        return {}

    plant.setattr(Identities, "problems", problems)


PLANTED_IN_REPORTS: dict[Plant, Miniature] = {
    helper_releases_any_number: sum_of("prio3 votes", 4),
    helper_forgets_the_batch_it_released: sum_of("prio3 votes", 4),
    only_the_last_basis_is_remembered: sum_of("prio3", 4),
    clients_report_twice: sum_of("prio3 votes", 4),
    helper_keys_can_be_guessed: sum_of("prio3 votes", 4),
    signatures_of_the_helper_are_not_verified: sum_of("prio3 votes, signed", 4),
    signatures_of_reports_are_not_verified: sum_of("prio3 votes, signed", 4),
}


SWAPPED = "batch swap job share"
FOUND_LATE: dict[Plant, str] = {
    signatures_of_the_helper_are_not_verified: SWAPPED,
    signatures_of_reports_are_not_verified: SWAPPED,
}
"""Weakenings that a sweep finds after many programs, with the moves of those that find them: the fast tests run these
alone."""


@pytest.mark.parametrize(
    ("plant", "moves"),
    [
        *(pytest.param(plant, FOUND_LATE.get(plant, ""), id=plant.__name__) for plant in PLANTED_IN_REPORTS),
        *(pytest.param(one, "", id=f"{one.__name__} in a sweep", marks=pytest.mark.long) for one in FOUND_LATE),
    ],
)
def test_each_weakening_of_reports_is_found(plant: Plant, moves: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = first_breach(PLANTED_IN_REPORTS[plant], moves)
    assert found is not None and found.outcome.exposed and not found.outcome.failure


def test_a_leader_that_counts_too_few_reports_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper that spoils its answers makes the leader publish a sum of fewer clients than allowed."""
    miniature, program = sum_of("prio3 votes", 4), parse("AggregationJobAnswer#1 other", 4)
    assert program in [*programs_of(run_trial(miniature, ()), Sweep(schedules=0))]
    assert not run_trial(miniature, program).broken
    monkeypatch.setattr(reports, "require", lambda *_: None)
    assert "a sum of 0 clients is a result" in run_trial(miniature, program).outcome.failure


def test_a_report_that_is_prepared_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    miniature, program = sum_of("prio3 votes", 4), parse("AggregationJob#1 double", 4)
    assert program in [*programs_of(run_trial(miniature, ()), Sweep(schedules=0))]
    assert not run_trial(miniature, program).broken
    nonces_are_forgotten(monkeypatch)
    assert run_trial(miniature, program).outcome.exposed == ("client/0",)


REPORTS = [*dict.fromkeys(PLANTED_IN_REPORTS.values())]


def is_about_signed_reports(program: Program) -> bool:
    """True for a single lie that only the sweep of signed reports has."""
    (lie,) = program
    return isinstance(lie, Lie) and (lie.message, lie.kind) == ("ReportsWanted", "other")


@pytest.mark.long
@pytest.mark.parametrize("turn", range(len(REPORTS)), ids=[one.label for one in REPORTS])
def test_unchanged_reports_show_no_weakening(turn: int) -> None:
    """All programs of several moves or lies, and a third of the single lies, another one for each kind of batch: they
    share the messages."""
    honest = run_trial(REPORTS[turn], ())
    programs = [*programs_of(honest, Sweep(schedules=6, quick=True))]
    single = [one for one in programs if len(one) == 1 and not is_about_signed_reports(one)]
    tried = [*(one for one in programs if one not in single), *single[turn :: len(REPORTS)]]
    found = [run_trial(honest.sum, one) for one in tried]
    assert not [one.broken for one in found if one.broken]
    assert sum(one.outcome.relations for one in found) > 5 * len(found), "the aggregators receive reports"


# Presence


@pytest.mark.parametrize("lie", ("SumStart#1 gone 1", "SumStart#1 alive 1", "SumStart#1 old 1"))
def test_a_server_that_lies_about_presence_is_found(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that answer for any number of others give a sum without the client that is said to be gone."""
    miniature, program = sum_of("secure", 4, 4), parse(lie, 4)
    honest = run_trial(miniature, ())
    assert program in [*single_lies(honest.outcome.sent, range(4))] and not honest.broken
    assert not run_trial(miniature, program).broken
    too_few_clients(monkeypatch)
    assert len(run_trial(miniature, program).outcome.exposed) == 3


@pytest.mark.long
@pytest.mark.parametrize("kind", ("secagg+", "committee", "lightsecagg", "flamingo", "restart", "secure rows"))
def test_lies_about_presence_break_no_promise(kind: str) -> None:
    """Each lie about each type of message once: about the first of these messages or the second, in turns."""
    miniature = sum_of(kind, 6 if kind == "flamingo" else 4, 2 if kind == "restart" else 3)
    lies = single_lies(run_trial(miniature, ()).outcome.sent, range(miniature.clients))
    alike: dict[tuple[str, str], list[Program]] = {}
    for program in lies:
        (lie,) = program
        if isinstance(lie, Lie) and lie.kind in OF_PRESENCE:
            alike.setdefault((lie.message, lie.kind), []).append(program)
    programs = [ones[place % len(ones)] for place, ones in enumerate(alike.values())]
    trials = [run_trial(miniature, program) for program in programs]
    assert len(trials) > 9 and not [one for one in trials if one.broken]
