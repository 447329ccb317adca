"""Devices and networks of parties: tables extend [network] and [device] in order, draws follow from the seed."""

import math
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import structs

from tacit.parties.fleet.fleet import Fleet
from tacit.parties.fleet.keys import PRESETS, ClientKeys
from tacit.scenarios.schema.scenario import Client, Data, Host, Link, Network, Scenario
from tacit.sim.conditions import Access
from tacit.sim.setting_error import Problem


def fleet(*client: Client, clients: int = 10, seed: int = 1, **tables: Any) -> Fleet:
    return Fleet(Scenario(seed=seed, data=Data(clients=clients), client=client, **tables))


def devices(tmp_path: Path, text: str, name: str = "client/*") -> Client:
    (tmp_path / "devices.csv").write_text(text)
    return Client(name=name, file=str(tmp_path / "devices.csv"))


def numbers(one: Fleet, **values: Any) -> list[int]:
    """The clients that have these values."""
    every = range(sum(len(some) for some, _ in one.groups()))
    return [i for i in every if all(getattr(one.of(f"client/{i}"), key) == value for key, value in values.items())]


def test_without_tables_all_parties_have_the_links_and_devices_of_network_and_device() -> None:
    network = Network(bandwidth="8Mbit/s", up="1MB/s", latency="5ms", loss=0.1)
    one = fleet(network=network)
    assert one.of("client/3") == Access(1e6, 1e6, 1, 1.0)
    assert one.of("server") == Access(1.25e8, 1.25e8, 4, 1.0)
    latency, loss = one.between("client/3", "server")
    assert (latency.text, loss, one.loses, one.is_uniform) == ("5ms", 0.1, True, True)


def test_later_client_tables_override_earlier_tables_key_by_key() -> None:
    one = fleet(
        Client(up="1MB/s", cores=2),
        Client(name="client/[1-3]", up="2MB/s", speed=0.5),
        Client(name="client/2", cores=8),
    )
    assert one.of("client/0") == Access(1e6, 2.5e6, 2, 1.0)
    assert one.of("client/1") == Access(2e6, 2.5e6, 2, 0.5)
    assert one.of("client/2") == Access(2e6, 2.5e6, 8, 0.5)
    assert [some.tolist() for some, _ in one.groups()] == [[0, *range(4, 10)], [1, 3], [2]]


def test_keys_of_a_table_override_its_preset() -> None:
    one = fleet(Client(preset="3g", up="unlimited"), Client(name="client/1", preset="wan"))
    assert one.of("client/0") == Access(0.0, 2e5, 1, 1.0)
    assert one.of("client/1") == one.of("client/0")  # the source of `wan` has no rates
    assert [one.between("server", f"client/{i}")[0].seconds for i in (0, 1)] == [0.15, 0.075]


def test_every_preset_can_be_chosen_and_names_its_source() -> None:
    for name, preset in PRESETS.items():
        assert fleet(Client(preset=name)).of("client/0").up >= 0  # type: ignore[arg-type]
        assert len(preset.source) > 20
    allowed = next(field.type for field in structs.fields(ClientKeys) if field.name == "preset")
    assert set(get_args(get_args(allowed)[0])) == {"", *PRESETS}


def test_shares_draw_different_clients_by_seed() -> None:
    tables = [Client(share=0.25, cores=2), Client(share=0.5, cores=3), Client(share=0.25, cores=4)]
    one, again, other = (fleet(*tables, clients=40, seed=seed) for seed in (1, 1, 2))
    drawn = [numbers(one, cores=cores) for cores in (2, 3, 4)]
    assert [len(some) for some in drawn] == [10, 20, 10]
    assert [numbers(again, cores=cores) for cores in (2, 3, 4)] == drawn
    assert numbers(other, cores=2) != drawn[0]


def test_a_share_is_a_fraction_of_the_clients_that_match_the_name() -> None:
    one = fleet(Client(name="client/?", share=0.5, cores=2), Client(name="client/1?", share=0.5, cores=3), clients=20)
    assert len(numbers(one, cores=2)) == 5 and max(numbers(one, cores=2)) < 10
    assert len(numbers(one, cores=3)) == 5 and min(numbers(one, cores=3)) > 9


