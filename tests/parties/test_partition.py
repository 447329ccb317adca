import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.parties.data.sets import DataError, Dataset, load
from tacit.parties.data.splits import (
    Held,
    Shard,
    classes_with_labels,
    counted,
    held,
    named,
    parse_partition,
    partition,
    shards,
)


def table(labels: list[int], clients: list[int] | None = None) -> Dataset:
    features = np.arange(2.0 * len(labels)).reshape(-1, 2)
    classes = tuple(str(label) for label in range(max(labels) + 1))
    if clients is None:
        return Dataset("table", features, np.array(labels), classes)
    names = tuple(f"site {client}" for client in range(max(clients) + 1))
    return Dataset("table", features, np.array(labels), classes, np.array(clients), names)


def assert_partition(dealt: list[np.ndarray], rows: int) -> None:
    assert all(len(own) > 0 for own in dealt)
    assert all((np.diff(own) > 0).all() for own in dealt)
    assert sorted(np.concatenate(dealt).tolist()) == list(range(rows))


@given(
    labels=st.lists(st.integers(-1, 4), min_size=1, max_size=60).filter(lambda labels: max(labels) >= 0),
    clients=st.integers(1, 8),
    how=st.sampled_from(["iid", "dirichlet:0.5", "dirichlet:0.001", "dirichlet:100", "dirichlet:100/0.01"]),
    seed=st.integers(0, 2**64),
)
def test_every_row_goes_to_one_client_and_no_client_is_empty(labels, clients, how, seed):
    if clients > len(labels):
        with pytest.raises(DataError, match="number of rows"):
            partition(table(labels), clients, how, seed)
        return
    dealt = partition(table(labels), clients, how, seed)
    assert len(dealt) == clients
    assert_partition(dealt, len(labels))
    if how == "iid":
        sizes = [len(own) for own in dealt]
        assert max(sizes) - min(sizes) <= 1


@given(clients=st.integers(1, 12), count=st.integers(1, 6), seed=st.integers(0, 1000))
def test_each_client_holds_its_number_of_classes(clients, count, seed):
    labels = np.repeat(np.arange(6), 20)
    if clients * count < 6:
        with pytest.raises(DataError, match="cannot hold all 6 classes"):
            partition(table(labels.tolist()), clients, f"classes:{count}", seed)
        return
    dealt = partition(table(labels.tolist()), clients, f"classes:{count}", seed)
    assert_partition(dealt, len(labels))
    assert all(len(np.unique(labels[own])) == count for own in dealt)


def test_rows_without_a_label_are_dealt_evenly_by_every_rule():
    data = table([0, 1] * 4 + [-1] * 8)
    for how in ("classes:1", "dirichlet:0.1"):
        assert [(data.labels[own] < 0).sum() for own in partition(data, 4, how, 5)] == [2, 2, 2, 2]


def test_a_small_dirichlet_parameter_is_uneven_and_a_large_one_is_even():
    digits = load("digits")

    def largest_share(how: str) -> float:
        own = partition(digits, 10, how, 3)
        counts = np.array([np.bincount(digits.labels[rows], minlength=10) for rows in own])
        return float((counts.max(axis=0) / counts.sum(axis=0)).mean())

    assert largest_share("dirichlet:0.05") > 0.6
    assert largest_share("dirichlet:1000") < 0.13


def test_two_dirichlet_parameters_deal_a_half_each():
    labels = np.repeat(np.arange(10), 200)
    dealt = partition(table(labels), 10, "dirichlet:1000/0.01", 1)
    counts = np.array([np.bincount(labels[own], minlength=10) for own in dealt])
    assert (counts >= 5).all()  # from the even half, each client has about 10 points per class
    assert (counts.max(0) > 60).all()  # from the other half, one client has most points of a class
    assert counts.sum() == len(labels)


def test_a_natural_partition_follows_the_clients_of_the_data_set():
    data = table([0] * 6, clients=[2, 0, 2, 1, 0, 2])
    assert [own.tolist() for own in partition(data, 3, "natural", 1)] == [[1, 4], [3], [0, 2, 5]]
    assert [own.tolist() for own in partition(data, 2, "natural", 1)] == [[1, 4], [3]]
    with pytest.raises(DataError, match=re.escape("clients(=4) must be <= 3")):
        partition(data, 4, "natural", 1)
    with pytest.raises(DataError, match="does not say which client"):
        partition(table([0, 1]), 2, "natural", 1)


