"""The tables [[client]], [[link]] and [[host]] of a scenario, for what differs between parties; network presets."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from tacit.sim.table import Keys, about

__all__ = ["PRESETS", "ClientKeys", "HostKeys", "LinkKeys"]


# --- network presets by name, each with the source of its figures
#
# WebPageTest: `www/settings/connectivity.ini.sample` of the project's repository, the profiles FIOS, 4G and 3G.
# Numbers Everyone Should Know: Jeff Dean, "Designs, Lessons and Advice from Building Large Distributed Systems", LADIS
# 2009. Half of a round trip is the latency of one way.


@dataclass(frozen=True)
class Preset:
    """One-way latency, uplink and downlink rates of a client ("" where the source gives none), and the source."""

    latency: str
    up: str
    down: str
    source: str

    @property
    def values(self) -> dict[str, str]:
        """The keys of a [[client]] table that the preset sets."""
        found = {"latency": self.latency, "up": self.up, "down": self.down}
        return {key: value for key, value in found.items() if value}


_DEAN = "Numbers Everyone Should Know"
_WEB = "WebPageTest, connectivity.ini"

PRESETS = {
    "lan": Preset("250us", "1Gbit/s", "1Gbit/s", f"{_DEAN}: 1 Gbit/s network, round trip within a data centre 0.5 ms"),
    "wan": Preset("75ms", "", "", f"{_DEAN}: packet from California to the Netherlands and back 150 ms; no rate given"),
    "fiber": Preset("2ms", "5Mbit/s", "20Mbit/s", f"{_WEB}: FIOS, 20/5 Mbit/s, round trip 4 ms"),
    "4g": Preset("85ms", "9Mbit/s", "9Mbit/s", f"{_WEB}: 4G, 9 Mbit/s, round trip 170 ms"),
    "3g": Preset("150ms", "768kbit/s", "1.6Mbit/s", f"{_WEB}: 3G, 1.6 Mbit/s and 768 kbit/s, round trip 300 ms"),
    "satellite": Preset(
        "279ms",
        "2.43Mbit/s",
        "19.73Mbit/s",
        "RFC 2488, section 2: one way over a geostationary satellite up to 279 ms; rates: Ookla, How Starlink's "
        "Satellite Internet Stacks Up Against HughesNet and Viasat around the Globe, HughesNet, second quarter of 2021",
    ),
}


# --- the tables

_DRAWN = "`lognormal:MEDIAN,SIGMA` or `uniform:LOW,HIGH`: each client draws its own value with the seed"


class ClientKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[client]]: properties of some clients that override [network] and [device]; later tables override earlier
    ones."""

    name: Annotated[
        str,
        about("Clients that the table applies to: `client/3`, or a pattern such as `client/*7`."),
    ] = "client/*"
    share: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        about(
            "Share of the clients matching `name` that the table applies to, drawn with the seed. Tables with a share "
            "and the same `name` apply to different clients; their shares must not exceed 1 in total."
        ),
    ] = None
    file: Annotated[
        str,
        about(
            "CSV file of devices; its columns are keys of this table, except `availability`. With a column `name`, "
            "each line acts as a table of its own. Otherwise, each client of this table draws one line with the seed, "
            "in proportion to the column `share` (default: all lines equally). An empty cell sets nothing.",
            unit="file",
        ),
    ] = ""
    preset: Annotated[
        Literal["", "lan", "wan", "fiber", "4g", "3g", "satellite"],
        about(
            "Network preset, for the keys that the table does not set: "
            + "; ".join(f"`{name}` ({', '.join(one.values.values())})" for name, one in PRESETS.items())
            + ": latency, up, down. Sources: docs/devices.md."
        ),
    ] = ""
    latency: Annotated[
        str | None,
        about(
            "One-way latency of each message on the client's link with the server, written as `network.latency`. "
            "Between two clients of a mesh, their own latencies are added; if neither has one, `network.latency` "
            "applies.",
            unit="distribution",
        ),
    ] = None
    up: Annotated[str | None, about(f"Uplink bandwidth; or {_DRAWN}.", unit="rate")] = None
    down: Annotated[str | None, about(f"Downlink bandwidth; or {_DRAWN}.", unit="rate")] = None
    loss: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | None,
        about(
            "Probability that the client's link with the server loses a message. Between two clients of a mesh, the "
            "losses of both apply.",
            unit="probability",
        ),
    ] = None
    cores: Annotated[Annotated[int, Meta(ge=1)] | None, about("Number of cores.")] = None
    speed: Annotated[
        Annotated[float, Meta(gt=0)] | str | None,
        about(f"Speed of a core relative to the machine of the cost table; or {_DRAWN}.", unit="factor"),
    ] = None
    availability: Annotated[
        str,
        about(
            "CSV file with the columns up and down (seconds). The clients are up only in these intervals; otherwise "
            "they are down as after a crash. With a column `trace` before them, the file has several traces, and each "
            "of the clients draws one with the seed.",
            unit="file",
        ),
    ] = ""
    device_class: Annotated[
        str, about("Name of its class of devices, for the tables of reports and predictions; any text.")
    ] = ""
    radio: Annotated[str, about("Its radio, as in `device.radio`; `none`: its energy is not counted.")] = ""
    processor: Annotated[
        Annotated[float, Meta(ge=0)] | str | None,
        about("Its processor, written as `device.processor`; `none`: its energy is not counted."),
    ] = None


class LinkKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[link]]: properties of the links between some pairs of parties, which override [[client]]."""

    party: Annotated[str, about("One end of the link: a name or a pattern.")]
    peer: Annotated[str, about("Other end of the link: a name or a pattern.")] = "*"
    one_way: Annotated[bool, about("Apply only to messages from party to peer.")] = False
    latency: Annotated[
        str | None, about("One-way latency of each message, written as `network.latency`.", unit="distribution")
    ] = None
    loss: Annotated[
        Annotated[float, Meta(ge=0, lt=1)] | None,
        about("Probability that the link loses a message.", unit="probability"),
    ] = None


class HostKeys(Keys, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """[[host]]: a machine on which several parties run and whose cores they share."""

    parties: Annotated[tuple[str, ...], about('Names or patterns, such as `["server", "client/*"]`.', min_length=1)]
    cores: Annotated[
        int,
        about(
            "Number of cores. If more jobs run at once, all of them take proportionally longer. A party never runs "
            "more jobs at once than it has cores of its own ([device], [[client]]). The speed of a core remains that "
            "of each party.",
            ge=1,
        ),
    ]