def test_draws_of_a_client_do_not_depend_on_the_other_clients() -> None:
    table = Client(speed="lognormal:2,0.5", up="uniform:1MB/s,2MB/s", down="unlimited")
    few, many = fleet(table, clients=5), fleet(table, Client(name="client/7", cores=3), clients=300)
    assert [few.of(f"client/{i}") for i in range(5)] == [many.of(f"client/{i}") for i in range(5)]
    every = [many.of(f"client/{i}") for i in range(300)]
    assert len({one.speed for one in every}) == 300 and all(1e6 <= one.up <= 2e6 and one.down == 0.0 for one in every)
    logarithms = sorted(math.log(one.speed / 2) for one in every)
    assert (
        abs(logarithms[150]) < 0.1 and 0.4 < logarithms[252] < 0.6
    )  # 0.84 of a normal distribution lie below one deviation


def test_lines_of_devices_with_names_equal_tables(tmp_path: Path) -> None:
    text = "name,preset,cores\nclient/*,4g,2\nclient/4,,8\n\nclient/5,lan,\n"
    one = fleet(devices(tmp_path, text))
    same = fleet(Client(preset="4g", cores=2), Client(name="client/4", cores=8), Client(name="client/5", preset="lan"))
    assert [one.of(f"client/{i}") for i in range(10)] == [same.of(f"client/{i}") for i in range(10)]


def test_lines_of_devices_without_names_are_drawn_by_their_shares(tmp_path: Path) -> None:
    table = devices(tmp_path, "share,cores\n3,2\n1,4\n")
    one = fleet(table, clients=2000)
    assert len(numbers(one, cores=4)) == pytest.approx(500, abs=80)
    assert len(numbers(one, cores=2)) + len(numbers(one, cores=4)) == 2000
    assert numbers(fleet(table, clients=2000, seed=2), cores=4) != numbers(one, cores=4)


def test_latencies_of_two_clients_add_up_on_their_link_in_a_mesh() -> None:
    one = fleet(
        Client(name="client/1", latency="10ms", loss=0.5), Client(name="client/2", latency="uniform:1ms,2ms", loss=0.5),
        network=Network(topology="mesh", latency="5ms"),
    )  # fmt: skip
    found = {(i, j): one.between(f"client/{i}", f"client/{j}") for i, j in [(0, 3), (0, 1), (2, 1)]}
    assert [(latency.text, loss) for latency, loss in found.values()] == [
        ("5ms", 0.0), ("10ms", 0.5), ("uniform:1ms,2ms + 10ms", 0.75)
    ]  # fmt: skip


def test_a_link_table_overrides_the_tables_of_its_ends() -> None:
    one = fleet(
        Client(latency="10ms"),
        link=(
            Link(party="server", peer="client/1", one_way=True, latency="1s"),
            Link(party="client/2", peer="server", loss=0.25),
        ),
    )  # fmt: skip
    assert [one.between(*ends)[0].seconds for ends in (("server", "client/1"), ("client/1", "server"))] == [1.0, 0.01]
    assert [one.between(*ends)[1] for ends in (("server", "client/2"), ("client/2", "server"))] == [0.25, 0.25]
    assert one.loses


def test_parties_of_a_host_share_its_cores() -> None:
    one = fleet(host=(Host(parties=("server", "client/[12]"), cores=2),))
    hosts = [one.of(party).host for party in ("server", "client/1", "client/2", "client/3")]
    assert hosts[0] is not None and hosts[0] is hosts[1] is hosts[2] and hosts[3] is None
    assert hosts[0].cores == 2


def test_an_unavailable_client_crashes_and_returns(tmp_path: Path) -> None:
    (tmp_path / "away.csv").write_text("up,down\n0,10s\n12,\n")
    one = fleet(Client(name="client/3", availability=str(tmp_path / "away.csv")))
    (crash,) = one.crashes()
    assert (crash.party, crash.time, crash.back_after) == ("client/3", 10.0, 2.0)
    every = fleet(Client(availability=str(tmp_path / "away.csv"), share=None), clients=1000).crashes()
    assert [one.party for one in every] == ["client/*"]  # one kind for all
    half = fleet(Client(availability=str(tmp_path / "away.csv"), share=0.5)).crashes()
    assert len(half) == 5


def test_a_hundred_thousand_clients_take_a_few_bytes_each() -> None:
    one = fleet(Client(share=0.5, cores=2), Client(name="client/*7", preset="3g"), clients=100_000)
    assert sum(array.nbytes for array in vars(one).values() if hasattr(array, "nbytes")) <= 200_000
    assert one.of("client/99997").down == 2e5


