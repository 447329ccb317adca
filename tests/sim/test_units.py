"""Durations, rates and byte counts in their text forms."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.sim.units import duration, format_bytes, format_duration, rate, seconds_or_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("40ms", 0.04), ("1.5 s", 1.5), ("250us", 250e-6), ("250µs", 250e-6), ("3ns", 3e-9), ("2min", 120.0),
        ("1h", 3600.0), ("0", 0.0), ("0E0", 0.0), (".5s", 0.5), ("1e3ms", 1.0), (3, 3.0), (0.25, 0.25), ("0ms", 0.0),
    ],
)  # fmt: skip
def test_texts_of_durations_are_read_as_seconds(text: str | float, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["7", "1.5", "1e3", "1e-400"])
def test_a_duration_in_text_needs_a_unit_and_a_column_of_seconds_does_not(text: str) -> None:
    with pytest.raises(ValueError, match=rf'"{text}" has no unit; allowed: such as {text}ms'):
        duration(text)
    assert seconds_or_duration(f" {text} ") == float(text)
    assert seconds_or_duration(f"{text}min") == duration(f"{text}min")


@pytest.mark.parametrize("text", ["", "ms", "-1s", "1 parsec", "nan", "inf", "1,5s", -1, math.nan, math.inf, True])
def test_an_invalid_duration_is_refused_with_valid_examples(text: str | float) -> None:
    with pytest.raises(ValueError, match=r"is not a duration; allowed: .*40ms") as caught:
        duration(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "bytes_per_second"),
    [("8bit/s", 1.0), ("20Mbit/s", 2.5e6), ("1 Gbit/s", 1.25e8), ("2.5MB/s", 2.5e6), ("unlimited", math.inf)],
)
def test_texts_of_rates_are_read_as_bytes_per_second(text: str, bytes_per_second: float) -> None:
    assert rate(text) == bytes_per_second


@pytest.mark.parametrize("text", ["", "20", "20mbit/s", "0Mbit/s", "-1B/s", "inf", 5, None])
def test_an_invalid_rate_is_refused_with_valid_examples(text: str) -> None:
    with pytest.raises(ValueError, match=r"allowed: .*20Mbit/s") as caught:
        rate(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.04, "40 ms"), (1.2345, "1.23 s"), (0.99996, "1.00 s"), (59.96, "1 min 00 s"),
        (75, "1 min 15 s"), (3599.7, "1 h 00 min"), (1e-9, "1 ns"), (-2, "-2 s"), (math.inf, "for ever"),
    ],
)  # fmt: skip
def test_durations_are_formatted_with_fitting_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_999, "1.00 MB"),
        (1_234_567, "1.23 MB"),
        (1.5e12, "1.50 TB"),
    ],
)
def test_bytes_are_formatted_with_fitting_units(count: float, text: str) -> None:
    assert format_bytes(count) == text


@given(st.floats(min_value=1e-9, max_value=59))
def test_a_formatted_duration_reads_back_to_three_digits(seconds: float) -> None:
    assert duration(format_duration(seconds)) == pytest.approx(seconds, rel=0.006)


@given(st.text(max_size=12))
def test_any_text_is_a_value_or_a_value_error(text: str) -> None:
    for parse in (duration, rate):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            assert str(error)
