"""The distribution of a cost over runs: the 95th percentile is the least value that 95 % of the runs do not exceed."""

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from tacit.protocols.outcome import Reason
from tacit.scenarios.files.reading import read
from tacit.scenarios.running.fates import Fate
from tacit.scenarios.sweeping.survival import Survival

LOADED = read("xclp-digits", ["data.limit=60"])


@given(st.integers(1, 130).flatmap(lambda runs: st.lists(st.integers(0, 10**9), min_size=runs, max_size=runs)))
@example([*range(20)])  # the first number of runs at which the percentile is not the maximum
@example([*range(100)])
def test_the_95th_percentile_is_the_least_value_that_95_percent_of_runs_do_not_exceed(sizes: list[int]) -> None:
    fate = Fate(0, "completed", Reason(), 0, 0.0, 0, ())
    fates = tuple(structs.replace(fate, bytes=size) for size in sizes)
    figure = Survival((), LOADED, (), fates).figure("bytes")
    assert figure is not None and figure.percentile_95 in sizes
    reached = [size for size in sizes if 100 * sum(other <= size for other in sizes) >= 95 * len(sizes)]
    assert figure.percentile_95 == min(reached)
    assert (figure.runs, figure.maximum) == (len(sizes), max(sizes))