@pytest.mark.parametrize(
    "how",
    ["", "idd", "iid:1", "natural:2", "dirichlet", "dirichlet:", "dirichlet:0", "dirichlet:-1",
     "dirichlet:nan", "dirichlet:inf", "dirichlet:x", "dirichlet:1/", "dirichlet:1/0", "dirichlet:1/2/3", "classes:1/2",
     "classes", "classes:0", "classes:1.5", "classes:inf",
     "IID"],
)  # fmt: skip
def test_a_malformed_partition_is_refused_with_the_allowed_forms(how):
    with pytest.raises(DataError) as caught:
        parse_partition(how)
    assert str(caught.value) == (
        f"partition(={how!r}) must be iid, dirichlet:a or dirichlet:a/b with numbers a, b > 0, "
        "classes:c with a whole number c >= 1, or natural"
    )


def test_texts_of_partitions_are_read_as_rule_and_numbers():
    assert parse_partition("iid") == ("iid", ())
    assert parse_partition("dirichlet:0.5") == ("dirichlet", (0.5,))
    assert parse_partition("dirichlet:100/0.01") == ("dirichlet", (100.0, 0.01))
    assert parse_partition("classes:3") == ("classes", (3.0,))


def test_impossible_partitions_are_refused_with_the_reason():
    with pytest.raises(DataError, match="the data set has 2 classes"):
        partition(table([0, 1, 0, 1]), 2, "classes:3", 1)
    with pytest.raises(DataError, match="class '1' has 1 rows for 3 clients"):
        partition(table([0, 0, 0, 1]), 3, "classes:2", 1)
    with pytest.raises(DataError, match=re.escape("clients(=0)")):
        partition(table([0, 1]), 0, "iid", 1)


def test_the_partition_follows_from_the_seed():
    digits = load("digits", limit=200)

    def flat(seed: int) -> list[list[int]]:
        return [own.tolist() for own in partition(digits, 5, "dirichlet:0.5", seed)]

    assert flat(1) == flat(1)
    assert flat(1) != flat(2)


def labeled_rows(own: list[Shard]) -> list[list[int]]:
    return [shard.rows[shard.labeled].tolist() for shard in own]


def test_shards_carry_their_rows_and_the_stated_number_of_labels():
    digits = load("digits")
    own = shards(digits, 10, "iid", 0.1, 1)
    for shard in own:
        assert np.array_equal(shard.features, digits.features[shard.rows])
        assert np.array_equal(shard.labels, digits.labels[shard.rows])
        assert shard.labeled.sum() == round(0.1 * len(shard.rows))
    assert labeled_rows(own) == labeled_rows(shards(digits, 10, "iid", 0.1, 1))
    assert labeled_rows(own) != labeled_rows(shards(digits, 10, "iid", 0.1, 2))


def test_only_points_with_a_known_label_are_labeled():
    own = shards(table([-1, 0, -1, 1, -1, 1]), 1, "iid", 1.0, 4)
    assert own[0].rows[own[0].labeled].tolist() == [1, 3, 5]
    assert shards(table([-1, 0, -1, 1, -1, 1]), 1, "iid", 0.34, 4)[0].labeled.sum() == 1


def test_impossible_labeled_fractions_are_refused():
    with pytest.raises(DataError, match="leaves no client a labeled point"):
        shards(table([0, 1, 0, 1]), 2, "iid", 0.1, 1)
    for fraction in (-0.1, 1.1, float("nan")):
        with pytest.raises(DataError, match="must be between 0 and 1"):
            shards(table([0, 1]), 1, "iid", fraction, 1)


def test_the_representation_of_a_shard_has_no_points():
    assert repr(shards(table([0, 1]), 1, "iid", 1.0, 1)[0]) == "Shard()"


@given(
    classes=st.integers(2, 6),
    each=st.integers(5, 20),
    clients=st.integers(1, 4),
    holders=st.integers(1, 4),
    seed=st.integers(0, 5),
)
def test_labels_go_to_the_first_clients_evenly_over_the_classes(classes, each, clients, holders, seed):
    data = table(list(range(classes)) * each * clients)
    holders = min(holders, clients)
    dealt = shards(data, clients, "iid", 0.5, seed, labeled_clients=holders, labels_per_client=classes)
    for client, shard in enumerate(dealt):
        counts = np.bincount(shard.labels[shard.labeled], minlength=classes)
        assert counts.sum() == (classes if client < holders else 0)
        if client < holders and len(np.unique(shard.labels)) == classes:
            assert counts.tolist() == [1] * classes


