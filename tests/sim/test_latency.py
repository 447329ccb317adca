"""Delays follow the given distribution, and texts that are no distribution are refused in one line."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.sim.latency import parse_latency, uniforms
from tacit.sim.streams import generator


def delays(text: str, count: int = 20_000, seed: int = 7) -> NDArray[np.float64]:
    return np.array(list(itertools.islice(parse_latency(text).stream(lambda: generator(seed, "test")), count)))


def test_a_constant_latency_gives_equal_delays() -> None:
    assert set(delays("40ms", 1000)) == {0.04}
    assert set(delays("0s", 10)) == {0.0}


def test_normal_has_mean_and_deviation() -> None:
    drawn = delays("normal:40ms,5ms")
    assert drawn.mean() == pytest.approx(0.04, rel=0.01)
    assert drawn.std() == pytest.approx(0.005, rel=0.03)


def test_normal_is_never_negative() -> None:
    drawn = delays("normal:1ms,5ms")
    assert drawn.min() == 0.0
    assert (drawn == 0.0).mean() == pytest.approx(0.4207, abs=0.02)  # P(z < -0.2)


def test_lognormal_is_given_by_median_and_sigma() -> None:
    drawn = delays("lognormal:40ms,0.3")
    assert np.median(drawn) == pytest.approx(0.04, rel=0.02)
    assert np.log(drawn).std() == pytest.approx(0.3, rel=0.03)
    assert drawn.mean() == pytest.approx(0.04 * np.exp(0.3**2 / 2), rel=0.02)
    assert drawn.min() > 0


def test_lognormal_without_spread_is_the_median() -> None:
    np.testing.assert_allclose(delays("lognormal:40ms,0", 100), 0.04)


def test_uniform_delays_cover_their_interval() -> None:
    drawn = delays("uniform:10ms,50ms")
    assert 0.01 <= drawn.min() < 0.0101
    assert 0.0499 < drawn.max() <= 0.05
    assert drawn.mean() == pytest.approx(0.03, rel=0.01)


def test_delays_are_drawn_from_a_csv_file(tmp_path: Path) -> None:
    file = tmp_path / "delays.csv"
    file.write_text("10ms\n20ms\n\n20ms\n0.05s\n")
    drawn = delays(f"csv:{file}")
    values, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(values, [0.01, 0.02, 0.05])
    np.testing.assert_allclose(counts / len(drawn), [0.25, 0.5, 0.25], atol=0.02)


@pytest.mark.parametrize("text", ["lognormal:40ms,0.3", "normal:40ms,5ms", "uniform:1ms,2ms"])
def test_equal_streams_give_equal_delays_and_different_streams_different_ones(text: str) -> None:
    np.testing.assert_array_equal(delays(text, 600), delays(text, 600))
    assert not np.intersect1d(delays(text, 600), delays(text, 600, seed=8)).size


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "allowed"),
        ("fast", "not a duration"),
        ("gamma:1,2", "allowed: 40ms, normal:"),
        ("-4ms", "not a duration"),
        ("10", '"10" has no unit; allowed: such as 10ms (ns, us, '),
        ("normal:40,5ms", '"40" has no unit'),
        ("uniform:10ms,50", '"50" has no unit'),
        ("normal:40ms", "2 values"),
        ("normal:40ms,5ms,6ms", "2 values"),
        ("lognormal:0ms,0.3", "median must be > 0"),
        ("lognormal:40ms,-1", "sigma a number from 0 to 10"),
        ("lognormal:40ms,nan", "sigma a number from 0 to 10"),
        ("lognormal:40ms,wide", "wide"),
        ("uniform:50ms,10ms", "low end"),
        ("csv:/nowhere/delays.csv", " names no delays: /nowhere/delays.csv: No such file or directory"),
    ],
)
def test_an_invalid_latency_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_latency(text)
    assert repr(text) in str(caught.value)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "\n\n", "median\n40ms\n", "40 parsecs\n"])
def test_a_csv_file_without_delays_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "delays.csv"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"delays\.csv"):
        parse_latency(f"csv:{file}")


@pytest.mark.parametrize(
    ("content", "seconds"),
    [
        ("time,latency\n1700000000,10ms\n1700000001,20ms\n", [0.01, 0.02]),
        ("latency_ms,host\n10,a\n20,b\n", [0.01, 0.02]),
        ("latency\n0\n20us\n", [0.0, 2e-5]),
    ],
)
def test_a_csv_file_may_name_its_columns(tmp_path: Path, content: str, seconds: list[float]) -> None:
    file = tmp_path / "delays.csv"
    file.write_text(content)
    assert sorted({*delays(f"csv:{file}")}) == seconds


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("35.2\n", '"35.2" has no unit; allowed: such as 35.2ms'),
        ("time,rtt\n1700000000,10ms\n", "its columns are time, rtt; the first line must call one of them latency"),
        ("1700000000,10ms\n", "its columns are 1700000000, 10ms"),
        ("latency,latency_ms\n1ms,1\n", "two columns are latencies: latency, latency_ms; keep one"),
        ("time,latency\n1,1ms\n2\n", "the line '2' has 1 columns, the first one 2"),
    ],
)
def test_latencies_in_a_csv_file_need_units_and_a_name_among_several(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "delays.csv"
    file.write_text(content)
    with pytest.raises(ValueError) as caught:
        parse_latency(f"csv:{file}")
    assert why in str(caught.value) and str(file) in str(caught.value)


def test_uniforms_lie_in_the_unit_interval() -> None:
    drawn = np.array(list(itertools.islice(uniforms(lambda: generator(1, "test")), 10_000)))
    assert 0 <= drawn.min() < drawn.max() < 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("text", ["40ms", "normal:40ms,5ms", "lognormal:40ms,0.3", "uniform:10ms,50ms"])
def test_delays_drawn_in_one_batch_equal_delays_drawn_singly(text: str) -> None:
    latency = parse_latency(text)
    found = list(itertools.islice(latency.stream(lambda: generator(3, "test")), 600))
    assert found == latency.draw(generator(3, "test"), 600).tolist()
    assert latency.seconds == (0.04 if text == "40ms" else None)
