"""Every draw uses a stream of its own, with a name and a seed."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.streams import Entropy, child, derive, for_once, generator

names = st.lists(st.text(max_size=8), max_size=4)


def test_streams_do_not_change_between_versions() -> None:
    assert derive(1, "client/0", "hamming").hex() == (
        "babd34ecea288615d6b3314ee96f2844d059d1c8bc8e94a891433c4b81dca31b"
    )
    assert Entropy.seeded(1, "x").bytes(16).hex() == "c70da68c161522f48298fffec37816b0"
    assert generator(1, "x").integers(2**63) == 1810873129035995755


@given(st.integers(), names, st.integers(), names)
def test_no_two_names_share_a_stream(seed: int, first: list[str], other: int, second: list[str]) -> None:
    assert (derive(seed, *first) == derive(other, *second)) == ((seed, first) == (other, second))


def test_names_are_told_apart_by_their_length() -> None:
    assert derive(1, "ab", "c") != derive(1, "a", "bc") != derive(1, "abc")
    assert derive(1) != derive(1, "")


def test_generators_repeat_and_differ_by_name_and_seed() -> None:
    assert generator(1, "link", "a", "b").random() == generator(1, "link", "a", "b").random()
    drawn = {generator(seed, *path).random() for seed in (1, 2) for path in (("a",), ("b",), ("a", "b"), ("b", "a"))}
    assert len(drawn) == 8


@given(st.integers(), names, st.integers(0, 5))
def test_generators_and_their_children_are_those_that_numpy_makes_of_the_derived_number(
    seed: int, path: list[str], number: int
) -> None:
    sequence = np.random.SeedSequence(int.from_bytes(derive(seed, *path)))
    theirs = sequence.spawn(number + 1)[number]
    for ours, other in ((generator(seed, *path), sequence), (child(seed, *path, number=number), theirs)):
        assert np.array_equal(ours.random(4), np.random.Generator(np.random.Philox(other)).random(4))


@pytest.mark.parametrize("zeros", [0, 1, 3, 4, 5, 8, 31, 32])
def test_numbers_that_begin_with_zeros_have_the_generators_that_numpy_makes(
    zeros: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of four billion derived numbers has a word less."""
    key = bytes(zeros) + bytes(range(zeros + 1, 33))
    monkeypatch.setattr("tacit.sim.streams.derive", lambda *names: key)
    theirs = np.random.SeedSequence(int.from_bytes(key))
    assert generator(1).random() == np.random.Generator(np.random.Philox(theirs)).random()
    assert child(1, number=0).random() == np.random.Generator(np.random.Philox(theirs.spawn(1)[0])).random()


def test_streams_are_the_same_in_another_process_whatever_its_hash_seed() -> None:
    script = (
        "from tacit.sim.streams import *; "
        "print(generator(3, 'link', 'x').random(), Entropy.seeded(3, 'y').bytes(8).hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.getcwd()},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in (0, 1)
    }  # fmt: skip
    assert outputs == {f"{generator(3, 'link', 'x').random()} {Entropy.seeded(3, 'y').bytes(8).hex()}\n"}


@given(st.lists(st.integers(0, 5000), max_size=8))
def test_bytes_do_not_depend_on_the_sizes_of_the_draws(sizes: list[int]) -> None:
    entropy = Entropy.seeded(1, "split")
    drawn = b"".join(entropy.bytes(size) for size in sizes)
    assert drawn == Entropy.seeded(1, "split").bytes(sum(sizes))


def test_a_child_stream_depends_only_on_seed_and_names() -> None:
    used, fresh = Entropy.seeded(1, "party"), Entropy.seeded(1, "party")
    used.bytes(1000)
    assert used.child("a", 1).bytes(32) == fresh.child("a", 1).bytes(32)
    assert fresh.child("a").bytes(32) != fresh.child("b").bytes(32)
    assert fresh.child("a").bytes(32) != Entropy.seeded(1, "party").bytes(32)
    assert Entropy.seeded(2, "party").child("a").bytes(32) != fresh.child("a").bytes(32)


def test_a_pickled_source_continues_its_stream() -> None:
    entropy = Entropy.seeded(1, "party")
    entropy.bytes(5)
    copy = pickle.loads(pickle.dumps(entropy))
    assert copy.bytes(5000) == entropy.bytes(5000)


def test_the_representation_of_a_source_has_no_key() -> None:
    entropy = Entropy.seeded(1, "party")
    entropy.bytes(3)
    assert repr(entropy) == "Entropy()"


def test_the_systems_entropy_never_repeats() -> None:
    assert Entropy.system().bytes(32) != Entropy.system().bytes(32)
    assert Entropy.system().child("a").bytes(32) != Entropy.system().child("a").bytes(32)


@given(st.integers(1, 2**70))
def test_integers_below_a_bound_are_in_range(bound: int) -> None:
    entropy = Entropy.seeded(bound, "below")
    assert all(0 <= entropy.below(bound) < bound for _ in range(20))


def test_integers_below_a_bound_are_uniform() -> None:
    entropy = Entropy.seeded(1, "uniform")
    counts = np.bincount([entropy.below(5) for _ in range(20_000)], minlength=5)
    assert (np.abs(counts - 4000) < 4 * np.sqrt(4000 * 0.8)).all()


def test_bits_and_arrays_have_their_size() -> None:
    entropy = Entropy.seeded(1, "sizes")
    assert max(entropy.bits(9) for _ in range(2000)).bit_length() == 9
    assert entropy.bits(0) == 0
    words = entropy.array((200, 3))
    assert words.shape == (200, 3)
    assert words.dtype == np.uint64
    assert len(np.unique(words)) == 600


def test_impossible_draws_are_refused() -> None:
    entropy = Entropy.seeded(1, "refused")
    with pytest.raises(ValueError, match=r"count\(=-1\)"):
        entropy.bytes(-1)
    with pytest.raises(ValueError, match="bound"):
        entropy.below(0)
    with pytest.raises(ValueError, match="32 bytes, not 3"):
        Entropy(b"abc")


def test_a_child_equals_the_generator_that_numpy_spawns() -> None:
    spawned = generator(7, "link", "a").spawn(4)
    for number in (3, 0, 2):
        own = child(7, "link", "a", number=number)
        assert own.random(5).tolist() == np.random.Generator(spawned[number].bit_generator).random(5).tolist()


def test_entropy_goes_on_from_a_mark() -> None:
    entropy = Entropy.seeded(1, "mark")
    before = [entropy.bytes(size) for size in (3, 100, 5000)]
    mark = entropy.mark()
    behind = [entropy.bytes(size) for size in (7, 4096, 9000)]
    entropy.return_to(mark)
    assert [entropy.bytes(size) for size in (7, 4096, 9000)] == behind
    again = Entropy.seeded(1, "mark")
    assert [again.bytes(size) for size in (3, 100, 5000)] == before
    system = Entropy.system()
    mark = system.mark()
    drawn = system.bytes(16)
    system.return_to(mark)
    assert system.bytes(16) != drawn


@given(st.integers(0), names, st.integers(0, 5), st.integers(0, 40))
def test_a_generator_for_once_draws_as_the_child_does(seed: int, path: list[str], number: int, before: int) -> None:
    for_once(seed, "another", number=0).integers(10, size=before, dtype=np.uint32)  # which leaves half a word behind
    once, whole = for_once(seed, *path, number=number), child(seed, *path, number=number)
    assert once.standard_normal(9).tolist() == whole.standard_normal(9).tolist()
