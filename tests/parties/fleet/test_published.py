"""Published traces of devices, read from small synthetic files, and written in the form that [[client]] tables read."""

import csv
import json
import os
import pickle
from collections import OrderedDict
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Client, Scenario
from tacit.parties.fleet.fleet import Fleet
from tacit.parties.fleet.kinds import devices_file, uptimes_file
from tacit.parties.fleet.published import (
    Row,
    Trace,
    availability_lines,
    device_lines,
    fedscale_file,
    flash_file,
    ookla_file,
    plain_pickle,
    with_classes,
    write_lines,
)


def pickled(path: Path, content: Any, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path


# Pickles

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.integers() | st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(content=plain, protocol=st.integers(2, 5))
def test_a_pickle_of_plain_data_is_read_unchanged(
    content: Any, protocol: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert plain_pickle(pickled(tmp_path_factory.mktemp("p") / "plain", content, protocol)) == content


@pytest.mark.parametrize("number", [np.float64(2.5), np.float32(2.5), np.int64(-7), np.int32(7), np.uint8(200)])
@pytest.mark.parametrize("protocol", [2, 4])
def test_numbers_of_numpy_are_read_as_numbers(number: Any, protocol: int, tmp_path: Path) -> None:
    (found,) = plain_pickle(pickled(tmp_path / "number", OrderedDict(a=number), protocol)).values()
    assert found == number and type(found) is float


class Command:
    """A class whose pickle runs a command."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_with_code_is_refused_and_not_run(protocol: int, tmp_path: Path) -> None:
    bad = pickled(tmp_path / "bad", {1: Command(tmp_path / "made")}, protocol)
    with pytest.raises(ValueError, match=f"{bad}: it asks for .*mkdir, which may run code"):
        fedscale_file(bad)
    assert not (tmp_path / "made").exists()


ARRAY = pickle.dumps(np.ones(2))


@pytest.mark.parametrize("content", [b"text", b"\x80\x04]", b"\x80\x04\x8c\x05other\x93.", ARRAY])
def test_a_file_that_is_no_plain_pickle_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad: it (is no pickle|asks for)"):
        plain_pickle(tmp_path / "bad")


# FedScale


def test_capacities_of_fedscale_become_rates_and_delays(tmp_path: Path) -> None:
    file = pickled(tmp_path / "capacity", {7: {"computation": 20.0, "communication": 8000.0}})
    assert fedscale_file(file) == [Row(up=1e6, down=1e6, delay=20.0)]


def test_availability_of_fedscale_becomes_traces(tmp_path: Path) -> None:
    never = {"active": [], "inactive": [], "finish_time": 100, "duration": 0, "model": "a"}
    file = pickled(
        tmp_path / "behave",
        {
            1: {**never, "active": [0, 50], "inactive": [10, 60]},
            2: never,
            3: {**never, "active": [90], "inactive": []},  # until the end
            4: {
                **never,
                "active": [5, 10, 12, 40],
                "inactive": [10, 20, 15, 40],
            },  # adjacent spans are joined; an empty span is dropped
        },
    )
    joined = Trace(((5, 20),), 100)
    assert fedscale_file(file) == [Trace(((0, 10), (50, 60)), 100), Trace(((90, 100),), 100), joined]


CAPACITY = {"computation": 20.0, "communication": 8000.0}
ACTIVE = {"active": [0], "inactive": [10], "finish_time": 100}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], "it holds no table of clients"),
        ({4: {"a": 1}}, "client 4: it has neither computation"),
        ({4: CAPACITY, 5: {"computation": 20.0}}, "client 5: communication is missing"),
        ({4: {**CAPACITY, "computation": -3}}, "client 4: computation is -3; a number from 0 on is needed"),
        ({4: {**CAPACITY, "communication": "fast"}}, "client 4: communication is 'fast'; a number"),
        ({4: {**CAPACITY, "communication": 0}}, "client 4: communication is 0; a number above 0"),
        ({4: CAPACITY, 5: 7}, "client 5: 7 is no table"),
        ({4: {**ACTIVE, "active": 3}}, "client 4: active is 3; a list of seconds"),
        ({4: {**ACTIVE, "active": [0, "x"]}}, r"client 4: active\[1\] is 'x'; a number"),
        ({4: {**ACTIVE, "inactive": [1, 2]}}, "client 4: active has 1 times and inactive 2"),
        ({4: {**ACTIVE, "inactive": [-1]}}, r"client 4: inactive\[0\] is -1; a number from 0"),
        ({4: {**ACTIVE, "active": [20]}}, r"client 4: active\[0\] is 20 and inactive\[0\] 10"),
        ({4: {**ACTIVE, "active": [9, 5], "inactive": [10, 6]}}, r"client 4: active\[1\] is 5 and inactive\[1\] 6"),
        ({4: {**ACTIVE, "finish_time": None}}, "client 4: finish_time is missing"),
        ({4: {**ACTIVE, "active": [100], "inactive": [101]}}, "no client is ever active"),
    ],
)
def test_an_invalid_fedscale_file_is_refused_by_name(content: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^{tmp_path / 'file'}: {problem}"):
        fedscale_file(pickled(tmp_path / "file", content))


# FLASH


def messages(*lines: tuple[int, str]) -> str:
    """A phone's messages, by the minute of a day."""
    return "".join(f"2020-01-02 {minute // 60:02d}:{minute % 60:02d}:00\t{state}\n" for minute, state in lines)


def test_a_phone_of_flash_is_up_while_it_is_locked_charges_and_has_wifi(tmp_path: Path) -> None:
    text = messages(
        (10, "screen_lock"), (11, "battery_charged_on"), (12, "80.0%"), (13, "Wifi"), (20, "screen_on"), (21, "4G"),
        (30, "wifi"), (40, "screen_unlock"), (50, "battery_charged_off"), (60, "unknown"),
    )  # fmt: skip
    table = {"a": {"guid": "a", "model": "x", "messages": text}, "b": {"messages": messages((1, "wifi"))}}
    (tmp_path / "states.json").write_text(json.dumps(table))
    assert flash_file(tmp_path / "states.json") == [Trace(((180, 660), (1200, 1800)), 3000, 600)]


def test_time_0_of_flash_is_its_reference_and_an_interval_without_an_end_is_dropped(tmp_path: Path) -> None:
    ready = messages((60, "screen_lock"), (60, "battery_charged_on"), (60, "wifi"), (90, "4g"))
    table = {
        "day": {"messages": ready + messages((100, "wifi"), (120, "80%"))},
        "next": {"messages": ready.replace("01-02", "01-03") + messages((120, "80%")).replace("01-02", "01-03")},
    }
    (tmp_path / "states.json").write_text(json.dumps(table))
    found = flash_file(tmp_path / "states.json")
    assert found == [Trace(((0, 1800),), 3600, 3600), Trace(((0, 1800),), 3600, 90000)]
    for trace in found:  # both are ready in the first half of each hour, since they repeat hourly
        assert isinstance(trace, Trace)
        assert trace.window(0, 7200) == [(0, 1800), (3600, 5400)]
        assert trace.window(900, 3600) == [(0, 900), (2700, 3600)]


def test_phones_that_flash_cannot_read_are_left_out_and_named(tmp_path: Path) -> None:
    ready = messages((1, "screen_lock"), (1, "battery_charged_on"), (2, "wifi"), (3, "4g"))
    table = {"a": {"messages": ready}, "b": {"messages": ready + "2020-01-0"}, "c": {"messages": ready + "\tx"}}
    (tmp_path / "states.json").write_text(json.dumps(table))
    problems: list[str] = []
    assert flash_file(tmp_path / "states.json", problems.append) == [Trace(((60, 120),), 120, 60)]
    assert [problem.partition(" messages")[0] for problem in problems] == [
        f"{tmp_path / 'states.json'}: device {name}: line 5 of its" for name in "bc"
    ]


def test_rates_of_flash_are_read_in_bytes_per_second(tmp_path: Path) -> None:
    one = {"down_u": 500.0, "down_sigma": 3.0, "up_u": 100.0, "up_sigma": 1.0}
    (tmp_path / "speed.json").write_text(json.dumps({"a": one}))
    assert flash_file(tmp_path / "speed.json") == [Row(up=1e5, down=5e5)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "line 1, column 2: it is no JSON"),
        ("[]", "it holds no table of devices"),
        ('{"a": {}}', "device a: it has neither messages"),
        ('{"a": {"messages": 4}}', "device a: messages is 4"),
        ('{"a": {"messages": "2020\\twifi"}}', "device a: line 1 of its messages is"),
        (
            json.dumps({"a": {"messages": messages((1, "wifi"), (2, "asleep"))}}),
            "device a: line 2 .* 'asleep' is no",
        ),
        (json.dumps({"a": {"messages": messages((2, "wifi"), (1, "4g"))}}), "device a: line 2 .* is before the line"),
        (json.dumps({"a": {"messages": messages((2, "wifi"))}}), "no device is ever locked"),
        ('{"a": {"down_u": 4}}', "device a: up_u is missing"),
        ('{"a": {"down_u": "4", "up_u": 3}}', "device a: down_u is '4'; a number"),
        ("", "it is empty"),
    ],
)
def test_an_invalid_flash_file_is_refused_by_name(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=f"^{tmp_path / 'file'}: ({problem})"):
        flash_file(tmp_path / "file")