@pytest.mark.parametrize("labels_per_client", [10, 25, 55])
def test_where_clients_differ_labels_follow_their_own_classes(labels_per_client):
    data = table([0] * 300 + [1] * 200 + [2] * 100)
    for shard in shards(data, 4, "dirichlet:0.8", 0.1, 3, labels_per_client=labels_per_client):
        held, used = (np.bincount(shard.labels[rows], minlength=3) for rows in (slice(None), shard.labeled))
        assert used.sum() == labels_per_client
        assert np.abs(used - held * labels_per_client / held.sum()).max() < 1.0


@given(
    classes=st.integers(2, 6),
    used=st.integers(1, 6),
    clients=st.integers(2, 5),
    each=st.one_of(st.none(), st.integers(1, 6)),
    seed=st.integers(0, 9),
)
def test_labels_of_a_client_cover_the_requested_number_of_classes(classes, used, clients, each, seed):
    used = min(used, classes)
    data = table([*range(classes), -1] * 30 * clients)
    dealt = shards(data, clients, "iid", 0.5, seed, labels_of_classes=used, labels_per_client=each)
    assert [len(shard.rows) for shard in dealt] == [
        len(shard.rows) for shard in shards(data, clients, "iid", 0.5, seed)
    ]
    for shard, own in zip(dealt, classes_with_labels(data, clients, used, seed), strict=True):
        of = set(shard.labels[shard.labeled].tolist())
        assert own.sum() == used
        assert of <= set(np.flatnonzero(own).tolist())
        if each is None:
            assert shard.labeled.sum() == round(0.5 * np.isin(shard.labels, np.flatnonzero(own)).sum())
        else:
            assert (shard.labeled.sum(), len(of)) == (each, min(each, used))


def test_classes_with_labels_are_held_by_as_many_clients_each():
    holders = classes_with_labels(table(list(range(10)) * 10), 10, 5, 3)
    assert holders.sum(axis=1).tolist() == [5] * 10
    assert holders.sum(axis=0).tolist() == [5] * 10
    assert (classes_with_labels(table(list(range(10)) * 10), 10, 5, 4) != holders).any()


def test_fewer_labels_than_classes_are_not_always_of_the_same_classes():
    dealt = shards(table(list(range(10)) * 100), 20, "iid", 0.1, 1, labels_per_client=3)
    assert {int(label) for shard in dealt for label in shard.labels[shard.labeled]} == set(range(10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labeled_clients": 0}, "labeled_clients(=0) must be between 1 and the number of clients, 2"),
        ({"labeled_clients": 3}, "labeled_clients(=3) must be between 1 and the number of clients, 2"),
        ({"labels_per_client": 0}, "labels_per_client(=0) must be >= 1"),
        ({"labels_per_client": 9}, "labels_per_client(=9) is more than client 0's 3 points with a known label"),
        (
            {"labels_per_client": 3, "new": 1},
            "labels_per_client(=3) is more than client 0's 2 training points with a known label",
        ),
        ({"labels_of_classes": 3}, "labels_of_classes(=3) must be 1 to 2, the classes of the data set"),
        ({"labels_of_classes": 1, "new": 1}, "labels_of_classes(=1) cannot go with new points"),
        (
            {"labels_of_classes": 1, "labels_per_client": 3},
            "labels_per_client(=3) is more than client 0's 1 points with a known label of the classes that it may use "
            "labels of",
        ),
        ({"new": -0.5}, "new(=-0.5) must be a share below 1, or a whole number of points"),
        ({"new": 1.5}, "new(=1.5) must be a share below 1, or a whole number of points"),
        ({"new": 4}, "new(=4) is more than client 0's 3 points with a known label"),
        ({"new": 3}, "labeled(=0.5) leaves no client a labeled point; it must be larger"),
        ({"unlabeled": 1.5}, "unlabeled(=1.5) must be between 0 and 1"),
        ({"unlabeled": 0, "labeled_clients": 1}, "unlabeled(=0) leaves client 1 no point"),
        ({"without_labels": (0, 1)}, "labeled(=0.5) leaves no client a labeled point; it must be larger"),
    ],
)
def test_impossible_numbers_of_labels_are_refused(options, message):
    with pytest.raises(DataError, match=re.escape(message)):
        shards(table([0, 1, 0, 1, 0, 1]), 2, "iid", 0.5, 1, **options)


