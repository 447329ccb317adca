"""Random groups of clients."""

from tacit.protocols.xclp.declaration import groups_of, parted

NAMES = [f"client/{i}" for i in range(11)]


def test_groups_are_even_drawn_with_the_seed_and_hold_each_client_once():
    groups = groups_of(NAMES, 3, 1)
    assert sorted(len(group) for group in groups) == [3, 4, 4]
    assert sorted(name for group in groups for name in group) == sorted(NAMES)
    assert all(list(group) == [name for name in NAMES if name in group] for group in groups)
    assert groups == groups_of(NAMES, 3, 1) != groups_of(NAMES, 3, 2)
    assert groups_of(NAMES, 1, 5) == [tuple(NAMES)]


def test_values_held_by_clients_are_split_into_the_same_groups():
    held = dict.fromkeys(NAMES, 7)
    assert [tuple(part) for part in parted(held, 3, 1)] == groups_of(NAMES, 3, 1)