# Ookla

TILES = "quadkey,tile,avg_d_kbps,avg_u_kbps,avg_lat_ms,tests,devices\n"


def test_tiles_of_ookla_become_weighted_rates_and_latencies(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{TILES}0231,x,8000,800,40,9,3\n0232,x,0,800,40,9,3\n1231,x,80,8,4,9,1\n")
    one, other = Row(1e5, 1e6, 0.02, weight=3), Row(1e3, 1e4, 0.002, weight=1)
    assert ookla_file(tmp_path / "t.csv") == [one, other]
    assert ookla_file(tmp_path / "t.csv", "023") == [one]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is empty"),
        ("\n", "line 1: the column avg_d_kbps is missing"),
        ("quadkey,avg_d_kbps\n", "line 1: the column avg_u_kbps is missing"),
        (TILES, "there are no tiles with devices"),
        (f"{TILES}0231,x,fast,800,40,9,3\n", "line 2: avg_d_kbps is 'fast'; a number"),
        (f"{TILES}0231,x,8,8,4,9,1\n0231,x,8\n", "line 3: it has no cell for avg_u_kbps"),
        (f"{TILES}0231,x,8,8,-4,9,1\n", "line 2: avg_lat_ms is -4.0; a number from 0"),
    ],
)
def test_an_invalid_file_of_tiles_is_refused_by_name(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=f"^{tmp_path / 't.csv'}: {problem}"):
        ookla_file(tmp_path / "t.csv")


