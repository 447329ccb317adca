"""The energy of clients: a radio computed by hand, properties for any sequence of events, and mistakes in keys."""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import Client, Device, Scenario
from tacit.parties.fleet.energy import (
    PROCESSORS,
    RADIOS,
    ClientEnergy,
    EnergyMeter,
    Power,
    Processor,
    Radio,
    parse_processor,
    parse_radio,
)
from tacit.parties.fleet.fleet import Fleet
from tacit.sim.conditions import Conditions
from tacit.sim.latency import parse_latency
from tacit.sim.loop import SimLoop
from tacit.sim.network import LinkNetwork
from tacit.sim.setting_error import Problem
from tacit.sim.trace import Event, Trace
from tacit.sim.wire import Ledger, Packet

RADIO = Radio(up=100.0, down=10.0, base_up=1000.0, base_down=500.0, wake=3.0, tail=200.0, tail_seconds=5.0)
MEGABYTE = 10**6  # 8 Mbit


def meter(radio: Radio | None = RADIO, processor: Processor | None = None) -> EnergyMeter:
    power = Power(radio, processor, lambda size: 0.0)
    return EnergyMeter(lambda party: power if party.startswith("client/") else None)


def sent(ends: float, seconds: float, size: int = MEGABYTE, client: str = "client/0") -> list[Event]:
    """A message from a client, and the end of its transfer."""
    return [
        Event(ends - seconds, "send", client, "server", payload=size),
        Event(ends, "carry", client, "server", value=seconds),
    ]


def received(ends: float, seconds: float, size: int = MEGABYTE, client: str = "client/0") -> list[Event]:
    """The end of the transfer of a message to a client, and its delivery."""
    return [
        Event(ends, "carry", "server", client, value=seconds),
        Event(ends, "deliver", "server", client, payload=size),
    ]


def used(*messages: list[Event]) -> ClientEnergy:
    """The energy of a client that sent and received these messages."""
    found = meter()
    for event in itertools.chain(*messages):
        found(event)
    return found.found()["client/0"]


def test_a_radio_uses_energy_per_bit_per_second_and_in_its_tail() -> None:
    one = used(sent(2.0, 1.0), received(4.0, 1.0))
    assert one.radio == pytest.approx(0.8 + 1.0 + 0.08 + 0.5)
    assert one.tail == pytest.approx(3.0 + 1.0 * 0.2 + 5.0 * 0.2)
    assert one.processor == 0 and one.joules == one.radio + one.tail


def test_a_radio_that_slept_uses_energy_to_wake_up() -> None:
    assert used(sent(1.0, 1.0), sent(101.0, 1.0)).tail == pytest.approx(2 * 3.0 + 2 * 5.0 * 0.2)


def test_transfers_at_the_same_time_extend_one_active_time() -> None:
    one = used(sent(1.0, 1.0), received(1.5, 0.5), sent(2.0, 1.5))  # up from 0 to 2 s, down meanwhile
    assert one.radio == pytest.approx(2 * 0.8 + 0.08 + 1.0 + 0.5 * 0.5 + 0.5 * 1.0)
    assert one.tail == pytest.approx(3.0 + 5.0 * 0.2)


def test_a_long_transfer_covers_short_ones_that_ended_before() -> None:
    one = used(received(3.0, 1.0), received(5.0, 1.0), sent(10.0, 9.0))  # 2 to 3 s, 4 to 5 s, 1 to 10 s
    assert one.radio == pytest.approx(0.8 + 2 * 0.08 + 2 * 0.5 + 7.0)
    assert one.tail == pytest.approx(3.0 + 5.0 * 0.2)


def test_a_copy_that_is_lost_used_the_radio_of_its_sender() -> None:
    lost = [Event(0.0, "send", "client/0", "server", payload=MEGABYTE), Event(4.0, "carry", "client/0", "", value=4.0)]
    assert used(lost).radio == pytest.approx(0.8 + 4.0)


def test_only_clients_with_a_processor_or_radio_use_energy() -> None:
    found = meter(radio=None, processor=Processor(2.5))
    found(Event(0.0, "compute", "client/1", value=4.0))
    found(Event(0.0, "compute", "server", value=4.0))
    for event in sent(1.0, 1.0):
        found(event)
    assert {name: one.joules for name, one in found.found().items()} == {"client/1": 10.0, "client/0": 0.0}


