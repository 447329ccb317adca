"""Tests of spans: work takes its seconds, at changing speeds."""

import asyncio
import math

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tacit.sim.loop import SimLoop
from tacit.sim.machine import Span

factors = st.sampled_from([1.0, 1.5, 2.0, 10.0, math.inf])


def finish(seconds: float, changes: list[tuple[float, float]], factor: float = 1.0) -> float | None:
    """The time at which work of `seconds` ends if the factor changes according to `changes`: (time, factor)."""
    loop, ends = SimLoop(), list[float]()
    span = Span(loop.env, lambda: ends.append(loop.time()), factor)
    span.begin(seconds)
    for when, new in changes:
        loop.call_at(when, span.stretch, new)
    loop.run(asyncio.sleep(10_000))
    loop.finish()
    assert len(ends) < 2
    return ends[0] if ends else None


@given(
    st.floats(0, 20), st.lists(st.tuples(st.floats(0, 50), factors), max_size=6), st.sampled_from([1.0, 3.0, math.inf])
)
@example(0.0, [(0.0, 1.0), (0.0, math.inf)], math.inf)
@example(0.0, [(0.0, 1.0), (0.0, math.inf), (1.0, 1.0)], math.inf)
@example(2.0, [(2.0, math.inf)], 1.0)
def test_a_job_ends_when_work_summed_over_all_speeds_is_done(
    seconds: float, changes: list[tuple[float, float]], factor: float
) -> None:
    changes = sorted(changes, key=lambda change: change[0])
    left, now, speed = seconds, 0.0, factor
    expected = None
    for when, new in [*changes, (math.inf, 1.0)]:
        if speed < math.inf:
            end = now + left * speed
            assume((end == when and not now) or not math.isclose(end, when, abs_tol=1e-9))  # otherwise rounding decides
            if end <= when:
                expected = end
                break
            left -= (when - now) / speed
        now, speed = when, new
    found = finish(seconds, changes, factor)
    if expected is None or found is None:
        assert found == expected
    else:
        assert found == pytest.approx(expected, abs=1e-6)


def test_a_job_at_constant_speed_ends_at_the_exact_time() -> None:
    assert finish(0.1, []) == 0.1
    assert finish(0.3, [(0.1, 2.0)]) == pytest.approx(0.5)
    assert finish(0.0, [(0.0, math.inf)]) is not None


def test_a_cancelled_job_never_ends() -> None:
    loop, ends = SimLoop(), list[float]()
    span = Span(loop.env, lambda: ends.append(loop.time()))
    span.cancel()
    span.begin(5.0)
    loop.call_at(2.0, span.cancel)
    loop.call_at(3.0, span.stretch, 2.0)
    loop.call_at(4.0, span.begin, 1.0)
    loop.run(asyncio.sleep(100))
    loop.finish()
    assert ends == [6.0]
