"""The energy of clients: a radio computed by hand, properties for any sequence of events, and mistakes in keys."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Client, Device, Scenario
from tacit.parties.fleet.energy import (
    PROCESSORS,
    RADIOS,
    EnergyMeter,
    Power,
    Processor,
    Radio,
    parse_processor,
    parse_radio,
)
from tacit.parties.fleet.fleet import Fleet
from tacit.sim.setting_error import Problem
from tacit.sim.trace import Event

RADIO = Radio(up=100.0, down=10.0, base_up=1000.0, base_down=500.0, wake=3.0, tail=200.0, tail_seconds=5.0)
MEGABYTE = 10**6  # 8 Mbit


def meter(radio: Radio | None = RADIO, processor: Processor | None = None, rate: float = 1e6) -> EnergyMeter:
    power = Power(radio, processor, rate, rate, lambda size: 0.0)
    return EnergyMeter(lambda party: power if party.startswith("client/") else None)


def sent(time: float, size: int = MEGABYTE, client: str = "client/0") -> Event:
    return Event(time, "send", client, "server", payload=size)


def received(time: float, size: int = MEGABYTE, client: str = "client/0") -> Event:
    return Event(time, "deliver", "server", client, payload=size)


def test_a_radio_uses_energy_per_bit_per_second_and_in_its_tail() -> None:
    found = meter()
    for event in (sent(1.0), received(4.0)):  # active from 1 to 2 and from 3 to 4 s
        found(event)
    one = found.found()["client/0"]
    assert one.radio == pytest.approx(0.8 + 1.0 + 0.08 + 0.5)
    assert one.tail == pytest.approx(3.0 + 1.0 * 0.2 + 5.0 * 0.2)
    assert one.processor == 0 and one.joules == one.radio + one.tail


def test_a_radio_that_slept_uses_energy_to_wake_up() -> None:
    found = meter()
    for event in (sent(0.0), sent(100.0)):
        found(event)
    assert found.found()["client/0"].tail == pytest.approx(2 * 3.0 + 2 * 5.0 * 0.2)


def test_messages_that_wait_for_the_uplink_extend_one_active_time() -> None:
    found = meter()
    for event in (sent(0.0), sent(0.5), received(1.5)):  # up from 0 to 2 s, down meanwhile
        found(event)
    one = found.found()["client/0"]
    assert one.radio == pytest.approx(2 * 0.8 + 0.08 + 2 * 1.0)
    assert one.tail == pytest.approx(3.0 + 5.0 * 0.2)


def test_only_clients_with_a_processor_or_radio_use_energy() -> None:
    found = meter(radio=None, processor=Processor(2.5))
    found(Event(0.0, "compute", "client/1", value=4.0))
    found(Event(0.0, "compute", "server", value=4.0))
    found(sent(1.0))
    assert {name: one.joules for name, one in found.found().items()} == {"client/1": 10.0, "client/0": 0.0}


steps = st.tuples(st.sampled_from(["send", "deliver"]), st.floats(0, 20), st.integers(0, MEGABYTE))


@given(steps=st.lists(steps, min_size=1, max_size=20), rate=st.floats(1e4, 1e8))
def test_energy_lies_between_its_bounds(steps: list[tuple[str, float, int]], rate: float) -> None:
    found, time = meter(rate=rate), 0.0
    bits, seconds = 0.0, 0.0
    for kind, gap, size in steps:
        time += gap
        found(sent(time, size) if kind == "send" else received(time, size))
        bits += 8e-9 * size * (RADIO.up if kind == "send" else RADIO.down)
        seconds += size / rate
    one = found.found()["client/0"]
    assert bits - 1e-9 <= one.radio <= bits + seconds * 1.0 + 1e-9
    most = len(steps) * (RADIO.wake + RADIO.tail_seconds * RADIO.tail / 1000)
    assert RADIO.wake + RADIO.tail_seconds * RADIO.tail / 1000 - 1e-9 <= one.tail <= most + 1e-9


def test_presets_have_sources_and_values_are_read() -> None:
    assert all(radio.source and min(radio.up, radio.down, radio.base_up) > 0 for radio in RADIOS.values())
    assert all(one.source and 0 < one.watts < 5 for one in PROCESSORS.values())
    assert parse_radio("4g") is RADIOS["4g"] and parse_radio("none") is parse_radio("") is None
    assert parse_radio("linear:1,2,3") == Radio(1, 2, 3, 3)
    assert parse_radio("linear:1,2,3,4,5") == Radio(1, 2, 3, 3, 0, 4, 5)
    assert parse_processor(2) == parse_processor("2.0") == Processor(2.0)
    assert parse_processor("phone-slow") is PROCESSORS["phone-slow"] and parse_processor("none") is None


@pytest.mark.parametrize(
    ("scenario", "problem"),
    [
        (Scenario(device=Device(radio="6g")), 'device.radio: "6g" is no radio; allowed: wifi'),
        (Scenario(device=Device(radio="linear:1,2")), 'device.radio: "linear:1,2" is no radio'),
        (Scenario(device=Device(radio="linear:1,2,-3")), 'device.radio: "linear:1,2,-3": numbers from 0'),
        (Scenario(device=Device(processor="big")), 'device.processor: "big" is no processor; allowed: phone-fast'),
        (Scenario(client=(Client(radio="6g"),)), 'client.0.radio: "6g" is no radio'),
        (Scenario(client=(Client(processor="x"),)), 'client.0.processor: "x" is no processor'),
    ],
)
def test_an_invalid_energy_key_is_named(scenario: Scenario, problem: str) -> None:
    with pytest.raises(Problem) as refused:
        Fleet(scenario)
    assert str(refused.value).startswith(problem)


def test_tables_change_the_radio_of_some_clients() -> None:
    tables = (Client(name="client/[0-3]", radio="none", processor="none"), Client(name="client/2", radio="wifi"))
    fleet = Fleet(Scenario(device=Device(radio="4g", processor=2.0), client=tables))
    powers = [fleet.power(f"client/{number}") for number in range(5)]
    assert powers[0] is powers[1] is powers[3] is None and fleet.power("server") is None
    assert powers[2] is not None and (powers[2].radio, powers[2].processor) == (RADIOS["wifi"], None)
    assert powers[4] is not None and powers[4].processor == Processor(2.0)
    assert fleet.counts_energy and not Fleet(Scenario()).counts_energy


def test_a_file_of_devices_gives_radios_and_processors(tmp_path: Path) -> None:
    file = tmp_path / "kinds.csv"
    file.write_text("name,device_class,radio,processor\nclient/1,old,3g,phone-slow\nclient/2,new,5g,1.5\n")
    fleet = Fleet(Scenario(client=(Client(file=str(file)),)))
    one, other = fleet.power("client/1"), fleet.power("client/2")
    assert one is not None and (one.radio, one.processor) == (RADIOS["3g"], PROCESSORS["phone-slow"])
    assert other is not None and (other.radio, other.processor) == (RADIOS["5g"], Processor(1.5))
    file.write_text("name,radio\nclient/1,6g\n")
    with pytest.raises(Problem, match='line 2, column radio: "6g" is no radio'):
        Fleet(Scenario(client=(Client(file=str(file)),)))