steps = st.tuples(st.sampled_from(["send", "deliver"]), st.floats(0, 20), st.floats(0, 20), st.integers(0, MEGABYTE))


@given(steps=st.lists(steps, min_size=1, max_size=20))
def test_energy_lies_between_its_bounds(steps: list[tuple[str, float, float, int]]) -> None:
    time = bits = seconds = 0.0
    messages = []
    for kind, gap, lasts, size in steps:
        time += gap
        lasts = min(lasts, time)
        messages.append(sent(time, lasts, size) if kind == "send" else received(time, lasts, size))
        bits += 8e-9 * size * (RADIO.up if kind == "send" else RADIO.down)
        seconds += lasts
    one = used(*messages)
    assert bits - 1e-9 <= one.radio <= bits + min(seconds, time) * 1.0 + 1e-9
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


LINEAR = Radio(up=100.0, down=10.0, base_up=1000.0, base_down=1000.0, tail=500.0, tail_seconds=5.0)
ACCESS = 1e6  # bytes a second: 8 Mbit/s


def joules_of_uploads(
    transport: str, *, clients: int = 1, times: int = 1, server: float = 0.0, slow: float = 1.0, access: float = ACCESS,
    latency: str = "0ms", **conditions: Any,
) -> list[ClientEnergy]:  # fmt: skip
    """The energy of each client, of which each sends a megabyte to a server `times` times, 3 s apart."""
    power = Power(LINEAR, None, lambda size: 0.0)
    found = EnergyMeter(lambda party: power if party.startswith("client/") else None)
    given = Conditions("mesh", parse_latency(latency), transport=transport, times=True, **conditions)
    loop = SimLoop()
    network = LinkNetwork(loop, Trace([found]), Ledger(), 1, given)
    network.attach("server", lambda packet: None, up=server, down=server)
    for name in (names := [f"client/{i}" for i in range(clients)]):
        network.attach(name, lambda packet: None, up=access, down=access).stretch(slow)
        for i in range(times):
            packet = Packet(b"", b"", bytes(32), name, "server", 1, "p", "s", "T", 1, 0, False, MEGABYTE, 0, 0)
            loop.env.at(3.0 * i, partial(network.send, packet))
    while loop.env.live:
        loop.env.step()
    loop.finish()
    return [found.found()[name] for name in names]


@pytest.mark.parametrize("transport", ["reliable", "datagram", "tcp"])
def test_a_slow_client_sends_for_longer(transport: str) -> None:
    for slow, seconds in ((1.0, 1.0), (10.0, 10.0)):
        (one,) = joules_of_uploads(transport, slow=slow)
        assert one.radio == pytest.approx(0.8 + seconds, rel=0.05)
        assert one.tail == pytest.approx(2.5)


@pytest.mark.parametrize("transport", ["reliable", "datagram", "tcp"])
def test_a_client_sends_for_as_long_as_the_servers_line_takes(transport: str) -> None:
    (one,) = joules_of_uploads(transport, access=100 * ACCESS, server=ACCESS / 10)
    assert one.radio == pytest.approx(0.8 + 10.0, rel=0.05)
    assert one.tail == pytest.approx(2.5)


def test_clients_that_share_the_servers_line_send_until_it_has_taken_all() -> None:
    for one in joules_of_uploads("tcp", clients=10, server=ACCESS):
        assert one.radio == pytest.approx(0.8 + 10.0, rel=0.05)
        assert one.tail == pytest.approx(2.5)


def test_the_latency_is_no_part_of_a_transfer() -> None:
    (one,) = joules_of_uploads("reliable", times=2, latency="1500ms")
    assert one.radio == pytest.approx(2 * 0.8 + 2 * 1.0)
    assert one.tail == pytest.approx(2.0 * 0.5 + 2.5)


def test_copies_that_are_lost_use_energy() -> None:
    (one,) = joules_of_uploads("datagram", times=10, loss=0.5)
    assert one.radio == pytest.approx(10 * 1.8)