def test_an_area_of_tiles_needs_a_column_of_quadkeys(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("avg_d_kbps,avg_u_kbps,avg_lat_ms,devices\n8,8,4,1\n")
    assert len(ookla_file(tmp_path / "t.csv")) == 1
    with pytest.raises(ValueError, match="the column quadkey is missing, which --quadkey needs"):
        ookla_file(tmp_path / "t.csv", "02")


def test_an_empty_pickle_is_named(tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    with pytest.raises(ValueError, match="none: it is empty"):
        fedscale_file(tmp_path / "none")


def test_a_file_that_is_no_parquet_or_a_missing_parquet_package_is_reported(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"no parquet")
    with pytest.raises(ValueError, match=r"t\.parquet: (Parquet needs pyarrow|it is no Parquet file)"):
        ookla_file(tmp_path / "t.parquet")


# Written files are read by scenarios

amounts = st.floats(1e2, 1e9)
rows = st.builds(Row, amounts, amounts, st.floats(0, 1), st.floats(0.1, 1e4), st.integers(1, 50).map(float))


@given(devices=st.lists(rows, min_size=1, max_size=30), most=st.integers(1, 40), classes=st.integers(1, 5))
def test_converted_devices_are_read_back_in_classes_of_speed(
    devices: list[Row], most: int, classes: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = device_lines(devices, most, classes, 0.5, seed=3)
    assert lines == device_lines(devices, most, classes, 0.5, seed=3)
    read = [line for _, line in devices_file(str(write_lines(tmp_path_factory.mktemp("d") / "x" / "d.csv", lines)))]
    assert 1 <= len(read) <= most
    if len(devices) <= most:
        assert sum(line["share"] for line in read) == sum(row.weight for row in devices)
        speeds, names = [line["speed"] for line in read], [line["device_class"] for line in read]
        assert speeds == sorted(speeds, reverse=True)
        assert len(list(groupby(names))) == len(set(names)) <= classes  # each class has neighbours in speed
        assert speeds[-1] <= 0.5 * (1 + 1e-5)
        assert speeds[0] >= 0.5 * (1 - 1e-5)


def test_device_classes_have_equal_weight() -> None:
    found = with_classes([Row(delay=float(place + 1)) for place in range(9)], 3)
    assert [row.device_class for row in found] == 3 * ["fast"] + 3 * ["middle"] + 3 * ["slow"]
    heavy = with_classes([Row(delay=1.0, weight=8), Row(delay=2.0, weight=1), Row(delay=3.0, weight=1)], 2)
    assert [row.device_class for row in heavy] == ["fast", "slow", "slow"]


@given(
    edges=st.lists(st.integers(0, 100), min_size=2, max_size=8, unique=True).map(sorted),
    start=st.integers(0, 400),
    length=st.integers(1, 400),
)
def test_a_window_is_available_when_the_repeated_trace_is(edges: list[int], start: int, length: int) -> None:
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    trace = Trace(tuple((float(up), float(down)) for up, down in pairs), 101.0)
    found = trace.window(start, length)
    assert all(one[1] < other[0] for one, other in pairwise(found))
    for second in range(length):
        moment = (start + second) % 101 + 0.5
        is_up = any(up <= moment < down for up, down in pairs)
        assert is_up == any(up <= second + 0.5 < down for up, down in found)


def test_a_trace_without_availability_in_the_window_begins_after_the_window() -> None:
    lines = availability_lines([Trace(((50.0, 60.0),), 100.0)], 9, "60s", "20s", seed=1)
    assert lines == [["trace", "up", "down"], ["0", "90", "100"]]


def test_each_client_draws_a_trace_and_a_device(tmp_path: Path) -> None:
    traces = [Trace(((float(number), 50.0),), 100.0) for number in range(20)]
    uptimes = write_lines(tmp_path / "a.csv", availability_lines(traces, 20, "0s", "", seed=1))
    assert uptimes_file(str(uptimes)) == [[(float(number), 50.0)] for number in range(20)]
    devices = write_lines(
        tmp_path / "d.csv", device_lines([Row(up=1e6, delay=1.0), Row(up=2e6, delay=4.0)], 9, 2, 1.0, seed=1)
    )
    with devices.open() as file:
        assert [line["speed"] for line in csv.DictReader(file)] == ["1", "0.25"]

    def crashes(seed: int, *more: Client) -> dict[str, float]:
        tables = (Client(file=str(devices), availability=str(uptimes)), *more)
        scenario = Scenario(seed=seed, client=tables)
        fleet = Fleet(scenario)
        return {crash.party: crash.back_after or 0.0 for crash in fleet.crashes() if crash.time == 0}

    drawn = crashes(1)
    assert len(set(drawn.values())) > 3 and drawn == crashes(1) != crashes(2)
    other = crashes(1, Client(name="client/0", availability=str(uptimes)))
    assert other == drawn


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("trace,up,down\na,0,5\nb,0,5\na,3,9\n", "line 4: up from 3 s"),
        ("trace,up,down\na,0\n", "line 2: 2 cells"),
    ],
)
def test_an_invalid_file_of_traces_is_refused_by_line(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=problem):
        uptimes_file(str(tmp_path / "a.csv"))
