"""Training with removable noise of the clients: epsilon under losses, bytes by formula, and runs that go on."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tacit
from tacit import Result, ScenarioError, load, run
from tacit.protocols.privacy import rotated
from tacit.protocols.privacy.distributed import Distributed
from tacit.protocols.privacy.rotated import Rounding
from tacit.protocols.sums.registry import SUMS
from tacit.scenarios.files.cautions import notes
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.fates import fates_of
from tacit.scenarios.running.runner import Watch, carry_out, resume
from tacit.scenarios.sweeping.survival import survival_of
from tacit.sim.compute import CostTable
from tacit.sim.trace import Event

TEXT = """
title = "Ten clients train with removable noise"
seed = 3
engine = "inline"
[data]
name = "digits"
clients = 10
labeled = 1.0
limit = 200
[protocol]
name = "dp-fedavg"
deadline = "10s"
identity = "signed"
[network]
latency = "5ms"
[model]
name = "linear"
[training]
rounds = 3
epochs = 1
learning_rate = 0.5
device = "cpu"
averaging = "secure"
checkpoint_every = 1
[privacy]
epsilon = 8.0
clip = 0.5
noise = "skellam"
noise_at = "clients"
tolerated = 0.3
"""


@pytest.fixture
def private(tmp_path: Path) -> Path:
    path = tmp_path / "private.toml"
    path.write_text(TEXT)
    return path


def ran(path: Path, *changes: str, faults: str = "", out: str = "run") -> Result:
    path.write_text(TEXT + faults)
    return run(load(path, list(changes)), out=path.parent / out)


def crashes(*steps: str, occurrence: int = 2) -> str:
    return "".join(
        f'[[fault]]\nkind = "crash"\nparty = "client/{number}"\n{step}\noccurrence = {occurrence}\n'
        for number, step in enumerate(steps, 1)
    )


LOSSES = crashes('before = "sum.mask"', 'at = "sum.agree"', 'at = "sum.reveal"')

Once = Callable[..., Result]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """A function that runs the scenario with changes and faults once for all tests, which only read the run."""

    @cache
    def run_once(*changes: str, faults: str = "") -> Result:
        return ran(tmp_path_factory.mktemp("once") / "private.toml", *changes, faults=faults)

    return run_once


WAYS = {"all": (), "log2": ("privacy.components=log2",)}
"""The changes for these components; "all" is the default."""


@pytest.mark.parametrize("components", WAYS)
def test_epsilon_is_the_same_whoever_is_lost_where(once: Once, components: str) -> None:
    calm, lossy = once(*WAYS[components]), once(*WAYS[components], faults=LOSSES)
    assert calm.outcome == lossy.outcome == "completed"
    for result in (calm, lossy):
        assert result.privacy is not None and result.privacy.epsilon == pytest.approx(8.0, rel=0.01)
        assert result.privacy.epsilon <= 8.0 and result.privacy.rounds == 3
        assert "Skellam" in result.privacy.mechanism and "the server and up to 1 client" in result.privacy.covers
    assert [len(record.averaged) for record in lossy.round_records] == [10, 9, 7]


@pytest.mark.parametrize("components", WAYS)
def test_bytes_are_those_of_the_formula_and_of_the_forecast(private: Path, once: Once, components: str) -> None:
    calm, predicted = tacit.bytes(once(*WAYS[components])), tacit.predict(load(private, WAYS[components]))
    sent = {row.type: row.payload for row in calm.rows}
    assert calm.formula == sent == {row.type: row.payload for row in predicted.rows}
    seeds = 1 if components == "all" else 3  # T = 3: one of a chain, or the parts of 1, 1 and 2 units
    assert sent["NoiseSeeds"] == 3 * 10 * 16 * seeds
    assert sent["MaskedChunk"] < 3 * 10 * 650 * 2  # two bytes a number


def test_the_forecast_of_losses_is_right(private: Path, once: Once) -> None:
    private.write_text(TEXT + LOSSES)
    predicted = tacit.predict(load(private))
    sent = {row.type: (row.messages, row.payload) for row in tacit.bytes(once(faults=LOSSES)).rows}
    assert sent == {row.type: (row.messages, row.payload) for row in predicted.rows}


class Masked(Watch):
    """A watch that sends Ctrl-C when the first masked values of round 2 are received."""

    def __call__(self, event: Event) -> None:
        if event.kind == "deliver" and event.type == "MaskedChunk" and event.round == 2:
            raise KeyboardInterrupt


def test_a_resumed_run_goes_on_as_the_unbroken_one_and_draws_other_noise_without_seeds(
    private: Path, once: Once
) -> None:
    """With seeded entropy the repeated round has the same noise; otherwise other noise, which the run states."""
    unbroken = once()
    for entropy in ("seeded", "os"):
        folder = private.parent / entropy
        carry_out(load(private, [f"entropy={entropy}"]), "broken", out=folder, watch=Masked())
        found = resume(folder)
        assert found.outcome == "completed" and found.resumed == [1]
        assert found.privacy is not None and found.privacy.rounds == 3
        if entropy == "seeded":
            assert found.model_digest == unbroken.model_digest
        else:
            assert not found.privacy.guaranteed and "held twice" in found.privacy.caveats[0]


def test_a_round_with_more_losses_than_are_tolerated_is_charged_and_has_no_result(private: Path) -> None:
    lost = crashes(*['at = "sum.mask"'] * 4)
    result = ran(private, faults=lost)
    assert result.outcome == "aborted" and [len(one.averaged) for one in result.round_records] == [10, 0]
    assert result.privacy is not None and result.privacy.rounds == 2


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["protocol.identity=none"], "privacy.tolerated"),
        (["protocol.identity=none", "privacy.tolerated=0", "privacy.excess_losses=end"], "privacy.excess_losses"),
        (["privacy.tolerated=0.8"], "privacy.tolerated"),
        (["privacy.tolerated=0.4"], "privacy.tolerated: 0.4 of 10 clients are 4; all but 3 .* at most 0.3"),
        (["sum.corrupt_clients=0"], "sum.corrupt_clients: 0 lets one client"),
        (["training.averaging=secagg+", "protocol.identity=none"], "privacy.components.*see their neighbours alone"),
        (["training.averaging=prio3"], "privacy.noise: .* which adds no noise"),
        (["training.averaging=lightsecagg", "protocol.identity=none"], 'privacy.tolerated.*components = "none"'),
        (["training.averaging=plain"], "privacy.noise_at"),
        (["sum.value_bits=12"], "sum.value_bits"),
        (["privacy.noise_at=server"], "privacy.noise_at"),
        (["privacy.epsilon=none"], "privacy.epsilon"),
        (["privacy.epsilon=1e-6"], "privacy"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_key(private: Path, changes: list[str], key: str) -> None:
    with pytest.raises(ScenarioError, match=key):
        load(private, changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([], None),
        (
            ["training.averaging=lightsecagg"],
            "with sum.tolerated_dropouts = 0.1 a sum is opened with at most 1 loss",
        ),
        (
            ["privacy.components=none", "protocol.identity=none"],
            "without signatures a sum is opened with at most",
        ),
    ],
)
def test_a_note_says_why_fewer_losses_than_the_noise_allows_open_a_sum(
    private: Path, changes: list[str], said: str | None
) -> None:
    found = [line for line in notes(load(private, changes)) if "a sum is opened with at most" in line]
    assert len(found) == (said is not None) and (said is None or said in found[0])


def in_round(number: int, *clients: int) -> str:
    return "".join(
        f'[[fault]]\nkind = "crash"\nparty = "client/{client}"\nat = "sum.mask"\nround = {number}\nback_after = "1s"\n'
        for client in clients
    )


UNTOLERATED = ["privacy.tolerated=0", "sum.corrupt_clients=0.1"]


def opened(result: Result) -> int:
    """The number of the last round to which clients were called."""
    rows = result.messages()
    return int(rows[rows["type"] == "TrainingRound"]["round"].max())


def test_the_noise_that_a_sum_carried_is_in_the_result(private: Path) -> None:
    """One client in round 2 is lost before it masks, one after, and one does not reveal; one is lost in round 3."""
    result = ran(private, faults=LOSSES + in_round(3, 4))
    assert result.privacy is not None
    calm, lossy, last = result.privacy.carried
    assert (calm.clients, calm.survivors, calm.removed, calm.removable) == (10, 10, 30, 30)
    assert calm.carried == pytest.approx(calm.planned * (10 / 9) ** 0.5, rel=1e-6)  # one colludes: 9 carry V
    # Nine masked, and T - D = 2 parts are removed of each of those that revealed.
    assert (lossy.clients, lossy.survivors, lossy.removable) == (10, 9, 27) and lossy.removed == 2 * 7
    assert lossy.carried > lossy.certain == lossy.planned
    assert last.survivors < last.clients and last.certain == last.planned
    assert result.privacy.epsilon is not None and result.privacy.epsilon <= 8.0
    record = json.loads((private.parent / "run" / "result.json").read_text())
    assert record["privacy"]["carried"][1]["removed"] == lossy.removed


@pytest.mark.parametrize(("deviations", "wraps"), [(4, False), (0.6, True)])
def test_numbers_that_wrap_around_are_counted_and_fewer_than_estimated(
    private: Path, once: Once, monkeypatch: pytest.MonkeyPatch, deviations: float, wraps: bool
) -> None:
    """Words for fewer deviations of a number are so short that a part of the numbers wraps around."""
    usual = once() if deviations == rotated.DEVIATIONS else None
    monkeypatch.setattr(rotated, "DEVIATIONS", deviations)
    estimate = Distributed(Rounding(650, 0.5), 8.0, 1e-5, 3, 10, 1, 3).wraps
    result = usual or ran(private)
    assert result.equals_plaintext and len(result.round_records) == 3
    shares = [one.wrapped for one in result.round_records]
    assert all((share > 0) == wraps for share in shares) and max(shares) <= estimate + 3 * (estimate / 650) ** 0.5
    rows = (result.folder / "rounds.csv").read_text().splitlines()
    assert rows[0].endswith("wrapped") and float(rows[1].rsplit(",", 1)[1]) == shares[0]


def test_a_sum_with_less_noise_is_opened_and_charged_if_that_is_chosen(private: Path, once: Once) -> None:
    """Two of ten are lost in round 2: seven honest clients of nine have added 7/9 V."""
    result = once(*UNTOLERATED, "privacy.excess_losses=charge", faults=in_round(2, 1, 2))
    assert result.outcome == "completed" and [len(one.averaged) for one in result.round_records] == [10, 8, 10]
    assert result.privacy is not None and result.privacy.epsilon is not None and result.privacy.epsilon > 8.2
    full, less, again = (one.variance for one in result.privacy.carried)
    assert full == again and less == full * 7 // 9
    noise = Distributed(Rounding(650, 0.5), 8.0, 1e-5, 3, 10, 1, 0)
    assert noise.variance == full
    assert result.privacy.epsilon == noise.spent_on((full, less, full)) > noise.spent(3)
    refused = ran(private, *UNTOLERATED, faults=in_round(2, 1, 2), out="refused")
    assert refused.outcome == "aborted" and refused.privacy is not None and refused.privacy.epsilon < 8.0


def test_a_server_that_was_lost_and_is_back_counts_the_noise_of_its_sums(private: Path, once: Once) -> None:
    """It comes back before the first round, and its sums count as if it had never been away."""
    changes = [*UNTOLERATED, "privacy.excess_losses=charge"]
    back = '[[fault]]\nkind = "crash"\nparty = "server"\nat = "train.enroll"\nback_after = "1s"\n'
    calm = once(*changes, faults=in_round(2, 1, 2))
    result = ran(private, *changes, faults=back + in_round(2, 1, 2))
    assert result.lost[0].party == "server"
    assert result.privacy is not None and calm.privacy is not None
    assert len(result.privacy.carried) == 3 and result.privacy.carried == calm.privacy.carried
    assert result.privacy.epsilon == calm.privacy.epsilon


def test_a_run_ends_before_the_round_that_would_exceed_epsilon(private: Path) -> None:
    changes = [*UNTOLERATED, "privacy.excess_losses=end"]
    result = ran(private, *changes, faults=in_round(2, 1, 2))
    assert result.outcome == "completed" and result.privacy is not None
    assert result.reason.startswith("no round is opened from round 3 on: epsilon would be 8.")
    assert [len(one.averaged) for one in result.round_records] == [10, 8, 0] and opened(result) == 2
    assert result.privacy.rounds == 2 and result.privacy.epsilon is not None and result.privacy.epsilon < 8.0
    assert result.ended_by is not None and result.ended_by["values"]["used"] == result.privacy.epsilon
    (fate,) = fates_of(load(private, changes), [3])
    assert (fate.outcome, str(fate.reason)) == ("completed", result.reason)
    assert (fate.epsilon, fate.bytes) == (result.privacy.epsilon, result.bytes_total)
    assert fate.seconds == result.virtual_seconds and fate.rounds_lost == 1


def test_a_sum_that_would_exceed_epsilon_is_not_opened(private: Path) -> None:
    """The loss is in the last round, for which all of the budget but V is spent."""
    result = ran(private, *UNTOLERATED, "privacy.excess_losses=end", faults=in_round(3, 1))
    assert [len(one.averaged) for one in result.round_records] == [10, 10, 0]
    assert result.round_records[2].problem and result.privacy is not None
    assert result.privacy.rounds == 3 and result.privacy.epsilon is not None and result.privacy.epsilon <= 8.0


def test_predicted_runs_have_the_epsilon_of_runs(private: Path) -> None:
    changes = [*UNTOLERATED, "privacy.excess_losses=charge", "data.clients=6", "data.limit=120"]
    found = survival_of(read(private, changes), 4, ["15%@sum.mask"])
    epsilons = [one.epsilon for one in found.fates]
    assert all(one is not None for one in epsilons) and len(set(epsilons)) > 1
    figure, record = found.figure("epsilon"), found.record()["figures"]["epsilon"]["all"]
    assert figure is not None and record["median"] == figure.median
    assert record["percentile_95"] == figure.percentile_95 == max(filter(None, epsilons))
    assert "epsilon" in found.lines()[0]


def test_predicted_runs_of_other_protocols_have_no_epsilon(private: Path) -> None:
    found = survival_of(read(private, ["protocol.name=fedavg", "privacy.noise=0", "privacy.noise_at=server"]), 1)
    assert found.figure("epsilon") is None and "epsilon" not in found.record()["figures"]


def test_drawing_noise_takes_virtual_time(private: Path) -> None:
    """Ten clients draw four parts of 650 numbers in each of three rounds."""
    changes = ["device.cores=1"]
    few, many = (ran(private, *changes, f"privacy.tolerated={share}", out=f"of-{share}") for share in (0, 0.3))
    seconds = CostTable.load().seconds["skellam.draw"]
    assert few.client_seconds is not None and many.client_seconds is not None
    assert many.client_seconds - few.client_seconds == pytest.approx(3 * 10 * 3 * 650 * seconds, rel=1e-6)
    assert tacit.predict(load(private, changes)).virtual_seconds == pytest.approx(many.virtual_seconds)


@pytest.mark.parametrize("components", ["none", "all"])
def test_one_client_that_helps_the_server_is_not_left_out_of_account(private: Path, components: str) -> None:
    """It could sign two sets of survivors, each with enough signatures of others."""
    changes = [f"privacy.components={components}", "sum.corrupt_clients=0"]
    with pytest.raises(ScenarioError, match=r"sum\.corrupt_clients: 0 lets one client"):
        load(private, changes)


def test_noise_is_not_removed_where_half_of_the_clients_may_be_summed_apart(private: Path) -> None:
    """Flamingo opens parts of a graph by themselves, and a part of half the clients carries half of the noise."""
    many = ["data.clients=100", "data.limit=400", "training.averaging=flamingo"]
    with pytest.raises(ScenarioError, match=r"privacy\.tolerated.*noise is removed only if less than half may be lost"):
        load(private, [*many, "privacy.tolerated=0.65"])
    load(private, [*many, "privacy.tolerated=0.65", "privacy.components=none"])
    noise = Distributed(Rounding(650, 0.5), 8.0, 1e-5, 3, 20, 1, 8, splits=True)
    assert noise.fewest == 17 and Distributed(Rounding(650, 0.5), 8.0, 1e-5, 3, 20, 1, 8).fewest == 11


@pytest.mark.parametrize("averaging", ["lightsecagg", "committee"])
def test_a_sum_withstands_as_many_clients_as_the_run_says_if_some_have_no_labels(
    private: Path, averaging: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Private training calls clients without labels, too, so C and T are shares of all of them."""
    some = ["data.clients=20", "data.labeled=0.1", "data.partition=dirichlet:0.3", f"training.averaging={averaging}"]
    few = ["sum.corrupt_clients=0.2", "sum.tolerated_dropouts=0.1", "privacy.tolerated=0.1"]
    kind, asked = SUMS[averaging], set[int]()
    limits = kind.limits

    def seen(self: Any, called: int, joined: int) -> Any:
        if joined == 20:  # all of them, as in the program
            asked.add(called)
        return limits(self, called, joined)

    monkeypatch.setattr(kind, "limits", seen)
    scenario = load(private, [*some, *few, "training.rounds=1", "privacy.components=none"])
    result = run(scenario, out=private.parent / "run")
    assert result.outcome == "completed" and result.equals_plaintext
    assert result.privacy is not None and "up to 4 clients together" in result.privacy.covers
    assert asked == {20}