@given(
    new=st.one_of(st.integers(0, 5), st.floats(0, 0.5)),
    share=st.floats(0.3, 1),
    unlabeled=st.floats(0, 1),
    left_out=st.sets(st.integers(1, 3)),
    per_client=st.one_of(st.none(), st.integers(1, 2)),
    how=st.sampled_from(["iid", "dirichlet:5", "classes:2"]),
    seed=st.integers(0, 5),
)
def test_new_points_are_no_training_data(new, share, unlabeled, left_out, per_client, how, seed):
    data = table([0, 1, 2, -1] * 30)
    kind = {"new": new, "without_labels": left_out, "labels_per_client": per_client}
    whole = shards(data, 4, how, share, seed, **kind)
    assert np.sort(np.concatenate([shard.rows for shard in whole])).tolist() == list(range(len(data.labels)))
    for client, (shard, own) in enumerate(zip(whole, partition(data, 4, how, seed), strict=True)):
        known = int((data.labels[own] >= 0).sum())
        assert not (shard.new & shard.labeled).any()
        assert (shard.labels[shard.new] >= 0).all()
        if client in left_out:
            assert (shard.new.sum(), shard.labeled.sum()) == (known, 0)
        else:
            fresh = new if new >= 1 else round(new * known)
            assert shard.new.sum() == fresh
            assert shard.labeled.sum() == (per_client or round(share * (known - fresh)))
    cut = shards(data, 4, how, share, seed, unlabeled=unlabeled, **kind)
    for shard, full in zip(cut, whole, strict=True):
        assert shard.rows[shard.labeled].tolist() == full.rows[full.labeled].tolist()
        assert shard.rows[shard.new].tolist() == full.rows[full.new].tolist()
        assert set(shard.rows.tolist()) <= set(full.rows.tolist())
        others = int((~full.labeled & ~full.new).sum())
        assert len(shard.rows) == len(full.rows) - others + round(unlabeled * others)


def test_a_share_of_zero_new_points_changes_no_draw():
    data = table([0, 1, 2] * 40)
    plain, same = shards(data, 3, "iid", 0.3, 1), shards(data, 3, "iid", 0.3, 1, new=0, unlabeled=1, without_labels=())
    for one, other in zip(plain, same, strict=True):
        assert one.labeled.tolist() == other.labeled.tolist()
        assert not one.new.any() and len(one.new) == len(one.labels)


def test_images_stay_images_until_features_are_asked_for():
    images = np.arange(4 * 2 * 2, dtype=np.uint8).reshape(4, 2, 2, 1)
    data = Dataset("pictures", images, np.array([0, 1, 0, 1]), ("a", "b"))
    assert data.images is data.points
    for shard in shards(data, 2, "iid", 1.0, 1):
        assert shard.points.dtype == np.uint8
        np.testing.assert_array_equal(shard.features, images[shard.rows].reshape(-1, 4) / 255.0)


def test_a_shard_is_made_on_first_access_and_kept_while_in_use():
    dealt = shards(load("digits"), 30, "dirichlet:0.5", 0.3, 4, new=2, unlabeled=0.5)
    share = dealt[7]
    assert dealt[7] is share and dealt[-23] is share and dealt[6:8][1] is share
    rows = share.rows.tolist()
    del share
    assert dealt[7].rows.tolist() == rows
    with pytest.raises(IndexError):
        dealt[30]


@given(
    labels=st.lists(st.integers(-1, 2), min_size=12, max_size=40).filter(lambda labels: max(labels) >= 0),
    share=st.floats(0, 1),
    unlabeled=st.floats(0, 1),
    new=st.sampled_from([0, 0.3]),
)
def test_sizes_and_labels_of_shards_are_known_before_the_shards_are_made(labels, share, unlabeled, new):
    try:
        dealt = shards(table(labels), 3, "iid", share, 2, new=new, unlabeled=unlabeled)
    except DataError:
        return
    assert dealt.points.tolist() == [len(one.rows) for one in dealt]
    assert dealt.labels.tolist() == [one.labeled.sum() for one in dealt]
    assert counted(named(dealt)) == counted(dict(named(dealt)))
    for name, shard in named(dealt).items():
        found = held(named(dealt), name)
        assert isinstance(found, Held) and held(dict(named(dealt)), name) is shard
        assert (found.points, found.labels) == (len(shard.labels), shard.labeled.sum()) and found.make() is shard


def test_the_digest_of_shards_depends_on_points_labels_rows_and_rules():
    digits = load("digits", 100)
    cases = [(digits, 5, 0.5, 1), (load("digits", 99), 5, 0.5, 1), (digits, 4, 0.5, 1), (digits, 5, 0.4, 1)]
    digests = [shards(data, clients, "iid", share, seed).digest() for data, clients, share, seed in cases]
    assert len(set(digests)) == len(cases)
    assert shards(digits, 5, "iid", 0.5, 1).digest() == digests[0]