WRONG = [
    ({"client": [Client(name="client/10")]}, 'client.0.name: "client/10" is no client'),
    ({"client": [Client(), Client(name="server")]}, 'client.1.name: "server" is no client'),
    ({"client": [Client(latency="soon")]}, "client.0.latency: 'soon' is no latency"),
    ({"client": [Client(up="fast")]}, 'client.0.up: "fast" is not a rate'),
    ({"client": [Client(up="normal:1MB/s,2")]}, 'client.0.up: "normal:1MB/s,2" is no distribution; allowed'),
    ({"client": [Client(speed="quick")]}, 'client.0.speed: "quick" is not a number above 0'),
    ({"client": [Client(speed="lognormal:1,-1")]}, "client.0.speed: sigma is '-1'; allowed"),
    ({"client": [Client(speed="uniform:2,1")]}, 'client.0.speed: "uniform:2,1": the low end'),
    ({"client": [Client(share=0.7), Client(share=0.4)]}, 'client.0.share: the shares of "client/*" are 1.1 together'),
    ({"client": [Client(file="none.csv")]}, "client.0.file: none.csv: No such file"),
    ({"client": [Client(availability="none.csv")]}, "client.0.availability: none.csv: No such file"),
    ({"link": [Link(party="server", peer="client/99", loss=0.1)]}, 'link.0.peer: "client/99" is no party'),
    ({"link": [Link(party="client/1", peer="client/2", loss=0.1)]}, 'link.0.peer: "client/2": clients of a star'),
    ({"link": [Link(party="server")]}, "link.0: neither latency nor loss is given"),
    ({"link": [Link(party="server", latency="x")]}, "link.0.latency: 'x' is no latency"),
    ({"host": [Host(parties=("client/x",), cores=1)]}, 'host.0.parties: "client/x" is no party'),
    (
        {"host": [Host(parties=("*",), cores=1), Host(parties=("server",), cores=1)]},
        "host.1.parties: server runs on another host already",
    ),
    (
        {"host": [Host(parties=("client/1",), cores=1), Host(parties=("client/*",), cores=1)]},
        "host.1.parties: client/1 runs on another host already",
    ),
]


@pytest.mark.parametrize(("tables", "line"), WRONG, ids=[line for _, line in WRONG])
def test_an_invalid_table_key_is_named(tables: dict[str, list[Any]], line: str) -> None:
    with pytest.raises(Problem) as refused:
        Fleet(Scenario(data=Data(clients=10), **{key: tuple(value) for key, value in tables.items()}))
    assert str(refused.value).startswith(line)


BAD_FILES = [
    ("", "it is empty"),
    ("cores\n", "no line follows the header"),
    ("core\n2\n", "line 1: 'core' is no column; allowed: name, share"),
    ("cores,cores\n2,2\n", "line 1: 'cores' is there twice"),
    ("cores,speed\n2\n", "line 2: 1 cells; 2 are needed: cores, speed"),
    ("cores\nmany\n", "line 2, column cores: 'many' is not a number"),
    ("cores\n0\n", "line 2, column cores: '0': Expected `int` >= 1"),
    ("preset\n5g\n", "line 2, column preset: '5g': Invalid enum value"),
    ("up\n1MB/s\nfast\n", 'line 3, column up: "fast" is not a rate'),
    ("share,cores\n0,2\n", "line 2, column share: 0 is not a number above 0"),
    ("name,cores\nclient/1,2\n,3\n", "some lines give a name and some do not"),
    ("name,cores\nclient/77,2\n", "line 2, column name: 'client/77' means no client"),
]


@pytest.mark.parametrize(("text", "problem"), BAD_FILES, ids=[problem for _, problem in BAD_FILES])
def test_an_invalid_line_of_a_devices_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(Problem) as refused:
        fleet(devices(tmp_path, text))
    assert str(refused.value).startswith(f"client.0.file: {tmp_path / 'devices.csv'}: {problem}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("party,up,down\nclient/1,0,3\n", "line 1: the header must be up,down"),
        ("up,down\n", "no line follows the header"),
        ("up,down\n3,2\n", "line 2: up from 3 s to 2 s"),
        ("up,down\n0,5\n4,8\n", "line 3: up from 4 s to 8 s"),
        ("up,down\n0,5,6\n", "line 2: 3 cells; up,down are needed"),
        ("up,down\n0,later\n", 'line 2: "later" is not a duration'),
    ],
)
def test_an_invalid_line_of_an_availability_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "away.csv").write_text(text)
    with pytest.raises(Problem) as refused:
        fleet(Client(availability=str(tmp_path / "away.csv")))
    assert str(refused.value).startswith(f"client.0.availability: {tmp_path / 'away.csv'}: {problem}")
