"""Sums over many rounds of one set-up: the plaintext oracle's average under losses, the formula's bytes, refusals."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tacit
from tacit import Result, Scenario, ScenarioError, load, run
from tacit.parties.server import Server
from tacit.protocols.crypto import threshold_elgamal as elgamal
from tacit.protocols.crypto.groups import find_group
from tacit.protocols.sums import consistency, flamingo
from tacit.protocols.sums.decryptors import Decryptors
from tacit.scenarios.files.cautions import cautions
from tacit.scenarios.files.reading import read
from tacit.sim.streams import Entropy

WAY = ("protocol.name=fedavg", "training.averaging=flamingo", "training.rounds=3", "sum.decryptor_rounds=2")


def scenario(tiny: Path, *changes: str, faults: str = "") -> Scenario:
    tiny.write_text(tiny.read_text() + faults)
    return load(tiny, [*WAY, "data.clients=8", "training.min_clients=3", *changes])


def ran(tiny: Path, *changes: str, faults: str = "") -> Result:
    return run(scenario(tiny, *changes, faults=faults), out=tiny.parent / "run")


def crash(party: int, when: str, number: int) -> str:
    return f'[[fault]]\nkind = "crash"\nparty = "client/{party}"\n{when}\nround = {number}\n'


def payloads(rows: Any) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row.type] += row.payload
    return dict(found)


@pytest.mark.parametrize(
    ("when", "bits"),
    [('before = "sum.mask"', "exact"), ('before = "sum.agree"', "9"), ('before = "sum.reveal"', "exact")],
)
def test_the_average_equals_the_oracle_under_any_losses(tiny: Path, when: str, bits: str) -> None:
    tolerated = "sum.tolerated_dropouts=0.13"
    found = ran(tiny, f"sum.value_bits={bits}", tolerated, faults=crash(1, when, 2) + crash(2, when, 2))
    assert found.outcome == "completed" and found.equals_plaintext
    assert all(one.equals_plaintext for one in found.round_records)
    out = {"client/1", "client/2"} if "mask" in when else set()
    assert not out & set(found.round_records[1].averaged) and len(found.round_records[1].averaged) == 8 - len(out)


@pytest.mark.parametrize("way", [("protocol.identity=signed",), ("sum.value_bits=9",)])
def test_bytes_of_flamingo_by_formula_prediction_and_run_are_equal(tiny: Path, way: tuple[str, ...]) -> None:
    """Keys are made once in three rounds; in the third round new decryptors get shares of the same key."""
    one = scenario(tiny, *way)
    counted = tacit.bytes(run(one, out=tiny.parent / "calm"))
    sent = payloads(counted.rows)
    assert counted.formula == sent == payloads(tacit.predict(one).rows)
    assert sent["KeysKept"] == 2 * 8 * 32
    assert sum(row.messages for row in counted.rows if row.type == "Join") == 8


OVERTAKING = ("network.transport=datagram", "network.latency=lognormal:20ms,0.5")


def test_flamingos_sum_is_exact_over_datagrams_with_new_decryptors(tiny: Path) -> None:
    found = ran(tiny, *OVERTAKING)
    assert found.outcome == "completed" and found.equals_plaintext and not found.lost


def test_a_server_with_two_sets_of_labels_gets_only_one_signed(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the decryptors are shown other labels first: neither set gets enough signatures, and nothing is
    opened."""
    honest = consistency.gathered

    async def lying(me: Server, identities: Any, names: Sequence[str], survivors: Sequence[str], *rest: Any) -> Any:
        return await honest(me, identities, names, survivors[1:] if names[0] == "labels" else survivors, *rest)

    monkeypatch.setattr(flamingo.consistency, "gathered", lying)
    found = ran(tiny, "training.rounds=1", "engine=inline")
    assert found.outcome in ("aborted", "failed")
    assert "RoundOpened" not in payloads(tacit.bytes(found).rows)


def test_a_ciphertext_is_opened_only_by_enough_holders_in_its_context() -> None:
    entropy, needed, holders = Entropy.seeded(1), 3, 7
    deals = [elgamal.deal(b"", needed, holders, entropy) for _ in range(holders)]
    rows = elgamal.combined([row for row, _ in deals], [1] * holders)
    shares = [elgamal.summed([dealt[k] for _, dealt in deals], [1] * holders) for k in range(holders)]
    assert all(elgamal.fits(rows, 1 + k, share, needed) for k, share in enumerate(shares))
    weights = elgamal.lagrange([2, 4, 7])  # these decryptors deal their shares to others
    again = [elgamal.deal(shares[x - 1], needed, holders, entropy) for x in (2, 4, 7)]
    passed = elgamal.combined([row for row, _ in again], weights)
    assert elgamal.public_share(passed, 0) == elgamal.public_share(rows, 0)
    theirs = [elgamal.summed([dealt[k] for _, dealt in again], weights) for k in range(holders)]
    texts, contexts, key = [b"a" * 16, b"b" * 16], [b"one", b"two"], elgamal.public_share(rows, 0)
    hidden = elgamal.encrypt(key, texts, contexts, entropy)
    assert elgamal.are_bound(key, hidden, contexts) and not elgamal.are_bound(key, hidden, contexts[::-1])
    held = {}
    for x in (1, 3, 6):
        sent = elgamal.partial(theirs[x - 1], hidden, b"all", entropy)
        held[x] = elgamal.verified(elgamal.public_share(passed, x), hidden, b"all", sent)
        with pytest.raises(ValueError, match="proof"):
            elgamal.verified(elgamal.public_share(passed, x + 1), hidden, b"all", sent)
    assert elgamal.opened(hidden, contexts, held) == texts
    assert elgamal.opened(hidden, contexts, dict(list(held.items())[:2])) != texts


def test_two_decryptors_among_more_clients_are_refused() -> None:
    """The last dealer knows the key g^s, and could deal the other a share that fits commitments to an unknown
    polynomial."""
    group, entropy, inverse = find_group("p256"), Entropy.seeded(2), pow(2, -1, find_group("p256").order)
    first, _ = elgamal.deal(b"", 2, 2, entropy)
    s, share = entropy.below(group.order), entropy.below(group.order)
    constant = group.divide(group.generator_power(s), group.decode(first[: elgamal.POINT_BYTES]))
    slope = group.power(group.divide(group.generator_power(share), constant), inverse)
    false = group.encode(constant) + group.encode(slope)
    assert elgamal.fits(false, 2, share.to_bytes(32, "big"), 2)
    key = elgamal.public_share(elgamal.combined([first, false], [1, 1]), 0)
    assert key == group.encode(group.generator_power(s))
    with pytest.raises(ValueError, match="must be 3 to 5"):
        Decryptors(5, 2)
    assert all(one.quorum - one.private > one.private for one in (Decryptors(200, m) for m in range(3, 200)))
    assert all(2 * one.quorum - one.count > one.private for one in (Decryptors(200, m) for m in range(3, 200)))


def test_no_decryptor_may_be_lost_where_so_few_of_those_called_came_that_there_is_no_sum() -> None:
    averaging = flamingo.Flamingo()
    assert [averaging.spare(clients, called=40) for clients in (0, 2, 40)] == [0, 0, 8]


def test_a_caution_is_given_if_there_would_be_many_decryptors(tiny: Path) -> None:
    def lines(*changes: str) -> list[str]:
        tolerated = (
            "data.clients=120",
            "data.limit=600",
            "sum.tolerated_dropouts=0.22",
            "sum.corrupt_clients=0.1",
        )
        return [one for one in cautions(scenario(tiny, *tolerated, *changes)) if "decryptors" in one]

    assert len(lines()) == 1 and "115 of 120 clients" in lines()[0]
    assert not lines("sum.tolerated_dropouts=0.1")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            ("sum.corrupt_clients=0.3",),
            "3 of 8 clients that were called may collude, and 8 joined: of 8 decryptors 3 may be corrupt or lost",
        ),
        (("sum.decryptors=4", "sum.corrupt_clients=0.2"), "of 4 decryptors 2 may be corrupt or lost"),
        (("sum.decryptors=4", "sum.tolerated_dropouts=0.2"), "of 4 decryptors 2 may be corrupt or lost"),
        (("sum.decryptors=4", "sum.corrupt_clients=0.12"), ""),
        ((), ""),
    ],
)
def test_a_run_in_which_too_many_decryptors_may_be_corrupt_or_lost_is_refused(
    tiny: Path, changes: tuple[str, ...], problem: str
) -> None:
    if problem:
        with pytest.raises(ScenarioError, match=problem):
            scenario(tiny, *changes)
    else:
        scenario(tiny, *changes)


@pytest.mark.parametrize("way", ["secure", "lightsecagg", "committee", "flamingo"])
def test_signed_identities_are_used_by_every_sum_that_signs(tiny: Path, way: str) -> None:
    changes = ["protocol.name=fedavg", f"training.averaging={way}", "protocol.identity=signed"]
    assert "protocol.identity" not in read(tiny, [*changes, "sum.value_bits=12", "data.clients=8"]).needless


def test_signed_identities_are_unused_in_a_plain_average(tiny: Path) -> None:
    assert "protocol.identity" in read(tiny, ["protocol.name=fedavg", "protocol.identity=signed"]).needless
